//! Models: what they are and what they can do.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures_core::stream::BoxStream;
use serde::{Deserialize, Serialize};

use crate::error::ProviderError;
use crate::event::ModelEvent;
use crate::message::Usage;
use crate::request::ModelRequest;

/// Answers requests.
///
/// **Contract.** The stream gives exactly one [`ModelEvent::Finished`] or one `Err`, as its last item; the
/// events before it fit [`MessageAssembler`](crate::MessageAssembler). Dropping the stream cancels the
/// request and closes its connection. A model does not retry, and does not wait for ever. Calling `stream`
/// does not block and starts nothing until the stream is polled. `info` gives the same answer every time.
///
/// [`StandardHarness`](crate::StandardHarness) holds a model to this contract; whoever polls a model without
/// it relies on the model alone.
///
/// ```
/// use std::sync::Arc;
/// use futures_util::{StreamExt, stream};
/// use nervekit_harness::{AssistantMessage, Model, ModelEvent, ModelInfo, ModelRequest, ModelStream};
///
/// #[derive(Debug)]
/// struct Parrot(ModelInfo);
///
/// impl Model for Parrot {
///     fn info(&self) -> &ModelInfo {
///         &self.0
///     }
///
///     fn stream(&self, request: Arc<ModelRequest>) -> ModelStream {
///         let count = request.messages.len();
///         let answer = AssistantMessage::text(format!("you sent {count} messages"));
///         stream::once(async { Ok(ModelEvent::Finished(answer)) }).boxed()
///     }
/// }
/// let parrot = Parrot(ModelInfo::new("local", "parrot"));
/// assert_eq!(parrot.info().selection().to_string(), "local/parrot");
/// ```
pub trait Model: fmt::Debug + Send + Sync + 'static {
    /// What the model is and what it can do.
    fn info(&self) -> &ModelInfo;

    /// Answers one request.
    fn stream(&self, request: Arc<ModelRequest>) -> ModelStream;
}

/// The stream that a [`Model`] answers with: events, then one `Finished` or one error.
///
/// ```
/// use futures_util::StreamExt;
/// use nervekit_harness::{ModelStream, ProviderError};
/// let refused = async { Err(ProviderError::protocol("out of order")) };
/// let _: ModelStream = futures_util::stream::once(refused).boxed();
/// ```
pub type ModelStream = BoxStream<'static, Result<ModelEvent, ProviderError>>;

crate::port::forward!(Model { fn info(&self) -> &ModelInfo; fn stream(&self, request: Arc<ModelRequest>) -> ModelStream; });

/// How hard a model thinks before it answers.
///
/// ```
/// use nervekit_harness::ThinkingLevel;
/// assert!(ThinkingLevel::Low < ThinkingLevel::High);
/// assert_eq!("xhigh".parse(), Ok(ThinkingLevel::Xhigh));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ThinkingLevel {
    /// Not at all, or as little as the model can.
    #[default]
    Off,
    /// The least that the provider offers.
    Minimal,
    /// A little.
    Low,
    /// The usual amount.
    Medium,
    /// Much.
    High,
    /// More than most providers offer.
    Xhigh,
    /// As much as the provider allows.
    Max,
}

impl ThinkingLevel {
    /// All levels, from the least.
    pub const ALL: [Self; 7] =
        [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max];

    /// The name that serde uses too.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

impl fmt::Display for ThinkingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ThinkingLevel {
    type Err = NameParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|level| level.as_str() == text).ok_or_else(|| NameParseError {
            text: text.chars().take(64).collect(),
            wanted: "a thinking level: off, minimal, low, medium, high, xhigh or max",
        })
    }
}

/// What a model is and what it can do.
///
/// ```
/// use nervekit_harness::{ModelInfo, ThinkingLevel};
/// let info = ModelInfo::new("openai", "gpt-5")
///     .context_window(400_000)
///     .max_output(128_000)
///     .thinking([ThinkingLevel::Low, ThinkingLevel::Medium, ThinkingLevel::High]);
/// assert_eq!(info.clamp(ThinkingLevel::Max), ThinkingLevel::High);
/// assert_eq!(info.clamp(ThinkingLevel::Off), ThinkingLevel::Low);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The provider's name in the registry.
    pub provider: String,
    /// The provider's name of the model.
    pub id: String,
    /// The most tokens of one request and its answer together.
    pub context_window: u64,
    /// The most tokens of one answer.
    pub max_output: u64,
    /// The thinking levels on offer, from the least; empty when the model cannot be told.
    pub thinking: Vec<ThinkingLevel>,
    /// Whether messages may hold images.
    pub images: bool,
    /// Whether the model can call tools.
    pub tools: bool,
    /// What a token costs, when known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

impl Default for ModelInfo {
    fn default() -> Self {
        Self::new("", "")
    }
}

