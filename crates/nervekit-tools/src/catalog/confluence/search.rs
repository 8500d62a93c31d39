//! Finding spaces and pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `confluence_search_spaces`.
///
/// ```
/// use nervekit_tools::catalog::confluence::SearchSpaces;
/// let args: SearchSpaces = serde_json::from_str(r#"{"keys": ["DOC"]}"#)?;
/// assert_eq!(args.ids, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SearchSpaces {
    /// Only spaces with these keys.
    pub keys: Option<Vec<String>>,
    /// Only spaces with these ids.
    pub ids: Option<Vec<String>>,
    /// Goes on where an earlier answer ended.
    pub cursor: Option<String>,
    /// How many spaces at most. Default: 20.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}

/// The arguments of `confluence_search_pages`.
///
/// ```
/// use nervekit_tools::catalog::confluence::SearchPages;
/// let args: SearchPages = serde_json::from_str(r#"{"query": "release", "space_key": "DOC"}"#)?;
/// assert_eq!(args.cql, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SearchPages {
    /// A query in CQL.
    pub cql: Option<String>,
    /// Words that the page contains.
    pub query: Option<String>,
    /// Only pages of the space with this key.
    pub space_key: Option<String>,
    /// Only pages of the space with this id.
    pub space_id: Option<String>,
    /// Only pages with this title.
    pub title: Option<String>,
    /// Goes on where an earlier answer ended.
    pub cursor: Option<String>,
    /// How many pages at most. Default: 20.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}
