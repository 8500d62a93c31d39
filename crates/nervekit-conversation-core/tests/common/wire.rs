//! The way of one core to a backend that others use too.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use async_trait::async_trait;
use nervekit_conversation_core::{
    Backend, BackendError, BackendFacts, CommitNumber, Maintenance, MaintenanceReport, Range, Refused, Row,
    Table, WriteSet,
};
use nervekit_types::{BatchId, Timestamp};
use tokio::sync::watch;

/// How a wire stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Whole,
    /// The next write does not reach the backend.
    CutBefore,
    /// The next write reaches the backend, its answer does not come back.
    CutAfter,
    /// Nothing passes any more, as from a process that is gone.
    Cut,
}

/// Passes everything on until it is cut; then no call ever returns.
#[derive(Debug)]
pub struct Wired<B> {
    backend: Arc<B>,
    wire: watch::Sender<Wire>,
}

impl<B: Backend> Wired<B> {
    pub fn new(backend: Arc<B>) -> Self {
        Self { backend, wire: watch::Sender::new(Wire::Whole) }
    }

    pub fn set(&self, wire: Wire) {
        self.wire.send_replace(wire);
    }

    pub fn is_cut(&self) -> bool {
        *self.wire.borrow() == Wire::Cut
    }

    /// Resolves when it is cut.
    pub async fn cut(&self) {
        self.wire.subscribe().wait_for(|wire| *wire == Wire::Cut).await.unwrap();
    }

    async fn pass(&self) {
        if self.is_cut() {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl<B: Backend> Backend for Wired<B> {
    async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
        self.pass().await;
        let wire = *self.wire.borrow();
        if wire != Wire::Whole {
            self.set(Wire::Cut);
        }
        if wire != Wire::CutBefore {
            let answer = self.backend.write(sets).await;
            if wire == Wire::Whole {
                return answer;
            }
        }
        std::future::pending().await
    }

    async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError> {
        self.pass().await;
        self.backend.applied(id).await
    }

    async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
        self.pass().await;
        self.backend.get(table, key).await
    }

    async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
        self.pass().await;
        self.backend.range(ranges).await
    }

    async fn now(&self) -> Result<Timestamp, BackendError> {
        self.pass().await;
        self.backend.now().await
    }

    async fn maintain(&self, job: Maintenance) -> Result<MaintenanceReport, BackendError> {
        self.pass().await;
        self.backend.maintain(job).await
    }

    fn facts(&self) -> BackendFacts {
        self.backend.facts()
    }
}
