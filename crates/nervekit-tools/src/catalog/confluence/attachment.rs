//! Files attached to pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `confluence_manage_attachment`.
///
/// ```
/// use nervekit_tools::catalog::confluence::{AttachmentAction, ManageAttachment};
/// let args: ManageAttachment = serde_json::from_str(r#"{"action": "delete", "attachment_id": "att7"}"#)?;
/// assert_eq!(args.action, AttachmentAction::Delete { attachment_id: "att7".to_owned() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ManageAttachment {
    /// What to do.
    #[serde(flatten)]
    pub action: AttachmentAction,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `confluence_manage_attachment` does.
///
/// ```
/// use nervekit_tools::catalog::confluence::AttachmentAction;
/// let text = r#"{"action": "upload", "page_id": "65551", "path": "docs/diagram.png"}"#;
/// let action: AttachmentAction = serde_json::from_str(text)?;
/// assert!(matches!(action, AttachmentAction::Upload { path, .. } if path == "docs/diagram.png"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttachmentAction {
    /// Attaches a file; one of the same name becomes a new version of it.
    Upload {
        /// For `upload`: the id of the page.
        page_id: String,
        /// For `upload`: the file.
        path: String,
        /// For `upload`: what the file is, in one line.
        comment: Option<String>,
    },
    /// Removes an attachment for good.
    Delete {
        /// For `delete`: the id of the attachment.
        attachment_id: String,
    },
}
