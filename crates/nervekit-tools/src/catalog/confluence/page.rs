//! Pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::PageFormat;

/// The arguments of `confluence_get_page`.
///
/// ```
/// use nervekit_tools::catalog::confluence::{GetPage, PagePart};
/// let args: GetPage = serde_json::from_str(r#"{"page_id": "65551", "include": ["labels"]}"#)?;
/// assert_eq!(args.include, [PagePart::Labels]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct GetPage {
    /// The id of the page.
    pub page_id: String,
    /// How the text is shown.
    #[serde(default)]
    pub format: PageFormat,
    /// An older version. Default: the newest.
    pub version: Option<u64>,
    /// What is shown besides the text.
    #[serde(default)]
    pub include: Vec<PagePart>,
}

/// A part of a page that is shown on request.
///
/// ```
/// use nervekit_tools::catalog::confluence::PagePart;
/// assert_eq!(serde_json::to_string(&PagePart::Children)?, r#""children""#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PagePart {
    /// The comments, with their ids.
    Comments,
    /// The labels.
    Labels,
    /// The attachments, with their ids.
    Attachments,
    /// The pages below, with their ids.
    Children,
    /// Who may read and change it.
    Restrictions,
}

/// The arguments of `confluence_download_page`.
///
/// ```
/// use nervekit_tools::catalog::confluence::DownloadPage;
/// let args: DownloadPage = serde_json::from_str(r#"{"page_id": "65551", "attachments": true}"#)?;
/// assert!(args.attachments);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct DownloadPage {
    /// The id of the page.
    pub page_id: String,
    /// How the text is kept.
    #[serde(default)]
    pub format: PageFormat,
    /// Also its attachments.
    #[serde(default)]
    pub attachments: bool,
}

/// The arguments of `confluence_create_page`.
///
/// ```
/// use nervekit_tools::catalog::confluence::{CreatePage, PageContent, PagePlace};
/// let args: CreatePage = serde_json::from_str(r#"{"parent_id": "65551", "title": "Plan", "body": "First …"}"#)?;
/// assert_eq!(args.place, PagePlace::ParentId("65551".to_owned()));
/// assert_eq!(args.content, PageContent::Body("First …".to_owned()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CreatePage {
    /// Where it is created.
    #[serde(flatten)]
    pub place: PagePlace,
    /// The title, which no other page of the space has.
    pub title: String,
    /// The text.
    #[serde(flatten)]
    pub content: PageContent,
    /// How the text is written.
    #[serde(default)]
    pub format: PageFormat,
    /// Its labels.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Where a page is created: exactly one of these, so that a rule about spaces sees which one is meant.
///
/// ```
/// use nervekit_tools::catalog::confluence::PagePlace;
/// let place: PagePlace = serde_json::from_str(r#"{"space_key": "DOC"}"#)?;
/// assert_eq!(place, PagePlace::SpaceKey("DOC".to_owned()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PagePlace {
    /// At the top of the space with this id.
    SpaceId(String),
    /// Instead of `space_id`: at the top of the space with this key.
    SpaceKey(String),
    /// Instead of a space: below the page with this id, in its space.
    ParentId(String),
}

/// The text of a page: exactly one of these.
///
/// ```
/// use nervekit_tools::catalog::confluence::PageContent;
/// let content: PageContent = serde_json::from_str(r#"{"page_file": "docs/plan.md"}"#)?;
/// assert_eq!(content, PageContent::PageFile("docs/plan.md".to_owned()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PageContent {
    /// The text itself.
    Body(String),
    /// Instead of `body`: a file with the text.
    PageFile(String),
}

/// The arguments of `confluence_update_page`.
///
/// ```
/// use nervekit_tools::catalog::confluence::UpdatePage;
/// let args: UpdatePage = serde_json::from_str(r#"{"page_id": "65551", "version": 3, "page_file": "plan.md"}"#)?;
/// assert!(args.title.is_none() && !args.force);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct UpdatePage {
    /// The id of the page.
    pub page_id: String,
    /// The version that you read, as `confluence_get_page` told it.
    pub version: u64,
    /// Writes even if somebody has changed the page since that version.
    #[serde(default)]
    pub force: bool,
    /// A new title.
    pub title: Option<String>,
    /// The new text, in place of the whole old one.
    #[serde(flatten)]
    pub content: PageContent,
    /// How the text is written.
    #[serde(default)]
    pub format: PageFormat,
    /// What was changed, for the history of the page.
    pub message: Option<String>,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The arguments of `confluence_manage_page`.
///
/// ```
/// use nervekit_tools::catalog::confluence::{ManagePage, PageAction};
/// let args: ManagePage = serde_json::from_str(r#"{"action": "trash", "page_id": "65551"}"#)?;
/// assert_eq!(args.action, PageAction::Trash);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ManagePage {
    /// The id of the page.
    pub page_id: String,
    /// What to do.
    #[serde(flatten)]
    pub action: PageAction,
    /// Shows the request and sends nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What `confluence_manage_page` does.
///
/// ```
/// use nervekit_tools::catalog::confluence::PageAction;
/// let action: PageAction = serde_json::from_str(r#"{"action": "move", "parent_id": "65552"}"#)?;
/// assert_eq!(action, PageAction::Move { parent_id: "65552".to_owned() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PageAction {
    /// Puts it below another page.
    Move {
        /// For `move`: the id of the other page.
        parent_id: String,
    },
    /// Puts it into the trash.
    Trash,
    /// Takes it out of the trash.
    Restore,
    /// Deletes it from the trash for good.
    Purge,
}
