//! A host with real tools, killed at any moment: what it acknowledged stands, what was recovered stays as it is, and
//! what was stopped is not begun.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nervekit::Host;
use nervekit::conversation::store::{EventRange, Store};
use nervekit::conversation::{
    Backend, BackendError, BackendFacts, CallOutcome, Change, Command, CommandOutcome, CommandRequest,
    CommitNumber, Conversations, Event, EventPayload, InputFate, Maintenance, MaintenanceReport,
    NewConversation, NewInput, NewProject, Query, Range, Receipt, Refused, Resolution, Row, Snapshot, Status,
    Table, ToolCallResponse, View, WriteSet,
};
use nervekit::harness::{Message, ScriptedModel, ScriptedReply};
use nervekit::store::RedbBackend;
use nervekit::tools::FileAssetStore;
use nervekit::types::{
    BatchId, CommandId, ConversationId, InputId, ProjectId, SystemIds, Timestamp, ToolCallId,
};
use serde_json::{Value, json};

/// How long anything may take before a test gives up.
const DEADLINE: Duration = Duration::from_secs(120);
/// What the model runs; the conversation `halt` is stopped while its first command runs.
const COMMANDS: [&str; 9] =
    ["work-1", "work-2", "halt-1", "halt-2", "halt-3", "halt-4", "halt-5", "halt-6", "halt-7"];
const GROUND: &str = "NERVEKIT_TEST_GROUND";
/// What the host says before and after it stops a conversation.
const STOPPING: &str = "stopping";
const STOPPED: &str = "stopped";

/// A backend that knows which tables were changed.
#[derive(Debug)]
struct Recorded {
    backend: RedbBackend,
    changed: Mutex<BTreeSet<Table>>,
    /// How long each write waits before it is made, so that a kill meets every state in between.
    delay: Duration,
}

impl Recorded {
    /// The tables that were changed since it was last asked, but for who holds a conversation.
    fn changed(&self) -> Vec<&'static str> {
        let changed = std::mem::take(&mut *self.changed.lock().unwrap());
        changed.iter().map(|table| table.name()).filter(|name| *name != "leases").collect()
    }
}

#[async_trait::async_trait]
impl Backend for Recorded {
    async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
        let writes = sets.iter().flat_map(|set| &set.writes);
        let changing = writes.filter(|write| !matches!(write.change, Change::Keep)).map(|write| write.table);
        self.changed.lock().unwrap().extend(changing);
        tokio::time::sleep(self.delay).await;
        self.backend.write(sets).await
    }

    async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError> {
        self.backend.applied(id).await
    }

    async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
        self.backend.get(table, key).await
    }

    async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
        self.backend.range(ranges).await
    }

    async fn now(&self) -> Result<Timestamp, BackendError> {
        self.backend.now().await
    }

    async fn maintain(&self, job: Maintenance) -> Result<MaintenanceReport, BackendError> {
        self.backend.maintain(job).await
    }

    fn facts(&self) -> BackendFacts {
        self.backend.facts()
    }
}

/// The folders of a host: a project, a home, and the file to which every command that runs adds its name.
#[derive(Clone, Debug)]
struct Ground(PathBuf);

impl Ground {
    fn at(folder: &Path) -> Self {
        let ground = Self(folder.to_owned());
        std::fs::create_dir_all(ground.project()).unwrap();
        std::fs::create_dir_all(ground.0.join("home")).unwrap();
        ground
    }

    fn project(&self) -> PathBuf {
        self.0.join("project")
    }

    fn store(&self) -> PathBuf {
        self.0.join("conversations.redb")
    }

    /// How often each command has run.
    fn ran(&self) -> BTreeMap<String, usize> {
        let trace = std::fs::read_to_string(self.0.join("trace")).unwrap_or_default();
        let mut ran = BTreeMap::new();
        for line in trace.lines() {
            *ran.entry(line.to_owned()).or_default() += 1;
        }
        ran
    }

