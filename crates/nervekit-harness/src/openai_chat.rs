//! A model behind OpenAI's Chat Completions, or anything that speaks them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use nervekit_types::{Clock, Secret, SystemClock};
use tokio::time::timeout;

use crate::credential::{Credentials, EnvironmentCredentials};
use crate::error::{ProviderError, ProviderErrorKind};
use crate::event::ModelEvent;
use crate::model::{Model, ModelInfo, ModelStream};
use crate::request::ModelRequest;
use crate::transport::{HttpRequest, HttpResponse, Transport};
use crate::wire::openai_chat::{ChatOptions, Decoder, classify, encode};

/// How long the usage and the end mark may take to come behind a complete answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most of an error's body that is read, and how long that may take.
const LONGEST_ERROR: usize = 64 * 1024;
const ERROR_TIMEOUT: Duration = Duration::from_secs(10);

/// A model behind `POST {base}/chat/completions`, over any [`Transport`].
///
/// The [codec](crate::wire::openai_chat) says how answers are read. The credential is asked for before each
/// request and sent as a bearer token; it never appears in an error, even if the server repeats it. Silence is
/// the transport's and the harness's to end, except behind a complete answer: its usage and end mark may take
/// five seconds. Dropping the stream closes the connection.
///
/// ```
/// use nervekit_harness::{HttpRequest, HttpResponse, ModelInfo, OpenAiChat, ProviderError, Transport};
///
/// #[derive(Debug)]
/// struct Nowhere;
///
/// #[async_trait::async_trait]
/// impl Transport for Nowhere {
///     async fn send(&self, request: HttpRequest) -> Result<HttpResponse, ProviderError> {
///         Err(ProviderError::new(nervekit_harness::ProviderErrorKind::Network, request.url))
///     }
/// }
///
/// let model = OpenAiChat::new(ModelInfo::new("openai", "gpt-5"), "https://api.openai.com/v1", Nowhere)
///     .credential("OPENAI_API_KEY");
/// # let _: &dyn nervekit_harness::Model = &model;
/// ```
#[derive(Clone, Debug)]
pub struct OpenAiChat {
    info: ModelInfo,
    endpoint: Arc<Endpoint>,
}

#[derive(Clone)]
struct Endpoint {
    url: String,
    options: ChatOptions,
    headers: Vec<(String, Secret)>,
    transport: Arc<dyn Transport>,
    credentials: Arc<dyn Credentials>,
    credential: Option<String>,
    clock: Arc<dyn Clock>,
}

impl OpenAiChat {
    /// A model at this address, without a credential, with the options that the address suggests.
    #[must_use]
    pub fn new(info: ModelInfo, base_url: &str, transport: impl Transport) -> Self {
        let endpoint = Endpoint {
            url: format!("{}/chat/completions", base_url.trim_end_matches('/')),
            options: ChatOptions::for_base_url(base_url),
            headers: Vec::new(),
            transport: Arc::new(transport),
            credentials: Arc::new(EnvironmentCredentials),
            credential: None,
            clock: Arc::new(SystemClock),
        };
        Self { info, endpoint: Arc::new(endpoint) }
    }

    /// Sets the name of the secret to send.
    #[must_use]
    pub fn credential(mut self, name: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.endpoint).credential = Some(name.into());
        self
    }

    /// Sets where the secret comes from; the environment if nowhere else.
    #[must_use]
    pub fn credentials(mut self, credentials: impl Credentials) -> Self {
        Arc::make_mut(&mut self.endpoint).credentials = Arc::new(credentials);
        self
    }

    /// Sets in what the server differs from OpenAI's own.
    #[must_use]
    pub fn options(mut self, options: ChatOptions) -> Self {
        Arc::make_mut(&mut self.endpoint).options = options;
        self
    }

    /// Adds a header to every request.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Box<str>>) -> Self {
        Arc::make_mut(&mut self.endpoint).headers.push((name.into(), Secret::new(value)));
        self
    }

    /// Sets the clock that a `Retry-After` date is compared with.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        Arc::make_mut(&mut self.endpoint).clock = Arc::new(clock);
        self
    }
}

