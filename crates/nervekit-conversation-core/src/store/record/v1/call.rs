//! Unfinished tool calls.

use std::path::PathBuf;
use std::sync::Arc;

use nervekit_permissions::{CallOrigin, Evidence, Mode};
use nervekit_tools::ProcessRef;
use nervekit_types::{
    ConversationId, Digest, EventId, ExecutionId, IncarnationId, Timestamp, ToolCallId, TurnId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::interaction::{Interaction, Resolved};
use super::{Maybe, Millis, forms};
use crate::{interaction, tool_call};

#[derive(Serialize, Deserialize)]
#[serde(remote = "tool_call::ToolCall", deny_unknown_fields)]
pub(in crate::store::record) struct ToolCall {
    id: ToolCallId,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_call_id: Option<String>,
    conversation_id: ConversationId,
    execution_id: ExecutionId,
    turn_id: TurnId,
    assistant_event_id: EventId,
    content_index: u32,
    origin: CallOrigin,
    tool_name: String,
    arguments: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    coercions: Vec<String>,
    #[serde(with = "TurnSettings")]
    turn_settings: tool_call::TurnSettings,
    #[serde(with = "CallState")]
    state: tool_call::CallState,
    #[serde(skip_serializing_if = "Option::is_none")]
    supervision: Option<Arc<Evidence>>,
    #[serde(with = "Maybe::<Interaction>", default, skip_serializing_if = "Option::is_none")]
    interaction: Option<interaction::Interaction>,
    #[serde(with = "Maybe::<Resolved>", default, skip_serializing_if = "Option::is_none")]
    resolution: Option<interaction::Resolved>,
    #[serde(with = "Maybe::<Claim>", default, skip_serializing_if = "Option::is_none")]
    claim: Option<tool_call::Claim>,
    cancel_requested: bool,
    #[serde(with = "Millis")]
    updated_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "tool_call::TurnSettings", deny_unknown_fields)]
struct TurnSettings {
    rule_set_id: String,
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    working_directory: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition_digest: Option<Digest>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "tool_call::CallState", rename_all = "snake_case")]
enum CallState {
    Supervising,
    AwaitingApproval,
    Ready,
    Running,
    AwaitingInput,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "tool_call::Claim", deny_unknown_fields)]
struct Claim {
    attempt: u32,
    incarnation: IncarnationId,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<ProcessRef>,
}

forms! {
    ToolCall = tool_call::ToolCall;
    Claim = tool_call::Claim;
}
