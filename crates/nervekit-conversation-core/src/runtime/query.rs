//! Answering queries: each is one consistent read of the store.

use std::path::PathBuf;

use nervekit_permissions::{DocumentScope, PolicyDocument, RuleEvidence, RuleQuery};
use nervekit_types::{ConversationId, EventId, ToolCallId};

use super::core::Inner;
use super::plan::PERMISSIONS;
use crate::error::{QueryError, Subject};
use crate::event::{Event, EventPayload};
use crate::interaction::Interaction;
use crate::query::{EventPage, Page, PageMark, Query, Snapshot, ToolCallView, View};
use crate::store::{EventRange, Rows, StoreError};
use crate::tool_call::ToolCall;
use crate::update::Cursor;

/// How many events are read at once while looking for one.
const PAGE: usize = 128;

pub(super) async fn answer(inner: &Inner, query: Query) -> Result<View, QueryError> {
    if inner.is_closing() {
        return Err(QueryError::ShuttingDown);
    }
    let store = &inner.store;
    Ok(match query {
        Query::Projects => View::Projects(store.projects().await?),
        Query::Conversations { project_id, page, before } => {
            View::Conversations(store.conversations(project_id, before, count(page)).await?)
        }
        Query::Snapshot { conversation_id } => {
            let rows = rows(inner, conversation_id).await?;
            let mut snapshot = snapshot(&rows);
            let folder = project_folder(inner, &rows).await?;
            snapshot.state.policy_problems = inner.policy_problems(folder.as_deref()).await;
            View::Snapshot(Box::new(snapshot))
        }
        Query::History { conversation_id, page, before } => {
            View::Events(history(inner, conversation_id, page, before).await?)
        }
        Query::EventsSince { conversation_id, after, page } => {
            View::Events(events_since(inner, conversation_id, after, page).await?)
        }
        Query::Interactions { conversation_id } => {
            View::Interactions(interactions(inner, conversation_id).await?)
        }
        Query::ToolCall { conversation_id, call_id } => {
            View::ToolCall(Box::new(tool_call(inner, conversation_id, call_id).await?))
        }
        Query::PolicyStatus { owner } => View::PolicyStatus(Box::new(inner.policy_status(owner).await?)),
        Query::Rules { conversation_id } => View::Rules(rules(inner, conversation_id).await?),
        Query::Policy { digest } => {
            let bytes = store.policy(digest).await?;
            let policy = bytes.map(String::from_utf8).transpose();
            View::Policy(policy.map_err(|error| StoreError::damaged(format!("policy {digest}: {error}")))?)
        }
        Query::Stats => View::Stats(store.stats().await?),
        Query::Verify => View::Verify(store.verify().await?),
    })
}

fn count(page: Page) -> usize {
    usize::try_from(page.count.max(1)).unwrap_or(usize::MAX)
}

async fn rows(inner: &Inner, id: ConversationId) -> Result<Rows, QueryError> {
    inner.store.load(id).await?.ok_or(QueryError::NotFound(Subject::Conversation(id)))
}

/// The rules in force, as calls that are made now are judged by them.
async fn rules(inner: &Inner, id: ConversationId) -> Result<Vec<RuleEvidence>, QueryError> {
    let rows = rows(inner, id).await?;
    let config = &rows.config.value;
    let mut query = RuleQuery::new(config.selected_rule_set());
    if let Some(folder) = project_folder(inner, &rows).await? {
        query = query.project(folder);
    }
    if let Some(documents) = &inner.documents {
        let project = query.project.as_deref();
        documents.read(documents.unread(project, [&*query.rule_set])).await.map_err(Box::new)?;
    }
    if let Some(document) = rows.documents.get(PERMISSIONS) {
        let document =
            PolicyDocument::parse(DocumentScope::Conversation, &document.value).map_err(Box::new)?;
        query = query.conversation_document(document);
    }
    Ok(inner.permissions.rules(query))
}

async fn project_folder(inner: &Inner, rows: &Rows) -> Result<Option<PathBuf>, QueryError> {
    let project = inner.store.project(rows.core.value.project_id).await?;
    Ok(project.and_then(|project| project.value.directory))
}

fn snapshot(rows: &Rows) -> Snapshot {
    Snapshot {
        state: rows.state(),
        calls: rows.calls.values().map(|call| ToolCall::clone(&call.value)).collect(),
        todos: rows.todos.as_ref().map(|todos| todos.value.clone()).unwrap_or_default(),
        cursor: Cursor::after(rows.core.value.next_event_sequence),
    }
}

