//! What works on this machine.

mod environment;
#[cfg(unix)]
mod process;

#[cfg(unix)]
pub use process::LocalProcesses;
