#![doc = include_str!("../README.md")]

#[cfg(feature = "redb")]
mod redb_backend;

#[cfg(feature = "redb")]
pub use redb_backend::{RedbBackend, RedbOptions};
