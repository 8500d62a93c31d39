//! Events: the append-only facts of a conversation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nervekit_harness::{AssistantMessage, ProviderErrorKind};
use nervekit_permissions::{CallOrigin, Evidence};
use nervekit_tools::{Attachment, UserProjection};
use nervekit_types::{
    AssetId, ConversationId, Digest, EventId, ExecutionId, InputId, InteractionId, Principal, Timestamp,
    ToolCallId, TurnId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::input::{Image, InputSource};
use crate::interaction::{InteractionKind, Resolved};

/// A durable fact. Events are appended and never changed; each links to the one that was the head before it.
///
/// ```
/// use nervekit_conversation_core::{Event, EventPayload};
/// fn said(event: &Event) -> Option<&str> {
///     match &event.payload {
///         EventPayload::UserMessage(message) => Some(&message.text),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// The id.
    pub id: EventId,
    /// The conversation it belongs to.
    pub conversation_id: ConversationId,
    /// Its place among all events of the conversation, all branches together; dense from 0.
    pub sequence: u64,
    /// The event before it on its branch.
    pub previous: Option<EventLink>,
    /// The turn it belongs to.
    pub turn_id: Option<TurnId>,
    /// The input it delivers.
    pub input_id: Option<InputId>,
    /// What happened.
    pub payload: EventPayload,
    /// When it was appended.
    pub created_at: Timestamp,
    /// SHA-256 over the hash of the event with the preceding sequence and the stored bytes of this one.
    pub chain_hash: Digest,
}

impl Event {
    /// What the event contributes to the model's context.
    ///
    /// ```
    /// use nervekit_conversation_core::{Event, LlmRepresentation};
    /// fn is_context(event: &Event) -> bool {
    ///     event.llm_representation() != LlmRepresentation::None
    /// }
    /// ```
    #[must_use]
    pub fn llm_representation(&self) -> LlmRepresentation {
        self.payload.llm_representation()
    }
}

/// An event of the same conversation, by id and by place.
///
/// ```
/// use nervekit_conversation_core::EventLink;
/// fn place(link: EventLink) -> u64 {
///     link.sequence
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventLink {
    /// The event's id.
    pub id: EventId,
    /// The event's sequence.
    pub sequence: u64,
}

impl EventLink {
    pub(crate) const fn new(id: EventId, sequence: u64) -> Self {
        Self { id, sequence }
    }
}

/// What an event contributes to the model's context.
///
/// ```
/// use nervekit_conversation_core::LlmRepresentation;
/// assert_eq!(serde_json::to_string(&LlmRepresentation::ToolResult)?, "\"tool_result\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LlmRepresentation {
    /// Nothing.
    None,
    /// A user message.
    User,
    /// An assistant message.
    Assistant,
    /// The result of a tool call.
    ToolResult,
}

/// What happened.
///
/// ```
/// use nervekit_conversation_core::EventPayload;
/// fn icon(payload: &EventPayload) -> &'static str {
///     match payload.kind() {
///         "user_message" => "🧑",
///         "assistant_message" => "🤖",
///         _ => "·",
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventPayload {
    /// A prompt was delivered.
    UserMessage(UserMessageEvent),
    /// The model answered.
    AssistantMessage(AssistantMessageEvent),
    /// A tool call was settled.
    ToolCallResponse(Box<ToolCallResponse>),
    /// A person or the host stepped in.
    UserIntervention(UserIntervention),
    /// The runtime decided something for the user.
    Notification(Notification),
    /// An execution changed its state.
    ExecutionState(ExecutionStateEvent),
}

impl EventPayload {
    /// The event type's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::UserMessage(_) => "user_message",
            Self::AssistantMessage(_) => "assistant_message",
            Self::ToolCallResponse(_) => "tool_call_response",
            Self::UserIntervention(_) => "user_intervention",
            Self::Notification(_) => "notification",
            Self::ExecutionState(_) => "execution_state",
        }
    }

    /// What such an event contributes to the model's context.
    #[must_use]
    pub const fn llm_representation(&self) -> LlmRepresentation {
        match self {
            Self::UserMessage(_) => LlmRepresentation::User,
            Self::AssistantMessage(_) => LlmRepresentation::Assistant,
            Self::ToolCallResponse(response) => match response.origin {
                CallOrigin::Model => LlmRepresentation::ToolResult,
                CallOrigin::User => LlmRepresentation::User,
            },
            Self::UserIntervention(intervention) => {
                if intervention.text.is_some() {
                    LlmRepresentation::User
                } else {
                    LlmRepresentation::None
                }
            }
            Self::Notification(_) | Self::ExecutionState(_) => LlmRepresentation::None,
        }
    }
}

