//! Who may read and change pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `confluence_manage_restriction`.
///
/// ```
/// use nervekit_tools::catalog::confluence::{ManageRestriction, Restriction, RestrictionAction};
/// let text = r#"{"action": "add", "page_id": "65551", "operation": "update", "subject": "group", "subject_id": "editors"}"#;
/// let args: ManageRestriction = serde_json::from_str(text)?;
/// let RestrictionAction::Add { operation, .. } = args.action else { unreachable!() };
/// assert_eq!(operation, Restriction::Update);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ManageRestriction {
    /// The id of the page.
    pub page_id: String,
    /// What to do.
    #[serde(flatten)]
    pub action: RestrictionAction,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `confluence_manage_restriction` does.
///
/// ```
/// use nervekit_tools::catalog::confluence::RestrictionAction;
/// let action: RestrictionAction = serde_json::from_str(r#"{"action": "clear"}"#)?;
/// assert_eq!(action, RestrictionAction::Clear);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RestrictionAction {
    /// Lets somebody in; once there is anybody, nobody else may.
    Add {
        /// For `add` and `remove`: what it is about.
        operation: Restriction,
        /// For `add` and `remove`: whom `subject_id` names.
        subject: RestrictionSubject,
        /// For `add` and `remove`: an account id, or the name of a group.
        subject_id: String,
    },
    /// Takes somebody off the list.
    Remove {
        /// For `add` and `remove`: what it is about.
        operation: Restriction,
        /// For `add` and `remove`: whom `subject_id` names.
        subject: RestrictionSubject,
        /// For `add` and `remove`: an account id, or the name of a group.
        subject_id: String,
    },
    /// Takes all restrictions off the page.
    Clear,
}

/// What a restriction is about.
///
/// ```
/// use nervekit_tools::catalog::confluence::Restriction;
/// assert_eq!(serde_json::to_string(&Restriction::Read)?, r#""read""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Restriction {
    /// Who may read.
    Read,
    /// Who may change.
    Update,
}

/// Whom a restriction names.
///
/// ```
/// use nervekit_tools::catalog::confluence::RestrictionSubject;
/// assert_eq!(serde_json::to_string(&RestrictionSubject::Group)?, r#""group""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RestrictionSubject {
    /// A person.
    User,
    /// A group of people.
    Group,
}