    /// A command that takes a moment, leaves its name, and takes another moment.
    fn command(&self, name: &str) -> Value {
        let trace = self.0.join("trace");
        json!({ "command": format!("sleep 0.02; echo {name} >>'{}'; sleep 0.02", trace.display()) })
    }

    /// Works in one conversation and is stopped in the other. Asked again after a crash, it answers the same.
    fn model(&self) -> ScriptedModel {
        let ground = self.clone();
        ScriptedModel::from_fn(move |request| {
            let answers = request.messages.iter().filter(|message| matches!(message, Message::Assistant(_)));
            let work = request.messages.iter().any(|message| format!("{message:?}").contains("work, please"));
            let reply = ScriptedReply::new().delay(Duration::from_millis(5));
            let bash = |reply: ScriptedReply, name| reply.call("bash", ground.command(name));
            match (work, answers.count()) {
                (true, 0) => {
                    bash(reply, "work-1").call("write", json!({ "path": "notes", "content": "one" }))
                }
                (true, 1) => bash(reply, "work-2").call("read", json!({ "path": "notes" })),
                (false, 0) => COMMANDS.into_iter().filter(|name| name.starts_with("halt")).fold(reply, bash),
                _ => reply.deltas(["Done."]),
            }
        })
    }

    async fn open(&self, delay: Duration) -> (Host, Arc<Recorded>) {
        let backend = RedbBackend::options(self.store()).lock_wait(DEADLINE).open().await.unwrap();
        let backend = Arc::new(Recorded { backend, changed: Mutex::default(), delay });
        let host = Host::local()
            .home(self.0.join("home"))
            .project(self.project())
            .backend(backend.clone())
            .assets(FileAssetStore::new(self.0.join("assets")))
            .model(self.model());
        (host.open().await.unwrap(), backend)
    }
}

fn conversation(name: &str) -> ConversationId {
    ConversationId::from_key(name)
}

/// Sends commands, and says which ones were acknowledged.
struct Client {
    api: Arc<dyn Conversations>,
    acknowledged: fn(&CommandRequest, &Receipt),
}

impl Client {
    async fn send(&self, key: &str, command: Command) -> CommandOutcome {
        let request = CommandRequest::new(CommandId::from_key(key), command);
        let receipt = self.api.command(request.clone()).await.unwrap();
        (self.acknowledged)(&request, &receipt);
        receipt.outcome
    }

    async fn snapshot(&self, id: ConversationId) -> Snapshot {
        match self.api.query(Query::Snapshot { conversation_id: id }).await.unwrap() {
            View::Snapshot(snapshot) => *snapshot,
            other => panic!("{other:?}"),
        }
    }

