//! Documents in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nervekit_types::Digest;

use super::{DocumentId, DocumentState, Documents, TrustRecord};
use crate::error::DocumentError;

/// Documents in memory, gone with the process.
///
/// ```
/// use nervekit_permissions::{DocumentId, DocumentOwner, Documents, MemoryDocuments};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let documents = MemoryDocuments::new();
/// let id = DocumentId::permissions(DocumentOwner::User(None));
/// let digest = documents.replace(&id, None, b"{}").await?;
/// assert!(documents.replace(&id, None, b"[]").await.is_err()); // something is there by now
/// assert_eq!(documents.look(&id).current.as_ref().map(|document| document.digest), Some(digest));
/// # Ok::<(), nervekit_permissions::DocumentError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryDocuments {
    kept: Mutex<BTreeMap<DocumentId, Kept>>,
}

#[derive(Debug)]
struct Kept {
    bytes: Option<Arc<[u8]>>,
    record: TrustRecord,
    state: Arc<DocumentState>,
}

impl Kept {
    fn new(id: &DocumentId) -> Self {
        let state = Arc::new(DocumentState::new(place(id)));
        Self { bytes: None, record: TrustRecord::new(), state }
    }

    fn digest(&self) -> Option<Digest> {
        self.bytes.as_ref().map(Digest::of)
    }

    fn expect(&self, expected: Option<Digest>) -> Result<(), DocumentError> {
        let current = self.digest();
        if current == expected {
            return Ok(());
        }
        Err(DocumentError::Changed { current: current.map(Box::new) })
    }
}

fn place(id: &DocumentId) -> String {
    format!("the document `{}` of the {}", crate::display(&id.name), id.owner.scope())
}

impl MemoryDocuments {
    /// Starts without any.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts bytes there, or nothing, as if someone edited or removed the file: nobody accepted that.
    pub fn edit(&self, id: &DocumentId, bytes: Option<&[u8]>) {
        self.with(id, |kept| kept.bytes = bytes.map(Arc::from));
    }

    fn with<T>(&self, id: &DocumentId, change: impl FnOnce(&mut Kept) -> T) -> T {
        let mut documents = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = documents.entry(id.clone()).or_insert_with(|| Kept::new(id));
        let changed = change(kept);
        let state = kept.record.describe(DocumentState::new(place(id)), kept.bytes.as_ref());
        if state != *kept.state {
            kept.state = Arc::new(state);
        }
        changed
    }
}

#[async_trait]
impl Documents for MemoryDocuments {
    async fn read(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
        Ok(self.look(id))
    }

    fn look(&self, id: &DocumentId) -> Arc<DocumentState> {
        let mut documents = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&documents.entry(id.clone()).or_insert_with(|| Kept::new(id)).state)
    }

    async fn replace(
        &self,
        id: &DocumentId,
        expected: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Digest, DocumentError> {
        self.with(id, |kept| {
            kept.expect(expected)?;
            let bytes: Arc<[u8]> = bytes.into();
            kept.record.accept(id.owner.scope(), &bytes);
            let digest = Digest::of(&bytes);
            kept.bytes = Some(bytes);
            Ok(digest)
        })
    }

    async fn trust(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        self.with(id, |kept| {
            kept.expect(Some(digest))?;
            if let Some(bytes) = &kept.bytes {
                kept.record.accept(id.owner.scope(), bytes);
            }
            Ok(())
        })
    }

    async fn reject(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        self.with(id, |kept| kept.record.reject(digest));
        Ok(())
    }

    async fn forget(&self, id: &DocumentId) -> Result<(), DocumentError> {
        self.with(id, |kept| {
            kept.expect(None)?;
            kept.record.forget(id.owner.scope());
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::{DocumentOwner, Trust};

    static_assertions::assert_obj_safe!(Documents, crate::PermissionEngine, crate::TrustStore);

    #[tokio::test]
    async fn trust_binds_exactly_the_bytes_that_were_shown() {
        let documents = MemoryDocuments::new();
        let id = DocumentId::permissions(DocumentOwner::Project("/p".into()));
        let trust = || documents.look(&id).current.as_ref().unwrap().trust;
        documents.edit(&id, Some(b"one"));
        let shown = Digest::of(b"one");
        assert_eq!(trust(), Trust::Undecided);
        documents.edit(&id, Some(b"two"));
        assert!(matches!(documents.trust(&id, shown).await, Err(DocumentError::Changed { .. })));
        documents.edit(&id, Some(b"one"));
        documents.trust(&id, shown).await.unwrap();
        documents.edit(&id, Some(b"two"));
        assert_eq!(trust(), Trust::Undecided);
        assert_eq!(&*documents.look(&id).last_accepted.as_ref().unwrap().bytes, b"one");
        // A version that was accepted once never asks twice.
        documents.edit(&id, Some(b"one"));
        assert_eq!(trust(), Trust::Trusted);
        documents.reject(&id, shown).await.unwrap();
        assert_eq!(trust(), Trust::Rejected);
    }

    #[tokio::test]
    async fn putting_back_an_older_version_of_the_user_is_an_edit_like_any_other() {
        let documents = MemoryDocuments::new();
        let id = DocumentId::permissions(DocumentOwner::User(None));
        let first = documents.replace(&id, None, b"one").await.unwrap();
        documents.replace(&id, Some(first), b"two").await.unwrap();
        documents.edit(&id, Some(b"one"));
        assert_eq!(documents.look(&id).current.as_ref().unwrap().trust, Trust::Undecided);
    }
}
