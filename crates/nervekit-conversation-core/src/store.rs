//! The store: every rule about stored conversations, once, above any [`Backend`].
//!
//! A holder loads the [`Rows`] of a conversation, drafts a [`Change`] to them, and commits a [`Batch`]; the rows
//! then take over what was written, with its version. A running conversation so knows the versions of its rows,
//! and a commit is one write and no read.

mod batch;
mod change;
mod error;
mod key;
mod lease;
mod load;
mod maintenance;
mod record;
mod row;
mod stored;
#[cfg(test)]
mod tests;
mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nervekit_types::{BatchId, ConversationId, IdSource, Timestamp};

use crate::backend::{Backend, BackendFacts, Range};

pub use batch::{Batch, Committed};
pub use change::{Change, Draft, LeaseStep, NewEvent, Role};
pub use error::{CommitError, StoreError};
pub use load::EventRange;
pub use maintenance::{StoreStats, VerifyReport};
pub use record::RecordError;
pub use row::{CoreRow, Fate, FileRead, MailboxRow, OutcomeRow, Rows, TrustRow, Versioned};
pub use stored::StoredConversation;
pub use trust::StoredTrust;

pub(crate) use record::CHAIN_START;

/// The name of the record of which each input has one, for ever.
pub(crate) const FATES: &str = key::FATES.name();
pub(crate) use row::wakes;

/// The oldest and the newest record version that this build reads. The newest is the one it writes.
const OLDEST_RECORD_VERSION: u32 = 1;
const NEWEST_RECORD_VERSION: u32 = 1;

/// Conversations over a backend.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Arc<dyn Backend>,
    ids: Arc<dyn IdSource>,
    index: Arc<EventIndex>,
}

impl Store {
    /// Opens the store over a backend: writes the format marker into an empty one, refuses one that a newer build
    /// wrote, and converts nothing.
    ///
    /// The cost depends on what is unfinished, not on what is stored.
    pub async fn open(backend: Arc<dyn Backend>, ids: Arc<dyn IdSource>) -> Result<Self, StoreError> {
        let store = Self { backend, ids, index: Arc::new(EventIndex::default()) };
        store.check_format().await?;
        store.index.advance_to(store.stored_index_end().await?);
        Ok(store)
    }

    /// What the backend says of itself.
    #[must_use]
    pub fn facts(&self) -> BackendFacts {
        self.backend.facts()
    }

    /// The present moment by the store's clock, by which leases expire.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        Ok(self.backend.now().await?)
    }

    /// Makes an empty batch.
    #[must_use]
    pub fn batch(&self) -> Batch {
        Batch::new(BatchId::next(&self.ids))
    }

    async fn stored_index_end(&self) -> Result<u64, StoreError> {
        let last = Range::new(key::INDEX).limit(1).reverse();
        let rows = self.backend.range(vec![last]).await?;
        Ok(rows
            .first()
            .and_then(|rows| rows.first())
            .and_then(|row| key::sequence(&row.key))
            .map_or(0, |n| n + 1))
    }

    /// The conversations that have something unfinished, in the order of their ids.
    pub async fn unfinished(&self) -> Result<Vec<ConversationId>, StoreError> {
        let rows = self.backend.range(vec![Range::new(key::UNFINISHED)]).await?;
        Ok(rows.into_iter().flatten().filter_map(|row| key::conversation(&row.key)).collect())
    }
}

/// Allocates places in the event index, and knows which are in flight: readers stop below the lowest of those,
/// because a place that was allocated earlier may become durable later.
#[derive(Debug, Default)]
struct EventIndex {
    next: AtomicU64,
    in_flight: Mutex<BTreeSet<u64>>,
    /// Places in flight of batches whose fate was unknown when they were given up.
    lost: Mutex<BTreeMap<u64, BatchId>>,
}

impl EventIndex {
    fn advance_to(&self, end: u64) {
        self.next.fetch_max(end, Ordering::SeqCst);
    }

    fn allocate(&self) -> u64 {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.next.fetch_add(1, Ordering::SeqCst);
        in_flight.insert(place);
        place
    }

    fn settle(&self, place: u64) {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
    }

    /// Leaves a place in flight until it is known whether this batch is durable.
    fn lose(&self, batch: BatchId, place: u64) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).insert(place, batch);
    }

    fn lost(&self) -> BTreeMap<u64, BatchId> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn find(&self, place: u64) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
        self.settle(place);
    }

    /// Every place below this one is durable or was given up.
    fn readable_end(&self) -> u64 {
        let in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        in_flight.first().copied().unwrap_or_else(|| self.next.load(Ordering::SeqCst))
    }
}