    async fn until(&self, id: ConversationId, holds: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let begun = Instant::now();
        loop {
            let snapshot = self.snapshot(id).await;
            if holds(&snapshot) {
                return snapshot;
            }
            assert!(begun.elapsed() < DEADLINE, "{snapshot:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn create(&self, ground: &Ground, host: &Host) {
        let project = ProjectId::from_key("project");
        let new = NewProject::new("a project").id(project).directory(ground.project());
        self.send("project", Command::CreateProject(new)).await;
        for name in ["work", "halt"] {
            let new = NewConversation::new(project, host.config().clone()).id(conversation(name));
            self.send(name, Command::CreateConversation(Box::new(new))).await;
        }
    }

    async fn submit(&self, name: &str) {
        let input = NewInput::new(format!("{name}, please")).id(InputId::from_key(name));
        let submit = Command::Submit { conversation_id: conversation(name), input };
        self.send(&format!("submit {name}"), submit).await;
    }

    async fn approve(&self, conversation_id: ConversationId, snapshot: &Snapshot) {
        for shown in &snapshot.state.interactions {
            let resolve = Command::Resolve {
                conversation_id,
                interaction_id: shown.id,
                resolution: Resolution::approve(shown.digest),
            };
            self.send(&format!("approve {}", shown.id), resolve).await;
        }
    }

    async fn stop(&self, name: &str, key: &str) {
        let stop = Command::Stop { conversation_id: conversation(name), execution_id: None };
        self.send(key, stop).await;
    }

    /// Approves whatever is asked, and carries on whatever was interrupted, to the end.
    async fn see_through(&self, name: &str) {
        let conversation_id = conversation(name);
        for round in 0..20 {
            let snapshot = self.until(conversation_id, quiet).await;
            match snapshot.state.conversation.status {
                Status::Waiting => self.approve(conversation_id, &snapshot).await,
                Status::Interrupted | Status::Failed => {
                    let go_on = Command::ContinueProcessing { conversation_id, head: None };
                    self.send(&format!("go on {name} {round} {:?}", Instant::now()), go_on).await;
                }
                _ => return,
            }
        }
        panic!("it does not come to an end");
    }
}

fn quiet(snapshot: &Snapshot) -> bool {
    snapshot.state.conversation.status != Status::Running
}

fn say(line: &str) {
    // Not `println!`, which the test harness may keep to itself; one write, so that lines stay whole.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n#{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The host that is killed; by itself it does nothing.
#[test]
fn the_killed_host() {
    let Some(folder) = std::env::var_os(GROUND) else { return };
    let ground = Ground::at(Path::new(&folder));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (host, _) = ground.open(Duration::from_millis(10)).await;
        let acknowledged = |request: &CommandRequest, receipt: &Receipt| {
            say(&serde_json::to_string(&(request, receipt)).unwrap());
        };
        let client = Client { api: host.api(), acknowledged };
        client.create(&ground, &host).await;
        let halt = async {
            client.submit("halt").await;
            let id = conversation("halt");
            let asked = client.until(id, |seen| seen.state.interactions.len() == 7).await;
            client.approve(id, &asked).await;
            client.until(id, |seen| seen.calls.iter().any(|call| call.claim.is_some())).await;
            say(STOPPING);
            client.stop("halt", "stop").await;
            say(STOPPED);
        };
        let work = async {
            client.submit("work").await;
            client.see_through("work").await;
        };
        tokio::join!(halt, work);
        host.shutdown(DEADLINE).await;
    });
}

/// When a host is killed.
#[derive(Clone, Copy, Debug)]
enum Kill {
    Never,
    After(Duration),
    /// This long after it began to stop a conversation.
    AfterStop(Duration),
}

/// What a host said, and when.
struct Said {
    lines: Vec<(Instant, String)>,
    ended: bool,
}

impl Said {
    fn acknowledged(&self) -> Vec<(CommandRequest, Receipt)> {
        // The last line may have been cut.
        self.lines.iter().filter_map(|(_, line)| serde_json::from_str(line).ok()).collect()
    }

    fn when(&self, wanted: &str) -> Instant {
        self.lines.iter().find(|(_, line)| line == wanted).unwrap().0
    }
}

/// Runs the host until it ends or until it is killed.
fn run(ground: &Ground, kill: Kill) -> Said {
    let mut child = Process::new(std::env::current_exe().unwrap());
    child.args(["--exact", "the_killed_host", "--nocapture"]).env(GROUND, &ground.0);
    let mut child = child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    let (sender, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if let Some(line) = line.strip_prefix('#') {
                sender.send((Instant::now(), line.to_owned())).unwrap();
            }
        }
    });
    let mut lines = Vec::new();
    match kill {
        Kill::Never => {}
        Kill::After(moment) => std::thread::sleep(moment),
        Kill::AfterStop(moment) => {
            while lines.last().is_none_or(|(_, line)| line != STOPPING) {
                lines.push(said.recv_timeout(DEADLINE).unwrap());
            }
            std::thread::sleep(moment);
        }
    }
    if !matches!(kill, Kill::Never) {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    lines.extend(said);
    assert!(status.success() || !matches!(kill, Kill::Never), "{status}");
    Said { lines, ended: status.success() }
}

