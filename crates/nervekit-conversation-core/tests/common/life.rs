//! A world, and lives of a core in it: what the tests of the runtime share.
//!
//! The world survives a crash: it remembers what tools did, what commands were acknowledged, and what the model was
//! asked. A [`Life`] is one core over a store, with a client that can send every command again under the same id.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nervekit_conversation_core::{
    Backend, CallOutcome, Command, CommandError, CommandOutcome, CommandRequest, Conversation,
    ConversationConfig, ConversationCore, Conversations, CoreBuilder, Cursor, Event, EventPayload,
    ExecutionState, Interaction, NewConversation, NewInput, NewProject, Page, Receipt, Resolution, Snapshot,
    Status, ToolCallResponse,
};
use nervekit_harness::{ContentBlock, Message, ModelRegistry, ModelRequest, ScriptedModel, ScriptedReply};
use nervekit_permissions::{DocumentOwner, MemoryDocuments, Risk, Roots, RuleEngine};
use nervekit_tools::{
    ArgumentType, Catalog, FunctionTool, Tool, ToolCall, ToolContext, ToolDefinition, ToolError,
    ToolExecutor, ToolOutcome, catalog,
};
use nervekit_types::testing::SeededEntropy;
use nervekit_types::{CommandId, ConversationId, InputId, ProjectId, ToolCallId};

/// How long a test waits, by its paused clock.
pub const DEADLINE: Duration = Duration::from_secs(3_600);

/// What outlives a core.
#[derive(Debug)]
pub struct World {
    pub model: ScriptedModel,
    pub config: ConversationConfig,
    /// Whether the tool `hold` ends at once instead of waiting to be cancelled.
    pub brief: AtomicBool,
    /// Tools besides those of [`tools`].
    pub more: Vec<Tool>,
    /// The documents of the user, if there are any.
    pub documents: Option<Arc<MemoryDocuments>>,
    effects: Mutex<Vec<(ToolCallId, String)>>,
    acknowledged: Mutex<Vec<(CommandRequest, Receipt)>>,
}

impl World {
    /// A world whose model gives the n-th reply to a request that holds n answers, then `Done.`: asked again after
    /// a crash, it answers the same.
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        let replies: Vec<_> = replies.into_iter().collect();
        Self::with(ScriptedModel::from_fn(move |request| {
            replies.get(answers(request)).cloned().unwrap_or_else(|| ScriptedReply::text("Done."))
        }))
    }

    pub fn with(model: ScriptedModel) -> Self {
        Self {
            model,
            config: ConversationConfig::new("demo/scripted".parse().unwrap()),
            brief: AtomicBool::new(false),
            more: Vec::new(),
            documents: None,
            effects: Mutex::default(),
            acknowledged: Mutex::default(),
        }
    }

    pub fn configured(mut self, change: impl FnOnce(&mut ConversationConfig)) -> Self {
        change(&mut self.config);
        self
    }

    pub fn tool(mut self, tool: impl Into<Tool>) -> Self {
        self.more.push(tool.into());
        self
    }

    /// Lets answers be remembered for the user.
    pub fn documented(mut self) -> Self {
        self.documents = Some(Arc::default());
        self
    }

    pub fn effect(&self, call: ToolCallId, key: &str) {
        self.effects.lock().unwrap().push((call, key.to_owned()));
    }

    /// What tools did, in order.
    pub fn effects(&self) -> Vec<String> {
        self.effects.lock().unwrap().iter().map(|(_, key)| key.clone()).collect()
    }

    pub fn effects_of(&self, call: ToolCallId) -> usize {
        self.effects.lock().unwrap().iter().filter(|(by, _)| *by == call).count()
    }

    pub fn acknowledged(&self) -> Vec<(CommandRequest, Receipt)> {
        self.acknowledged.lock().unwrap().clone()
    }
}

/// The answers that a request holds.
pub fn answers(request: &ModelRequest) -> usize {
    request.messages.iter().filter(|message| matches!(message, Message::Assistant(_))).count()
}

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Key {
    pub key: String,
}

/// A tool that has an effect named by its argument, at once.
fn effectful(world: &Arc<World>, name: &str) -> FunctionTool<Key> {
    let world = world.clone();
    Tool::function(name, "Has an effect.", move |args: Key, context: ToolContext| {
        let world = world.clone();
        async move {
            world.effect(context.call(), &args.key);
            Ok(format!("did {}", args.key))
        }
    })
}

/// Has its effect, then waits until it is told to stop.
#[derive(Debug)]
struct Hold(Arc<World>);

#[async_trait]
impl ToolExecutor for Hold {
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError> {
        let Key { key } = call.typed()?;
        self.0.effect(context.call(), &key);
        if !self.0.brief.load(Ordering::SeqCst) {
            context.cancelled().await;
        }
        Ok(ToolOutcome::Cancelled)
    }
}

