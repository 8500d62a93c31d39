//! nervekit: its runtime over the backend in one redb file, and over the one in memory.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use nervekit::conversation::{
    Backend, ConversationConfig, ConversationCore, Limits, MemoryBackend, NewProject, Project,
};
use nervekit::harness::{
    AssistantMessage, ContentBlock, Message, Model, ModelEvent, ModelInfo, ModelRegistry, ModelRequest,
    ModelStream, ToolCall,
};
use nervekit::permissions::{Risk, Roots, RuleEngine};
use nervekit::store::RedbBackend;
use nervekit::tools::{Catalog, Tool, ToolContext};
use serde_json::json;

use super::{CountDown, DONE, Move, Script, Side, TOOL, check};

/// Whether the tool may be executed again after a crash.
#[derive(Clone, Copy)]
pub(super) enum Repeat {
    /// It has no effect, as is the case here: the round costs two commits.
    Safe,
    /// It is treated as if it had one: that it is begun is committed before, the third commit of a round.
    Unsafe,
}

pub(super) async fn on_disk(name: &'static str, file: &Path, repeat: Repeat) -> Result<impl Side + use<>> {
    open(name, RedbBackend::open(file).await?, repeat).await
}

pub(super) async fn in_memory(name: &'static str, repeat: Repeat) -> Result<impl Side + use<>> {
    open(name, MemoryBackend::new(), repeat).await
}

async fn open(name: &'static str, backend: impl Backend, repeat: Repeat) -> Result<Nervekit> {
    let tool =
        Tool::function(
            TOOL,
            "Counts down.",
            |args: CountDown, _: ToolContext| async move { Ok(args.answer()) },
        );
    let tool = tool.reviewed(Risk::Read).parallel();
    let tool = match repeat {
        Repeat::Safe => tool.replay_safe(),
        Repeat::Unsafe => tool,
    };
    let models = ModelRegistry::new().register(Scripted::new());
    let engine = RuleEngine::new(Roots::new());
    let core = ConversationCore::builder(backend, models, engine, Catalog::new().with(tool)).open().await?;
    let project = Project::create(Arc::new(core), NewProject::new("peers")).await?;
    Ok(Nervekit { name, project })
}

struct Nervekit {
    name: &'static str,
    project: Project,
}

#[async_trait(?Send)]
impl Side for Nervekit {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn converse(&self, rounds: u32) -> Result<()> {
        let mut config = ConversationConfig::new("demo/scripted".parse()?);
        config.limits = Limits::new().turns(1_000_000);
        let conversation = self.project.converse(config).await?;
        check(&conversation.ask(rounds.to_string()).await?.into_text()?)
    }
}

#[derive(Debug)]
struct Scripted {
    info: ModelInfo,
    script: Script,
}

impl Scripted {
    fn new() -> Self {
        Self { info: ModelInfo::new("demo", "scripted"), script: Script::default() }
    }
}

impl Model for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ModelRequest>) -> ModelStream {
        let answer = match self.script.next(request.messages.last().and_then(text).unwrap_or_default()) {
            Move::Call { id, from } => {
                AssistantMessage::new([ToolCall::new(id, TOOL, json!({"from": from})).into()])
            }
            Move::Finish => AssistantMessage::text(DONE),
        };
        stream::iter([Ok(ModelEvent::Finished(answer))]).boxed()
    }
}

fn text(message: &Message) -> Option<&str> {
    message.content().iter().find_map(|block| match block {
        ContentBlock::Text(text) => Some(&*text.text),
        _ => None,
    })
}
