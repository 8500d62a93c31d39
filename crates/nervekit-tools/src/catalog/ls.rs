//! `ls`: the entries of a folder.

use async_trait::async_trait;
use nervekit_permissions::{EntryKind, Risk, TargetSelector, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::context::ToolContext;
use crate::definition::ToolDefinition;
use crate::error::ToolError;
use crate::executor::{ToolCall, ToolExecutor};
use crate::local::walk::Walk;
use crate::outcome::ToolOutcome;
use crate::output::{ToolOutput, UserProjection};
use crate::projection::{Keep, OutputBudget};
use crate::tool::Tool;

/// The arguments of `ls`.
///
/// ```
/// use nervekit_tools::catalog::Ls;
/// let args: Ls = serde_json::from_str(r#"{"path": "src"}"#)?;
/// assert!(!args.hidden);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Ls {
    /// The folder. Default: the working directory.
    pub path: Option<String>,
    /// Also entries that begin with a dot.
    #[serde(default)]
    pub hidden: bool,
    /// How many entries at most. Default: 500.
    #[schemars(range(min = 1, max = 2_000))]
    pub limit: Option<usize>,
}

/// The tool `ls`: what is in a folder.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nervekit_tools::{catalog, testing::TestBed};
/// let bed = TestBed::temporary();
/// std::fs::create_dir(bed.folder().join("src"))?;
/// std::fs::write(bed.folder().join("a.txt"), "12345")?;
/// let run = bed.run(catalog::ls(), serde_json::json!({})).await;
/// assert_eq!(run.settled().unwrap().agent, "a.txt\nsrc/\n");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn ls() -> Tool {
    let arguments = ArgumentType::of::<Ls>();
    let descriptor = ToolDescriptor::new("ls", ToolKind::Filesystem, Risk::Read)
        .group("file_inspection")
        .primary_argument("path")
        .target(TargetSelector::path("path").tree().or_working_directory())
        .cosmetic("limit");
    let definition = ToolDefinition::new(
        descriptor,
        "Lists a folder: one name per line, in order; folders end with `/`, links with `@`. Leaves out what \
         .gitignore ignores.",
        arguments.schema().clone(),
    )
    .label("List folder")
    .parallel()
    .replay_safe()
    .budget(OutputBudget::new(24_000, 2_000).keep(Keep::Head));
    Tool::new(definition, arguments, LsExecutor)
}

#[derive(Debug)]
struct LsExecutor;

#[async_trait]
impl ToolExecutor for LsExecutor {
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError> {
        let args: Ls = call.typed()?;
        let output = context.blocking(move |context| list(context, &args)).await??;
        Ok(if context.is_cancelled() { ToolOutcome::Cancelled } else { output.into() })
    }
}

fn list(context: &ToolContext, args: &Ls) -> Result<ToolOutput, ToolError> {
    let path = context.path("path")?;
    let target =
        context.target("path").ok_or_else(|| ToolError::new("no folder was decided for this call"))?;
    if path.metadata().is_ok_and(|metadata| metadata.kind == EntryKind::File) {
        return Err(ToolError::new(format!("`{}` is a file; `read` reads it", path.display())));
    }
    let limit = args.limit.unwrap_or(500).clamp(1, 2_000);
    let mut walk = Walk::new(context, target, args.hidden, false)?;
    let mut text = String::new();
    let (mut shown, mut more) = (0_usize, 0_u64);
    for entry in &mut walk {
        if shown == limit {
            more += 1;
            continue;
        }
        shown += 1;
        text.push_str(&entry.shown());
        text.push_str(match entry.kind {
            EntryKind::Folder => "/\n",
            EntryKind::Link => "@\n",
            EntryKind::Other => " (pipe, socket or device)\n",
            _ => "\n",
        });
    }
    if shown == 0 {
        text.push_str("no entries\n");
    }
    let mut hints = Vec::new();
    if more > 0 {
        hints.push(format!("[{more} more entries; raise `limit`, or use `find`]"));
    }
    hints.extend(walk.left_out.hint(true));
    let summary = UserProjection::text(format!("{shown} entries in {}", path.display()));
    let output = ToolOutput::text(text).summary(summary);
    Ok(if hints.is_empty() { output } else { output.hint(hints.join("\n")) })
}
