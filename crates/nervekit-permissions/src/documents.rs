//! The port through which layered documents are kept.

mod file;
mod memory;
mod trust;

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use nervekit_types::{ConversationId, Digest};
use serde::{Deserialize, Serialize};

pub use file::FileDocuments;
pub use memory::MemoryDocuments;
pub use trust::{MemoryTrustStore, Trust, TrustRecord, TrustStore};

use crate::document::DocumentScope;
use crate::error::{DocumentError, DocumentProblem};

/// To whom a document belongs, exactly.
///
/// ```
/// use nervekit_permissions::{DocumentOwner, DocumentScope};
/// assert_eq!(DocumentOwner::Project("/work/a".into()).scope(), DocumentScope::Project);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DocumentOwner {
    /// The user whom the host knows by this id; `None` on a machine of one person.
    User(Option<String>),
    /// The project in this canonical folder, as [`std::fs::canonicalize`] returns it.
    Project(PathBuf),
    /// A conversation.
    Conversation(ConversationId),
}

impl DocumentOwner {
    /// Returns the scope.
    #[must_use]
    pub const fn scope(&self) -> DocumentScope {
        match self {
            Self::User(_) => DocumentScope::User,
            Self::Project(_) => DocumentScope::Project,
            Self::Conversation(_) => DocumentScope::Conversation,
        }
    }
}

/// Which document: whose, and which of theirs.
///
/// It is ordered and hashable, and serialises, so it can be the key of a row; in a JSON object, where a key is a text,
/// it cannot.
///
/// ```
/// use nervekit_permissions::{DocumentId, DocumentOwner};
/// let id = DocumentId::permissions(DocumentOwner::User(None));
/// assert_eq!(id.name, "permissions");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DocumentId {
    /// To whom it belongs.
    pub owner: DocumentOwner,
    /// Its name, such as `permissions`, `rule-sets/<id>`, `subagents`, `harness`, `launches/definitions` or
    /// `skills/<name>`.
    pub name: String,
}

impl DocumentId {
    /// Names a document.
    #[must_use]
    pub fn new(owner: DocumentOwner, name: impl Into<String>) -> Self {
        Self { owner, name: name.into() }
    }

    /// Names the document that holds the permission rules.
    #[must_use]
    pub fn permissions(owner: DocumentOwner) -> Self {
        Self::new(owner, "permissions")
    }
}

/// The bytes of a document, and what was decided about them.
///
/// ```
/// use nervekit_permissions::{StoredDocument, Trust};
/// use nervekit_types::Digest;
/// let document = StoredDocument::new(&b"{}"[..]);
/// assert_eq!(document.digest, Digest::of("{}"));
/// assert_eq!(document.trust, Trust::Undecided);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredDocument {
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// The SHA-256 of exactly these bytes.
    pub digest: Digest,
    /// Whether these bytes may count.
    pub trust: Trust,
}

impl StoredDocument {
    /// Wraps bytes about which nobody decided yet.
    #[must_use]
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { digest: Digest::of(&bytes), bytes, trust: Trust::Undecided }
    }

    /// Sets whether they may count.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }
}

/// A document at one moment: what is there, and what was accepted last.
///
/// ```
/// use nervekit_permissions::{DocumentState, StoredDocument};
/// let state = DocumentState::new("permissions.json").current(StoredDocument::new(&b"{}"[..]));
/// assert!(state.current.is_some() && state.last_accepted.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentState {
    /// Where it is kept, for people; the path of a file.
    pub place: String,
    /// What is there now; `None` when nothing is, or nothing that can be read.
    pub current: Option<StoredDocument>,
    /// Why what is there cannot be read.
    pub problem: Option<DocumentProblem>,
    /// What was accepted last, also when it is gone. It is `Trusted`; `Rejected` when a person has refused it since,
    /// and `Undecided` when these are not the bytes that were accepted: then nobody knows what restricts.
    pub last_accepted: Option<StoredDocument>,
}

impl DocumentState {
    /// Describes a place where nothing is.
    #[must_use]
    pub fn new(place: impl Into<String>) -> Self {
        Self { place: place.into(), current: None, problem: None, last_accepted: None }
    }

