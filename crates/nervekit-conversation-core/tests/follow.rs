//! Following: gaps in the text are filled, durable facts come exactly once, and listening changes nothing.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use nervekit_conversation_core::{
    Conversation, ConversationConfig, ConversationCore, Conversations, Cursor, Ending, Event, EventPayload,
    ExecutionState, InteractionKind, MemoryBackend, NewProject, Page, Project, QueryError, Resolution, Scope,
    Update, Updates, interactions,
};
use nervekit_harness::{
    AssistantMessage, ContentBlock, Model, ModelEvent, ModelInfo, ModelRegistry, ModelRequest, ModelStream,
    ProviderError, ProviderErrorKind, ScriptedModel, ScriptedReply, Text, Thinking,
};
use nervekit_permissions::{Risk, Roots, RuleEngine};
use nervekit_tools::{
    ArgumentType, Catalog, InputRequest, Tool, ToolCall, ToolContext, ToolDefinition, ToolError,
    ToolExecutor, ToolOutcome, ToolOutput,
};
use nervekit_types::{ConversationId, InteractionId, ToolCallId, TurnId};
use serde_json::json;
use tokio::sync::mpsc;

const MILLISECOND: Duration = Duration::from_millis(1);

type Beat = Result<ModelEvent, ProviderError>;

/// A model whose every event the test gives, one by one.
#[derive(Clone, Debug)]
struct FedModel {
    info: ModelInfo,
    feeds: Arc<Mutex<VecDeque<mpsc::UnboundedReceiver<Beat>>>>,
}

impl FedModel {
    fn new() -> Self {
        Self { info: ModelInfo::new("demo", "scripted"), feeds: Arc::default() }
    }

    /// What the next request is answered with.
    fn answer(&self) -> mpsc::UnboundedSender<Beat> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.feeds.lock().unwrap().push_back(receiver);
        sender
    }
}

impl Model for FedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _request: Arc<ModelRequest>) -> ModelStream {
        let feed = self.feeds.lock().unwrap().pop_front().unwrap();
        futures_util::stream::unfold(feed, |mut feed| async { Some((feed.recv().await?, feed)) }).boxed()
    }
}

fn text_delta(block: usize, delta: impl Into<String>) -> ModelEvent {
    ModelEvent::TextDelta { block, delta: delta.into() }
}

fn thinking_delta(block: usize, delta: impl Into<String>) -> ModelEvent {
    ModelEvent::ThinkingDelta { block, delta: delta.into() }
}

fn overloaded() -> ProviderError {
    ProviderError::new(ProviderErrorKind::Overloaded, "try later")
}

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Note {
    text: String,
}

/// Asks a person while it runs, and writes what it does before and after.
#[derive(Debug)]
struct Consult;

#[async_trait]
impl ToolExecutor for Consult {
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError> {
        let note: Note = call.typed()?;
        context.progress("before the question\n");
        Ok(ToolOutcome::NeedsInput(InputRequest::new(note.text)))
    }

    async fn answered(
        &self,
        _call: ToolCall,
        answer: serde_json::Value,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        context.progress("after the answer\n");
        Ok(ToolOutput::text(answer.to_string()).into())
    }
}

/// What the tool `talk` says while it runs: characters of one to four bytes, in writes that cut some of them.
fn talk() -> Vec<u8> {
    ["a", "é", "中", "🚀", "line\n"].repeat(400).concat().into_bytes()
}

fn catalog() -> Catalog {
    let arguments = ArgumentType::of::<Note>();
    let consult = ToolDefinition::unreviewed("consult", "Asks.", arguments.schema().clone()).descriptor(
        |mut descriptor| {
            descriptor.base_risk = Risk::Read;
            descriptor
        },
    );
    let talking = |_: Note, context: ToolContext| async move {
        for piece in talk().chunks(41) {
            context.progress(piece);
            tokio::time::sleep(MILLISECOND).await;
        }
        Ok("said")
    };
    Catalog::new()
        .with(Tool::function("send", "Sends.", |note: Note, _: ToolContext| async move { Ok(note.text) }))
        .with(Tool::function("talk", "Talks.", talking).reviewed(Risk::Read).parallel().replay_safe())
        .with(Tool::new(consult, arguments, Consult))
        .with(nervekit_tools::catalog::ask_user())
}

