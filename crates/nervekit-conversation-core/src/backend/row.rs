//! Tables, rows, and where they lie.

use std::fmt;
use std::num::NonZeroU64;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Names a table: 1 to 32 characters of `a-z`, `0-9` and `_`, a letter first.
///
/// The name can be used in every database as it is, as a table's name or as a column of one large table.
/// Tables are constants, so that a bad name does not compile:
///
/// ```
/// use nervekit_conversation_core::Table;
/// const EVENTS: Table = Table::new("events");
/// assert_eq!(EVENTS.name(), "events");
/// ```
///
/// ```compile_fail,E0080
/// use nervekit_conversation_core::Table;
/// const BAD: Table = Table::new("events; drop table");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Table(&'static str);

impl Table {
    /// Names a table.
    ///
    /// # Panics
    ///
    /// When the name is not of the form described above: in a constant, this is an error of the compiler.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        let mut rest = name.as_bytes();
        assert!(!rest.is_empty() && rest.len() <= 32, "a table's name has 1 to 32 characters");
        let mut first = true;
        while let Some((byte, tail)) = rest.split_first() {
            let letter = byte.is_ascii_lowercase();
            assert!(
                letter || (!first && (byte.is_ascii_digit() || *byte == b'_')),
                "a table's name is made of a-z, 0-9 and _, a letter first"
            );
            first = false;
            rest = tail;
        }
        Self(name)
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Numbers an applied write set, from 1, in the order in which they took effect; the version of the rows that
/// the set put. Numbers may be left out but none is given twice.
///
/// ```
/// use nervekit_conversation_core::CommitNumber;
/// let first = CommitNumber::after(None);
/// assert_eq!(first.get(), 1);
/// assert!(CommitNumber::after(Some(first)) > first);
/// assert_eq!(CommitNumber::new(0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitNumber(NonZeroU64);

impl CommitNumber {
    /// Wraps a number that a backend stored; zero is none.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number that follows the last one given.
    #[must_use]
    pub const fn after(last: Option<Self>) -> Self {
        match last {
            Some(Self(number)) => Self(number.saturating_add(1)),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for CommitNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One stored row.
///
/// ```
/// use nervekit_conversation_core::{CommitNumber, Row};
/// let row = Row::new("key", "value", CommitNumber::after(None));
/// assert_eq!(row.value, "value");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Row {
    /// Its key, unique in its table.
    pub key: Bytes,
    /// Its content.
    pub value: Bytes,
    /// The number of the commit that put it.
    pub version: CommitNumber,
}

impl Row {
    /// Puts a row together.
    #[must_use]
    pub fn new(key: impl Into<Bytes>, value: impl Into<Bytes>, version: CommitNumber) -> Self {
        Self { key: key.into(), value: value.into(), version }
    }
}

/// Selects the rows of a table between two keys.
///
/// ```
/// use nervekit_conversation_core::{Range, Table};
/// const EVENTS: Table = Table::new("events");
/// let last_ten = Range::prefix(EVENTS, "conv_7/").limit(10).reverse();
/// assert!(last_ten.contains(b"conv_7/0001"));
/// assert!(!last_ten.contains(b"conv_8/0001"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Range {
    /// The table to read.
    pub table: Table,
    /// The first key that is in the range.
    pub start: Bytes,
    /// The first key that is no longer in the range; none reads to the table's end.
    pub end: Option<Bytes>,
    /// The most rows to return.
    pub limit: usize,
    /// Whether to begin at the end and go down.
    pub reverse: bool,
}

impl Range {
    /// Selects all rows of a table.
    #[must_use]
    pub const fn new(table: Table) -> Self {
        Self { table, start: Bytes::new(), end: None, limit: usize::MAX, reverse: false }
    }

    /// Selects the rows whose keys begin with these bytes.
    #[must_use]
    pub fn prefix(table: Table, prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        // The first key after all those with the prefix: its last byte below 255 plus one, the rest cut off.
        let mut end = start.to_vec();
        while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
        let end = end.last_mut().map(|byte| *byte += 1).map(|()| Bytes::from(end));
        Self { end, ..Self::new(table).start(start) }
    }

    /// Begins at this key.
    #[must_use]
    pub fn start(mut self, first: impl Into<Bytes>) -> Self {
        self.start = first.into();
        self
    }

    /// Ends before this key.
    #[must_use]
    pub fn end(mut self, after_last: impl Into<Bytes>) -> Self {
        self.end = Some(after_last.into());
        self
    }

    /// Returns at most this many rows.
    #[must_use]
    pub const fn limit(mut self, rows: usize) -> Self {
        self.limit = rows;
        self
    }

    /// Goes down from the end.
    #[must_use]
    pub const fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Tells whether a key lies between the bounds.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        *key >= *self.start && self.end.as_ref().is_none_or(|end| *key < **end)
    }

    /// Tells whether no key can lie between the bounds, or no row may be returned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.limit == 0 || self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Table = Table::new("t");

    #[test]
    fn a_prefix_ends_before_the_next_key_of_its_length() {
        let end = |prefix: &'static [u8]| Range::prefix(T, prefix).end.map(|end| end.to_vec());
        assert_eq!(end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(end(b"\xff\xff"), None);
        assert_eq!(end(b""), None);
        let range = Range::prefix(T, b"a\xff".as_slice());
        assert!(range.contains(b"a\xff") && range.contains(b"a\xff\xff\xff"));
        assert!(!range.contains(b"a\xfe") && !range.contains(b"b"));
    }

    #[test]
    fn ranges_know_when_they_are_empty() {
        assert!(!Range::new(T).is_empty());
        assert!(Range::new(T).limit(0).is_empty());
        assert!(Range::new(T).start("b").end("b").is_empty());
        assert!(Range::new(T).start("b").end("a").is_empty());
        assert!(Range::new(T).end("").is_empty());
    }

    #[test]
    fn the_longest_name_of_a_table_is_accepted() {
        assert_eq!(Table::new("a2345678901234567890123456789_12").name().len(), 32);
    }
}
