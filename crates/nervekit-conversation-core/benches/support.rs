//! What the benchmarks share: a core in memory, a model that answers at once, a tool that does nothing.

#![expect(clippy::unwrap_used, reason = "benchmarks")]
#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use nervekit_conversation_core::{
    Conversation, ConversationConfig, ConversationCore, Limits, MemoryBackend, NewProject, Project,
};
use nervekit_harness::{
    AssistantMessage, ContentBlock, Message, Model, ModelEvent, ModelInfo, ModelRegistry, ModelRequest,
    ModelStream, ToolCall,
};
use nervekit_permissions::{Risk, Roots, RuleEngine};
use nervekit_tools::{Catalog, Tool, ToolContext};
use serde_json::json;

/// The prompt that the model does not answer.
pub(crate) const HOLD: &str = "Hold.";

/// Calls the tool as often as the prompt says, each time with an id of its own, then ends.
///
/// What it does costs little: it looks at the last message only, and its answer is one event.
#[derive(Debug)]
pub(crate) struct InstantModel {
    info: ModelInfo,
    calls: AtomicU64,
}

impl InstantModel {
    pub(crate) fn new() -> Self {
        Self { info: ModelInfo::new("demo", "instant"), calls: AtomicU64::new(0) }
    }

    fn answer(&self, request: &ModelRequest) -> AssistantMessage {
        let text = |message: &Message| -> Option<u32> {
            message.content().iter().find_map(|block| match block {
                ContentBlock::Text(text) => text.text.parse().ok(),
                _ => None,
            })
        };
        match request.messages.last().and_then(text) {
            Some(left) if left > 0 => {
                let number = self.calls.fetch_add(1, Ordering::Relaxed);
                let call = ToolCall::new(format!("call_{number}"), "count_down", json!({"from": left}));
                AssistantMessage::new([call.into()])
            }
            _ => AssistantMessage::text("Done."),
        }
    }
}

impl Model for InstantModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ModelRequest>) -> ModelStream {
        let holds = |block: &ContentBlock| matches!(block, ContentBlock::Text(text) if text.text == HOLD);
        if request.messages.last().is_some_and(|message| message.content().iter().any(holds)) {
            return stream::pending().boxed();
        }
        let answer = self.answer(&request);
        stream::iter([Ok(ModelEvent::Finished(answer))]).boxed()
    }
}

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct CountDown {
    from: u32,
}

pub(crate) fn catalog() -> Catalog {
    let count_down = |args: CountDown, _: ToolContext| async move { Ok((args.from - 1).to_string()) };
    Catalog::new().with(
        Tool::function("count_down", "Counts down.", count_down)
            .reviewed(Risk::Read)
            .parallel()
            .replay_safe(),
    )
}

/// A core in memory and a project.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) core: ConversationCore,
    pub(crate) project: Project,
}

impl Bench {
    pub(crate) async fn open() -> Self {
        let models = ModelRegistry::new().register(InstantModel::new());
        let engine = RuleEngine::new(Roots::new());
        let builder = ConversationCore::builder(MemoryBackend::new(), models, engine, catalog());
        let core = builder.open().await.unwrap();
        let project = Project::create(Arc::new(core.clone()), NewProject::new("bench")).await.unwrap();
        Self { core, project }
    }

    pub(crate) async fn conversation(&self) -> Conversation {
        let mut config = ConversationConfig::new("demo/instant".parse().unwrap());
        config.limits = Limits::new().turns(1_000_000);
        self.project.converse(config).await.unwrap()
    }
}

/// Submits a prompt for so many rounds and waits for the end, as a host does that wants nothing but the answer.
pub(crate) async fn rounds(conversation: &Conversation, rounds: u32) {
    let outcome = conversation.ask(rounds.to_string()).await.unwrap();
    assert_eq!(outcome.into_text().unwrap(), "Done.");
}

/// The time that this thread was on the processor: on a shared machine the clock on the wall measures the
/// neighbours. The benchmarks run on one thread and wait for nothing, so alone on a machine both are the same.
#[cfg(unix)]
pub(crate) fn busy() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Where the time on the processor is not told, the clock on the wall.
#[cfg(not(unix))]
pub(crate) fn busy() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
