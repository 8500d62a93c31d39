//! Opening a store costs what is unfinished, not what is stored: counted in rows that are read, not in time.

#![cfg(feature = "redb")]
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "seed/store.rs"]
mod seed;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use nervekit_conversation_core::store::{Draft, Role, Store};
use nervekit_conversation_core::{
    Backend, BackendError, BackendFacts, CommitNumber, ExecutionState, Maintenance, MaintenanceReport,
    MemoryBackend, Range, Refused, Row, Table, WriteSet,
};
use nervekit_store::RedbBackend;
use nervekit_types::testing::SequenceIds;
use nervekit_types::{BatchId, ConversationId, EventId, IdSource, Timestamp, TurnId};
use serde_json::json;

const UNFINISHED: u64 = 10;

/// Counts the rows that are read.
#[derive(Debug)]
struct CountingBackend {
    inner: Arc<dyn Backend>,
    rows: AtomicU64,
    calls: AtomicU64,
}

impl CountingBackend {
    fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, rows: AtomicU64::new(0), calls: AtomicU64::new(0) }
    }

    fn count(&self, rows: usize) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.rows.fetch_add(rows as u64, Ordering::SeqCst);
    }

    /// How many reads, and rows read, there were since the last look.
    fn take(&self) -> (u64, u64) {
        (self.calls.swap(0, Ordering::SeqCst), self.rows.swap(0, Ordering::SeqCst))
    }
}

#[async_trait]
impl Backend for CountingBackend {
    async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
        self.inner.write(sets).await
    }

    async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError> {
        self.inner.applied(id).await
    }

    async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
        let row = self.inner.get(table, key).await?;
        self.count(usize::from(row.is_some()));
        Ok(row)
    }

    async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
        let rows = self.inner.range(ranges).await?;
        self.count(rows.iter().map(Vec::len).sum());
        Ok(rows)
    }

    async fn now(&self) -> Result<Timestamp, BackendError> {
        self.inner.now().await
    }

    async fn maintain(&self, job: Maintenance) -> Result<MaintenanceReport, BackendError> {
        self.inner.maintain(job).await
    }

    fn facts(&self) -> BackendFacts {
        self.inner.facts()
    }
}

/// Fills a store with finished conversations, and ten that are at work: an execution, a call and an input each.
async fn fill(backend: Arc<dyn Backend>, ids: &Arc<dyn IdSource>, finished: u64, events: u64) {
    let store = Store::open(backend, ids.clone()).await.unwrap();
    let project = seed::project(&store).await;
    for number in 0..finished + UNFINISHED {
        let id = ConversationId::next(ids);
        seed::conversation(&store, id, project).await;
        let rows = store.load(id).await.unwrap().unwrap();
        let mut draft = Draft::new(&rows, Role::Owner, seed::now());
        let execution = draft.open_execution(EventId::next(ids), TurnId::next(ids));
        for _ in 2..events {
            draft.append(seed::note(EventId::next(ids), "one of many"));
        }
        if number < finished {
            let state = ExecutionState::Completed { denied: Vec::new() };
            draft.end_execution(EventId::next(ids), state);
        } else {
            draft.put_call(seed::call(ids, id, execution, &json!({})));
            draft.enqueue(seed::input(ids, id, true));
        }
        let mut batch = store.batch();
        batch.change(&rows, draft.finish()).unwrap();
        store.commit(&mut batch).await.unwrap();
    }
}

/// What opening costs: reads and rows of the store itself, of the list, and of the conversations on it.
async fn costs(backend: Arc<dyn Backend>, ids: &Arc<dyn IdSource>) -> [(u64, u64); 3] {
    let counting = Arc::new(CountingBackend::new(backend));
    let store = Store::open(counting.clone(), ids.clone()).await.unwrap();
    let opening = counting.take();
    let unfinished = store.unfinished().await.unwrap();
    assert_eq!(unfinished.len() as u64, UNFINISHED);
    let list = counting.take();
    for id in unfinished {
        let rows = store.load(id).await.unwrap().unwrap();
        assert!(rows.open_execution().is_some() && rows.calls.len() == 1 && rows.queue.len() == 1);
    }
    [opening, list, counting.take()]
}

/// The format marker and the end of the event index; the list in one read; each conversation in one read, with its
/// core, mailbox, settings, call, input and listing.
const EXPECTED: [(u64, u64); 3] = [(2, 2), (1, UNFINISHED), (UNFINISHED, 6 * UNFINISHED)];

#[tokio::test]
async fn opening_reads_what_is_unfinished_and_nothing_else() {
    for (finished, events) in [(0, 3), (20, 3), (400, 3), (20, 500)] {
        let backend = Arc::new(MemoryBackend::new());
        let ids: Arc<dyn IdSource> = Arc::new(SequenceIds::default());
        fill(backend.clone(), &ids, finished, events).await;
        let costs = costs(Arc::new(backend.snapshot()), &ids).await;
        assert_eq!(costs, EXPECTED, "{finished} finished conversations of {events} events");
    }
}

#[tokio::test]
async fn opening_a_file_reads_what_is_unfinished_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let ids: Arc<dyn IdSource> = Arc::new(SequenceIds::default());
    fill(Arc::new(RedbBackend::open(&path).await.unwrap()), &ids, 30, 40).await;
    let reopened = RedbBackend::open(&path).await.unwrap();
    assert_eq!(costs(Arc::new(reopened), &ids).await, EXPECTED);
}
