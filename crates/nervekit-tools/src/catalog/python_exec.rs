//! `python_exec`: runs Python; a definition, whose executor a host supplies.

use std::collections::BTreeMap;

use nervekit_permissions::{Risk, TargetSelector, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::definition::ToolDefinition;
use crate::tool::Tool;

/// The arguments of `python_exec`.
///
/// ```
/// use nervekit_tools::catalog::{PythonExec, PythonSource};
/// let args: PythonExec = serde_json::from_str(r#"{"code": "print(1)", "timeout": 10}"#)?;
/// assert_eq!(args.source, PythonSource::Code("print(1)".to_owned()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PythonExec {
    /// What is run.
    #[serde(flatten)]
    pub source: PythonSource,
    /// The folder to run in. Default: the working directory.
    pub cwd: Option<String>,
    /// Seconds after which the program and everything it started is ended. At most 600.
    #[schemars(range(min = 1, max = 600))]
    pub timeout: Option<u64>,
    /// Environment variables besides those that every program has. No secrets, nothing that loads code.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// Where the program comes from.
///
/// ```
/// use nervekit_tools::catalog::PythonSource;
/// let source: PythonSource = serde_json::from_str(r#"{"path": "tools/count.py"}"#)?;
/// assert_eq!(source, PythonSource::Path("tools/count.py".to_owned()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PythonSource {
    /// The program itself.
    Code(String),
    /// Instead of `code`: a file with the program.
    Path(String),
}

/// The tool `python_exec`: runs a Python program to its end. A definition without an executor.
///
/// The script is a file that is read, and an approval binds its content; a folder to run in counts as written, with
/// everything below.
///
/// ```
/// use nervekit_permissions::EffectiveArguments;
/// let tool = nervekit_tools::catalog::python_exec();
/// let both = EffectiveArguments::parse(r#"{"code": "print(1)", "path": "count.py"}"#)?;
/// let error = tool.effective(&both).unwrap_err();
/// assert_eq!(error.to_string(), "the arguments are not valid: give only one of `code`, `path`");
/// # Ok::<(), nervekit_permissions::ArgumentsError>(())
/// ```
#[must_use]
pub fn python_exec() -> Tool {
    let arguments = ArgumentType::of::<PythonExec>();
    let descriptor = ToolDescriptor::new("python_exec", ToolKind::Code, Risk::Unknown)
        .group("python")
        .primary_argument("code")
        .primary_argument("path")
        .whole_tool()
        .target(TargetSelector::path("path").optional().binding_content())
        .target(TargetSelector::path("cwd").write().tree().optional())
        .cosmetic("timeout");
    let definition = ToolDefinition::new(
        descriptor,
        "Runs a Python 3 program, given as `code` or as a file, and returns its exit code and output. Each call is \
         a new interpreter without input. Files written to the folder for artifacts are kept.",
        arguments.schema().clone(),
    )
    .label("Run Python")
    .capability("python");
    Tool::handled_elsewhere(definition, arguments)
}
