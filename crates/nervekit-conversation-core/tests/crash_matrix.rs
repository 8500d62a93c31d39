//! Crashes at every commit, before and after, and once more in the recovery: what comes of it.
//!
//! The client of a scenario sends its commands again under the same ids after each crash, answers what is asked and
//! carries on what was interrupted. What is expected is computed from what was durable at the crash, by the table
//! of the crate's README; beside it stands what was seen, with every invariant (I1 to I8) that does not hold.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

#[path = "common/life.rs"]
mod life;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use futures_util::future::{BoxFuture, FutureExt as _};
use nervekit_conversation_core::store::{EventRange, Rows, Store};
use nervekit_conversation_core::testing::{CrashCheck, CrashMatrix, CrashPoint, FaultBackend};
use nervekit_conversation_core::{
    Attendance, Backend, CallOutcome, CallState, Conversations as _, Event, EventPayload, InputFate,
    Interaction, Limits, Remember, Remembered, Resolution, Status,
};
use nervekit_harness::ScriptedReply;
use nervekit_permissions::{
    DocumentId, DocumentOwner, DocumentScope, Documents as _, GrantScope, PolicyDocument,
};
use nervekit_types::{ConversationId, SystemIds, ToolCallId};
use serde_json::json;

use self::life::{Life, World, ends, key_of, obliging, outcome_of, responses, story, unpaired};

type Script = fn(Life) -> BoxFuture<'static, ()>;

/// What a client does, and what comes of it.
struct Scenario {
    name: &'static str,
    world: fn() -> World,
    script: Script,
    /// The calls, and how each ends if nothing goes wrong.
    calls: &'static [(&'static str, CallOutcome)],
    /// The ends of executions that are still to come after a crash that left this.
    ends: fn(&Picture) -> Vec<&'static str>,
}

/// What was durable at a crash.
#[derive(Debug, Default)]
struct Picture {
    events: Vec<Event>,
    rows: Option<Rows>,
}

impl Picture {
    async fn of(backend: &Arc<FaultBackend>) -> Self {
        let store =
            Store::open(backend.clone() as Arc<dyn Backend>, Arc::new(SystemIds::default())).await.unwrap();
        let id = ConversationId::from_key("conversation");
        let events = store.events(id, EventRange::from(0)).await.unwrap();
        Self { events, rows: store.load(id).await.unwrap() }
    }

    fn open(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.open_execution().is_some())
    }

    fn marked(&self) -> bool {
        self.rows.as_ref().is_some_and(Rows::is_marked)
    }

    fn row(&self, key: &str) -> Option<&nervekit_conversation_core::ToolCall> {
        let rows = self.rows.as_ref()?;
        rows.calls
            .values()
            .map(|row| &*row.value)
            .find(|call| key_of(&call.tool_name, &call.arguments) == key)
    }

    fn settled(&self, key: &str) -> Option<CallOutcome> {
        outcome_of(&responses(&self.events), key)
    }

    fn answers(&self) -> usize {
        self.events.iter().filter(|event| matches!(event.payload, EventPayload::AssistantMessage(_))).count()
    }

    fn prompts(&self) -> usize {
        let delivered = self.events.iter().filter(|event| event.input_id.is_some()).count();
        delivered + self.rows.as_ref().map_or(0, |rows| rows.queue.len())
    }

    fn last_end(&self) -> Option<&'static str> {
        ends(&self.events).last().copied()
    }

    /// Whether the open execution goes on without being interrupted: a person is waited for, or inputs are.
    fn goes_on(&self) -> bool {
        let Some(rows) = &self.rows else { return false };
        !rows.queue.is_empty() || rows.calls.values().any(|row| row.value.state.is_suspended())
    }

    /// By the table of recovery: how a call ends that would end like this without the crash.
    fn outcome(&self, key: &str, undisturbed: CallOutcome) -> CallOutcome {
        if let Some(outcome) = self.settled(key) {
            return outcome;
        }
        let Some(row) = self.row(key) else { return undisturbed };
        let (running, cancelled) = (row.state == CallState::Running, row.cancel_requested || self.marked());
        let repeatable = row.tool_name == "peek";
        match (running, cancelled) {
            (true, false) if repeatable => undisturbed,
            (true, _) => CallOutcome::Indeterminate,
            (false, true) => CallOutcome::Cancelled,
            (false, false) => undisturbed,
        }
    }
}

/// The ends to come where the client carries on until the work is done.
fn until_done(at: &Picture) -> Vec<&'static str> {
    match at.last_end() {
        _ if at.open() && at.goes_on() => vec!["completed"],
        _ if at.open() => vec!["interrupted", "completed"],
        Some("completed") => vec![],
        _ => vec!["completed"],
    }
}

