//! The tools over Confluence Cloud: definitions, whose executors a host supplies.
//!
//! Each type holds the arguments of the tool `confluence_` and its name. How a host adds an executor for all of them
//! is shown at [`jira`](super::jira). They are offered where the host enables the capability `confluence`.

mod attachment;
mod comment;
mod label;
mod page;
mod restriction;
mod search;
mod text;

pub use attachment::{AttachmentAction, ManageAttachment};
pub use comment::{CommentAction, ManageComment};
pub use label::{LabelAction, ManageLabel};
pub use page::{
    CreatePage, DownloadPage, GetPage, ManagePage, PageAction, PageContent, PagePart, PagePlace, UpdatePage,
};
pub use restriction::{ManageRestriction, Restriction, RestrictionAction, RestrictionSubject};
pub use search::{SearchPages, SearchSpaces};
pub use text::PageFormat;

use nervekit_permissions::Risk::{Destructive, Write};

use super::integration::{Service, sending_file};
use crate::manifest::Catalog;

const CONFLUENCE: Service = Service("confluence");

/// The tools over Confluence, without executors.
///
/// ```
/// use nervekit_permissions::{derive_targets, EffectiveArguments, Target};
/// let tools = nervekit_tools::catalog::confluence::tools();
/// let create = tools.get("confluence_create_page").unwrap();
/// let sent = EffectiveArguments::parse(r#"{"space_key": "DOC", "title": "Plan", "page_file": "plan.md"}"#)?;
/// let targets = derive_targets(create.descriptor(), &create.effective(&sent)?.arguments)?;
/// assert_eq!(targets, [Target::whole_tool(), Target::path("plan.md").binding_content().argument("page_file")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn tools() -> Catalog {
    changing(reading(Catalog::new()))
}

fn reading(tools: Catalog) -> Catalog {
    tools
        .with(CONFLUENCE.reads::<SearchSpaces>(
            "confluence_search_spaces",
            &["keys", "ids"],
            "Search Confluence spaces",
            "Lists Confluence spaces with their keys and ids.",
        ))
        .with(CONFLUENCE.reads::<SearchPages>(
            "confluence_search_pages",
            &["cql", "query", "space_key", "space_id", "title"],
            "Search Confluence pages",
            "Finds Confluence pages. What you give is combined with AND. Read one with \
             `confluence_get_page`.",
        ))
        .with(CONFLUENCE.reads::<GetPage>(
            "confluence_get_page",
            &["page_id"],
            "Read a Confluence page",
            "Reads a Confluence page with its version; comments, labels and the like on request.",
        ))
        .with(CONFLUENCE.reads::<DownloadPage>(
            "confluence_download_page",
            &["page_id"],
            "Download from Confluence",
            "Keeps a Confluence page, with its attachments if you want them, as assets, which \
             `read` shows.",
        ))
}

fn changing(tools: Catalog) -> Catalog {
    tools
        .with(sending_file(
            CONFLUENCE.tool::<CreatePage>(
                "confluence_create_page",
                Write,
                &["space_id", "space_key", "parent_id", "page_file"],
                "Create a Confluence page",
                "Creates a Confluence page, in a space or below another page. The text is given as \
             `body` or as a file.",
            ),
            "page_file",
        ))
        .with(sending_file(
            CONFLUENCE.tool::<UpdatePage>(
                "confluence_update_page",
                Write,
                &["page_id", "page_file"],
                "Change a Confluence page",
                "Replaces the text of a Confluence page. Read it first: a page that has another \
             version than the one you read is not written.",
            ),
            "page_file",
        ))
        .with(CONFLUENCE.tool::<ManageLabel>(
            "confluence_manage_label",
            Write,
            &["page_id"],
            "Label in Confluence",
            "Adds labels to a Confluence page, or removes them.",
        ))
        .with(CONFLUENCE.tool::<ManageComment>(
            "confluence_manage_comment",
            Destructive,
            &["comment_id", "page_id"],
            "Comment in Confluence",
            "Adds a comment to a Confluence page, changes one or deletes one.",
        ))
        .with(CONFLUENCE.tool::<ManagePage>(
            "confluence_manage_page",
            Destructive,
            &["page_id"],
            "Tidy Confluence",
            "Moves a Confluence page below another, into the trash, out of it, or deletes it for \
             good.",
        ))
        .with(CONFLUENCE.tool::<ManageRestriction>(
            "confluence_manage_restriction",
            Destructive,
            &["page_id"],
            "Restrict in Confluence",
            "Says who may read or change a Confluence page: adds somebody to a restriction, or \
             removes them.",
        ))
        .with(sending_file(
            CONFLUENCE.tool::<ManageAttachment>(
                "confluence_manage_attachment",
                Destructive,
                &["attachment_id", "page_id"],
                "Attach to Confluence",
                "Attaches a file to a Confluence page, or deletes an attachment.",
            ),
            "path",
        ))
}
