//! Labels of pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `confluence_manage_label`.
///
/// ```
/// use nervekit_tools::catalog::confluence::{LabelAction, ManageLabel};
/// let args: ManageLabel = serde_json::from_str(r#"{"action": "add", "page_id": "65551", "labels": ["plan"]}"#)?;
/// assert_eq!(args.action, LabelAction::Add { labels: vec!["plan".to_owned()] });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ManageLabel {
    /// The id of the page.
    pub page_id: String,
    /// What to do.
    #[serde(flatten)]
    pub action: LabelAction,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `confluence_manage_label` does.
///
/// ```
/// use nervekit_tools::catalog::confluence::LabelAction;
/// let action: LabelAction = serde_json::from_str(r#"{"action": "remove", "labels": ["old"]}"#)?;
/// assert_eq!(action, LabelAction::Remove { labels: vec!["old".to_owned()] });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LabelAction {
    /// Adds labels.
    Add {
        /// The labels.
        #[schemars(length(min = 1))]
        labels: Vec<String>,
    },
    /// Removes labels.
    Remove {
        /// The labels.
        #[schemars(length(min = 1))]
        labels: Vec<String>,
    },
}
