//! Documents in real files, written by real processes.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod file;
mod process;
