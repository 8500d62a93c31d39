//! Requests to a person, and their answers.

use nervekit_permissions::{GrantScope, SuggestedRule};
use nervekit_types::{ConversationId, Digest, InteractionId, Principal, Timestamp, ToolCallId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Maybe, Millis, forms};
use crate::interaction;

#[derive(Serialize, Deserialize)]
#[serde(remote = "interaction::Interaction", deny_unknown_fields)]
pub(super) struct Interaction {
    id: InteractionId,
    conversation_id: ConversationId,
    #[serde(skip_serializing_if = "Option::is_none")]
    lead: Option<ConversationId>,
    call_id: ToolCallId,
    digest: Digest,
    tool_name: String,
    arguments: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    targets: Vec<String>,
    reason: String,
    #[serde(with = "InteractionKind")]
    kind: interaction::InteractionKind,
    #[serde(with = "Millis")]
    opened_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "interaction::InteractionKind", rename_all = "snake_case", deny_unknown_fields)]
enum InteractionKind {
    Approval { suggested: Vec<SuggestedRule>, rememberable: bool },
    Question(#[serde(with = "Question")] interaction::Question),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "interaction::Question", deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "it is the stored name")]
struct Question {
    question: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recommendation: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "interaction::Resolved", deny_unknown_fields)]
pub(super) struct Resolved {
    interaction_id: InteractionId,
    #[serde(with = "Resolution")]
    resolution: interaction::Resolution,
    by: Principal,
    #[serde(with = "Millis")]
    at: Timestamp,
    #[serde(with = "Maybe::<Remembered>", default, skip_serializing_if = "Option::is_none")]
    remembered: Option<interaction::Remembered>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "interaction::Remembered", rename_all = "snake_case", deny_unknown_fields)]
enum Remembered {
    Pending { rule: Box<SuggestedRule> },
    Saved { rule: String },
    Failed { problem: String },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "interaction::Resolution", rename_all = "snake_case", deny_unknown_fields)]
enum Resolution {
    Approve {
        digest: Digest,
        #[serde(with = "Maybe::<Remember>", default, skip_serializing_if = "Option::is_none")]
        remember: Option<interaction::Remember>,
    },
    Deny {
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(with = "Maybe::<Remember>", default, skip_serializing_if = "Option::is_none")]
        remember: Option<interaction::Remember>,
    },
    Answer {
        text: String,
    },
    Cancel,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "interaction::Remember", deny_unknown_fields)]
struct Remember {
    scope: GrantScope,
    suggestion: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    guardrail: bool,
}

forms! {
    Interaction = interaction::Interaction;
    Resolved = interaction::Resolved;
    Remember = interaction::Remember;
    Remembered = interaction::Remembered;
}
