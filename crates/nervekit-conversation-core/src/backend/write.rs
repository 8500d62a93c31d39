//! What a backend is asked to change, as values.

use bytes::Bytes;
use nervekit_types::BatchId;
use serde::{Deserialize, Serialize};

use super::row::{CommitNumber, Table};

/// What must hold of a row before a set is applied.
///
/// The sum is exhaustive on purpose: a backend that overlooked a condition would lose writes.
///
/// ```
/// use nervekit_conversation_core::{CommitNumber, Expect};
/// let version = CommitNumber::after(None);
/// assert!(Expect::Version(version).holds(Some(version)));
/// assert!(!Expect::Absent.holds(Some(version)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// Nothing: the row may be there or not.
    Any,
    /// There is no such row.
    Absent,
    /// The row is there and was put by this commit.
    Version(CommitNumber),
}

impl Expect {
    /// Tells whether a row with this version, or none, is what is expected.
    #[must_use]
    pub fn holds(self, found: Option<CommitNumber>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::Version(version) => found == Some(version),
        }
    }
}

/// What becomes of a row.
///
/// The sum is exhaustive on purpose: a backend must know every change.
///
/// ```
/// use nervekit_conversation_core::Change;
/// assert_eq!(Change::Put("value".into()), Change::Put(bytes::Bytes::from("value")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It stays as it is: only the expectation matters.
    Keep,
    /// It gets this value, and the set's commit number as its version.
    Put(Bytes),
    /// It is gone. Deleting what is not there is no fault unless a version was expected.
    Delete,
}

/// One row of a [`WriteSet`].
///
/// ```
/// use nervekit_conversation_core::{Change, Expect, Table, Write};
/// const NOTES: Table = Table::new("notes");
/// let write = Write::new(NOTES, "a", Change::Delete).expect(Expect::Absent);
/// assert_eq!(write.expect, Expect::Absent);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Write {
    /// The row's table.
    pub table: Table,
    /// The row's key.
    pub key: Bytes,
    /// What must hold of it.
    pub expect: Expect,
    /// What becomes of it.
    pub change: Change,
}

impl Write {
    /// Changes a row, whatever is there.
    #[must_use]
    pub fn new(table: Table, key: impl Into<Bytes>, change: Change) -> Self {
        Self { table, key: key.into(), expect: Expect::Any, change }
    }

    /// Demands this of the row.
    #[must_use]
    pub const fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }
}

/// Changes that are made together or not at all.
///
/// ```
/// use nervekit_conversation_core::{CommitNumber, Table, WriteSet};
/// use nervekit_types::BatchId;
/// const NOTES: Table = Table::new("notes");
/// let seen = CommitNumber::after(None);
/// let set = WriteSet::new(BatchId::from_key("k"))
///     .insert(NOTES, "new", "must not be there yet")
///     .replace(NOTES, "old", seen, "must still be at the version that was seen")
///     .put(NOTES, "any", "whatever is there")
///     .keep(NOTES, "lease", seen)
///     .delete(NOTES, "gone");
/// assert_eq!(set.writes.len(), 5);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WriteSet {
    /// Names the set, so that it is applied once.
    pub id: BatchId,
    /// Its rows, in order.
    pub writes: Vec<Write>,
}

impl WriteSet {
    /// Begins an empty set.
    #[must_use]
    pub const fn new(id: BatchId) -> Self {
        Self { id, writes: Vec::new() }
    }

    /// Adds a row.
    #[must_use]
    pub fn write(mut self, write: Write) -> Self {
        self.writes.push(write);
        self
    }

    /// Puts a row, whatever is there.
    #[must_use]
    pub fn put(self, table: Table, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.write(Write::new(table, key, Change::Put(value.into())))
    }

    /// Puts a row that must not be there yet.
    #[must_use]
    pub fn insert(self, table: Table, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.write(Write::new(table, key, Change::Put(value.into())).expect(Expect::Absent))
    }

    /// Puts a row that must be at this version.
    #[must_use]
    pub fn replace(
        self,
        table: Table,
        key: impl Into<Bytes>,
        version: CommitNumber,
        value: impl Into<Bytes>,
    ) -> Self {
        self.write(Write::new(table, key, Change::Put(value.into())).expect(Expect::Version(version)))
    }

    /// Demands that a row is at this version, and leaves it.
    #[must_use]
    pub fn keep(self, table: Table, key: impl Into<Bytes>, version: CommitNumber) -> Self {
        self.write(Write::new(table, key, Change::Keep).expect(Expect::Version(version)))
    }

    /// Deletes a row, if it is there.
    #[must_use]
    pub fn delete(self, table: Table, key: impl Into<Bytes>) -> Self {
        self.write(Write::new(table, key, Change::Delete))
    }
}
