//! What was decided about the bytes of documents, and where that is kept.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nervekit_types::Digest;
use serde::{Deserialize, Serialize};

use super::{DocumentId, DocumentState, StoredDocument};
use crate::document::DocumentScope;
use crate::error::DocumentError;

/// The most digests that are remembered of one document; the oldest are asked about again.
const MAXIMUM_DIGESTS: usize = 64;

/// What was decided about the bytes of a document.
///
/// ```
/// use nervekit_permissions::Trust;
/// assert_ne!(Trust::Undecided, Trust::Rejected);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Nothing; they count no more than refused ones.
    Undecided,
    /// A person, or this program in a person's name, accepted them.
    Trusted,
    /// A person refused them.
    Rejected,
}

/// Everything that was decided about one document. One row of a store holds it, in any format of serde.
///
/// ```
/// use nervekit_permissions::{Trust, TrustRecord};
/// use nervekit_types::Digest;
/// let record = TrustRecord::new();
/// assert_eq!(record.trust(&Digest::of("{}")), Trust::Undecided);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TrustRecord {
    /// How often it was written.
    pub revision: u64,
    /// The digests that are accepted. Of a user's document only the last one, and while it is written the next.
    pub accepted: Vec<Digest>,
    /// The digests that were refused.
    pub rejected: Vec<Digest>,
    /// The bytes that were accepted last.
    pub last_accepted: Option<Arc<[u8]>>,
}

impl TrustRecord {
    /// Starts without a decision.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Says what was decided about bytes with this digest.
    #[must_use]
    pub fn trust(&self, digest: &Digest) -> Trust {
        if self.accepted.contains(digest) {
            Trust::Trusted
        } else if self.rejected.contains(digest) {
            Trust::Rejected
        } else {
            Trust::Undecided
        }
    }

    /// Accepts what will be written, beside what is there, and returns what was decided about it before.
    pub(super) fn announce(&mut self, digest: Digest) -> Trust {
        let before = self.trust(&digest);
        self.rejected.retain(|known| *known != digest);
        remember(&mut self.accepted, digest);
        before
    }

    /// Takes an announcement back: it was not written.
    pub(super) fn withdraw(&mut self, digest: Digest, before: Trust) {
        match before {
            Trust::Trusted => {}
            Trust::Undecided => self.accepted.retain(|known| *known != digest),
            Trust::Rejected => self.reject(digest),
        }
    }

    /// Accepts what is there. A user's older versions end with it: putting one back must not bring back what
    /// was revoked since. Those of a project stay, because branches come and go.
    pub(super) fn accept(&mut self, scope: DocumentScope, bytes: &Arc<[u8]>) {
        let digest = Digest::of(bytes);
        self.announce(digest);
        if scope == DocumentScope::User {
            self.accepted.retain(|known| *known == digest);
        }
        self.last_accepted = Some(Arc::clone(bytes));
    }

    /// Accepts that nothing is there. A user's version that is put back is an edit like any other; those of a
    /// project stay known, because branches come and go.
    pub(super) fn forget(&mut self, scope: DocumentScope) {
        if scope == DocumentScope::User {
            self.accepted.clear();
        }
        self.last_accepted = None;
    }

    pub(super) fn reject(&mut self, digest: Digest) {
        self.accepted.retain(|known| *known != digest);
        remember(&mut self.rejected, digest);
    }

    /// Describes a document to which this record belongs.
    pub(super) fn describe(&self, mut state: DocumentState, bytes: Option<&Arc<[u8]>>) -> DocumentState {
        state.current = bytes.map(|bytes| {
            let document = StoredDocument::new(Arc::clone(bytes));
            let trust = self.trust(&document.digest);
            document.trust(trust)
        });
        state.last_accepted = self.last_accepted.as_ref().map(|bytes| {
            // It may have been refused since, and a damaged store may hold other bytes than were accepted.
            let document = StoredDocument::new(Arc::clone(bytes));
            let trust = self.trust(&document.digest);
            document.trust(trust)
        });
        state
    }
}

