//! Events.

use std::sync::Arc;
use std::time::Duration;

use nervekit_harness::{AssistantMessage, ProviderErrorKind};
use nervekit_permissions::{CallOrigin, Evidence};
use nervekit_tools::{Attachment, UserProjection};
use nervekit_types::{
    AssetId, ConversationId, Digest, EventId, ExecutionId, InputId, InteractionId, Principal, Timestamp,
    ToolCallId, TurnId,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::input::{Image, InputSource};
use super::interaction::Resolved;
use super::{Each, Maybe, Millis, forms};
use crate::store::record::CHAIN_START;
use crate::{event, input, interaction};

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Event", deny_unknown_fields)]
pub(in crate::store::record) struct Event {
    id: EventId,
    conversation_id: ConversationId,
    sequence: u64,
    #[serde(with = "Maybe::<EventLink>", default, skip_serializing_if = "Option::is_none")]
    previous: Option<event::EventLink>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<TurnId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_id: Option<InputId>,
    #[serde(with = "EventPayload")]
    payload: event::EventPayload,
    #[serde(with = "Millis")]
    created_at: Timestamp,
    /// The hash is over these bytes and stands before them.
    #[serde(skip, default = "chain_start")]
    chain_hash: Digest,
}

const fn chain_start() -> Digest {
    CHAIN_START
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::EventLink", deny_unknown_fields)]
pub(super) struct EventLink {
    id: EventId,
    sequence: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::EventPayload", rename_all = "snake_case")]
enum EventPayload {
    UserMessage(#[serde(with = "UserMessageEvent")] event::UserMessageEvent),
    AssistantMessage(#[serde(with = "AssistantMessageEvent")] event::AssistantMessageEvent),
    ToolCallResponse(#[serde(with = "Boxed")] Box<event::ToolCallResponse>),
    UserIntervention(#[serde(with = "UserIntervention")] event::UserIntervention),
    Notification(#[serde(with = "Notification")] event::Notification),
    ExecutionState(#[serde(with = "ExecutionStateEvent")] event::ExecutionStateEvent),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::UserMessageEvent", deny_unknown_fields)]
struct UserMessageEvent {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    submitted: Option<String>,
    #[serde(with = "Each::<Image>", default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<input::Image>,
    #[serde(with = "InputSource")]
    source: input::InputSource,
    submitter: Principal,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::AssistantMessageEvent", deny_unknown_fields)]
struct AssistantMessageEvent {
    #[serde(deserialize_with = "compact")]
    message: Arc<AssistantMessage>,
    #[serde(with = "Each::<MessageCall>", default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<event::MessageCall>,
    attempt: u32,
}

/// Reads a message without the room to grow that reading a list leaves: the context of a conversation keeps it.
fn compact<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<AssistantMessage>, D::Error> {
    let mut message = AssistantMessage::deserialize(deserializer)?;
    message.content.shrink_to_fit();
    Ok(Arc::new(message))
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::MessageCall", deny_unknown_fields)]
struct MessageCall {
    id: ToolCallId,
    content_index: u32,
}

/// A response in its box.
struct Boxed;

impl Boxed {
    fn serialize<S: serde::Serializer>(
        response: &event::ToolCallResponse,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        ToolCallResponse::serialize(response, serializer)
    }

    fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Box<event::ToolCallResponse>, D::Error> {
        ToolCallResponse::deserialize(deserializer).map(Box::new)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::ToolCallResponse", deny_unknown_fields)]
struct ToolCallResponse {
    call_id: ToolCallId,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_call_id: Option<String>,
    tool_name: String,
    arguments: Value,
    origin: CallOrigin,
    #[serde(skip_serializing_if = "Option::is_none")]
    assistant_event_id: Option<EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<u32>,
    #[serde(with = "CallOutcome")]
    outcome: event::CallOutcome,
    agent: String,
    user: UserProjection,
    #[serde(skip_serializing_if = "Option::is_none")]
    supervision: Option<Arc<Evidence>>,
    #[serde(with = "Maybe::<Resolved>", default, skip_serializing_if = "Option::is_none")]
    resolution: Option<interaction::Resolved>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispatch: Option<Arc<Evidence>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    complete: Option<AssetId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<Attachment>,
    attempts: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::CallOutcome", rename_all = "snake_case")]
enum CallOutcome {
    Completed,
    Failed,
    Denied,
    Cancelled,
    Indeterminate,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::UserIntervention", deny_unknown_fields)]
struct UserIntervention {
    #[serde(with = "InterventionKind")]
    kind: event::InterventionKind,
    principal: Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::InterventionKind", rename_all = "snake_case")]
enum InterventionKind {
    Stop,
    Continue,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Notification", deny_unknown_fields)]
struct Notification {
    text: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::ExecutionStateEvent", deny_unknown_fields)]
struct ExecutionStateEvent {
    execution_id: ExecutionId,
    #[serde(with = "ExecutionState")]
    state: event::ExecutionState,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::ExecutionState", rename_all = "snake_case", deny_unknown_fields)]
enum ExecutionState {
    Started,
    Waiting {
        #[serde(with = "Each::<Awaited>")]
        awaited: Vec<event::Awaited>,
    },
    Resumed,
    Retrying {
        attempt: u32,
        limit: u32,
        delay: Duration,
        error: String,
    },
    Completed {
        #[serde(with = "Each::<DeniedCall>", default, skip_serializing_if = "Vec::is_empty")]
        denied: Vec<event::DeniedCall>,
    },
    Failed {
        #[serde(with = "FailureReason")]
        reason: event::FailureReason,
        message: String,
        #[serde(with = "Each::<DeniedCall>", default, skip_serializing_if = "Vec::is_empty")]
        denied: Vec<event::DeniedCall>,
    },
    Cancelled,
    Interrupted,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::Awaited", deny_unknown_fields)]
struct Awaited {
    interaction_id: InteractionId,
    call_id: ToolCallId,
    tool_name: String,
    kind: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::DeniedCall", deny_unknown_fields)]
pub(super) struct DeniedCall {
    call_id: ToolCallId,
    tool_name: String,
    reason: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "event::FailureReason", rename_all = "snake_case", deny_unknown_fields)]
enum FailureReason {
    Provider {
        kind: ProviderErrorKind,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
    TurnLimit {
        limit: u32,
    },
    TimeLimit {
        limit: Duration,
    },
    TokenLimit {
        limit: u64,
    },
    CostLimit {
        limit_micros: u64,
    },
    Resources,
    Refused,
}

forms! {
    Event = event::Event;
    EventLink = event::EventLink;
    MessageCall = event::MessageCall;
    Awaited = event::Awaited;
    DeniedCall = event::DeniedCall;
}
