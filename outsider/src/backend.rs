//! Rows in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use nervekit_conversation_core::{
    Backend, BackendError, BackendFacts, Change, CommitNumber, Maintenance, MaintenanceReport, Range,
    Refused, Row, Table, WriteSet,
};
use nervekit_types::{BatchId, Clock as _, SystemClock, Timestamp};

/// Rows in memory, for one opening that ends with the process.
#[derive(Debug, Default)]
pub struct Shelf(Mutex<Rows>);

#[derive(Debug, Default)]
struct Rows {
    tables: BTreeMap<Table, BTreeMap<Vec<u8>, Row>>,
    applied: BTreeMap<BatchId, CommitNumber>,
    last: Option<CommitNumber>,
}

impl Rows {
    fn get(&self, table: Table, key: &[u8]) -> Option<&Row> {
        self.tables.get(&table)?.get(key)
    }

    fn apply(&mut self, set: WriteSet) -> Result<CommitNumber, Refused> {
        if let Some(number) = self.applied.get(&set.id) {
            return Ok(*number);
        }
        for (index, write) in set.writes.iter().enumerate() {
            let found = self.get(write.table, &write.key).map(|row| row.version);
            if !write.expect.holds(found) {
                return Err(Refused::new(index, write, found));
            }
        }
        let number = CommitNumber::after(self.last);
        for write in set.writes {
            let table = self.tables.entry(write.table).or_default();
            match write.change {
                Change::Keep => {}
                Change::Put(value) => {
                    table.insert(write.key.to_vec(), Row::new(write.key, value, number));
                }
                Change::Delete => {
                    table.remove(&*write.key);
                }
            }
        }
        self.last = Some(number);
        self.applied.insert(set.id, number);
        Ok(number)
    }

    fn range(&self, range: &Range) -> Vec<Row> {
        let rows = self.tables.get(&range.table).into_iter().flat_map(BTreeMap::values);
        let rows = rows.filter(|row| range.contains(&row.key)).cloned();
        if range.reverse { rows.rev().take(range.limit).collect() } else { rows.take(range.limit).collect() }
    }
}

impl Shelf {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Backend for Shelf {
    async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
        let mut rows = self.rows();
        Ok(sets.into_iter().map(|set| rows.apply(set)).collect())
    }

    async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError> {
        Ok(self.rows().applied.get(&id).copied())
    }

    async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
        Ok(self.rows().get(table, key).cloned())
    }

    async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
        let rows = self.rows();
        Ok(ranges.iter().map(|range| rows.range(range)).collect())
    }

    async fn now(&self) -> Result<Timestamp, BackendError> {
        Ok(SystemClock.now())
    }

    async fn maintain(&self, _job: Maintenance) -> Result<MaintenanceReport, BackendError> {
        Ok(MaintenanceReport::new())
    }

    fn facts(&self) -> BackendFacts {
        BackendFacts::new(false)
    }
}
