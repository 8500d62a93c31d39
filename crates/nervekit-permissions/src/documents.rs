//! The port through which layered documents are kept.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nervekit_types::{ConversationId, Digest};
use serde::{Deserialize, Serialize};

use crate::document::DocumentScope;
use crate::error::DocumentError;

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
    /// The project in this canonical folder.
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
    /// Its name, such as `permissions`, `subagents`, `harness` or `launches/definitions`.
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

/// A document as it was read.
///
/// ```
/// use nervekit_permissions::StoredDocument;
/// use nervekit_types::Digest;
/// let document = StoredDocument::new(&b"{}"[..]);
/// assert_eq!(document.digest, Digest::of("{}"));
/// assert!(!document.trusted);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredDocument {
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// The SHA-256 of exactly these bytes.
    pub digest: Digest,
    /// Whether these bytes are trusted. A project's document counts only then.
    pub trusted: bool,
}

impl StoredDocument {
    /// Wraps bytes that nobody trusts yet.
    #[must_use]
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { digest: Digest::of(&bytes), bytes, trusted: false }
    }

    /// Sets whether they are trusted.
    #[must_use]
    pub fn trusted(mut self, trusted: bool) -> Self {
        self.trusted = trusted;
        self
    }
}

/// Keeps documents by owner and name.
///
/// **Contract.** `read` returns what is there now, in one read: the digest is of exactly the returned bytes.
/// `replace` writes all or nothing, and only when what is there still has the expected digest (`None`: nothing
/// is there); otherwise it changes nothing and returns [`DocumentError::Changed`]. What `replace` wrote counts
/// as accepted and trusted, since it came through this port. `trust` accepts the bytes with this digest, and
/// fails with `Changed` when others are there now; digests accepted before stay accepted. `last_accepted`
/// returns the bytes accepted last, also when the document is gone.
///
/// ```
/// use async_trait::async_trait;
/// use nervekit_permissions::{DocumentError, DocumentId, Documents, StoredDocument};
/// use nervekit_types::Digest;
///
/// /// No document at all.
/// #[derive(Debug)]
/// struct NoDocuments;
/// #[async_trait]
/// impl Documents for NoDocuments {
///     async fn read(&self, _id: &DocumentId) -> Result<Option<StoredDocument>, DocumentError> {
///         Ok(None)
///     }
///     async fn replace(&self, _id: &DocumentId, _expected: Option<Digest>, _bytes: &[u8]) -> Result<Digest, DocumentError> {
///         Err(DocumentError::Unsupported)
///     }
///     async fn trust(&self, _id: &DocumentId, _digest: Digest) -> Result<(), DocumentError> {
///         Err(DocumentError::Changed { current: None })
///     }
///     async fn last_accepted(&self, _id: &DocumentId) -> Result<Option<StoredDocument>, DocumentError> {
///         Ok(None)
///     }
/// }
/// let documents: Box<dyn Documents> = Box::new(NoDocuments);
/// ```
#[async_trait]
pub trait Documents: Debug + Send + Sync + 'static {
    /// Reads what is there now.
    async fn read(&self, id: &DocumentId) -> Result<Option<StoredDocument>, DocumentError>;

    /// Writes a document in place of the expected one and returns its digest.
    async fn replace(
        &self,
        id: &DocumentId,
        expected: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Digest, DocumentError>;

    /// Accepts the bytes with this digest.
    async fn trust(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError>;

    /// Returns the bytes that were accepted last.
    async fn last_accepted(&self, id: &DocumentId) -> Result<Option<StoredDocument>, DocumentError>;
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[deny(clippy::missing_trait_methods)]
        #[async_trait]
        impl<P: Documents + ?Sized> Documents for $pointer<P> {
            async fn read(&self, id: &DocumentId) -> Result<Option<StoredDocument>, DocumentError> {
                (**self).read(id).await
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
            async fn last_accepted(&self, id: &DocumentId) -> Result<Option<StoredDocument>, DocumentError> {
                (**self).last_accepted(id).await
            }
        }
    )*};
}

forward!(Arc, Box);
const _: fn(&dyn Documents) = |_| ();

