//! Random work of two cores and a sender on a few conversations, over one backend that is reopened now and then,
//! compared step by step with a plain model: what is refused and why, what is there afterwards, and what is listed
//! as unfinished.

#![cfg(feature = "redb")]
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "seed/store.rs"]
mod seed;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use nervekit_conversation_core::store::{CommitError, Draft, EventRange, Role, Rows, Store};
use nervekit_conversation_core::{
    Backend, CallState, EventPayload, ExecutionState, FailureReason, InputFate, Lease, MemoryBackend, Status,
};
use nervekit_store::RedbBackend;
use nervekit_types::testing::{ManualClock, SeededEntropy, SequenceIds};
use nervekit_types::{
    Clock, ConversationId, EventId, ExecutionId, IncarnationId, InputId, ToolCallId, TurnId,
};
use serde_json::json;

/// How long a lease lasts.
const LEASE: Duration = Duration::from_secs(30);
const CONVERSATIONS: usize = 3;

/// Who acts: two cores, and one that only sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Actor {
    First,
    Second,
    Sender,
}

impl Actor {
    fn incarnation(self) -> IncarnationId {
        IncarnationId::from_key(&format!("{self:?}"))
    }

    const fn role(self) -> Role {
        match self {
            Self::First | Self::Second => Role::Owner,
            Self::Sender => Role::Mailbox,
        }
    }
}

/// What an actor does to a conversation in one batch.
#[derive(Clone, Debug)]
enum Step {
    /// Takes or prolongs the lease.
    Hold(Lease),
    Release,
    /// Opens an execution, delivering the first input if there is one.
    Start,
    Deliver,
    Note,
    /// Writes a message with so many calls.
    Ask(u64),
    Settle(ToolCallId),
    Suspend(ToolCallId),
    End(Ending),
    Enqueue {
        wakes: bool,
    },
    Cancel,
    /// Holds what is queued, or lets it go.
    HoldQueue(bool),
    Pause(bool),
    Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Completed,
    Failed,
    Interrupted,
}

/// A conversation as the model knows it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Conversation {
    /// The kinds of its events.
    events: Vec<String>,
    open: Option<ExecutionId>,
    status: Option<Status>,
    /// Calls, and whether each waits for a person, and is to be called off.
    calls: BTreeMap<ToolCallId, (bool, bool)>,
    /// Queued inputs, and whether each wakes.
    queue: BTreeMap<u64, (InputId, bool)>,
    fates: BTreeMap<InputId, &'static str>,
    accepted: u64,
    held: u64,
    paused: bool,
    mark: Option<ExecutionId>,
    revision: u64,
    mailbox_sequence: u64,
    holder: Option<IncarnationId>,
}

impl Conversation {
    fn wakes(&self) -> bool {
        self.queue.iter().any(|(at, (_, wakes))| *wakes && *at > self.held)
    }

    fn works(&self) -> bool {
        self.open.is_some() || !self.calls.is_empty()
    }

    /// What the rows say of it; events and fates are read on their own.
    fn of(rows: &Rows) -> Self {
        let (core, mailbox) = (&rows.core.value, &rows.mailbox.value);
        let calls = rows.calls.values().map(|row| &row.value);
        let queue = rows.queue.iter().map(|(at, row)| (*at, (row.value.id, row.value.wake_when_idle)));
        let holder = rows.lease.as_ref().map(|row| row.value).filter(|lease| !lease.released);
        Self {
            events: Vec::new(),
            open: rows.open_execution(),
            status: Some(core.status),
            calls: calls.map(|call| (call.id, (call.state.is_suspended(), call.cancel_requested))).collect(),
            queue: queue.collect(),
            fates: BTreeMap::new(),
            accepted: mailbox.last_input_sequence,
            held: mailbox.held_through,
            paused: mailbox.paused,
            mark: mailbox.cancel_mark.map(|mark| mark.execution_id),
            revision: core.revision,
            mailbox_sequence: mailbox.mailbox_sequence,
            holder: holder.map(|lease| lease.incarnation),
        }
    }

