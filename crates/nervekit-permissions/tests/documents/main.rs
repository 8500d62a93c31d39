//! Documents in real files, written by real processes.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod absence;
mod attack;
mod bed;
mod cache;
mod corpus;
mod example;
mod file;
mod grant;
mod process;
mod scenario;
mod secret;
mod skill;
mod surface;
