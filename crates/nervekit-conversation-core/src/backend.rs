//! What a database must do for conversations: conditional, atomic writes of many rows.

mod error;
mod image;
mod maintenance;
mod memory;
mod row;
mod write;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use nervekit_types::{BatchId, Timestamp};

pub use error::{BackendError, Refused};
#[cfg(feature = "testing")]
pub(crate) use image::Image;
pub use maintenance::{BackendFacts, Maintenance, MaintenanceReport};
pub use memory::MemoryBackend;
pub use row::{CommitNumber, Range, Row, Table};
pub use write::{Change, Expect, Write, WriteSet};

/// Stores rows. It knows no domain, no rules and no indexes: the store above it keeps those.
///
/// **Contract.** A row is a key and a value, both bytes, in a [`Table`]; keys sort as their bytes do. A table
/// exists from the first time it is named and is empty until then. The backend takes keys of up to 1 KiB,
/// the empty one included, and values of up to 16 MiB; it may take more.
///
/// - [`write`](Self::write) decides each set in order, against the state after the sets before it. All
///   expectations of a set are checked before its first change; its changes are then made in order, so the
///   last one for a key wins. A set is applied whole or refused whole, and a refused one harms no other.
/// - The sets of one call, and those of calls made at the same time, may share one physical commit. The
///   future resolves when that commit is durable, and nothing it changed can be read before. Should the
///   physical commit fail, every set in it fails with that error.
/// - Each applied set gets a [`CommitNumber`], larger than all earlier ones and never given again, not even
///   after a reopening. It becomes the version of every row the set put. A row that a set only kept has the
///   version it had.
/// - A set whose [`BatchId`] was applied before, in an earlier call or earlier in the same one, is not
///   checked and changes nothing: its answer is the number it was given then. A refused id is free to be
///   tried again.
/// - [`applied`](Self::applied) answers for at least 24 hours, by [`now`](Self::now), after the commit.
/// - All rows that one call of [`range`](Self::range) returns are of one snapshot.
/// - An *exclusive* backend, which lets one opening write at a time, draws an
///   [`OpeningId`](nervekit_types::OpeningId) at each open and stores it. It recovers from an I/O error by
///   itself, by reopening on the next call, under the same id; when it then finds the id of another opening
///   it answers [`BackendError::Fenced`] for ever. A shared one has no opening.
/// - A future may be polled by any executor and may be dropped: a write is then either not begun or runs to
///   its end, unseen. No method panics.
///
/// A change of the rows is one transaction of any database; here, a map behind a mutex:
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::{Mutex, PoisonError};
///
/// use async_trait::async_trait;
/// use nervekit_conversation_core::{
///     Backend, BackendError, BackendFacts, Change, CommitNumber, Maintenance, MaintenanceReport, Range,
///     Refused, Row, Table, WriteSet,
/// };
/// use nervekit_types::{BatchId, Clock, SystemClock, Timestamp};
///
/// #[derive(Debug, Default)]
/// struct State {
///     rows: BTreeMap<(Table, Vec<u8>), Row>,
///     applied: BTreeMap<BatchId, CommitNumber>,
///     last: Option<CommitNumber>,
/// }
///
/// #[derive(Debug, Default)]
/// struct MapBackend(Mutex<State>);
///
/// impl MapBackend {
///     fn state(&self) -> std::sync::MutexGuard<'_, State> {
///         self.0.lock().unwrap_or_else(PoisonError::into_inner)
///     }
/// }
///
/// impl State {
///     fn apply(&mut self, set: WriteSet) -> Result<CommitNumber, Refused> {
///         if let Some(number) = self.applied.get(&set.id) {
///             return Ok(*number);
///         }
///         for (index, write) in set.writes.iter().enumerate() {
///             let found = self.rows.get(&(write.table, write.key.to_vec())).map(|row| row.version);
///             if !write.expect.holds(found) {
///                 return Err(Refused::new(index, write, found));
///             }
///         }
///         let number = CommitNumber::after(self.last);
///         for write in set.writes {
///             let place = (write.table, write.key.to_vec());
///             match write.change {
///                 Change::Keep => {}
///                 Change::Put(value) => {
///                     self.rows.insert(place, Row::new(write.key, value, number));
///                 }
///                 Change::Delete => {
///                     self.rows.remove(&place);
///                 }
///             }
///         }
///         self.last = Some(number);
///         self.applied.insert(set.id, number);
///         Ok(number)
///     }
/// }
///
/// #[async_trait]
/// impl Backend for MapBackend {
///     async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
///         let mut state = self.state();
///         Ok(sets.into_iter().map(|set| state.apply(set)).collect())
///     }
///     async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError> {
///         Ok(self.state().applied.get(&id).copied())
///     }
///     async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
///         Ok(self.state().rows.get(&(table, key.to_vec())).cloned())
///     }
///     async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
///         let state = self.state();
///         let select = |range: &Range| {
///             let mut rows: Vec<Row> = state
///                 .rows
///                 .iter()
///                 .filter(|((table, key), _)| *table == range.table && range.contains(key))
///                 .map(|(_, row)| row.clone())
///                 .collect();
///             if range.reverse {
///                 rows.reverse();
///             }
///             rows.truncate(range.limit);
///             rows
///         };
///         Ok(ranges.iter().map(select).collect())
///     }
///     async fn now(&self) -> Result<Timestamp, BackendError> {
///         Ok(SystemClock.now())
///     }
///     async fn maintain(&self, _job: Maintenance) -> Result<MaintenanceReport, BackendError> {
///         Ok(MaintenanceReport::new())
///     }
///     fn facts(&self) -> BackendFacts {
///         BackendFacts::new(false)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// const NOTES: Table = Table::new("notes");
/// let backend = MapBackend::default();
/// let set = WriteSet::new(BatchId::from_key("first")).insert(NOTES, "a", "hello");
/// let number = backend.write(vec![set]).await?.remove(0)?;
/// assert_eq!(backend.get(NOTES, b"a").await?, Some(Row::new("a", "hello", number)));
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Backend: Debug + Send + Sync + 'static {
    /// Applies the sets in order, each whole or not at all, in one physical commit; returns when it is
    /// durable, with one answer for each set.
    async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError>;

    /// Tells whether the set with this id was applied. After [`BackendError::Unknown`] this is the question
    /// to ask.
    async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError>;

    /// Reads one row.
    async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError>;

    /// Reads ranges of rows, all of one snapshot, one answer for each range.
    async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError>;

    /// The present moment by the store's clock, by which leases expire.
    async fn now(&self) -> Result<Timestamp, BackendError>;

    /// Does a job of maintenance. A job that means nothing to this backend is done at once.
    async fn maintain(&self, job: Maintenance) -> Result<MaintenanceReport, BackendError>;

    /// What is fixed for as long as this backend is open. Does not block.
    fn facts(&self) -> BackendFacts;
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<B: Backend + ?Sized> Backend for $pointer<B> {
            async fn write(
                &self,
                sets: Vec<WriteSet>,
            ) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
                (**self).write(sets).await
            }

            async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError> {
                (**self).applied(id).await
            }

            async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
                (**self).get(table, key).await
            }

            async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
                (**self).range(ranges).await
            }

            async fn now(&self) -> Result<Timestamp, BackendError> {
                (**self).now().await
            }

            async fn maintain(&self, job: Maintenance) -> Result<MaintenanceReport, BackendError> {
                (**self).maintain(job).await
            }

            fn facts(&self) -> BackendFacts {
                (**self).facts()
            }
        }
    )*};
}

forward!(Arc, Box);

const _: fn(&dyn Backend) = |_| ();
