//! What the author of a backend, or of a host, tests with.
//!
//! - [`backend_conformance!`](crate::backend_conformance) makes one test for each clause of the
//!   [`Backend`](crate::Backend) contract.
//! - [`FaultBackend`] fails and crashes where it is told to, and remembers what was durable.
//! - [`CrashMatrix`] crashes a scenario before and after each of its commits, and prints what came of it.

pub mod backend_conformance;
mod backend_model;
mod crash;
mod fault_backend;

pub use crash::{CrashCheck, CrashLine, CrashMatrix, CrashPoint, CrashSide};
pub use fault_backend::{Fault, FaultBackend};
