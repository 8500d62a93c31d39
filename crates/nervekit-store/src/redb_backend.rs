//! Conversations in one redb file.

mod commit;
mod connection;
mod failure;
mod file;
mod layout;
mod read;
mod worker;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nervekit_conversation_core::{
    Backend, BackendError, BackendFacts, CommitNumber, Maintenance, MaintenanceReport, Range, Refused, Row,
    Table, WriteSet,
};
use nervekit_types::{BatchId, Clock, IdSource, OpeningId, SystemClock, SystemIds, Timestamp};
use tokio::sync::oneshot;

use connection::Connection;
use failure::Failure;
use file::{Disk, Source};
use worker::{Job, Worker};

/// Ranges that may return more rows than this are read on a thread of the backend.
const INLINE_ROWS: usize = 256;

/// Keeps rows in one redb file.
///
/// One opening at a time has the file, in this process or another one; a second one gets
/// [`BackendError::InUse`] at once, or after [`RedbOptions::lock_wait`]. The lock belongs to the open file: it
/// is gone as soon as the process is, however it ended, and processes that the host started do not hold it.
///
/// - **Writing.** A thread commits. While it waits for the disk, the writes of all other callers gather, and
///   the next commit takes them together: the more conversations write at once, the fewer syncs each costs.
/// - **Reading.** A row, and a range of at most 256 rows, is read where it is asked for: redb has the upper
///   pages of its trees in memory, and a hand-over to another thread would cost more than the read. It does not
///   wait for commits, but for the one in which the file grows. What may be larger, and everything while the file is being repaired, is read on a second thread.
/// - **Failure.** redb refuses all work after one I/O error. The next call opens the file again, under the same
///   opening. A commit that failed is looked up in the reopened file, so [`BackendError::Unknown`] is left for
///   what cannot be known: the system failed to sync the file, or it cannot be opened again.
/// - **Crashing** loses nothing that was answered for. When nothing was written for a moment the backend stores
///   what a repair would have to find out, so that opening after a crash is as quick as after a close.
/// - **Dropping** the backend finishes what was begun and waits for it; the file is free afterwards.
///
/// Futures may be polled by any executor.
///
/// ```
/// use nervekit_conversation_core::{Backend, Table, WriteSet};
/// use nervekit_store::RedbBackend;
/// use nervekit_types::BatchId;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("store.redb");
/// const NOTES: Table = Table::new("notes");
/// let backend = RedbBackend::open(&path).await?;
/// backend.write(vec![WriteSet::new(BatchId::from_key("1")).put(NOTES, "a", "hello")]).await?;
/// drop(backend);
///
/// let backend = RedbBackend::open(&path).await?;
/// assert_eq!(backend.get(NOTES, b"a").await?.map(|row| row.value), Some("hello".into()));
/// assert_eq!(RedbBackend::open(&path).await.unwrap_err().kind(), "in_use");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RedbBackend {
    connection: Arc<Connection>,
    reader: Option<Worker>,
    writer: Option<Worker>,
}

/// How a [`RedbBackend`] is opened.
///
/// ```
/// use std::time::Duration;
/// use nervekit_store::RedbBackend;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("store.redb");
/// // While a deployment overlaps the one before it.
/// let backend = RedbBackend::options(&path).lock_wait(Duration::from_secs(10)).open().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedbOptions {
    path: PathBuf,
    lock_wait: Duration,
    source: Source,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
}

