//! One error for a host that does not tell them apart.

use nervekit_conversation_core::{AskError, BuildError, CommandError, NotCompleted, QueryError, StoreError};
use nervekit_harness::ProviderError;
use nervekit_permissions::{DocumentError, GrantError};
use nervekit_types::Retry;

/// Whatever can go wrong, with a `From` of each error of the crates.
///
/// ```
/// use nervekit::Error;
/// use nervekit::conversation::CommandError;
/// let error = Error::from(CommandError::ShuttingDown);
/// assert_eq!(error.to_string(), "the runtime is shutting down");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host could not be opened.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A command was not carried out.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A query was not answered.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A provider failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// A document could not be read or written.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A rule could not be remembered.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// The work ended without a final answer.
    #[error(transparent)]
    NotCompleted(#[from] NotCompleted),
    /// The terminal failed.
    #[error("the terminal failed: {0}")]
    Terminal(#[from] std::io::Error),
}

impl Error {
    /// Whether to try again.
    ///
    /// ```
    /// use nervekit::Error;
    /// use nervekit::conversation::NotCompleted;
    /// use nervekit::types::Retry;
    /// assert_eq!(Error::from(NotCompleted::Cancelled).retry(), Retry::Never);
    /// ```
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::Build(error) => error.retry(),
            Self::Command(error) => error.retry(),
            Self::Query(error) => error.retry(),
            Self::Store(error) => error.retry(),
            Self::Provider(error) => error.retry(),
            Self::Document(error) => error.retry(),
            Self::Grant(error) => error.retry(),
            // What was done is done; a person decides how to go on.
            Self::NotCompleted(_) | Self::Terminal(_) => Retry::Never,
        }
    }
}

impl From<AskError> for Error {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Command(error) => Self::Command(error),
            AskError::NotCompleted(error) => Self::NotCompleted(error),
            AskError::Query(error) => Self::Query(error),
            _ => Self::Query(QueryError::ShuttingDown),
        }
    }
}
