//! The files that a conversation touched.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Message;

/// The files that tools read and changed, carried from summary to summary exactly: the list is never left to
/// the model.
///
/// A file counts when a call of `read`, `write` or `edit` with a text argument `path` came back without an
/// error. A changed file is not listed as read.
///
/// ```
/// use nervekit_harness::compaction::FileList;
/// let mut files = FileList::default();
/// files.changed.insert("src/lib.rs".into());
/// let text = format!("a summary\n\n{files}");
/// assert_eq!(FileList::split(&text), ("a summary", files));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileList {
    /// Read and not changed.
    pub read: BTreeSet<String>,
    /// Written or edited.
    pub changed: BTreeSet<String>,
}

impl FileList {
    pub(super) const HEADING: &str = "## Files (exact)";

    /// Adds what these messages touched.
    pub fn collect<'a>(&mut self, messages: impl IntoIterator<Item = &'a Message>) {
        let mut open = Vec::new();
        for message in messages {
            match message {
                Message::Assistant(answer) => open = answer.tool_calls().collect(),
                Message::ToolResult(result) if !result.is_error => {
                    let call = open.iter().find(|call| call.id == result.tool_call_id);
                    if let Some(call) = call
                        && let Some(Value::String(path)) = call.arguments.get("path")
                    {
                        self.add(&call.name, path);
                    }
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, tool: &str, path: &str) {
        match tool {
            "read" if !self.changed.contains(path) => {
                self.read.insert(path.to_owned());
            }
            "write" | "edit" => {
                self.read.remove(path);
                self.changed.insert(path.to_owned());
            }
            _ => {}
        }
    }

    /// Takes the list off the end of a summary's text.
    #[must_use]
    pub fn split(summary: &str) -> (&str, Self) {
        let mut files = Self::default();
        let Some((text, list)) = summary.rsplit_once(Self::HEADING) else {
            return (summary, files);
        };
        for line in list.lines() {
            if let Some(path) = line.strip_prefix("- read ").and_then(unquote) {
                files.read.insert(path);
            } else if let Some(path) = line.strip_prefix("- changed ").and_then(unquote) {
                files.changed.insert(path);
            }
        }
        (text.trim_end(), files)
    }

    /// Whether no file was touched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read.is_empty() && self.changed.is_empty()
    }
}

/// Paths stand as JSON strings, so that no path can break out of its line.
fn unquote(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

impl fmt::Display for FileList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::HEADING)?;
        for (verb, paths) in [("read", &self.read), ("changed", &self.changed)] {
            for path in paths {
                write!(f, "\n- {verb} {}", Value::from(path.as_str()))?;
            }
        }
        Ok(())
    }
}
