//! What a call produced, and what of it the model and the transcript see.

use bytes::Bytes;
use nervekit_types::{AssetId, Digest};
use serde::{Deserialize, Serialize};

use crate::asset::ByteStream;
use crate::assets::{AssetCategory, Attachment, CallAssets};
use crate::capture::CapturedOutput;
use crate::projection::{Cut, OutputBudget, clip, count_lines, cut, cut_ends, plain_text};

/// The bulk of a result.
///
/// ```
/// use nervekit_tools::{OutputBody, ToolOutput};
/// let output = ToolOutput::new(OutputBody::Bytes("\u{1b}[31mred".into()));
/// assert!(!output.failed);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OutputBody {
    /// Text; terminal escapes are stripped from what the model reads.
    Text(String),
    /// Text of which every character counts, such as a file that is to be edited: shown as it is.
    Verbatim(String),
    /// Bytes that need not be text; terminal escapes are stripped from what the model reads.
    Bytes(Bytes),
    /// The output of a process.
    Captured(CapturedOutput),
}

/// What a call produced.
///
/// Three views come of it, with budgets of their own: the complete result, never cut; the *agent projection*,
/// which the model reads; the *user projection*, a few lines or a diff for a transcript.
///
/// ```
/// use nervekit_tools::{ToolOutput, UserProjection};
/// let output = ToolOutput::text("line 1\nline 2\n")
///     .status("exit code 0")
///     .hint("3 more files match; raise `limit` to see them")
///     .summary(UserProjection::text("2 lines"));
/// assert!(!output.failed);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The complete result, or where it is.
    pub body: OutputBody,
    /// What the model reads first, whatever is cut: exit code, counts, errors.
    pub status: Option<String>,
    /// What the model reads last, whatever is cut: how to go on.
    pub hint: Option<String>,
    /// What a person reads; without one, the first lines.
    pub summary: Option<UserProjection>,
    /// The assets of the result.
    pub attachments: Vec<Attachment>,
    /// The files that were read or written.
    pub files: Vec<FileFact>,
    /// Whether the call settles as failed, although there is a result to read.
    pub failed: bool,
}

impl ToolOutput {
    /// Makes an output.
    #[must_use]
    pub const fn new(body: OutputBody) -> Self {
        Self {
            body,
            status: None,
            hint: None,
            summary: None,
            attachments: Vec::new(),
            files: Vec::new(),
            failed: false,
        }
    }

