//! OpenAI's Chat Completions, and everything that speaks them.
//!
//! Source: <https://platform.openai.com/docs/api-reference/chat>. Where servers differ from it, or the
//! documentation leaves something open, this is what the codec does:
//!
//! - `finish_reason` without `[DONE]` is a complete answer; `[DONE]` or the end of the body without
//!   `finish_reason` is an error.
//! - An unknown `finish_reason` is [`StopReason::Other`](crate::StopReason::Other), which runs no tools. `stop`
//!   with calls is [`StopReason::ToolUse`](crate::StopReason::ToolUse), because many servers say so. A call in
//!   an answer that was cut (`length`) does not run, even if its JSON is complete. `error` and
//!   `insufficient_system_resource` (`DeepSeek`) are errors.
//! - A call is told from the next one by its `index`, by its `id`, or, when both are missing or always the same,
//!   by a new name or by arguments that are complete. A missing id is made from the response's id. Arguments
//!   may come in pieces, at once, or as an object.
//! - `reasoning_content` and `reasoning` are thinking, and so are `thinking` parts of a list as content.
//! - `refusal` makes [`StopReason::Refusal`](crate::StopReason::Refusal); its text is kept apart from the answer.
//! - A request never asks for more than one choice. The choices of a chunk are read in order, whatever their
//!   `index`.
//! - An `error` object in a 200 stream is an error; a whole `chat.completion` document in place of a stream is an
//!   answer; unknown events and fields are passed over.
//! - `usage` counts are made disjoint; the last one reported is kept verbatim too.

use serde::{Deserialize, Serialize};

mod call;
mod classify;
mod decode;
mod encode;
mod surrogate;

pub use classify::classify;
pub use decode::Decoder;
pub use encode::encode;

/// In what a server differs from OpenAI's own.
///
/// ```
/// use nervekit_harness::wire::openai_chat::ChatOptions;
/// assert!(ChatOptions::for_base_url("https://api.mistral.ai/v1").short_call_ids);
/// assert!(!ChatOptions::for_base_url("http://127.0.0.1:8080/v1").max_completion_tokens);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ChatOptions {
    /// Whether the output limit is called `max_completion_tokens`, and not `max_tokens` as before.
    pub max_completion_tokens: bool,
    /// Whether to ask for the usage with `stream_options`.
    pub stream_usage: bool,
    /// Whether ids of calls are exactly nine letters and digits, and not up to forty of a larger set.
    pub short_call_ids: bool,
    /// The field in which thinking goes back to the provider that made it; none leaves it out.
    pub reasoning_field: Option<String>,
}

impl Default for ChatOptions {
    /// What OpenAI's own service takes.
    fn default() -> Self {
        Self { max_completion_tokens: true, stream_usage: true, short_call_ids: false, reasoning_field: None }
    }
}

impl ChatOptions {
    /// The options for the service at an address, as far as it is known; else those that most servers take.
    ///
    /// Sources: <https://platform.openai.com/docs/api-reference/chat/create>,
    /// <https://docs.mistral.ai/api/>, <https://api-docs.deepseek.com/guides/thinking_mode>.
    #[must_use]
    pub fn for_base_url(url: &str) -> Self {
        let host = url.split_once("://").map_or(url, |(_, rest)| rest);
        let host = host.split(['/', ':', '?']).next().unwrap_or(host);
        let is = |domain: &str| {
            host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
        };
        let compatible = Self::default().max_completion_tokens(false);
        if is("openai.com") || is("openai.azure.com") {
            Self::default()
        } else if is("mistral.ai") {
            compatible.stream_usage(false).short_call_ids(true)
        } else if is("deepseek.com") {
            compatible.reasoning_field("reasoning_content")
        } else {
            compatible
        }
    }

    /// Says whether the output limit is called `max_completion_tokens`.
    #[must_use]
    pub fn max_completion_tokens(mut self, yes: bool) -> Self {
        self.max_completion_tokens = yes;
        self
    }

    /// Says whether to ask for the usage with `stream_options`.
    #[must_use]
    pub fn stream_usage(mut self, yes: bool) -> Self {
        self.stream_usage = yes;
        self
    }

    /// Says whether ids of calls are exactly nine letters and digits.
    #[must_use]
    pub fn short_call_ids(mut self, yes: bool) -> Self {
        self.short_call_ids = yes;
        self
    }

    /// Sets the field in which thinking goes back.
    #[must_use]
    pub fn reasoning_field(mut self, name: impl Into<String>) -> Self {
        self.reasoning_field = Some(name.into());
        self
    }
}