impl ModelInfo {
    /// A model with cautious limits: a window of 128,000 tokens, 8,192 of output, tools, and neither images
    /// nor thinking levels.
    #[must_use]
    pub fn new(provider: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            id: id.into(),
            context_window: 128_000,
            max_output: 8_192,
            thinking: Vec::new(),
            images: false,
            tools: true,
            prices: None,
        }
    }

    /// Sets the context window, in tokens.
    #[must_use]
    pub fn context_window(mut self, tokens: u64) -> Self {
        self.context_window = tokens;
        self
    }

    /// Sets the longest answer, in tokens.
    #[must_use]
    pub fn max_output(mut self, tokens: u64) -> Self {
        self.max_output = tokens;
        self
    }

    /// Sets the thinking levels on offer.
    #[must_use]
    pub fn thinking(mut self, levels: impl IntoIterator<Item = ThinkingLevel>) -> Self {
        self.thinking = levels.into_iter().collect();
        self.thinking.sort_unstable();
        self.thinking.dedup();
        self
    }

    /// Says whether messages may hold images.
    #[must_use]
    pub fn images(mut self, images: bool) -> Self {
        self.images = images;
        self
    }

    /// Says whether the model can call tools.
    #[must_use]
    pub fn tools(mut self, tools: bool) -> Self {
        self.tools = tools;
        self
    }

    /// Sets what a token costs.
    #[must_use]
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// The name under which a conversation selects this model.
    #[must_use]
    pub fn selection(&self) -> ModelSelection {
        ModelSelection::new(&*self.provider, &*self.id)
    }

    /// The supported level nearest to the wanted one: the highest that is not above it, else the lowest;
    /// [`ThinkingLevel::Off`] when there is none to choose from.
    #[must_use]
    pub fn clamp(&self, wanted: ThinkingLevel) -> ThinkingLevel {
        let below = self.thinking.iter().filter(|level| **level <= wanted).max();
        below.or_else(|| self.thinking.iter().min()).copied().unwrap_or(ThinkingLevel::Off)
    }
}

/// What tokens cost, in US dollars per million, by the buckets of [`Usage`]; thinking costs what output does.
///
/// ```
/// use nervekit_harness::{Prices, Usage};
/// let prices = Prices::new(3.0, 15.0).cache_read(0.3);
/// let cost = prices.cost(&Usage::new(1_000_000, 0).cache_read(1_000_000));
/// assert!((cost - 3.3).abs() < 1e-9);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Prices {
    /// A million input tokens.
    pub input: f64,
    /// A million output or thinking tokens.
    pub output: f64,
    /// A million input tokens read from the cache.
    pub cache_read: f64,
    /// A million input tokens written to the cache.
    pub cache_write: f64,
}

impl Prices {
    /// Prices without a discount or surcharge for the cache.
    #[must_use]
    pub const fn new(input: f64, output: f64) -> Self {
        Self { input, output, cache_read: input, cache_write: input }
    }

    /// Sets the price of reading the cache.
    #[must_use]
    pub const fn cache_read(mut self, price: f64) -> Self {
        self.cache_read = price;
        self
    }

    /// Sets the price of writing the cache.
    #[must_use]
    pub const fn cache_write(mut self, price: f64) -> Self {
        self.cache_write = price;
        self
    }

    /// The cost of this usage in US dollars.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
    pub fn cost(&self, usage: &Usage) -> f64 {
        let parts = [
            (usage.input, self.input),
            (usage.output.saturating_add(usage.thinking), self.output),
            (usage.cache_read, self.cache_read),
            (usage.cache_write, self.cache_write),
        ];
        parts.into_iter().map(|(tokens, price)| tokens as f64 * price / 1e6).sum()
    }
}

/// The model of a conversation, as configured: a provider's name and the provider's name of the model.
///
/// It is written `provider/id`; the id may hold slashes too.
///
/// ```
/// use nervekit_harness::ModelSelection;
/// let selection: ModelSelection = "openrouter/mistralai/devstral".parse()?;
/// assert_eq!((&*selection.provider, &*selection.model_id), ("openrouter", "mistralai/devstral"));
/// assert_eq!(selection.to_string(), "openrouter/mistralai/devstral");
/// assert!("devstral".parse::<ModelSelection>().is_err());
/// # Ok::<(), nervekit_harness::NameParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelSelection {
    /// The provider's name in the registry.
    pub provider: String,
    /// The provider's name of the model.
    pub model_id: String,
}

impl ModelSelection {
    /// Selects a model of a provider.
    #[must_use]
    pub fn new(provider: impl Into<String>, model_id: impl Into<String>) -> Self {
        Self { provider: provider.into(), model_id: model_id.into() }
    }
}

impl fmt::Display for ModelSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model_id)
    }
}

impl FromStr for ModelSelection {
    type Err = NameParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((provider, id)) if !provider.trim().is_empty() && !id.trim().is_empty() => {
                Ok(Self::new(provider, id))
            }
            _ => Err(NameParseError {
                text: text.chars().take(64).collect(),
                wanted: "a model written `provider/id`",
            }),
        }
    }
}

/// A text that does not name what was wanted.
///
/// ```
/// let error = "gpt-5".parse::<nervekit_harness::ModelSelection>().unwrap_err();
/// assert_eq!(error.to_string(), "`gpt-5` is not a model written `provider/id`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
#[non_exhaustive]
pub struct NameParseError {
    /// What was given, at most 64 characters of it.
    pub text: String,
    /// What would have been right.
    pub wanted: &'static str,
}
