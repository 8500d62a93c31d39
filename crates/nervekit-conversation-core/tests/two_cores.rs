//! Two cores over one backend: each takes commands for what the other one holds, and takes over what it leaves.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "common/life.rs"]
mod life;
#[path = "common/wire.rs"]
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nervekit_conversation_core::store::{Draft, Role, Store};
use nervekit_conversation_core::testing::{Fault, FaultBackend};
use nervekit_conversation_core::{
    Backend, CallOutcome, Command, CommandError, CommandOutcome, CommandRequest, ConfigChange, Conversations,
    Cursor, DeliveryTarget, Event, EventPayload, MemoryBackend, NewInput, Remember, Resolution,
    RuntimeLimits, Snapshot, Status,
};
use nervekit_harness::{ProviderError, ProviderErrorKind, ScriptedModel, ScriptedReply};
use nervekit_permissions::Risk;
use nervekit_tools::{Tool, ToolContext};
use nervekit_types::testing::SequenceIds;
use nervekit_types::{Clock, CommandId, InputId, Principal, Timestamp};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use self::life::{Key, Life, World, ends, obliging, outcome_of, story};
use self::wire::{Wire, Wired};

const LEASE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

/// Shows the time of the paused async runtime.
#[derive(Debug)]
struct PausedClock(Instant);

impl PausedClock {
    fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_767_225_600_000).saturating_add(self.0.elapsed())
    }
}

/// Two cores, each with its own way to the backend.
struct Pair {
    first: Life,
    second: Life,
    wire: Arc<Wired<MemoryBackend>>,
    backend: Arc<MemoryBackend>,
    world: Arc<World>,
}

async fn pair(world: World, introduced: bool) -> Pair {
    let (world, clock) = (Arc::new(world), Arc::new(PausedClock::new()));
    let backend = Arc::new(MemoryBackend::new().clock(clock.clone()));
    let wire = Arc::new(Wired::new(backend.clone()));
    let limits = RuntimeLimits::new().lease(LEASE);
    let first = Life::builder(wire.clone(), &world).clock(clock.clone()).limits(limits.clone());
    let first = Life::over(first.open().await.unwrap(), &world).await;
    let second =
        Life::builder(backend.clone(), &world).clock(clock).limits(limits).ids(SequenceIds::after(1 << 40));
    let second = if introduced { second.beside(&first.core) } else { second };
    let second = Life::over(second.open().await.unwrap(), &world).await;
    Pair { first, second, wire, backend, world }
}

/// Two cores over a store of which each commit takes a second.
async fn slow_pair(world: World) -> (Life, Life) {
    let (world, clock) = (Arc::new(world), Arc::new(PausedClock::new()));
    let backend = Arc::new(FaultBackend::new().clock(clock.clone()));
    let open = async |ids| {
        let builder = Life::builder(backend.clone(), &world).clock(clock.clone());
        let builder = builder.ids(SequenceIds::after(ids));
        Life::over(builder.open().await.unwrap(), &world).await
    };
    let (first, second) = (open(0).await, open(1 << 40).await);
    backend.set_fault(Some(Fault::Slow(SECOND)));
    (first, second)
}

fn cursor(events: u64) -> Cursor {
    events.to_string().parse().unwrap()
}

fn call(tool: &str, key: &str) -> ScriptedReply {
    ScriptedReply::call_tool(tool, json!({ "key": key }))
}

/// A turn that keeps its core busy until it is stopped, and asks a person meanwhile.
fn busy(asking: &str, key: &str) -> World {
    let arguments = if asking == "ask_user" { json!({ "question": key }) } else { json!({ "key": key }) };
    World::new([call("hold", "held").call(asking, arguments)])
}

fn asked(seen: &Snapshot) -> bool {
    !seen.state.interactions.is_empty()
}

fn ended(seen: &Snapshot) -> bool {
    !seen.state.conversation.status.is_open()
}

