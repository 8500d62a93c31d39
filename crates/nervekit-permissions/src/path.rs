//! Paths: how they are resolved, and how a decided one is used.

mod decided;
mod folder;
mod mark;
mod resolver;

pub use decided::{DecidedEntry, DecidedPath, EntryKind, LockKey, PathMetadata};
pub use resolver::{ResolveError, ResolvedCall, TargetResolver, derive_targets};
