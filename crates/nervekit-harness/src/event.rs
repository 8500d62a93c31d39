//! What a model says while it answers.

use serde::{Deserialize, Serialize};

use crate::message::{AssistantMessage, ToolCall, Usage};

/// One step of an answer.
///
/// `block` is the index of the content block in the final message that the step belongs to. The deltas of one
/// block, put together, are a prefix of its text (or of the text of its arguments).
///
/// ```
/// use nervekit_harness::ModelEvent;
/// let event = ModelEvent::TextDelta { block: 0, delta: "hel".into() };
/// assert_eq!(event.kind(), "text_delta");
/// assert!(!event.is_last());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelEvent {
    /// More visible text.
    TextDelta {
        /// The content block.
        block: usize,
        /// What to append.
        delta: String,
    },
    /// More reasoning.
    ThinkingDelta {
        /// The content block.
        block: usize,
        /// What to append.
        delta: String,
    },
    /// A tool call begins; its arguments follow.
    ToolCallStarted {
        /// The content block.
        block: usize,
        /// The provider's id of the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of the JSON text of a call's arguments: a draft to show, never to act on.
    ToolArgumentsDelta {
        /// The content block.
        block: usize,
        /// What to append.
        delta: String,
    },
    /// A tool call is complete. It may run only once the whole message is there.
    ToolCallFinished {
        /// The content block.
        block: usize,
        /// The call.
        call: ToolCall,
    },
    /// The usage so far; the last one counts.
    Usage(Usage),
    /// The whole answer. Nothing comes after it.
    Finished(AssistantMessage),
}

impl ModelEvent {
    /// The name that serde uses too.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::TextDelta { .. } => "text_delta",
            Self::ThinkingDelta { .. } => "thinking_delta",
            Self::ToolCallStarted { .. } => "tool_call_started",
            Self::ToolArgumentsDelta { .. } => "tool_arguments_delta",
            Self::ToolCallFinished { .. } => "tool_call_finished",
            Self::Usage(_) => "usage",
            Self::Finished(_) => "finished",
        }
    }

    /// Whether this ends the answer.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        matches!(self, Self::Finished(_))
    }

    /// Whether this is a part of the answer, and not only about it.
    #[must_use]
    pub const fn is_content(&self) -> bool {
        !matches!(self, Self::Usage(_) | Self::Finished(_))
    }
}
