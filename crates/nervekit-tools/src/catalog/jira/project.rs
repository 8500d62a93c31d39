//! Projects and people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `jira_search_users`.
///
/// ```
/// use nervekit_tools::catalog::jira::SearchUsers;
/// let args: SearchUsers = serde_json::from_str(r#"{"query": "ann", "project_key": "NK"}"#)?;
/// assert_eq!(args.project_key.as_deref(), Some("NK"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SearchUsers {
    /// A part of the name or of the e-mail address.
    pub query: String,
    /// Only people to whom issues of this project can be assigned.
    pub project_key: Option<String>,
    /// Goes on where an earlier answer ended.
    pub cursor: Option<String>,
    /// How many people at most. Default: 20.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}

/// The arguments of `jira_get_project`.
///
/// ```
/// use nervekit_tools::catalog::jira::GetProject;
/// let args: GetProject = serde_json::from_str(r#"{"project_key": "NK"}"#)?;
/// assert_eq!(args.issue_type, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct GetProject {
    /// The key of the project, such as `NK`.
    pub project_key: String,
    /// Only the fields of this issue type, with the values they accept.
    pub issue_type: Option<String>,
}
