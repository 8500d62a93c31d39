use std::error::Error;
use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use nervekit_harness::{AssistantMessage, ModelRequest};
use nervekit_types::{ConversationId, ToolCallId, TurnId};
use serde_json::Value;

use super::forward;
use crate::event::{Event, ToolCallResponse};

/// What a hook says before something happens.
///
/// The sum is exhaustive on purpose: a new verdict must break every caller.
///
/// ```
/// use nervekit_conversation_core::HookVerdict;
/// assert_ne!(HookVerdict::Continue, HookVerdict::Deny("not on a Friday".into()));
/// ```
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub enum HookVerdict {
    /// Let it happen.
    Continue,
    /// Do not; the words are for the model (a call) or the person (a request).
    Deny(String),
    /// Let it happen with these arguments instead: they are validated, shown, matched and executed like any. For
    /// a model request, a text value is added as a final user note.
    Replace(Value),
}

/// What a hook may fail with; the model reads a kind, the log the source.
///
/// ```
/// use nervekit_conversation_core::HookError;
/// fn check() -> Result<u32, HookError> {
///     Ok("7".parse::<u32>()?)
/// }
/// assert!(check().is_ok());
/// ```
pub struct HookError(Box<dyn Error + Send + Sync>);

impl HookError {
    /// The error itself.
    #[must_use]
    pub fn source(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for HookError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl Debug for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.0, f)
    }
}

/// A tool call as a hook sees it.
///
/// ```
/// use nervekit_conversation_core::HookCall;
/// fn is_shell(call: &HookCall) -> bool {
///     call.tool_name == "bash"
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HookCall {
    /// The conversation.
    pub conversation_id: ConversationId,
    /// The turn.
    pub turn_id: TurnId,
    /// The call.
    pub call_id: ToolCallId,
    /// The tool.
    pub tool_name: String,
    /// The effective arguments.
    pub arguments: Value,
}

/// Observes or changes what happens. A host may register many: they run in order, and the first refusal wins.
///
/// **Contract.** An error, a panic or an overrun of the host's time limit in a `before_*` method denies; in the
/// others it is logged. [`before_tool_call`](Self::before_tool_call) runs once for a call, before supervision;
/// its result is stored, and a restart does not run it again. A hook must not wait for the conversation it is
/// called from.
///
/// [`on_event`](Self::on_event) and [`after_tool_call`](Self::after_tool_call) are told beside the work, of what
/// their own core made durable: for each conversation one event after the other, in the order of their sequence,
/// each event to all hooks before the next one. A conversation of which they have more than 256 events to be told
/// sends no model request until they have caught up. A shutdown waits for them within its deadline; a crash does
/// not, so what must not be missed is read from the history.
///
/// ```
/// use async_trait::async_trait;
/// use nervekit_conversation_core::{Hook, HookCall, HookError, HookVerdict};
///
/// #[derive(Debug)]
/// struct NoForcePush;
///
/// #[async_trait]
/// impl Hook for NoForcePush {
///     async fn before_tool_call(&self, call: &HookCall) -> Result<HookVerdict, HookError> {
///         let command = call.arguments["command"].as_str().unwrap_or_default();
///         if call.tool_name == "bash" && command.contains("push --force") {
///             return Ok(HookVerdict::Deny("force pushes are not done here".to_owned()));
///         }
///         Ok(HookVerdict::Continue)
///     }
/// }
/// ```
#[async_trait]
pub trait Hook: Debug + Send + Sync + 'static {
    /// Before a model request. It may add a final user note, and cannot edit what comes before.
    async fn before_model_request(
        &self,
        conversation_id: ConversationId,
        request: &ModelRequest,
    ) -> Result<HookVerdict, HookError> {
        let _ = (conversation_id, request);
        Ok(HookVerdict::Continue)
    }

    /// After an answer arrived, before it is stored.
    async fn after_model_response(
        &self,
        conversation_id: ConversationId,
        message: &AssistantMessage,
    ) -> Result<(), HookError> {
        let _ = (conversation_id, message);
        Ok(())
    }

    /// Before a call is supervised.
    async fn before_tool_call(&self, call: &HookCall) -> Result<HookVerdict, HookError> {
        let _ = call;
        Ok(HookVerdict::Continue)
    }

    /// After a call was settled.
    async fn after_tool_call(
        &self,
        conversation_id: ConversationId,
        response: &ToolCallResponse,
    ) -> Result<(), HookError> {
        let _ = (conversation_id, response);
        Ok(())
    }

    /// After an event became durable.
    async fn on_event(&self, event: &Event) -> Result<(), HookError> {
        let _ = event;
        Ok(())
    }
}

forward!(Hook {
    fn before_model_request(&self, conversation_id: ConversationId, request: &ModelRequest) -> Result<HookVerdict, HookError>;
    fn after_model_response(&self, conversation_id: ConversationId, message: &AssistantMessage) -> Result<(), HookError>;
    fn before_tool_call(&self, call: &HookCall) -> Result<HookVerdict, HookError>;
    fn after_tool_call(&self, conversation_id: ConversationId, response: &ToolCallResponse) -> Result<(), HookError>;
    fn on_event(&self, event: &Event) -> Result<(), HookError>;
});