    /// Carries a step out. Returns whether it wrote the mailbox row, and whether it only holds if that row is as it
    /// was read.
    fn apply(&mut self, step: &Step, role: Role, drafted: &Drafted) -> (bool, bool) {
        let mut mailbox = false;
        let mut guarded = false;
        match step {
            Step::Hold(lease) => self.holder = Some(lease.incarnation),
            Step::Release => self.holder = None,
            Step::Start => {
                self.events.push("started".to_owned());
                self.open = drafted.execution;
                mailbox = drafted.delivers && self.deliver();
            }
            Step::Deliver => mailbox = self.deliver(),
            Step::Note => self.events.push("notification".to_owned()),
            Step::Ask(_) => {
                self.events.push("notification".to_owned());
                self.calls.extend(drafted.calls.iter().map(|id| (*id, (false, false))));
            }
            Step::Settle(call) => {
                self.events.push("notification".to_owned());
                self.calls.remove(call);
            }
            Step::Suspend(call) => self.calls.get_mut(call).unwrap().0 = true,
            Step::End(ending) => {
                let (name, status) = match ending {
                    Ending::Completed => ("completed", Status::Idle),
                    Ending::Failed => ("failed", Status::Failed),
                    Ending::Interrupted => ("interrupted", Status::Interrupted),
                };
                self.events.push(name.to_owned());
                if *ending != Ending::Completed {
                    self.held = self.accepted;
                    mailbox = true;
                }
                if self.mark.is_some() && self.mark == self.open {
                    self.mark = None;
                    mailbox = true;
                }
                self.open = None;
                self.status = Some(status);
                guarded = true;
            }
            Step::Enqueue { wakes } => {
                self.accepted += 1;
                self.queue.insert(self.accepted, (drafted.input.unwrap(), *wakes));
                self.fates.insert(drafted.input.unwrap(), "queued");
                mailbox = true;
            }
            Step::Cancel => {
                let (_, (input, _)) = self.queue.pop_first().unwrap();
                self.fates.insert(input, "cancelled");
                mailbox = true;
            }
            Step::HoldQueue(held) => {
                self.held = if *held { self.accepted } else { 0 };
                mailbox = true;
            }
            Step::Pause(paused) => {
                self.paused = *paused;
                mailbox = true;
            }
            Step::Mark => {
                self.mark = drafted.execution;
                for call in &drafted.calls {
                    self.calls.get_mut(call).unwrap().1 = true;
                }
                mailbox = true;
            }
        }
        if role == Role::Owner {
            self.revision += 1;
            if self.open.is_some() {
                let waits = !self.calls.is_empty() && self.calls.values().all(|(suspended, _)| *suspended);
                self.status = Some(if waits { Status::Waiting } else { Status::Running });
            }
        }
        if mailbox {
            self.mailbox_sequence += 1;
        }
        (mailbox, guarded)
    }

    fn deliver(&mut self) -> bool {
        let Some((_, (input, _))) = self.queue.pop_first() else { return false };
        self.events.push("notification".to_owned());
        self.fates.insert(input, "delivered");
        true
    }
}

/// What a draft drew.
#[derive(Clone, Debug, Default)]
struct Drafted {
    execution: Option<ExecutionId>,
    input: Option<InputId>,
    calls: BTreeSet<ToolCallId>,
    /// Whether there was an input to deliver, going by the rows that were known.
    delivers: bool,
}

/// A backend that can be opened again.
trait Place {
    /// Opens it, for the first time or again. Whoever had it open before is gone.
    fn open(&mut self) -> Pin<Box<dyn Future<Output = Arc<dyn Backend>> + '_>>;
}

struct Memory(Option<Arc<MemoryBackend>>, Arc<ManualClock>);

