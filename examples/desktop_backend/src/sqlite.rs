//! A [`Backend`] over SQLite, written by someone who knows nothing but the contract.
//!
//! Seven methods are all that a database has to do, and the conformance suite is enough to get them right
//! (`tests/conformance.rs`). One thread owns the connection; it writes ahead (`journal_mode = WAL`), syncs each commit
//! (`synchronous = FULL`), and holds the file alone (`locking_mode = EXCLUSIVE`).

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use async_trait::async_trait;
use nervekit::conversation::{
    Backend, BackendError, BackendFacts, Change, CommitNumber, Expect, Maintenance, MaintenanceReport, Range,
    Refused, Row, Table, WriteSet,
};
use nervekit::types::{BatchId, Clock, OpeningId, SystemIds, Timestamp};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};
use tokio::sync::oneshot;

const SCHEMA: &str = "
    pragma locking_mode = exclusive;
    pragma journal_mode = wal;
    pragma synchronous = full;
    create table if not exists rows (
        place text not null, key blob not null, version integer not null, value blob not null,
        primary key (place, key)
    ) without rowid;
    create table if not exists applied (
        id blob primary key, number integer not null, at integer not null
    ) without rowid;
    create index if not exists applied_at on applied (at);
    create table if not exists store (only_row integer primary key check (only_row = 0), last integer not null, opening blob not null);
";

/// How long an applied id is remembered, in milliseconds.
const REMEMBERED: i64 = 24 * 60 * 60 * 1_000;

type Job = Box<dyn FnOnce(&mut Connection) -> ControlFlow<()> + Send>;

/// Keeps rows in one `SQLite` file.
#[derive(Debug)]
pub struct SqliteBackend {
    store: Arc<str>,
    opening: OpeningId,
    clock: Arc<dyn Clock>,
    jobs: mpsc::Sender<Job>,
    thread: Option<JoinHandle<()>>,
}

impl SqliteBackend {
    /// Opens a file, or makes it.
    pub async fn open(path: impl AsRef<Path>, clock: Arc<dyn Clock>) -> Result<Self, BackendError> {
        let path: PathBuf = path.as_ref().to_owned();
        let store: Arc<str> = path.display().to_string().into();
        let opening = OpeningId::next(&SystemIds::default());
        let (jobs, queue) = mpsc::channel::<Job>();
        let (opened, answer) = oneshot::channel();
        let thread = thread::spawn(move || match open(&path, opening) {
            Ok(mut connection) => {
                let _ = opened.send(Ok(()));
                while let Ok(job) = queue.recv()
                    && job(&mut connection).is_continue()
                {}
            }
            Err(error) => drop(opened.send(Err(error))),
        });
        let answer =
            answer.await.map_err(|_| BackendError::unavailable(store.clone(), "its thread has ended"))?;
        answer.map_err(|error| failed(&store, error))?;
        Ok(Self { store, opening, clock, jobs, thread: Some(thread) })
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, BackendError> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let _ = reply.send(work(connection));
            ControlFlow::Continue(())
        });
        let _ = self.jobs.send(job);
        let answer = answer.await;
        let answer =
            answer.map_err(|_| BackendError::unavailable(self.store.clone(), "its thread has ended"))?;
        answer.map_err(|error| failed(&self.store, error))
    }
}

