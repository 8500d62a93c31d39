//! A web service: conversations in a browser. The whole API is one JSON route; what happens comes as server-sent
//! events from a cursor, so that a reload, a second tab and a restarted server all go on with the same text.
//!
//! Shows: commands and queries as data, a page that follows (`web_service/page.js`), approvals that are bound to what
//! was shown, and what a server on the loopback address needs so that the pages of others cannot use it. With the
//! model `demo` (the default) it needs no network.
//!
//! Exit codes: 0 stopped by Ctrl-C or SIGTERM, 1 failed, 2 wrong use.

use std::convert::Infallible;
use std::error::Error;
use std::ffi::OsString;
use std::future::ready;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Json, Path, Query as Parameters, Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Router, serve::ListenerExt as _};
use futures_util::{Stream, StreamExt as _, stream};
use nervekit::conversation::{CommandError, CommandRequest, NewConversation, Query, QueryError};
use nervekit::types::{ConversationId, Digest, Entropy as _, Principal, Secret, SystemEntropy};
use nervekit::{Cursor, Host, Update};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const HELP: &str = "\
usage: web_service [OPTIONS]

  --port PORT            where to listen on the loopback address (default 0: any)
  --project DIR          the folder to work in (default: the current one)
  --home DIR             where conversations are kept (default: $NERVE_HOME, else ~/.nerve)
  --model ID             `demo` (default), or `provider/id` such as `openai/gpt-5` or `ollama/qwen3`
  --pace MILLISECONDS    how long `demo` waits between words (default: 15)

The first line that it prints is the address to open. It holds the secret of the session.
";