/// A prompt as it was delivered.
///
/// ```
/// use nervekit_conversation_core::UserMessageEvent;
/// fn quote(message: &UserMessageEvent) -> String {
///     format!("> {}", message.text)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UserMessageEvent {
    /// The text the model reads.
    pub text: String,
    /// The text as submitted, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<String>,
    /// Images that came with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Where it came from.
    pub source: InputSource,
    /// Who submitted it.
    pub submitter: Principal,
}

/// An answer of the model.
///
/// ```
/// use nervekit_conversation_core::AssistantMessageEvent;
/// fn text(answer: &AssistantMessageEvent) -> String {
///     answer.message.plain_text()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AssistantMessageEvent {
    /// The message: blocks, usage, stop reason, provenance.
    pub message: std::sync::Arc<AssistantMessage>,
    /// The internal id of each tool call of the message, in content order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<MessageCall>,
    /// Which attempt of the request it answers, from 1.
    pub attempt: u32,
}

/// A tool call within an assistant message.
///
/// ```
/// use nervekit_conversation_core::MessageCall;
/// fn key(call: &MessageCall) -> String {
///     call.id.to_string()
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessageCall {
    /// The internal id.
    pub id: ToolCallId,
    /// The index of its block in the message's content.
    pub content_index: u32,
}

/// How a tool call ended.
///
/// The sum is exhaustive on purpose: a new way to end must break every host that decides by it.
///
/// ```
/// use nervekit_conversation_core::CallOutcome;
/// assert_eq!(CallOutcome::Indeterminate.as_str(), "indeterminate");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The tool did what was asked.
    Completed,
    /// It did not, and says why.
    Failed,
    /// A rule or a person refused it; nothing ran.
    Denied,
    /// It was called off before it had any effect.
    Cancelled,
    /// It was under way when contact was lost: it may have had its effect, and it is not repeated.
    Indeterminate,
}

impl CallOutcome {
    /// The word that stands in records and results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Indeterminate => "indeterminate",
        }
    }
}

impl fmt::Display for CallOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The settlement of a tool call: everything that will ever be known about it.
///
/// ```
/// use nervekit_conversation_core::ToolCallResponse;
/// fn line(response: &ToolCallResponse) -> String {
///     format!("{} {}", response.tool_name, response.outcome)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCallResponse {
    /// The internal id.
    pub call_id: ToolCallId,
    /// The id that the provider gave the call.
    pub provider_call_id: Option<String>,
    /// The tool.
    pub tool_name: String,
    /// The final, effective arguments.
    pub arguments: Value,
    /// Whether the model or a person asked for it.
    pub origin: CallOrigin,
    /// The assistant message that asked for it.
    pub assistant_event_id: Option<EventId>,
    /// The index of its block in that message.
    pub content_index: Option<u32>,
    /// How it ended.
    pub outcome: CallOutcome,
    /// What the model reads.
    pub agent: String,
    /// What a transcript card shows.
    pub user: UserProjection,
    /// How the permission engine decided, kept for ever.
    pub supervision: Option<Arc<Evidence>>,
    /// What a person was asked and answered.
    pub resolution: Option<Resolved>,
    /// How the permission engine decided when the call was about to begin, where that refused it: the documents had
    /// changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Arc<Evidence>>,
    /// The complete result, where it is larger than what the model reads.
    pub complete: Option<AssetId>,
    /// What else it produced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// How often it was attempted.
    pub attempts: u32,
}

/// A person or the host stepped in.
///
/// ```
/// use nervekit_conversation_core::InterventionKind;
/// assert_eq!(serde_json::to_string(&InterventionKind::Stop)?, "\"stop\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UserIntervention {
    /// What was done.
    pub kind: InterventionKind,
    /// Who did it.
    pub principal: Principal,
    /// What the model reads about it, if anything.
    pub text: Option<String>,
}

/// The ways to step in.
///
/// ```
/// use nervekit_conversation_core::InterventionKind;
/// assert_ne!(InterventionKind::Stop, InterventionKind::Continue);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InterventionKind {
    /// The work was stopped.
    Stop,
    /// The work was continued without new input.
    Continue,
}

/// What the runtime decided for the user, in words for a person.
///
/// ```
/// use nervekit_conversation_core::Notification;
/// fn shown(notification: &Notification) -> &str {
///     &notification.text
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Notification {
    /// The words.
    pub text: String,
}

