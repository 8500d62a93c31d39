//! The transport over `reqwest`.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _};

use crate::error::{ProviderError, ProviderErrorKind};
use crate::transport::{HttpRequest, HttpResponse, Transport};

/// An HTTP client with pooled connections, over `reqwest`.
///
/// It gives up on a connection after 20 s, on silence after 5 minutes and on a whole exchange after one hour.
/// It follows no redirects, uses no proxy of the environment, and asks for no compression. Clones share their
/// connections.
///
/// ```
/// use std::time::Duration;
/// use nervekit_harness::HttpClient;
/// let client = HttpClient::builder().connect_timeout(Duration::from_secs(5)).build()?;
/// # let _: &dyn nervekit_harness::Transport = &client;
/// # Ok::<(), nervekit_harness::ProviderError>(())
/// ```
#[derive(Clone, Debug)]
pub struct HttpClient(reqwest::Client);

impl HttpClient {
    /// A client with the standard timeouts.
    pub fn new() -> Result<Self, ProviderError> {
        Self::builder().build()
    }

    /// A client with other timeouts.
    pub fn builder() -> HttpClientBuilder {
        HttpClientBuilder {
            connect: Duration::from_secs(20),
            idle: Duration::from_secs(300),
            total: Duration::from_secs(3_600),
        }
    }
}

/// The timeouts of an [`HttpClient`].
///
/// ```
/// use std::time::Duration;
/// use nervekit_harness::HttpClient;
/// let patient = HttpClient::builder().idle_timeout(Duration::from_secs(900)).build();
/// assert!(patient.is_ok());
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct HttpClientBuilder {
    connect: Duration,
    idle: Duration,
    total: Duration,
}

impl HttpClientBuilder {
    /// Sets how long a connection may take to be made.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect = timeout;
        self
    }

    /// Sets the longest silence: before the head of the response and between two pieces of its body.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle = timeout;
        self
    }

    /// Sets how long a whole exchange may take.
    pub fn total_timeout(mut self, timeout: Duration) -> Self {
        self.total = timeout;
        self
    }

    /// Makes the client; it fails when the TLS of this system cannot be set up.
    pub fn build(self) -> Result<HttpClient, ProviderError> {
        #[cfg(all(feature = "tls-ring", not(feature = "tls-aws-lc")))]
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Another thread may have been quicker; either provider will do.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        reqwest::Client::builder()
            .connect_timeout(self.connect)
            .read_timeout(self.idle)
            .timeout(self.total)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("nervekit/", env!("CARGO_PKG_VERSION")))
            .build()
            .map(HttpClient)
            .map_err(|error| {
                ProviderError::new(ProviderErrorKind::Network, "the HTTP client cannot be made")
                    .with_source(error)
            })
    }
}

#[async_trait]
impl Transport for HttpClient {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, ProviderError> {
        let mut builder = self.0.post(&request.url).body(request.body);
        for (name, value) in &request.headers {
            let mut value = reqwest::header::HeaderValue::from_str(value.expose()).map_err(|_| {
                let message =
                    format!("the value of the header `{name}` holds characters that HTTP does not allow");
                ProviderError::new(ProviderErrorKind::InvalidRequest, message)
            })?;
            value.set_sensitive(true);
            builder = builder.header(name, value);
        }
        let response = builder.send().await.map_err(failed)?;
        let mut answer = HttpResponse::new(response.status().as_u16(), futures_util::stream::empty().boxed());
        for (name, value) in response.headers() {
            answer = answer.header(name, String::from_utf8_lossy(value.as_bytes()));
        }
        answer.body = response.bytes_stream().map_err(failed).boxed();
        Ok(answer)
    }
}

/// Puts a failure in our words; the address is left out of the source, for it may hold a secret.
fn failed(error: reqwest::Error) -> ProviderError {
    let (kind, message) = if error.is_builder() {
        (
            ProviderErrorKind::InvalidRequest,
            "the request cannot be made; check the base URL, and that TLS is compiled in for `https`",
        )
    } else if error.is_timeout() && error.is_connect() {
        (ProviderErrorKind::Timeout, "the connection could not be made in time")
    } else if error.is_timeout() {
        (ProviderErrorKind::Timeout, "the server was silent, or took too long")
    } else if error.is_connect() {
        (ProviderErrorKind::Network, "the connection could not be made")
    } else {
        (ProviderErrorKind::Network, "the connection broke")
    };
    ProviderError::new(kind, message).with_source(error.without_url())
}