    /// Makes an output of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(OutputBody::Text(text.into()))
    }

    /// Makes an output of text of which every character counts.
    #[must_use]
    pub fn verbatim(text: impl Into<String>) -> Self {
        Self::new(OutputBody::Verbatim(text.into()))
    }

    /// Sets what the model reads first.
    #[must_use]
    pub fn status(self, status: impl Into<String>) -> Self {
        Self { status: Some(status.into()), ..self }
    }

    /// Sets what the model reads last.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Sets what a person reads.
    #[must_use]
    pub fn summary(self, summary: UserProjection) -> Self {
        Self { summary: Some(summary), ..self }
    }

    /// Adds an asset.
    #[must_use]
    pub fn attach(mut self, attachment: Attachment) -> Self {
        self.attachments.push(attachment);
        self
    }

    /// Notes a file that was read or written, with the digest of its content, so that a later change by
    /// someone else is seen.
    #[must_use]
    pub fn file(mut self, file: FileFact) -> Self {
        self.files.push(file);
        self
    }

    /// Settles the call as failed.
    #[must_use]
    pub fn failed(self) -> Self {
        Self { failed: true, ..self }
    }

    /// Makes the views, and stores the complete result as an asset where the model does not read all of it.
    ///
    /// A store that fails does not fail the call, whose effect has happened: the model is told instead.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// use nervekit_tools::{CallAssets, OutputBudget, ToolOutput};
    /// let assets = CallAssets::in_memory();
    /// let text: String = (0..1_000).map(|n| format!("{n}\n")).collect();
    /// let settled = ToolOutput::text(&*text).settle(OutputBudget::new(1_000, 10), &assets).await;
    /// assert!(settled.agent.len() <= 1_000);
    /// let complete = settled.complete.unwrap();
    /// assert_eq!(assets.read(complete, 0..u64::MAX).await.unwrap(), text);
    /// # });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn settle(mut self, budget: OutputBudget, assets: &CallAssets) -> SettledOutput {
        let whole = self.project(budget, None);
        let stored = match &self.body {
            OutputBody::Captured(output) => Ok(output.asset),
            _ if !whole.lossy => Ok(None),
            OutputBody::Text(text) | OutputBody::Verbatim(text) => {
                self.store(assets, text.clone().into()).await
            }
            OutputBody::Bytes(bytes) => self.store(assets, bytes.clone()).await,
        };
        let (complete, where_it_is) = match (stored, &self.body) {
            (Ok(None), _) if !whole.lossy => (None, None),
            (Ok(None), _) => (None, Some("The complete output was not kept.".to_owned())),
            (Ok(Some(asset)), body) => (Some(asset), whole.lossy.then(|| read_more(asset, body))),
            (Err(problem), _) => (None, Some(format!("The complete output could not be stored: {problem}."))),
        };
        let agent = self.project(budget, where_it_is.as_deref()).text;
        let user = self.summary.take().unwrap_or_else(|| UserProjection::text(&whole.text)).bounded();
        SettledOutput {
            agent,
            user,
            complete,
            attachments: self.attachments,
            files: self.files,
            failed: self.failed,
        }
    }

    async fn store(&mut self, assets: &CallAssets, bytes: Bytes) -> Result<Option<AssetId>, String> {
        let written = assets.write(AssetCategory::Payload, "complete result", ByteStream::from(bytes)).await;
        let attachment = written.map_err(|error| error.to_string())?;
        let asset = attachment.asset;
        self.attachments.push(attachment);
        Ok(Some(asset))
    }

    /// Status, bulk and hint within a budget.
    fn project(&self, budget: OutputBudget, where_it_is: Option<&str>) -> Projected {
        // Status and hint come before bulk when room is short; they are bounded themselves.
        let bounded = |text: &str, bytes| {
            cut(&plain_text(text.as_bytes()), &OutputBudget::new(bytes, budget.lines)).text
        };
        let status = self.status.as_deref().map(|text| bounded(text, budget.bytes / 4)).unwrap_or_default();
        let hints = [where_it_is, self.hint.as_deref()];
        let hints: Vec<&str> = hints.into_iter().flatten().collect();
        let hint = bounded(&hints.join("\n"), budget.bytes / 2);
        let room =
            OutputBudget { bytes: budget.bytes.saturating_sub(status.len() + hint.len() + 2), ..budget };
        let (cut, lossy): (Cut, bool) = match &self.body {
            OutputBody::Text(text) => (cut(&plain_text(text.as_bytes()), &room), false),
            OutputBody::Verbatim(text) => (cut(text, &room), false),
            OutputBody::Bytes(bytes) => (cut(&plain_text(bytes), &room), std::str::from_utf8(bytes).is_err()),
            OutputBody::Captured(output) => {
                (cut_ends(&output.head, &output.tail, output.byte_length, &room), false)
            }
        };
        let lossy = lossy || cut.is_cut();
        let mut text = status;
        for part in [&cut.text, &hint] {
            if !text.is_empty() && !text.ends_with('\n') && !part.is_empty() {
                text.push('\n');
            }
            text.push_str(part);
        }
        Projected { text, lossy }
    }
}

struct Projected {
    text: String,
    /// Whether the reader misses something of the body.
    lossy: bool,
}

fn read_more(asset: AssetId, body: &OutputBody) -> String {
    let length = match body {
        OutputBody::Text(text) | OutputBody::Verbatim(text) => text.len() as u64,
        OutputBody::Bytes(bytes) => bytes.len() as u64,
        OutputBody::Captured(output) => output.byte_length,
    };
    format!(
        "Complete output: {length} bytes in asset `{asset}`; read more of it with `read` and its `asset` argument."
    )
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<()> for ToolOutput {
    fn from((): ()) -> Self {
        Self::text("done")
    }
}

/// A result that the model reads as JSON.
///
/// ```
/// use nervekit_tools::{Json, OutputBody, ToolOutput};
/// let output = ToolOutput::from(Json(vec![1, 2]));
/// assert_eq!(output.body, OutputBody::Text("[\n  1,\n  2\n]".into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize> From<Json<T>> for ToolOutput {
    fn from(Json(value): Json<T>) -> Self {
        match serde_json::to_string_pretty(&value) {
            Ok(text) => Self::text(text),
            // A map whose keys are no texts, or a failing `Serialize`: the call had its effect all the same.
            Err(error) => Self::text(format!("the result cannot be shown as JSON: {error}")).failed(),
        }
    }
}

/// What a person reads of a result: a few lines, or a diff.
///
/// ```
/// use nervekit_tools::UserProjection;
/// assert_eq!(UserProjection::text("12 matches in 3 files").kind(), "text");
/// assert_eq!(UserProjection::diff("-a\n+b\n", 1, 1).kind(), "diff");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum UserProjection {
    /// A few lines.
    Text {
        /// The lines.
        text: String,
    },
    /// A unified diff.
    Diff {
        /// The diff.
        text: String,
        /// Lines added.
        added: u64,
        /// Lines removed.
        removed: u64,
    },
}

impl UserProjection {
    /// A few lines.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A unified diff with its counts.
    #[must_use]
    pub fn diff(text: impl Into<String>, added: u64, removed: u64) -> Self {
        Self::Diff { text: text.into(), added, removed }
    }

