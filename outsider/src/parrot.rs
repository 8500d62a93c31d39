//! The whole API, as a parrot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::stream;
use nervekit_conversation_core::{
    Command, CommandError, CommandOutcome, CommandRequest, ConversationConfig, ConversationRecord,
    Conversations, Cursor, Event, EventPage, EventPayload, ExecutionState, InputFate, NewConversation,
    NewInput, NewProject, Outcome, Page, PageMark, ProjectRecord, Query, QueryError, QueuedInput, Receipt,
    Scope, Snapshot, Update, Updates, View,
};
use nervekit_harness::{AssistantMessage, Usage};
use nervekit_types::{
    CommandId, ConversationId, Digest, EventId, ExecutionId, IdSource, InputId, Principal, ProjectId,
    SystemIds, Timestamp,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Conversations in memory in which every prompt is answered with its own words, at once.
///
/// It has no model, no tools and no permissions, so nothing is ever asked of a person and nothing runs that
/// could be stopped. Commands are serialised; each is carried out whole before its future returns, or not at
/// all.
#[derive(Debug, Default)]
pub struct Parrot(Arc<Cage>);

#[derive(Debug, Default)]
struct Cage {
    memory: Mutex<Memory>,
    ids: SystemIds,
    /// How many events there are.
    heard: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Memory {
    projects: BTreeMap<ProjectId, ProjectRecord>,
    conversations: BTreeMap<ConversationId, Kept>,
    receipts: BTreeMap<CommandId, Receipt>,
    /// Of all conversations, in the order in which they happened.
    events: Vec<Arc<Event>>,
}

#[derive(Debug)]
struct Kept {
    record: ConversationRecord,
    config: ConversationConfig,
    queue: Vec<QueuedInput>,
    fates: BTreeMap<InputId, (String, InputFate)>,
}

/// Records come from a core, as values or over a wire; whoever makes one up writes it as it is on the wire.
#[expect(clippy::expect_used, reason = "a record that is written wrongly here is found by the first test")]
fn record<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the fields of a record")
}

impl Memory {
    fn conversation(&mut self, id: ConversationId) -> Result<&mut Kept, CommandError> {
        self.conversations.get_mut(&id).ok_or_else(|| CommandError::NotFound(id.into()))
    }

    fn events_of(&self, id: ConversationId) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        self.events.iter().filter(move |event| event.conversation_id == id)
    }

    fn carry_out(
        &mut self,
        command: Command,
        by: &Principal,
        ids: &dyn IdSource,
    ) -> Result<CommandOutcome, CommandError> {
        match command {
            Command::CreateProject(new) => Ok(self.create_project(&new, ids)),
            Command::CreateConversation(new) => self.create_conversation(*new, ids),
            Command::Configure { conversation_id, change } => {
                change.apply_to(&mut self.conversation(conversation_id)?.config);
                Ok(CommandOutcome::Configured)
            }
            Command::SetTitle { conversation_id, title } => {
                self.conversation(conversation_id)?.record.title = title;
                Ok(CommandOutcome::TitleSet)
            }
            Command::Submit { conversation_id, input } => self.submit(conversation_id, &input, by, ids),
            Command::CancelInput { conversation_id, input_id } => {
                let kept = self.conversation(conversation_id)?;
                let Some((_, fate)) = kept.fates.get_mut(&input_id) else {
                    return Err(CommandError::NotFound(input_id.into()));
                };
                if fate.is_final() {
                    return Ok(CommandOutcome::InputNotCancelled { input_id, fate: *fate });
                }
                *fate = InputFate::Cancelled;
                kept.queue.retain(|input| input.id != input_id);
                Ok(CommandOutcome::InputCancelled { input_id })
            }
            Command::Resolve { interaction_id, .. } => Err(CommandError::NotFound(interaction_id.into())),
            Command::Pause { conversation_id } => {
                self.conversation(conversation_id)?.record.paused = true;
                Ok(CommandOutcome::Paused)
            }
            Command::Resume { conversation_id } => {
                let kept = self.conversation(conversation_id)?;
                kept.record.paused = false;
                for input in std::mem::take(&mut kept.queue) {
                    self.answer(conversation_id, &input, ids)?;
                }
                Ok(CommandOutcome::Resumed)
            }
            Command::Stop { conversation_id, .. } => {
                self.conversation(conversation_id).map(|_| CommandOutcome::NothingToStop)
            }
            other => Err(CommandError::invalid(format!("a parrot cannot `{}`", other.kind()))),
        }
    }

    fn create_project(&mut self, new: &NewProject, ids: &dyn IdSource) -> CommandOutcome {
        let project_id = new.id.unwrap_or_else(|| ProjectId::next(ids));
        let value = json!({
            "id": project_id, "name": new.name, "directory": new.directory,
            "created_at": now(), "updated_at": now(),
        });
        self.projects.entry(project_id).or_insert_with(|| record(value));
        CommandOutcome::ProjectCreated { project_id }
    }

    fn create_conversation(
        &mut self,
        new: NewConversation,
        ids: &dyn IdSource,
    ) -> Result<CommandOutcome, CommandError> {
        if !self.projects.contains_key(&new.project_id) {
            return Err(CommandError::NotFound(new.project_id.into()));
        }
        let conversation_id = new.id.unwrap_or_else(|| ConversationId::next(ids));
        if self.conversations.contains_key(&conversation_id) {
            return Err(CommandError::AlreadyExists(conversation_id.into()));
        }
        let value = json!({
            "id": conversation_id, "project_id": new.project_id,
            "owner_id": new.owner_id.unwrap_or_else(|| "local".to_owned()),
            "title": new.title, "paused": false, "status": "idle", "usage": Usage::new(0, 0),
            "next_event_sequence": 1, "revision": 1, "created_at": now(), "updated_at": now(),
        });
        let kept =
            Kept { record: record(value), config: new.config, queue: Vec::new(), fates: BTreeMap::new() };
        self.conversations.insert(conversation_id, kept);
        Ok(CommandOutcome::ConversationCreated { conversation_id })
    }

    fn submit(
        &mut self,
        conversation_id: ConversationId,
        new: &NewInput,
        by: &Principal,
        ids: &dyn IdSource,
    ) -> Result<CommandOutcome, CommandError> {
        let input_id = new.id.unwrap_or_else(|| InputId::next(ids));
        let kept = self.conversation(conversation_id)?;
        if let Some((text, fate)) = kept.fates.get(&input_id) {
            if *text == new.text {
                return Ok(CommandOutcome::InputAccepted { input_id, fate: *fate });
            }
            return Err(CommandError::OtherContent { id: input_id, fate: *fate });
        }
        kept.fates.insert(input_id, (new.text.clone(), InputFate::Queued));
        let input: QueuedInput = record(json!({
            "id": input_id, "conversation_id": conversation_id, "acceptance_sequence": kept.fates.len(),
            "source": "user", "submitter": by, "text": new.text, "images": [], "target": new.target,
            "wake_when_idle": true, "accepted_at": now(),
        }));
        if kept.record.paused {
            kept.queue.push(input);
            return Ok(CommandOutcome::InputAccepted { input_id, fate: InputFate::Queued });
        }
        let fate = self.answer(conversation_id, &input, ids)?;
        Ok(CommandOutcome::InputAccepted { input_id, fate })
    }

    /// Delivers an input and answers it.
    fn answer(
        &mut self,
        id: ConversationId,
        input: &QueuedInput,
        ids: &dyn IdSource,
    ) -> Result<InputFate, CommandError> {
        let execution_id = ExecutionId::next(ids);
        let state = |state: &str| json!({"type": "execution_state", "execution_id": execution_id, "state": {"state": state}});
        self.append(id, None, &state("started"), ids)?;
        let delivered = json!({
            "type": "user_message", "text": input.text, "source": input.source, "submitter": input.submitter,
        });
        let event_id = self.append(id, Some(input.id), &delivered, ids)?;
        let answer = json!({
            "type": "assistant_message", "message": AssistantMessage::text(&*input.text), "attempt": 1,
        });
        self.append(id, None, &answer, ids)?;
        self.append(id, None, &state("completed"), ids)?;
        let fate = InputFate::Delivered { event_id };
        self.conversation(id)?.fates.insert(input.id, (input.text.clone(), fate));
        Ok(fate)
    }

    fn append(
        &mut self,
        conversation_id: ConversationId,
        input_id: Option<InputId>,
        payload: &Value,
        ids: &dyn IdSource,
    ) -> Result<EventId, CommandError> {
        let previous = self.events_of(conversation_id).next_back().cloned();
        let kept = &mut self.conversation(conversation_id)?.record;
        let id = EventId::next(ids);
        let chain_hash =
            Digest::of(format!("{:?}{payload}", previous.as_ref().map(|event| event.chain_hash)));
        let event: Event = record(json!({
            "id": id, "conversation_id": conversation_id, "sequence": kept.next_event_sequence,
            "previous": previous.map(|event| json!({"id": event.id, "sequence": event.sequence})),
            "turn_id": null, "input_id": input_id, "payload": payload, "created_at": now(),
            "chain_hash": chain_hash,
        }));
        kept.head_event_id = Some(id);
        kept.next_event_sequence += 1;
        kept.revision += 1;
        self.events.push(Arc::new(event));
        Ok(id)
    }

    fn look(&self, query: Query) -> Result<View, QueryError> {
        let kept =
            |id: ConversationId| self.conversations.get(&id).ok_or_else(|| QueryError::NotFound(id.into()));
        match query {
            Query::Projects => Ok(View::Projects(self.projects.values().cloned().collect())),
            Query::Conversations { project_id, page, before } => {
                let records = self.conversations.values().rev().map(|kept| &kept.record);
                let wanted = records
                    .filter(|record| project_id.is_none_or(|id| record.project_id == id))
                    .filter(|record| before.is_none_or(|id| record.id < id));
                Ok(View::Conversations(wanted.take(count(page)).cloned().collect()))
            }
            Query::Snapshot { conversation_id } => {
                let kept = kept(conversation_id)?;
                Ok(View::Snapshot(Box::new(record::<Snapshot>(json!({
                    "state": {
                        "conversation": kept.record, "config": kept.config, "queue": kept.queue,
                        "interactions": [], "store_available": true,
                    },
                    "calls": [], "todos": [], "cursor": kept.record.next_event_sequence - 1,
                })))))
            }
            Query::History { conversation_id, page, before } => {
                kept(conversation_id)?;
                let mut newest = self.events_of(conversation_id).rev();
                if let Some(before) = before {
                    newest.by_ref().take_while(|event| event.id != before).for_each(drop);
                }
                let (mut events, more) = fit(newest, page);
                events.reverse();
                let next = events.first().filter(|_| more).map(|event| PageMark::Before(event.id));
                Ok(View::Events(record::<EventPage>(json!({"events": events, "next": next}))))
            }
            Query::EventsSince { conversation_id, after, page } => {
                kept(conversation_id)?;
                let later = self.events_of(conversation_id).filter(|event| event.sequence > after.seen());
                let (events, more) = fit(later, page);
                let next = events
                    .last()
                    .filter(|_| more)
                    .map(|event| PageMark::After(Cursor::after(event.sequence)));
                Ok(View::Events(record::<EventPage>(json!({"events": events, "next": next}))))
            }
            Query::Interactions { .. } => Ok(View::Interactions(Vec::new())),
            Query::ToolCall { call_id, .. } => Err(QueryError::NotFound(call_id.into())),
            Query::Stats => Ok(View::Stats(record(json!({
                "projects": self.projects.len(), "conversations": self.conversations.len(),
                "unfinished": self.conversations.values().filter(|kept| !kept.queue.is_empty()).count(),
                "events": self.events.len(), "bytes": null,
            })))),
            Query::Verify => Ok(View::Verify(record(json!({
                "conversations": self.conversations.len(), "events": self.events.len(), "faults": [],
            })))),
            other => Err(QueryError::OtherView { kind: other.kind() }),
        }
    }

    /// Where a follower that has seen this much goes on: a place in the list of all events.
    fn place(&self, scope: Scope, after: Cursor) -> Result<usize, QueryError> {
        let seen = usize::try_from(after.seen()).map_err(|_| QueryError::InvalidCursor)?;
        let Scope::Conversation(id) = scope else {
            return if seen <= self.events.len() { Ok(seen) } else { Err(QueryError::InvalidCursor) };
        };
        if !self.conversations.contains_key(&id) {
            return Err(QueryError::NotFound(id.into()));
        }
        let Some(last) = seen.checked_sub(1) else { return Ok(0) };
        let mut places = self.events.iter().enumerate().filter(|(_, event)| event.conversation_id == id);
        places.nth(last).map(|(place, _)| place + 1).ok_or(QueryError::InvalidCursor)
    }

    fn concerns(&self, scope: Scope, event: &Event) -> bool {
        match scope {
            Scope::Conversation(id) | Scope::Family(id) => event.conversation_id == id,
            Scope::Project(id) => self
                .conversations
                .get(&event.conversation_id)
                .is_some_and(|kept| kept.record.project_id == id),
            Scope::Everything => true,
            _ => false,
        }
    }

    fn outcome(&self, event: &Event) -> Option<Outcome> {
        let EventPayload::ExecutionState(ended) = &event.payload else { return None };
        let ExecutionState::Completed { .. } = &ended.state else { return None };
        let mut before = self.events_of(event.conversation_id).rev().skip_while(|other| other.id != event.id);
        let answer = before.find_map(|event| match &event.payload {
            EventPayload::AssistantMessage(answer) => Some(answer.message.plain_text()),
            _ => None,
        })?;
        Some(record(json!({
            "conversation_id": event.conversation_id, "execution_id": ended.execution_id,
            "ending": {"ending": "completed", "text": answer}, "denied": [],
        })))
    }
}