impl RedbOptions {
    /// Waits this long for a file that is in use. Default: not at all.
    #[must_use]
    pub const fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// Keeps at most this many bytes of the file in memory. Default: 64 MiB.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.source.cache_bytes = bytes;
        self
    }

    /// Tells the time by this clock. Default: the machine's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Draws the opening's id from this source. Default: the system's.
    #[must_use]
    pub fn ids(mut self, ids: impl IdSource) -> Self {
        self.ids = Arc::new(ids);
        self
    }

    /// Opens the file, or makes it if nothing is there. The folder must be there.
    ///
    /// After a crash within a quarter of a second of a commit, redb first reads the whole file to find out what
    /// is whole and what is free, which takes some ten seconds for a million events; after any other, and after
    /// a close, opening does not depend on the size. Dropping the future gives up waiting for the lock.
    pub async fn open(self) -> Result<RedbBackend, BackendError> {
        let store: Arc<str> = self.path.display().to_string().into();
        let no_thread = |error: std::io::Error| Failure::from(error).into_error(&store);
        let (opened, answer) = oneshot::channel::<Result<Arc<Connection>, BackendError>>();
        let writer = Worker::spawn("nervekit-redb-writer", move |jobs| {
            let opening = OpeningId::next(&*self.ids);
            let given_up = || opened.is_closed();
            let connection =
                Connection::open(&self.path, self.source, self.lock_wait, opening, self.clock, given_up);
            match connection {
                Ok(connection) => {
                    let connection = Arc::new(connection);
                    if opened.send(Ok(connection.clone())).is_ok() {
                        worker::run(&connection, jobs);
                    }
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            }
        });
        let writer = writer.map_err(no_thread)?;
        let connection = answer.await.map_err(|_| gone(&store))??;
        let readers = connection.clone();
        let reader = Worker::spawn("nervekit-redb-reader", move |jobs| worker::run(&readers, jobs));
        let reader = reader.map_err(no_thread)?;
        Ok(RedbBackend { connection, reader: Some(reader), writer: Some(writer) })
    }
}

impl RedbBackend {
    /// Opens a file, or makes it, as [`RedbOptions`] do by default.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, BackendError> {
        Self::options(path).open().await
    }

    /// Says how a file is to be opened.
    #[must_use]
    pub fn options(path: impl Into<PathBuf>) -> RedbOptions {
        RedbOptions {
            path: path.into(),
            lock_wait: Duration::ZERO,
            source: Source { medium: Arc::new(Disk), cache_bytes: 64 << 20 },
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds::default()),
        }
    }

    /// Runs something on a thread of the backend.
    async fn run_on<T: Send + 'static>(
        &self,
        worker: Option<&Worker>,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, BackendError> {
        let (reply, answer) = oneshot::channel();
        if let Some(worker) = worker {
            worker.send(Job::Run(Box::new(move |connection| {
                let _ = reply.send(work(connection).map_err(|failure| failure.into_error(&connection.store)));
            })));
        }
        answer.await.map_err(|_| gone(&self.connection.store))?
    }
}

impl Drop for RedbBackend {
    fn drop(&mut self) {
        self.reader = None;
        self.writer = None;
        self.connection.close();
    }
}

const ENDED: &str = "a thread of the store has ended";

/// A thread ended without an answer, which none does while its backend is there.
fn gone(store: &Arc<str>) -> BackendError {
    BackendError::unavailable(store.clone(), ENDED)
}

#[async_trait]
impl Backend for RedbBackend {
    async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
        if sets.is_empty() {
            return Ok(Vec::new());
        }
        let (reply, answer) = oneshot::channel();
        if let Some(writer) = &self.writer {
            writer.send(Job::Write(sets, reply));
        }
        // A thread that ends over a write may have committed it.
        let store = &self.connection.store;
        answer.await.map_err(|_| BackendError::unknown(store.clone(), ENDED))?
    }

    async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError> {
        // On the writer's thread: the answer is for after whatever of this id may still be waiting there.
        self.run_on(self.writer.as_ref(), move |connection| {
            connection.with(|database| read::applied(database, id))
        })
        .await
    }

    async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
        if let Some(result) = self.connection.try_with(|database| read::get(database, table, key)) {
            return result.map_err(|failure| failure.into_error(&self.connection.store));
        }
        let key = key.to_vec();
        self.run_on(self.reader.as_ref(), move |connection| {
            connection.with(|database| read::get(database, table, &key))
        })
        .await
    }

    async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
        let rows = ranges.iter().fold(0_usize, |rows, range| rows.saturating_add(range.limit));
        if rows <= INLINE_ROWS
            && let Some(result) = self.connection.try_with(|database| read::ranges(database, &ranges))
        {
            return result.map_err(|failure| failure.into_error(&self.connection.store));
        }
        self.run_on(self.reader.as_ref(), move |connection| {
            connection.with(|database| read::ranges(database, &ranges))
        })
        .await
    }

    async fn now(&self) -> Result<Timestamp, BackendError> {
        Ok(self.connection.clock.now())
    }

    async fn maintain(&self, job: Maintenance) -> Result<MaintenanceReport, BackendError> {
        self.run_on(self.writer.as_ref(), move |connection| read::maintain(connection, job)).await
    }

    fn facts(&self) -> BackendFacts {
        BackendFacts::new(true).opening(self.connection.opening)
    }
}
