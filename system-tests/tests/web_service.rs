//! The page of the example `web_service` in headless Chromium: tabs, reloads, a killed server, hostile text, and
//! pages of others.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "support/chromium.rs"]
mod chromium;
#[path = "../../examples/web_service.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example, of which its server is used here")]
mod web_service;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use chromium::{Browser, Tab};
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use nervekit::harness::{
    AssistantMessage, Model, ModelEvent, ModelInfo, ModelRequest, ProviderError, ScriptedModel, ScriptedReply,
};
use nervekit::types::Secret;
use nervekit::{Conversation, Host};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use web_service::Service;

/// Connections between a browser and a server, until they are cut.
async fn wire(near: TcpListener, far: SocketAddr, cut: Arc<Notify>) {
    while let Ok((mut browser, _)) = near.accept().await {
        let cut = cut.clone();
        tokio::spawn(async move {
            let mut server = TcpStream::connect(far).await.unwrap();
            tokio::select! {
                () = cut.notified() => {}
                _ = copy_bidirectional(&mut browser, &mut server) => {}
            }
        });
    }
}

/// The example's server over a model of the test's, in this process, behind a wire.
struct Server {
    runtime: Runtime,
    host: Host,
    entrance: String,
    cut: Arc<Notify>,
    project: tempfile::TempDir,
}

impl Server {
    fn start(model: impl Model) -> Self {
        let runtime = Runtime::new().unwrap();
        let project = tempfile::tempdir().unwrap();
        let cut = Arc::new(Notify::new());
        let (host, entrance) = runtime.block_on(async {
            let host = Host::in_memory().project(project.path()).model(model).open().await.unwrap();
            let near = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let far = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let port = near.local_addr().unwrap().port();
            tokio::spawn(wire(near, far.local_addr().unwrap(), cut.clone()));
            let service = Service::new(host.clone(), port, Secret::new("5ec4e7"));
            let entrance = service.entrance();
            tokio::spawn(service.serve(far, std::future::pending()));
            (host, entrance)
        });
        Self { runtime, host, entrance, cut, project }
    }

    fn converse(&self, text: &str) -> Conversation {
        self.runtime.block_on(async {
            let conversation = self.host.create(Some(text.to_owned())).await.unwrap();
            conversation.submit(text).await.unwrap();
            conversation
        })
    }

    fn origin(&self) -> &str {
        self.entrance.split_once("/enter/").unwrap().0
    }

    /// A tab that has entered and shows this conversation.
    fn tab(&self, browser: &mut Browser, conversation: &Conversation) -> Tab {
        let tab = browser.open(&self.entrance);
        browser.evaluate(&tab, &format!("location.hash = '{}'", conversation.id()));
        browser.until(&tab, "document.querySelector('.user')");
        tab
    }
}

/// What a tab shows of the answers.
fn answers(browser: &mut Browser, tab: &Tab) -> String {
    let texts =
        "[...document.querySelectorAll('.assistant .text')].map((block) => block.textContent).join('¶')";
    browser.evaluate(tab, texts).as_str().unwrap().to_owned()
}

fn shows(text: &str) -> String {
    format!("document.body.textContent.includes({})", json!(text))
}

const CLICK: &str =
    "[...document.querySelectorAll('dialog button')].find((button) => button.textContent === ";

/// Presses a button of a request.
fn click(browser: &mut Browser, tab: &Tab, label: &str) {
    browser.until(tab, &format!("{CLICK}'{label}')"));
    browser.evaluate(tab, &format!("{CLICK}'{label}').click()"));
}

/// Answers a request, and waits until it is closed.
fn answer(browser: &mut Browser, tab: &Tab, label: &str) {
    browser.until(tab, &format!("{CLICK}'{label}')"));
    let id = browser.evaluate(tab, "document.querySelector('dialog').id");
    click(browser, tab, label);
    browser.until(tab, &format!("!document.getElementById({id})"));
}

/// A model that says what a test tells it to, when it tells it to.
#[derive(Debug)]
struct Told {
    info: ModelInfo,
    words: Mutex<Option<UnboundedReceiver<&'static str>>>,
}

impl Told {
    fn new() -> (Self, UnboundedSender<&'static str>) {
        let (tell, words) = unbounded_channel();
        (Self { info: ModelInfo::new("test", "told"), words: Mutex::new(Some(words)) }, tell)
    }
}

