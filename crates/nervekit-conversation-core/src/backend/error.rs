//! Why a backend did not do what it was asked.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nervekit_types::Retry;

use super::row::{CommitNumber, Table};
use super::write::Write;

/// A write set was not applied, because one of its rows was not as expected.
///
/// ```
/// use nervekit_conversation_core::{Change, Refused, Table, Write};
/// const NOTES: Table = Table::new("notes");
/// let refused = Refused::new(0, &Write::new(NOTES, "a\n", Change::Keep), None);
/// assert_eq!(refused.to_string(), "row `a\\n` of `notes` is not as expected: it is absent");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The place of the row in the set's writes.
    pub index: usize,
    /// The row's table.
    pub table: Table,
    /// The row's key.
    pub key: Bytes,
    /// The version that was there instead, if any.
    pub found: Option<CommitNumber>,
}

impl Refused {
    /// Refuses a set for this row.
    #[must_use]
    pub fn new(index: usize, write: &Write, found: Option<CommitNumber>) -> Self {
        Self { index, table: write.table, key: write.key.clone(), found }
    }

    /// Never: the same set is refused again until its expectations are read anew.
    pub const fn retry(&self) -> Retry {
        Retry::Never
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row `{}` of `{}` is not as expected: ", self.key.escape_ascii(), self.table)?;
        match self.found {
            Some(version) => write!(f, "it is at version {version}"),
            None => f.write_str("it is absent"),
        }
    }
}

impl Error for Refused {}

/// Why a backend failed. Each variant names the store: its file, or its address without secrets.
///
/// All but [`Unknown`](Self::Unknown) promise that nothing was written.
///
/// ```
/// use nervekit_conversation_core::BackendError;
/// use nervekit_types::Retry;
/// let error = BackendError::in_use("/data/store.redb");
/// assert_eq!(error.to_string(), "store `/data/store.redb` is in use by another process or another opening");
/// assert!(matches!(error.retry(), Retry::After(_)));
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// Someone else has the store open. Close it there, or wait for it.
    #[error("store `{store}` is in use by another process or another opening")]
    InUse {
        /// The store.
        store: Arc<str>,
    },
    /// There is no room. Free some, then the same write succeeds.
    #[error("store `{store}` is full")]
    Full {
        /// The store.
        store: Arc<str>,
        /// What the system said.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// What is there is no store, is of a newer format, or is damaged. Restore it, or open another one.
    #[error("store `{store}` cannot be read: {source}")]
    Corrupt {
        /// The store.
        store: Arc<str>,
        /// What was found.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// Another opening has taken the store over; this one never writes again.
    #[error("store `{store}` was opened by someone else in the meantime")]
    Fenced {
        /// The store.
        store: Arc<str>,
    },
    /// It cannot be reached now. Nothing was written.
    #[error("store `{store}` is unavailable: {source}")]
    Unavailable {
        /// The store.
        store: Arc<str>,
        /// What the system said.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The write failed at a point where it may already be durable. Ask
    /// [`applied`](super::Backend::applied).
    #[error("store `{store}` failed during the commit, which may have been made: {source}")]
    Unknown {
        /// The store.
        store: Arc<str>,
        /// What the system said.
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl BackendError {
    /// Someone else has it open.
    #[must_use]
    pub fn in_use(store: impl Into<Arc<str>>) -> Self {
        Self::InUse { store: store.into() }
    }

    /// There is no room.
    #[must_use]
    pub fn full(store: impl Into<Arc<str>>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Full { store: store.into(), source: Arc::from(source.into()) }
    }

    /// It is no store, or a damaged one.
    #[must_use]
    pub fn corrupt(store: impl Into<Arc<str>>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Corrupt { store: store.into(), source: Arc::from(source.into()) }
    }

    /// Another opening has it.
    #[must_use]
    pub fn fenced(store: impl Into<Arc<str>>) -> Self {
        Self::Fenced { store: store.into() }
    }

    /// It cannot be reached; nothing was written.
    #[must_use]
    pub fn unavailable(store: impl Into<Arc<str>>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable { store: store.into(), source: Arc::from(source.into()) }
    }

    /// It failed in the commit itself.
    #[must_use]
    pub fn unknown(store: impl Into<Arc<str>>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unknown { store: store.into(), source: Arc::from(source.into()) }
    }

    /// The store that failed: its file or its address.
    #[must_use]
    pub fn store(&self) -> &str {
        match self {
            Self::InUse { store }
            | Self::Full { store, .. }
            | Self::Corrupt { store, .. }
            | Self::Fenced { store }
            | Self::Unavailable { store, .. }
            | Self::Unknown { store, .. } => store,
        }
    }

    /// A stable word for this kind of failure.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "in_use",
            Self::Full { .. } => "full",
            Self::Corrupt { .. } => "corrupt",
            Self::Fenced { .. } => "fenced",
            Self::Unavailable { .. } => "unavailable",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// Whether to try again.
    pub const fn retry(&self) -> Retry {
        match self {
            // The other opening may end at any time.
            Self::InUse { .. } => Retry::After(Duration::from_millis(100)),
            // A file system or a network that failed once may well be back in a second.
            Self::Unavailable { .. } => Retry::After(Duration::from_secs(1)),
            // A person has to make room; looking again often does not help.
            Self::Full { .. } => Retry::After(Duration::from_secs(5)),
            // Neither mends itself.
            Self::Corrupt { .. } | Self::Fenced { .. } => Retry::Never,
            // It may be durable: `applied` tells.
            Self::Unknown { .. } => Retry::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_small_and_can_be_shared() {
        assert!(size_of::<BackendError>() <= 64);
        assert!(size_of::<Refused>() <= 64);
        static_assertions::assert_impl_all!(BackendError: Clone, Send, Sync);
        static_assertions::assert_impl_all!(Refused: Clone, Send, Sync);
    }

    #[test]
    fn sources_are_kept() {
        let error = BackendError::full("f", std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert!(error.source().is_some());
        assert_eq!((error.kind(), error.store()), ("full", "f"));
    }
}
