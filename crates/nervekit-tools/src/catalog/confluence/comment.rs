//! Comments on pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::PageFormat;

/// The arguments of `confluence_manage_comment`.
///
/// ```
/// use nervekit_tools::catalog::confluence::{CommentAction, ManageComment};
/// let args: ManageComment = serde_json::from_str(r#"{"action": "delete", "comment_id": "70001"}"#)?;
/// assert_eq!(args.action, CommentAction::Delete { comment_id: "70001".to_owned() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ManageComment {
    /// What to do.
    #[serde(flatten)]
    pub action: CommentAction,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `confluence_manage_comment` does.
///
/// ```
/// use nervekit_tools::catalog::confluence::CommentAction;
/// let action: CommentAction = serde_json::from_str(r#"{"action": "create", "page_id": "65551", "body": "Seen."}"#)?;
/// assert!(matches!(action, CommentAction::Create { parent_comment_id: None, .. }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CommentAction {
    /// Adds a comment.
    Create {
        /// For `create`: the id of the page.
        page_id: String,
        /// For `create`: the id of the comment that it answers.
        parent_comment_id: Option<String>,
        /// For `create` and `update`: the text.
        body: String,
        /// How `body` is written.
        #[serde(default)]
        format: PageFormat,
    },
    /// Replaces the text of one.
    Update {
        /// For `update` and `delete`: the id of the comment.
        comment_id: String,
        /// For `update`: the version that you read. A comment that has another one is not written.
        version: u64,
        /// For `create` and `update`: the text.
        body: String,
        /// How `body` is written.
        #[serde(default)]
        format: PageFormat,
    },
    /// Removes one for good.
    Delete {
        /// For `update` and `delete`: the id of the comment.
        comment_id: String,
    },
}
