//! What works on this machine.

#[cfg(unix)]
mod environment;
pub(crate) mod file;
#[cfg(unix)]
mod process;
pub(crate) mod walk;
pub(crate) mod window;

#[cfg(unix)]
pub use process::LocalProcesses;