impl Place for Memory {
    fn open(&mut self) -> Pin<Box<dyn Future<Output = Arc<dyn Backend>> + '_>> {
        let opened = self.0.take().map_or_else(MemoryBackend::new, |before| before.snapshot());
        let opened = Arc::new(opened.clock(self.1.clone()));
        self.0 = Some(opened.clone());
        Box::pin(async { opened as Arc<dyn Backend> })
    }
}

struct File(tempfile::TempDir, Arc<ManualClock>);

impl Place for File {
    fn open(&mut self) -> Pin<Box<dyn Future<Output = Arc<dyn Backend>> + '_>> {
        let options = RedbBackend::options(self.0.path().join("store.redb")).clock(self.1.clone());
        Box::pin(async { Arc::new(options.lock_wait(Duration::from_secs(10)).open().await.unwrap()) as _ })
    }
}

struct World<'a> {
    place: &'a mut dyn Place,
    clock: Arc<ManualClock>,
    ids: Arc<SequenceIds>,
    dice: SeededEntropy,
    /// One store for each actor, over the same backend.
    stores: BTreeMap<Actor, Store>,
    conversations: Vec<ConversationId>,
    model: BTreeMap<ConversationId, Conversation>,
    /// The rows as each actor last saw them.
    seen: BTreeMap<(Actor, ConversationId), Rows>,
    /// What happened how often: a run that never meets a case proves nothing about it.
    met: BTreeMap<String, u64>,
}