async fn outcome(life: &Life, key: &str, within: Duration) -> CallOutcome {
    let begun = Instant::now();
    loop {
        if let Some(outcome) = outcome_of(&life.responses().await, key) {
            return outcome;
        }
        assert!(begun.elapsed() <= within, "`{key}` is not settled: {:?}", story(&life.events().await));
        sleep(SECOND / 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_given_at_another_core_is_acted_on_by_the_holder() {
    for (introduced, within) in [(true, SECOND), (false, LOOK + SECOND)] {
        for (tool, answer, expected) in [
            ("send", "approve", CallOutcome::Completed),
            ("send", "deny", CallOutcome::Denied),
            ("send", "cancel", CallOutcome::Cancelled),
            ("ask_user", "answer", CallOutcome::Completed),
        ] {
            let Pair { first, second, world, .. } = pair(busy(tool, "a"), introduced).await;
            first.submit("go").await;
            let shown = second.until("it asks", asked).await.state.interactions.remove(0);
            // What does not fit is refused at once, as by the holder.
            let stale = Resolution::approve(nervekit_types::Digest::of("something else"));
            let refused = second.resolve(&shown, stale).await.unwrap_err();
            match tool {
                "send" => assert!(matches!(refused, CommandError::Stale { .. }), "{refused}"),
                _ => assert!(matches!(refused, CommandError::Invalid(_)), "{refused}"),
            }
            let resolution = match answer {
                "approve" => Resolution::approve(shown.digest),
                "deny" => Resolution::Deny { message: Some("not now".to_owned()), remember: None },
                "cancel" => Resolution::Cancel,
                _ => Resolution::answer("blue"),
            };
            let resolve = Command::Resolve {
                conversation_id: second.id(),
                interaction_id: shown.id,
                resolution: resolution.clone(),
            };
            let request = CommandRequest::new(CommandId::from_key("answer"), resolve)
                .principal(Principal::person("alice"));
            let receipt = second.core.command(request.clone()).await.unwrap();
            assert_eq!(receipt.outcome, CommandOutcome::Resolved { call_id: shown.call_id });
            // It stands, for both: nobody is asked any more, and a second answer is told of the first.
            for life in [&first, &second] {
                assert!(life.interactions().await.is_empty());
                assert_eq!(life.core.command(request.clone()).await.unwrap().outcome, receipt.outcome);
                let late = life.conversation.resolve(shown.id, Resolution::deny()).await.unwrap_err();
                let CommandError::Resolved { by: Some(by) } = late else { panic!("{late}") };
                assert_eq!((&by.resolution, &by.by), (&resolution, &Principal::person("alice")));
            }
            assert_eq!(outcome(&second, "a", within).await, expected, "{answer}, introduced: {introduced}");
            let responses = second.responses().await;
            assert_eq!(responses.last().unwrap().resolution.as_ref().unwrap().resolution, resolution);
            let sent = world.effects().iter().filter(|effect| *effect == "a").count();
            assert_eq!(sent, usize::from(answer == "approve"));
            assert!(second.snapshot().await.state.conversation.status.is_open(), "the holder goes on");
            second.stop("stop").await;
            second.until("it is over", ended).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_at_another_core_holds_for_the_holder() {
    let world = World::new([call("hold", "held").call("send", json!({ "key": "a" })), call("send", "a")]);
    let Pair { first, second, world, .. } = pair(world, true).await;
    world.brief.store(true, Ordering::SeqCst);
    first.submit("go").await;
    let shown = second.until("it asks", asked).await.state.interactions.remove(0);
    let approve = Resolution::approve(shown.digest).remember(Remember::conversation(0));
    second.resolve(&shown, approve).await.unwrap();
    first.until("it is done", ended).await;
    assert_eq!(world.effects(), ["held", "a", "a"]);
    assert_eq!(first.responses().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn of_two_answers_at_two_cores_one_counts_and_the_other_is_told() {
    for (tool, held) in [("hold", true), ("peek", false)] {
        for order in 0..2 {
            let world = World::new([call(tool, "x").call("send", json!({ "key": "a" }))]);
            let Pair { first, second, backend, world, .. } = pair(world, true).await;
            first.submit("go").await;
            let waits = |seen: &Snapshot| asked(seen) && seen.calls.len() == 1 + usize::from(held);
            let shown = second.until("it asks", waits).await.state.interactions.remove(0);
            let store = Store::open(backend, Arc::new(SequenceIds::after(1 << 50))).await.unwrap();
            assert_eq!(!store.lease(first.id()).await.unwrap().unwrap().released, held);
            let (one, two) = if order == 0 { (&first, &second) } else { (&second, &first) };
            let (approved, denied) = tokio::join!(
                one.conversation.resolve(shown.id, Resolution::approve(shown.digest)),
                two.conversation.resolve(shown.id, Resolution::deny()),
            );
            let (winner, loser) = match (&approved, &denied) {
                (Ok(_), Err(error)) => ("approve", error),
                (Err(error), Ok(_)) => ("deny", error),
                both => panic!("{both:?}"),
            };
            let CommandError::Resolved { by: Some(by) } = loser else { panic!("{loser}") };
            assert_eq!(by.resolution.kind(), winner);
            let expected = if winner == "approve" { CallOutcome::Completed } else { CallOutcome::Denied };
            assert_eq!(outcome(&first, "a", SECOND).await, expected);
            let sent = world.effects().iter().filter(|effect| *effect == "a").count();
            assert_eq!(sent, usize::from(winner == "approve"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_for_a_holder_that_died_is_acted_on_by_the_next_one() {
    for answer in ["approve", "deny", "stop"] {
        let Pair { first, second, wire, world, .. } = pair(busy("send", "a"), true).await;
        first.submit("go").await;
        let shown = second.until("it asks", asked).await.state.interactions.remove(0);
        wire.set(Wire::Cut);
        match answer {
            "stop" => {
                assert!(matches!(second.stop("stop").await, CommandOutcome::Stopped { .. }));
            }
            "approve" => drop(second.resolve(&shown, obliging(&shown)).await.unwrap()),
            _ => drop(second.resolve(&shown, Resolution::deny()).await.unwrap()),
        }
        sleep(LEASE / 2).await;
        assert!(second.responses().await.is_empty(), "nobody but the holder acts while its lease holds");
        let within = 2 * LEASE;
        let (sent, end) = match answer {
            "approve" => (CallOutcome::Completed, "completed"),
            "deny" => (CallOutcome::Denied, "completed"),
            _ => (CallOutcome::Cancelled, "cancelled"),
        };
        assert_eq!(outcome(&second, "a", within).await, sent, "{answer}");
        assert_eq!(outcome(&second, "held", within).await, CallOutcome::Indeterminate, "{answer}");
        second.until("it is over", ended).await;
        assert_eq!(ends(&second.events().await), [end]);
        let expected: &[&str] = if answer == "approve" { &["held", "a"] } else { &["held"] };
        assert_eq!(world.effects(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn every_command_is_taken_by_a_core_that_does_not_hold_the_conversation() {
    let Pair { first, second, world, .. } = pair(busy("send", "a"), true).await;
    let conversation_id = second.id();
    first.submit("go").await;
    let shown = second.until("it asks", asked).await.state.interactions.remove(0);
    let execution_id = first.snapshot().await.state.conversation.open_execution.unwrap().id;
    let queued = |key: &str, target| NewInput::new(key).id(InputId::from_key(key)).target(target);
    let send = async |key: &str, command: Command| second.send(key, command).await.map(|done| done.outcome);
    let submit = |key: &str, target| Command::Submit { conversation_id, input: queued(key, target) };

    for (key, command, outcome) in [
        ("title", Command::SetTitle { conversation_id, title: Some("x".to_owned()) }, "title_set"),
        (
            "configure",
            Command::Configure {
                conversation_id,
                change: Box::new(ConfigChange::new().rule_set("autonomous")),
            },
            "configured",
        ),
        ("later", submit("later", DeliveryTarget::NextExecution), "input_accepted"),
        ("this", submit("this", DeliveryTarget::Execution { execution_id }), "input_accepted"),
        ("undone", submit("undone", DeliveryTarget::NextTurn), "input_accepted"),
        (
            "undo",
            Command::CancelInput { conversation_id, input_id: InputId::from_key("undone") },
            "input_cancelled",
        ),
        ("pause", Command::Pause { conversation_id }, "paused"),
        ("resume", Command::Resume { conversation_id }, "resumed"),
    ] {
        assert_eq!(send(key, command).await.unwrap().kind(), outcome, "{key}");
    }
    let busy = send("continue", Command::ContinueProcessing { conversation_id, head: None }).await;
    assert!(matches!(busy, Err(CommandError::Busy(_))), "{busy:?}");
    second.resolve(&shown, obliging(&shown)).await.unwrap();
    outcome(&second, "a", SECOND).await;
    assert!(matches!(second.stop("stop").await, CommandOutcome::Stopped { .. }));
    first.until("it is over", ended).await;

    let snapshot = first.snapshot().await;
    assert_eq!(snapshot.state.conversation.title.as_deref(), Some("x"));
    assert_eq!(snapshot.state.config.rule_set_id, "autonomous");
    assert!(snapshot.state.conversation.paused);
    let waiting: Vec<_> = snapshot.state.queue.iter().map(|input| input.text.as_str()).collect();
    assert_eq!(waiting, ["later"], "what was for the execution has expired");
    assert_eq!(ends(&first.events().await), ["cancelled"]);
    // Repeated at either core, each is answered as before and does nothing.
    let before = first.events().await.len();
    for (request, receipt) in world.acknowledged() {
        for life in [&first, &second] {
            assert_eq!(
                life.core.command(request.clone()).await.unwrap().outcome.kind(),
                receipt.outcome.kind()
            );
        }
    }
    assert_eq!(first.events().await.len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_paused_execution_is_carried_on_from_another_core() {
    let nap = |world: &Arc<Mutex<usize>>| {
        let naps = world.clone();
        let nap = move |_: Key, _: ToolContext| {
            let naps = naps.clone();
            async move {
                sleep(10 * SECOND).await;
                *naps.lock().unwrap() += 1;
                Ok("rested".to_owned())
            }
        };
        Tool::function("nap", "Sleeps.", nap).reviewed(Risk::Read)
    };
    for verb in ["resume", "continue"] {
        // While the holder is busy with a call; and when it has come to rest, so that the other one goes on.
        for after in [4 * SECOND, 14 * SECOND] {
            let naps = Arc::default();
            let world = World::new([call("nap", "a"), ScriptedReply::text("Gone on.")]).tool(nap(&naps));
            let Pair { first, second, world, .. } = pair(world, true).await;
            first.submit("go").await;
            let conversation_id = second.id();
            sleep(SECOND).await;
            second.send("pause", Command::Pause { conversation_id }).await.unwrap();
            sleep(after).await;
            let go_on = match verb {
                "resume" => Command::Resume { conversation_id },
                _ => Command::ContinueProcessing { conversation_id, head: None },
            };
            let done = second.send(verb, go_on).await;
            if verb == "continue" && after < 10 * SECOND {
                assert!(matches!(done, Err(CommandError::Busy(_))), "{done:?}");
                first.until("it is paused", |seen| seen.state.conversation.status == Status::Paused).await;
                assert_eq!(world.model.requests().len(), 1);
                continue;
            }
            done.unwrap();
            first.until("it is over", ended).await;
            assert_eq!(ends(&first.events().await), ["completed"], "{verb} after {after:?}");
            assert_eq!((world.model.requests().len(), *naps.lock().unwrap()), (2, 1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_from_another_core_is_noticed_at_once_or_at_the_next_look() {
    for (introduced, within) in [(true, SECOND), (false, LOOK + SECOND)] {
        let Pair { first, second, world, .. } = pair(World::new([call("hold", "held")]), introduced).await;
        first.submit("go").await;
        first.until("it runs", |seen| seen.calls.iter().any(|call| call.claim.is_some())).await;
        let begun = Instant::now();
        second.stop("stop").await;
        first.until("it is over", ended).await;
        assert!(begun.elapsed() <= within, "after {:?}, introduced: {introduced}", begun.elapsed());
        assert_eq!(ends(&first.events().await), ["cancelled"]);
        assert_eq!(world.effects(), ["held"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_looks_however_much_it_commits_itself() {
    // The results come more often than the holder looks, and none of them touches what the pause is written to.
    let calls = [15, 30, 45, 60].iter().fold(ScriptedReply::new(), |reply, seconds| {
        reply.call("nap", json!({ "key": seconds.to_string() }))
    });
    let nap = |args: Key, _: ToolContext| async move {
        sleep(SECOND * args.key.parse().unwrap()).await;
        Ok("rested".to_owned())
    };
    let nap = Tool::function("nap", "Sleeps.", nap).reviewed(Risk::Read).parallel();
    let Pair { first, second, world, .. } = pair(World::new([calls]).tool(nap), false).await;
    first.submit("go").await;
    sleep(SECOND).await;
    second.send("pause", Command::Pause { conversation_id: second.id() }).await.unwrap();
    first.until("it is paused", |seen| seen.state.conversation.status == Status::Paused).await;
    sleep(LEASE).await;
    assert_eq!(first.responses().await.len(), 4);
    assert_eq!(world.model.requests().len(), 1, "no request is made while it is paused");
}

#[tokio::test(start_paused = true)]
async fn a_call_is_not_begun_after_a_stop_that_was_set_without_knowing_of_it() {
    let (first, second) = slow_pair(World::new([call("stamp", "a")])).await;
    // The input is durable at 1, the message at 2, the claim would be at 3. The other core reads before the message
    // is there, and its mark is durable before the claim is.
    let begun = Instant::now();
    let stop = async {
        sleep_until(begun + SECOND * 19 / 10).await;
        assert!(matches!(second.stop("stop").await, CommandOutcome::Stopped { .. }));
        assert_eq!(begun.elapsed(), SECOND * 29 / 10);
    };
    tokio::join!(first.submit("go"), stop);
    first.until("it is over", ended).await;
    assert_eq!(first.world.effects(), Vec::<String>::new());
    assert_eq!(outcome_of(&first.responses().await, "a"), Some(CallOutcome::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn an_input_for_an_execution_that_ends_at_another_core_does_not_wait_for_ever() {
    let (first, second) = slow_pair(World::new([])).await;
    let begun = Instant::now();
    let submit = async {
        // The execution is open until 2.
        sleep_until(begun + SECOND * 15 / 10).await;
        let execution_id = second.snapshot().await.state.conversation.open_execution.unwrap().id;
        let input = NewInput::new("late").target(DeliveryTarget::Execution { execution_id });
        second.conversation.submit(input).await
    };
    let (_, late) = tokio::join!(first.submit("go"), submit);
    assert!(matches!(late, Err(CommandError::NotOpen(_))), "{late:?}");
    assert!(first.snapshot().await.state.queue.is_empty());
}

/// The events of executions that this input started.
fn delivered(events: &[Event], text: &str) -> usize {
    let said =
        |event: &&Event| matches!(&event.payload, EventPayload::UserMessage(message) if message.text == text);
    events.iter().filter(said).count()
}

#[tokio::test(start_paused = true)]
async fn what_nobody_holds_is_found_by_the_sweep() {
    // An input that was accepted by a core which died before it looked whether anybody would act on it.
    let Pair { first, second, wire, backend, .. } = pair(World::new([]), false).await;
    first.submit("go").await;
    first.until("it is over", |seen| ended(seen) && seen.state.conversation.head_event_id.is_some()).await;
    wire.set(Wire::Cut);
    let store = Store::open(backend.clone(), Arc::new(SequenceIds::after(1 << 50))).await.unwrap();
    let rows = store.load(second.id()).await.unwrap().unwrap();
    assert!(rows.lease.as_ref().unwrap().value.released);
    let mut draft = Draft::new(&rows, Role::Mailbox, backend.now().await.unwrap());
    let input = json!({
        "id": InputId::from_key("left"), "conversation_id": second.id(), "acceptance_sequence": 0,
        "source": "user", "submitter": Principal::local(), "sender_conversation_id": null, "text": "left",
        "images": [], "target": DeliveryTarget::NextTurn, "wake_when_idle": true, "accepted_at": draft.now(),
    });
    draft.enqueue(serde_json::from_value(input).unwrap());
    let mut batch = store.batch();
    batch.change(&rows, draft.finish()).unwrap();
    store.commit(&mut batch).await.unwrap();
    sleep(LEASE + SECOND).await;
    second.until("it is over", ended).await;
    assert_eq!(delivered(&second.events().await, "left"), 1);

    // An execution whose core was shut down.
    let Pair { first, second, world, .. } = pair(World::new([call("hold", "held")]), false).await;
    first.submit("go").await;
    first.until("it runs", |seen| seen.calls.iter().any(|call| call.claim.is_some())).await;
    assert_eq!(first.core.shutdown(SECOND).await.abandoned, 0);
    sleep(LEASE + SECOND).await;
    second.until("it is over", ended).await;
    assert_eq!(ends(&second.events().await), ["interrupted"]);
    second.go_on().await;
    second.until("it is over", |seen| seen.state.conversation.status == Status::Idle).await;
    assert_eq!(ends(&second.events().await), ["interrupted", "completed"]);
    assert_eq!(world.effects(), ["held"]);
}

async fn go(life: &Life) {
    life.submit("go").await;
}

/// Gives the conversation to the first core, does something at the second one at every tenth of a second, and sees
/// that whatever comes of it comes soon, and not when somebody happens to look.
async fn at_any_moment(
    moments: std::ops::Range<u32>,
    world: impl Fn() -> World,
    first_does: impl AsyncFn(&Life),
    second_does: impl AsyncFn(&Life),
    done: impl Fn(&Snapshot) -> bool,
) {
    for tenth in moments {
        let (first, second) = slow_pair(world()).await;
        let begun = Instant::now();
        let second_acts = async {
            sleep_until(begun + SECOND * tenth / 10).await;
            second_does(&second).await;
        };
        tokio::join!(first_does(&first), second_acts);
        second.until("it is done", &done).await;
        assert!(begun.elapsed() < LOOK, "at {tenth}: after {:?}", begun.elapsed());
        let request = second.world.model.requests().pop();
        assert_eq!(request.and_then(|request| life::unpaired(&request)), None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_input_that_comes_as_the_other_core_comes_to_rest_is_not_left_lying() {
    let submit = async |life: &Life| {
        let receipt = life.submit("and this").await;
        assert!(matches!(receipt.outcome, CommandOutcome::InputAccepted { .. }));
    };
    let delivered = |seen: &Snapshot| ended(seen) && seen.state.queue.is_empty() && seen.cursor > cursor(3);
    at_any_moment(0..45, || World::new([]), go, submit, delivered).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_comes_as_the_other_core_begins_to_wait_is_carried_out() {
    let world = || World::new([call("stamp", "a").call("send", json!({ "key": "b" }))]);
    let stop = async |life: &Life| {
        assert!(matches!(life.stop("stop").await, CommandOutcome::Stopped { .. }));
    };
    let stopped = |seen: &Snapshot| ended(seen) && seen.state.conversation.paused;
    at_any_moment(11..65, world, go, stop, stopped).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_as_the_other_core_begins_to_wait_is_acted_on() {
    let world = || World::new([call("stamp", "a").call("send", json!({ "key": "b" }))]);
    let approve = async |life: &Life| {
        let shown = life.until("it asks", asked).await.state.interactions.remove(0);
        life.resolve(&shown, obliging(&shown)).await.unwrap();
    };
    at_any_moment(20..60, world, go, approve, |seen| ended(seen) && seen.cursor > cursor(6)).await;
}

#[tokio::test(start_paused = true)]
async fn an_end_of_a_pause_that_comes_as_the_other_core_comes_to_rest_is_carried_out() {
    let world = || {
        let first = AtomicBool::new(true);
        World::with(ScriptedModel::from_fn(move |_| {
            if first.swap(false, Ordering::SeqCst) {
                // Tried again after a while.
                let overloaded = ProviderError::new(ProviderErrorKind::Overloaded, "too much");
                return ScriptedReply::new().then_fails(overloaded);
            }
            ScriptedReply::text("Done.")
        }))
    };
    // The holder knows of the pause, and comes to rest when it would try again.
    let pause = async |life: &Life| {
        go(life).await;
        life.send("pause", Command::Pause { conversation_id: life.id() }).await.unwrap();
    };
    let resume = async |life: &Life| {
        life.send("resume", Command::Resume { conversation_id: life.id() }).await.unwrap();
    };
    at_any_moment(31..80, world, pause, resume, |seen| ended(seen) && seen.cursor > cursor(3)).await;
}