    /// Sets what is there.
    #[must_use]
    pub fn current(mut self, document: StoredDocument) -> Self {
        self.current = Some(document);
        self
    }

    /// Sets why what is there cannot be read.
    #[must_use]
    pub fn problem(mut self, problem: DocumentProblem) -> Self {
        self.problem = Some(problem);
        self
    }

    /// Sets what was accepted last.
    #[must_use]
    pub fn last_accepted(mut self, document: StoredDocument) -> Self {
        self.last_accepted = Some(document);
        self
    }
}

/// Keeps documents by owner and name, and what was decided about their bytes.
///
/// **Contract.** `read` returns what is there now, in one read: the digest is of exactly the returned bytes.
/// `look` does the same without waiting for more than a file on this machine, so that a call can be judged in
/// between; it returns the same `Arc` while nothing changed, and what it does not know yet counts as not
/// accepted. `replace` writes all or nothing, and only when what is there still has the expected digest
/// (`None`: nothing is there); otherwise it changes nothing and returns [`DocumentError::Changed`]. What
/// `replace` wrote counts as accepted, since it came through this port. `trust` accepts the bytes with this
/// digest, and fails with `Changed` when others are there now; a project's digests accepted before stay
/// accepted. `reject` takes that back and remembers it; what was accepted last stays known. `forget` accepts that
/// nothing is there, so that nothing counts as accepted last any more, and fails with `Changed` while something is.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use nervekit_permissions::{DocumentError, DocumentId, Documents, DocumentState};
/// use nervekit_types::Digest;
///
/// /// No document at all.
/// #[derive(Debug)]
/// struct NoDocuments;
/// #[async_trait]
/// impl Documents for NoDocuments {
///     async fn read(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
///         Ok(self.look(id))
///     }
///     fn look(&self, id: &DocumentId) -> Arc<DocumentState> {
///         Arc::new(DocumentState::new(&*id.name))
///     }
///     async fn replace(&self, _id: &DocumentId, _expected: Option<Digest>, _bytes: &[u8]) -> Result<Digest, DocumentError> {
///         Err(DocumentError::Unsupported)
///     }
///     async fn trust(&self, _id: &DocumentId, _digest: Digest) -> Result<(), DocumentError> {
///         Err(DocumentError::Changed { current: None })
///     }
///     async fn reject(&self, _id: &DocumentId, _digest: Digest) -> Result<(), DocumentError> {
///         Ok(())
///     }
///     async fn forget(&self, _id: &DocumentId) -> Result<(), DocumentError> {
///         Ok(())
///     }
/// }
/// let documents: Box<dyn Documents> = Box::new(NoDocuments);
/// ```
#[async_trait]
pub trait Documents: Debug + Send + Sync + 'static {
    /// Reads what is there now.
    async fn read(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError>;

    /// Looks at what is there now, without waiting.
    fn look(&self, id: &DocumentId) -> Arc<DocumentState>;

    /// Writes a document in place of the expected one and returns its digest.
    async fn replace(
        &self,
        id: &DocumentId,
        expected: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Digest, DocumentError>;

    /// Accepts the bytes with this digest.
    async fn trust(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError>;

    /// Refuses bytes with this digest from now on.
    async fn reject(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError>;

    /// Accepts that nothing is there.
    async fn forget(&self, id: &DocumentId) -> Result<(), DocumentError>;
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[deny(clippy::missing_trait_methods)]
        #[async_trait]
        impl<P: Documents + ?Sized> Documents for $pointer<P> {
            async fn read(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
                (**self).read(id).await
            }
            fn look(&self, id: &DocumentId) -> Arc<DocumentState> {
                (**self).look(id)
            }
            async fn replace(
                &self,
                id: &DocumentId,
                expected: Option<Digest>,
                bytes: &[u8],
            ) -> Result<Digest, DocumentError> {
                (**self).replace(id, expected, bytes).await
            }
            async fn trust(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
                (**self).trust(id, digest).await
            }
            async fn reject(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
                (**self).reject(id, digest).await
            }
            async fn forget(&self, id: &DocumentId) -> Result<(), DocumentError> {
                (**self).forget(id).await
            }
        }
    )*};
}

forward!(Arc, Box);
const _: fn(&dyn Documents) = |_| ();