/// How long the host is given to record what runs when it leaves.
const LEAVE: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Options {
    port: u16,
    project: PathBuf,
    home: Option<PathBuf>,
    model: String,
    pace: Duration,
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Options, String> {
    let mut options = Options {
        port: 0,
        project: ".".into(),
        home: None,
        model: "demo".to_owned(),
        pace: Duration::from_millis(15),
    };
    let text = |argument: OsString| {
        argument.into_string().map_err(|argument| format!("`{}` is not Unicode", argument.display()))
    };
    while let Some(flag) = arguments.next().map(text).transpose()? {
        let mut value = || arguments.next().ok_or_else(|| format!("`{flag}` needs a value"));
        let wrong = |error: std::num::ParseIntError| format!("`{flag}`: {error}");
        match flag.as_str() {
            "--port" => options.port = text(value()?)?.parse().map_err(wrong)?,
            "--project" => options.project = value()?.into(),
            "--home" => options.home = Some(value()?.into()),
            "--model" => options.model = text(value()?)?,
            "--pace" => options.pace = Duration::from_millis(text(value()?)?.parse().map_err(wrong)?),
            "--help" | "-h" => return Err(String::new()),
            _ => return Err(format!("`{flag}` is not an option")),
        }
    }
    Ok(options)
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = match parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(problem) if problem.is_empty() => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("{problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
    // A server that takes over from another one waits until that one has left.
    let mut builder = Host::local().project(options.project).lock_wait(LEAVE);
    builder = match options.model.as_str() {
        "demo" => builder.model(nervekit::demo::DemoModel::new().pace(options.pace)),
        model => builder.model(model),
    };
    if let Some(home) = options.home {
        builder = builder.home(home);
    }
    let host = builder.open().await?;
    let secret = session_secret(&host)?;
    let service = Service::new(host, listener.local_addr()?.port(), secret);
    // A closed pipe is no reason not to serve.
    let _ = writeln!(std::io::stdout(), "{}", service.entrance());
    Ok(service.serve(listener, interrupted()).await?)
}

/// Waits for Ctrl-C or, where there is such a thing, SIGTERM.
async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! { _ = terminate.recv() => {}, _ = tokio::signal::ctrl_c() => {} }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

/// The secret of the sessions. It outlives the process, so that an open page goes on when the server comes back; it
/// lies beside the conversations, where the rules let no tool look unless a person approves it.
fn session_secret(host: &Host) -> std::io::Result<Secret> {
    let folder = host.home().ok_or(std::io::ErrorKind::NotFound)?.join("data");
    let file = folder.join("web_service.secret");
    if let Ok(secret) = std::fs::read_to_string(&file)
        && secret.len() == 64
    {
        return Ok(Secret::new(secret));
    }
    let mut halves = [[0; 16]; 2];
    for half in &mut halves {
        SystemEntropy.fill(half);
    }
    let secret = halves.map(|half| format!("{:032x}", u128::from_ne_bytes(half))).concat();
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(secret.as_bytes())?;
    Ok(Secret::new(secret))
}

/// A host, and what a request must show to reach it.
#[derive(Debug)]
pub struct Service {
    host: Host,
    port: u16,
    secret: Secret,
}

impl Service {
    /// Offers a host on this port to whoever has the secret.
    pub fn new(host: Host, port: u16, secret: Secret) -> Self {
        Self { host, port, secret }
    }

    /// The address that begins a session.
    pub fn entrance(&self) -> String {
        format!("http://127.0.0.1:{}/enter/{}", self.port, self.secret.expose())
    }

    /// Serves until `stop`, then lets the host record what runs. Streams of updates end with the host.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> std::io::Result<()> {
        let host = self.host.clone();
        let left = async move {
            stop.await;
            host.shutdown(LEAVE).await;
        };
        // Words are sent as they come, not collected into packets.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        axum::serve(listener, self.router()).with_graceful_shutdown(left).await
    }

    fn router(self) -> Router {
        let service = Arc::new(self);
        let (css, script) = ([(CONTENT_TYPE, "text/css")], [(CONTENT_TYPE, "text/javascript")]);
        Router::new()
            .route("/", get(Html(include_str!("web_service/page.html"))))
            .route("/page.css", get((css, include_str!("web_service/page.css"))))
            .route("/page.js", get((script, include_str!("web_service/page.js"))))
            .route("/api", post(api))
            .route("/conversations", post(create))
            .route("/conversations/{id}/updates", get(updates))
            .route_layer(from_fn_with_state(service.clone(), session))
            .route("/enter/{secret}", get(enter))
            .layer(from_fn_with_state(service.clone(), same_origin))
            .with_state(service)
    }

    /// The cookie of the session. Cookies go to all ports of a host: each server has a name of its own here, and
    /// whoever visits a server of somebody else on this machine shows it this one, too. A service for more than the
    /// person at the machine has TLS and a host name of its own.
    fn cookie(&self) -> String {
        format!("nervekit-{}", self.port)
    }

    /// Compares digests, so that the time it takes tells nothing of the secret.
    fn is_secret(&self, text: &str) -> bool {
        Digest::of(text) == Digest::of(self.secret.expose())
    }

    /// Why a request cannot come from our own page, if so.
    fn foreign(&self, method: &Method, headers: &HeaderMap) -> Option<&'static str> {
        let header = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        // The name of somebody else that leads to this address would make their page ours (DNS rebinding).
        let host = header(HOST).unwrap_or_default();
        if host != format!("127.0.0.1:{}", self.port) && host != format!("localhost:{}", self.port) {
            return Some("this host is not served here");
        }
        match header(ORIGIN) {
            Some(origin) if origin.strip_prefix("http://") == Some(host) => {}
            None if method == Method::GET => {}
            _ => return Some("requests of other origins are not answered"),
        }
        // Sent by browsers: another port of this machine is another origin but the same site, which cookies go by.
        match header(HeaderName::from_static("sec-fetch-site")) {
            None | Some("same-origin" | "none") => None,
            Some(_) => Some("requests of other sites are not answered"),
        }
    }
}

const HEADERS: [(HeaderName, &str); 6] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    ),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    (HeaderName::from_static("referrer-policy"), "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cache-control"), "no-store"),
];

