//! What can go wrong inside, before it is known what it means for the caller.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nervekit_conversation_core::BackendError;

/// A failure of redb, of the file, or of what was found in it.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Redb(#[from] redb::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Damaged(&'static str),
    #[error("redb stopped over it: {0}")]
    Panicked(String),
    #[error(
        "its layout version {found} is newer than {known}, the newest this program knows; use a newer program"
    )]
    Newer { found: u32, known: u32 },
    #[error(
        "its layout version {found} is older than {known}, the oldest this program knows; open it with an older program first"
    )]
    Older { found: u32, known: u32 },
    #[error("it was opened by someone else in the meantime")]
    Fenced,
}

macro_rules! from_redb {
    ($($error:ident),*) => {$(
        impl From<redb::$error> for Failure {
            fn from(error: redb::$error) -> Self {
                Self::Redb(error.into())
            }
        }
    )*};
}

from_redb!(StorageError, TableError, TransactionError, CommitError, DatabaseError, CompactionError);

impl Failure {
    pub(super) const fn damaged(what: &'static str) -> Self {
        Self::Damaged(what)
    }

    /// Whether redb refuses all further work until the file is opened again.
    pub(super) const fn is_lasting(&self) -> bool {
        !matches!(self, Self::Fenced | Self::Newer { .. } | Self::Older { .. })
    }

    /// Whether the file is held by someone else.
    pub(super) const fn is_in_use(&self) -> bool {
        matches!(self, Self::Redb(redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch))
    }

    /// Whether there was no room.
    pub(super) fn is_full(&self) -> bool {
        self.io().is_some_and(|error| {
            use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
            matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
        })
    }

    fn io(&self) -> Option<&io::Error> {
        match self {
            Self::Io(error) | Self::Redb(redb::Error::Io(error)) => Some(error),
            _ => None,
        }
    }

    fn is_corrupt(&self) -> bool {
        use io::ErrorKind::{InvalidData, InvalidInput, IsADirectory, UnexpectedEof};
        match self {
            Self::Damaged(_) | Self::Panicked(_) | Self::Newer { .. } | Self::Older { .. } => true,
            Self::Redb(error) if self.io().is_none() => !matches!(
                error,
                // The one after a failure is a consequence, and tells nothing of the file.
                redb::Error::PreviousIo
                    | redb::Error::DatabaseClosed
                    | redb::Error::LockPoisoned(_)
                    | redb::Error::TransactionInProgress
                    | redb::Error::RepairAborted
            ),
            _ => self.io().is_some_and(|error| {
                matches!(error.kind(), InvalidData | InvalidInput | IsADirectory | UnexpectedEof)
            }),
        }
    }

    /// What it means for the caller, if nothing was written.
    pub(super) fn into_error(self, store: &Arc<str>) -> BackendError {
        let store = store.clone();
        match self {
            Self::Fenced => BackendError::fenced(store),
            failure if failure.is_in_use() => BackendError::in_use(store),
            failure if failure.is_full() => BackendError::full(store, failure),
            Self::Redb(error @ redb::Error::ValueTooLarge(_)) => BackendError::full(store, error),
            failure if failure.is_corrupt() => BackendError::corrupt(store, failure),
            failure => BackendError::unavailable(store, failure),
        }
    }
}

/// Runs something over redb. It answers what it cannot make sense of by a panic here and there, above all in
/// builds with debug assertions; that is a finding about the file and must not take the host down.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // Unwind safe: after a panic the database is dropped and opened again, nothing of it is used.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(Failure::Panicked(text(&*payload))))
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text =
        payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
