#![cfg_attr(feature = "redb", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "redb"),
    doc = "Where nervekit conversations are kept; every backend is behind a feature."
)]

#[cfg(feature = "redb")]
mod redb_backend;

#[cfg(feature = "redb")]
pub use redb_backend::{RedbBackend, RedbOptions};
