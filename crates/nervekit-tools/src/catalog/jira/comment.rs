//! Comments on issues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::TextFormat;

/// The arguments of `jira_manage_comment`.
///
/// ```
/// use nervekit_tools::catalog::jira::{CommentAction, ManageComment};
/// let text = r#"{"action": "delete", "issue_key": "NK-7", "comment_id": "10010"}"#;
/// let args: ManageComment = serde_json::from_str(text)?;
/// assert_eq!(args.action, CommentAction::Delete { comment_id: "10010".to_owned() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ManageComment {
    /// The key of the issue, such as `NK-7`.
    pub issue_key: String,
    /// What to do.
    #[serde(flatten)]
    pub action: CommentAction,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `jira_manage_comment` does.
///
/// ```
/// use nervekit_tools::catalog::jira::{CommentAction, TextFormat};
/// let action: CommentAction = serde_json::from_str(r#"{"action": "create", "body": "Seen."}"#)?;
/// assert_eq!(action, CommentAction::Create { body: "Seen.".to_owned(), format: TextFormat::Markdown });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CommentAction {
    /// Adds a comment.
    Create {
        /// For `create` and `update`: the text.
        body: String,
        /// How `body` is written.
        #[serde(default)]
        format: TextFormat,
    },
    /// Replaces the text of one.
    Update {
        /// For `update` and `delete`: the id of the comment.
        comment_id: String,
        /// For `create` and `update`: the text.
        body: String,
        /// How `body` is written.
        #[serde(default)]
        format: TextFormat,
    },
    /// Removes one for good.
    Delete {
        /// For `update` and `delete`: the id of the comment.
        comment_id: String,
    },
}
