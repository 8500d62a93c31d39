//! What a repository may supply, and what of it counts.

mod difference;
mod documents;
mod layer;
mod status;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use documents::SurfaceDocuments;
pub(crate) use layer::reason;
pub use layer::{Layer, Layered};
pub use status::SurfaceStatus;

use crate::document::{self, DocumentScope, PolicyDocument};
use crate::documents::{DocumentId, DocumentOwner, Trust};
use crate::error::DocumentError;
use crate::policy_documents::Standing;

/// A thing that a user, a project or a conversation may supply. What a project supplies has no effect at all until
/// a person trusts exactly that.
///
/// ```
/// use nervekit_permissions::{DocumentOwner, Surface, TrustUnit};
/// let skill = Surface::Skill { name: "release".into() };
/// assert_eq!(skill.trust_unit(), TrustUnit::Folder);
/// assert_eq!(skill.id(DocumentOwner::User(None)).name, "skills/release");
/// assert_eq!(Surface::Launches.to_string(), "launches/definitions");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Surface {
    /// The permission rules. [`RuleEngine`](crate::RuleEngine) judges by them, and
    /// [`PolicyDocuments`](crate::PolicyDocuments) says what becomes automatic.
    Permissions,
    /// The profiles of sub-agents.
    Subagents,
    /// The settings of the harness.
    Harness,
    /// The definitions of launches.
    Launches,
    /// A skill.
    Skill {
        /// The name of its folder.
        name: String,
    },
}

/// What is trusted as one: a changed byte in it asks anew.
///
/// ```
/// use nervekit_permissions::{Surface, TrustUnit};
/// assert_eq!(Surface::Harness.trust_unit(), TrustUnit::Document);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TrustUnit {
    /// The bytes of a document.
    Document,
    /// A folder: the paths and the bytes of all files in it.
    Folder,
}

impl Surface {
    /// Those that are documents.
    pub(crate) const DOCUMENTS: [Self; 4] =
        [Self::Permissions, Self::Subagents, Self::Harness, Self::Launches];

    /// Returns the name of its document.
    #[must_use]
    pub fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Permissions => "permissions",
            Self::Subagents => "subagents",
            Self::Harness => "harness",
            Self::Launches => "launches/definitions",
            Self::Skill { name } => return format!("skills/{name}").into(),
        })
    }

    /// Names its document of one owner.
    #[must_use]
    pub fn id(&self, owner: DocumentOwner) -> DocumentId {
        DocumentId::new(owner, self.name())
    }

    /// Returns what is trusted as one.
    #[must_use]
    pub const fn trust_unit(&self) -> TrustUnit {
        match self {
            Self::Permissions | Self::Subagents | Self::Harness | Self::Launches => TrustUnit::Document,
            Self::Skill { .. } => TrustUnit::Folder,
        }
    }

    /// Whether bytes that can be read count.
    ///
    /// A project's only when they are trusted. Those of a user count as they are found, and so do those of a
    /// conversation, which the host writes: they are the person's own, and no more than settings. Of the
    /// permission rules that is not enough, since an agent that edits them would free itself. What a person
    /// refused never counts.
    pub(crate) fn standing(&self, scope: DocumentScope, trust: Trust) -> Standing {
        match (trust, scope, self) {
            (Trust::Rejected, ..) => Standing::Rejected,
            (Trust::Undecided, DocumentScope::User, Self::Permissions) => Standing::Changed,
            (Trust::Undecided, DocumentScope::Project, _)
            | (Trust::Undecided, DocumentScope::Conversation, Self::Permissions) => Standing::Untrusted,
            (Trust::Trusted, ..)
            | (Trust::Undecided, DocumentScope::User | DocumentScope::Conversation, _) => Standing::Active,
        }
    }

    /// Reads bytes as far as it is known here what they have to be.
    fn check(&self, scope: DocumentScope, bytes: &[u8]) -> Result<(), DocumentError> {
        match self {
            Self::Permissions => PolicyDocument::parse(scope, bytes).map(drop),
            _ => document::read::<serde::de::IgnoredAny>(bytes).map(drop),
        }
    }
}

impl fmt::Display for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::display(&self.name()))
    }
}
