//! How large a request is, roughly.

use std::fmt::Debug;

use serde::{Deserialize, Serialize};

use crate::message::{ContentBlock, Message};
use crate::request::ModelRequest;

/// What an image is taken to cost, in tokens: about that of a picture of 1,000 by 1,000 pixels
/// (<https://docs.claude.com/en/docs/build-with-claude/vision>).
const IMAGE_TOKENS: u64 = 1_334;

/// What the frame of a message or a tool is taken to cost, in tokens.
const FRAME_TOKENS: u64 = 4;

/// Estimates the tokens of a text.
///
/// **Contract.** Pure, quick and total. Too high is safer than too low: an estimate decides when to compact.
///
/// ```
/// use nervekit_harness::TokenEstimator;
///
/// #[derive(Debug)]
/// struct Words;
/// impl TokenEstimator for Words {
///     fn tokens(&self, text: &str) -> u64 {
///         text.split_whitespace().map(|_| 2).sum()
///     }
/// }
/// assert_eq!(Words.tokens("to be or not"), 8);
/// ```
pub trait TokenEstimator: Debug + Send + Sync + 'static {
    /// The tokens of this text.
    fn tokens(&self, text: &str) -> u64;
}

crate::port::forward!(TokenEstimator { fn tokens(&self, text: &str) -> u64; });

/// A rule of thumb: four ASCII bytes a token, one token for any other character.
///
/// ```
/// use nervekit_harness::{HeuristicTokens, TokenEstimator};
/// assert_eq!(HeuristicTokens.tokens("twelve bytes"), 3);
/// assert_eq!(HeuristicTokens.tokens("你好"), 2);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct HeuristicTokens;

impl TokenEstimator for HeuristicTokens {
    fn tokens(&self, text: &str) -> u64 {
        let characters = text.chars().count();
        let ascii = text.bytes().filter(u8::is_ascii).count();
        let tokens = ascii.div_ceil(4).saturating_add(characters.saturating_sub(ascii));
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

/// How much of a context window a request takes.
///
/// It stands on the usage that the provider last reported; what came after is estimated.
///
/// ```
/// use nervekit_harness::ContextEstimate;
/// let estimate = ContextEstimate::new(200_000, 90_000, 10_000);
/// assert_eq!(estimate.tokens(), 100_000);
/// assert_eq!(estimate.percent(), 50);
/// assert!(estimate.is_estimated());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ContextEstimate {
    /// The model's context window.
    pub window: u64,
    /// The tokens that the provider counted.
    pub reported: u64,
    /// The tokens that were estimated.
    pub estimated: u64,
}

impl ContextEstimate {
    /// An estimate for a window.
    #[must_use]
    pub const fn new(window: u64, reported: u64, estimated: u64) -> Self {
        Self { window, reported, estimated }
    }

    /// All tokens.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.reported.saturating_add(self.estimated)
    }

    /// The share of the window, rounded down; more than 100 when it does not fit.
    #[must_use]
    pub const fn percent(&self) -> u64 {
        match self.tokens().saturating_mul(100).checked_div(self.window) {
            Some(percent) => percent,
            None => 100,
        }
    }

    /// Whether a part of it was estimated.
    #[must_use]
    pub const fn is_estimated(&self) -> bool {
        self.estimated > 0
    }
}

/// The tokens of one message.
pub(crate) fn message_tokens(estimator: &dyn TokenEstimator, message: &Message) -> u64 {
    let blocks = message.content().iter().map(|block| match block {
        ContentBlock::Text(text) => estimator.tokens(&text.text),
        // Thinking is dropped or billed apart by most providers; counting it errs on the safe side.
        ContentBlock::Thinking(thinking) => {
            estimator.tokens(&thinking.text)
                + thinking.signature.as_deref().map_or(0, |s| estimator.tokens(s))
        }
        ContentBlock::ToolCall(call) => {
            let arguments = call.raw_arguments.clone().unwrap_or_else(|| call.arguments.to_string());
            estimator.tokens(&call.name) + estimator.tokens(&arguments) + FRAME_TOKENS
        }
        ContentBlock::Image(_) => IMAGE_TOKENS,
    });
    blocks.fold(FRAME_TOKENS, u64::saturating_add)
}

/// The tokens of a request, anchored on the newest answer whose usage is known.
pub(crate) fn request_tokens(
    estimator: &dyn TokenEstimator,
    window: u64,
    request: &ModelRequest,
) -> ContextEstimate {
    let mut estimated: u64 = 0;
    for message in request.messages.iter().rev() {
        if let Message::Assistant(answer) = message {
            let reported = answer.usage.context();
            if reported > 0 {
                return ContextEstimate::new(window, reported, estimated);
            }
        }
        estimated = estimated.saturating_add(message_tokens(estimator, message));
    }
    let system = request.system.as_deref().map_or(0, |prompt| estimator.tokens(prompt));
    let tools = request.tools.iter().map(|tool| {
        estimator.tokens(&tool.name)
            + estimator.tokens(&tool.description)
            + estimator.tokens(&tool.parameters.to_string())
            + FRAME_TOKENS
    });
    let estimated = tools.fold(estimated.saturating_add(system), u64::saturating_add);
    ContextEstimate::new(window, 0, estimated)
}