/// The ends to come where the client stops the call `held` while it runs.
fn until_stopped(at: &Picture) -> Vec<&'static str> {
    let settled = at.settled("held").is_some();
    let state = at.row("held").map(|row| row.state);
    match at.last_end() {
        _ if at.marked() => vec!["cancelled"],
        _ if at.open() && (settled || state == Some(CallState::Running)) => vec!["interrupted"],
        _ if at.open() && state.is_some() => vec!["cancelled"],
        // The model was being asked: the client carries on, and stops the call then.
        _ if at.open() => vec!["interrupted", "cancelled"],
        None => vec!["cancelled"],
        Some("interrupted") if !settled => vec!["cancelled"],
        Some(_) => vec![],
    }
}

/// Has the call `held` run, unless it has ended already, and stops it.
async fn stop_held(life: &Life) {
    life.submit("go").await;
    loop {
        let running = |call: &nervekit_conversation_core::ToolCall| call.state == CallState::Running;
        let seen = life
            .until("the call runs or has ended", |seen| {
                seen.calls.iter().any(running) || seen.state.conversation.status != Status::Running
            })
            .await;
        let settled = outcome_of(&life.responses().await, "held").is_some();
        if seen.state.conversation.status != Status::Interrupted || settled {
            break;
        }
        life.go_on().await;
    }
    life.stop("stop").await;
    life.quiet().await;
}

fn approve_a_deny_b(open: &Interaction) -> Resolution {
    match key_of(&open.tool_name, &open.arguments).as_str() {
        "b" => Resolution::deny(),
        _ => Resolution::approve(open.digest),
    }
}

fn call(tool: &str, key: &str) -> ScriptedReply {
    ScriptedReply::call_tool(tool, json!({ "key": key }))
}

fn two_calls(first: (&str, &str), second: (&str, &str)) -> ScriptedReply {
    call(first.0, first.1).call(second.0, json!({ "key": second.1 }))
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "text",
        world: || World::new([ScriptedReply::text("Hello.")]),
        script: |life| {
            async move {
                life.submit("go").await;
                life.see_through(obliging).await;
            }
            .boxed()
        },
        calls: &[],
        ends: until_done,
    },
    Scenario {
        name: "read",
        world: || World::new([call("peek", "a")]),
        script: |life| {
            async move {
                life.submit("go").await;
                life.see_through(obliging).await;
            }
            .boxed()
        },
        calls: &[("a", CallOutcome::Completed)],
        ends: until_done,
    },
    Scenario {
        name: "approval",
        world: || World::new([call("write", "a")]),
        script: |life| {
            async move {
                life.submit("go").await;
                life.see_through(obliging).await;
            }
            .boxed()
        },
        calls: &[("a", CallOutcome::Completed)],
        ends: until_done,
    },
    Scenario {
        name: "approval, kept",
        world: || World::new([call("write", "a")]).documented(),
        script: |life| {
            async move {
                life.submit("go").await;
                life.see_through(|open| obliging(open).remember(Remember::new(GrantScope::User, 0))).await;
            }
            .boxed()
        },
        calls: &[("a", CallOutcome::Completed)],
        ends: until_done,
    },
    Scenario {
        name: "question",
        world: || World::new([ScriptedReply::call_tool("ask_user", json!({ "question": "Which?" }))]),
        script: |life| {
            async move {
                life.submit("go").await;
                life.see_through(obliging).await;
            }
            .boxed()
        },
        calls: &[("Which?", CallOutcome::Completed)],
        ends: until_done,
    },
    Scenario {
        name: "parallel, one denied",
        world: || World::new([two_calls(("send", "a"), ("send", "b"))]),
        script: |life| {
            async move {
                life.submit("go").await;
                life.see_through(approve_a_deny_b).await;
            }
            .boxed()
        },
        calls: &[("a", CallOutcome::Completed), ("b", CallOutcome::Denied)],
        ends: until_done,
    },
    Scenario {
        name: "sequential, first suspended",
        world: || World::new([two_calls(("write", "a"), ("stamp", "b"))]),
        script: |life| {
            async move {
                life.submit("go").await;
                life.see_through(obliging).await;
            }
            .boxed()
        },
        calls: &[("a", CallOutcome::Completed), ("b", CallOutcome::Completed)],
        ends: until_done,
    },
    Scenario {
        name: "prompt during an approval",
        world: || World::new([call("write", "a")]),
        script: |life| {
            async move {
                life.submit("go").await;
                life.quiet().await;
                life.submit("and another thing").await;
                life.see_through(obliging).await;
            }
            .boxed()
        },
        calls: &[("a", CallOutcome::Completed)],
        // If the second prompt comes after everything else was done, it has an execution of its own.
        ends: |at| {
            let mut ends = until_done(at);
            let done = ends.is_empty()
                || at.settled("a").is_some()
                || at.row("a").is_some_and(|row| !row.state.is_suspended());
            if at.prompts() < 2 && at.rows.is_some() && done && at.answers() > 0 {
                ends.push("completed");
            }
            ends
        },
    },
    Scenario {
        name: "stop",
        world: || World::new([call("hold", "held")]),
        script: |life| async move { stop_held(&life).await }.boxed(),
        calls: &[("held", CallOutcome::Cancelled)],
        ends: until_stopped,
    },
    Scenario {
        name: "stop, new prompt",
        world: || World::new([call("hold", "held")]),
        script: |life| {
            async move {
                stop_held(&life).await;
                life.submit("next").await;
                life.see_through(obliging).await;
            }
            .boxed()
        },
        calls: &[("held", CallOutcome::Cancelled)],
        ends: |at| {
            if at.prompts() < 2 {
                let mut ends = until_stopped(at);
                ends.push("completed");
                ends
            } else {
                until_done(at)
            }
        },
    },
    Scenario {
        name: "turn limit",
        world: || World::new([call("peek", "a")]).configured(|config| config.limits = Limits::new().turns(1)),
        script: |life| {
            async move {
                life.submit("go").await;
                life.see_through(obliging).await;
            }
            .boxed()
        },
        calls: &[("a", CallOutcome::Completed)],
        ends: |at| match at.answers() {
            0 if at.open() => vec!["interrupted", "failed", "completed"],
            0 => vec!["failed", "completed"],
            _ => until_done(at),
        },
    },
    Scenario {
        name: "unattended",
        world: || {
            World::new([call("write", "a")]).configured(|config| config.attendance = Attendance::Unattended)
        },
        script: |life| {
            async move {
                life.submit("go").await;
                life.see_through(obliging).await;
            }
            .boxed()
        },
        calls: &[("a", CallOutcome::Denied)],
        ends: until_done,
    },
];