fn now() -> Timestamp {
    std::time::SystemTime::now().into()
}

fn count(page: Page) -> usize {
    page.count.try_into().unwrap_or(usize::MAX)
}

/// As many events as a page takes, at least one, and whether there are more.
fn fit<'a>(events: impl Iterator<Item = &'a Arc<Event>>, page: Page) -> (Vec<Arc<Event>>, bool) {
    let (mut taken, mut bytes) = (Vec::new(), 0_u64);
    for event in events {
        let size = serde_json::to_vec(event).map_or(0, |json| json.len());
        bytes = bytes.saturating_add(size.try_into().unwrap_or(u64::MAX));
        if taken.len() == count(page) || (bytes > page.bytes && !taken.is_empty()) {
            return (taken, true);
        }
        taken.push(Arc::clone(event));
    }
    (taken, false)
}

impl Cage {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next event at or after a place that concerns a scope, with what it means and the place behind it.
    fn next(&self, scope: Scope, from: usize) -> Option<(Vec<Update>, usize)> {
        let memory = self.memory();
        let later = memory.events.iter().enumerate().skip(from);
        let (place, event) = later.into_iter().find(|(_, event)| memory.concerns(scope, event))?;
        let seen = match scope {
            Scope::Conversation(_) => event.sequence,
            _ => (place + 1).try_into().unwrap_or(u64::MAX),
        };
        let finished = memory.outcome(event).map(Update::Finished);
        let update = Update::Event { event: Arc::clone(event), cursor: Cursor::after(seen) };
        Some(([Some(update), finished].into_iter().flatten().rev().collect(), place + 1))
    }
}