async fn core(model: impl Model) -> ConversationCore {
    let models = ModelRegistry::new().register(model);
    let engine = RuleEngine::new(Roots::new());
    ConversationCore::builder(MemoryBackend::new(), models, engine, catalog()).open().await.unwrap()
}

async fn project(core: &ConversationCore, name: &str) -> Project {
    Project::create(Arc::new(core.clone()), NewProject::new(name)).await.unwrap()
}

async fn converse(project: &Project) -> Conversation {
    project.converse(ConversationConfig::new("demo/scripted".parse().unwrap())).await.unwrap()
}

async fn conversation(model: impl Model) -> (ConversationCore, Conversation) {
    let core = core(model).await;
    let conversation = converse(&project(&core, "p").await).await;
    (core, conversation)
}

/// Reads updates and checks what holds of any prefix of them.
#[derive(Debug, Default)]
struct Reader {
    /// The attempt whose text is shown.
    current: Option<(TurnId, u32)>,
    /// The text of its blocks: thinking or not, and what was shown.
    blocks: BTreeMap<u32, (bool, String)>,
    /// The answers, as they were put together of the pieces.
    answers: Vec<String>,
    restarted: Vec<u32>,
    events: Vec<Arc<Event>>,
    output: BTreeMap<ToolCallId, String>,
    interactions: BTreeSet<InteractionId>,
    endings: Vec<Ending>,
    pieces: usize,
}

impl Reader {
    fn take(&mut self, update: Update) {
        match update {
            Update::Text { turn_id, attempt, block, offset, delta, .. } => {
                self.piece((turn_id, attempt), (block, false), offset, &delta);
            }
            Update::Thinking { turn_id, attempt, block, offset, delta, .. } => {
                self.piece((turn_id, attempt), (block, true), offset, &delta);
            }
            Update::Restarted { turn_id, attempt, .. } => {
                if let Some((turn, before)) = self.current {
                    assert!(turn == turn_id && before < attempt, "attempt {before} is followed by {attempt}");
                }
                self.current = Some((turn_id, attempt));
                self.blocks.clear();
                self.restarted.push(attempt);
            }
            Update::Progress { call_id, offset, delta, .. } => {
                let output = self.output.entry(call_id).or_default();
                assert_eq!(offset, output.len() as u64, "no output is missing or shown twice");
                output.push_str(&delta);
            }
            Update::Event { event, cursor } => self.event(event, cursor),
            Update::Interaction(shown) => assert!(self.interactions.insert(shown.id), "it is shown once"),
            Update::InteractionClosed { interaction_id, .. } => {
                assert!(self.interactions.remove(&interaction_id), "what is closed was shown");
            }
            Update::Finished(outcome) => {
                let last = self.events.last().unwrap();
                assert!(matches!(&last.payload, EventPayload::ExecutionState(state)
                    if state.state.is_terminal() && state.execution_id == outcome.execution_id));
                self.endings.push(outcome.ending);
            }
            _ => {}
        }
    }

    fn piece(&mut self, shown: (TurnId, u32), (block, thinking): (u32, bool), offset: u64, delta: &str) {
        assert!(!delta.is_empty());
        match self.current {
            Some(current) if current == shown => {}
            Some((turn, attempt)) => {
                assert_ne!(turn, shown.0, "attempt {} follows {attempt} without `Restarted`", shown.1);
                self.blocks.clear();
            }
            None => {}
        }
        self.current = Some(shown);
        let (kind, text) = self.blocks.entry(block).or_insert((thinking, String::new()));
        assert_eq!(*kind, thinking);
        assert_eq!(offset, text.len() as u64, "no text is missing or shown twice");
        text.push_str(delta);
        self.pieces += 1;
    }

