//! The rows of a store in memory, and the pure rule by which a write set changes them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nervekit_types::{BatchId, Timestamp};

use super::error::Refused;
use super::row::{CommitNumber, Range, Row, Table};
use super::write::{Change, WriteSet};

type Rows = BTreeMap<Bytes, (CommitNumber, Bytes)>;

/// How long an applied id is remembered at least.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// All that a store holds. A clone shares what neither side has changed since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    tables: BTreeMap<Table, Arc<Rows>>,
    last: Option<CommitNumber>,
    applied: Arc<Applied>,
}

/// The ids of applied sets in two generations: the old one is forgotten, and the young one becomes old, when
/// the young one began 24 hours ago. An id is thus remembered for 24 to 48 hours.
#[derive(Clone, Debug, Default)]
struct Applied {
    young: HashMap<BatchId, CommitNumber>,
    old: HashMap<BatchId, CommitNumber>,
    since: Option<Timestamp>,
}

impl Applied {
    fn get(&self, id: BatchId) -> Option<CommitNumber> {
        self.young.get(&id).or_else(|| self.old.get(&id)).copied()
    }

    fn insert(&mut self, id: BatchId, number: CommitNumber, now: Timestamp) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_since(since) >= REMEMBERED {
            self.old = std::mem::take(&mut self.young);
            self.since = Some(now);
        }
        self.young.insert(id, number);
    }
}

impl Image {
    /// Decides one set and, unless it is refused, applies it.
    pub(crate) fn apply(&mut self, set: WriteSet, now: Timestamp) -> Result<CommitNumber, Refused> {
        if let Some(number) = self.applied.get(set.id) {
            return Ok(number);
        }
        for (index, write) in set.writes.iter().enumerate() {
            let found = self.version(write.table, &write.key);
            if !write.expect.holds(found) {
                return Err(Refused::new(index, write, found));
            }
        }
        let number = CommitNumber::after(self.last);
        for write in set.writes {
            match write.change {
                Change::Keep => {}
                Change::Put(value) => {
                    let rows = Arc::make_mut(self.tables.entry(write.table).or_default());
                    rows.insert(write.key, (number, value));
                }
                Change::Delete => {
                    if let Some(rows) = self.tables.get_mut(&write.table) {
                        Arc::make_mut(rows).remove(&write.key);
                    }
                }
            }
        }
        self.last = Some(number);
        Arc::make_mut(&mut self.applied).insert(set.id, number, now);
        Ok(number)
    }

    fn version(&self, table: Table, key: &[u8]) -> Option<CommitNumber> {
        self.tables.get(&table)?.get(key).map(|(version, _)| *version)
    }

    /// The number that the set with this id was given.
    pub(crate) fn applied(&self, id: BatchId) -> Option<CommitNumber> {
        self.applied.get(id)
    }

    /// The number of the last set that was applied.
    #[cfg(feature = "testing")]
    pub(crate) const fn last(&self) -> Option<CommitNumber> {
        self.last
    }

    /// One row.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Row> {
        let (key, (version, value)) = self.tables.get(&table)?.get_key_value(key)?;
        Some(Row::new(key.clone(), value.clone(), *version))
    }

    /// The rows of a range.
    pub(crate) fn range(&self, range: &Range) -> Vec<Row> {
        let Some(rows) = self.tables.get(&range.table).filter(|_| !range.is_empty()) else {
            return Vec::new();
        };
        let end = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let rows = rows.range::<[u8], _>((Bound::Included(&*range.start), end));
        let row = |(key, (version, value)): (&Bytes, &(CommitNumber, Bytes))| {
            Row::new(key.clone(), value.clone(), *version)
        };
        if range.reverse {
            rows.rev().take(range.limit).map(row).collect()
        } else {
            rows.take(range.limit).map(row).collect()
        }
    }

    /// How many rows there are, and how many bytes their keys and values have.
    pub(crate) fn size(&self) -> (u64, u64) {
        let rows = self.tables.values().flat_map(|rows| rows.iter());
        rows.fold((0, 0), |(count, bytes), (key, (_, value))| {
            (count + 1, bytes + key.len() as u64 + value.len() as u64)
        })
    }
}