/// Lets through what comes from our own page or from the address bar, and guards what goes out.
async fn same_origin(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let mut response = match service.foreign(request.method(), request.headers()) {
        Some(reason) => Refusal::new(StatusCode::FORBIDDEN, reason).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Lets through whoever has entered.
async fn session(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let name = service.cookie();
    let cookies = request.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    if !pairs.any(|(cookie, value)| cookie == name && service.is_secret(value)) {
        let words = "open the address that the server printed when it started";
        return Refusal::new(StatusCode::UNAUTHORIZED, words).into_response();
    }
    next.run(request).await
}

/// Begins a session; the redirect takes the secret out of the address bar.
async fn enter(State(service): State<Arc<Service>>, Path(secret): Path<String>) -> Response {
    if !service.is_secret(&secret) {
        return Refusal::new(StatusCode::UNAUTHORIZED, "this is not the secret").into_response();
    }
    let cookie = format!("{}={secret}; Path=/; HttpOnly; SameSite=Strict", service.cookie());
    ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Call {
    Command(CommandRequest),
    Query(Query),
}

/// The whole API. Who gives a command is what the session says, not the body; a service of many users would also
/// look here at what each of them may do.
async fn api(State(service): State<Arc<Service>>, Json(call): Json<Call>) -> Result<Response, Refusal> {
    let api = service.host.api();
    Ok(match call {
        Call::Command(request) => {
            Json(api.command(request.principal(Principal::local())).await?).into_response()
        }
        Call::Query(query) => Json(api.query(query).await?).into_response(),
    })
}

#[derive(Deserialize)]
struct Start {
    title: String,
}

/// Creates a conversation with the settings of the host.
async fn create(
    State(service): State<Arc<Service>>,
    Json(start): Json<Start>,
) -> Result<Json<Value>, Refusal> {
    let project = service.host.project();
    let new = NewConversation::new(project.id(), service.host.config().clone()).title(start.title);
    let conversation = project.create_conversation(new).await?;
    Ok(Json(json!({ "conversation_id": conversation.id() })))
}

#[derive(Deserialize)]
struct Place {
    #[serde(default)]
    after: Cursor,
}

/// What happens in a conversation, from a place on: the page names it first; a browser that reconnects by itself
/// sends the last one it saw.
async fn updates(
    State(service): State<Arc<Service>>,
    Path(id): Path<ConversationId>,
    Parameters(place): Parameters<Place>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refusal> {
    let after = match headers.get("last-event-id") {
        Some(last) => last.to_str().unwrap_or_default().parse()?,
        None => place.after,
    };
    let updates = service.host.conversation(id).follow(after).await?;
    // An error ends the stream, and the browser asks again from where it was.
    let events = updates.filter_map(|update| ready(update.ok())).filter_map(|update| {
        let event = match &update {
            Update::Event { cursor, .. } => Event::default().id(cursor.to_string()),
            _ => Event::default(),
        };
        ready(event.json_data(&update).ok())
    });
    let reconnect = Event::default().retry(Duration::from_millis(500));
    let events = stream::once(ready(reconnect)).chain(events).map(Ok);
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// Why a request is not answered: a status, and words with whatever a page needs to go on.
#[derive(Debug)]
struct Refusal(StatusCode, Value);

impl Refusal {
    fn new(status: StatusCode, words: &str) -> Self {
        Self(status, json!({ "error": words }))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

impl From<CommandError> for Refusal {
    fn from(error: CommandError) -> Self {
        let status = StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let words = error.to_string();
        Self(
            status,
            match error {
                CommandError::Stale { current } => json!({ "error": words, "current": current }),
                CommandError::Resolved { by } => json!({ "error": words, "resolved": by }),
                _ => json!({ "error": words }),
            },
        )
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        let status = StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self::new(status, &error.to_string())
    }
}
