//! What the store answers when it cannot read or write.

use std::time::Duration;

use nervekit_types::{Retry, Timestamp};

use super::record::RecordError;
use crate::backend::BackendError;

/// Why the store could not read, or did not take a change.
///
/// ```
/// use nervekit_conversation_core::{BackendError, StoreError};
/// let error = StoreError::from(BackendError::in_use("conversations.redb"));
/// assert_eq!(error.http_status(), 503);
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// A record cannot be read.
    #[error(transparent)]
    Record(#[from] Box<RecordError>),
    /// A newer build wrote the store.
    #[error(
        "the store holds records of version {found}; this build reads {oldest} to {newest}: use a newer one"
    )]
    Newer {
        /// The newest version in the store.
        found: u32,
        /// The oldest version this build reads.
        oldest: u32,
        /// The newest version this build reads.
        newest: u32,
    },
    /// The store has lost or changed a part of a conversation.
    #[error("the conversation is damaged: {0}")]
    Damaged(Box<str>),
    /// Another core carries the conversation on.
    #[error("another runtime works on this conversation until {until}")]
    Held {
        /// When its lease ends if it is not prolonged.
        until: Timestamp,
    },
    /// Somebody wrote the same records at the same time, again and again.
    #[error("the `{record}` of the conversation was changed by somebody else at the same time")]
    Conflict {
        /// Which record.
        record: &'static str,
    },
    /// A change is larger than a store takes in one piece.
    #[error("the change has {size} bytes; at most {limit} are taken at once")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// The largest size in bytes.
        limit: u64,
    },
}

impl StoreError {
    /// The same error for one more who waits for an answer. Its sources stay with the first one.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Backend(error) => Self::Backend(error.clone()),
            Self::Record(error) => Self::Damaged(error.to_string().into()),
            Self::Newer { found, oldest, newest } => {
                Self::Newer { found: *found, oldest: *oldest, newest: *newest }
            }
            Self::Damaged(what) => Self::Damaged(what.clone()),
            Self::Held { until } => Self::Held { until: *until },
            Self::Conflict { record } => Self::Conflict { record },
            Self::TooLarge { size, limit } => Self::TooLarge { size: *size, limit: *limit },
        }
    }

    /// A store in which something is not as it must be.
    ///
    /// ```
    /// use nervekit_conversation_core::StoreError;
    /// assert_eq!(StoreError::damaged("a row is missing").http_status(), 500);
    /// ```
    #[must_use]
    pub fn damaged(what: impl Into<Box<str>>) -> Self {
        Self::Damaged(what.into())
    }

    /// What commands are answered while finished work waits for the store.
    pub(crate) fn in_trouble() -> Self {
        Self::Backend(BackendError::unavailable(
            "conversations",
            "the store is in trouble; finished work waits for it",
        ))
    }

    /// Whether to try again.
    ///
    /// ```
    /// use nervekit_conversation_core::StoreError;
    /// use nervekit_types::Retry;
    /// assert_eq!(StoreError::TooLarge { size: 2, limit: 1 }.retry(), Retry::Never);
    /// ```
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::Backend(error) => error.retry(),
            // The bytes stay as they are until somebody repairs them.
            Self::Record(_) | Self::Newer { .. } | Self::Damaged(_) | Self::TooLarge { .. } => Retry::Never,
            // The other one finishes or dies; its lease then ends.
            Self::Held { .. } => Retry::After(Duration::from_secs(1)),
            // Nothing was written.
            Self::Conflict { .. } => Retry::Now,
        }
    }

    /// The HTTP status that a web host answers with.
    ///
    /// ```
    /// use nervekit_conversation_core::StoreError;
    /// assert_eq!(StoreError::TooLarge { size: 2, limit: 1 }.http_status(), 413);
    /// ```
    #[must_use]
    pub fn http_status(&self) -> u16 {
        match self {
            Self::Backend(BackendError::Full { .. }) => 507,
            Self::Backend(BackendError::Corrupt { .. })
            | Self::Record(_)
            | Self::Newer { .. }
            | Self::Damaged(_) => 500,
            Self::TooLarge { .. } => 413,
            Self::Conflict { .. } => 409,
            Self::Backend(_) | Self::Held { .. } => 503,
        }
    }
}

/// Why a batch was not committed. In every case but `Unknown`, nothing of it was written.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A record is not the one the batch was drafted on.
    #[error("the `{record}` was changed by somebody else")]
    Conflict {
        /// The table of the record.
        record: &'static str,
    },
    /// Another core took the lease.
    #[error("another runtime took over the conversation")]
    Fenced,
    /// The conversation is gone.
    #[error("the conversation does not exist")]
    NotFound,
    /// The batch is larger than a store takes.
    #[error("the change has {size} bytes; at most {limit} are taken at once")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// The largest size in bytes.
        limit: u64,
    },
    /// A record cannot be stored: a path that is not UTF-8, or JSON that is nested too deeply.
    #[error(transparent)]
    Record(#[from] Box<RecordError>),
    /// The database failed; nothing was written.
    #[error(transparent)]
    Backend(BackendError),
    /// The database failed, and whether the batch is durable can be asked once it answers: committing the same
    /// batch again finds out.
    #[error("whether the change is durable is not known yet")]
    Unknown(#[source] BackendError),
}

impl CommitError {
    /// Whether waiting does not help.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Backend(error) => {
                matches!(error, BackendError::Corrupt { .. } | BackendError::Fenced { .. })
            }
            Self::Unknown(_) => false,
            Self::Conflict { .. }
            | Self::Fenced
            | Self::NotFound
            | Self::Record(_)
            | Self::TooLarge { .. } => true,
        }
    }
}

impl From<CommitError> for StoreError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Conflict { record } => Self::Conflict { record },
            CommitError::Fenced => Self::Conflict { record: "lease" },
            CommitError::NotFound => Self::Conflict { record: "core" },
            CommitError::TooLarge { size, limit } => Self::TooLarge { size, limit },
            CommitError::Record(error) => Self::Record(error),
            CommitError::Backend(error) | CommitError::Unknown(error) => Self::Backend(error),
        }
    }
}
