//! Issues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::text::TextFormat;

/// The arguments of `jira_search_issues`.
///
/// ```
/// use nervekit_tools::catalog::jira::SearchIssues;
/// let args: SearchIssues = serde_json::from_str(r#"{"jql": "project = NK AND statusCategory != Done"}"#)?;
/// assert!(args.fields.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SearchIssues {
    /// The query in JQL. `ORDER BY` decides what comes first.
    pub jql: String,
    /// Fields shown besides key, summary, type, state and assignee, by id or name.
    #[serde(default)]
    pub fields: Vec<String>,
    /// Goes on where an earlier answer ended.
    pub cursor: Option<String>,
    /// How many issues at most. Default: 20.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}

/// The arguments of `jira_get_issue`.
///
/// ```
/// use nervekit_tools::catalog::jira::{GetIssue, IssuePart};
/// let args: GetIssue = serde_json::from_str(r#"{"issue_key": "NK-7", "include": ["comments"]}"#)?;
/// assert_eq!(args.include, [IssuePart::Comments]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct GetIssue {
    /// The key of the issue, such as `NK-7`.
    pub issue_key: String,
    /// What is shown besides fields and description.
    #[serde(default)]
    pub include: Vec<IssuePart>,
    /// Only these fields, by id or name. Default: those that have a value.
    #[serde(default)]
    pub fields: Vec<String>,
}

/// A part of an issue that is shown on request.
///
/// ```
/// use nervekit_tools::catalog::jira::IssuePart;
/// assert_eq!(serde_json::to_string(&IssuePart::Worklogs)?, r#""worklogs""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IssuePart {
    /// The comments, with their ids.
    Comments,
    /// The logged work, with ids.
    Worklogs,
    /// The links to other issues, with their ids.
    Links,
    /// The attachments, with their ids.
    Attachments,
    /// The states that it can go to now.
    Transitions,
    /// Who changed what, and when.
    History,
}

/// The arguments of `jira_create_issue`.
///
/// ```
/// use nervekit_tools::catalog::jira::CreateIssue;
/// let text = r#"{"project_key": "NK", "issue_type": "Bug", "summary": "The door sticks", "dry_run": true}"#;
/// let args: CreateIssue = serde_json::from_str(text)?;
/// assert!(args.dry_run);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CreateIssue {
    /// The key of the project, such as `NK`.
    pub project_key: String,
    /// The type by name, such as `Bug` or `Story`.
    pub issue_type: String,
    /// The title, in one line.
    pub summary: String,
    /// The description.
    pub description: Option<String>,
    /// How `description` is written.
    #[serde(default)]
    pub format: TextFormat,
    /// The key of the epic or issue that it belongs to.
    pub parent_key: Option<String>,
    /// The account id of whom it is assigned to.
    pub assignee_id: Option<String>,
    /// The priority by name.
    pub priority: Option<String>,
    /// Its labels.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Its components by name.
    #[serde(default)]
    pub components: Vec<String>,
    /// The day it is due, as `2026-01-31`.
    pub due_date: Option<String>,
    /// Any other fields by id or name, as Jira's REST API wants them.
    pub fields: Option<Map<String, Value>>,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The arguments of `jira_update_issue`.
///
/// ```
/// use nervekit_tools::catalog::jira::UpdateIssue;
/// let args: UpdateIssue = serde_json::from_str(r#"{"issue_key": "NK-7", "labels": []}"#)?;
/// assert_eq!((args.labels, args.summary), (Some(Vec::new()), None));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct UpdateIssue {
    /// The key of the issue, such as `NK-7`.
    pub issue_key: String,
    /// The new title.
    pub summary: Option<String>,
    /// The new description, in place of the whole old one.
    pub description: Option<String>,
    /// How `description` is written.
    #[serde(default)]
    pub format: TextFormat,
    /// The key of the epic or issue that it belongs to from now on.
    pub parent_key: Option<String>,
    /// The account id of whom it is assigned to. Empty: nobody.
    pub assignee_id: Option<String>,
    /// The priority by name.
    pub priority: Option<String>,
    /// All its labels from now on.
    pub labels: Option<Vec<String>>,
    /// All its components from now on, by name.
    pub components: Option<Vec<String>>,
    /// The day it is due, as `2026-01-31`. Empty: none.
    pub due_date: Option<String>,
    /// Any other fields by id or name, as Jira's REST API wants them.
    pub fields: Option<Map<String, Value>>,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The arguments of `jira_transition_issue`.
///
/// ```
/// use nervekit_tools::catalog::jira::TransitionIssue;
/// let args: TransitionIssue = serde_json::from_str(r#"{"issue_key": "NK-7", "transition": "In Review"}"#)?;
/// assert_eq!(args.transition, "In Review");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TransitionIssue {
    /// The key of the issue, such as `NK-7`.
    pub issue_key: String,
    /// The transition by name or id, or the name of the state it leads to.
    pub transition: String,
    /// The resolution by name, where the transition wants one.
    pub resolution: Option<String>,
    /// A comment that is added with it, in Markdown.
    pub comment: Option<String>,
    /// Other fields that the transition wants, by id or name.
    pub fields: Option<Map<String, Value>>,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}
