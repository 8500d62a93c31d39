//! The port that carries out one call.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use nervekit_permissions::EffectiveArguments;
use nervekit_types::ToolCallId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::argument::decode;
use crate::context::ToolContext;
use crate::error::ToolError;
use crate::outcome::ToolOutcome;
use crate::output::ToolOutput;

/// One call, validated and allowed.
///
/// ```
/// use nervekit_permissions::EffectiveArguments;
/// use nervekit_tools::ToolCall;
/// use nervekit_types::ToolCallId;
///
/// #[derive(serde::Deserialize)]
/// struct Greeting { name: String }
///
/// let arguments = EffectiveArguments::parse(r#"{"name": "Ann"}"#)?;
/// let call = ToolCall::new(ToolCallId::from_key("1"), "greet", arguments);
/// assert_eq!(call.typed::<Greeting>().unwrap().name, "Ann");
/// # Ok::<(), nervekit_permissions::ArgumentsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCall {
    /// Names the call.
    pub id: ToolCallId,
    /// The tool.
    pub tool: String,
    /// The effective arguments: those that were judged.
    pub arguments: EffectiveArguments,
}

impl ToolCall {
    /// Puts a call together.
    #[must_use]
    pub fn new(id: ToolCallId, tool: impl Into<String>, arguments: EffectiveArguments) -> Self {
        Self { id, tool: tool.into(), arguments }
    }

    /// Decodes the arguments. Effective arguments of the tool's own type always decode.
    pub fn typed<A: DeserializeOwned>(&self) -> Result<A, ToolError> {
        decode(self.arguments.as_value().clone()).map_err(|error| ToolError::new(error.to_string()))
    }
}

/// Carries out the calls of a tool.
///
/// **Contract.** `execute` is called once per claimed attempt, after the permission decision, with the locks of
/// its write targets held. It touches what the context gives it (decided paths, processes, assets), never a path
/// from the arguments. When [`ToolContext::cancelled`] resolves it should end soon; after a grace period its
/// future is dropped, which must be safe at every await. It returns [`ToolOutcome::Cancelled`] only when nothing
/// has happened. A panic settles the call as failed. `answered` is called instead of `execute` when the person
/// whom [`ToolOutcome::NeedsInput`] asked has answered; by default the answer is the result.
///
/// ```
/// use nervekit_tools::{ToolCall, ToolContext, ToolError, ToolExecutor, ToolOutcome, ToolOutput};
///
/// #[derive(Debug)]
/// struct Echo;
///
/// #[async_trait::async_trait]
/// impl ToolExecutor for Echo {
///     async fn execute(&self, call: ToolCall, _context: ToolContext) -> Result<ToolOutcome, ToolError> {
///         Ok(ToolOutput::text(call.arguments.as_value().to_string()).into())
///     }
/// }
/// ```
#[async_trait]
pub trait ToolExecutor: Debug + Send + Sync + 'static {
    /// Carries out a call.
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError>;

    /// Goes on with the answer of a person.
    async fn answered(
        &self,
        _call: ToolCall,
        answer: Value,
        _context: ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        let text = match answer {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Ok(ToolOutput::text(text).into())
    }
}

macro_rules! forward_executor {
    ($pointer:ident) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<P: ToolExecutor + ?Sized> ToolExecutor for $pointer<P> {
            async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError> {
                (**self).execute(call, context).await
            }
            async fn answered(
                &self,
                call: ToolCall,
                answer: Value,
                context: ToolContext,
            ) -> Result<ToolOutcome, ToolError> {
                (**self).answered(call, answer, context).await
            }
        }
    };
}
forward_executor!(Arc);
forward_executor!(Box);
const _: fn(&dyn ToolExecutor) = |_| ();
