//! The tools over Jira Cloud: definitions, whose executors a host supplies.
//!
//! Each type holds the arguments of the tool `jira_` and its name. A host that talks to Jira adds one executor for all
//! of them:
//!
//! ```
//! use nervekit_tools::catalog::jira::{self, GetIssue};
//! use nervekit_tools::{Catalog, ToolCall, ToolContext, ToolError, ToolExecutor, ToolOutcome, ToolOutput};
//!
//! #[derive(Clone, Debug)]
//! struct Jira;
//!
//! #[async_trait::async_trait]
//! impl ToolExecutor for Jira {
//!     async fn execute(&self, call: ToolCall, _: ToolContext) -> Result<ToolOutcome, ToolError> {
//!         match call.tool.as_str() {
//!             "jira_get_issue" => {
//!                 let args: GetIssue = call.typed()?;
//!                 Ok(ToolOutput::text(format!("{} is done", args.issue_key)).into())
//!             }
//!             other => Err(ToolError::new(format!("`{other}` is not available"))),
//!         }
//!     }
//! }
//! let tools = jira::tools();
//! let mine = tools.iter().fold(Catalog::new(), |mine, tool| mine.with(tool.clone().carried_out_by(Jira)));
//! assert_eq!(mine.len(), 17);
//! ```
//!
//! They are offered where the host enables the capability `jira`.

mod attachment;
mod board;
mod comment;
mod issue;
mod issue_link;
mod project;
mod sprint;
mod text;
mod worklog;

pub use attachment::{AttachmentAction, DownloadAttachment, ManageAttachment};
pub use board::{BacklogAction, GetBoard, ManageBacklog, SearchBoards};
pub use comment::{CommentAction, ManageComment};
pub use issue::{CreateIssue, GetIssue, IssuePart, SearchIssues, TransitionIssue, UpdateIssue};
pub use issue_link::{IssueLinkAction, ManageIssueLink};
pub use project::{GetProject, SearchUsers};
pub use sprint::{GetSprint, ManageSprint, SprintAction};
pub use text::TextFormat;
pub use worklog::{ManageWorklog, WorklogAction};

use nervekit_permissions::Risk::{Destructive, Write};

use super::integration::{Service, sending_file};
use crate::manifest::Catalog;

const JIRA: Service = Service("jira");

/// The tools over Jira, without executors.
///
/// ```
/// use nervekit_permissions::Risk;
/// let tools = nervekit_tools::catalog::jira::tools();
/// let comment = tools.get("jira_manage_comment").unwrap();
/// assert_eq!(comment.definition().descriptor.base_risk, Risk::Destructive);
/// ```
#[must_use]
pub fn tools() -> Catalog {
    changing(reading(Catalog::new()))
}

fn reading(tools: Catalog) -> Catalog {
    tools
        .with(JIRA.reads::<SearchUsers>(
            "jira_search_users",
            &["query"],
            "Search Jira users",
            "Finds people in Jira by name or e-mail address, with the account ids that other \
             tools want.",
        ))
        .with(JIRA.reads::<SearchIssues>(
            "jira_search_issues",
            &["jql"],
            "Search Jira issues",
            "Finds Jira issues with JQL: key, summary, state, assignee. Read one with \
             `jira_get_issue`.",
        ))
        .with(JIRA.reads::<GetIssue>(
            "jira_get_issue",
            &["issue_key"],
            "Read a Jira issue",
            "Reads a Jira issue with its description; comments, history and the like on request.",
        ))
        .with(JIRA.reads::<GetProject>(
            "jira_get_project",
            &["project_key"],
            "Read a Jira project",
            "Reads a Jira project: issue types with the fields they want, components, versions.",
        ))
        .with(JIRA.reads::<SearchBoards>(
            "jira_search_boards",
            &["project_key", "name"],
            "Search Jira boards",
            "Finds Jira boards, of a project or by name, with the ids that other tools want.",
        ))
        .with(JIRA.reads::<GetBoard>(
            "jira_get_board",
            &["board_id"],
            "Read a Jira board",
            "Reads a Jira board: its columns, its sprints and, on request, its backlog.",
        ))
        .with(JIRA.reads::<GetSprint>(
            "jira_get_sprint",
            &["sprint_id"],
            "Read a Jira sprint",
            "Reads a Jira sprint: goal, dates, state and its issues.",
        ))
        .with(JIRA.reads::<DownloadAttachment>(
            "jira_download_attachment",
            &["attachment_id"],
            "Download from Jira",
            "Keeps an attachment of a Jira issue as an asset, which `read` shows.",
        ))
}

fn changing(tools: Catalog) -> Catalog {
    tools
        .with(JIRA.tool::<CreateIssue>(
            "jira_create_issue",
            Write,
            &["project_key"],
            "Create a Jira issue",
            "Creates a Jira issue. `jira_get_project` tells which issue types and fields the \
             project has.",
        ))
        .with(JIRA.tool::<UpdateIssue>(
            "jira_update_issue",
            Write,
            &["issue_key"],
            "Change a Jira issue",
            "Changes fields of a Jira issue; what you leave out stays. For its state use \
             `jira_transition_issue`.",
        ))
        .with(JIRA.tool::<TransitionIssue>(
            "jira_transition_issue",
            Write,
            &["issue_key"],
            "Move a Jira issue on",
            "Takes a Jira issue to another state. `jira_get_issue` with `transitions` tells which \
             are possible now.",
        ))
        .with(JIRA.tool::<ManageBacklog>(
            "jira_manage_backlog",
            Write,
            &["issue_key"],
            "Order the Jira backlog",
            "Moves a Jira issue into the backlog or a sprint, or before or after another issue.",
        ))
        .with(JIRA.tool::<ManageComment>(
            "jira_manage_comment",
            Destructive,
            &["comment_id", "issue_key"],
            "Comment in Jira",
            "Adds a comment to a Jira issue, changes one or deletes one.",
        ))
        .with(JIRA.tool::<ManageWorklog>(
            "jira_manage_worklog",
            Destructive,
            &["worklog_id", "issue_key"],
            "Log work in Jira",
            "Logs work on a Jira issue, changes an entry or deletes one.",
        ))
        .with(JIRA.tool::<ManageIssueLink>(
            "jira_manage_issue_link",
            Destructive,
            &["link_id", "issue_key"],
            "Link Jira issues",
            "Links a Jira issue to another, or deletes a link.",
        ))
        .with(sending_file(
            JIRA.tool::<ManageAttachment>(
                "jira_manage_attachment",
                Destructive,
                &["attachment_id", "issue_key"],
                "Attach to Jira",
                "Attaches a file to a Jira issue, or deletes an attachment.",
            ),
            "path",
        ))
        .with(JIRA.tool::<ManageSprint>(
            "jira_manage_sprint",
            Destructive,
            &["sprint_id", "board_id"],
            "Run a Jira sprint",
            "Creates, changes, starts, closes or deletes a Jira sprint.",
        ))
}