impl World<'_> {
    fn below(&self, end: u64) -> u64 {
        self.dice.next_u64() % end
    }

    async fn open(&mut self) {
        self.stores.clear();
        let backend = self.place.open().await;
        for actor in [Actor::First, Actor::Second, Actor::Sender] {
            let store = Store::open(backend.clone(), self.ids.clone()).await.unwrap();
            self.stores.insert(actor, store);
        }
    }

    async fn rows(&self, id: ConversationId) -> Rows {
        self.stores[&Actor::Sender].load(id).await.unwrap().unwrap()
    }

    /// What an actor might do, going by the rows it knows.
    fn choose(&self, actor: Actor, rows: &Rows) -> Option<Step> {
        let choice = self.below(16);
        if actor == Actor::Sender {
            return Some(match choice {
                0..6 if rows.queue.len() < 6 => Step::Enqueue { wakes: choice < 4 },
                0..9 if !rows.queue.is_empty() => Step::Cancel,
                9..11 => Step::HoldQueue(choice == 9),
                11..13 => Step::Pause(choice == 11),
                13.. if rows.open_execution().is_some() => Step::Mark,
                _ => return None,
            });
        }
        let lease = rows.lease.as_ref().map(|row| row.value);
        let (me, opening) = (actor.incarnation(), self.stores[&actor].facts().opening);
        let mine = lease.is_some_and(|lease| !lease.released && lease.incarnation == me);
        if !mine || choice == 0 {
            let free = lease.is_none_or(|lease| {
                lease.released
                    || lease.incarnation == me
                    || lease.expiry <= self.clock.now()
                    || lease.opening != opening
            });
            let epoch = lease.map_or(1, |lease| lease.epoch + u64::from(!mine));
            let hold = json!({
                "opening": opening,
                "incarnation": me,
                "epoch": epoch,
                "expiry": self.clock.now().saturating_add(LEASE),
                "released": false,
            });
            return free.then(|| Step::Hold(serde_json::from_value(hold).unwrap()));
        }
        let call = || {
            let calls: Vec<_> = rows.calls.keys().copied().collect();
            calls[usize::try_from(self.below(calls.len() as u64)).unwrap()]
        };
        let open = rows.open_execution().is_some();
        Some(match choice {
            1 => Step::Release,
            2 => Step::Note,
            3 if rows.queue.len() < 6 => Step::Enqueue { wakes: true },
            4..8 if !open => Step::Start,
            4 if !rows.queue.is_empty() => Step::Deliver,
            5..8 if open => Step::Ask(1 + self.below(3)),
            8..12 if !rows.calls.is_empty() => Step::Settle(call()),
            12 if !rows.calls.is_empty() => Step::Suspend(call()),
            12..16 if open && rows.calls.is_empty() => Step::End(
                [Ending::Completed, Ending::Failed, Ending::Interrupted]
                    [usize::try_from(self.below(3)).unwrap()],
            ),
            _ => return None,
        })
    }

    fn draft(&self, draft: &mut Draft<'_>, step: &Step) -> Drafted {
        let mut drafted = Drafted { delivers: !draft.rows().queue.is_empty(), ..Drafted::default() };
        let (id, ids) = (draft.rows().id, &self.ids);
        let event = || EventId::next(ids);
        let deliver = |draft: &mut Draft<'_>| {
            let first = draft.rows().queue.values().next().map(|row| row.value.clone());
            if let Some(input) = first {
                let event_id = event();
                draft.append(seed::note(event_id, "delivered").input(input.id));
                draft.dequeue(&input, InputFate::Delivered { event_id });
            }
        };
        let mut execution = draft.rows().open_execution();
        match step {
            Step::Hold(lease) => draft.hold_lease(*lease),
            Step::Release => draft.release_lease(),
            Step::Start => {
                execution = Some(draft.open_execution(event(), TurnId::next(ids)));
                deliver(draft);
            }
            Step::Deliver => deliver(draft),
            Step::Note => drop(draft.append(seed::note(event(), "note")).id),
            Step::Ask(calls) => {
                draft.append(seed::note(event(), "asked"));
                for _ in 0..*calls {
                    let call = seed::call(ids, id, execution.unwrap(), &json!({ "path": "a" }));
                    drafted.calls.insert(call.id);
                    draft.put_call(call);
                }
            }
            Step::Settle(call) => {
                draft.append(seed::note(event(), "settled"));
                draft.remove_call(*call);
            }
            Step::Suspend(call) => {
                let mut call = nervekit_conversation_core::ToolCall::clone(draft.call(*call).unwrap());
                call.state = CallState::AwaitingInput;
                draft.put_call(call);
            }
            Step::End(ending) => {
                let state = match ending {
                    Ending::Completed => ExecutionState::Completed { denied: Vec::new() },
                    Ending::Failed => {
                        let (reason, message) = (FailureReason::TurnLimit { limit: 1 }, "enough".to_owned());
                        ExecutionState::Failed { reason, message, denied: Vec::new() }
                    }
                    Ending::Interrupted => ExecutionState::Interrupted,
                };
                draft.end_execution(event(), state);
            }
            Step::Enqueue { wakes } => {
                let input = seed::input(ids, id, *wakes);
                drafted.input = Some(input.id);
                draft.enqueue(input);
            }
            Step::Cancel => {
                let input = draft.rows().queue.values().next().unwrap().value.clone();
                draft.dequeue(&input, InputFate::Cancelled);
            }
            Step::HoldQueue(held) => {
                let last = draft.mailbox().last_input_sequence;
                draft.mailbox_mut().held_through = if *held { last } else { 0 };
            }
            Step::Pause(paused) => draft.mailbox_mut().paused = *paused,
            Step::Mark => {
                let unmarked = draft.calls().filter(|call| !call.cancel_requested).map(|call| call.id);
                drafted.calls = unmarked.collect();
                draft.mark_cancelled();
            }
        }
        drafted.execution = execution;
        drafted
    }

    /// One actor takes one step on one conversation, if it finds one to take.
    async fn act(&mut self) {
        let id = self.conversations[usize::try_from(self.below(CONVERSATIONS as u64)).unwrap()];
        let actor = [Actor::First, Actor::Second, Actor::Sender][usize::try_from(self.below(3)).unwrap()];
        if self.below(3) == 0 {
            let rows = self.rows(id).await;
            self.seen.insert((actor, id), rows);
        }
        let mut rows = self.seen[&(actor, id)].clone();
        let Some(step) = self.choose(actor, &rows) else { return };
        let role = actor.role();
        let mut draft = Draft::new(&rows, role, self.clock.now());
        let drafted = self.draft(&mut draft, &step);
        let mut batch = self.stores[&actor].batch();
        batch.change(&rows, draft.finish()).unwrap();

        // Which rows the batch needs as they were read: the model says.
        let stored = self.rows(id).await;
        let mut after = Conversation { fates: self.model[&id].fates.clone(), ..Conversation::of(&rows) };
        let before = after.clone();
        let (writes_mailbox, guards_mailbox) = after.apply(&step, role, &drafted);
        let ends_work = before.works() && !after.works() && (before.wakes() || !after.wakes());
        let ends_wait = before.wakes() && !after.wakes() && (before.works() || !after.works());
        let stale = |row: &str| match row {
            "lease" => {
                rows.lease.as_ref().map(|row| row.version) != stored.lease.as_ref().map(|row| row.version)
            }
            "core" => rows.core.version != stored.core.version,
            "mailbox" => rows.mailbox.version != stored.mailbox.version,
            "calls" => {
                let touched = match &step {
                    Step::Settle(call) | Step::Suspend(call) => BTreeSet::from([*call]),
                    Step::Mark => drafted.calls.clone(),
                    _ => BTreeSet::new(),
                };
                let version = |rows: &Rows, id| rows.calls.get(id).map(|row| row.version);
                touched.iter().any(|id| version(&rows, id) != version(&stored, id))
            }
            other => panic!("{other}"),
        };
        let owner = role == Role::Owner;
        let needs_mailbox = writes_mailbox || guards_mailbox || ends_work || ends_wait;
        let fenced = owner && stale("lease");
        let refused = (owner || ends_work || ends_wait) && stale("core")
            || needs_mailbox && stale("mailbox")
            || stale("calls");

        let result = self.stores[&actor].commit(&mut batch).await;
        let words = format!("{actor:?} {step:?} on {id}: {result:?}");
        let case = match &result {
            Ok(_) => format!("{} committed", name(&step)),
            Err(CommitError::Fenced) => "fenced".to_owned(),
            Err(CommitError::Conflict { record }) => format!("conflict over {record}"),
            Err(other) => panic!("{other}: {words}"),
        };
        *self.met.entry(case).or_default() += 1;
        match result {
            Ok(mut committed) => {
                assert!(!fenced && !refused, "{words}");
                if let Step::Hold(lease) = &step {
                    let held = stored.lease.as_ref().map(|row| row.value).filter(|held| {
                        !held.released && held.opening == lease.opening && held.expiry > self.clock.now()
                    });
                    assert!(
                        held.is_none_or(|held| held.incarnation == lease.incarnation),
                        "both hold it: {words}"
                    );
                } else if owner {
                    assert_eq!(self.model[&id].holder, Some(actor.incarnation()), "{words}");
                }
                self.model.get_mut(&id).unwrap().apply(&step, role, &drafted);
                let current = format!("{rows:?}") == format!("{stored:?}");
                rows.apply(&mut committed);
                let stored = self.rows(id).await;
                if current {
                    assert_eq!(format!("{rows:?}"), format!("{stored:?}"), "{words}");
                }
                self.seen.insert((actor, id), rows);
            }
            Err(CommitError::Fenced) => {
                assert!(fenced, "{words}");
                self.seen.insert((actor, id), stored);
            }
            Err(_) => {
                assert!(!fenced && refused, "{words}");
                self.seen.insert((actor, id), stored);
            }
        }
        self.check(id, &words).await;
    }

    /// Compares one conversation with the model, and the list with all of them.
    async fn check(&self, id: ConversationId, words: &str) {
        let (model, rows) = (&self.model[&id], self.rows(id).await);
        let store = &self.stores[&Actor::First];
        let mut seen = Conversation::of(&rows);
        seen.events.clone_from(&model.events);
        seen.fates.clone_from(&model.fates);
        seen.status = model.status.and(seen.status);
        assert_eq!(seen, *model, "{words}");
        assert_eq!(rows.core.value.next_event_sequence, model.events.len() as u64, "{words}");
        let expected: Vec<ConversationId> = self
            .model
            .iter()
            .filter(|(_, model)| model.works() || model.wakes())
            .map(|(id, _)| *id)
            .collect();
        assert_eq!(store.unfinished().await.unwrap(), expected, "{words}");
    }

    /// Compares everything with the model.
    async fn check_all(&self) {
        let store = &self.stores[&Actor::First];
        for (id, model) in &self.model {
            self.check(*id, "all").await;
            let events = store.events(*id, EventRange::from(0)).await.unwrap();
            let kinds = events.iter().map(|event| match &event.payload {
                EventPayload::ExecutionState(state) => state.state.kind(),
                payload => payload.kind(),
            });
            assert_eq!(kinds.collect::<Vec<_>>(), model.events);
            assert!(events.iter().map(|event| event.sequence).eq(0..events.len() as u64));
            for (input, expected) in &model.fates {
                assert_eq!(store.fate(*id, *input).await.unwrap().unwrap().fate.kind(), *expected);
            }
        }
        let report = store.verify().await.unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.events, self.model.values().map(|model| model.events.len() as u64).sum::<u64>());
    }
}

