//! Drafting a change to the rows of a conversation. Nothing here waits or touches the store.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use nervekit_types::{Digest, EventId, ExecutionId, IncarnationId, InputId, Timestamp, ToolCallId, TurnId};

use super::row::{CoreRow, Fate, FileRead, MailboxRow, OutcomeRow, Rows};
use crate::conversation::{CancelMark, ConversationConfig, Lease, OpenExecution, Status, Todo};
use crate::event::{Event, EventLink, EventPayload, ExecutionState, ExecutionStateEvent};
use crate::input::{InputFate, QueuedInput};
use crate::tool_call::ToolCall;

/// How many command outcomes a conversation remembers.
const REMEMBERED_OUTCOMES: u8 = 64;

/// In which role a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// As the holder of the lease: it may write anything.
    Owner,
    /// As anyone: only the mailbox row, inputs and their fates, the resolution or cancel mark of a call, and
    /// the settings. The core row stays as it is, so that the owner is not disturbed.
    Mailbox,
}

/// What a change does to the lease. Taking and releasing ride in the first and last batch of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// It is held, and is checked.
    Keep,
    /// It is taken or prolonged.
    Hold(Lease),
    /// It is given back.
    Release,
}

/// An event to append.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// Its id.
    pub id: EventId,
    /// The turn it belongs to.
    pub turn_id: Option<TurnId>,
    /// The input it delivers.
    pub input_id: Option<InputId>,
    /// What happened.
    pub payload: EventPayload,
}

impl NewEvent {
    /// An event that belongs to no turn and delivers no input.
    #[must_use]
    pub const fn new(id: EventId, payload: EventPayload) -> Self {
        Self { id, turn_id: None, input_id: None, payload }
    }

    /// Says which turn it belongs to.
    #[must_use]
    pub const fn turn(mut self, turn_id: TurnId) -> Self {
        self.turn_id = Some(turn_id);
        self
    }

    /// Says which input it delivers.
    #[must_use]
    pub const fn input(mut self, input_id: InputId) -> Self {
        self.input_id = Some(input_id);
        self
    }
}

/// A change to the rows of one conversation.
#[derive(Clone, Debug)]
pub struct Change {
    pub(super) role: Role,
    pub(super) lease: LeaseStep,
    pub(super) core: Option<CoreRow>,
    pub(super) mailbox: Option<MailboxRow>,
    pub(super) guards_mailbox: bool,
    pub(super) config: Option<ConversationConfig>,
    pub(super) events: Vec<Event>,
    pub(super) calls: BTreeMap<ToolCallId, Option<Arc<ToolCall>>>,
    pub(super) queue: BTreeMap<u64, Option<QueuedInput>>,
    pub(super) fates: BTreeMap<InputId, Fate>,
    pub(super) outcome: Option<(u8, OutcomeRow)>,
    pub(super) todos: Option<Vec<Todo>>,
    pub(super) documents: BTreeMap<String, Vec<u8>>,
    pub(super) file_reads: Vec<FileRead>,
    pub(super) policies: BTreeMap<Digest, Vec<u8>>,
}

impl Change {
    /// The events it appends; their chain hashes are filled in by the commit.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lease == LeaseStep::Keep
            && self.core.is_none()
            && self.mailbox.is_none()
            && self.config.is_none()
            && self.events.is_empty()
            && self.calls.is_empty()
            && self.queue.is_empty()
            && self.fates.is_empty()
            && self.outcome.is_none()
            && self.todos.is_none()
            && self.documents.is_empty()
            && self.file_reads.is_empty()
            && self.policies.is_empty()
    }
}

/// The rows as they are, and what is to become of them: reads look through to the rows.
#[derive(Debug)]
pub struct Draft<'a> {
    rows: &'a Rows,
    now: Timestamp,
    change: Change,
}

impl<'a> Draft<'a> {
    /// A draft of a change that is made now, in this role.
    #[must_use]
    pub const fn new(rows: &'a Rows, role: Role, now: Timestamp) -> Self {
        Self {
            rows,
            now,
            change: Change {
                role,
                lease: LeaseStep::Keep,
                core: None,
                mailbox: None,
                guards_mailbox: false,
                config: None,
                events: Vec::new(),
                calls: BTreeMap::new(),
                queue: BTreeMap::new(),
                fates: BTreeMap::new(),
                outcome: None,
                todos: None,
                documents: BTreeMap::new(),
                file_reads: Vec::new(),
                policies: BTreeMap::new(),
            },
        }
    }

