//! agent-sdk: its loop over `SqliteStore` in all four roles, as the documentation of that store sets it up, and over its
//! stores in memory.

use std::path::Path;
use std::sync::Arc;

use agent_sdk::llm::{
    ChatOutcome, ChatRequest, ChatResponse, Content, ContentBlock, LlmProvider, Message, StopReason, Usage,
};
use agent_sdk::{
    AgentLoop, DefaultHooks, InMemoryEventStore, InMemoryExecutionStore, InMemoryStore, MessageStore,
    SimpleTool, SqliteStore, StateStore, ThreadId, ToolContext, ToolRegistry, ToolResult, ToolTier, builder,
};
use anyhow::Result;
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{CountDown, DONE, Move, Script, Side, TOOL, check};

pub(super) fn on_disk(name: &'static str, file: &Path) -> Result<impl Side + use<>> {
    let store = SqliteStore::open(file)?;
    let agent = builder()
        .provider(Scripted::default())
        .tools(tools())
        .hooks(DefaultHooks)
        .message_store(store.clone())
        .state_store(store.clone())
        .event_store(Arc::new(store.clone()))
        .execution_store(store)
        .build_with_stores();
    Ok(AgentSdk { name, agent })
}

pub(super) fn in_memory(name: &'static str) -> impl Side {
    let agent = builder()
        .provider(Scripted::default())
        .tools(tools())
        .hooks(DefaultHooks)
        .message_store(InMemoryStore::new())
        .state_store(InMemoryStore::new())
        .event_store(Arc::new(InMemoryEventStore::new()))
        .execution_store(InMemoryExecutionStore::new())
        .build_with_stores();
    AgentSdk { name, agent }
}

fn tools() -> ToolRegistry<()> {
    let mut tools = ToolRegistry::new();
    tools.register_simple(CountDownTool);
    tools
}

struct AgentSdk<M: MessageStore, S: StateStore> {
    name: &'static str,
    agent: AgentLoop<(), Scripted, DefaultHooks, M, S>,
}

#[async_trait(?Send)]
impl<M: MessageStore + 'static, S: StateStore + 'static> Side for AgentSdk<M, S> {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn converse(&self, rounds: u32) -> Result<()> {
        check(&self.agent.ask(ThreadId::new(), rounds.to_string()).await?)
    }
}

#[derive(Default)]
struct Scripted {
    script: Script,
}

#[async_trait]
impl LlmProvider for Scripted {
    async fn chat(&self, request: ChatRequest) -> Result<ChatOutcome> {
        let told = request.messages.last().and_then(text).unwrap_or_default();
        let (block, stop) = match self.script.next(told) {
            Move::Call { id, from } => {
                let (name, input) = (TOOL.to_owned(), json!({"from": from}));
                (ContentBlock::ToolUse { id, name, input, thought_signature: None }, StopReason::ToolUse)
            }
            Move::Finish => (ContentBlock::Text { text: DONE.to_owned() }, StopReason::EndTurn),
        };
        Ok(ChatOutcome::Success(ChatResponse {
            id: "response".to_owned(),
            content: vec![block],
            model: self.model().to_owned(),
            stop_reason: Some(stop),
            usage: Usage::default(),
        }))
    }

    fn model(&self) -> &'static str {
        "scripted"
    }

    fn provider(&self) -> &'static str {
        "demo"
    }
}

fn text(message: &Message) -> Option<&str> {
    match &message.content {
        Content::Text(text) => Some(text),
        Content::Blocks(blocks) => blocks.iter().find_map(|block| match block {
            ContentBlock::ToolResult { content, .. } => Some(&**content),
            ContentBlock::Text { text } => Some(&**text),
            _ => None,
        }),
    }
}

struct CountDownTool;

impl SimpleTool<()> for CountDownTool {
    fn name(&self) -> &'static str {
        TOOL
    }

    fn description(&self) -> &'static str {
        "Counts down."
    }

    fn input_schema(&self) -> Value {
        schemars::schema_for!(CountDown).to_value()
    }

    fn tier(&self) -> ToolTier {
        ToolTier::Observe
    }

    async fn execute(&self, _: &ToolContext<()>, input: Value) -> Result<ToolResult> {
        let args: CountDown = serde_json::from_value(input)?;
        Ok(ToolResult::success(args.answer()))
    }
}