fn name(step: &Step) -> String {
    let words = format!("{step:?}");
    words.split(|c: char| !c.is_alphanumeric()).next().unwrap().to_lowercase()
}

async fn run(place: &mut dyn Place, clock: Arc<ManualClock>, seed: u64, steps: u64) -> BTreeMap<String, u64> {
    println!("seed {seed}");
    let mut world = World {
        place,
        clock,
        ids: Arc::default(),
        dice: SeededEntropy::new(seed),
        stores: BTreeMap::new(),
        conversations: Vec::new(),
        model: BTreeMap::new(),
        seen: BTreeMap::new(),
        met: BTreeMap::new(),
    };
    world.open().await;
    let project = seed::project(&world.stores[&Actor::First]).await;
    for _ in 0..CONVERSATIONS {
        let id = ConversationId::next(&world.ids);
        seed::conversation(&world.stores[&Actor::First], id, project).await;
        let rows = world.rows(id).await;
        world.model.insert(id, Conversation { status: Some(Status::Idle), ..Conversation::default() });
        for actor in [Actor::First, Actor::Second, Actor::Sender] {
            world.seen.insert((actor, id), rows.clone());
        }
        world.conversations.push(id);
    }
    for step in 0..steps {
        match world.below(100) {
            0 => world.open().await,
            1..4 => world.clock.advance(Duration::from_secs(world.below(40))),
            _ => world.act().await,
        }
        if step % 500 == 0 {
            world.check_all().await;
        }
    }
    world.check_all().await;
    world.met
}