impl Model for OpenAiChat {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ModelRequest>) -> ModelStream {
        let (endpoint, info) = (Arc::clone(&self.endpoint), self.info.clone());
        stream::once(async move {
            match endpoint.open(&request, &info).await {
                Ok(response) => read(response, Decoder::new(&info)).left_stream(),
                Err(error) => stream::iter([Err(error)]).right_stream(),
            }
        })
        .flatten()
        .boxed()
    }
}

impl Endpoint {
    /// Sends the request and returns a response that begins an answer.
    async fn open(&self, request: &ModelRequest, info: &ModelInfo) -> Result<HttpResponse, ProviderError> {
        let secret = match &self.credential {
            Some(name) => Some(self.credentials.secret(name).await?.ok_or_else(|| {
                let message =
                    format!("there is no credential `{name}`; set it for the provider `{}`", info.provider);
                ProviderError::new(ProviderErrorKind::Authentication, message)
            })?),
            None => None,
        };
        let body = encode(request, info, &self.options).to_string();
        let mut http = HttpRequest::post(&*self.url, body)
            .header("content-type", Secret::new("application/json"))
            .header("accept", Secret::new("text/event-stream"));
        if let Some(secret) = &secret {
            http = http.header("authorization", Secret::new(format!("Bearer {}", secret.expose())));
        }
        for (name, value) in &self.headers {
            http = http.header(&**name, value.clone());
        }
        let mut response = self.transport.send(http).await?;
        if response.status != 200 {
            let body = error_body(&mut response).await;
            // A server that repeats the key must not carry it into logs.
            let body = match &secret {
                Some(secret) if !secret.expose().is_empty() => body.replace(secret.expose(), "…"),
                _ => body,
            };
            return Err(classify(response.status, &response.headers, &body, self.clock.now()));
        }
        match response.get("content-encoding").filter(|encoding| *encoding != "identity") {
            None => Ok(response),
            Some(encoding) => {
                let message = format!("the answer is compressed with `{encoding}`, which was not asked for");
                Err(ProviderError::protocol(message).with_status(200))
            }
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.url)
            .field("options", &self.options)
            .field("credential", &self.credential)
            .finish_non_exhaustive()
    }
}

/// As much of an error's body as comes in time.
async fn error_body(response: &mut HttpResponse) -> String {
    let mut body = Vec::new();
    let reading = async {
        while let Some(Ok(bytes)) = response.body.next().await {
            let room = LONGEST_ERROR.saturating_sub(body.len());
            body.extend(bytes.into_iter().take(room));
            if body.len() >= LONGEST_ERROR {
                break;
            }
        }
    };
    // What came before the time was up is better than nothing.
    let _ = timeout(ERROR_TIMEOUT, reading).await;
    String::from_utf8_lossy(&body).into_owned()
}

/// Decodes the body of an answer.
fn read(
    response: HttpResponse,
    decoder: Decoder,
) -> impl futures_core::Stream<Item = Result<ModelEvent, ProviderError>> + Send + 'static {
    let reading = Reading { response, decoder, ready: VecDeque::new(), closed: false };
    stream::unfold(reading, |mut reading| async {
        while reading.ready.is_empty() {
            if reading.closed {
                return None;
            }
            reading.more().await;
        }
        let event = reading.ready.pop_front()?;
        Some((event, reading))
    })
}

struct Reading {
    response: HttpResponse,
    decoder: Decoder,
    ready: VecDeque<Result<ModelEvent, ProviderError>>,
    closed: bool,
}

impl Reading {
    async fn more(&mut self) {
        let next = self.response.body.next();
        let bytes = if self.decoder.is_complete() {
            // The answer is there; a connection that stays open or breaks now does not take it away.
            timeout(PATIENCE, next).await.ok().flatten().and_then(Result::ok).map(Ok)
        } else {
            next.await
        };
        match bytes {
            Some(Ok(bytes)) => self.ready.extend(self.decoder.push(&bytes)),
            Some(Err(error)) => {
                self.closed = true;
                self.ready.push_back(Err(error));
            }
            None => {
                self.closed = true;
                self.ready.extend(self.decoder.finish());
            }
        }
        let ended =
            |item: &Result<ModelEvent, ProviderError>| item.as_ref().map_or(true, ModelEvent::is_last);
        self.closed |= self.ready.back().is_some_and(ended);
    }
}
