//! What was decided about documents that lie outside of the store.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use nervekit_permissions::{DocumentError, DocumentId, TrustRecord, TrustStore};
use nervekit_types::{IdSource, SystemIds};

use super::batch::Batch;
use super::load::first;
use super::row::TrustRow;
use super::{CommitError, Store, StoreError, Versioned, key};
use crate::backend::{Backend, CommitNumber, Expect, Range};

/// What was decided about documents, kept in the backend of the conversations: no project and no tool reaches it.
///
/// ```
/// use std::sync::Arc;
/// use nervekit_conversation_core::{MemoryBackend, StoredTrust};
/// use nervekit_permissions::{DocumentId, DocumentOwner, Documents, FileDocuments, Trust};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let home = tempfile::tempdir()?;
/// let backend = Arc::new(MemoryBackend::new());
/// let documents = FileDocuments::new(home.path(), StoredTrust::open(backend.clone()).await?);
/// let id = DocumentId::permissions(DocumentOwner::User(None));
/// documents.replace(&id, None, br#"{"schemaVersion": 2}"#).await?;
///
/// // Whoever opens the backend next finds what was decided.
/// let documents = FileDocuments::new(home.path(), StoredTrust::open(backend).await?);
/// let state = documents.read(&id).await?;
/// assert_eq!(state.current.as_ref().map(|document| document.trust), Some(Trust::Trusted));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StoredTrust {
    store: Store,
}

impl StoredTrust {
    /// Opens the store over a backend, as a core does. Both may be open at once.
    pub async fn open(backend: impl Backend) -> Result<Self, StoreError> {
        let ids: Arc<dyn IdSource> = Arc::new(SystemIds::default());
        Ok(Self { store: Store::open(Arc::new(backend), ids).await? })
    }
}

impl Batch {
    /// Writes what was decided about a document, in place of what was read.
    fn trust(&mut self, place: Bytes, name: &str, record: TrustRecord, read: Option<CommitNumber>) {
        let expect = read.map_or(Expect::Absent, Expect::Version);
        let TrustRecord { revision, accepted, rejected, last_accepted, .. } = record;
        let row = TrustRow { name: name.to_owned(), revision, accepted, rejected };
        self.put(key::TRUST, place.clone(), expect, &row);
        // The first row's version guards this one.
        let bytes = last_accepted.map(|bytes| Bytes::copy_from_slice(&bytes));
        self.put_bytes_or_delete(key::ACCEPTED, place, Expect::Any, bytes);
    }
}

impl Store {
    /// What was decided about a document, and the bytes that were accepted last.
    async fn trust(&self, place: &Bytes) -> Result<Option<(Versioned<TrustRow>, Option<Bytes>)>, StoreError> {
        let ranges = [key::TRUST, key::ACCEPTED].map(|table| Range::prefix(table, place.clone()));
        let found = self.backend.range(ranges.to_vec()).await?;
        let mut found = found.iter();
        let row = found.next().map(|rows| first::<TrustRow>(rows)).transpose()?.flatten();
        let bytes = found.next().and_then(|rows| rows.first()).map(|row| row.value.clone());
        Ok(row.map(|row| (row, bytes)))
    }
}

#[async_trait]
impl TrustStore for StoredTrust {
    async fn read(&self, id: &DocumentId) -> Result<Option<TrustRecord>, DocumentError> {
        let place = key::outside(id).ok_or(DocumentError::Unsupported)?;
        let found = self.store.trust(&place).await.map_err(unavailable)?;
        Ok(found.map(|(row, bytes)| {
            let mut record = TrustRecord::new();
            record.revision = row.value.revision;
            record.accepted = row.value.accepted;
            record.rejected = row.value.rejected;
            record.last_accepted = bytes.map(|bytes| Arc::from(&bytes[..]));
            record
        }))
    }

    async fn replace(&self, id: &DocumentId, record: TrustRecord) -> Result<(), DocumentError> {
        let place = key::outside(id).ok_or(DocumentError::Unsupported)?;
        let read = self.store.trust(&place).await.map_err(unavailable)?.map(|(row, _)| row);
        if record.revision != read.as_ref().map_or(0, |row| row.value.revision) + 1 {
            return Err(DocumentError::Changed { current: None });
        }
        let mut batch = self.store.batch();
        batch.trust(place, &id.name, record, read.map(|row| row.version));
        match self.store.commit(&mut batch).await {
            Ok(_) => Ok(()),
            Err(CommitError::Conflict { .. }) => Err(DocumentError::Changed { current: None }),
            Err(error) => Err(unavailable(error.into())),
        }
    }
}

fn unavailable(error: StoreError) -> DocumentError {
    DocumentError::Unavailable(Box::new(error))
}