/// A call, by what it would have run.
fn name_of(arguments: &Value) -> Option<&'static str> {
    let command = arguments.get("command")?.as_str()?;
    COMMANDS.into_iter().find(|name| command.contains(name))
}

fn response(event: &Event) -> Option<&ToolCallResponse> {
    match &event.payload {
        EventPayload::ToolCallResponse(response) => Some(response),
        _ => None,
    }
}

/// What a killed host left that must never begin: calls that were stopped before they were claimed.
async fn marked(ground: &Ground) -> BTreeSet<ToolCallId> {
    let backend = RedbBackend::options(ground.store()).lock_wait(DEADLINE).open().await.unwrap();
    let store = Store::open(Arc::new(backend), Arc::new(SystemIds::default())).await.unwrap();
    let mut marked = BTreeSet::new();
    for record in store.conversations(None, None, 10).await.unwrap() {
        let rows = store.load(record.id).await.unwrap().unwrap();
        let calls = rows.calls.values().map(|call| &call.value);
        let stopped =
            calls.filter(|call| (call.cancel_requested || rows.is_marked()) && call.claim.is_none());
        marked.extend(stopped.map(|call| call.id));
    }
    marked
}

/// I1 to I5, and what is known of calls that must not have begun.
async fn check(ground: &Ground, said: &[(CommandRequest, Receipt)], never: &BTreeSet<ToolCallId>) {
    let backend = RedbBackend::options(ground.store()).lock_wait(DEADLINE).open().await.unwrap();
    let store = Store::open(Arc::new(backend), Arc::new(SystemIds::default())).await.unwrap();
    // I2 and I5: chains, heads, the list of unfinished conversations.
    assert_eq!(store.verify().await.unwrap().faults, Vec::<String>::new());
    assert!(store.unfinished().await.unwrap().is_empty());
    let ran = ground.ran();
    let times = |name: &str| ran.get(name).copied().unwrap_or(0);
    assert!(ran.values().all(|times| *times == 1), "I4: {ran:?}");
    let mut not_begun = BTreeSet::new();
    for record in store.conversations(None, None, 10).await.unwrap() {
        let events = store.events(record.id, EventRange::from(0)).await.unwrap();
        assert!(events.iter().enumerate().all(|(at, event)| event.sequence == at as u64), "I2");
        let mut calls = BTreeSet::new();
        for event in &events {
            if let EventPayload::AssistantMessage(message) = &event.payload {
                calls.extend(message.calls.iter().map(|call| call.id));
            }
            let Some(response) = response(event) else { continue };
            assert!(calls.remove(&response.call_id), "I1: a result without a call, or a second one");
            let name = name_of(&response.arguments);
            match (response.outcome, name) {
                (CallOutcome::Completed, Some(name)) => assert_eq!(times(name), 1, "I4: `{name}` completed"),
                (CallOutcome::Cancelled | CallOutcome::Denied, Some(name)) => {
                    assert_eq!(times(name), 0, "I4: `{name}` did not happen: {response:?}");
                }
                (CallOutcome::Completed, None) => {
                    // Of `write`, and of `read` after it.
                    assert_eq!(std::fs::read_to_string(ground.project().join("notes")).unwrap(), "one");
                }
                _ => {}
            }
            if never.contains(&response.call_id) {
                assert_eq!(response.outcome, CallOutcome::Cancelled, "I8: {response:?}");
                not_begun.insert(response.call_id);
            }
        }
        assert!(calls.is_empty(), "I1: calls without a result");
        for (request, _) in said {
            let Command::Submit { conversation_id, input } = &request.command else { continue };
            if *conversation_id == record.id {
                let id = input.id.unwrap();
                let fate = store.fate(record.id, id).await.unwrap().map(|fate| fate.fate);
                let delivered: Vec<_> = events.iter().filter(|event| event.input_id == Some(id)).collect();
                let [delivered] = delivered[..] else { panic!("I3: {fate:?}, delivered {delivered:?}") };
                assert_eq!(fate, Some(InputFate::Delivered { event_id: delivered.id }), "I3");
            }
        }
    }
    assert_eq!(not_begun, *never, "I8");
}

