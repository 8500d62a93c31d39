//! Reading, and upkeep, over transactions of redb.

use std::ops::Bound;

use nervekit_conversation_core::{CommitNumber, Maintenance, MaintenanceReport, Range, Row, Table};
use nervekit_types::BatchId;
use redb::{
    AccessGuard, Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, StorageError, TableDefinition, TableError, TableHandle,
};

use super::connection::Connection;
use super::failure::Failure;
use super::layout::{self, META, OLD, YOUNG};

type RowTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// The table, or none while nothing was ever put into it.
fn open(transaction: &ReadTransaction, name: &str) -> Result<Option<RowTable>, Failure> {
    match transaction.open_table(TableDefinition::new(name)) {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn applied(database: &Database, id: BatchId) -> Result<Option<CommitNumber>, Failure> {
    let transaction = database.begin_read()?;
    for generation in [YOUNG, OLD] {
        if let Some(number) = transaction.open_table(generation)?.get_owned(id.raw().as_u128())? {
            return Ok(CommitNumber::new(number.value()));
        }
    }
    Ok(None)
}

pub(super) fn get(database: &Database, table: Table, key: &[u8]) -> Result<Option<Row>, Failure> {
    let transaction = database.begin_read()?;
    let Some(table) = open(&transaction, &layout::rows_table(table))? else { return Ok(None) };
    table.get_owned(key)?.map(|stored| layout::row(key, stored.value())).transpose()
}

/// All ranges in one snapshot.
pub(super) fn ranges(database: &Database, ranges: &[Range]) -> Result<Vec<Vec<Row>>, Failure> {
    let transaction = database.begin_read()?;
    ranges.iter().map(|range| rows(&transaction, range)).collect()
}

fn rows(transaction: &ReadTransaction, range: &Range) -> Result<Vec<Row>, Failure> {
    if range.is_empty() {
        return Ok(Vec::new());
    }
    let Some(table) = open(transaction, &layout::rows_table(range.table))? else { return Ok(Vec::new()) };
    let end = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let found = ReadableTable::range::<&[u8]>(&table, (Bound::Included(&*range.start), end))?;
    if range.reverse {
        found.rev().take(range.limit).map(row).collect()
    } else {
        found.take(range.limit).map(row).collect()
    }
}

type Found<'a> = Result<(AccessGuard<'a, &'static [u8]>, AccessGuard<'a, &'static [u8]>), StorageError>;

fn row(found: Found<'_>) -> Result<Row, Failure> {
    let (key, stored) = found?;
    layout::row(key.value(), stored.value())
}

/// Does a job of upkeep. Blocks, for as long as it takes to read the file.
pub(super) fn maintain(connection: &Connection, job: Maintenance) -> Result<MaintenanceReport, Failure> {
    match job {
        Maintenance::Verify => {
            let intact = connection.with_exclusive(|database| Ok(database.check_integrity()?))?;
            let report = connection.with(verify)?;
            Ok(if intact { report } else { report.fault("the map of free pages was wrong and was rebuilt") })
        }
        Maintenance::Compact => {
            let before = connection.file_bytes()?;
            connection.with_exclusive(|database| Ok(database.compact()?))?;
            let after = connection.file_bytes()?;
            Ok(MaintenanceReport::new().bytes(after).reclaimed(before.saturating_sub(after)))
        }
        Maintenance::Stats => {
            let rows = connection.with(|database| {
                let transaction = database.begin_read()?;
                let mut rows = 0;
                for name in row_tables(&transaction)? {
                    rows += open(&transaction, &name)?.map_or(Ok(0), |table| table.len())?;
                }
                Ok(rows)
            })?;
            Ok(MaintenanceReport::new().rows(rows).bytes(connection.file_bytes()?))
        }
        _ => Ok(MaintenanceReport::new()),
    }
}

fn row_tables(transaction: &ReadTransaction) -> Result<Vec<String>, Failure> {
    let names = transaction.list_tables()?.map(|table| table.name().to_owned());
    Ok(names.filter(|name| layout::holds_rows(name)).collect())
}

/// Reads every row: redb has checked its pages, this checks what is ours in them.
fn verify(database: &Database) -> Result<MaintenanceReport, Failure> {
    let transaction = database.begin_read()?;
    let last = layout::last(&transaction.open_table(META)?)?;
    let mut report = MaintenanceReport::new();
    let mut count = 0;
    for name in row_tables(&transaction)? {
        let Some(table) = open(&transaction, &name)? else { continue };
        for found in table.iter()? {
            let (key, stored) = found?;
            count += 1;
            let fault = match layout::split_version(stored.value()) {
                Ok((version, _)) if Some(version) <= last => continue,
                Ok((version, _)) => format!("version {version} was never given"),
                Err(failure) => failure.to_string(),
            };
            report = report.fault(format!("row `{}` of `{name}`: {fault}", key.value().escape_ascii()));
        }
    }
    Ok(report.rows(count))
}