    /// The word for the variant.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Diff { .. } => "diff",
        }
    }

    /// Brings the text within the budget of a transcript card: 12 lines of 200 bytes, of a diff 200 lines and
    /// 16 KiB.
    fn bounded(self) -> Self {
        match self {
            Self::Text { text } => {
                let mut lines: Vec<String> =
                    text.lines().take(12).map(|line| clip(line, 200).into()).collect();
                let more = count_lines(&text).saturating_sub(12);
                if more > 0 {
                    lines.push(format!("[… {more} more lines]"));
                }
                Self::Text { text: lines.join("\n") }
            }
            Self::Diff { text, added, removed } => {
                Self::Diff { text: cut(&text, &OutputBudget::new(16 * 1024, 200)).text, added, removed }
            }
        }
    }
}

/// A file that a call read or wrote, with the digest of its whole content then.
///
/// ```
/// use nervekit_tools::{FileAccess, FileFact};
/// use nervekit_types::Digest;
/// let fact = FileFact::new("/work/notes.txt", FileAccess::Written, Digest::of("text"));
/// assert_eq!(fact.path, "/work/notes.txt");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileFact {
    /// The resolved path, as [`ToolContext::last_read`](crate::ToolContext::last_read) looks it up: a key, not
    /// something to open.
    pub path: String,
    /// What the call did.
    pub access: FileAccess,
    /// SHA-256 of the content.
    pub digest: Digest,
}

impl FileFact {
    /// Notes a file.
    #[must_use]
    pub fn new(path: impl Into<String>, access: FileAccess, digest: Digest) -> Self {
        Self { path: path.into(), access, digest }
    }
}

/// What a call did with a file.
///
/// ```
/// use nervekit_tools::FileAccess;
/// assert_eq!(serde_json::to_string(&FileAccess::Written)?, "\"written\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAccess {
    /// Its content was read.
    Read,
    /// Its content was replaced.
    Written,
}

/// An output with its views made: what goes into history.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use nervekit_tools::{CallAssets, OutputBudget, ToolOutput};
/// let settled = ToolOutput::text("done").settle(OutputBudget::default(), &CallAssets::in_memory()).await;
/// assert_eq!((&*settled.agent, settled.complete), ("done", None));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SettledOutput {
    /// What the model reads, within the budget.
    pub agent: String,
    /// What a person reads.
    pub user: UserProjection,
    /// The asset with the complete result, where `agent` is not all of it.
    pub complete: Option<AssetId>,
    /// The assets of the result, the complete one included.
    pub attachments: Vec<Attachment>,
    /// The files that were read or written.
    pub files: Vec<FileFact>,
    /// Whether the call settles as failed.
    pub failed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn status_and_hint_survive_any_bulk_and_the_budget_holds() {
        for bytes in [400, 1_000, 24_000] {
            let output = ToolOutput::text("中".repeat(100_000)).status("exit code 7").hint("raise `limit`");
            let settled = output.settle(OutputBudget::new(bytes, 50), &CallAssets::in_memory()).await;
            assert!(settled.agent.len() <= bytes, "{} > {bytes}", settled.agent.len());
            assert!(settled.agent.starts_with("exit code 7\n"), "{}", settled.agent);
            assert!(settled.agent.ends_with("raise `limit`"), "{}", settled.agent);
            assert!(settled.complete.is_some());
        }
    }

    #[tokio::test]
    async fn what_fits_is_not_stored() {
        let assets = CallAssets::in_memory();
        let settled = ToolOutput::text("short").settle(OutputBudget::default(), &assets).await;
        assert_eq!((settled.agent.as_str(), settled.complete), ("short", None));
        assert!(settled.attachments.is_empty());
    }

    #[tokio::test]
    async fn bytes_that_are_not_utf8_are_kept_exactly() {
        let assets = CallAssets::in_memory();
        let bytes = Bytes::from_static(b"\x1b[31m\xffred");
        let settled =
            ToolOutput::new(OutputBody::Bytes(bytes.clone())).settle(OutputBudget::default(), &assets).await;
        assert!(settled.agent.starts_with("\u{fffd}red"), "{}", settled.agent);
        assert_eq!(assets.read(settled.complete.unwrap(), 0..99).await.unwrap(), bytes);
    }

    #[tokio::test]
    async fn escapes_are_stripped_unless_every_character_counts() {
        let assets = CallAssets::in_memory();
        let text = "\u{1b}[31mred\u{1b}[0m";
        let settled = ToolOutput::text(text).settle(OutputBudget::default(), &assets).await;
        assert_eq!(settled.agent, "red");
        let settled = ToolOutput::verbatim(text).settle(OutputBudget::default(), &assets).await;
        assert_eq!(settled.agent, text);
    }

    #[tokio::test]
    async fn a_card_is_short() {
        let text = format!("{}\n", "x".repeat(500)).repeat(50);
        let settled = ToolOutput::text(text).settle(OutputBudget::default(), &CallAssets::in_memory()).await;
        let UserProjection::Text { text } = settled.user else { panic!() };
        assert_eq!(text.lines().count(), 13);
        assert!(text.lines().all(|line| line.len() < 230));
    }
}