    /// The rows it is drafted on.
    #[must_use]
    pub const fn rows(&self) -> &'a Rows {
        self.rows
    }

    /// When the change is made.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// In which role it is made.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.change.role
    }

    /// The core row as it will be.
    #[must_use]
    pub fn core(&self) -> &CoreRow {
        self.change.core.as_ref().unwrap_or(&self.rows.core.value)
    }

    /// The core row, to change.
    pub fn core_mut(&mut self) -> &mut CoreRow {
        self.change.core.get_or_insert_with(|| self.rows.core.value.clone())
    }

    /// The mailbox row as it will be.
    #[must_use]
    pub fn mailbox(&self) -> &MailboxRow {
        self.change.mailbox.as_ref().unwrap_or(&self.rows.mailbox.value)
    }

    /// The mailbox row, to change.
    pub fn mailbox_mut(&mut self) -> &mut MailboxRow {
        self.change.mailbox.get_or_insert_with(|| self.rows.mailbox.value.clone())
    }

    /// Makes the change hold only if nobody has written the mailbox row since it was read: no mark was set and
    /// no input accepted meanwhile.
    pub const fn guard_mailbox(&mut self) {
        self.change.guards_mailbox = true;
    }

    /// The settings as they will be.
    #[must_use]
    pub fn config(&self) -> &ConversationConfig {
        self.change.config.as_ref().unwrap_or(&self.rows.config.value)
    }

    /// The settings, to change.
    pub fn config_mut(&mut self) -> &mut ConversationConfig {
        self.change.config.get_or_insert_with(|| (*self.rows.config.value).clone())
    }

    /// The call as it will be.
    #[must_use]
    pub fn call(&self, id: ToolCallId) -> Option<&Arc<ToolCall>> {
        match self.change.calls.get(&id) {
            Some(changed) => changed.as_ref(),
            None => self.rows.calls.get(&id).map(|row| &row.value),
        }
    }

    /// The calls as they will be, in the order of their ids.
    pub fn calls(&self) -> impl Iterator<Item = &Arc<ToolCall>> {
        let stored = self.rows.calls.values().map(|row| &row.value);
        let kept = stored.filter(|call| !self.change.calls.contains_key(&call.id));
        kept.chain(self.change.calls.values().flatten())
    }

    /// Writes a call.
    pub fn put_call(&mut self, mut call: ToolCall) {
        call.updated_at = self.now;
        self.change.calls.insert(call.id, Some(Arc::new(call)));
    }

    /// Removes a call.
    pub fn remove_call(&mut self, id: ToolCallId) {
        if self.rows.calls.contains_key(&id) {
            self.change.calls.insert(id, None);
        } else {
            self.change.calls.remove(&id);
        }
    }

    /// The queue as it will be, in order of acceptance.
    #[must_use]
    pub fn queue(&self) -> BTreeMap<u64, Cow<'_, QueuedInput>> {
        let mut queue: BTreeMap<u64, Cow<'_, QueuedInput>> =
            self.rows.queue.iter().map(|(at, row)| (*at, Cow::Borrowed(&row.value))).collect();
        for (at, changed) in &self.change.queue {
            match changed {
                Some(input) => queue.insert(*at, Cow::Borrowed(input)),
                None => queue.remove(at),
            };
        }
        queue
    }

    /// Accepts an input: gives it its place in the queue.
    pub fn enqueue(&mut self, mut input: QueuedInput) {
        let mailbox = self.mailbox_mut();
        mailbox.last_input_sequence += 1;
        input.acceptance_sequence = mailbox.last_input_sequence;
        self.change.fates.insert(input.id, Fate { fate: InputFate::Queued, content: input.content_digest() });
        self.change.queue.insert(input.acceptance_sequence, Some(input));
    }

    /// Takes an input off the queue and records its fate.
    pub fn dequeue(&mut self, input: &QueuedInput, fate: InputFate) {
        self.change.fates.insert(input.id, Fate { fate, content: input.content_digest() });
        let at = input.acceptance_sequence;
        if self.rows.queue.contains_key(&at) {
            self.change.queue.insert(at, None);
        } else {
            self.change.queue.remove(&at);
        }
        // What was accepted or taken back must be seen by whoever decides about the queue.
        self.mailbox_mut();
    }

    /// Appends an event; it becomes the head.
    pub fn append(&mut self, event: NewEvent) -> EventLink {
        let (conversation_id, now) = (self.rows.id, self.now);
        let core = self.core_mut();
        let link = EventLink::new(event.id, core.next_event_sequence);
        let previous = core.head.replace(link);
        core.next_event_sequence += 1;
        self.change.events.push(Event {
            id: event.id,
            conversation_id,
            sequence: link.sequence,
            previous,
            turn_id: event.turn_id,
            input_id: event.input_id,
            payload: event.payload,
            created_at: now,
            chain_hash: Digest::from_bytes([0; 32]),
        });
        link
    }

    /// Appends an `execution_state` event.
    pub fn append_state(
        &mut self,
        id: EventId,
        execution_id: ExecutionId,
        state: ExecutionState,
    ) -> EventLink {
        let turn_id = self.core().open_execution.as_ref().map(|open| open.turn_id);
        let payload = EventPayload::ExecutionState(ExecutionStateEvent { execution_id, state });
        self.append(NewEvent { id, turn_id, input_id: None, payload })
    }

    /// Opens an execution: its `started` event has this id.
    pub fn open_execution(&mut self, started: EventId, turn_id: TurnId) -> ExecutionId {
        let id = ExecutionId::from(started);
        self.core_mut().open_execution = Some(OpenExecution {
            id,
            turn_id,
            turns: 0,
            continued: 0,
            busy_millis: 0,
            tokens: 0,
            cost_micros: 0,
            denied: Vec::new(),
        });
        self.append_state(started, id, ExecutionState::Started);
        id
    }

    /// Ends the open execution: appends the terminal event, clears the mark, expires what was meant for it.
    /// The change then holds only if the mailbox row was not written meanwhile.
    pub fn end_execution(&mut self, ended: EventId, state: ExecutionState) {
        let Some(execution_id) = self.core().open_execution.as_ref().map(|open| open.id) else { return };
        let status = match state {
            ExecutionState::Failed { .. } => Status::Failed,
            ExecutionState::Interrupted => Status::Interrupted,
            _ => Status::Idle,
        };
        self.append_state(ended, execution_id, state);
        let expired: Vec<QueuedInput> = self
            .queue()
            .into_values()
            .filter(|input| input.is_for(execution_id))
            .map(Cow::into_owned)
            .collect();
        for input in expired {
            self.dequeue(&input, InputFate::Expired);
        }
        if matches!(status, Status::Failed | Status::Interrupted) {
            let mailbox = self.mailbox_mut();
            mailbox.held_through = mailbox.last_input_sequence;
        }
        if self.mailbox().cancel_mark.is_some_and(|mark| mark.execution_id == execution_id) {
            self.mailbox_mut().cancel_mark = None;
        }
        let core = self.core_mut();
        core.open_execution = None;
        core.status = status;
        self.guard_mailbox();
    }

    /// Marks the open execution as one that is to end as cancelled, with its calls.
    pub fn mark_cancelled(&mut self) {
        let Some(execution_id) = self.core().open_execution.as_ref().map(|open| open.id) else { return };
        self.mailbox_mut().cancel_mark = Some(CancelMark { execution_id });
        let open: Vec<_> = self.calls().filter(|call| !call.cancel_requested).cloned().collect();
        for call in open {
            self.put_call(ToolCall { cancel_requested: true, ..Arc::unwrap_or_clone(call) });
        }
    }

    /// Remembers what came of a command.
    pub fn remember_outcome(&mut self, outcome: OutcomeRow) {
        let mailbox = self.mailbox_mut();
        let slot = mailbox.next_outcome % REMEMBERED_OUTCOMES;
        mailbox.next_outcome = (slot + 1) % REMEMBERED_OUTCOMES;
        self.change.outcome = Some((slot, outcome));
    }

    /// The list of things to do as it will be.
    #[must_use]
    pub fn todos(&self) -> &[Todo] {
        match (&self.change.todos, &self.rows.todos) {
            (Some(todos), _) => todos,
            (None, Some(stored)) => &stored.value,
            (None, None) => &[],
        }
    }

    /// A document of the conversation as it will be.
    #[must_use]
    pub fn document(&self, name: &str) -> Option<&[u8]> {
        let changed = self.change.documents.get(name);
        changed.or_else(|| self.rows.documents.get(name).map(|row| &row.value)).map(Vec::as_slice)
    }

    /// Replaces the list of things to do.
    pub fn put_todos(&mut self, todos: Vec<Todo>) {
        self.change.todos = Some(todos);
    }

    /// Replaces a document of the conversation.
    pub fn put_document(&mut self, name: impl Into<String>, content: Vec<u8>) {
        self.change.documents.insert(name.into(), content);
    }

    /// Records what was read or written of a file.
    pub fn put_file_read(&mut self, path: impl Into<String>, digest: Digest) {
        self.change.file_reads.push(FileRead { path: path.into(), digest });
    }

    /// Stores the bytes of an effective policy under their digest.
    pub fn put_policy(&mut self, digest: Digest, bytes: Vec<u8>) {
        self.change.policies.insert(digest, bytes);
    }

    /// What became of an input in this draft, if it changed.
    #[must_use]
    pub fn fate(&self, id: InputId) -> Option<InputFate> {
        self.change.fates.get(&id).map(|fate| fate.fate)
    }

    /// Whether the draft touches what only the holder of the lease writes. Marks on calls are anyone's.
    #[must_use]
    pub fn needs_owner(&self) -> bool {
        let only_marked = |id: &ToolCallId, changed: &Option<Arc<ToolCall>>| {
            let stored = self.rows.calls.get(id).map(|row| &row.value);
            match (stored, changed) {
                (Some(stored), Some(changed)) => {
                    changed.cancel_requested && stored.state == changed.state && stored.claim == changed.claim
                }
                _ => false,
            }
        };
        self.change.core.is_some()
            || !self.change.events.is_empty()
            || self.change.todos.is_some()
            || !self.change.documents.is_empty()
            || !self.change.file_reads.is_empty()
            || matches!(self.change.lease, LeaseStep::Hold(_))
            || self.change.calls.iter().any(|(id, changed)| !only_marked(id, changed))
    }

    /// Whether the draft gives the lease back.
    #[must_use]
    pub fn releases_lease(&self) -> bool {
        self.change.lease == LeaseStep::Release
    }

    /// Makes the draft a mailbox change.
    pub const fn as_mailbox(&mut self) {
        self.change.role = Role::Mailbox;
    }

    /// Takes or prolongs the lease.
    pub const fn hold_lease(&mut self, lease: Lease) {
        self.change.lease = LeaseStep::Hold(lease);
    }

    /// Gives the lease back.
    pub const fn release_lease(&mut self) {
        self.change.lease = LeaseStep::Release;
    }

    /// Whether the lease will be held by this core.
    #[must_use]
    pub fn holds_lease(&self, incarnation: IncarnationId) -> bool {
        match self.change.lease {
            LeaseStep::Hold(_) => true,
            LeaseStep::Release => false,
            LeaseStep::Keep => self
                .rows
                .lease
                .as_ref()
                .is_some_and(|lease| !lease.value.released && lease.value.incarnation == incarnation),
        }
    }

    /// Ends the draft.
    #[must_use]
    pub fn finish(mut self) -> Change {
        if self.change.role == Role::Owner && !self.change.is_empty() {
            let status = self.open_status();
            let now = self.now;
            let core = self.core_mut();
            if let Some(status) = status {
                core.status = status;
            }
            core.revision += 1;
            core.updated_at = now;
        }
        if let Some(mailbox) = &mut self.change.mailbox {
            mailbox.mailbox_sequence += 1;
        }
        self.change
    }

    /// The status while an execution is open: waiting if calls are left and all of them are suspended.
    fn open_status(&self) -> Option<Status> {
        self.core().open_execution.as_ref()?;
        let mut calls = self.calls().peekable();
        let waiting = calls.peek().is_some() && calls.all(|call| call.state.is_suspended());
        Some(if waiting { Status::Waiting } else { Status::Running })
    }
}
