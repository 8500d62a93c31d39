//! `write`: a whole file.

use async_trait::async_trait;
use nervekit_permissions::{EntryKind, Risk, TargetSelector, ToolDescriptor, ToolKind};
use nervekit_types::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::context::ToolContext;
use crate::definition::ToolDefinition;
use crate::error::ToolError;
use crate::executor::{ToolCall, ToolExecutor};
use crate::local::file::{read_whole, refused, replace_seen, unchanged_since_read};
use crate::outcome::ToolOutcome;
use crate::output::{FileAccess, FileFact, ToolOutput, UserProjection};
use crate::projection::count_lines;
use crate::tool::Tool;

/// The arguments of `write`.
///
/// ```
/// use nervekit_tools::catalog::Write;
/// let args: Write = serde_json::from_str(r#"{"path": "a", "content": ""}"#)?;
/// assert_eq!(args.path, "a");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Write {
    /// The file. Missing folders above it are made.
    pub path: String,
    /// The whole content, written as it is.
    pub content: String,
}

/// The tool `write`: makes a file, or replaces all that is in it.
///
/// A file that changed since this conversation last read or wrote it is refused; one that it never read may be
/// replaced. The result tells nothing of the old content, so that a rule against reading holds.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nervekit_tools::{catalog, testing::TestBed};
/// let bed = TestBed::temporary();
/// let run = bed.run(catalog::write(), serde_json::json!({"path": "new/a.txt", "content": "hi\n"})).await;
/// assert_eq!(run.settled().unwrap().agent, "created `new/a.txt`: 3 bytes, 1 line");
/// assert_eq!(std::fs::read_to_string(bed.folder().join("new/a.txt"))?, "hi\n");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn write() -> Tool {
    let arguments = ArgumentType::of::<Write>();
    let descriptor = ToolDescriptor::new("write", ToolKind::Filesystem, Risk::Write)
        .group("file_editing")
        .primary_argument("path")
        .target(TargetSelector::path("path").write());
    let definition = ToolDefinition::new(
        descriptor,
        "Creates a file or replaces its whole content. To change a part of a file use `edit`. Refused when the \
         file changed since you last read it.",
        arguments.schema().clone(),
    )
    .label("Write");
    Tool::new(definition, arguments, WriteExecutor)
}

#[derive(Debug)]
struct WriteExecutor;

#[async_trait]
impl ToolExecutor for WriteExecutor {
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError> {
        let args: Write = call.typed()?;
        if context.is_cancelled() {
            return Ok(ToolOutcome::Cancelled);
        }
        Ok(context.blocking(move |context| put(context, &args)).await??.into())
    }
}

fn put(context: &ToolContext, args: &Write) -> Result<ToolOutput, ToolError> {
    let path = context.path("path")?;
    let name = path.display();
    let seen = match path.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(refused(path, error)),
        Ok(metadata) if metadata.kind == EntryKind::Folder => {
            return Err(ToolError::new(format!("`{name}` is a folder; give the path of a file")));
        }
        Ok(_) => Some(unchanged_since_read(context, path, &read_whole(path)?)?),
    };
    replace_seen(path, seen, args.content.as_bytes())?;
    let digest = Digest::of(&args.content);
    let lines = match count_lines(&args.content) {
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines"),
    };
    let verb = if seen.is_some() { "replaced" } else { "created" };
    let text = format!("{verb} `{name}`: {} bytes, {lines}", args.content.len());
    let fact = FileFact::new(ToolContext::file_key(path), FileAccess::Written, digest);
    Ok(ToolOutput::text(&*text).summary(UserProjection::text(text)).file(fact))
}
