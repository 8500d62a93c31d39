//! Hooks are told of every event, in order, however slow or broken they are; and none of that holds a conversation up.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "common/life.rs"]
mod life;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nervekit_conversation_core::{
    CommandOutcome, Event, EventPayload, Hook, HookError, MemoryBackend, RuntimeLimits, Snapshot,
    ToolCallResponse,
};
use nervekit_harness::{ScriptedModel, ScriptedReply};
use nervekit_types::{ConversationId, EventId, ToolCallId};
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::life::{Life, World, ends};

const SECOND: Duration = Duration::from_secs(1);

/// What a hook was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Event(EventId),
    Call(ToolCallId),
}

/// Takes its time with events, and fails at some.
#[derive(Debug)]
struct Listener {
    told: Arc<Mutex<Vec<Told>>>,
    takes: fn(u64) -> Duration,
    breaks: bool,
}

impl Listener {
    fn new(takes: fn(u64) -> Duration) -> (Self, Arc<Mutex<Vec<Told>>>) {
        let told = Arc::<Mutex<Vec<_>>>::default();
        (Self { told: told.clone(), takes, breaks: false }, told)
    }
}

#[async_trait]
impl Hook for Listener {
    async fn on_event(&self, event: &Event) -> Result<(), HookError> {
        sleep((self.takes)(event.sequence)).await;
        self.told.lock().unwrap().push(Told::Event(event.id));
        match event.sequence % 3 {
            _ if !self.breaks => Ok(()),
            0 => panic!("a fault of the hook"),
            1 => Err("it does not want to".into()),
            _ => Ok(()),
        }
    }

    async fn after_tool_call(&self, _: ConversationId, response: &ToolCallResponse) -> Result<(), HookError> {
        self.told.lock().unwrap().push(Told::Call(response.call_id));
        Ok(())
    }
}

fn call(tool: &str, key: &str) -> ScriptedReply {
    ScriptedReply::call_tool(tool, json!({ "key": key }))
}

async fn open(world: World, hook: Listener) -> Life {
    let world = Arc::new(world);
    let builder = Life::builder(MemoryBackend::new(), &world).hook(hook);
    let limits = RuntimeLimits::new().hook_time(30 * SECOND);
    Life::over(builder.limits(limits).open().await.unwrap(), &world).await
}

/// What is to be told of these events.
fn all(events: &[Event]) -> Vec<Told> {
    let told = events.iter().flat_map(|event| {
        let call = match &event.payload {
            EventPayload::ToolCallResponse(response) => Some(Told::Call(response.call_id)),
            _ => None,
        };
        std::iter::once(Told::Event(event.id)).chain(call)
    });
    told.collect()
}

fn ended(seen: &Snapshot) -> bool {
    !seen.state.conversation.status.is_open() && seen.state.queue.is_empty()
}

#[tokio::test(start_paused = true)]
async fn each_event_is_told_in_order_however_slow_or_broken_a_hook_is() {
    // The sooner an event, the longer it takes to be told.
    let (hook, told) = Listener::new(|sequence| Duration::from_millis(20_000 / (sequence + 1)));
    let hook = Listener { breaks: true, ..hook };
    let replies = [call("stamp", "a").call("peek", json!({ "key": "b" })), call("peek", "c")];
    let life = open(World::new(replies), hook).await;
    let begun = Instant::now();
    for text in ["one", "two", "three"] {
        life.submit(text).await;
        life.until("it is over", ended).await;
    }
    // Whoever asks for something does not wait for the hook.
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    assert!(told.lock().unwrap().is_empty());
    let events = life.events().await;
    assert!(events.len() > 15 && ends(&events) == ["completed"; 3]);
    assert_eq!(life.core.shutdown(1_000 * SECOND).await.abandoned, 0);
    assert_eq!(*told.lock().unwrap(), all(&events));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_takes_too_long_is_given_up_and_told_of_the_next_event() {
    let (hook, told) = Listener::new(|sequence| if sequence == 1 { 1_000 * SECOND } else { SECOND });
    let life = open(World::new([]), hook).await;
    life.submit("go").await;
    life.until("it is over", ended).await;
    let events = life.events().await;
    life.core.shutdown(1_000 * SECOND).await;
    let mut expected = all(&events);
    expected.remove(1);
    assert_eq!(*told.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_hooks_and_not_beyond_its_deadline() {
    let (hook, told) = Listener::new(|_| 10 * SECOND);
    let life = open(World::new([]), hook).await;
    life.submit("go").await;
    life.until("it is over", ended).await;
    let events = life.events().await.len();
    assert_eq!(events, 4);
    let begun = Instant::now();
    life.core.shutdown(25 * SECOND).await;
    assert_eq!(begun.elapsed(), 25 * SECOND);
    // And nothing of the host's runs afterwards.
    sleep(1_000 * SECOND).await;
    assert_eq!(told.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn hooks_that_cannot_keep_up_slow_the_model_down_and_nothing_else() {
    // A model that never comes to an end, and a hook that needs as long for an event as the model for a turn.
    let world = World::with(ScriptedModel::from_fn(|_| call("peek", "a")));
    let world = world.configured(|config| config.limits = config.limits.turns(100_000));
    let (hook, told) = Listener::new(|_| 10 * SECOND);
    let life = open(world, hook).await;
    life.submit("go").await;
    sleep(100 * SECOND).await;
    let events = told.lock().unwrap().iter().filter(|told| matches!(told, Told::Event(_))).count();
    let behind = life.events().await.len() - events;
    assert!((256..300).contains(&behind), "{behind} events wait");
    let begun = Instant::now();
    assert!(matches!(life.stop("stop").await, CommandOutcome::Stopped { .. }));
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    assert_eq!(ends(&life.events().await), ["cancelled"]);
}
