//! What the tests and benchmarks of the store put into it. What only the core can make is read from its JSON.

use nervekit_conversation_core::store::{CoreRow, MailboxRow, NewEvent, Store};
use nervekit_conversation_core::{
    CommitNumber, ConversationConfig, EventPayload, ProjectRecord, QueuedInput, Status, ToolCall,
};
use nervekit_types::{
    ConversationId, Digest, EventId, ExecutionId, IdSource, InputId, ProjectId, Timestamp, ToolCallId, TurnId,
};
use serde_json::{Value, json};

pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(1_789_000_000_000)
}

/// Adds a project; returns its id and version.
pub(crate) async fn project(store: &Store) -> (ProjectId, CommitNumber) {
    let id = ProjectId::from_key("site");
    let record: ProjectRecord =
        serde_json::from_value(json!({ "id": id, "name": "site", "created_at": now(), "updated_at": now() }))
            .unwrap();
    let mut batch = store.batch();
    batch.project(&record, None);
    (id, store.commit(&mut batch).await.unwrap().number)
}

#[expect(clippy::default_trait_access, reason = "the crate of the type is no dependency of this one")]
pub(crate) fn core(project_id: ProjectId) -> CoreRow {
    CoreRow {
        project_id,
        owner_id: "local".to_owned(),
        parent_conversation_id: None,
        parent_tool_call_id: None,
        head: None,
        open_execution: None,
        usage_own: Default::default(),
        status: Status::Idle,
        next_event_sequence: 0,
        chain_hash: Digest::from_bytes([0; 32]),
        revision: 0,
        created_at: now(),
        updated_at: now(),
    }
}

/// Adds a conversation to a project.
pub(crate) async fn conversation(
    store: &Store,
    id: ConversationId,
    (project, version): (ProjectId, CommitNumber),
) {
    let config = ConversationConfig::new("demo/demo".parse().unwrap());
    let mut batch = store.batch();
    batch.create(id, &core(project), &config, &MailboxRow::default(), version);
    store.commit(&mut batch).await.unwrap();
}

pub(crate) fn note(id: EventId, text: &str) -> NewEvent {
    let payload: EventPayload =
        serde_json::from_value(json!({ "type": "notification", "text": text })).unwrap();
    NewEvent::new(id, payload)
}

pub(crate) fn input(ids: &dyn IdSource, conversation: ConversationId, wakes: bool) -> QueuedInput {
    serde_json::from_value(json!({
        "id": InputId::next(ids),
        "conversation_id": conversation,
        "acceptance_sequence": 0,
        "source": "user",
        "submitter": { "kind": "person", "name": "local" },
        "sender_conversation_id": null,
        "text": "What is this?",
        "images": [],
        "target": { "target": "next_turn" },
        "wake_when_idle": wakes,
        "accepted_at": now(),
    }))
    .unwrap()
}

pub(crate) fn call(
    ids: &dyn IdSource,
    conversation: ConversationId,
    execution: ExecutionId,
    arguments: &Value,
) -> ToolCall {
    serde_json::from_value(json!({
        "id": ToolCallId::next(ids),
        "provider_call_id": "toolu_01",
        "conversation_id": conversation,
        "execution_id": execution,
        "turn_id": TurnId::next(ids),
        "assistant_event_id": EventId::next(ids),
        "content_index": 0,
        "origin": "model",
        "tool_name": "read",
        "arguments": arguments,
        "turn_settings": { "rule_set_id": "supervised", "mode": "coding" },
        "state": "ready",
        "cancel_requested": false,
        "updated_at": now(),
    }))
    .unwrap()
}
