//! What is said between a user, a model and its tools.
//!
//! These types are stored, so their JSON is a promise: explicit snake-case tags, fields that are only ever
//! added with a default, and a fixture test that pins the form.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod block;
mod list;
mod unique;
mod usage;

pub use block::{ContentBlock, Image, ImageSource, Text, Thinking, ToolCall};
pub use list::{Messages, MessagesIter};
pub use usage::Usage;

/// One message of a conversation, as a model reads it.
///
/// ```
/// use nervekit_harness::{AssistantMessage, Message, UserMessage};
/// let question: Message = UserMessage::text("2 + 2?").into();
/// let answer: Message = AssistantMessage::text("4").into();
/// assert_eq!((question.kind(), answer.kind()), ("user", "assistant"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// From the user, or from the runtime on the user's side.
    User(UserMessage),
    /// From the model; shared, since the history holds it too.
    Assistant(Arc<AssistantMessage>),
    /// The one result of one tool call.
    ToolResult(ToolResultMessage),
}

impl Message {
    /// The role's name: `user`, `assistant` or `tool_result`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::ToolResult(_) => "tool_result",
        }
    }

    /// The content blocks.
    #[must_use]
    pub fn content(&self) -> &[ContentBlock] {
        match self {
            Self::User(message) => &message.content,
            Self::Assistant(message) => &message.content,
            Self::ToolResult(message) => &message.content,
        }
    }
}

impl From<UserMessage> for Message {
    fn from(message: UserMessage) -> Self {
        Self::User(message)
    }
}

impl From<UserMessage> for Arc<Message> {
    fn from(message: UserMessage) -> Self {
        Self::new(message.into())
    }
}

impl From<AssistantMessage> for Message {
    fn from(message: AssistantMessage) -> Self {
        Self::Assistant(Arc::new(message))
    }
}

impl From<Arc<AssistantMessage>> for Message {
    fn from(message: Arc<AssistantMessage>) -> Self {
        Self::Assistant(message)
    }
}

impl From<AssistantMessage> for Arc<Message> {
    fn from(message: AssistantMessage) -> Self {
        Self::new(message.into())
    }
}

impl From<ToolResultMessage> for Message {
    fn from(message: ToolResultMessage) -> Self {
        Self::ToolResult(message)
    }
}

impl From<ToolResultMessage> for Arc<Message> {
    fn from(message: ToolResultMessage) -> Self {
        Self::new(message.into())
    }
}

/// What the user said: texts and images.
///
/// ```
/// use nervekit_harness::{Image, UserMessage};
/// let message = UserMessage::text("what is this?").image(Image::inline("image/png", vec![137, 80]));
/// assert_eq!(message.content.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UserMessage {
    /// The blocks, in order.
    pub content: Vec<ContentBlock>,
    /// Who wrote it; absent in JSON for the user.
    #[serde(default, skip_serializing_if = "Origin::is_user")]
    pub origin: Origin,
}

/// Who wrote a [`UserMessage`]: a model reads all of them on the user's side, but a summary takes goals and
/// constraints from the user alone. A name that this version does not know reads as [`Origin::Runtime`].
///
/// ```
/// use nervekit_harness::{Origin, UserMessage};
/// let notice = UserMessage::text("the command ended with 0").origin(Origin::Runtime);
/// assert!(!notice.origin.is_user());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// The user.
    #[default]
    User,
    /// A compaction: the summary of everything before.
    Summary,
    /// The program around the model: a notice, a context file.
    #[serde(other)]
    Runtime,
}

impl Origin {
    /// Whether it is the user's own message.
    #[must_use]
    pub const fn is_user(&self) -> bool {
        matches!(self, Self::User)
    }
}

impl UserMessage {
    /// A message of these blocks.
    #[must_use]
    pub fn new(content: impl Into<Vec<ContentBlock>>) -> Self {
        Self { content: content.into(), origin: Origin::User }
    }

    /// A message of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([Text::new(text).into()])
    }

    /// Sets who wrote it.
    #[must_use]
    pub fn origin(mut self, origin: Origin) -> Self {
        self.origin = origin;
        self
    }

    /// Adds an image.
    #[must_use]
    pub fn image(mut self, image: Image) -> Self {
        self.content.push(image.into());
        self
    }
}

/// What the model said: texts, thinking and tool calls, in the order in which they came.
///
/// ```
/// use nervekit_harness::{AssistantMessage, StopReason, Text, ToolCall};
/// use serde_json::json;
///
/// let message = AssistantMessage::new([
///     Text::new("let me look").into(),
///     ToolCall::new("call_1", "read", json!({"path": "a.txt"})).into(),
/// ]);
/// assert_eq!(message.stop_reason, StopReason::ToolUse);
/// assert_eq!(message.plain_text(), "let me look");
/// assert_eq!(message.tool_calls().count(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AssistantMessage {
    /// The blocks, in order.
    pub content: Vec<ContentBlock>,
    /// Why the model stopped, in our words.
    pub stop_reason: StopReason,
    /// What the request cost, in disjoint buckets.
    #[serde(default)]
    pub usage: Usage,
    /// Why the model stopped, in the provider's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_stop_reason: Option<String>,
    /// The usage as the provider reported it, untouched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_usage: Option<Value>,
    /// What the model said in place of an answer, where the provider keeps a refusal apart from texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// The provider's name in the registry; empty when not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
    /// The model that answered, as the provider names it; empty when not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
}

