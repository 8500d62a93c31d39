//! rig: its agent with the conversation memory that it has. It persists nothing while a prompt is worked on.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use async_trait::async_trait;
use futures_util::stream;
use rig::agent::tool::{Tool, ToolContext};
use rig::agent::{Agent, AgentBuilder};
use rig::completion::{CompletionRequest, CompletionResponse, Message, Usage};
use rig::core::driver::{Exchange, Model, Opened, Opening, Transport};
use rig::core::error::ProviderError;
use rig::core::memory::InMemoryConversationMemory;
use rig::core::message::{
    AssistantContent, Origin, ToolCall, ToolFunction, ToolName, ToolResultContent, UserContent,
};
use rig::core::test_utils::{MockFrame, MockScript};
use serde_json::{Value, json};

use super::{CountDown, DONE, Move, Script, Side, TOOL, check};

pub(super) fn in_memory(name: &'static str) -> impl Side {
    let model = Model::new(MockScript::new("demo"), Scripted::default());
    let agent =
        AgentBuilder::new(model).memory(InMemoryConversationMemory::new()).tool(CountDownTool).build();
    Rig { name, agent, conversations: AtomicU64::new(0) }
}

struct Rig {
    name: &'static str,
    agent: Agent,
    conversations: AtomicU64,
}

#[async_trait(?Send)]
impl Side for Rig {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn converse(&self, rounds: u32) -> Result<()> {
        let number = self.conversations.fetch_add(1, Ordering::Relaxed);
        let prompt = self.agent.prompt(rounds.to_string()).conversation(format!("conversation_{number}"));
        let answer = prompt.max_turns(usize::MAX).await?;
        check(&answer.output())
    }
}

#[derive(Clone, Default)]
struct Scripted {
    script: Arc<Script>,
}

impl Scripted {
    fn answer(&self, request: &CompletionRequest) -> Result<AssistantContent> {
        Ok(match self.script.next(request.chat_history.last().and_then(text).unwrap_or_default()) {
            Move::Call { id, from } => {
                let name = ToolName::new(TOOL)?;
                let function = ToolFunction::new(name, json!({"from": from}));
                AssistantContent::ToolCall(ToolCall::from_wire(id, function))
            }
            Move::Finish => AssistantContent::text(DONE),
        })
    }
}

impl Transport<MockScript> for Scripted {
    fn send(&self, request: CompletionRequest, _: Exchange) -> Opening<MockFrame> {
        let answer = match self.answer(&request) {
            Ok(answer) => answer,
            Err(error) => return Opening::failed(ProviderError::Provider(error.to_string())),
        };
        let origin = Origin::new("demo.script", "demo", "");
        let response = CompletionResponse::new(vec![answer], Usage::new(), origin, Value::Null);
        Opening::ready(Opened::new(stream::iter([Ok(MockFrame::Response(Box::new(response)))])))
    }
}

fn text(message: &Message) -> Option<&str> {
    let Message::User { content } = message else { return None };
    content.iter().find_map(|content| match content {
        UserContent::Text(text) => Some(&*text.text),
        UserContent::ToolResult(result) => result.content.iter().find_map(|content| match content {
            ToolResultContent::Text(text) => Some(&*text.text),
            _ => None,
        }),
        _ => None,
    })
}

struct CountDownTool;

impl Tool for CountDownTool {
    const NAME: &'static str = TOOL;
    type Args = CountDown;
    type Output = String;
    type Error = Infallible;

    fn description(&self) -> String {
        "Counts down.".to_owned()
    }

    fn parameters(&self) -> Value {
        schemars::schema_for!(CountDown).to_value()
    }

    async fn call(&self, _: &mut ToolContext, args: CountDown) -> Result<String, Infallible> {
        Ok(args.answer())
    }
}
