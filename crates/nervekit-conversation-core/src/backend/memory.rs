//! A backend that forgets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use nervekit_types::{BatchId, Clock, OpeningId, SystemClock, SystemIds, Timestamp};

use super::Backend;
use super::error::{BackendError, Refused};
use super::image::Image;
use super::maintenance::{BackendFacts, Maintenance, MaintenanceReport};
use super::row::{CommitNumber, Range, Row, Table};
use super::write::WriteSet;

/// Keeps rows in memory: for tests, and for conversations that need not outlive the process.
///
/// It is exclusive and not durable. No method waits for anything.
///
/// ```
/// use nervekit_conversation_core::{Backend, MemoryBackend, Table, WriteSet};
/// use nervekit_types::BatchId;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// const NOTES: Table = Table::new("notes");
/// let backend = MemoryBackend::new();
/// backend.write(vec![WriteSet::new(BatchId::from_key("1")).put(NOTES, "a", "hello")]).await?;
/// assert_eq!(backend.get(NOTES, b"a").await?.map(|row| row.value), Some("hello".into()));
///
/// // A snapshot goes its own way from here.
/// let before = backend.snapshot();
/// backend.write(vec![WriteSet::new(BatchId::from_key("2")).delete(NOTES, "a")]).await?;
/// assert!(before.get(NOTES, b"a").await?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MemoryBackend {
    image: Mutex<Image>,
    clock: Arc<dyn Clock>,
    opening: OpeningId,
}

impl MemoryBackend {
    /// An empty store under the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Image::default(), Arc::new(SystemClock))
    }

    /// Tells the time by this clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Goes by this id, which is otherwise drawn at random.
    #[must_use]
    pub const fn opening(mut self, opening: OpeningId) -> Self {
        self.opening = opening;
        self
    }

    /// Another store with the same rows and an opening of its own; the two go separate ways from here.
    ///
    /// Taking it costs one pointer for each table; the first later change of a table copies its tree, but
    /// no key and no value.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self::over(self.image().clone(), self.clock.clone())
    }

    fn over(image: Image, clock: Arc<dyn Clock>) -> Self {
        Self { image: Mutex::new(image), clock, opening: OpeningId::next(&SystemIds::default()) }
    }

    fn image(&self) -> MutexGuard<'_, Image> {
        // No change of an image can stop half-way, so what a panicking thread leaves behind is whole.
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
        let now = self.clock.now();
        let mut image = self.image();
        Ok(sets.into_iter().map(|set| image.apply(set, now)).collect())
    }

    async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError> {
        Ok(self.image().applied(id))
    }

    async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
        Ok(self.image().get(table, key))
    }

    async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
        let image = self.image();
        Ok(ranges.iter().map(|range| image.range(range)).collect())
    }

    async fn now(&self) -> Result<Timestamp, BackendError> {
        Ok(self.clock.now())
    }

    async fn maintain(&self, _job: Maintenance) -> Result<MaintenanceReport, BackendError> {
        let (rows, bytes) = self.image().size();
        Ok(MaintenanceReport::new().rows(rows).bytes(bytes))
    }

    fn facts(&self) -> BackendFacts {
        BackendFacts::new(false).opening(self.opening)
    }
}