fn remember(digests: &mut Vec<Digest>, digest: Digest) {
    digests.retain(|known| *known != digest);
    digests.push(digest);
    let surplus = digests.len().saturating_sub(MAXIMUM_DIGESTS);
    digests.drain(..surplus);
}

/// Keeps what was decided about documents, out of reach of what the documents steer.
///
/// A store needs one row per document: the key is the [`DocumentId`], the value the [`TrustRecord`], and the
/// row's version stands in for the record's revision.
///
/// **Contract.** `read` returns the record of a document, `None` when nothing was ever decided about it.
/// `replace` writes a record durably when its revision is greater by one than that of the stored one (an
/// absent one counts as 0); otherwise it changes nothing and returns [`DocumentError::Changed`], with `None` for the
/// digest, which is of documents. A fault of the store itself is [`DocumentError::Unavailable`]. No project and no
/// agent can write what is kept here; a file is best kept below the home that is registered as
/// [`Roots::nerve_home`](crate::Roots::nerve_home). The example `own_tools` has such a store.
///
/// ```
/// use async_trait::async_trait;
/// use nervekit_permissions::{DocumentError, DocumentId, TrustRecord, TrustStore};
///
/// /// Nothing was decided and nothing ever is.
/// #[derive(Debug)]
/// struct Undecided;
/// #[async_trait]
/// impl TrustStore for Undecided {
///     async fn read(&self, _id: &DocumentId) -> Result<Option<TrustRecord>, DocumentError> {
///         Ok(None)
///     }
///     async fn replace(&self, _id: &DocumentId, _record: TrustRecord) -> Result<(), DocumentError> {
///         Err(DocumentError::Unsupported)
///     }
/// }
/// let store: Box<dyn TrustStore> = Box::new(Undecided);
/// ```
#[async_trait]
pub trait TrustStore: Debug + Send + Sync + 'static {
    /// Reads the record of a document.
    async fn read(&self, id: &DocumentId) -> Result<Option<TrustRecord>, DocumentError>;

    /// Writes a record in place of the one before it.
    async fn replace(&self, id: &DocumentId, record: TrustRecord) -> Result<(), DocumentError>;
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[deny(clippy::missing_trait_methods)]
        #[async_trait]
        impl<P: TrustStore + ?Sized> TrustStore for $pointer<P> {
            async fn read(&self, id: &DocumentId) -> Result<Option<TrustRecord>, DocumentError> {
                (**self).read(id).await
            }
            async fn replace(&self, id: &DocumentId, record: TrustRecord) -> Result<(), DocumentError> {
                (**self).replace(id, record).await
            }
        }
    )*};
}

forward!(Arc, Box);
const _: fn(&dyn TrustStore) = |_| ();

/// Decisions in memory, gone with the process: every document is asked about anew.
///
/// ```
/// use nervekit_permissions::{DocumentId, DocumentOwner, MemoryTrustStore, TrustRecord, TrustStore};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = MemoryTrustStore::new();
/// let id = DocumentId::permissions(DocumentOwner::User(None));
/// let mut record = TrustRecord::new();
/// record.revision = 1;
/// store.replace(&id, record.clone()).await?;
/// assert!(store.replace(&id, record).await.is_err()); // someone else was faster
/// # Ok::<(), nervekit_permissions::DocumentError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryTrustStore(Mutex<BTreeMap<DocumentId, TrustRecord>>);

impl MemoryTrustStore {
    /// Starts without a decision.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl TrustStore for MemoryTrustStore {
    async fn read(&self, id: &DocumentId) -> Result<Option<TrustRecord>, DocumentError> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned())
    }

    async fn replace(&self, id: &DocumentId, record: TrustRecord) -> Result<(), DocumentError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let revision = kept.get(id).map_or(0, |record| record.revision);
        if record.revision != revision + 1 {
            return Err(DocumentError::Changed { current: None });
        }
        kept.insert(id.clone(), record);
        Ok(())
    }
}
