//! `launch`: a definition of what a host carries out.

use nervekit_permissions::{ActionRisks, Risk, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::definition::{HandledBy, ToolDefinition};
use crate::tool::Tool;

/// The arguments of `launch`.
///
/// ```
/// use nervekit_tools::catalog::{Launch, LaunchAction};
/// let args: Launch = serde_json::from_str(r#"{"action": "start", "name": "dev server"}"#)?;
/// assert_eq!(args.action, LaunchAction::Start { name: "dev server".to_owned() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Launch {
    /// What to do.
    #[serde(flatten)]
    pub action: LaunchAction,
}

/// What `launch` does.
///
/// ```
/// use nervekit_tools::catalog::LaunchAction;
/// let action: LaunchAction = serde_json::from_str(r#"{"action": "status"}"#)?;
/// assert_eq!(action, LaunchAction::Status { name: None });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LaunchAction {
    /// The configurations that the person defined.
    List,
    /// What runs, of one or of all.
    Status {
        /// The name of the configuration, as `list` tells it.
        name: Option<String>,
    },
    /// Runs one.
    Start {
        /// The name of the configuration, as `list` tells it.
        name: String,
    },
    /// Ends and runs it again.
    Restart {
        /// The name of the configuration, as `list` tells it.
        name: String,
    },
    /// Ends it.
    Stop {
        /// The name of the configuration, as `list` tells it.
        name: String,
    },
    /// The end of its output.
    Logs {
        /// The name of the configuration, as `list` tells it.
        name: String,
    },
}

/// The tool `launch`: run configurations that the person defined. A definition without an executor, which the host
/// supplies.
///
/// To list, look and read logs is to read; the rest is of unknown risk, as the commands behind it are.
///
/// ```
/// use nervekit_permissions::{EffectiveArguments, Risk};
/// let tool = nervekit_tools::catalog::launch();
/// let risk = |action: &str| EffectiveArguments::parse(action).map(|sent| tool.descriptor().risk_of(&sent));
/// assert_eq!(risk(r#"{"action": "list"}"#)?, Risk::Read);
/// assert_eq!(risk(r#"{"action": "start", "name": "dev server"}"#)?, Risk::Unknown);
/// # Ok::<(), nervekit_permissions::ArgumentsError>(())
/// ```
#[must_use]
pub fn launch() -> Tool {
    let arguments = ArgumentType::of::<Launch>();
    let reading = ["list", "status", "logs"];
    let actions =
        reading.into_iter().fold(ActionRisks::new("action"), |risks, action| risks.risk(action, Risk::Read));
    let descriptor = ToolDescriptor::new("launch", ToolKind::Orchestration, Risk::Unknown)
        .group("launches")
        .primary_argument("name")
        .whole_tool()
        .actions(actions);
    let definition = ToolDefinition::new(
        descriptor,
        "Works with the run configurations that the person defined for this project, such as a development server: \
         lists them, starts, restarts and stops them, tells their state, reads their output.",
        arguments.schema().clone(),
    )
    .label("Launch")
    .capability("launches")
    .handled_by(HandledBy::Host);
    Tool::handled_elsewhere(definition, arguments)
}