/// `peek` reads and may be repeated; `stamp` runs unasked and may not be repeated; `write` asks, one after the
/// other; `send` asks, side by side; `hold` waits to be stopped.
pub fn tools(world: &Arc<World>) -> Catalog {
    let hold = ToolDefinition::unreviewed("hold", "Waits.", ArgumentType::of::<Key>().schema().clone())
        .descriptor(|mut descriptor| {
            descriptor.base_risk = Risk::Read;
            descriptor
        });
    world
        .more
        .iter()
        .fold(Catalog::new(), |catalog, tool| catalog.with(tool.clone()))
        .with(effectful(world, "peek").reviewed(Risk::Read).parallel().replay_safe())
        .with(effectful(world, "stamp").reviewed(Risk::Read))
        .with(effectful(world, "write").reviewed(Risk::Write))
        .with(effectful(world, "send").reviewed(Risk::Network).parallel())
        .with(Tool::new(hold, ArgumentType::of::<Key>(), Hold(world.clone())))
        .with(catalog::ask_user())
        .with(catalog::todos_set())
}

/// One core over a store, and its client.
#[derive(Clone, Debug)]
pub struct Life {
    pub core: ConversationCore,
    pub conversation: Conversation,
    pub world: Arc<World>,
}

impl Life {
    pub fn builder(backend: impl Backend, world: &Arc<World>) -> CoreBuilder {
        let models = ModelRegistry::new().register(world.model.clone());
        let (mut engine, user) = (RuleEngine::new(Roots::new()), DocumentOwner::User(None));
        if let Some(documents) = &world.documents {
            engine = engine.documents(documents.clone(), user.clone());
        }
        let builder =
            ConversationCore::builder(backend, models, engine, tools(world)).entropy(SeededEntropy::new(1));
        match &world.documents {
            Some(documents) => builder.documents(documents.clone(), user),
            None => builder,
        }
    }

    /// Opens a core and asks for the conversation, as at every start.
    pub async fn open(backend: impl Backend, world: &Arc<World>) -> Self {
        Self::over(Self::builder(backend, world).open().await.unwrap(), world).await
    }

    pub async fn over(core: ConversationCore, world: &Arc<World>) -> Self {
        let api: Arc<dyn Conversations> = Arc::new(core.clone());
        let id = ConversationId::from_key("conversation");
        let life = Self { core, conversation: Conversation::new(api, id), world: world.clone() };
        let project = ProjectId::from_key("project");
        let new = NewProject::new("a project").id(project);
        life.send("project", Command::CreateProject(new)).await.unwrap();
        let new = NewConversation::new(project, world.config.clone()).id(id);
        life.send("conversation", Command::CreateConversation(Box::new(new))).await.unwrap();
        life
    }

    /// Sends a command under an id of its own, and remembers what was acknowledged.
    pub async fn send(&self, key: &str, command: Command) -> Result<Receipt, CommandError> {
        let request = CommandRequest::new(CommandId::from_key(key), command);
        let receipt = self.core.command(request.clone()).await?;
        self.world.acknowledged.lock().unwrap().push((request, receipt.clone()));
        Ok(receipt)
    }

    pub fn id(&self) -> ConversationId {
        self.conversation.id()
    }

    pub async fn submit(&self, text: &str) -> Receipt {
        let input = NewInput::new(text).id(InputId::from_key(text));
        self.send(text, Command::Submit { conversation_id: self.id(), input }).await.unwrap()
    }

    pub async fn stop(&self, key: &str) -> CommandOutcome {
        let stop = Command::Stop { conversation_id: self.id(), execution_id: None };
        self.send(key, stop).await.unwrap().outcome
    }

    pub async fn resolve(
        &self,
        shown: &Interaction,
        resolution: Resolution,
    ) -> Result<Receipt, CommandError> {
        let resolve = Command::Resolve { conversation_id: self.id(), interaction_id: shown.id, resolution };
        self.send(&shown.id.to_string(), resolve).await
    }

    /// Carries on what was interrupted or failed.
    pub async fn go_on(&self) {
        let head = self.snapshot().await.state.conversation.head_event_id;
        let key = format!("continue {head:?}");
        let go_on = Command::ContinueProcessing { conversation_id: self.id(), head };
        self.send(&key, go_on).await.unwrap();
    }

    pub async fn snapshot(&self) -> Snapshot {
        self.conversation.snapshot().await.unwrap()
    }

    pub async fn status(&self) -> Status {
        self.snapshot().await.state.conversation.status
    }

    pub async fn interactions(&self) -> Vec<Interaction> {
        self.snapshot().await.state.interactions
    }

    /// Waits for a condition on the snapshot, by the paused clock.
    pub async fn until(&self, what: &str, holds: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let wait = async {
            let mut updates = self.conversation.follow(self.snapshot().await.cursor).await.unwrap();
            loop {
                let snapshot = self.snapshot().await;
                if holds(&snapshot) {
                    return snapshot;
                }
                // What another core does is not told here, so it looks once in a while.
                let _ = tokio::time::timeout(Duration::from_secs(1), updates.next()).await;
            }
        };
        match tokio::time::timeout(DEADLINE, wait).await {
            Ok(snapshot) => snapshot,
            Err(elapsed) => panic!("{what}: {elapsed}; {:#?}", self.snapshot().await),
        }
    }

