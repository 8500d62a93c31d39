//! Sprints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `jira_get_sprint`.
///
/// ```
/// use nervekit_tools::catalog::jira::GetSprint;
/// let args: GetSprint = serde_json::from_str(r#"{"sprint_id": 40}"#)?;
/// assert_eq!(args.sprint_id, 40);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct GetSprint {
    /// The id of the sprint.
    pub sprint_id: u64,
    /// Goes on where an earlier answer ended.
    pub cursor: Option<String>,
    /// How many issues at most. Default: 20.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}

/// The arguments of `jira_manage_sprint`.
///
/// ```
/// use nervekit_tools::catalog::jira::{ManageSprint, SprintAction};
/// let args: ManageSprint = serde_json::from_str(r#"{"action": "close", "sprint_id": 40}"#)?;
/// assert_eq!(args.action, SprintAction::Close { sprint_id: 40 });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ManageSprint {
    /// What to do.
    #[serde(flatten)]
    pub action: SprintAction,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `jira_manage_sprint` does.
///
/// ```
/// use nervekit_tools::catalog::jira::SprintAction;
/// let action: SprintAction = serde_json::from_str(r#"{"action": "create", "board_id": 12, "name": "Week 5"}"#)?;
/// assert!(matches!(action, SprintAction::Create { board_id: 12, goal: None, .. }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SprintAction {
    /// Makes a future sprint.
    Create {
        /// For `create`: the id of the board.
        board_id: u64,
        /// For `create` and `update`: its name.
        name: String,
        /// For `create` and `update`: what it is for.
        goal: Option<String>,
        /// For `create`, `update` and `start`: when it begins, as `2026-01-31T09:00:00+01:00`.
        start_date: Option<String>,
        /// For `create`, `update` and `start`: when it ends.
        end_date: Option<String>,
    },
    /// Changes it; what is left out stays.
    Update {
        /// For all but `create`: the id of the sprint.
        sprint_id: u64,
        /// For `create` and `update`: its name.
        name: Option<String>,
        /// For `create` and `update`: what it is for.
        goal: Option<String>,
        /// For `create`, `update` and `start`: when it begins, as `2026-01-31T09:00:00+01:00`.
        start_date: Option<String>,
        /// For `create`, `update` and `start`: when it ends.
        end_date: Option<String>,
    },
    /// Begins it.
    Start {
        /// For all but `create`: the id of the sprint.
        sprint_id: u64,
        /// For `create`, `update` and `start`: when it begins, as `2026-01-31T09:00:00+01:00`.
        start_date: Option<String>,
        /// For `create`, `update` and `start`: when it ends.
        end_date: Option<String>,
    },
    /// Ends it; what is not done goes to the backlog.
    Close {
        /// For all but `create`: the id of the sprint.
        sprint_id: u64,
    },
    /// Removes it for good.
    Delete {
        /// For all but `create`: the id of the sprint.
        sprint_id: u64,
    },
}
