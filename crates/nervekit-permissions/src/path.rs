//! Paths: how they are resolved, and how a decided one is used.

mod decided;
mod folder;
mod mark;
mod resolver;
mod selection;
mod walk;

pub use decided::{DecidedEntry, DecidedPath, EntryKind, LockKey, PathMetadata};
pub(crate) use folder::{Folder, Stamp, refused, unguessable};
pub use resolver::{ResolveError, ResolvedCall, TargetResolver};
pub use selection::derive_targets;
pub(crate) use walk::walk;