impl AssistantMessage {
    /// A message of these blocks. It stops for [`StopReason::ToolUse`] if there is a call among them, else
    /// for [`StopReason::EndTurn`].
    #[must_use]
    pub fn new(content: impl Into<Vec<ContentBlock>>) -> Self {
        let content = content.into();
        let calls = content.iter().any(|block| matches!(block, ContentBlock::ToolCall(_)));
        Self {
            content,
            stop_reason: if calls { StopReason::ToolUse } else { StopReason::EndTurn },
            usage: Usage::default(),
            provider_stop_reason: None,
            reported_usage: None,
            refusal: None,
            provider: String::new(),
            model: String::new(),
            response_id: None,
        }
    }

    /// A message of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([Text::new(text).into()])
    }

    /// Sets why the model stopped.
    #[must_use]
    pub fn stop_reason(mut self, reason: StopReason) -> Self {
        self.stop_reason = reason;
        self
    }

    /// Sets the usage.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the provider's word for why the model stopped.
    #[must_use]
    pub fn provider_stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.provider_stop_reason = Some(reason.into());
        self
    }

    /// Sets the usage as the provider reported it.
    #[must_use]
    pub fn reported_usage(mut self, usage: Value) -> Self {
        self.reported_usage = Some(usage);
        self
    }

    /// Sets the text of a refusal that the provider keeps apart.
    #[must_use]
    pub fn refusal(mut self, text: impl Into<String>) -> Self {
        self.refusal = Some(text.into());
        self
    }

    /// Sets who answered.
    #[must_use]
    pub fn from_model(mut self, provider: impl Into<String>, model: impl Into<String>) -> Self {
        self.provider = provider.into();
        self.model = model.into();
        self
    }

    /// Sets the provider's id of the response.
    #[must_use]
    pub fn response_id(mut self, id: impl Into<String>) -> Self {
        self.response_id = Some(id.into());
        self
    }

    /// The calls, in order.
    pub fn tool_calls(&self) -> impl DoubleEndedIterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// All visible text, without thinking, put together in order.
    #[must_use]
    pub fn plain_text(&self) -> String {
        plain_text(&self.content)
    }

    /// Whether there is neither a text that is not blank, nor a call, nor an image.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.content.iter().any(|block| match block {
            ContentBlock::Text(text) => !is_blank(&text.text),
            ContentBlock::Thinking(_) => false,
            ContentBlock::ToolCall(_) | ContentBlock::Image(_) => true,
        })
    }
}

/// What one tool call gave. It stands directly behind the assistant message with the call, among the results
/// of that message's other calls.
///
/// ```
/// use nervekit_harness::ToolResultMessage;
/// let result = ToolResultMessage::text("call_1", "read", "no such file").failed();
/// assert!(result.is_error);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResultMessage {
    /// The id of the call that this answers.
    pub tool_call_id: String,
    /// The name of the tool.
    pub tool_name: String,
    /// Texts and images.
    pub content: Vec<ContentBlock>,
    /// Whether the call did not complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

impl ToolResultMessage {
    /// A result of these blocks.
    #[must_use]
    pub fn new(
        tool_call_id: impl Into<String>,
        tool_name: impl Into<String>,
        content: impl Into<Vec<ContentBlock>>,
    ) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            tool_name: tool_name.into(),
            content: content.into(),
            is_error: false,
        }
    }

    /// A result of one text.
    #[must_use]
    pub fn text(
        tool_call_id: impl Into<String>,
        tool_name: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self::new(tool_call_id, tool_name, [Text::new(text).into()])
    }

    /// Marks the call as not completed.
    #[must_use]
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }
}

/// Why a model stopped, in words that all providers share.
///
/// A name that this version does not know reads as [`StopReason::Other`]. Only [`StopReason::runs_tools`]
/// lets the calls of a message run.
///
/// ```
/// use nervekit_harness::StopReason;
/// let reason: StopReason = serde_json::from_str("\"a_later_reason\"").unwrap();
/// assert_eq!(reason, StopReason::Other);
/// assert!(!reason.runs_tools());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The answer is complete.
    EndTurn,
    /// The model waits for the results of its calls.
    ToolUse,
    /// The output limit or the context window cut the answer.
    MaxTokens,
    /// One of the request's stop sequences came.
    StopSequence,
    /// The model declined.
    Refusal,
    /// The provider cut or blocked the answer.
    ContentFilter,
    /// The provider paused a long turn; send the message back to go on.
    Paused,
    /// Something else; see [`AssistantMessage::provider_stop_reason`].
    #[serde(other)]
    Other,
}

impl StopReason {
    /// The name that serde uses too.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::Refusal => "refusal",
            Self::ContentFilter => "content_filter",
            Self::Paused => "paused",
            Self::Other => "other",
        }
    }

    /// Whether the calls of a message with this reason may run. A call in an answer that was cut, blocked or
    /// ended for an unknown reason may be a fragment of what the model meant, even if its JSON is complete.
    #[must_use]
    pub const fn runs_tools(self) -> bool {
        matches!(self, Self::ToolUse)
    }
}

/// Whether a text shows nothing: empty, white space, or characters without width. Providers refuse such
/// blocks.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || matches!(c, '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FEFF}'))
}

/// All visible text of some blocks, put together in order.
pub(crate) fn plain_text(content: &[ContentBlock]) -> String {
    content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests;