    fn event(&mut self, event: Arc<Event>, cursor: Cursor) {
        if let Some(last) = self.events.last() {
            assert_eq!(event.sequence, last.sequence + 1);
        }
        assert_eq!(cursor, Cursor::after(event.sequence + 1));
        if let EventPayload::AssistantMessage(answer) = &event.payload {
            let whole: BTreeMap<u32, (bool, String)> = (0..)
                .zip(&answer.message.content)
                .filter_map(|(at, block)| match block {
                    ContentBlock::Text(text) => Some((at, (false, text.text.clone()))),
                    ContentBlock::Thinking(thinking) => Some((at, (true, thinking.text.clone()))),
                    _ => None,
                })
                .filter(|(_, (_, text))| !text.is_empty())
                .collect();
            let shown = std::mem::take(&mut self.blocks);
            assert!(shown == whole, "what was shown is the answer, byte for byte");
            let text = whole.into_values().filter(|(thinking, _)| !thinking).map(|(_, text)| text);
            self.answers.push(text.collect());
            self.current = None;
        }
        self.events.push(event);
    }

    /// Reads until an execution ends.
    async fn read_to_end(mut self, updates: &mut Updates) -> Self {
        let ended = self.endings.len();
        while self.endings.len() == ended {
            self.take(updates.next().await.unwrap().unwrap());
        }
        self
    }
}

fn follower(mut updates: Updates) -> tokio::task::JoinHandle<Reader> {
    tokio::spawn(async move { Reader::default().read_to_end(&mut updates).await })
}

/// Lets everything that can happen happen, as time stands still otherwise.
async fn settle() {
    tokio::time::sleep(MILLISECOND).await;
}

