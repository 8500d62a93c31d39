//! Files attached to issues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `jira_download_attachment`.
///
/// ```
/// use nervekit_tools::catalog::jira::DownloadAttachment;
/// let args: DownloadAttachment = serde_json::from_str(r#"{"attachment_id": "10040"}"#)?;
/// assert_eq!(args.attachment_id, "10040");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct DownloadAttachment {
    /// The id of the attachment, as `jira_get_issue` tells it.
    pub attachment_id: String,
}

/// The arguments of `jira_manage_attachment`.
///
/// ```
/// use nervekit_tools::catalog::jira::{AttachmentAction, ManageAttachment};
/// let args: ManageAttachment = serde_json::from_str(r#"{"action": "delete", "attachment_id": "10040"}"#)?;
/// assert_eq!(args.action, AttachmentAction::Delete { attachment_id: "10040".to_owned() });
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

/// What `jira_manage_attachment` does.
///
/// ```
/// use nervekit_tools::catalog::jira::AttachmentAction;
/// let text = r#"{"action": "upload", "issue_key": "NK-7", "path": "target/report.html"}"#;
/// let action: AttachmentAction = serde_json::from_str(text)?;
/// assert!(matches!(action, AttachmentAction::Upload { path, .. } if path == "target/report.html"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttachmentAction {
    /// Attaches a file.
    Upload {
        /// For `upload`: the key of the issue, such as `NK-7`.
        issue_key: String,
        /// For `upload`: the file.
        path: String,
    },
    /// Removes an attachment for good.
    Delete {
        /// For `delete`: the id of the attachment.
        attachment_id: String,
    },
}
