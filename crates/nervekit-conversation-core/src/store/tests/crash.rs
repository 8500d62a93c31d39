//! The life of a conversation, crashed before and after each of its commits.

use std::sync::Mutex;

use super::*;
use crate::input::InputFate;
use crate::testing::{CrashCheck, CrashMatrix, FaultBackend};

/// What the process was told is durable: it survives in the memory of whoever was told.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<&'static str>>);

impl Told {
    fn durable(&self, step: &'static str) {
        self.0.lock().unwrap().push(step);
    }
}

/// The steps of the life, in order; each is one batch.
const STEPS: [&str; 11] = [
    "project",
    "created",
    "accepted",
    "started",
    "asked",
    "suspended",
    "marked",
    "settled",
    "ended",
    "held",
    "let go",
];

/// Lives the life, and tells each step when it is durable.
async fn live(backend: Arc<FaultBackend>, told: &Told) {
    let clock = Arc::<ManualClock>::default();
    let store = Store::open(backend.clone(), Arc::<SequenceIds>::default()).await.unwrap();
    let ids = store.ids.clone();
    let world = World {
        backend,
        clock,
        ids: Arc::<SequenceIds>::default(),
        store,
        id: ConversationId::from_key("a"),
        me: IncarnationId::next(&ids),
    };
    let project = world.project().await;
    told.durable("project");
    world.create(world.id, project).await;
    told.durable("created");

    let mut mail = world.rows().await;
    world.mail(&mut mail, |draft| draft.enqueue(world.input("prompt"))).await.unwrap();
    told.durable("accepted");

    let mut rows = mail;
    let (lease, prompt) = (world.lease(&rows, world.me), rows.queue[&1].value.clone());
    world
        .own(&mut rows, |draft| {
            draft.hold_lease(lease);
            start(draft, "start");
            let event_id = EventId::from_key("delivery");
            draft.append(note(event_id, "prompt"));
            draft.dequeue(&prompt, InputFate::Delivered { event_id });
        })
        .await
        .unwrap();
    told.durable("started");

    let (first, second) = (world.call("first", CallState::Running), world.call("second", CallState::Ready));
    world
        .own(&mut rows, |draft| {
            say(draft, EventId::from_key("message"), "two calls");
            draft.put_call(first.clone());
            draft.put_call(second.clone());
            draft.put_file_read("/a", nervekit_types::Digest::of("a"));
        })
        .await
        .unwrap();
    told.durable("asked");

    world
        .own(&mut rows, |draft| {
            say(draft, EventId::from_key("result"), "first");
            draft.remove_call(first.id);
            draft.put_call(ToolCall { state: CallState::AwaitingInput, ..second.clone() });
            say(draft, EventId::from_key("waiting"), "second waits");
        })
        .await
        .unwrap();
    told.durable("suspended");

    // Somebody stops it, and sends one more prompt.
    let mut mail = world.rows().await;
    world
        .mail(&mut mail, |draft| {
            draft.mark_cancelled();
            draft.enqueue(world.input("next"));
        })
        .await
        .unwrap();
    told.durable("marked");

    let mut rows = world.rows().await;
    world
        .own(&mut rows, |draft| {
            say(draft, EventId::from_key("cancelled"), "second");
            draft.remove_call(second.id);
        })
        .await
        .unwrap();
    told.durable("settled");

    world
        .own(&mut rows, |draft| {
            draft.end_execution(EventId::from_key("end"), ExecutionState::Cancelled);
            draft.release_lease();
        })
        .await
        .unwrap();
    told.durable("ended");

    world.mail(&mut rows, |draft| draft.mailbox_mut().held_through = 2).await.unwrap();
    told.durable("held");
    world.mail(&mut rows, |draft| draft.mailbox_mut().held_through = 0).await.unwrap();
    told.durable("let go");
}

/// What must be there after the first so many steps.
fn expected(steps: usize) -> String {
    let events = [0, 0, 0, 2, 3, 5, 5, 6, 7, 7, 7][steps.saturating_sub(1)];
    let calls = [0, 0, 0, 0, 2, 1, 1, 0, 0, 0, 0][steps.saturating_sub(1)];
    let queued = [0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1][steps.saturating_sub(1)];
    let unfinished =
        [false, false, true, true, true, true, true, true, true, false, true][steps.saturating_sub(1)];
    if steps < 2 { "nothing".to_owned() } else { state(events, calls, queued, unfinished) }
}

fn state(events: usize, calls: usize, queued: usize, unfinished: bool) -> String {
    format!(
        "{events} events, {calls} calls, {queued} queued, {}",
        if unfinished { "listed" } else { "at rest" }
    )
}

#[tokio::test]
async fn after_a_crash_each_batch_is_there_as_a_whole_or_not_at_all() {
    let mut matrix = CrashMatrix::new();
    let scenario = matrix.scenario(
        "a life",
        Told::default,
        async |backend: Arc<FaultBackend>, told: Arc<Told>| live(backend, &told).await,
        async |_: Arc<FaultBackend>, _: Arc<Told>| (),
        async |backend: Arc<FaultBackend>, told: Arc<Told>, point| {
            let (clock, ids) = (Arc::<ManualClock>::default(), Arc::new(SequenceIds::after(1_000)));
            let store = Store::open(backend, ids).await.unwrap();
            let report = store.verify().await.unwrap();
            assert!(report.is_clean(), "{report:?}");
            let told = told.0.lock().unwrap().len();
            // The first commit is the format marker's.
            let durable = point
                .map_or(STEPS.len(), |point| usize::try_from(point.durable()).unwrap().saturating_sub(1));
            assert!(told == durable || told + 1 == durable, "what was told is durable: {told}, {durable}");

            let id = ConversationId::from_key("a");
            let listed = store.unfinished().await.unwrap().contains(&id);
            let seen = match store.load(id).await.unwrap() {
                None => "nothing".to_owned(),
                Some(rows) => {
                    assert_eq!(rows.is_unfinished(), listed);
                    let events = store.events(id, EventRange::from(0)).await.unwrap();
                    let (entries, end) = store.index_from(0, usize::MAX).await.unwrap();
                    assert_eq!(
                        entries.iter().map(|(_, e)| e.last - e.first + 1).sum::<u64>(),
                        events.len() as u64
                    );
                    assert_eq!(end, store.stored_index_end().await.unwrap());
                    // The owner is dead: whoever opens the store may go on at once.
                    let (opening, now) = (store.facts().opening, clock.now());
                    let me = IncarnationId::from_key("successor");
                    assert!(!rows.lease.is_some_and(|lease| lease.value.is_foreign(me, opening, now)));
                    state(events.len(), rows.calls.len(), rows.queue.len(), listed)
                }
            };
            CrashCheck::new(expected(durable), seen)
        },
    );
    Box::pin(scenario).await;
    println!("{matrix}");
    assert!(matrix.is_clean(), "{matrix}");
    assert_eq!(matrix.lines().len(), 1 + 2 * (STEPS.len() + 1));
}