    /// Waits until nothing moves without a person.
    pub async fn quiet(&self) -> Snapshot {
        self.until("quiet", |snapshot| {
            let conversation = &snapshot.state.conversation;
            let held = conversation.paused || conversation.status != Status::Idle;
            conversation.status != Status::Running && (held || snapshot.state.queue.is_empty())
        })
        .await
    }

    /// Answers what is asked until nothing is, and says how the conversation stands then.
    pub async fn attend(&self, person: impl Fn(&Interaction) -> Resolution) -> Status {
        loop {
            let snapshot = self.quiet().await;
            let Some(open) = snapshot.state.interactions.first() else {
                return snapshot.state.conversation.status;
            };
            self.resolve(open, person(open)).await.unwrap();
        }
    }

    /// The same, and carries on whatever was interrupted or failed.
    pub async fn see_through(&self, person: impl Fn(&Interaction) -> Resolution) {
        for _ in 0..20 {
            match self.attend(&person).await {
                Status::Interrupted | Status::Failed => self.go_on().await,
                _ => return,
            }
        }
        panic!("it fails again and again");
    }

    pub async fn events(&self) -> Vec<Event> {
        self.conversation.events_since(Cursor::START, Page::new(10_000)).await.unwrap().events
    }

    pub async fn responses(&self) -> Vec<ToolCallResponse> {
        responses(&self.events().await)
    }
}

/// Approves, answers with `blue`.
pub fn obliging(open: &Interaction) -> Resolution {
    match open.kind.kind() {
        "question" => Resolution::answer("blue"),
        _ => Resolution::approve(open.digest),
    }
}

pub fn responses(events: &[Event]) -> Vec<ToolCallResponse> {
    let response = |event: &Event| match &event.payload {
        EventPayload::ToolCallResponse(response) => Some((**response).clone()),
        _ => None,
    };
    events.iter().filter_map(response).collect()
}

/// What a call is known by in these tests.
pub fn key_of(tool: &str, arguments: &serde_json::Value) -> String {
    let text = arguments.get("key").or_else(|| arguments.get("question")).and_then(|key| key.as_str());
    text.unwrap_or(tool).to_owned()
}

/// The ends of the executions, in order.
pub fn ends(events: &[Event]) -> Vec<&'static str> {
    let end = |event: &Event| match &event.payload {
        EventPayload::ExecutionState(state) if state.state.is_terminal() => Some(state.state.kind()),
        _ => None,
    };
    events.iter().filter_map(end).collect()
}

/// The events in a word or two each.
pub fn story(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| match &event.payload {
            EventPayload::UserMessage(message) => format!("user: {}", message.text),
            EventPayload::AssistantMessage(answer) => {
                let calls = answer.message.tool_calls().map(|call| call.name.clone()).collect::<Vec<_>>();
                format!("assistant: {}{}", answer.message.plain_text(), calls.join(" "))
            }
            EventPayload::ToolCallResponse(response) => {
                let key = key_of(&response.tool_name, &response.arguments);
                format!("{key}: {}", response.outcome)
            }
            EventPayload::ExecutionState(state) => match &state.state {
                ExecutionState::Waiting { awaited } => format!("waiting for {}", awaited.len()),
                ExecutionState::Failed { reason, .. } => format!("failed: {}", reason.kind()),
                state => state.kind().to_owned(),
            },
            other => other.kind().to_owned(),
        })
        .collect()
}

/// What is wrong with the messages of a request, if anything: every call of an answer is followed by exactly one
/// result, directly and in order, and nothing is blank.
pub fn unpaired(request: &ModelRequest) -> Option<String> {
    let mut wanted: Vec<String> = Vec::new();
    for (at, message) in request.messages.iter().enumerate() {
        if let Message::ToolResult(result) = message {
            if wanted.first() != Some(&result.tool_call_id) {
                return Some(format!("message {at} is a result of `{}`", result.tool_call_id));
            }
            wanted.remove(0);
            continue;
        }
        if let Some(missing) = wanted.first() {
            return Some(format!("message {at} stands where the result of `{missing}` should"));
        }
        if let Message::Assistant(answer) = message {
            wanted = answer.tool_calls().map(|call| call.id.clone()).collect();
        }
        let blank = |block: &ContentBlock| match block {
            ContentBlock::Text(text) => text.text.trim().is_empty(),
            _ => false,
        };
        if message.content().iter().any(blank) {
            return Some(format!("message {at} has a blank text"));
        }
    }
    wanted.first().map(|missing| format!("`{missing}` has no result"))
}

/// The outcome of the only call with this key.
pub fn outcome_of(responses: &[ToolCallResponse], key: &str) -> Option<CallOutcome> {
    let found = responses.iter().find(|response| key_of(&response.tool_name, &response.arguments) == key);
    found.map(|response| response.outcome)
}
