//! Assets in memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use nervekit_types::{AssetId, Clock, Digest, SystemClock, Timestamp};

use super::{AssetError, AssetFacts, AssetStore, ByteStream};

/// Keeps assets in memory; they end with it.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use bytes::Bytes;
/// use nervekit_tools::{AssetStore, ByteStream, MemoryAssetStore};
/// use nervekit_types::AssetId;
/// let (store, id) = (MemoryAssetStore::default(), AssetId::from_key("log"));
/// store.write(id, ByteStream::from(Bytes::from_static(b"hello"))).await?;
/// assert_eq!(store.read(id, 0..2).await?, "he");
/// # Ok::<(), nervekit_tools::AssetError>(())
/// # }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryAssetStore(Mutex<BTreeMap<AssetId, Held>>);

#[derive(Clone, Debug)]
struct Held {
    bytes: Bytes,
    digest: Digest,
    changed_at: Timestamp,
}

impl MemoryAssetStore {
    fn held(&self) -> std::sync::MutexGuard<'_, BTreeMap<AssetId, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn facts(&self, id: AssetId) -> AssetFacts {
        AssetFacts::new(id, self.bytes.len() as u64, self.changed_at).digest(self.digest)
    }
}

#[async_trait]
impl AssetStore for MemoryAssetStore {
    async fn write(&self, id: AssetId, bytes: ByteStream) -> Result<AssetFacts, AssetError> {
        let bytes = bytes.collect().await?;
        let held = Held { digest: Digest::of(&bytes), bytes, changed_at: SystemClock.now() };
        let facts = held.facts(id);
        match self.held().entry(id) {
            std::collections::btree_map::Entry::Occupied(_) => Err(AssetError::Exists { id }),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(held);
                Ok(facts)
            }
        }
    }

    async fn read(&self, id: AssetId, range: Range<u64>) -> Result<Bytes, AssetError> {
        let held = self.held().get(&id).cloned().ok_or(AssetError::NotFound { id })?;
        let within = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(held.bytes.len());
        let start = within(range.start);
        Ok(held.bytes.slice(start..within(range.end).max(start)))
    }

    async fn remove(&self, id: AssetId) -> Result<(), AssetError> {
        self.held().remove(&id);
        Ok(())
    }

    async fn list(&self, after: Option<AssetId>) -> Result<Vec<AssetFacts>, AssetError> {
        let held = self.held();
        Ok(held.iter().filter(|(id, _)| Some(**id) > after).map(|(id, held)| held.facts(*id)).collect())
    }
}
