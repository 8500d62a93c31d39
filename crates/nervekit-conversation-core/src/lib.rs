#![doc = include_str!("../README.md")]

mod backend;

#[cfg(feature = "testing")]
pub mod testing;

pub use backend::{
    Backend, BackendError, BackendFacts, Change, CommitNumber, Expect, Maintenance, MaintenanceReport,
    MemoryBackend, Range, Refused, Row, Table, Write, WriteSet,
};