/// One run of a scenario: its world, and what the invariants are checked against.
struct Run {
    world: Arc<World>,
    expected: Mutex<String>,
    faults: Mutex<Vec<String>>,
    /// Calls that were marked before they were claimed.
    never: Mutex<Vec<ToolCallId>>,
}

impl Run {
    fn new(scenario: &Scenario) -> Self {
        let expected = Mutex::new(expected(scenario, &Picture::default()));
        let world = Arc::new((scenario.world)());
        Self { world, expected, faults: Mutex::default(), never: Mutex::default() }
    }

    fn fault(&self, words: impl Into<String>) {
        self.faults.lock().unwrap().push(words.into());
    }
}

fn words(calls: impl Iterator<Item = (&'static str, String)>, ends: &[&str]) -> String {
    let calls: Vec<_> = calls.map(|(key, outcome)| format!("{key} {outcome}, ")).collect();
    format!("{}{}", calls.concat(), ends.join(", "))
}

fn expected(scenario: &Scenario, at: &Picture) -> String {
    let outcomes = scenario.calls.iter().map(|(key, outcome)| (*key, at.outcome(key, *outcome).to_string()));
    let ends: Vec<_> = ends(&at.events).into_iter().chain((scenario.ends)(at)).collect();
    words(outcomes, &ends)
}

/// The life of a core, in a thread and a runtime of its own: when the process crashes, all of its tasks end before
/// anything else happens.
struct LifeThread(Option<JoinHandle<()>>);

impl LifeThread {
    fn join(&mut self) -> Result<(), String> {
        let Some(thread) = self.0.take() else { return Ok(()) };
        thread.join().map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
        })
    }
}

impl Drop for LifeThread {
    fn drop(&mut self) {
        // The run that is dropped has crashed; nobody wants to know how its client took it.
        let _ = self.join();
    }
}

async fn live(backend: Arc<FaultBackend>, world: Arc<World>, script: Script) -> Result<(), String> {
    let (done, ended) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let script = async { script(Life::open(backend.clone(), &world).await).await };
            tokio::select! {
                biased;
                () = backend.crashed() => {}
                () = script => {}
            }
        });
        drop(runtime);
        let _ = done.send(());
    });
    let mut thread = LifeThread(Some(thread));
    let _ = ended.await;
    thread.join()
}

