//! Many write sets in one transaction of redb.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use nervekit_conversation_core::{Change, CommitNumber, Refused, Table, Write, WriteSet};
use nervekit_types::Timestamp;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::failure::Failure;
use super::layout::{self, META, OLD, YOUNG};

/// How long an applied id is remembered at least.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) type Answer = Result<CommitNumber, Refused>;

/// How far a group came that failed.
#[derive(Debug)]
pub(super) enum GroupFailure {
    /// The commit had not begun: nothing was written.
    Before(Failure),
    /// It failed in the commit. `last` is the number of the last set, had it been made.
    During { failure: Failure, last: CommitNumber, answers: Vec<Answer> },
}

impl<E: Into<Failure>> From<E> for GroupFailure {
    fn from(error: E) -> Self {
        Self::Before(error.into())
    }
}

/// Applies sets in order, in one durable commit; none if all are refused or were applied before.
pub(super) fn commit(
    database: &Database,
    sets: Vec<WriteSet>,
    now: Timestamp,
) -> Result<Vec<Answer>, GroupFailure> {
    // Durable at once, which is redb's default.
    let transaction = database.begin_write()?;
    let before = age_applied(&transaction, now)?;
    let (answers, last) = apply(&transaction, sets, before)?;
    match last {
        Some(last) if Some(last) != before => match transaction.commit() {
            Ok(()) => Ok(answers),
            Err(error) => Err(GroupFailure::During { failure: error.into(), last, answers }),
        },
        _ => {
            transaction.abort()?;
            Ok(answers)
        }
    }
}

/// Forgets the old generation of applied ids, and makes the young one old, when the young one began long enough
/// ago: so an id is remembered for 24 to 48 hours, and forgetting costs nothing between. Returns the last
/// commit number.
fn age_applied(transaction: &WriteTransaction, now: Timestamp) -> Result<Option<CommitNumber>, Failure> {
    let mut meta = transaction.open_table(META)?;
    let since = layout::applied_since(&meta)?;
    if since.is_none_or(|since| now.saturating_since(since) >= REMEMBERED) {
        if since.is_some() {
            transaction.delete_table(OLD)?;
            transaction.rename_table(YOUNG, OLD)?;
        }
        meta.insert("applied_since", now.as_millis().to_be_bytes().as_slice())?;
    }
    layout::last(&meta)
}

fn apply(
    transaction: &WriteTransaction,
    sets: Vec<WriteSet>,
    mut last: Option<CommitNumber>,
) -> Result<(Vec<Answer>, Option<CommitNumber>), Failure> {
    let before = last;
    let old = transaction.open_table(OLD)?;
    let mut young = transaction.open_table(YOUNG)?;
    let mut rows = Rows { transaction, open: BTreeMap::new() };
    let mut answers = Vec::with_capacity(sets.len());
    for set in sets {
        let id = set.id.raw().as_u128();
        let known = young.get(id)?.or(old.get(id)?).and_then(|number| CommitNumber::new(number.value()));
        if let Some(number) = known {
            answers.push(Ok(number));
            continue;
        }
        if let Some(refused) = rows.refusal(&set.writes)? {
            answers.push(Err(refused));
            continue;
        }
        let number = CommitNumber::after(last);
        rows.change(set.writes, number)?;
        young.insert(id, number.get())?;
        last = Some(number);
        answers.push(Ok(number));
    }
    if let Some(last) = last.filter(|_| last != before) {
        transaction.open_table(META)?.insert("last", last.get().to_be_bytes().as_slice())?;
    }
    Ok((answers, last))
}

/// The tables of rows that a transaction has touched. redb lets each be open once.
struct Rows<'txn> {
    transaction: &'txn WriteTransaction,
    open: BTreeMap<Table, redb::Table<'txn, &'static [u8], &'static [u8]>>,
}

impl<'txn> Rows<'txn> {
    fn table(
        &mut self,
        table: Table,
    ) -> Result<&mut redb::Table<'txn, &'static [u8], &'static [u8]>, Failure> {
        Ok(match self.open.entry(table) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(slot) => {
                let name = layout::rows_table(table);
                slot.insert(self.transaction.open_table(TableDefinition::new(&name))?)
            }
        })
    }

    fn refusal(&mut self, writes: &[Write]) -> Result<Option<Refused>, Failure> {
        for (index, write) in writes.iter().enumerate() {
            if write.expect == nervekit_conversation_core::Expect::Any {
                continue;
            }
            let found = match self.table(write.table)?.get(&*write.key)? {
                Some(stored) => Some(layout::split_version(stored.value())?.0),
                None => None,
            };
            if !write.expect.holds(found) {
                return Ok(Some(Refused::new(index, write, found)));
            }
        }
        Ok(None)
    }

    fn change(&mut self, writes: Vec<Write>, number: CommitNumber) -> Result<(), Failure> {
        let version = number.get().to_be_bytes();
        for write in writes {
            match write.change {
                Change::Keep => {}
                Change::Put(value) => {
                    let mut place =
                        self.table(write.table)?.insert_reserve(&*write.key, version.len() + value.len())?;
                    let (head, tail) = place.as_mut().split_at_mut(version.len());
                    head.copy_from_slice(&version);
                    tail.copy_from_slice(&value);
                }
                Change::Delete => {
                    self.table(write.table)?.remove(&*write.key)?;
                }
            }
        }
        Ok(())
    }
}

/// The number of the last commit that the file holds.
pub(super) fn last(database: &Database) -> Result<Option<CommitNumber>, Failure> {
    layout::last(&database.begin_read()?.open_table(META)?)
}

/// Stores the map of free pages with an empty commit, so that a crash before the next one needs no repair.
pub(super) fn store_free_pages(database: &Database) -> Result<(), Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    Ok(transaction.commit()?)
}
