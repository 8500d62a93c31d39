//! Links between issues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `jira_manage_issue_link`.
///
/// ```
/// use nervekit_tools::catalog::jira::{IssueLinkAction, ManageIssueLink};
/// let args: ManageIssueLink = serde_json::from_str(r#"{"action": "delete", "link_id": "10030"}"#)?;
/// assert_eq!(args.action, IssueLinkAction::Delete { link_id: "10030".to_owned() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ManageIssueLink {
    /// What to do.
    #[serde(flatten)]
    pub action: IssueLinkAction,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `jira_manage_issue_link` does.
///
/// ```
/// use nervekit_tools::catalog::jira::IssueLinkAction;
/// let text = r#"{"action": "create", "issue_key": "NK-7", "link_type": "blocks", "other_key": "NK-9"}"#;
/// let action: IssueLinkAction = serde_json::from_str(text)?;
/// assert!(matches!(action, IssueLinkAction::Create { other_key, .. } if other_key == "NK-9"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum IssueLinkAction {
    /// Links `issue_key` to `other_key`.
    Create {
        /// For `create`: the issue, such as `NK-7`.
        issue_key: String,
        /// For `create`: what `issue_key` does to `other_key`, in the words of Jira, such as `blocks`.
        link_type: String,
        /// For `create`: the issue that it is linked to.
        other_key: String,
    },
    /// Removes a link.
    Delete {
        /// For `delete`: the id of the link.
        link_id: String,
    },
}