/// Opens what a killed host left: recovers it, recovers it once more, sends again what was acknowledged, and sees the
/// work through.
async fn carry_on(ground: &Ground, said: &[(CommandRequest, Receipt)]) {
    let (host, backend) = ground.open(Duration::ZERO).await;
    for record in host.conversations(nervekit::conversation::Page::new(10)).await.unwrap() {
        let client = Client { api: host.api(), acknowledged: |_, _| {} };
        client.until(record.id, quiet).await;
    }
    host.shutdown(DEADLINE).await;
    drop((host, backend));

    let (host, backend) = ground.open(Duration::ZERO).await;
    let client = Client { api: host.api(), acknowledged: |_, _| {} };
    for record in host.conversations(nervekit::conversation::Page::new(10)).await.unwrap() {
        client.until(record.id, quiet).await;
    }
    assert_eq!(backend.changed(), Vec::<&str>::new(), "I7: what was recovered is recovered once more");
    for (request, receipt) in said {
        let again = client.api.command(request.clone()).await.unwrap();
        assert_eq!(again.outcome, receipt.outcome, "I6: {request:?}");
        assert!(again.cursor >= receipt.cursor, "I6: {request:?}");
    }
    assert_eq!(backend.changed(), Vec::<&str>::new(), "I6: what was acknowledged is done again");

    client.create(ground, &host).await;
    for name in ["work", "halt"] {
        client.submit(name).await;
    }
    client.stop("halt", "stop after the kill").await;
    client.see_through("work").await;
    client.until(conversation("halt"), |seen| !seen.state.conversation.status.is_open()).await;
    host.shutdown(DEADLINE).await;
}

/// Numbers that a seed repeats (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

fn seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    let given = std::env::var("NERVEKIT_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(()));
    println!("seed {seed}: NERVEKIT_SEED={seed} runs it again");
    seed
}

/// Killed at moments spread at random over the time of an unkilled run, and over the time in which it stops a
/// conversation.
#[test]
fn what_a_killed_host_acknowledged_stands_and_what_it_stopped_is_not_begun() {
    let mut random = Random(seed());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let whole = Ground::at(folder.path());
    let begun = Instant::now();
    let said = run(&whole, Kill::Never);
    let (duration, stop) = (begun.elapsed(), said.when(STOPPED).duration_since(said.when(STOPPING)));
    println!("an unkilled run takes {} ms, {} of them for the stop", duration.as_millis(), stop.as_millis());
    runtime.block_on(check(&whole, &said.acknowledged(), &BTreeSet::new()));
    let mut within =
        |time: Duration| Duration::from_micros(random.below(time.as_micros().try_into().unwrap()));
    let mut kills: Vec<Kill> = (0..15).map(|_| Kill::After(within(duration))).collect();
    kills.extend((0..15).map(|_| Kill::AfterStop(within(stop))));
    let mut stopped = 0;
    for kill in kills {
        let folder = tempfile::tempdir().unwrap();
        let ground = Ground::at(folder.path());
        let said = run(&ground, kill);
        let never = if ground.store().exists() { runtime.block_on(marked(&ground)) } else { BTreeSet::new() };
        stopped += never.len();
        let acknowledged = said.acknowledged();
        println!(
            "{kill:?}: {} acknowledged, {} stopped before they began, ran {:?}{}",
            acknowledged.len(),
            never.len(),
            ground.ran(),
            if said.ended { ", had ended" } else { "" }
        );
        runtime.block_on(carry_on(&ground, &acknowledged));
        runtime.block_on(check(&ground, &acknowledged, &never));
    }
    assert!(stopped > 0, "no kill fell between a stop and its end");
}
