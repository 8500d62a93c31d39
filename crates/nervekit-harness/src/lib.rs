#![doc = include_str!("../README.md")]

pub mod compaction;
#[cfg(feature = "openai-compatible")]
pub mod wire;

mod assembler;
mod choice;
mod credential;
mod error;
mod estimate;
mod event;
mod function;
mod harness;
mod message;
mod model;
#[cfg(feature = "openai-compatible")]
mod openai_chat;
mod port;
mod record;
mod registry;
mod request;
mod retry;
mod scripted;
mod transport;

pub use assembler::MessageAssembler;
pub use choice::{IntoModel, ModelChoice};
pub use compaction::{Compaction, CompactionError, CompactionRequest, CompactionSettings};
pub use credential::{Credentials, EnvironmentCredentials};
pub use error::{ProviderError, ProviderErrorKind};
pub use estimate::{ContextEstimate, HeuristicTokens, TokenEstimator};
pub use event::ModelEvent;
pub use function::model_fn;
pub use harness::{Harness, StandardHarness};
pub use message::{
    AssistantMessage, ContentBlock, Image, ImageSource, Message, Messages, MessagesIter, Origin, StopReason,
    Text, Thinking, ToolCall, ToolResultMessage, Usage, UserMessage,
};
pub use model::{Model, ModelInfo, ModelSelection, ModelStream, NameParseError, Prices, ThinkingLevel};
#[cfg(feature = "openai-compatible")]
pub use openai_chat::OpenAiChat;
pub use record::{Exchange, RecordModel};
pub use registry::{Adapter, ModelRegistry, ModelResolver, Provider, ResolveError, ResolvedModel};
pub use request::{ModelRequest, ResponseSchema, ToolSet, ToolSpec};
pub use retry::{GiveUp, RetryModel, RetryPolicy};
pub use scripted::{ScriptedModel, ScriptedReply};
#[cfg(feature = "tls-none")]
pub use transport::{HttpClient, HttpClientBuilder};
pub use transport::{HttpRequest, HttpResponse, Transport};