impl Drop for SqliteBackend {
    fn drop(&mut self) {
        let _ = self.jobs.send(Box::new(|_| ControlFlow::Break(())));
        if let Some(thread) = self.thread.take().filter(|own| own.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

fn failed(store: &Arc<str>, error: rusqlite::Error) -> BackendError {
    let store = store.clone();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => BackendError::in_use(store),
        Some(ErrorCode::DiskFull) => BackendError::full(store, error),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => BackendError::corrupt(store, error),
        // SQLite says no more about a failed commit than that it failed.
        Some(ErrorCode::SystemIoFailure) => BackendError::unknown(store, error),
        _ => BackendError::unavailable(store, error),
    }
}

fn open(path: &Path, opening: OpeningId) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.execute_batch(SCHEMA)?;
    connection.execute(
        "insert into store values (0, 0, ?1) on conflict do update set opening = ?1",
        [opening.raw().to_bytes()],
    )?;
    Ok(connection)
}

fn apply(
    transaction: &Transaction<'_>,
    set: WriteSet,
    last: &mut u64,
    now: Timestamp,
) -> rusqlite::Result<Result<CommitNumber, Refused>> {
    let id = set.id.raw().to_bytes();
    if let Some(number) = number(transaction, set.id)? {
        return Ok(Ok(number));
    }
    let mut version = transaction.prepare_cached("select version from rows where place = ?1 and key = ?2")?;
    for (index, write) in set.writes.iter().enumerate() {
        if write.expect == Expect::Any {
            continue;
        }
        let found = version
            .query_row(params![write.table.name(), &*write.key], |row| row.get::<_, u64>(0))
            .optional()?
            .and_then(CommitNumber::new);
        if !write.expect.holds(found) {
            return Ok(Err(Refused::new(index, write, found)));
        }
    }
    *last += 1;
    for write in set.writes {
        let place = write.table.name();
        match write.change {
            Change::Keep => {}
            Change::Put(value) => {
                transaction
                    .prepare_cached("insert or replace into rows values (?1, ?2, ?3, ?4)")?
                    .execute(params![place, &*write.key, *last, &*value])?;
            }
            Change::Delete => {
                transaction
                    .prepare_cached("delete from rows where place = ?1 and key = ?2")?
                    .execute(params![place, &*write.key])?;
            }
        }
    }
    transaction.prepare_cached("insert into applied values (?1, ?2, ?3)")?.execute(params![
        id,
        *last,
        now.as_millis()
    ])?;
    CommitNumber::new(*last).map(Ok).ok_or(rusqlite::Error::InvalidQuery)
}

fn number(connection: &Connection, id: BatchId) -> rusqlite::Result<Option<CommitNumber>> {
    let mut known = connection.prepare_cached("select number from applied where id = ?1")?;
    let number = known.query_row([id.raw().to_bytes()], |row| row.get(0)).optional()?;
    Ok(number.and_then(CommitNumber::new))
}

fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let (key, value): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
    let version = CommitNumber::new(row.get(2)?).ok_or(rusqlite::Error::InvalidQuery)?;
    Ok(Row::new(key, value, version))
}

fn select(connection: &Connection, range: &Range) -> rusqlite::Result<Vec<Row>> {
    if range.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = connection.prepare_cached(&format!(
        "select key, value, version from rows
         where place = ?1 and key >= ?2 and (?3 is null or key < ?3) order by key {} limit ?4",
        if range.reverse { "desc" } else { "asc" }
    ))?;
    let limit = i64::try_from(range.limit).unwrap_or(i64::MAX);
    let end = range.end.as_deref();
    rows.query_map(params![range.table.name(), &*range.start, end, limit], row)?.collect()
}

#[async_trait]
impl Backend for SqliteBackend {
    async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
        let now = self.clock.now();
        self.run(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut last = transaction.query_row("select last from store", [], |row| row.get(0))?;
            let answers = sets
                .into_iter()
                .map(|set| apply(&transaction, set, &mut last, now))
                .collect::<Result<_, _>>()?;
            transaction.execute("update store set last = ?1", [last])?;
            transaction.execute("delete from applied where at < ?1", [now.as_millis() - REMEMBERED])?;
            transaction.commit()?;
            Ok(answers)
        })
        .await
    }

    async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError> {
        self.run(move |connection| number(connection, id)).await
    }

    async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
        let key = key.to_vec();
        self.run(move |connection| {
            connection
                .prepare_cached("select key, value, version from rows where place = ?1 and key = ?2")?
                .query_row(params![table.name(), key], row)
                .optional()
        })
        .await
    }

    async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
        self.run(move |connection| {
            let snapshot = connection.transaction()?;
            ranges.iter().map(|range| select(&snapshot, range)).collect()
        })
        .await
    }

    async fn now(&self) -> Result<Timestamp, BackendError> {
        Ok(self.clock.now())
    }

    async fn maintain(&self, job: Maintenance) -> Result<MaintenanceReport, BackendError> {
        self.run(move |connection| match job {
            Maintenance::Verify => {
                let mut check = connection.prepare("pragma integrity_check")?;
                let lines: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
                let faults = lines.into_iter().filter(|line| line != "ok");
                Ok(faults.fold(MaintenanceReport::new(), MaintenanceReport::fault))
            }
            Maintenance::Compact => connection.execute_batch("vacuum").map(|()| MaintenanceReport::new()),
            Maintenance::Stats => {
                let rows = connection.query_row("select count(*) from rows", [], |row| row.get(0))?;
                Ok(MaintenanceReport::new().rows(rows))
            }
            _ => Ok(MaintenanceReport::new()),
        })
        .await
    }

    fn facts(&self) -> BackendFacts {
        BackendFacts::new(true).opening(self.opening)
    }
}
