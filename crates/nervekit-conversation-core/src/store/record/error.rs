//! What is wrong with a record.

use nervekit_types::Retry;

/// Why a record cannot be read or written. It names the kind of record and never quotes its content.
///
/// ```
/// use nervekit_conversation_core::RecordError;
/// fn words(error: &RecordError) -> String {
///     format!("restore a backup: {error}")
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A newer build wrote it.
    #[error(
        "the `{record}` record has version {found}; this build reads up to version {newest}: use a newer one"
    )]
    Newer {
        /// The kind of record that was wanted.
        record: &'static str,
        /// Its version.
        found: u32,
        /// The newest version that this build reads.
        newest: u32,
    },
    /// The bytes are something else.
    #[error("the bytes are not a `{record}` record")]
    Foreign {
        /// The kind of record that was wanted.
        record: &'static str,
    },
    /// The bytes begin as such a record does, and do not go on so.
    #[error("the `{record}` record is damaged at byte {offset}: {problem}")]
    Damaged {
        /// The kind of record that was wanted.
        record: &'static str,
        /// How many bytes of the record could be read.
        offset: usize,
        /// What sort of damage it is.
        problem: &'static str,
    },
    /// An event is not the one that was appended, or not the one that followed its predecessor.
    #[error("the `event` record or one before it was changed: its hash is another")]
    Chain,
    /// What is to be stored could not be read again; nothing is written.
    #[error("the `{record}` record cannot be stored: {problem}")]
    Unwritable {
        /// The kind of record.
        record: &'static str,
        /// What stands in the way.
        problem: Box<str>,
    },
}

impl RecordError {
    /// Never: the bytes stay as they are.
    ///
    /// ```
    /// use nervekit_conversation_core::RecordError;
    /// use nervekit_types::Retry;
    /// assert_eq!(RecordError::Chain.retry(), Retry::Never);
    /// ```
    #[must_use]
    pub const fn retry(&self) -> Retry {
        Retry::Never
    }
}