impl Model for Told {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _request: Arc<ModelRequest>) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
        let words = self.words.lock().unwrap().take().unwrap();
        let told = stream::unfold((words, Some(String::new())), |(mut words, said)| async {
            let mut said = said?;
            let event = match words.recv().await {
                Some(delta) => {
                    said.push_str(delta);
                    ModelEvent::TextDelta { block: 0, delta: delta.to_owned() }
                }
                None => return Some((ModelEvent::Finished(AssistantMessage::text(said)), (words, None))),
            };
            Some((event, (words, Some(said))))
        });
        told.map(Ok).boxed()
    }
}

#[test]
fn two_tabs_a_reload_and_a_lost_connection_in_mid_answer_show_the_same_text() {
    let (model, tell) = Told::new();
    let server = Server::start(model);
    let conversation = server.converse("Tell me something.");
    let mut browser = Browser::start();
    let tabs = [server.tab(&mut browser, &conversation), server.tab(&mut browser, &conversation)];
    // Characters of one to four bytes, combined ones, and spaces that HTML would lose.
    let words = ["Grüße,  ", "日本語 ", "👩‍👩‍👧 ", "e\u{301}\n\n", "\tlast  \n", "⚠️ <b>no</b> &amp; "];
    let mut said = String::new();
    for round in 0..12 {
        let is_cut = round % 4 == 1;
        if is_cut {
            server.cut.notify_waiters();
        }
        let word = words[round % words.len()];
        said.push_str(word);
        tell.send(word).unwrap();
        if is_cut {
            browser.until(&tabs[0], &shows("the server does not answer"));
        } else if round % 3 == 2 {
            browser.reload(&tabs[round % 2]);
        }
        for tab in &tabs {
            let all = format!("document.querySelector('.draft .text')?.textContent === {}", json!(said));
            browser.until(tab, &all);
        }
    }
    drop(tell);
    for tab in &tabs {
        browser.until(tab, "!document.querySelector('.draft') && document.querySelector('.assistant')");
        assert_eq!(answers(&mut browser, tab), said);
    }
    browser.reload(&tabs[0]);
    browser.until(&tabs[0], "document.querySelector('.assistant')");
    assert_eq!(answers(&mut browser, &tabs[0]), said);
    assert!(browser.faults().is_empty(), "{:#?}", browser.faults());
}

#[test]
fn a_request_that_is_answered_in_one_tab_closes_in_the_other() {
    let write = ScriptedReply::call_tool("write", json!({ "path": "a.txt", "content": "one\n" }));
    let server = Server::start(ScriptedModel::new([write, ScriptedReply::text("Written.")]));
    let conversation = server.converse("Write.");
    let mut browser = Browser::start();
    let [first, second] = [(); 2].map(|()| server.tab(&mut browser, &conversation));
    for tab in [&first, &second] {
        browser.until(
            tab,
            "document.querySelectorAll('dialog[open]').length === 1 && document.title.startsWith('(1)')",
        );
        assert_eq!(browser.evaluate(tab, "document.querySelector('nav small').textContent"), "needs you ");
    }
    // A tab that shows what is not asked any more is refused, and shows what is asked now.
    let digest = browser.evaluate(&first, "document.querySelector('dialog').dataset.digest");
    let stale = "{ const send = fetch; \
         window.fetch = (path, request) => { \
             window.fetch = send; \
             const body = request.body.replace(/sha256:[0-9a-f]{64}/, 'sha256:' + '0'.repeat(64)); \
             return send(path, { ...request, body }); }; \
         document.querySelector('dialog').isOld = true }";
    browser.evaluate(&first, stale);
    click(&mut browser, &first, "Approve");
    browser.until(&first, &shows("earlier version of the request"));
    browser.until(&first, "document.querySelector('dialog[open]').isOld === undefined");
    assert_eq!(browser.evaluate(&first, "document.querySelector('dialog').dataset.digest"), digest);
    assert!(!server.project.path().join("a.txt").exists());

    click(&mut browser, &first, "Approve");
    for tab in [&first, &second] {
        browser.until(tab, "!document.querySelector('dialog')");
        browser.until(tab, &shows("write · completed"));
        browser.until(tab, &shows("Written."));
        browser.until(tab, "document.title === 'nervekit'");
    }
    assert_eq!(std::fs::read_to_string(server.project.path().join("a.txt")).unwrap(), "one\n");
}

