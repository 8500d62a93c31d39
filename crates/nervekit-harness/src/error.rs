//! What goes wrong between a request and its answer.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nervekit_types::Retry;
use serde::{Deserialize, Serialize};

/// The sort of a [`ProviderError`]: what a caller can do about it.
///
/// ```
/// use nervekit_harness::ProviderErrorKind;
/// assert_eq!(ProviderErrorKind::RateLimited.as_str(), "rate_limited");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProviderErrorKind {
    /// The credential is missing, wrong or expired. Set a good one.
    Authentication,
    /// The credential is good but may not do this. Ask the provider's account owner.
    Permission,
    /// The model or the endpoint does not exist. Check the name and the base URL.
    NotFound,
    /// The provider refuses the request as it is; the same request fails again.
    InvalidRequest,
    /// The request is larger than the model's context window. Compact, then send the smaller one.
    ContextOverflow,
    /// Too many requests or tokens in a while, or the quota is spent. Wait.
    RateLimited,
    /// The provider has no capacity at the moment. Wait.
    Overloaded,
    /// The provider failed. Try again.
    Server,
    /// The connection could not be made or broke, also in mid-answer. Try again.
    Network,
    /// Nothing came for too long. Try again.
    Timeout,
    /// The answer was not what the wire format promises. Tried again only when it broke before any content.
    Protocol,
    /// The caller took the request back.
    Cancelled,
}

impl ProviderErrorKind {
    /// The name that serde uses too.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Permission => "permission",
            Self::NotFound => "not_found",
            Self::InvalidRequest => "invalid_request",
            Self::ContextOverflow => "context_overflow",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Server => "server",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for ProviderErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A model request that has no answer.
///
/// It holds what the provider said, never a credential. Two errors are equal when everything but their
/// sources is. Serde leaves the source out.
///
/// ```
/// use nervekit_harness::{ProviderError, ProviderErrorKind};
/// use nervekit_types::Retry;
/// use std::time::Duration;
///
/// let error = ProviderError::new(ProviderErrorKind::RateLimited, "slow down")
///     .with_status(429)
///     .with_retry_after(Duration::from_secs(7));
/// assert_eq!(error.to_string(), "rate_limited (status 429): slow down");
/// assert_eq!(error.retry(), Retry::After(Duration::from_secs(7)));
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProviderError(Box<Parts>);

#[derive(Clone, Serialize, Deserialize)]
struct Parts {
    kind: ProviderErrorKind,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after: Option<Duration>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    after_content: bool,
    #[serde(skip)]
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl PartialEq for Parts {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.status, self.retry_after, self.after_content)
            == (other.kind, other.status, other.retry_after, other.after_content)
            && self.message == other.message
            && self.request_id == other.request_id
    }
}

impl ProviderError {
    /// An error of this sort. The message is lower case without a full stop, except for the provider's own words.
    #[must_use]
    pub fn new(kind: ProviderErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            kind,
            message: message.into(),
            status: None,
            request_id: None,
            retry_after: None,
            after_content: false,
            source: None,
        }))
    }

    /// A breach of the wire format or of a port's contract.
    #[must_use]
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(ProviderErrorKind::Protocol, message)
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Adds the provider's id of the request, for its support.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.0.request_id = Some(id.into());
        self
    }

    /// Adds how long the provider asked to wait.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Says whether a part of the answer had arrived before.
    #[must_use]
    pub fn with_after_content(mut self, after_content: bool) -> Self {
        self.0.after_content = after_content;
        self
    }

    /// Keeps the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// The sort.
    #[must_use]
    pub fn kind(&self) -> ProviderErrorKind {
        self.0.kind
    }

    /// What the provider said, or what was wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The HTTP status, if there was an HTTP answer.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The provider's id of the request.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// How long the provider asked to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Whether a part of the answer had arrived before.
    #[must_use]
    pub fn after_content(&self) -> bool {
        self.0.after_content
    }

    /// Whether the same request may be sent again.
    ///
    /// Rate limits, overload, server faults, broken connections and timeouts pass. A protocol error passes
    /// when it came before any content: after content the provider is likely to break at the same place.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self.0.kind {
            ProviderErrorKind::RateLimited
            | ProviderErrorKind::Overloaded
            | ProviderErrorKind::Server
            | ProviderErrorKind::Network
            | ProviderErrorKind::Timeout => self.0.retry_after.map_or(Retry::Now, Retry::After),
            ProviderErrorKind::Protocol if !self.0.after_content => Retry::Now,
            ProviderErrorKind::Protocol
            | ProviderErrorKind::Authentication
            | ProviderErrorKind::Permission
            | ProviderErrorKind::NotFound
            | ProviderErrorKind::InvalidRequest
            | ProviderErrorKind::ContextOverflow
            | ProviderErrorKind::Cancelled => Retry::Never,
        }
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.kind)?;
        if let Some(status) = self.0.status {
            write!(f, " (status {status})")?;
        }
        write!(f, ": {}", self.0.message)
    }
}

impl fmt::Debug for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderError")
            .field("kind", &self.0.kind)
            .field("status", &self.0.status)
            .field("message", &self.0.message)
            .field("request_id", &self.0.request_id)
            .field("retry_after", &self.0.retry_after)
            .field("after_content", &self.0.after_content)
            .field("source", &self.0.source)
            .finish()
    }
}

impl Error for ProviderError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [ProviderErrorKind; 12] = [
        ProviderErrorKind::Authentication,
        ProviderErrorKind::Permission,
        ProviderErrorKind::NotFound,
        ProviderErrorKind::InvalidRequest,
        ProviderErrorKind::ContextOverflow,
        ProviderErrorKind::RateLimited,
        ProviderErrorKind::Overloaded,
        ProviderErrorKind::Server,
        ProviderErrorKind::Network,
        ProviderErrorKind::Timeout,
        ProviderErrorKind::Protocol,
        ProviderErrorKind::Cancelled,
    ];

    #[test]
    fn an_error_is_small() {
        assert!(size_of::<ProviderError>() <= 64);
    }

    #[test]
    fn a_kind_has_one_name() {
        for kind in KINDS {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }

    #[test]
    fn only_what_can_pass_is_tried_again() {
        let again: Vec<_> = KINDS
            .into_iter()
            .filter(|kind| ProviderError::new(*kind, "x").retry() != Retry::Never)
            .map(ProviderErrorKind::as_str)
            .collect();
        assert_eq!(again, ["rate_limited", "overloaded", "server", "network", "timeout", "protocol"]);
        assert_eq!(ProviderError::protocol("x").with_after_content(true).retry(), Retry::Never);
    }

    #[test]
    fn serde_keeps_everything_but_the_source() {
        let error = ProviderError::new(ProviderErrorKind::Server, "boom")
            .with_status(500)
            .with_request_id("req_1")
            .with_retry_after(Duration::from_millis(1_500))
            .with_source(std::io::Error::other("inner"));
        let back: ProviderError = serde_json::from_value(serde_json::to_value(&error).unwrap()).unwrap();
        assert_eq!(back, error);
        assert!(back.source().is_none() && error.source().is_some());
    }
}