/// Each case must have been met: what a run never does it does not test.
fn assert_met(met: &BTreeMap<String, u64>) {
    println!("{met:#?}");
    for case in [
        "hold committed",
        "release committed",
        "start committed",
        "deliver committed",
        "note committed",
        "ask committed",
        "settle committed",
        "suspend committed",
        "end committed",
        "enqueue committed",
        "cancel committed",
        "holdqueue committed",
        "pause committed",
        "mark committed",
        "fenced",
        "conflict over mailbox",
        "conflict over core",
    ] {
        assert!(met.contains_key(case), "`{case}` was not met");
    }
}

#[tokio::test]
async fn random_work_in_memory_matches_the_model() {
    let mut met = BTreeMap::new();
    for seed in 0..6 {
        let clock = Arc::<ManualClock>::default();
        let steps = run(&mut Memory(None, clock.clone()), clock, seed, 1_000).await;
        for (case, count) in steps {
            *met.entry(case).or_default() += count;
        }
    }
    assert_met(&met);
}

#[tokio::test]
async fn random_work_in_a_file_matches_the_model() {
    let clock = Arc::<ManualClock>::default();
    let mut file = File(tempfile::tempdir().unwrap(), clock.clone());
    assert_met(&run(&mut file, clock, 100, 1_000).await);
}
