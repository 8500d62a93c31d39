//! Inputs and their fates.

use nervekit_types::{AssetId, ConversationId, Digest, EventId, ExecutionId, InputId, Principal, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Each, Millis, forms};
use crate::input;
use crate::store::row;

#[derive(Serialize, Deserialize)]
#[serde(remote = "input::QueuedInput", deny_unknown_fields)]
pub(in crate::store::record) struct QueuedInput {
    id: InputId,
    conversation_id: ConversationId,
    acceptance_sequence: u64,
    #[serde(with = "InputSource")]
    source: input::InputSource,
    submitter: Principal,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender_conversation_id: Option<ConversationId>,
    text: String,
    #[serde(with = "Each::<Image>", default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<input::Image>,
    #[serde(with = "DeliveryTarget")]
    target: input::DeliveryTarget,
    wake_when_idle: bool,
    #[serde(with = "Millis")]
    accepted_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "input::InputSource", rename_all = "snake_case")]
pub(super) enum InputSource {
    User,
    ParentConversation,
    System,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "input::Image", deny_unknown_fields)]
pub(super) struct Image {
    media_type: String,
    asset_id: AssetId,
    digest: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "input::DeliveryTarget", rename_all = "snake_case", deny_unknown_fields)]
enum DeliveryTarget {
    NextTurn,
    Execution { execution_id: ExecutionId },
    NextExecution,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "row::Fate", deny_unknown_fields)]
pub(in crate::store::record) struct Fate {
    #[serde(with = "InputFate")]
    fate: input::InputFate,
    content: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "input::InputFate", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum InputFate {
    Queued,
    Delivered { event_id: EventId },
    Cancelled,
    Expired,
}

forms! {
    QueuedInput = input::QueuedInput;
    Image = input::Image;
    Fate = row::Fate;
}
