//! The example `web_service` over HTTP, as a page or a stranger speaks to it. What takes a browser is in
//! `system-tests`.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nervekit::Host;
use nervekit::harness::{ScriptedModel, ScriptedReply};
use nervekit::types::{CommandId, ConversationId, Digest, InputId};
use reqwest::header::{CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// How long anything may take before a test gives up.
const DEADLINE: Duration = Duration::from_secs(60);

/// The example, which cargo builds beside the tests.
fn binary() -> PathBuf {
    let target = std::env::current_exe().unwrap();
    let built = target.parent().and_then(Path::parent).unwrap().join("examples/web_service");
    let hint = "`cargo build --example web_service --features demo` makes it, and so does a run of all tests";
    assert!(built.exists(), "`{}` is missing: {hint}", built.display());
    built
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

/// A server over a project and a home of its own.
struct Server {
    ground: tempfile::TempDir,
    process: Child,
    port: u16,
    secret: String,
    client: Client,
}

impl Server {
    async fn start(arguments: &[&str]) -> Self {
        let ground = tempfile::tempdir().unwrap();
        std::fs::create_dir(ground.path().join("project")).unwrap();
        std::fs::write(ground.path().join("project/README.md"), "# A project\n\nTODO: say what it is\n")
            .unwrap();
        let (process, port, secret) = Self::spawn(ground.path(), arguments).await;
        // Redirects and cookies are what is tested; nothing follows them by itself.
        let client =
            Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
        Self { ground, process, port, secret, client }
    }

    async fn spawn(ground: &Path, arguments: &[&str]) -> (Child, u16, String) {
        let mut process = Command::new(binary())
            .arg("--project")
            .arg(ground.join("project"))
            .arg("--home")
            .arg(ground.join("home"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let entrance = soon("the address", lines.next_line()).await.unwrap().unwrap();
        let rest = entrance.strip_prefix("http://127.0.0.1:").unwrap();
        let (port, secret) = rest.split_once("/enter/").unwrap();
        (process, port.parse().unwrap(), secret.to_owned())
    }

    /// Kills it with SIGKILL, and starts it again at the same address.
    async fn kill_and_start_again(&mut self) {
        self.process.kill().await.unwrap();
        let port = self.port.to_string();
        let (process, _, secret) = Self::spawn(self.ground.path(), &["--port", &port, "--pace", "0"]).await;
        self.process = process;
        assert_eq!(secret, self.secret, "an open page would be shut out");
    }

    async fn terminate(&mut self) -> ExitStatus {
        let id = self.process.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
        soon("the end", self.process.wait()).await.unwrap()
    }

    fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn cookie(&self) -> String {
        format!("nervekit-{}={}", self.port, self.secret)
    }

    /// A request without a session.
    fn bare(&self, method: &str, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.origin());
        let request = self.client.request(method.parse().unwrap(), url);
        if method == "GET" {
            return request;
        }
        let request = request.header(CONTENT_TYPE, "application/json").header(ORIGIN, self.origin());
        request.body(json!({ "query": "conversations" }).to_string())
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = self.bare("POST", path).header(COOKIE, self.cookie()).body(body.to_string());
        let response = soon("an answer", request.send()).await.unwrap();
        let status = response.status();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
    }

    async fn command(&self, id: CommandId, command: &Value) -> (StatusCode, Value) {
        self.post("/api", &json!({ "id": id, "command": command })).await
    }

    async fn query(&self, query: &Value) -> Value {
        let (status, mut view) = self.post("/api", query).await;
        assert_eq!(status, 200, "{view}");
        view["value"].take()
    }

    async fn converse(&self, key: &str, text: &str) -> ConversationId {
        let (status, created) = self.post("/conversations", &json!({ "title": text })).await;
        assert_eq!(status, 200, "{created}");
        let id: ConversationId = created["conversation_id"].as_str().unwrap().parse().unwrap();
        let (status, receipt) = self.submit(id, key, text).await;
        assert_eq!((status, &receipt["outcome"]["outcome"]), (StatusCode::OK, &json!("input_accepted")));
        id
    }

    async fn submit(&self, id: ConversationId, key: &str, text: &str) -> (StatusCode, Value) {
        let input = json!({ "id": InputId::from_key(key), "text": text });
        let submit = json!({ "command": "submit", "conversation_id": id, "input": input });
        self.command(CommandId::from_key(&format!("{key}: {text}")), &submit).await
    }

    async fn resolve(&self, key: &str, request: &Value, resolution: Value) -> (StatusCode, Value) {
        let mut resolve = json!({
            "command": "resolve",
            "conversation_id": request["conversation_id"],
            "interaction_id": request["id"],
        });
        resolve["resolution"] = resolution;
        self.command(CommandId::from_key(key), &resolve).await
    }

    async fn follow(&self, id: ConversationId, after: u64, last: Option<u64>) -> Stream {
        let mut request = self.bare("GET", &format!("/conversations/{id}/updates?after={after}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = soon("a stream", request.header(COOKIE, self.cookie()).send()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        Stream { response, buffer: Vec::new(), last: None }
    }
}

/// Server-sent events, as a browser reads them.
struct Stream {
    response: Response,
    buffer: Vec<u8>,
    last: Option<u64>,
}

impl Stream {
    /// The next update; none when the stream has ended.
    async fn next(&mut self) -> Option<Value> {
        soon("an update", self.read()).await
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|bytes| bytes == b"\n\n") {
                let frame: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let frame = String::from_utf8(frame).unwrap();
                if let Some(id) = frame.lines().find_map(|line| line.strip_prefix("id: ")) {
                    self.last = Some(id.parse().unwrap());
                }
                if let Some(data) = frame.lines().find_map(|line| line.strip_prefix("data: ")) {
                    return Some(serde_json::from_str(data).unwrap());
                }
                continue;
            }
            // A server that is killed does not finish its answer.
            self.buffer.extend_from_slice(&self.response.chunk().await.ok().flatten()?);
        }
    }

    async fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let find = async {
            loop {
                let update = self.next().await.unwrap_or_else(|| panic!("the stream ended before {what}"));
                if wanted(&update) {
                    return update;
                }
            }
        };
        soon(what, find).await
    }

    /// The next request to a person.
    async fn asked(&mut self) -> Value {
        self.until("a request", |update| update["update"] == "interaction").await
    }
}

/// What a page shows of the answers: what came in pieces, and what the durable messages say.
#[derive(Debug, Default, PartialEq)]
struct Shown {
    pieces: BTreeMap<(String, u64), String>,
    messages: BTreeMap<(String, u64), String>,
}

impl Shown {
    /// Shows updates until there is nothing to do any more.
    async fn follow(&mut self, updates: &mut Stream, mut each: impl AsyncFnMut(&Value)) {
        while let Some(update) = updates.next().await {
            if update["update"] == "text" {
                let key = (text(&update["turn_id"]), update["block"].as_u64().unwrap());
                let piece = self.pieces.entry(key).or_default();
                assert_eq!(update["offset"], piece.len(), "a gap");
                piece.push_str(update["delta"].as_str().unwrap());
            }
            self.event(&update["event"]);
            each(&update).await;
            if update["conversation"]["status"] == "idle" && update["queue"] == json!([]) {
                return;
            }
        }
        panic!("the stream ended");
    }

    fn event(&mut self, event: &Value) {
        if event["payload"]["type"] == "assistant_message" {
            let blocks = event["payload"]["message"]["content"].as_array().unwrap();
            for (at, block) in (0..).zip(blocks).filter(|(_, block)| block["type"] == "text") {
                self.messages.insert((text(&event["turn_id"]), at), text(&block["text"]));
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn without_the_secret_nothing_is_answered() {
    let server = Server::start(&[]).await;
    let id = ConversationId::from_key("any");
    let updates = format!("/conversations/{id}/updates");
    let routes = [
        ("GET", "/"),
        ("GET", "/page.js"),
        ("GET", "/page.css"),
        ("GET", &updates),
        ("POST", "/api"),
        ("POST", "/conversations"),
    ];
    let wrong = format!("nervekit-{}={}", server.port, "0".repeat(64));
    let renamed = format!("other={}", server.secret);
    for (method, path) in routes {
        for cookie in [None, Some(&wrong), Some(&renamed)] {
            let mut request = server.bare(method, path);
            if let Some(cookie) = cookie {
                request = request.header(COOKIE, cookie);
            }
            let response = soon("an answer", request.send()).await.unwrap();
            assert_eq!(response.status(), 401, "{method} {path} {cookie:?}");
            assert!(
                response.headers()["content-security-policy"]
                    .to_str()
                    .unwrap()
                    .contains("default-src 'none'")
            );
            assert!(response.text().await.unwrap().contains("the server printed"));
        }
    }
    let refused = server.bare("GET", &format!("/enter/{}", "0".repeat(64))).send().await.unwrap();
    assert_eq!((refused.status(), refused.headers().get("set-cookie")), (StatusCode::UNAUTHORIZED, None));

    let entered = server.bare("GET", &format!("/enter/{}", server.secret)).send().await.unwrap();
    assert_eq!(
        (entered.status(), &entered.headers()["location"]),
        (StatusCode::SEE_OTHER, &"/".parse().unwrap())
    );
    let cookie = entered.headers()["set-cookie"].to_str().unwrap();
    assert_eq!(cookie, format!("{}; Path=/; HttpOnly; SameSite=Strict", server.cookie()));
    let others = format!("a=b; {}; c", server.cookie());
    let page = server.bare("GET", "/").header(COOKIE, others).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert!(page.text().await.unwrap().starts_with("<!doctype html>"));
}

#[tokio::test]
async fn other_origins_sites_and_hosts_are_refused() {
    let server = Server::start(&[]).await;
    let own = server.origin();
    let local = format!("localhost:{}", server.port);
    let at_local = format!("http://{local}");
    // Whoever sends them, these come with the session: it is the browser that adds it.
    let cases = [
        ("POST", &[("origin", &*own)][..], 200),
        ("POST", &[("host", &*local), ("origin", &*at_local)], 200),
        ("POST", &[("origin", &*own), ("sec-fetch-site", "same-origin")], 200),
        ("GET", &[("sec-fetch-site", "none")], 200),
        ("POST", &[], 403),
        ("POST", &[("origin", "null")], 403),
        ("POST", &[("origin", "http://evil.test")], 403),
        ("POST", &[("origin", "http://127.0.0.1:1")], 403),
        ("POST", &[("origin", &*at_local)], 403),
        ("GET", &[("origin", "http://evil.test")], 403),
        ("GET", &[("sec-fetch-site", "cross-site")], 403),
        ("GET", &[("sec-fetch-site", "same-site")], 403),
        ("GET", &[("host", "evil.test")], 403),
        ("POST", &[("host", "evil.test:80"), ("origin", "http://evil.test:80")], 403),
    ];
    for (method, headers, wanted) in cases {
        let path = if method == "GET" { "/" } else { "/api" };
        let mut request = server.client.request(method.parse().unwrap(), format!("{own}{path}"));
        request = request.header(COOKIE, server.cookie()).header(CONTENT_TYPE, "application/json");
        if method == "POST" {
            request = request.body(json!({ "query": "conversations" }).to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = soon("an answer", request.send()).await.unwrap();
        assert_eq!(response.status(), wanted, "{method} {headers:?}");
    }
    // Not even the entrance, under the name of somebody else.
    let enter = server.bare("GET", &format!("/enter/{}", server.secret)).header(HOST, "evil.test");
    let response = enter.send().await.unwrap();
    assert_eq!((response.status(), response.headers().get("set-cookie")), (StatusCode::FORBIDDEN, None));
    // A form of another page can send this type, but not the one that is taken here.
    let plain = server.bare("POST", "/api").header(COOKIE, server.cookie());
    let mut plain = plain.build().unwrap();
    plain.headers_mut().insert(CONTENT_TYPE, "text/plain".parse().unwrap());
    assert_eq!(server.client.execute(plain).await.unwrap().status(), 415);
}

#[tokio::test]
async fn a_reload_at_any_moment_of_an_answer_reads_the_same_bytes() {
    let server = Server::start(&["--pace", "3"]).await;
    // How many reloads fall into the middle of one answer depends on how busy the machine is.
    let mut in_the_middle = 0;
    for answer in 1.. {
        in_the_middle += reloads_in_an_answer(&server, &format!("reload-{answer}")).await;
        if in_the_middle > 5 {
            return;
        }
        assert!(answer < 50, "{in_the_middle}");
    }
}

/// Reloads at each piece of text of an answer, as the page does it, and compares all that is shown. Returns how many
/// reloads found the answer begun.
async fn reloads_in_an_answer(server: &Server, key: &str) -> usize {
    let id = server.converse(key, "Which files are there?").await;
    let snapshot = json!({ "query": "snapshot", "conversation_id": id });
    let history = json!({ "query": "history", "conversation_id": id });
    let mut updates = server.follow(id, 0, None).await;
    let (mut whole, mut reloads) = (Shown::default(), Vec::new());
    let reload = async |update: &Value| {
        if update["update"] != "text" {
            return;
        }
        let cursor = server.query(&snapshot).await["cursor"].as_u64().unwrap();
        let mut shown = Shown::default();
        for event in server.query(&history).await["events"].as_array().unwrap() {
            shown.event(event);
        }
        reloads.push((shown, server.follow(id, cursor, None).await));
    };
    whole.follow(&mut updates, reload).await;
    assert_eq!(whole.pieces, whole.messages);
    assert!(whole.messages.len() == 2 && !reloads.is_empty(), "{} reloads: {whole:?}", reloads.len());
    let mut in_the_middle = 0;
    for (mut shown, mut updates) in reloads {
        shown.follow(&mut updates, async |_| {}).await;
        assert_eq!(shown.messages, whole.messages);
        for (key, text) in &shown.pieces {
            assert_eq!(shown.messages.get(key), Some(text));
        }
        in_the_middle += usize::from(!shown.pieces.is_empty());
    }
    in_the_middle
}

#[tokio::test]
async fn an_approval_is_for_what_was_shown_and_is_given_once() {
    let server = Server::start(&["--pace", "0"]).await;
    let id = server.converse("approve", "Write a report.").await;
    let mut updates = server.follow(id, 0, None).await;
    let request = updates.asked().await;
    let inbox = server.query(&json!({ "query": "interactions", "conversation_id": null })).await;
    assert_eq!(inbox[0]["id"], request["id"]);

    let approve = |digest: &Value| json!({ "resolution": "approve", "digest": digest });
    let (status, refused) = server.resolve("1", &request, approve(&json!(Digest::of("another")))).await;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(refused["current"]["id"], request["id"]);
    assert_eq!(refused["current"]["digest"], request["digest"]);
    assert!(!server.ground.path().join("project/NERVE_REPORT.md").exists());

    let (status, receipt) = server.resolve("2", &request, approve(&request["digest"])).await;
    assert_eq!((status, &receipt["outcome"]["outcome"]), (StatusCode::OK, &json!("resolved")), "{receipt}");
    let closed = updates.until("its end", |update| update["update"] == "interaction_closed").await;
    assert_eq!(closed["interaction_id"], request["id"]);
    // The same click that arrives twice is one; the other tab hears who was faster.
    assert_eq!(server.resolve("2", &request, approve(&request["digest"])).await, (status, receipt));
    let (status, refused) = server.resolve("3", &request, json!({ "resolution": "deny" })).await;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(refused["resolved"]["resolution"]["resolution"], "approve");
    updates.asked().await;
    assert!(server.ground.path().join("project/NERVE_REPORT.md").exists());
}

#[tokio::test]
async fn who_gives_a_command_is_not_what_the_body_says() {
    let server = Server::start(&["--pace", "0"]).await;
    let id = server.converse("first", "How many files are there?").await;
    let mut updates = server.follow(id, 0, None).await;
    updates.until("the end", |update| update["update"] == "finished").await;
    let claimed = json!({
        "id": CommandId::from_key("claimed"),
        "principal": { "kind": "person", "name": "somebody else" },
        "command": { "command": "submit", "conversation_id": id, "input": { "id": null, "text": "And now?" } },
    });
    let (status, receipt) = server.post("/api", &claimed).await;
    assert_eq!(status, 200, "{receipt}");
    let said = |update: &Value| update["event"]["payload"]["text"] == "And now?";
    let event = updates.until("the input", said).await;
    assert_eq!(event["event"]["payload"]["submitter"]["name"], "local");
}

#[tokio::test]
async fn an_input_that_is_sent_twice_is_delivered_once() {
    let server = Server::start(&["--pace", "0"]).await;
    let id = server.converse("twice", "How many files are there?").await;
    let mut updates = server.follow(id, 0, None).await;
    updates.until("the end", |update| update["update"] == "finished").await;
    let (status, again) = server.submit(id, "twice", "How many files are there?").await;
    assert_eq!(status, 200, "{again}");
    let (status, other) = server.submit(id, "twice", "Something else").await;
    assert_eq!(status, 409, "{other}");
    let history = server.query(&json!({ "query": "history", "conversation_id": id })).await;
    let events = history["events"].as_array().unwrap();
    assert_eq!(events.iter().filter(|event| event["payload"]["type"] == "user_message").count(), 1);
}

#[tokio::test]
async fn killed_and_started_again_it_asks_again_and_goes_on_from_the_last_event() {
    let mut server = Server::start(&["--pace", "0"]).await;
    let id = server.converse("kill", "Write a report.").await;
    let mut updates = server.follow(id, 0, None).await;
    let asked = updates.asked().await;
    let last = updates.last.unwrap();
    server.kill_and_start_again().await;
    while let Some(update) = updates.next().await {
        assert_ne!(update["update"], "event", "{update}");
    }

    // What a browser does by itself: the same address, with the last id it saw.
    let mut updates = server.follow(id, 0, Some(last)).await;
    let again = loop {
        let update = updates.next().await.unwrap();
        if update["update"] == "event" {
            assert!(update["event"]["sequence"].as_u64().unwrap() >= last, "{update}");
        }
        if update["update"] == "interaction" {
            break update;
        }
    };
    assert_eq!((&again["id"], &again["digest"]), (&asked["id"], &asked["digest"]));
    let approve = json!({ "resolution": "approve", "digest": again["digest"] });
    assert_eq!(server.resolve("approve", &again, approve).await.0, 200);
    let question = updates.asked().await;
    assert_eq!(question["kind"]["kind"], "question");
    let report = server.ground.path().join("project/NERVE_REPORT.md");
    assert!(std::fs::read_to_string(report).unwrap().contains("Files: 1"));
}

#[tokio::test]
async fn told_to_end_it_ends_its_streams_and_leaves() {
    let mut server = Server::start(&["--pace", "50"]).await;
    let id = server.converse("end", "How many files are there?").await;
    let mut updates = server.follow(id, 0, None).await;
    updates.until("some text", |update| update["update"] == "text").await;
    let status = server.terminate().await;
    assert_eq!(status.code(), Some(0));
    while updates.next().await.is_some() {}
}

#[tokio::test]
async fn the_secret_is_kept_from_the_agent_and_from_other_users() {
    let mut server = Server::start(&[]).await;
    let home = server.ground.path().join("home");
    let file = home.join("data/web_service.secret");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), server.secret);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    server.terminate().await;

    let read = ScriptedReply::call_tool("read", json!({ "path": file }));
    let model = ScriptedModel::new([read, ScriptedReply::text("I may not.")]);
    let project = server.ground.path().join("project");
    let host = Host::local().home(home).project(project).model(model).rule_set("autonomous").unattended();
    let host = host.open().await.unwrap();
    let outcome = host.ask("Read the secret.").await.unwrap();
    assert_eq!(outcome.denied.len(), 1, "{outcome:?}");
    host.shutdown(DEADLINE).await;
}

#[tokio::test]
async fn wrong_use_is_told() {
    for (arguments, word) in [
        (&["--bogus"][..], "`--bogus` is not an option"),
        (&["--port"], "`--port` needs a value"),
        (&["--port", "99999"], "`--port`: "),
        (&["--pace", "fast"], "`--pace`: "),
    ] {
        let output = Command::new(binary()).args(arguments).output().await.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(word) && error.contains("usage: "), "{error}");
    }
    let output = Command::new(binary()).arg("--help").output().await.unwrap();
    assert!(output.status.success() && String::from_utf8(output.stdout).unwrap().contains("--project DIR"));
}
