//! How an execution ended.

use std::fmt;

use nervekit_types::{ConversationId, ExecutionId};
use serde::{Deserialize, Serialize};

use crate::event::{DeniedCall, Event, EventPayload, ExecutionState, FailureReason};

/// How an execution ended, derived from its last `execution_state` event and replayed with it. The compiler warns of
/// one that is dropped unread, because that would hide a failure.
///
/// ```
/// use nervekit_conversation_core::{Ending, Outcome};
/// fn code(outcome: &Outcome) -> i32 {
///     match &outcome.ending {
///         Ending::Completed { .. } if outcome.denied.is_empty() => 0,
///         Ending::Completed { .. } => 3,
///         _ => 1,
///     }
/// }
/// ```
#[must_use = "an outcome says whether the work succeeded"]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The conversation.
    pub conversation_id: ConversationId,
    /// The execution that ended.
    pub execution_id: ExecutionId,
    /// How it ended.
    pub ending: Ending,
    /// Calls that were denied because no person could be asked.
    pub denied: Vec<DeniedCall>,
}

impl Outcome {
    /// The outcome that a terminal event tells, with the text of the last answer before it.
    pub(crate) fn of(event: &Event, answer: String) -> Option<Self> {
        let EventPayload::ExecutionState(state) = &event.payload else { return None };
        let (ending, denied) = match &state.state {
            ExecutionState::Completed { denied } => (Ending::Completed { text: answer }, denied.clone()),
            ExecutionState::Failed { reason, message, denied } => {
                (Ending::Failed { reason: reason.clone(), message: message.clone() }, denied.clone())
            }
            ExecutionState::Cancelled => (Ending::Cancelled, Vec::new()),
            ExecutionState::Interrupted => (Ending::Interrupted, Vec::new()),
            _ => return None,
        };
        Some(Self {
            conversation_id: event.conversation_id,
            execution_id: state.execution_id,
            ending,
            denied,
        })
    }

    /// The final answer's text, or why there is none.
    ///
    /// ```
    /// use nervekit_conversation_core::{NotCompleted, Outcome};
    /// fn answer(outcome: Outcome) -> Result<String, NotCompleted> {
    ///     outcome.into_text()
    /// }
    /// ```
    pub fn into_text(self) -> Result<String, NotCompleted> {
        match self.ending {
            Ending::Completed { text } => Ok(text),
            Ending::Failed { reason, message } => {
                Err(NotCompleted::Failed { reason: Box::new(reason), message })
            }
            Ending::Cancelled => Err(NotCompleted::Cancelled),
            Ending::Interrupted => Err(NotCompleted::Interrupted),
        }
    }
}

/// The ways an execution ends.
///
/// ```
/// use nervekit_conversation_core::Ending;
/// assert_eq!(Ending::Cancelled.kind(), "cancelled");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ending", rename_all = "snake_case")]
pub enum Ending {
    /// With a final answer.
    Completed {
        /// The text of the answer.
        text: String,
    },
    /// Without one.
    Failed {
        /// Why, as data.
        reason: FailureReason,
        /// Why, in words.
        message: String,
    },
    /// It was stopped.
    Cancelled,
    /// A crash interrupted it.
    Interrupted,
}

impl Ending {
    /// The ending's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

/// An execution that ended without a final answer.
///
/// ```
/// use nervekit_conversation_core::NotCompleted;
/// assert_eq!(NotCompleted::Cancelled.to_string(), "the work was stopped before it was done");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotCompleted {
    /// It failed.
    Failed {
        /// Why, as data.
        reason: Box<FailureReason>,
        /// Why, in words.
        message: String,
    },
    /// It was stopped.
    Cancelled,
    /// A crash interrupted it; `continue_processing` carries on.
    Interrupted,
}

impl fmt::Display for NotCompleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { message, .. } => f.write_str(message),
            Self::Cancelled => f.write_str("the work was stopped before it was done"),
            Self::Interrupted => f.write_str("the work was interrupted; `continue_processing` carries on"),
        }
    }
}

impl std::error::Error for NotCompleted {}

#[cfg(test)]
mod tests {
    use super::{Ending, Outcome};
    use nervekit_types::{ConversationId, ExecutionId};

    /// The expectation is not met, and this does not compile, if the type is no longer `#[must_use]`.
    #[test]
    #[deny(unfulfilled_lint_expectations)]
    fn an_outcome_that_is_dropped_unread_is_warned_of() {
        fn outcome() -> Outcome {
            Outcome {
                conversation_id: ConversationId::from_key("c"),
                execution_id: ExecutionId::from_key("e"),
                ending: Ending::Cancelled,
                denied: Vec::new(),
            }
        }
        #[expect(unused_must_use, reason = "it is what is tested")]
        outcome();
    }
}
