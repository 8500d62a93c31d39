mod commit;
mod crash;
mod generate;
mod index;
mod lease;
mod trust;
mod unfinished;

use std::sync::Arc;
use std::time::Duration;

use nervekit_harness::ModelSelection;
use nervekit_types::testing::{ManualClock, SequenceIds};
use nervekit_types::{Clock, ConversationId, EventId, IncarnationId, InputId, ProjectId, ToolCallId, TurnId};

use super::*;
use crate::backend::{CommitNumber, MemoryBackend};
use crate::conversation::{ConversationConfig, Lease, ProjectRecord, Status};
use crate::event::{EventPayload, ExecutionState, Notification};
use crate::input::{DeliveryTarget, InputSource, QueuedInput};
use crate::tool_call::{CallState, ToolCall};

pub(super) use generate::{AnyId, Dice};

/// A store, and a conversation in it.
#[derive(Debug)]
struct World {
    backend: Arc<dyn Backend>,
    clock: Arc<ManualClock>,
    ids: Arc<SequenceIds>,
    store: Store,
    id: ConversationId,
    me: IncarnationId,
}

impl World {
    async fn new() -> Self {
        Self::over(Arc::new(MemoryBackend::new())).await
    }

    async fn over(backend: Arc<dyn Backend>) -> Self {
        let (clock, ids) = (Arc::<ManualClock>::default(), Arc::<SequenceIds>::default());
        let store = Store::open(backend.clone(), ids.clone()).await.unwrap();
        let id = ConversationId::from_key("a");
        let world = Self { backend, clock, ids, store, id, me: IncarnationId::from_key("me") };
        let project = world.project().await;
        world.create(id, project).await;
        world
    }

    /// Another store over the same backend.
    async fn another(&self) -> Store {
        Store::open(self.backend.clone(), self.ids.clone()).await.unwrap()
    }

    async fn project(&self) -> ProjectId {
        let (id, now) = (ProjectId::from_key("site"), self.clock.now());
        let project =
            ProjectRecord { id, name: "site".to_owned(), directory: None, created_at: now, updated_at: now };
        let mut batch = self.store.batch();
        batch.project(&project, None);
        self.store.commit(&mut batch).await.unwrap();
        id
    }

    async fn create(&self, id: ConversationId, project: ProjectId) {
        let read = self.store.project(project).await.unwrap().unwrap().version;
        let mut batch = self.store.batch();
        batch.create(id, &self.core(project), &config(), &MailboxRow::default(), read);
        self.store.commit(&mut batch).await.unwrap();
    }

    fn core(&self, project_id: ProjectId) -> CoreRow {
        CoreRow {
            project_id,
            owner_id: "local".to_owned(),
            parent_conversation_id: None,
            parent_tool_call_id: None,
            head: None,
            open_execution: None,
            usage_own: nervekit_harness::Usage::default(),
            status: Status::Idle,
            next_event_sequence: 0,
            chain_hash: record::CHAIN_START,
            revision: 0,
            created_at: self.clock.now(),
            updated_at: self.clock.now(),
        }
    }

    async fn rows(&self) -> Rows {
        self.store.load(self.id).await.unwrap().unwrap()
    }

    /// Commits a draft on these rows, and lets them take it over.
    async fn commit(
        &self,
        rows: &mut Rows,
        role: Role,
        draft: impl FnOnce(&mut Draft<'_>),
    ) -> Result<Committed, CommitError> {
        let mut batch = self.batch(rows, role, draft);
        let mut committed = self.store.commit(&mut batch).await?;
        rows.apply(&mut committed);
        Ok(committed)
    }

    fn batch(&self, rows: &Rows, role: Role, change: impl FnOnce(&mut Draft<'_>)) -> Batch {
        let mut draft = Draft::new(rows, role, self.clock.now());
        change(&mut draft);
        let mut batch = self.store.batch();
        batch.change(rows, draft.finish()).unwrap();
        batch
    }

    async fn own(
        &self,
        rows: &mut Rows,
        draft: impl FnOnce(&mut Draft<'_>),
    ) -> Result<Committed, CommitError> {
        self.commit(rows, Role::Owner, draft).await
    }

    async fn mail(
        &self,
        rows: &mut Rows,
        draft: impl FnOnce(&mut Draft<'_>),
    ) -> Result<Committed, CommitError> {
        self.commit(rows, Role::Mailbox, draft).await
    }

    fn lease(&self, rows: &Rows, incarnation: IncarnationId) -> Lease {
        let previous = rows.lease.as_ref().map(|lease| &lease.value);
        Lease::taken(
            previous,
            incarnation,
            self.store.facts().opening,
            self.clock.now(),
            Duration::from_secs(30),
        )
    }

    /// Rows of an owner that holds the lease.
    async fn owned(&self) -> Rows {
        let mut rows = self.rows().await;
        let lease = self.lease(&rows, self.me);
        self.own(&mut rows, |draft| draft.hold_lease(lease)).await.unwrap();
        rows
    }

    fn input(&self, key: &str) -> QueuedInput {
        QueuedInput {
            id: InputId::from_key(key),
            conversation_id: self.id,
            acceptance_sequence: 0,
            source: InputSource::User,
            submitter: nervekit_types::Principal::local(),
            sender_conversation_id: None,
            text: key.to_owned(),
            images: Vec::new(),
            target: DeliveryTarget::NextTurn,
            wake_when_idle: true,
            accepted_at: self.clock.now(),
        }
    }

    fn call(&self, key: &str, state: CallState) -> ToolCall {
        ToolCall {
            id: ToolCallId::from_key(key),
            conversation_id: self.id,
            state,
            interaction: None,
            resolution: None,
            cancel_requested: false,
            ..Dice::new(7).call()
        }
    }

    /// What is listed as unfinished, after checking that it is what a look at every conversation finds, and that
    /// nothing else is wrong.
    async fn unfinished(&self) -> Vec<ConversationId> {
        let report = self.store.verify().await.unwrap();
        assert!(report.is_clean(), "{report:?}");
        self.store.unfinished().await.unwrap()
    }

    fn next<T: AnyId>(&self) -> T {
        T::of(self.ids.next_id())
    }
}

fn config() -> ConversationConfig {
    ConversationConfig::new(ModelSelection::new("demo", "demo"))
}

fn note(id: EventId, text: &str) -> NewEvent {
    NewEvent::new(id, EventPayload::Notification(Notification { text: text.to_owned() }))
}

fn say(draft: &mut Draft<'_>, id: EventId, text: &str) {
    draft.append(note(id, text));
}

fn start(draft: &mut Draft<'_>, key: &str) {
    draft.open_execution(EventId::from_key(key), TurnId::from_key(key));
}

fn end(draft: &mut Draft<'_>, key: &str) {
    draft.end_execution(EventId::from_key(key), ExecutionState::Completed { denied: Vec::new() });
}

fn conflict(result: Result<Committed, CommitError>) -> &'static str {
    match result {
        Err(CommitError::Conflict { record }) => record,
        other => panic!("{other:?}"),
    }
}