/// What a store holds, without ids and times.
async fn fingerprint(backend: &Arc<FaultBackend>) -> String {
    let Picture { events, rows } = Picture::of(backend).await;
    let Some(rows) = rows else { return "nothing".to_owned() };
    let calls: Vec<_> =
        rows.calls.values().map(|row| (row.value.state, row.value.cancel_requested)).collect();
    let (open, paused) = (rows.open_execution().is_some(), rows.mailbox.value.paused);
    format!("{:?} {calls:?} open {open} paused {paused} queued {}", story(&events), rows.queue.len())
}

/// I7: recovering what was recovered already changes nothing.
async fn recovered_twice(scenario: &Scenario, backend: &FaultBackend, run: &Run) {
    let recover: Script = |life| async move { drop(life.quiet().await) }.boxed();
    let twin_world = || {
        let world = (scenario.world)();
        world.brief.store(true, Ordering::SeqCst);
        Arc::new(world)
    };
    let once = Arc::new(backend.copy());
    let mut lives = live(once.clone(), twin_world(), recover).await;
    let first = fingerprint(&once).await;
    let twice = Arc::new(once.reopen());
    lives = lives.and(live(twice.clone(), twin_world(), recover).await);
    let second = fingerprint(&twice).await;
    if let Err(panic) = lives {
        run.fault(format!("I7: {panic}"));
    }
    if first != second {
        run.fault(format!("I7: {first} became {second}"));
    }
}

async fn recover(scenario: &Scenario, backend: Arc<FaultBackend>, run: &Run) {
    let at = Picture::of(&backend.copy().into()).await;
    *run.expected.lock().unwrap() = expected(scenario, &at);
    if let Some(rows) = &at.rows {
        let marked = rows
            .calls
            .values()
            .map(|row| &row.value)
            .filter(|call| (call.cancel_requested || rows.is_marked()) && call.claim.is_none());
        run.never.lock().unwrap().extend(marked.map(|call| call.id));
    }
    recovered_twice(scenario, &backend, run).await;
    if let Err(panic) = live(backend, run.world.clone(), scenario.script).await {
        run.fault(panic);
    }
}

/// Sends every command again that was acknowledged: each is answered as before.
fn repeat_commands(life: Life) -> BoxFuture<'static, ()> {
    async move {
        for (request, receipt) in life.world.acknowledged() {
            let kind = request.command.kind();
            let again = life.core.command(request).await.unwrap();
            assert_eq!(again.outcome, receipt.outcome, "I6: `{kind}` has another outcome");
            assert!(again.cursor >= receipt.cursor, "I6: `{kind}` is behind what was acknowledged");
        }
    }
    .boxed()
}

async fn check(scenario: &Scenario, backend: Arc<FaultBackend>, run: &Run) -> CrashCheck {
    let end = Picture::of(&backend.copy().into()).await;
    let again = Arc::new(backend.copy());
    if let Err(panic) = live(again.clone(), run.world.clone(), repeat_commands).await {
        run.fault(panic);
    }
    if Picture::of(&again).await.events.len() != end.events.len() {
        run.fault("I6: a command that was repeated acted again");
    }
    invariants(&end, &backend, run).await;

    let responses = responses(&end.events);
    let outcomes = scenario.calls.iter().map(|(key, _)| {
        let outcome = outcome_of(&responses, key);
        (*key, outcome.map_or_else(|| "missing".to_owned(), |outcome| outcome.to_string()))
    });
    let mut seen = words(outcomes, &ends(&end.events));
    for fault in run.faults.lock().unwrap().iter() {
        seen.push_str("; ");
        seen.push_str(fault);
    }
    CrashCheck::new(run.expected.lock().unwrap().clone(), seen)
}