#[test]
fn what_is_stopped_goes_on_when_it_is_told_to() {
    let hangs = ScriptedReply::new().deltas(["I was about to"]).then_hangs();
    let answers = ["Here I am.", "And here."].map(ScriptedReply::text);
    let server = Server::start(ScriptedModel::new([hangs].into_iter().chain(answers)));
    let conversation = server.converse("Begin.");
    let mut browser = Browser::start();
    let tab = server.tab(&mut browser, &conversation);
    browser.until(&tab, &shows("I was about to"));
    browser.evaluate(&tab, "document.getElementById('stop').click()");
    browser
        .until(&tab, "document.getElementById('stop').hidden && !document.getElementById('continue').hidden");
    browser.until(&tab, &format!("!{} && {}", shows("I was about to"), shows("cancelled")));
    browser.evaluate(&tab, "document.getElementById('continue').click()");
    browser.until(&tab, &shows("Here I am."));
    browser.until(&tab, "document.getElementById('continue').hidden");
    // A new conversation begins with its prompt.
    browser.evaluate(&tab, "location.hash = ''");
    browser.until(&tab, "!document.querySelector('.user')");
    browser.evaluate(&tab, "document.getElementById('text').value = 'Another.'");
    browser.evaluate(&tab, "document.getElementById('prompt').requestSubmit()");
    browser.until(&tab, &shows("And here."));
    browser.until(&tab, "document.querySelectorAll('nav div a').length === 2");
    assert!(browser.faults().is_empty(), "{:#?}", browser.faults());
}

/// The example as a process.
struct Process(Child, String);

