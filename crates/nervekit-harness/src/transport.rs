//! HTTP, as far as an adapter needs it.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::stream::BoxStream;
use nervekit_types::Secret;

use crate::error::ProviderError;

#[cfg(feature = "tls-none")]
mod client;

#[cfg(feature = "tls-none")]
pub use client::{HttpClient, HttpClientBuilder};

/// Sends one HTTP request.
///
/// **Contract.** `send` returns when the response's head is there, whatever its status; the body comes as a
/// stream, already unpacked if it was compressed. It does not retry and follows no redirect to another
/// origin. Dropping the future or the body closes the connection. Failures are
/// [`Network`](crate::ProviderErrorKind::Network) or [`Timeout`](crate::ProviderErrorKind::Timeout) errors
/// that hold no header and no body.
///
/// ```
/// use async_trait::async_trait;
/// use bytes::Bytes;
/// use futures_util::{StreamExt, stream};
/// use nervekit_harness::{HttpRequest, HttpResponse, ProviderError, Transport};
///
/// #[derive(Debug)]
/// struct Canned(&'static str);
///
/// #[async_trait]
/// impl Transport for Canned {
///     async fn send(&self, _: HttpRequest) -> Result<HttpResponse, ProviderError> {
///         let body = Bytes::from_static(self.0.as_bytes());
///         Ok(HttpResponse::new(200, stream::iter([Ok(body)]).boxed())
///             .header("content-type", "text/event-stream"))
///     }
/// }
/// let _: Box<dyn Transport> = Box::new(Canned("data: [DONE]\n\n"));
/// ```
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends the request.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, ProviderError>;
}

crate::port::forward!(#[async_trait] Transport { ; async fn send(&self, request: HttpRequest) -> Result<HttpResponse, ProviderError>; });

/// A `POST` with a body. `Debug` shows neither header values nor the body.
///
/// ```
/// use nervekit_harness::HttpRequest;
/// use nervekit_types::Secret;
/// let request = HttpRequest::post("https://api.example/v1/chat", "{}")
///     .header("authorization", Secret::new("Bearer sk-1"));
/// assert!(!format!("{request:?}").contains("sk-1"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The address.
    pub url: String,
    /// Names in lower case and values, all of them treated as secrets.
    pub headers: Vec<(String, Secret)>,
    /// What to send.
    pub body: Bytes,
}

impl HttpRequest {
    /// A request with no headers yet.
    #[must_use]
    pub fn post(url: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { url: url.into(), headers: Vec::new(), body: body.into() }
    }

    /// Sets a header, in place of one of the same name.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: Secret) -> Self {
        let name = name.into().to_ascii_lowercase();
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value));
        self
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("HttpRequest")
            .field("url", &self.url)
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// The head of a response, and its body as a stream.
///
/// ```
/// use futures_util::{StreamExt, stream};
/// use nervekit_harness::HttpResponse;
/// let response = HttpResponse::new(429, stream::empty().boxed()).header("Retry-After", "2");
/// assert_eq!(response.get("retry-after"), Some("2"));
/// ```
#[non_exhaustive]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// Names in lower case and values, in order; a name may come twice.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: BoxStream<'static, Result<Bytes, ProviderError>>,
}

impl HttpResponse {
    /// A response with no headers yet.
    #[must_use]
    pub fn new(status: u16, body: BoxStream<'static, Result<Bytes, ProviderError>>) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl AsRef<str>, value: impl Into<String>) -> Self {
        self.headers.push((name.as_ref().to_ascii_lowercase(), value.into()));
        self
    }

    /// The first header of this lower-case name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
