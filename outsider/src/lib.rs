//! What someone outside of the nervekit crates can do with their public API, without the feature `testing`:
//! every port has an implementation here, complete and small, and the hosts of the documentation are
//! functions over them.
//!
//! `tests/ports.rs` of the workspace compares this list with
//! [`nervekit_conversation_core::ports`] and with the table in that crate's README.

mod backend;
mod conversation;
pub mod host;
mod model;
mod parrot;
mod permission;
mod system;
mod tool;

pub use backend::Shelf;
pub use conversation::{Census, House, OneReviewer};
pub use model::{AnyModel, Canned, Forgetful, NoSecrets, Reverse, Words};
pub use parrot::Parrot;
pub use permission::{Cabinet, Notary, ReadersOnly};
pub use system::{Coin, Counter, WallClock};
pub use tool::{Attic, Encyclopedia, Reply, Sayings, Town, Townsfolk};
