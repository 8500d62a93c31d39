//! What the file holds: a marker, the book-keeping of commits, and one redb table for each table of rows.
//!
//! | redb table | key | value |
//! | --- | --- | --- |
//! | `nervekit` | `format` | `nervekit` in ASCII, then the oldest and the newest layout version that the file may hold, four bytes each |
//! | | `opening` | the sixteen bytes of the last opening's id |
//! | | `last` | the last commit number, eight bytes |
//! | | `applied_since` | when the young generation of applied ids began, milliseconds since 1970, eight bytes |
//! | `nervekit_applied_young`, `…_old` | the sixteen bytes of a batch id, as a number | the number of its commit |
//! | `rows_<table>` | the row's key | the row's version, eight bytes, then its value |
//!
//! All numbers are big-endian.

use nervekit_conversation_core::{CommitNumber, Row, Table};
use nervekit_types::{OpeningId, RawId, Timestamp};
use redb::{ReadableTable, TableDefinition};

use super::failure::Failure;

/// The layout described above.
const VERSION: u32 = 1;
/// The oldest layout that this code reads.
const OLDEST: u32 = 1;
const MAGIC: &[u8; 8] = b"nervekit";
const ROWS: &str = "rows_";

pub(super) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("nervekit");
pub(super) const YOUNG: TableDefinition<'static, u128, u64> = TableDefinition::new("nervekit_applied_young");
pub(super) const OLD: TableDefinition<'static, u128, u64> = TableDefinition::new("nervekit_applied_old");

/// The redb table in which the rows of a table lie.
pub(super) fn rows_table(table: Table) -> String {
    format!("{ROWS}{table}")
}

/// Tells whether a redb table holds rows.
pub(super) fn holds_rows(name: &str) -> bool {
    name.starts_with(ROWS)
}

/// Reads the version before a value.
pub(super) fn split_version(stored: &[u8]) -> Result<(CommitNumber, &[u8]), Failure> {
    let (version, value) = stored.split_first_chunk().ok_or(Failure::damaged("a row has no version"))?;
    let version = CommitNumber::new(u64::from_be_bytes(*version));
    Ok((version.ok_or(Failure::damaged("a row has the version zero"))?, value))
}

/// Decodes a row; its bytes are copied out of the database's pages.
pub(super) fn row(key: &[u8], stored: &[u8]) -> Result<Row, Failure> {
    let (version, value) = split_version(stored)?;
    Ok(Row::new(key.to_vec(), value.to_vec(), version))
}

/// The marker of a file that this code writes.
pub(super) fn marker() -> Vec<u8> {
    [MAGIC.as_slice(), &OLDEST.to_be_bytes(), &VERSION.to_be_bytes()].concat()
}

/// Refuses a file that this code must not touch.
pub(super) fn check_marker(meta: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<(), Failure> {
    let stored = meta.get("format")?.ok_or(Failure::damaged("the format marker is missing"))?;
    let versions = stored.value().strip_prefix(MAGIC).and_then(|rest| rest.split_first_chunk::<4>());
    let Some((oldest, newest)) = versions.and_then(|(oldest, rest)| Some((oldest, rest.first_chunk::<4>()?)))
    else {
        return Err(Failure::damaged("the format marker is not one of nervekit"));
    };
    let (oldest, newest) = (u32::from_be_bytes(*oldest), u32::from_be_bytes(*newest));
    if newest > VERSION {
        return Err(Failure::Newer { found: newest, known: VERSION });
    }
    if oldest < OLDEST {
        return Err(Failure::Older { found: oldest, known: OLDEST });
    }
    Ok(())
}

fn number(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
    key: &'static str,
) -> Result<Option<u64>, Failure> {
    let stored = meta.get(key)?;
    let bytes = stored.map(|stored| stored.value().try_into().map(u64::from_be_bytes)).transpose();
    bytes.map_err(|_| Failure::damaged("a number of the book-keeping has not eight bytes"))
}

/// The opening that wrote last.
pub(super) fn opening(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Option<OpeningId>, Failure> {
    let stored = meta.get("opening")?;
    let bytes = stored.map(|stored| <[u8; 16]>::try_from(stored.value())).transpose();
    let bytes = bytes.map_err(|_| Failure::damaged("the opening has not sixteen bytes"))?;
    Ok(bytes.map(|bytes| OpeningId::from_raw(RawId::from_bytes(bytes))))
}

/// The last commit number.
pub(super) fn last(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Option<CommitNumber>, Failure> {
    Ok(number(meta, "last")?.and_then(CommitNumber::new))
}

/// When the young generation of applied ids began.
pub(super) fn applied_since(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Option<Timestamp>, Failure> {
    let millis = number(meta, "applied_since")?;
    Ok(millis.map(|millis| Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))))
}
