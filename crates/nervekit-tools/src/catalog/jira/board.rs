//! Boards and their backlogs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `jira_search_boards`.
///
/// ```
/// use nervekit_tools::catalog::jira::SearchBoards;
/// let args: SearchBoards = serde_json::from_str(r#"{"project_key": "NK"}"#)?;
/// assert_eq!(args.name, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SearchBoards {
    /// Only boards of this project.
    pub project_key: Option<String>,
    /// Only boards whose name contains this.
    pub name: Option<String>,
    /// Goes on where an earlier answer ended.
    pub cursor: Option<String>,
    /// How many boards at most. Default: 20.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}

/// The arguments of `jira_get_board`.
///
/// ```
/// use nervekit_tools::catalog::jira::GetBoard;
/// let args: GetBoard = serde_json::from_str(r#"{"board_id": 12, "backlog": true}"#)?;
/// assert!(args.backlog && !args.closed_sprints);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct GetBoard {
    /// The id of the board.
    pub board_id: u64,
    /// Also the issues of the backlog, in order.
    #[serde(default)]
    pub backlog: bool,
    /// Also the sprints that are closed.
    #[serde(default)]
    pub closed_sprints: bool,
    /// Goes on where an earlier answer ended.
    pub cursor: Option<String>,
    /// How many issues at most. Default: 20.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}

/// The arguments of `jira_manage_backlog`.
///
/// ```
/// use nervekit_tools::catalog::jira::{BacklogAction, ManageBacklog};
/// let text = r#"{"action": "move_to_sprint", "issue_key": "NK-7", "sprint_id": 40}"#;
/// let args: ManageBacklog = serde_json::from_str(text)?;
/// assert_eq!(args.action, BacklogAction::MoveToSprint { sprint_id: 40 });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ManageBacklog {
    /// The key of the issue, such as `NK-7`.
    pub issue_key: String,
    /// What to do.
    #[serde(flatten)]
    pub action: BacklogAction,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `jira_manage_backlog` does.
///
/// ```
/// use nervekit_tools::catalog::jira::BacklogAction;
/// let action: BacklogAction = serde_json::from_str(r#"{"action": "rank_before", "other_key": "NK-9"}"#)?;
/// assert_eq!(action, BacklogAction::RankBefore { other_key: "NK-9".to_owned() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum BacklogAction {
    /// Takes it out of its sprint.
    MoveToBacklog,
    /// Takes it into a sprint.
    MoveToSprint {
        /// For `move_to_sprint`: the id of the sprint.
        sprint_id: u64,
    },
    /// Puts it before another issue.
    RankBefore {
        /// For `rank_before` and `rank_after`: the other issue.
        other_key: String,
    },
    /// Puts it after another issue.
    RankAfter {
        /// For `rank_before` and `rank_after`: the other issue.
        other_key: String,
    },
}