#[async_trait]
impl Conversations for Parrot {
    async fn command(&self, request: CommandRequest) -> Result<Receipt, CommandError> {
        let mut memory = self.0.memory();
        if let Some(receipt) = memory.receipts.get(&request.id) {
            return Ok(receipt.clone());
        }
        let conversation = request.command.conversation_id().and_then(|id| memory.conversations.get(&id));
        let seen = conversation.map_or(0, |kept| kept.record.next_event_sequence - 1);
        let outcome = memory.carry_out(request.command, &request.principal, &self.0.ids)?;
        let receipt = Receipt::new(request.id, outcome, Cursor::after(seen));
        memory.receipts.insert(request.id, receipt.clone());
        self.0.heard.send_replace(memory.events.len());
        Ok(receipt)
    }

    async fn query(&self, query: Query) -> Result<View, QueryError> {
        self.0.memory().look(query)
    }

    async fn follow(&self, scope: Scope, after: Cursor) -> Result<Updates, QueryError> {
        let from = self.0.memory().place(scope, after)?;
        let heard = self.0.heard.subscribe();
        let start = (Arc::clone(&self.0), heard, from, Vec::new());
        Ok(Updates::from_stream(stream::unfold(
            start,
            move |(cage, mut heard, mut from, mut ready)| async move {
                loop {
                    if let Some(update) = ready.pop() {
                        return Some((Ok(update), (cage, heard, from, ready)));
                    }
                    // Marked as seen before looking, so that nothing heard in between is missed.
                    heard.borrow_and_update();
                    match cage.next(scope, from) {
                        Some((updates, after)) => (ready, from) = (updates, after),
                        None => heard.changed().await.ok()?,
                    }
                }
            },
        )))
    }
}