async fn invariants(end: &Picture, backend: &FaultBackend, run: &Run) {
    let Some(rows) = &end.rows else { return run.fault("I6: the conversation is missing") };
    for request in run.world.model.requests() {
        if let Some(fault) = unpaired(&request) {
            run.fault(format!("I1: {fault}"));
        }
    }
    let store = Store::open(Arc::new(backend.copy()), Arc::new(SystemIds::default())).await.unwrap();
    for fault in store.verify().await.unwrap().faults {
        run.fault(format!("I2: {fault}"));
    }
    if end.events.iter().enumerate().any(|(at, event)| event.sequence != at as u64) {
        run.fault("I2: the sequences are not dense");
    }
    for (request, _) in run.world.acknowledged() {
        if let nervekit_conversation_core::Command::Submit { input, .. } = request.command {
            input_arrived(&store, end, run, input.id.unwrap()).await;
        }
    }
    for response in responses(&end.events) {
        let effects = run.world.effects_of(response.call_id);
        let right = match response.outcome {
            CallOutcome::Completed => effects == 1 || response.tool_name == "ask_user",
            CallOutcome::Denied => effects == 0,
            _ => effects <= 1,
        };
        if !right && response.tool_name != "peek" {
            run.fault(format!("I4: a {} call had {effects} effects", response.outcome));
        }
    }
    if let Some(documents) = &run.world.documents {
        let document = documents.look(&DocumentId::permissions(DocumentOwner::User(None)));
        let document = document.current.as_ref();
        let document =
            document.map(|document| PolicyDocument::parse(DocumentScope::User, &document.bytes).unwrap());
        let rules: Vec<_> = document.iter().flat_map(PolicyDocument::rules).map(|rule| &rule.id).collect();
        let kept = responses(&end.events).into_iter().filter_map(|response| response.resolution?.remembered);
        let kept: Vec<_> = kept.collect();
        let right =
            matches!((&kept[..], &rules[..]), ([Remembered::Saved { rule }], [only]) if rule == *only);
        if !right {
            run.fault(format!("an answer that was to be kept is {kept:?}, and the document holds {rules:?}"));
        }
    }
    let mut scanned = Vec::new();
    if rows.is_unfinished() {
        scanned.push(rows.id);
    }
    if store.unfinished().await.unwrap() != scanned {
        run.fault("I5: the list of unfinished conversations is not what a scan finds");
    }
    for id in run.never.lock().unwrap().iter() {
        let responses = responses(&end.events);
        let outcome = responses.iter().find(|response| response.call_id == *id).map(|found| found.outcome);
        if run.world.effects_of(*id) > 0 || outcome != Some(CallOutcome::Cancelled) {
            run.fault("I8: a call that was marked before it began did not end as cancelled");
        }
    }
}

/// I3: an input was delivered exactly once, or is queued.
async fn input_arrived(store: &Store, end: &Picture, run: &Run, id: nervekit_types::InputId) {
    let rows = end.rows.as_ref().unwrap();
    let delivered: Vec<_> = end.events.iter().filter(|event| event.input_id == Some(id)).collect();
    let fate = store.fate(rows.id, id).await.unwrap().map(|fate| fate.fate);
    let right = match fate {
        Some(InputFate::Delivered { event_id }) => delivered.len() == 1 && delivered[0].id == event_id,
        Some(InputFate::Queued) => delivered.is_empty() && rows.queued(id).is_some(),
        _ => false,
    };
    if !right {
        run.fault(format!("I3: an input with the fate {fate:?} was delivered {} times", delivered.len()));
    }
}

fn crash(name: &str) {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // The format marker, the project and the conversation: `text` crashes there.
    let set_up = if name == "text" { 0 } else { 3 };
    let mut matrix = CrashMatrix::new().also_in_recovery().after_commit(set_up);
    runtime.block_on(matrix.scenario(
        scenario.name,
        || Run::new(scenario),
        async |backend: Arc<FaultBackend>, run: Arc<Run>| {
            if let Err(panic) = live(backend, run.world.clone(), scenario.script).await {
                run.fault(panic);
            }
        },
        async |backend: Arc<FaultBackend>, run: Arc<Run>| recover(scenario, backend, &run).await,
        async |backend: Arc<FaultBackend>, run: Arc<Run>, _: Option<CrashPoint>| {
            check(scenario, backend, &run).await
        },
    ));
    println!("{matrix}");
    println!("{} runs", matrix.lines().len());
    assert!(matrix.is_clean(), "what was seen differs from what was expected");
}

macro_rules! scenarios {
    ($($test:ident: $name:literal;)*) => {
        $(#[test]
        fn $test() {
            crash($name);
        })*

        #[test]
        fn every_scenario_is_run() {
            let run = [$($name),*];
            assert!(SCENARIOS.iter().all(|scenario| run.contains(&scenario.name)));
        }
    };
}

scenarios! {
    text: "text";
    read: "read";
    approval: "approval";
    approval_kept: "approval, kept";
    question: "question";
    parallel_one_denied: "parallel, one denied";
    sequential_first_suspended: "sequential, first suspended";
    prompt_during_an_approval: "prompt during an approval";
    stop: "stop";
    stop_then_a_new_prompt: "stop, new prompt";
    turn_limit: "turn limit";
    unattended: "unattended";
}
