//! `edit`: replaces texts in a file.

use async_trait::async_trait;
use nervekit_permissions::{Risk, TargetSelector, ToolDescriptor, ToolKind};
use nervekit_types::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};

use crate::argument::ArgumentType;
use crate::context::ToolContext;
use crate::definition::ToolDefinition;
use crate::edit::{Edit, apply};
use crate::error::ToolError;
use crate::executor::{ToolCall, ToolExecutor};
use crate::local::file::{read_whole, replace_seen, unchanged_since_read};
use crate::outcome::ToolOutcome;
use crate::output::{FileAccess, FileFact, ToolOutput, UserProjection};
use crate::tool::Tool;

/// The arguments of `edit`.
///
/// ```
/// use nervekit_tools::catalog::EditFile;
/// let args: EditFile = serde_json::from_str(r#"{"path": "a", "edits": [{"old_text": "x", "new_text": "y"}]}"#)?;
/// assert_eq!(args.edits.len(), 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EditFile {
    /// The file.
    pub path: String,
    /// The replacements. Each `old_text` is looked for in the file as it is now; they may not overlap, and all are
    /// made or none.
    #[schemars(length(min = 1))]
    pub edits: Vec<Edit>,
    /// Shows the difference and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The tool `edit`: replaces exact texts in a file, all or none.
///
/// Line ends, byte order mark, the end of the file, mode and owner stay as they are.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nervekit_tools::{catalog, testing::TestBed};
/// let bed = TestBed::temporary();
/// std::fs::write(bed.folder().join("a.txt"), "one\r\ntwo\r\n")?;
/// let edit = serde_json::json!({"path": "a.txt", "edits": [{"old_text": "one\n", "new_text": "1\n"}]});
/// let run = bed.run(catalog::edit(), edit).await;
/// assert!(run.settled().unwrap().agent.contains("-one\n+1\n"));
/// assert_eq!(std::fs::read_to_string(bed.folder().join("a.txt"))?, "1\r\ntwo\r\n");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn edit() -> Tool {
    let arguments = ArgumentType::of::<EditFile>();
    let descriptor = ToolDescriptor::new("edit", ToolKind::Filesystem, Risk::Write)
        .group("file_editing")
        .primary_argument("path")
        .target(TargetSelector::path("path").write());
    let definition = ToolDefinition::new(
        descriptor,
        "Replaces texts in a file. Each `old_text` has to occur exactly once, letter for letter, including \
         indentation. Several changes of one file go into one call. Returns the difference.",
        arguments.schema().clone(),
    )
    .label("Edit");
    Tool::new(definition, arguments, EditExecutor)
}

#[derive(Debug)]
struct EditExecutor;

#[async_trait]
impl ToolExecutor for EditExecutor {
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError> {
        let args: EditFile = call.typed()?;
        if context.is_cancelled() {
            return Ok(ToolOutcome::Cancelled);
        }
        Ok(context.blocking(move |context| change(context, &args)).await??.into())
    }
}

fn change(context: &ToolContext, args: &EditFile) -> Result<ToolOutput, ToolError> {
    let path = context.path("path")?;
    let name = path.display();
    let original = read_whole(path)?;
    let seen = unchanged_since_read(context, path, &original)?;
    let edited = apply(&original, &args.edits).map_err(|error| ToolError::new(error.to_string()))?;
    let difference = Difference::new(&name, &original, &edited);
    let Difference { text, added, removed } = difference;
    let counts = format!("+{added} -{removed} lines");
    if args.dry_run {
        let output = ToolOutput::verbatim(&*text)
            .status(format!("`{name}` would change ({counts}); nothing was written"));
        return Ok(output.summary(UserProjection::diff(text, added, removed)));
    }
    replace_seen(path, Some(seen), &edited)?;
    let fact = FileFact::new(ToolContext::file_key(path), FileAccess::Written, Digest::of(&edited));
    let output = ToolOutput::verbatim(&*text).status(format!("edited `{name}` ({counts})"));
    Ok(output.summary(UserProjection::diff(text, added, removed)).file(fact))
}

struct Difference {
    text: String,
    added: u64,
    removed: u64,
}

impl Difference {
    /// A unified diff with three lines around each change. Line ends are shown as line feeds.
    fn new(name: &str, old: &[u8], new: &[u8]) -> Self {
        let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "\n");
        let (old, new) = (plain(old), plain(new));
        let diff = TextDiff::configure().timeout(std::time::Duration::from_secs(2)).diff_lines(&*old, &*new);
        let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count() as u64;
        let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
        let text = diff.unified_diff().context_radius(3).header(name, name).to_string();
        Self { text, added, removed }
    }
}

#[cfg(test)]
mod tests;
