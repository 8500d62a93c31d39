//! Random programs against a backend, compared with a map.

use std::collections::BTreeMap;

use bytes::Bytes;
use nervekit_types::testing::SeededEntropy;
use nervekit_types::{BatchId, RawId};

use super::backend_conformance::Subject;
use crate::backend::{Change, CommitNumber, Expect, Range, Refused, Row, Table, Write, WriteSet};

const TABLES: [Table; 3] = [Table::new("one"), Table::new("two"), Table::new("three")];
/// Keys that are prefixes of each other, that are no text, and that sort differently as text.
const KEYS: [&[u8]; 12] =
    [b"", b"\0", b"a", b"a\0", b"a\0b", b"a\xff", b"ab", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\xff"];

/// What the contract says of a store, in the plainest way.
#[derive(Default)]
struct Model {
    rows: BTreeMap<(Table, Bytes), Row>,
    applied: BTreeMap<BatchId, CommitNumber>,
    last: Option<CommitNumber>,
}

impl Model {
    fn version(&self, table: Table, key: &Bytes) -> Option<CommitNumber> {
        self.rows.get(&(table, key.clone())).map(|row| row.version)
    }

    /// Compares an answer with what it must be, and makes the changes of a set that was applied.
    fn follow(&mut self, set: WriteSet, answer: &Result<CommitNumber, Refused>) -> Result<(), String> {
        let mut expected = self.applied.get(&set.id).copied().map(Ok);
        if expected.is_none() {
            expected = set.writes.iter().enumerate().find_map(|(index, write)| {
                let found = self.version(write.table, &write.key);
                (!write.expect.holds(found)).then(|| Err(Refused::new(index, write, found)))
            });
        }
        if let Some(expected) = expected {
            return if *answer == expected { Ok(()) } else { Err(format!("{expected:?} was due")) };
        }
        let number = match answer {
            Ok(number) if Some(*number) > self.last => *number,
            _ => return Err(format!("a number above {:?} was due", self.last)),
        };
        for write in set.writes {
            let place = (write.table, write.key.clone());
            match write.change {
                Change::Keep => {}
                Change::Put(value) => drop(self.rows.insert(place, Row::new(write.key, value, number))),
                Change::Delete => drop(self.rows.remove(&place)),
            }
        }
        self.last = Some(number);
        self.applied.insert(set.id, number);
        Ok(())
    }

    fn range(&self, range: &Range) -> Vec<Row> {
        let mut rows: Vec<Row> = self
            .rows
            .iter()
            .filter(|((table, key), _)| *table == range.table && range.contains(key))
            .map(|(_, row)| row.clone())
            .collect();
        if range.reverse {
            rows.reverse();
        }
        rows.truncate(range.limit);
        rows
    }
}

/// Draws what a program does.
struct Dice(SeededEntropy);

impl Dice {
    fn below(&self, limit: usize) -> usize {
        usize::try_from(self.0.next_u64() % (limit as u64)).unwrap_or_default()
    }

    fn pick<T: Copy>(&self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len())).copied()
    }

    fn table(&self) -> Table {
        self.pick(&TABLES).unwrap_or(Table::new("one"))
    }

    fn key(&self) -> Bytes {
        Bytes::from_static(self.pick(&KEYS).unwrap_or_default())
    }

    fn value(&self) -> Bytes {
        let length = match self.below(20) {
            0 => 0,
            1 => 100_000,
            _ => self.below(100),
        };
        Bytes::from(vec![u8::try_from(self.below(256)).unwrap_or_default(); length])
    }

    fn set(&self, model: &Model, made: u64) -> WriteSet {
        // One in ten repeats an id, which may have been refused, or applied, or never used.
        let id = if self.below(10) == 0 {
            self.below(usize::try_from(made).unwrap_or(1) + 1) as u64
        } else {
            made
        };
        let set = WriteSet::new(BatchId::from_raw(RawId::from_u128(u128::from(id))));
        (0..self.below(6)).fold(set, |set, _| {
            let (table, key) = (self.table(), self.key());
            let found = model.version(table, &key);
            let expect = match (self.below(12), found) {
                (1, _) => Expect::Version(CommitNumber::after(found)),
                (2..=6, Some(version)) => Expect::Version(version),
                (0, _) | (2..=6, None) => Expect::Absent,
                _ => Expect::Any,
            };
            let change = match self.below(8) {
                0 | 1 => Change::Delete,
                2 => Change::Keep,
                _ => Change::Put(self.value()),
            };
            set.write(Write::new(table, key, change).expect(expect))
        })
    }

    fn range(&self) -> Range {
        let mut range = Range::new(self.table());
        if self.below(2) == 0 {
            range = range.start(self.key());
        }
        if self.below(2) == 0 {
            range = range.end(self.key());
        }
        if self.below(2) == 0 {
            range = range.limit(self.below(KEYS.len()));
        }
        if self.below(2) == 0 { range.reverse() } else { range }
    }
}

/// Runs a random program of so many steps; says where the backend and the model part.
pub(super) async fn run(subject: &mut Subject, seed: u64, steps: usize) -> Result<(), String> {
    let dice = Dice(SeededEntropy::new(seed));
    let mut model = Model::default();
    let mut made = 0;
    for step in 0..steps {
        let at = |what: String| format!("seed {seed}, step {step}: {what}");
        match dice.below(100) {
            0..50 => {
                let sets: Vec<WriteSet> = (0..dice.below(4))
                    .map(|_| {
                        made += 1;
                        dice.set(&model, made)
                    })
                    .collect();
                let answers = subject.write(sets.clone()).await.map_err(|e| at(e.to_string()))?;
                if answers.len() != sets.len() {
                    return Err(at(format!("{} sets, {} answers", sets.len(), answers.len())));
                }
                for (set, answer) in sets.into_iter().zip(&answers) {
                    let shown = format!("{set:?} -> {answer:?}");
                    model.follow(set, answer).map_err(|wrong| at(format!("{shown}: {wrong}")))?;
                }
            }
            50..65 => {
                let (table, key) = (dice.table(), dice.key());
                let row = subject.get(table, &key).await.map_err(|e| at(e.to_string()))?;
                if row.as_ref() != model.rows.get(&(table, key.clone())) {
                    return Err(at(format!("get {table} {key:?} -> {row:?}")));
                }
            }
            65..90 => {
                let ranges: Vec<Range> = (0..dice.below(4)).map(|_| dice.range()).collect();
                let rows = subject.range(ranges.clone()).await.map_err(|e| at(e.to_string()))?;
                if rows != ranges.iter().map(|range| model.range(range)).collect::<Vec<_>>() {
                    return Err(at(format!("range {ranges:?} -> {rows:?}")));
                }
            }
            90..98 => {
                let id = dice.below(usize::try_from(made).unwrap_or_default() + 2);
                let id = BatchId::from_raw(RawId::from_u128(id as u128));
                let number = subject.applied(id).await.map_err(|e| at(e.to_string()))?;
                if number != model.applied.get(&id).copied() {
                    return Err(at(format!("applied {id} -> {number:?}")));
                }
            }
            _ => subject.reopen_now().await.map_err(|e| at(e.to_string()))?,
        }
    }
    Ok(())
}