/// An execution changed its state.
///
/// ```
/// use nervekit_conversation_core::{ExecutionState, ExecutionStateEvent};
/// fn ended(event: &ExecutionStateEvent) -> bool {
///     event.state.is_terminal()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExecutionStateEvent {
    /// The execution.
    pub execution_id: ExecutionId,
    /// Its new state.
    pub state: ExecutionState,
}

/// The states of an execution, as facts.
///
/// ```
/// use nervekit_conversation_core::ExecutionState;
/// assert!(ExecutionState::Completed { denied: vec![] }.is_terminal());
/// assert!(!ExecutionState::Started.is_terminal());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExecutionState {
    /// It began.
    Started,
    /// It waits for a person; everything that is awaited is listed. Appended in the batch that suspends a call.
    Waiting {
        /// What is awaited, all of it.
        awaited: Vec<Awaited>,
    },
    /// A person answered, or recovery carried it on.
    Resumed,
    /// A model request failed and is tried again.
    Retrying {
        /// Which attempt failed, from 1.
        attempt: u32,
        /// How many attempts there are.
        limit: u32,
        /// How long until the next one.
        delay: Duration,
        /// What went wrong, in words.
        error: String,
    },
    /// It ended with a final answer.
    Completed {
        /// Calls that were denied because no person could be asked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        denied: Vec<DeniedCall>,
    },
    /// It ended without one.
    Failed {
        /// Why, as data.
        reason: FailureReason,
        /// Why, in words.
        message: String,
        /// Calls that were denied because no person could be asked.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        denied: Vec<DeniedCall>,
    },
    /// It was stopped.
    Cancelled,
    /// A crash interrupted it and the recovery policy did not continue it.
    Interrupted,
}

impl ExecutionState {
    /// The state's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Waiting { .. } => "waiting",
            Self::Resumed => "resumed",
            Self::Retrying { .. } => "retrying",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether the execution has ended.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled | Self::Interrupted)
    }
}

/// Something a person is waited for.
///
/// ```
/// use nervekit_conversation_core::Awaited;
/// fn words(awaited: &Awaited) -> String {
///     format!("{} needs you", awaited.tool_name)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Awaited {
    /// The request to a person.
    pub interaction_id: InteractionId,
    /// The call that waits.
    pub call_id: ToolCallId,
    /// Its tool.
    pub tool_name: String,
    /// What sort of request it is: `approval`, `question`.
    pub kind: String,
}

impl Awaited {
    pub(crate) fn new(
        id: InteractionId,
        call_id: ToolCallId,
        tool_name: &str,
        kind: &InteractionKind,
    ) -> Self {
        Self { interaction_id: id, call_id, tool_name: tool_name.to_owned(), kind: kind.kind().to_owned() }
    }
}

/// A call that was denied because no person could be asked.
///
/// ```
/// use nervekit_conversation_core::DeniedCall;
/// fn words(denied: &DeniedCall) -> String {
///     format!("{}: {}", denied.tool_name, denied.reason)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeniedCall {
    /// The call.
    pub call_id: ToolCallId,
    /// Its tool.
    pub tool_name: String,
    /// Which rule asked, and what would allow it.
    pub reason: String,
}

/// Why an execution failed.
///
/// ```
/// use nervekit_conversation_core::FailureReason;
/// assert_eq!(FailureReason::TurnLimit { limit: 3 }.kind(), "turn_limit");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureReason {
    /// The provider refused or failed for good, or all attempts were used up.
    Provider {
        /// The kind of the last error.
        kind: ProviderErrorKind,
        /// Its HTTP status.
        status: Option<u16>,
    },
    /// The turn limit was reached.
    TurnLimit {
        /// The limit.
        limit: u32,
    },
    /// The time limit was reached.
    TimeLimit {
        /// The limit.
        limit: Duration,
    },
    /// The token limit was reached.
    TokenLimit {
        /// The limit.
        limit: u64,
    },
    /// The cost limit was reached.
    CostLimit {
        /// The limit, in millionths of a US dollar.
        limit_micros: u64,
    },
    /// The model or the turn's resources could not be resolved.
    Resources,
    /// A hook refused the model request.
    Refused,
}

impl FailureReason {
    /// The reason's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Provider { .. } => "provider",
            Self::TurnLimit { .. } => "turn_limit",
            Self::TimeLimit { .. } => "time_limit",
            Self::TokenLimit { .. } => "token_limit",
            Self::CostLimit { .. } => "cost_limit",
            Self::Resources => "resources",
            Self::Refused => "refused",
        }
    }
}
