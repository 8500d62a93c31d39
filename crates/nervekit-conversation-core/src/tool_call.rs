//! Unfinished tool calls.

use std::path::PathBuf;
use std::sync::Arc;

use nervekit_permissions::{CallOrigin, Evidence, Mode, SuggestedRule};
use nervekit_tools::ProcessRef;
use nervekit_types::{
    ConversationId, Digest, EventId, ExecutionId, IncarnationId, Timestamp, ToolCallId, TurnId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::interaction::{Interaction, Remembered, Resolved};

/// How far a tool call has come. What is not listed has no row: a call that is still being drafted, and one
/// that is settled.
///
/// ```
/// use nervekit_conversation_core::CallState;
/// assert!(CallState::AwaitingApproval.is_suspended());
/// assert!(!CallState::Running.is_suspended());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// The permission engine has not decided yet.
    Supervising,
    /// A person has to approve it.
    AwaitingApproval,
    /// It may run, and has not begun.
    Ready,
    /// It is claimed: it may have had an effect.
    Running,
    /// A person has to answer.
    AwaitingInput,
}

impl CallState {
    /// Whether the call waits for a person.
    #[must_use]
    pub const fn is_suspended(self) -> bool {
        matches!(self, Self::AwaitingApproval | Self::AwaitingInput)
    }
}

/// The settings under which a call is decided: those that held when its message became durable.
///
/// ```
/// use nervekit_conversation_core::TurnSettings;
/// fn set(settings: &TurnSettings) -> &str {
///     &settings.rule_set_id
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TurnSettings {
    /// The selected rule set.
    pub rule_set_id: String,
    /// Coding or planning.
    pub mode: Mode,
    /// The folder relative paths start from.
    pub working_directory: Option<PathBuf>,
    /// SHA-256 of the tool's definition: another definition is another tool.
    pub definition_digest: Option<Digest>,
}

/// The right to carry a call out. It is durable before the first effect outside, so that after a crash it is known which
/// calls may have had one; settling a call needs the claim of the current attempt.
///
/// ```
/// use nervekit_conversation_core::Claim;
/// fn repeated(claim: &Claim) -> bool {
///     claim.attempt > 1
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Claim {
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The core that carries it out.
    pub incarnation: IncarnationId,
    /// The process that carries it out, once there is one.
    pub process: Option<ProcessRef>,
}

/// A tool call that is not settled.
///
/// ```
/// use nervekit_conversation_core::{CallState, ToolCall};
/// fn busy(calls: &[ToolCall]) -> usize {
///     calls.iter().filter(|call| call.state == CallState::Running).count()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCall {
    /// The internal id.
    pub id: ToolCallId,
    /// The id that the provider gave it.
    pub provider_call_id: Option<String>,
    /// Its conversation.
    pub conversation_id: ConversationId,
    /// The execution it belongs to.
    pub execution_id: ExecutionId,
    /// The turn it belongs to.
    pub turn_id: TurnId,
    /// The assistant message that asked for it.
    pub assistant_event_id: EventId,
    /// The index of its block in that message.
    pub content_index: u32,
    /// Whether the model or a person asked for it.
    pub origin: CallOrigin,
    /// The tool.
    pub tool_name: String,
    /// The effective arguments: what is matched, shown, hashed and executed.
    pub arguments: Value,
    /// What was unambiguous and put right in the arguments, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coercions: Vec<String>,
    /// The settings it is decided under.
    pub turn_settings: TurnSettings,
    /// How far it has come.
    pub state: CallState,
    /// How the permission engine decided.
    pub supervision: Option<Arc<Evidence>>,
    /// What a person is asked, while it is suspended.
    pub interaction: Option<Interaction>,
    /// What a person answered.
    pub resolution: Option<Resolved>,
    /// Who carries it out.
    pub claim: Option<Claim>,
    /// Whether it is to be called off.
    pub cancel_requested: bool,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl ToolCall {
    /// Whether a person is asked, still.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.interaction.is_some()
    }

    /// Whether a person has answered, and the holder of the conversation has not acted on it yet.
    pub(crate) const fn is_answered(&self) -> bool {
        self.state.is_suspended() && self.interaction.is_none()
    }

    /// The rule that is to be saved before anything else happens to the call.
    pub(crate) fn unsaved(&self) -> Option<(&Resolved, &SuggestedRule)> {
        match self.resolution.as_ref().map(|resolved| (resolved, &resolved.remembered)) {
            Some((resolved, Some(Remembered::Pending { rule }))) => Some((resolved, rule)),
            _ => None,
        }
    }
}
