//! The port for searching the web.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use nervekit_types::Retry;
use serde::{Deserialize, Serialize};

/// Searches the web.
///
/// **Contract.** At most `limit` hits, best first. The addresses are what the service answered; nothing is
/// contacted but the service. Dropping the future cancels the request. Credentials never appear in a hit or in
/// an error.
///
/// ```
/// use nervekit_tools::{SearchBackend, SearchError, SearchHit};
///
/// #[derive(Debug)]
/// struct Nothing;
///
/// #[async_trait::async_trait]
/// impl SearchBackend for Nothing {
///     async fn search(&self, _query: &str, _limit: usize) -> Result<Vec<SearchHit>, SearchError> {
///         Ok(Vec::new())
///     }
/// }
/// ```
#[async_trait]
pub trait SearchBackend: Debug + Send + Sync + 'static {
    /// Finds pages about a query.
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, SearchError>;
}

macro_rules! forward_search {
    ($pointer:ident) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<P: SearchBackend + ?Sized> SearchBackend for $pointer<P> {
            async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, SearchError> {
                (**self).search(query, limit).await
            }
        }
    };
}
forward_search!(Arc);
forward_search!(Box);
const _: fn(&dyn SearchBackend) = |_| ();

/// A page that a search found.
///
/// ```
/// use nervekit_tools::SearchHit;
/// let hit = SearchHit::new("Rust", "https://www.rust-lang.org/").excerpt("A language …");
/// assert_eq!(hit.title, "Rust");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// The title of the page.
    pub title: String,
    /// Its address.
    pub url: String,
    /// What the service says about it.
    pub excerpt: String,
}

impl SearchHit {
    /// Makes a hit without an excerpt.
    #[must_use]
    pub fn new(title: impl Into<String>, url: impl Into<String>) -> Self {
        Self { title: title.into(), url: url.into(), excerpt: String::new() }
    }

    /// Sets the excerpt.
    #[must_use]
    pub fn excerpt(self, excerpt: impl Into<String>) -> Self {
        Self { excerpt: excerpt.into(), ..self }
    }
}

/// Why a search failed.
///
/// ```
/// use nervekit_tools::SearchError;
/// use nervekit_types::Retry;
/// assert_eq!(SearchError::Refused { status: 401 }.retry(), Retry::Never);
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The service answered with an error.
    #[error("the search service answered with status {status}")]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The service asks to wait.
    #[error("the search service asks to wait {} s", after.as_secs())]
    Busy {
        /// How long.
        after: std::time::Duration,
    },
    /// The service could not be reached, or its answer could not be read.
    #[error("the search service could not be reached")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl SearchError {
    /// Whether trying again makes sense.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            // A wrong key or query stays wrong; a fault of the service may pass.
            Self::Refused { status } if *status < 500 => Retry::Never,
            // A search has no effect, so it may be repeated.
            Self::Refused { .. } | Self::Unavailable(_) => Retry::Now,
            Self::Busy { after } => Retry::After(*after),
        }
    }
}