impl Process {
    fn start(ground: &Path, port: &str) -> Self {
        let target = std::env::current_exe().unwrap();
        let binary = target.parent().and_then(Path::parent).unwrap().join("examples/web_service");
        let mut process = Command::new(&binary)
            .args(["--port", port, "--pace", "0", "--project"])
            .arg(ground.join("project"))
            .arg("--home")
            .arg(ground.join("home"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("`{}`, which a run of all tests builds: {error}", binary.display())
            });
        let mut entrance = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut entrance).unwrap();
        Self(process, entrance.trim().to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_killed_server_that_comes_back_asks_again_and_the_page_goes_on() {
    let ground = tempfile::tempdir().unwrap();
    let report: PathBuf = ground.path().join("project/NERVE_REPORT.md");
    std::fs::create_dir(ground.path().join("project")).unwrap();
    std::fs::write(ground.path().join("project/README.md"), "TODO: say what it is\n").unwrap();
    let server = Process::start(ground.path(), "0");
    let port = server.1.split(['/', ':']).nth(4).unwrap().to_owned();
    let mut browser = Browser::start();
    let tab = browser.open(&server.1);
    browser.evaluate(&tab, "document.getElementById('text').value = 'Write a report.'");
    browser.evaluate(&tab, "[...document.querySelectorAll('#prompt button')].at(-1).click()");
    browser.until(&tab, "document.querySelector('dialog[open]')");
    let request = "(({ id, dataset }) => id + dataset.digest)(document.querySelector('dialog'))";
    let (asked, shown) = (browser.evaluate(&tab, request), answers(&mut browser, &tab));
    drop(server);
    browser.until(&tab, &shows("the server does not answer"));

    let _server = Process::start(ground.path(), &port);
    browser
        .until(&tab, "document.getElementById('complaint').hidden && document.querySelector('dialog[open]')");
    assert_eq!(browser.evaluate(&tab, request), asked);
    assert_eq!(answers(&mut browser, &tab), shown);
    assert!(!report.exists());
    // The page was not loaded again for that, and goes on to the end.
    for label in ["Approve", "nobody", "Approve", "Approve"] {
        answer(&mut browser, &tab, label);
    }
    browser.until(&tab, &shows("The check ran."));
    assert!(std::fs::read_to_string(report).unwrap().ends_with("Owner of the next step: nobody\n"));
}

/// What a model, a tool, a file or a person may say, and what shows of it.
const HOSTILE: [&str; 5] = [
    "<script>window.owned = 1</script>",
    "<img src=x onerror=\"window.owned = 1\">",
    "</div><svg onload='window.owned = 1'><a href=\"javascript:window.owned = 1\">click</a>",
    "'\"--><iframe srcdoc='<script>parent.owned = 1</script>'></iframe>",
    "${window.owned = 1}{{constructor.constructor('window.owned = 1')()}}",
];
/// Right to left, an isolate, a zero-width space, and a terminal's title and colour.
const INVISIBLE: &str =
    "abc\u{202e}fdp.exe\u{202c}\u{2066}x\u{2069}\u{200b}\u{1b}]0;owned\u{7}\u{1b}[31mred\u{9b}0m\u{8}";
const VISIBLE: &str = "abc\\u{202e}fdp.exe\\u{202c}\\u{2066}x\\u{2069}\\u{200b}\\u{1b}]0;owned\\u{7}\\u{1b}[31mred\\u{9b}0m\\u{8}";

#[test]
fn hostile_text_is_shown_and_not_obeyed() {
    let hostile = format!("{} {INVISIBLE}", HOSTILE.join(" "));
    let lines = format!("{}\n{INVISIBLE}\n", HOSTILE.join("\n"));
    // Split between any two characters: inside of tags, and of escape sequences.
    let split = || hostile.chars().map(String::from).collect::<Vec<_>>();
    let ask =
        json!({ "question": hostile, "context": hostile, "recommendation": hostile, "options": [hostile] });
    let server = Server::start(ScriptedModel::new([
        ScriptedReply::new().thinking(&hostile).deltas(split()).call("ask_user", ask),
        ScriptedReply::new().deltas(split()).call("write", json!({ "path": "a.html", "content": lines })),
        ScriptedReply::new()
            .deltas(split())
            .call("bash", json!({ "command": format!("cat a.html # {hostile}") })),
        ScriptedReply::new().deltas(split()).call(&hostile, json!({ &hostile: hostile })),
        ScriptedReply::text(&hostile),
    ]));
    let conversation = server.converse(&hostile);
    let mut browser = Browser::start();
    let tab = server.tab(&mut browser, &conversation);
    for label in ["Answer", "Approve", "Approve"] {
        browser.until(&tab, &format!("{CLICK}'{label}')"));
        let shown = browser.evaluate(&tab, "document.querySelector('dialog').textContent");
        // Arguments are shown as JSON, in which quotes are escaped.
        let shown = shown.as_str().unwrap().replace("\\\"", "\"");
        assert!(HOSTILE.iter().all(|text| shown.contains(text)), "{shown}");
        harmless(&mut browser, &tab);
        let fill = format!("document.querySelector('dialog input').value = {}", json!(hostile));
        browser.evaluate(&tab, &fill);
        answer(&mut browser, &tab, label);
    }
    browser.until(&tab, "document.querySelectorAll('.assistant:not(.draft)').length === 5");
    browser.until(&tab, "document.getElementById('status').textContent === 'idle'");
    let texts = answers(&mut browser, &tab);
    let wanted = format!("{} {VISIBLE}", HOSTILE.join(" "));
    assert_eq!(texts.split('¶').filter(|text| *text == wanted).count(), 6, "{texts}");
    // The prompt, the title, and what the command printed.
    for place in [".user", "nav [aria-current]"] {
        browser.until(
            &tab,
            &format!("document.querySelector({}).textContent.includes('<script>window')", json!(place)),
        );
    }
    let output = browser.evaluate(&tab, "[...document.querySelectorAll('.card')].find((card) => card.textContent.startsWith('bash')).textContent");
    assert!(HOSTILE.iter().all(|text| output.as_str().unwrap().contains(text)), "{output}");
    // Live, from history, and after a reload.
    harmless(&mut browser, &tab);
    browser.reload(&tab);
    browser.until(&tab, "document.querySelectorAll('.assistant').length === 5");
    assert_eq!(answers(&mut browser, &tab), texts);
    harmless(&mut browser, &tab);
    assert!(browser.faults().is_empty(), "{:#?}", browser.faults());

    // Were it not put in as text, the policy of the page would hold it: nothing is parsed, nothing is loaded.
    let image = "document.createElement('img')";
    for insert in
        ["document.body.innerHTML = '<b></b>'".to_owned(), format!("{image}.setAttribute('onerror', '')")]
    {
        let tried = format!("try {{ {insert}; 'done' }} catch (error) {{ error.name }}");
        assert_eq!(browser.evaluate(&tab, &tried), "TypeError", "{insert}");
    }
    let load = format!(
        "new Promise((done) => {{ const image = {image}; image.src = '/page.css'; image.onerror = () => done('held') }})"
    );
    assert_eq!(browser.evaluate(&tab, &load), "held");
    assert!(!browser.faults().is_empty(), "a fault would not be seen");
}

/// Nothing ran, nothing but our own elements is there, and no character hides.
fn harmless(browser: &mut Browser, tab: &Tab) {
    assert_eq!(browser.evaluate(tab, "String(window.owned)"), "undefined");
    let strange = "document.querySelectorAll('img, svg, iframe, object, script:not([src=\"/page.js\"]), main a, b').length";
    assert_eq!(browser.evaluate(tab, strange), 0);
    let handlers = "[...document.querySelectorAll('*')].filter((one) => [...one.attributes].some(({ name, value }) => \
         name.startsWith('on') || value.includes('javascript:'))).length";
    assert_eq!(browser.evaluate(tab, handlers), 0);
    let hidden = "/[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u200b\\u202a-\\u202e\\u2066-\\u2069]/.test(document.documentElement.textContent)";
    assert_eq!(browser.evaluate(tab, hidden), false);
}

#[test]
fn a_page_of_another_origin_reaches_nothing() {
    let server = Server::start(ScriptedModel::from_fn(|_| ScriptedReply::text("Hello.")));
    let conversation = server.converse("Hello?");
    let mut browser = Browser::start();
    let own = server.tab(&mut browser, &conversation);
    browser.until(&own, &shows("Hello."));
    let other = other_site();
    let origin = server.origin().to_owned();

    // Another port of this machine is the same site: its requests come with the cookie.
    let tab = browser.open(&format!("http://127.0.0.1:{other}/"));
    let pause = json!({ "id": "cmd_00000000000000000000000001", "command": { "command": "pause", "conversation_id": conversation.id() } });
    let attempt = |kind: &str, mode: &str| {
        format!(
            "fetch('{origin}/api', {{ method: 'POST', mode: '{mode}', credentials: 'include', \
             headers: {{ 'content-type': '{kind}' }}, body: {} }}).then((answer) => answer.type, (error) => error.name)",
            json!(pause.to_string())
        )
    };
    // The last one is sent without asking; the answer is kept from the page, and nothing was done.
    for (kind, mode) in [("application/json", "cors"), ("text/plain", "cors"), ("text/plain", "no-cors")] {
        assert_eq!(browser.evaluate(&tab, &attempt(kind, mode)), "TypeError", "{kind} {mode}");
    }
    let stream = format!(
        "new Promise((done) => {{ const source = new EventSource('{origin}/conversations/{}/updates', \
         {{ withCredentials: true }}); source.onerror = () => done('refused'); source.onmessage = () => done('read') }})",
        conversation.id()
    );
    assert_eq!(browser.evaluate(&tab, &stream), "refused");
    let framed = format!(
        "new Promise((done) => {{ const frame = document.createElement('iframe'); frame.src = '{origin}/'; \
         frame.onload = () => done(frame.contentDocument === null ? 'closed' : 'open'); document.body.append(frame) }})"
    );
    assert_eq!(browser.evaluate(&tab, &framed), "closed");
    let script = format!(
        "new Promise((done) => {{ const script = document.createElement('script'); script.src = '{origin}/page.js'; \
         script.onload = () => done('loaded'); script.onerror = () => done('refused'); document.body.append(script) }})"
    );
    assert_eq!(browser.evaluate(&tab, &script), "refused");

    // It was refused for where it came from, before anybody looked at what it is.
    let answers = |status: &str| {
        let told = |event: &&Value| {
            event["params"]["entry"]["text"].as_str().is_some_and(|text| text.contains(status))
        };
        browser.events.iter().filter(told).count()
    };
    assert!(answers("status of 403") > 0 && answers("status of 4") == answers("status of 403"));

    // A name of theirs that leads here: even the entrance is shut.
    let rebound = browser.open(&server.entrance.replace("127.0.0.1", "evil.test"));
    browser.until(&rebound, &shows("this host is not served here"));

    let snapshot = server.runtime.block_on(conversation.snapshot()).unwrap();
    assert!(!snapshot.state.conversation.paused);
    // The page itself may do all that.
    let same = attempt("application/json", "cors");
    assert_eq!(browser.evaluate(&own, &same), "basic");
    assert!(server.runtime.block_on(conversation.snapshot()).unwrap().state.conversation.paused);
}

/// A server of somebody else on this machine, with an empty page; its port.
fn other_site() -> u16 {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\nconnection: close\r\n\r\n<!doctype html>",
            );
        }
    });
    port
}
