//! The engine as a host sees it, over real files.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod child;
mod coverage;
mod field_bug;
mod fuzz;
mod grant;
#[cfg(unix)]
mod link_farm;
mod oracle;
#[cfg(unix)]
mod path;
mod planning;
#[cfg(unix)]
mod race;
mod random;
mod replay;
mod scenario;
mod world;