#[tokio::test(start_paused = true)]
async fn who_reads_once_a_second_during_ten_thousand_deltas_has_every_byte() {
    let model = FedModel::new();
    let feed = model.answer();
    let (_core, conversation) = conversation(model).await;
    conversation.submit("Go.").await.unwrap();
    let mut updates = conversation.updates().await.unwrap();
    let slow = tokio::spawn(async move {
        let mut reader = Reader::default();
        while reader.endings.is_empty() {
            reader.take(updates.next().await.unwrap().unwrap());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        reader
    });
    let fast = follower(conversation.updates().await.unwrap());
    let mut whole = String::new();
    for n in 0..10_000 {
        let delta = ["word ", "é", "中", "🚀", "\n"][n % 5];
        whole.push_str(delta);
        feed.send(Ok(text_delta(0, delta))).unwrap();
        tokio::time::sleep(5 * MILLISECOND).await;
    }
    feed.send(Ok(ModelEvent::Finished(AssistantMessage::text(whole.clone())))).unwrap();
    let (slow, fast) = (slow.await.unwrap(), fast.await.unwrap());
    assert_eq!((slow.answers, &fast.answers), (vec![whole.clone()], &vec![whole]));
    assert_eq!(fast.pieces, 10_000);
    assert!((20..=60).contains(&slow.pieces), "{} pieces in 50 seconds", slow.pieces);
}

/// Two attempts that fail after partial text and thinking, and a third that says something else.
fn attempts() -> Vec<(Vec<ModelEvent>, Beat)> {
    let failing = |words: &str| {
        let mut beats = vec![thinking_delta(0, "hm "), thinking_delta(0, format!("{words}?"))];
        beats.extend((0..12).map(|n| text_delta(1, format!("{words} {n} é"))));
        (beats, Err(overloaded()))
    };
    let last = ["Nun ", "ändert ", "sich ", "alles: ", "🚀", "."];
    let mut beats: Vec<ModelEvent> = ["hm", " ja", " 中"].map(|delta| thinking_delta(0, delta)).into();
    beats.extend(last.map(|delta| text_delta(1, delta)));
    let content = [Thinking::new("", "hm ja 中").into(), Text::new(last.concat()).into()];
    let end = Ok(ModelEvent::Finished(AssistantMessage::new(content)));
    vec![failing("first"), failing("second try"), (beats, end)]
}

#[tokio::test(start_paused = true)]
async fn who_joins_at_any_delta_of_any_attempt_has_every_byte() {
    let model = FedModel::new();
    let feeds: Vec<_> = (0..3).map(|_| model.answer()).collect();
    let (_core, conversation) = conversation(model).await;
    conversation.submit("Go.").await.unwrap();
    settle().await;
    let mut joined = vec![(1, follower(conversation.updates().await.unwrap()))];
    for (attempt, (feed, (beats, end))) in (1..).zip(feeds.iter().zip(attempts())) {
        for beat in beats {
            feed.send(Ok(beat)).unwrap();
            settle().await;
            // From the beginning, and from here on.
            joined.push((attempt, follower(conversation.updates().await.unwrap())));
            let cursor = conversation.snapshot().await.unwrap().cursor;
            joined.push((attempt, follower(conversation.follow(cursor).await.unwrap())));
        }
        feed.send(end).unwrap();
        // Longer than the longest wait before another attempt, and shorter than anything else.
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(joined.len(), 1 + 2 * (14 + 14 + 9));
    for (attempt, reader) in joined {
        let reader = reader.await.unwrap();
        assert_eq!(reader.answers, ["Nun ändert sich alles: 🚀."]);
        let missed: Vec<u32> = (attempt + 1..=3).collect();
        assert_eq!(reader.restarted, missed, "joined during attempt {attempt}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_sleeps_through_attempts_is_told_of_the_restart_before_the_new_text() {
    // Reads one update, then sleeps for so many milliseconds: the moments of reading fall everywhere.
    for pace in [1, 3, 700, 1_900, 4_100, 9_000, 30_000] {
        let model = FedModel::new();
        let feeds: Vec<_> = (0..3).map(|_| model.answer()).collect();
        let (_core, conversation) = conversation(model).await;
        conversation.submit("Go.").await.unwrap();
        let mut updates = conversation.updates().await.unwrap();
        let reader = tokio::spawn(async move {
            let mut reader = Reader::default();
            while reader.endings.is_empty() {
                reader.take(updates.next().await.unwrap().unwrap());
                tokio::time::sleep(pace * MILLISECOND).await;
            }
            reader
        });
        for (feed, (beats, end)) in feeds.iter().zip(attempts()) {
            for beat in beats {
                feed.send(Ok(beat)).unwrap();
                tokio::time::sleep(100 * MILLISECOND).await;
            }
            feed.send(end).unwrap();
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        let reader = reader.await.unwrap();
        assert_eq!(reader.answers, ["Nun ändert sich alles: 🚀."], "pace {pace}");
        assert!(reader.restarted.is_sorted() && reader.restarted.iter().all(|attempt| *attempt > 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_answer_leaves_nothing_behind_in_the_next_one() {
    let model = FedModel::new();
    let (first, second) = (model.answer(), model.answer());
    let (_core, conversation) = conversation(model).await;
    let mut updates = conversation.updates().await.unwrap();
    conversation.submit("Go.").await.unwrap();
    first.send(Ok(text_delta(0, "half an ans"))).unwrap();
    let reading = tokio::spawn(async move {
        let reader = Reader::default().read_to_end(&mut updates).await;
        (reader, updates)
    });
    settle().await;
    conversation.stop().await.unwrap();
    let (reader, mut updates) = reading.await.unwrap();
    assert_eq!(reader.endings, [Ending::Cancelled]);
    assert_eq!(reader.blocks.values().next().unwrap().1, "half an ans");
    conversation.submit("Again.").await.unwrap();
    second.send(Ok(text_delta(0, "all"))).unwrap();
    settle().await;
    let late = follower(conversation.follow(conversation.snapshot().await.unwrap().cursor).await.unwrap());
    second.send(Ok(text_delta(0, " of it"))).unwrap();
    second.send(Ok(ModelEvent::Finished(AssistantMessage::text("all of it")))).unwrap();
    let reader = reader.read_to_end(&mut updates).await;
    assert_eq!(reader.answers, ["all of it"]);
    assert!(reader.restarted.is_empty());
    assert_eq!(late.await.unwrap().answers, ["all of it"]);
}

/// Asks in every way: three approvals at once, a question of the core, a question of a tool.
fn asking() -> ScriptedModel {
    ScriptedModel::new([
        ScriptedReply::text("three")
            .call("send", json!({"text": "a"}))
            .call("send", json!({"text": "b"}))
            .call("ask_user", json!({"question": "c?"})),
        ScriptedReply::call_tool("consult", json!({"text": "d?"})),
        ScriptedReply::call_tool("send", json!({"text": "e"})),
        ScriptedReply::text("done"),
    ])
}

#[tokio::test(start_paused = true)]
async fn every_suspension_reaches_a_follower_that_only_looks_at_events() {
    let (core, conversation) = conversation(asking()).await;
    conversation.submit("Go.").await.unwrap();
    let mut updates = conversation.updates().await.unwrap();
    let mut told = BTreeSet::new();
    let mut answered = Vec::new();
    while let Some(update) = updates.next().await {
        let Update::Event { event, .. } = update.unwrap() else { continue };
        let EventPayload::ExecutionState(state) = &event.payload else { continue };
        if state.state.is_terminal() {
            break;
        }
        let ExecutionState::Waiting { awaited } = &state.state else { continue };
        told.extend(awaited.iter().map(|entry| entry.interaction_id));
        let mut open = interactions(&core).await.unwrap();
        assert!(open.iter().all(|open| told.contains(&open.id)), "whatever is open was told");
        // One at a time, in whatever order they were opened.
        let Some(next) = open.pop() else { continue };
        let resolution = match next.kind {
            InteractionKind::Approval { .. } => Resolution::approve(next.digest),
            _ => Resolution::answer("yes"),
        };
        conversation.resolve(next.id, resolution).await.unwrap();
        answered.push(next.tool_name);
    }
    let unanswered = interactions(&core).await.unwrap();
    assert!(unanswered.is_empty(), "{unanswered:?}");
    answered.sort();
    assert_eq!(answered, ["ask_user", "consult", "send", "send", "send"]);
}

#[tokio::test(start_paused = true)]
async fn what_one_follower_resolves_is_closed_for_the_other() {
    let (_core, conversation) = conversation(asking()).await;
    let mut watching = conversation.updates().await.unwrap();
    let watcher = tokio::spawn(async move {
        let (mut reader, mut log) = (Reader::default(), Vec::new());
        while reader.endings.is_empty() {
            let update = watching.next().await.unwrap().unwrap();
            match &update {
                Update::Interaction(shown) => log.push((shown.id, "opened")),
                Update::InteractionClosed { interaction_id, .. } => log.push((*interaction_id, "closed")),
                _ => {}
            }
            reader.take(update);
        }
        log
    });
    conversation.submit("Go.").await.unwrap();
    let mut acting = conversation.updates().await.unwrap();
    let mut resolved = Vec::new();
    while let Some(update) = acting.next().await {
        match update.unwrap() {
            Update::Interaction(shown) => {
                settle().await;
                let resolution = match shown.kind {
                    InteractionKind::Approval { .. } => Resolution::deny(),
                    _ => Resolution::answer("yes"),
                };
                conversation.resolve(shown.id, resolution).await.unwrap();
                settle().await;
                resolved.push(shown.id);
            }
            Update::Finished(_) => break,
            _ => {}
        }
    }
    let log = watcher.await.unwrap();
    assert_eq!(resolved.len(), 5);
    for id in resolved {
        let of: Vec<&str> = log.iter().filter(|(of, _)| *of == id).map(|(_, what)| *what).collect();
        assert_eq!(of, ["opened", "closed"]);
    }
}

async fn all_events(conversation: &Conversation) -> Vec<Event> {
    conversation.events_since(Cursor::START, Page::new(10_000)).await.unwrap().events
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_continued_by_its_cursor_without_gap_or_repetition() {
    let rounds = (0..30).map(|n| ScriptedReply::call_tool("talk", json!({"text": format!("{n}")})));
    let (_core, conversation) =
        conversation(ScriptedModel::new(rounds.chain([ScriptedReply::text("done")]))).await;
    conversation.submit("Go.").await.unwrap();
    let mut snapshots = Vec::new();
    while conversation.snapshot().await.unwrap().state.conversation.open_execution.is_some() {
        let snapshot = conversation.snapshot().await.unwrap();
        assert_eq!(snapshot.cursor.seen(), snapshot.state.conversation.next_event_sequence);
        snapshots.push((snapshot.cursor, follower(conversation.follow(snapshot.cursor).await.unwrap())));
        tokio::time::sleep(337 * MILLISECOND).await;
    }
    let events = all_events(&conversation).await;
    assert!(snapshots.len() > 10);
    for (cursor, reader) in snapshots {
        let followed: Vec<Event> =
            reader.await.unwrap().events.iter().map(|event| (**event).clone()).collect();
        let rest = usize::try_from(cursor.seen()).unwrap();
        assert_eq!(followed, events[rest..]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_out_of_range_is_an_error() {
    let (core, conversation) = conversation(ScriptedModel::new([ScriptedReply::text("done")])).await;
    conversation.ask("Go.").await.unwrap().into_text().unwrap();
    let end = conversation.snapshot().await.unwrap().cursor;
    for beyond in [Cursor::after(end.seen() + 1), Cursor::after(u64::MAX)] {
        assert!(matches!(conversation.follow(beyond).await, Err(QueryError::InvalidCursor)));
        let page = conversation.events_since(beyond, Page::default()).await;
        assert!(matches!(page, Err(QueryError::InvalidCursor)));
        assert!(matches!(core.follow(Scope::Everything, beyond).await, Err(QueryError::InvalidCursor)));
    }
    assert!(matches!("-1".parse::<Cursor>(), Err(QueryError::InvalidCursor)));
    let nobody = Conversation::new(Arc::new(core), ConversationId::from_key("nobody"));
    assert!(matches!(nobody.updates().await, Err(QueryError::NotFound(_))));
    // The end itself is where a follower that has seen everything continues.
    drop(conversation.follow(end).await.unwrap());
}

/// Reads so many events of a wide scope.
async fn read_wide(updates: &mut Updates, count: usize) -> Vec<(Arc<Event>, Cursor)> {
    let mut seen = Vec::new();
    while seen.len() < count {
        if let Update::Event { event, cursor } = updates.next().await.unwrap().unwrap() {
            seen.push((event, cursor));
        }
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn wide_scopes_see_every_event_once_in_the_order_of_the_index() {
    let reply = |request: &ModelRequest| match request.messages.len() {
        1 | 3 => ScriptedReply::call_tool("talk", json!({"text": "x"})).delay(7 * MILLISECOND),
        _ => ScriptedReply::text("done"),
    };
    let core = core(ScriptedModel::from_fn(reply)).await;
    let projects = [project(&core, "one").await, project(&core, "two").await];
    let mut before = core.follow(Scope::Everything, Cursor::START).await.unwrap();
    let mut conversations = Vec::new();
    for n in 0..8 {
        conversations.push(converse(&projects[n % 2]).await);
    }
    let mut work = tokio::task::JoinSet::new();
    for (n, conversation) in (0..).zip(&conversations) {
        let conversation = conversation.clone();
        work.spawn(async move {
            tokio::time::sleep(n * 3 * MILLISECOND).await;
            conversation.ask("Go.").await.unwrap().into_text().unwrap()
        });
    }
    work.join_all().await;
    let mut all = Vec::new();
    for conversation in &conversations {
        all.extend(all_events(conversation).await);
    }
    let live = read_wide(&mut before, all.len()).await;
    // Every event once, each conversation's in order, cursors never backwards.
    let mut sequences: BTreeMap<ConversationId, u64> = BTreeMap::new();
    for (event, _) in &live {
        let next = sequences.entry(event.conversation_id).or_default();
        assert_eq!(event.sequence, *next);
        *next += 1;
    }
    assert!(live.is_sorted_by_key(|(_, cursor)| *cursor));
    let interleaved = live.windows(2).filter(|pair| pair[0].0.conversation_id != pair[1].0.conversation_id);
    assert!(interleaved.count() > 16, "the conversations ran at the same time");

    // Who comes later sees the same; a project sees its own, in the same order.
    let mut after = core.follow(Scope::Everything, Cursor::START).await.unwrap();
    assert_eq!(read_wide(&mut after, all.len()).await, live);
    for (at, project) in projects.iter().enumerate() {
        let mine: BTreeSet<_> = conversations.iter().skip(at).step_by(2).map(Conversation::id).collect();
        let wanted: Vec<_> =
            live.iter().filter(|(event, _)| mine.contains(&event.conversation_id)).cloned().collect();
        let mut updates = project.follow(Cursor::START).await.unwrap();
        assert_eq!(read_wide(&mut updates, wanted.len()).await, wanted);
    }

    // From the cursor of any event on come the rest, and before it at most the events of the same batch again.
    let (last, _) = live.last().unwrap();
    for (at, (event, cursor)) in live.iter().enumerate().filter(|(_, (event, _))| event.id != last.id) {
        let mut updates = core.follow(Scope::Everything, *cursor).await.unwrap();
        let mut again = Vec::new();
        while again.last().is_none_or(|(event, _): &(Arc<Event>, Cursor)| event.id != last.id) {
            again.extend(read_wide(&mut updates, 1).await);
        }
        assert!(live.ends_with(&again));
        let repeated = live.len() - again.len()..=at;
        assert!(
            live[repeated]
                .iter()
                .all(|(before, same)| { same == cursor && before.conversation_id == event.conversation_id })
        );
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_updates_stops_nothing() {
    let rounds = (0..5).map(|_| ScriptedReply::call_tool("talk", json!({"text": "x"})));
    let (core, conversation) =
        conversation(ScriptedModel::new(rounds.chain([ScriptedReply::text("done")]))).await;
    conversation.submit("Go.").await.unwrap();
    for _ in 0..20 {
        let mut updates = conversation.updates().await.unwrap();
        let mut wide = core.follow(Scope::Everything, Cursor::START).await.unwrap();
        for _ in 0..3 {
            updates.next().await.unwrap().unwrap();
            wide.next().await.unwrap().unwrap();
        }
        drop((updates, wide));
        tokio::time::sleep(50 * MILLISECOND).await;
    }
    assert_eq!(conversation.finished().await.unwrap().into_text().unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn finished_is_replayed_with_each_execution() {
    let invalid = ProviderError::new(ProviderErrorKind::InvalidRequest, "no");
    let (_core, conversation) = conversation(ScriptedModel::new([
        ScriptedReply::text("one"),
        ScriptedReply::fails(invalid),
        ScriptedReply::call_tool("talk", json!({"text": "x"})),
        ScriptedReply::text("three"),
    ]))
    .await;
    let mut endings = Vec::new();
    for prompt in ["1", "2", "3"] {
        endings.push(conversation.ask(prompt).await.unwrap().ending);
    }
    assert!(
        matches!(&endings[..], [Ending::Completed { text: one }, Ending::Failed { .. }, Ending::Completed { text: three }]
        if one == "one" && three == "three")
    );
    for _ in 0..2 {
        let (mut updates, mut reader) = (conversation.updates().await.unwrap(), Reader::default());
        while reader.endings.len() < 3 {
            reader = reader.read_to_end(&mut updates).await;
        }
        assert_eq!(reader.endings, endings);
        assert_eq!(reader.answers, ["one", "", "three"]);
    }
    // From the last event on it is derived from what lies before the cursor.
    let end = conversation.snapshot().await.unwrap().cursor.seen();
    let mut updates = conversation.follow(Cursor::after(end - 1)).await.unwrap();
    assert_eq!(Reader::default().read_to_end(&mut updates).await.endings, endings[2..]);
}

#[tokio::test(start_paused = true)]
async fn the_output_of_a_tool_is_complete_for_fast_slow_and_late_followers() {
    let (_core, conversation) = conversation(ScriptedModel::new([
        ScriptedReply::call_tool("talk", json!({"text": "x"})),
        ScriptedReply::text("done"),
    ]))
    .await;
    conversation.submit("Go.").await.unwrap();
    let mut readers = vec![follower(conversation.updates().await.unwrap())];
    let mut updates = conversation.updates().await.unwrap();
    readers.push(tokio::spawn(async move {
        let mut reader = Reader::default();
        while reader.endings.is_empty() {
            reader.take(updates.next().await.unwrap().unwrap());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        reader
    }));
    for _ in 0..5 {
        tokio::time::sleep(100 * MILLISECOND).await;
        readers.push(follower(conversation.updates().await.unwrap()));
    }
    for reader in readers {
        let output: Vec<String> = reader.await.unwrap().output.into_values().collect();
        assert_eq!(output, [String::from_utf8(talk()).unwrap()]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_output_of_a_tool_goes_on_after_a_question() {
    let (_core, conversation) = conversation(ScriptedModel::new([
        ScriptedReply::call_tool("consult", json!({"text": "which?"})),
        ScriptedReply::text("done"),
    ]))
    .await;
    let reader = follower(conversation.updates().await.unwrap());
    let mut updates = conversation.updates().await.unwrap();
    conversation.submit("Go.").await.unwrap();
    while let Some(update) = updates.next().await {
        match update.unwrap() {
            Update::Interaction(shown) => {
                conversation.answer(&shown, "this").await.unwrap();
            }
            Update::Finished(_) => break,
            _ => {}
        }
    }
    let output: Vec<String> = reader.await.unwrap().output.into_values().collect();
    assert_eq!(output, ["before the question\nafter the answer\n"]);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_ends_every_stream() {
    let (core, conversation) = conversation(ScriptedModel::new([ScriptedReply::text("done")])).await;
    conversation.ask("Go.").await.unwrap().into_text().unwrap();
    let mut streams = vec![conversation.updates().await.unwrap()];
    for scope in [Scope::Everything, Scope::Family(conversation.id())] {
        streams.push(core.follow(scope, Cursor::START).await.unwrap());
    }
    let readers = streams.into_iter().map(|mut updates| {
        tokio::spawn(async move {
            let mut events = 0;
            while let Some(update) = updates.next().await {
                events += u32::from(matches!(update.unwrap(), Update::Event { .. }));
            }
            events
        })
    });
    let readers: Vec<_> = readers.collect();
    settle().await;
    core.shutdown(Duration::from_secs(1)).await;
    for reader in readers {
        let events = tokio::time::timeout(Duration::from_secs(60), reader).await;
        assert_eq!(events.expect("the stream ends").unwrap(), 4);
    }
    assert!(matches!(conversation.updates().await, Err(QueryError::ShuttingDown)));
}
