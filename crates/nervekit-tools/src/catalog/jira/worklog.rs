//! Logged work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `jira_manage_worklog`.
///
/// ```
/// use nervekit_tools::catalog::jira::ManageWorklog;
/// let text = r#"{"action": "create", "issue_key": "NK-7", "time_spent": "1h 30m"}"#;
/// let args: ManageWorklog = serde_json::from_str(text)?;
/// assert_eq!(args.issue_key, "NK-7");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ManageWorklog {
    /// The key of the issue, such as `NK-7`.
    pub issue_key: String,
    /// What to do.
    #[serde(flatten)]
    pub action: WorklogAction,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `jira_manage_worklog` does.
///
/// ```
/// use nervekit_tools::catalog::jira::WorklogAction;
/// let action: WorklogAction = serde_json::from_str(r#"{"action": "delete", "worklog_id": "10020"}"#)?;
/// assert_eq!(action, WorklogAction::Delete { worklog_id: "10020".to_owned() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorklogAction {
    /// Logs work.
    Create {
        /// For `create` and `update`: how long, as `1h 30m`.
        time_spent: String,
        /// For `create` and `update`: when it began, as `2026-01-31T09:00:00+01:00`. Default for `create`: now.
        started: Option<String>,
        /// For `create` and `update`: what was done, in Markdown.
        comment: Option<String>,
    },
    /// Changes an entry; what is left out stays.
    Update {
        /// For `update` and `delete`: the id of the entry.
        worklog_id: String,
        /// For `create` and `update`: how long, as `1h 30m`.
        time_spent: Option<String>,
        /// For `create` and `update`: when it began, as `2026-01-31T09:00:00+01:00`. Default for `create`: now.
        started: Option<String>,
        /// For `create` and `update`: what was done, in Markdown.
        comment: Option<String>,
    },
    /// Removes an entry for good.
    Delete {
        /// For `update` and `delete`: the id of the entry.
        worklog_id: String,
    },
}