/// Documents in memory, gone with the process.
///
/// ```
/// use nervekit_permissions::{DocumentId, DocumentOwner, Documents, MemoryDocuments};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let documents = MemoryDocuments::new();
/// let id = DocumentId::permissions(DocumentOwner::User(None));
/// let digest = documents.replace(&id, None, b"{}").await?;
/// assert!(documents.replace(&id, None, b"[]").await.is_err()); // something is there by now
/// assert_eq!(documents.read(&id).await?.map(|document| document.digest), Some(digest));
/// # Ok::<(), nervekit_permissions::DocumentError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryDocuments {
    kept: Mutex<BTreeMap<DocumentId, Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    current: Option<Arc<[u8]>>,
    accepted: Vec<Digest>,
    last_accepted: Option<Arc<[u8]>>,
}

impl Kept {
    fn digest(&self) -> Option<Digest> {
        self.current.as_ref().map(Digest::of)
    }

    fn accept(&mut self, digest: Digest) {
        if !self.accepted.contains(&digest) {
            self.accepted.push(digest);
        }
        self.last_accepted.clone_from(&self.current);
    }
}

impl MemoryDocuments {
    /// Starts without any.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts bytes there as if someone edited the file: nobody accepted them.
    pub fn edit(&self, id: DocumentId, bytes: impl Into<Arc<[u8]>>) {
        self.with(id, |kept| kept.current = Some(bytes.into()));
    }

    fn with<T>(&self, id: DocumentId, change: impl FnOnce(&mut Kept) -> T) -> T {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        change(kept.entry(id).or_default())
    }
}

#[async_trait]
impl Documents for MemoryDocuments {
    async fn read(&self, id: &DocumentId) -> Result<Option<StoredDocument>, DocumentError> {
        Ok(self.with(id.clone(), |kept| {
            let document = StoredDocument::new(kept.current.clone()?);
            let trusted = kept.accepted.contains(&document.digest);
            Some(document.trusted(trusted))
        }))
    }

    async fn replace(
        &self,
        id: &DocumentId,
        expected: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Digest, DocumentError> {
        self.with(id.clone(), |kept| {
            let current = kept.digest();
            if current != expected {
                return Err(DocumentError::Changed { current: current.map(Box::new) });
            }
            let digest = Digest::of(bytes);
            kept.current = Some(bytes.into());
            kept.accept(digest);
            Ok(digest)
        })
    }

    async fn trust(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        self.with(id.clone(), |kept| {
            let current = kept.digest();
            if current != Some(digest) {
                return Err(DocumentError::Changed { current: current.map(Box::new) });
            }
            kept.accept(digest);
            Ok(())
        })
    }

    async fn last_accepted(&self, id: &DocumentId) -> Result<Option<StoredDocument>, DocumentError> {
        Ok(self.with(id.clone(), |kept| {
            kept.last_accepted.clone().map(|bytes| StoredDocument::new(bytes).trusted(true))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static_assertions::assert_obj_safe!(Documents, crate::PermissionEngine);

    #[tokio::test]
    async fn trust_binds_exactly_the_bytes_that_were_shown() {
        let documents = MemoryDocuments::new();
        let id = DocumentId::permissions(DocumentOwner::Project("/p".into()));
        documents.edit(id.clone(), *b"one");
        let shown = documents.read(&id).await.unwrap().unwrap();
        assert!(!shown.trusted);
        documents.edit(id.clone(), *b"two");
        assert!(matches!(documents.trust(&id, shown.digest).await, Err(DocumentError::Changed { .. })));
        documents.edit(id.clone(), *b"one");
        documents.trust(&id, shown.digest).await.unwrap();
        documents.edit(id.clone(), *b"two");
        assert!(!documents.read(&id).await.unwrap().unwrap().trusted);
        let last = documents.last_accepted(&id).await.unwrap().unwrap();
        assert_eq!(&*last.bytes, b"one");
        // A version that was accepted once never asks twice.
        documents.edit(id.clone(), *b"one");
        assert!(documents.read(&id).await.unwrap().unwrap().trusted);
    }
}