async fn interactions(inner: &Inner, id: Option<ConversationId>) -> Result<Vec<Interaction>, QueryError> {
    let ids = match id {
        Some(id) => vec![rows(inner, id).await?.id],
        None => inner.store.unfinished().await?,
    };
    let mut open = Vec::new();
    for id in ids {
        open.extend(inner.store.calls(id).await?.into_iter().filter_map(|call| call.interaction));
    }
    open.sort_by_key(|interaction| (interaction.opened_at, interaction.id));
    Ok(open)
}

/// Events of the path to the head, before one of it; the page in order.
async fn history(
    inner: &Inner,
    id: ConversationId,
    page: Page,
    before: Option<EventId>,
) -> Result<EventPage, QueryError> {
    let head = rows(inner, id).await?.core.value.head;
    let mut path = Path { inner, id, next: head.map(|head| head.sequence), held: Vec::new() };
    if let Some(before) = before {
        loop {
            match path.next().await? {
                Some(event) if event.id == before => break,
                Some(_) => {}
                None => return Err(QueryError::NotFound(Subject::Event(before))),
            }
        }
    }
    let mut events = Vec::new();
    let mut bytes = 0;
    while events.len() < count(page) {
        let Some(event) = path.next().await? else { break };
        bytes += size(&event);
        if bytes > page.bytes && !events.is_empty() {
            // It is where the next page begins.
            path.next = Some(event.sequence);
            break;
        }
        events.push(event);
    }
    let more = path.next.is_some();
    let next = events.last().filter(|_| more).map(|first| PageMark::Before(first.id));
    events.reverse();
    Ok(EventPage { events, next })
}

/// Walks from the head towards the first event, reading in pages: most of a path lies one after the other.
struct Path<'a> {
    inner: &'a Inner,
    id: ConversationId,
    next: Option<u64>,
    held: Vec<Event>,
}

impl Path<'_> {
    async fn next(&mut self) -> Result<Option<Event>, QueryError> {
        let Some(sequence) = self.next else { return Ok(None) };
        if self.held.last().is_none_or(|held| held.sequence != sequence) {
            self.held.retain(|held| held.sequence <= sequence);
            if self.held.last().is_none_or(|held| held.sequence != sequence) {
                let range = EventRange::before(sequence + 1).limit(PAGE);
                self.held = self.inner.store.events(self.id, range).await?;
                self.held.reverse();
            }
        }
        let event = self.held.pop();
        self.next = event.as_ref().and_then(|event| event.previous).map(|previous| previous.sequence);
        Ok(event)
    }
}

/// The size of an event as it is sent.
fn size(event: &Event) -> u64 {
    serde_json::to_vec(event).map_or(0, |bytes| bytes.len() as u64)
}

async fn events_since(
    inner: &Inner,
    id: ConversationId,
    after: Cursor,
    page: Page,
) -> Result<EventPage, QueryError> {
    let end = rows(inner, id).await?.core.value.next_event_sequence;
    if after.seen() > end {
        return Err(QueryError::InvalidCursor);
    }
    let range = EventRange { first: after.seen(), end, limit: count(page), reverse: false };
    let mut events = inner.store.events(id, range).await?;
    let mut bytes = 0;
    let fitting = events.iter().take_while(|event| {
        bytes += size(event);
        bytes <= page.bytes
    });
    let fitting = fitting.count().max(1);
    events.truncate(fitting);
    let next = events.last().map(|last| last.sequence + 1).filter(|next| *next < end);
    Ok(EventPage { events, next: next.map(|next| PageMark::After(Cursor::after(next))) })
}

async fn tool_call(
    inner: &Inner,
    id: ConversationId,
    call_id: ToolCallId,
) -> Result<ToolCallView, QueryError> {
    let rows = rows(inner, id).await?;
    if let Some(call) = rows.calls.get(&call_id) {
        return Ok(ToolCallView::Unfinished(Box::new(ToolCall::clone(&call.value))));
    }
    let mut before = rows.core.value.next_event_sequence;
    while before > 0 {
        let page = inner.store.events(id, EventRange::before(before).limit(PAGE)).await?;
        for event in &page {
            if let EventPayload::ToolCallResponse(response) = &event.payload
                && response.call_id == call_id
            {
                return Ok(ToolCallView::Settled(response.clone()));
            }
        }
        match page.last() {
            Some(last) => before = last.sequence,
            None => break,
        }
    }
    Err(QueryError::NotFound(Subject::ToolCall(call_id)))
}
