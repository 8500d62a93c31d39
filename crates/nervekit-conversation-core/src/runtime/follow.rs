//! Following: durable facts from a cursor, then live, without gaps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _, select_all};
use futures_util::stream;
use nervekit_harness::ContentBlock;
use nervekit_tools::Progress;
use nervekit_types::{ConversationId, InteractionId, ToolCallId, TurnId};
use tokio::sync::watch;

use super::feed::{BlockKind, Feed};
use crate::error::{QueryError, Subject};
use crate::event::{AssistantMessageEvent, Event, EventPayload, ExecutionState, ExecutionStateEvent};
use crate::outcome::Outcome;
use crate::store::{EventRange, Store};
use crate::update::{ConversationState, Cursor, Scope, Update, Updates};

/// How many events are read from the store at once.
const PAGE: usize = 64;

/// What the count of commits says once the core is shut down and wide followers end.
pub(super) const CLOSED: u64 = u64::MAX;

/// What a follower has shown of the answer under way.
#[derive(Debug)]
struct Position {
    turn_id: TurnId,
    attempt: u32,
    shown: BTreeMap<u32, usize>,
}

/// The updates of a follower, until it has no more or fails.
fn updates<F: Send + 'static>(follower: F, next: fn(&mut F) -> BoxFuture<'_, Next>) -> Updates {
    Updates::from_stream(stream::unfold(Some(follower), move |follower| async move {
        let mut follower = follower?;
        match next(&mut follower).await {
            Ok(Some(update)) => Some((Ok(update), Some(follower))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    }))
}

/// What a follower says next: nothing more once the core has shut down.
type Next = Result<Option<Update>, QueryError>;

/// A follower of one conversation.
pub(super) struct Follower {
    store: Store,
    id: ConversationId,
    feed: Arc<Feed>,
    changed: watch::Receiver<u64>,
    next: u64,
    end: u64,
    pages: VecDeque<Arc<Event>>,
    position: Option<Position>,
    state: Option<ConversationState>,
    state_version: u64,
    open: BTreeSet<InteractionId>,
    progress: BTreeMap<ToolCallId, u64>,
    answer: Option<String>,
    out: VecDeque<Update>,
}

impl Follower {
    /// A follower that continues after this cursor.
    pub(super) async fn new(
        store: Store,
        id: ConversationId,
        feed: Arc<Feed>,
        after: Cursor,
    ) -> Result<Self, QueryError> {
        // Subscribed before the rows are read: what changes in between is told.
        let changed = feed.subscribe();
        let rows = store.load(id).await?.ok_or(QueryError::NotFound(Subject::Conversation(id)))?;
        let end = rows.core.value.next_event_sequence;
        if after.seen() > end {
            return Err(QueryError::InvalidCursor);
        }
        let policy_problems = feed.seen().problems.clone();
        let state = ConversationState { policy_problems, ..rows.state() };
        Ok(Self {
            store,
            id,
            feed,
            changed,
            next: after.seen(),
            end,
            pages: VecDeque::new(),
            position: None,
            state: Some(state),
            state_version: 0,
            open: BTreeSet::new(),
            progress: BTreeMap::new(),
            answer: None,
            out: VecDeque::new(),
        })
    }

    /// The updates, until the core shuts down.
    pub(super) fn updates(self) -> Updates {
        updates(self, |follower| follower.next().boxed())
    }

    async fn next(&mut self) -> Next {
        loop {
            if let Some(update) = self.out.pop_front() {
                return Ok(Some(update));
            }
            if let Some(event) = self.next_event().await? {
                self.show_event(&event).await?;
                continue;
            }
            let closed = self.show_live();
            if !self.out.is_empty() {
                continue;
            }
            if closed {
                return Ok(None);
            }
            if !self.wait().await {
                return Ok(None);
            }
        }
    }

    /// The next durable event, from what is at hand or from the store.
    async fn next_event(&mut self) -> Result<Option<Arc<Event>>, QueryError> {
        loop {
            if let Some(event) = self.pages.pop_front() {
                self.next = event.sequence + 1;
                return Ok(Some(event));
            }
            {
                let seen = self.feed.seen();
                self.end = self.end.max(seen.end.unwrap_or(0));
                if self.next >= self.end {
                    return Ok(None);
                }
                if let Some(event) = seen.recent_event(self.next) {
                    self.next += 1;
                    return Ok(Some(event));
                }
            }
            let page = self.store.events(self.id, EventRange::from(self.next).limit(PAGE)).await?;
            if page.is_empty() {
                return Ok(None);
            }
            self.pages = page.into_iter().map(Arc::new).collect();
        }
    }

    async fn show_event(&mut self, event: &Arc<Event>) -> Result<(), QueryError> {
        if let EventPayload::AssistantMessage(answer) = &event.payload {
            self.show_rest(event, answer);
            self.answer = Some(answer.message.plain_text());
        }
        if let EventPayload::ToolCallResponse(response) = &event.payload {
            let output = self.feed.seen().output.get(&response.call_id).map(|output| output.progress.clone());
            if let Some(output) = output {
                self.show_progress(response.call_id, &output);
            }
        }
        let cursor = Cursor::after(event.sequence + 1);
        self.out.push_back(Update::Event { event: event.clone(), cursor });
        if let EventPayload::ExecutionState(state) = &event.payload {
            if matches!(state.state, ExecutionState::Started) {
                self.answer = None;
            }
            if state.state.is_terminal() {
                let answer = match self.answer.take() {
                    Some(answer) => answer,
                    None => last_answer(&self.store, event).await?,
                };
                self.out.extend(Outcome::of(event, answer).map(Update::Finished));
            }
        }
        Ok(())
    }

    /// Before the durable message the rest of its text is sent.
    fn show_rest(&mut self, event: &Event, answer: &AssistantMessageEvent) {
        let Some(turn_id) = event.turn_id else { return };
        self.begin(turn_id, answer.attempt);
        for (block, content) in answer.message.content.iter().enumerate() {
            let Ok(block) = u32::try_from(block) else { return };
            match content {
                ContentBlock::Text(text) => self.show_block(BlockKind::Text, block, &text.text),
                ContentBlock::Thinking(thinking) => {
                    self.show_block(BlockKind::Thinking, block, &thinking.text);
                }
                _ => {}
            }
        }
        self.position = None;
    }

    /// Makes this attempt the one whose text is shown.
    fn begin(&mut self, turn_id: TurnId, attempt: u32) {
        let same = |position: &Position| position.turn_id == turn_id && position.attempt == attempt;
        if self.position.as_ref().is_some_and(same) {
            return;
        }
        let restarted = self.position.as_ref().is_some_and(|position| position.turn_id == turn_id);
        if restarted {
            self.out.push_back(Update::Restarted { conversation_id: self.id, turn_id, attempt });
        }
        self.position = Some(Position { turn_id, attempt, shown: BTreeMap::new() });
    }

    fn show_block(&mut self, kind: BlockKind, block: u32, text: &str) {
        let Some(position) = &mut self.position else { return };
        let shown = position.shown.entry(block).or_insert(0);
        let Some(delta) = text.get(*shown..).filter(|delta| !delta.is_empty()) else { return };
        let (conversation_id, turn_id, attempt) = (self.id, position.turn_id, position.attempt);
        let (offset, delta) = (*shown as u64, delta.to_owned());
        *shown = text.len();
        self.out.push_back(match kind {
            BlockKind::Text => Update::Text { conversation_id, turn_id, attempt, block, offset, delta },
            BlockKind::Thinking => {
                Update::Thinking { conversation_id, turn_id, attempt, block, offset, delta }
            }
        });
    }

    /// Shows what is live; says whether nothing more will come.
    fn show_live(&mut self) -> bool {
        let feed = self.feed.clone();
        let seen = feed.seen();
        if self.next < self.end.max(seen.end.unwrap_or(0)) {
            // An event came in between; it goes first.
            return false;
        }
        if let Some(draft) = &seen.draft {
            self.begin(draft.turn_id, draft.attempt);
            for (block, (kind, text)) in &draft.blocks {
                self.show_block(*kind, *block, text);
            }
        }
        for (call, output) in seen.output.iter().filter(|(_, output)| !output.ended) {
            self.show_progress(*call, &output.progress);
        }
        self.progress.retain(|call, _| seen.output.contains_key(call));
        if let Some(state) = &seen.state
            && seen.state_version > self.state_version
        {
            self.state_version = seen.state_version;
            self.state = Some((**state).clone());
        }
        let closed = seen.closed;
        drop(seen);
        if let Some(state) = self.state.take() {
            self.show_state(state);
        }
        closed
    }

    fn show_progress(&mut self, call_id: ToolCallId, progress: &Progress) {
        let shown = self.progress.entry(call_id).or_insert(0);
        for frame in progress.after(*shown) {
            *shown = frame.offset + frame.text.len() as u64;
            let delta = frame.text.to_string();
            self.out.push_back(Update::Progress {
                conversation_id: self.id,
                call_id,
                offset: frame.offset,
                delta,
            });
        }
    }

    fn show_state(&mut self, state: ConversationState) {
        let now: BTreeSet<InteractionId> = state.interactions.iter().map(|open| open.id).collect();
        for gone in self.open.difference(&now) {
            let closed = Update::InteractionClosed { conversation_id: self.id, interaction_id: *gone };
            self.out.push_back(closed);
        }
        for interaction in &state.interactions {
            if !self.open.contains(&interaction.id) {
                self.out.push_back(Update::Interaction(Box::new(interaction.clone())));
            }
        }
        self.open = now;
        self.out.push_back(Update::State(Box::new(state)));
    }

    /// Waits until there may be something to show; says whether there may be.
    async fn wait(&mut self) -> bool {
        let running: Vec<(Progress, u64)> = {
            let seen = self.feed.seen();
            let shown = |call| self.progress.get(call).copied().unwrap_or(0);
            let running = seen.output.iter().filter(|(_, output)| !output.ended);
            running.map(|(call, output)| (output.progress.clone(), shown(call))).collect()
        };
        if running.is_empty() {
            return self.changed.changed().await.is_ok();
        }
        let mut events: Vec<BoxFuture<'_, bool>> =
            vec![self.changed.changed().map(|result| result.is_ok()).boxed()];
        for (progress, shown) in running {
            events.push(async move { progress.beyond(shown).await }.map(|()| true).boxed());
        }
        select_all(events).await.0
    }
}

/// The text of the last answer before an event, within its execution.
pub(crate) async fn last_answer(store: &Store, event: &Event) -> Result<String, QueryError> {
    let mut before = event.sequence;
    loop {
        let page = store.events(event.conversation_id, EventRange::before(before).limit(8)).await?;
        for earlier in &page {
            match &earlier.payload {
                EventPayload::AssistantMessage(answer) => return Ok(answer.message.plain_text()),
                EventPayload::ExecutionState(ExecutionStateEvent {
                    state: ExecutionState::Started, ..
                }) => {
                    return Ok(String::new());
                }
                _ => {}
            }
        }
        match page.last() {
            Some(last) if last.sequence > 0 => before = last.sequence,
            _ => return Ok(String::new()),
        }
    }
}

/// A follower of many conversations, by the store's event index. It tells durable facts only.
pub(super) struct WideFollower {
    store: Store,
    scope: Scope,
    place: u64,
    changed: watch::Receiver<u64>,
    out: VecDeque<Update>,
}

impl WideFollower {
    /// A follower of this scope that continues after this cursor.
    pub(super) fn new(store: Store, scope: Scope, after: Cursor, changed: watch::Receiver<u64>) -> Self {
        Self { store, scope, place: after.seen(), changed, out: VecDeque::new() }
    }

    /// The updates, until the core shuts down.
    pub(super) fn updates(self) -> Updates {
        updates(self, |follower| follower.next().boxed())
    }

    async fn next(&mut self) -> Next {
        loop {
            if let Some(update) = self.out.pop_front() {
                return Ok(Some(update));
            }
            if *self.changed.borrow_and_update() == CLOSED {
                return Ok(None);
            }
            let (entries, next) = self.store.index_from(self.place, PAGE).await?;
            if next == self.place && self.changed.changed().await.is_err() {
                return Ok(None);
            }
            for (place, entry) in entries {
                let wanted = match self.scope {
                    Scope::Conversation(id) => entry.conversation_id == id,
                    Scope::Family(id) => entry.conversation_id == id || entry.lead == Some(id),
                    Scope::Project(id) => entry.project_id == id,
                    Scope::Everything => true,
                };
                if wanted {
                    self.show(entry.conversation_id, entry.first, entry.last, Cursor::after(place + 1))
                        .await?;
                }
            }
            self.place = next;
        }
    }

    /// Shows the events of one batch. Only the last of them moves the cursor past the batch: whoever stops in
    /// between sees the batch again, whole.
    async fn show(
        &mut self,
        id: ConversationId,
        first: u64,
        last: u64,
        after: Cursor,
    ) -> Result<(), QueryError> {
        let range = EventRange { first, end: last + 1, limit: usize::MAX, reverse: false };
        for event in self.store.events(id, range).await? {
            let event = Arc::new(event);
            let cursor = if event.sequence == last { after } else { Cursor::after(after.seen() - 1) };
            self.out.push_back(Update::Event { event: event.clone(), cursor });
            if let EventPayload::ExecutionState(state) = &event.payload {
                if let ExecutionState::Waiting { awaited } = &state.state {
                    let calls = self.store.calls(id).await?;
                    let open = calls.into_iter().filter_map(|call| call.interaction);
                    let named =
                        open.filter(|open| awaited.iter().any(|entry| entry.interaction_id == open.id));
                    self.out.extend(named.map(|open| Update::Interaction(Box::new(open))));
                }
                if state.state.is_terminal() {
                    let answer = last_answer(&self.store, &event).await?;
                    self.out.extend(Outcome::of(&event, answer).map(Update::Finished));
                }
            }
        }
        Ok(())
    }
}
