//! The hosts of the documentation, as functions over handles, ports and values.
//!
//! What each of them still lacks here is what the facade adds: `Host` with its defaults, the model `demo` and
//! `terminal`. It is named at each function, and shown by the examples of the facade.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use nervekit_conversation_core::{
    AskError, Attendance, Backend, BuildError, CommandError, CommandRequest, Conversation,
    ConversationConfig, ConversationCore, Conversations, Cursor, Ending, Interaction, Limits, MemoryBackend,
    NewConversation, NewInput, NewProject, Outcome, Project, Query, QueryError, Receipt, RecoveryReport,
    Resolution, Update, interactions,
};
use nervekit_harness::{
    AssistantMessage, Model as _, ModelInfo, ModelRegistry, ModelRequest, ModelSelection, model_fn,
};
use nervekit_permissions::{Risk, Target};
use nervekit_tools::{Catalog, Tool, ToolContext};
use nervekit_types::{CommandId, ConversationId, InputId, InteractionId, Principal, ProjectId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime::Handle;

use crate::{
    AnyModel, Attic, Census, Coin, Counter, Forgetful, House, ReadersOnly, Reverse, Sayings, Town, WallClock,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Host 1, quickstart: ask, show what comes, answer what is asked, return the text.
///
/// The facade adds `Host::local().model("demo")`, which makes the API and the project, and `terminal::answer`
/// in place of the refusal.
pub async fn quickstart(
    api: Arc<dyn Conversations>,
    model: ModelSelection,
    mut show: impl FnMut(&str) + Send,
) -> Result<String, Failure> {
    let project = Project::at(api, ".").await?;
    let conversation = project.converse(ConversationConfig::new(model)).await?;
    conversation.submit("Which TODOs are left in this folder?").await?;
    let mut updates = conversation.updates().await?;
    while let Some(update) = updates.next().await {
        match update? {
            Update::Text { delta, .. } => show(&delta),
            Update::Interaction(request) => {
                conversation.deny(&request, Some("nobody is here".to_owned())).await?;
            }
            Update::Finished(outcome) => return Ok(outcome.into_text()?),
            _ => {}
        }
    }
    Err("the runtime is shutting down".into())
}

/// Host 1, quickstart in one line.
pub async fn one_line(conversation: &Conversation) -> Result<String, AskError> {
    Ok(conversation.ask("Which TODOs are left in this folder?").await?.into_text()?)
}

/// What a web service takes: the whole API as one JSON route.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Call {
    /// Something to do.
    Command(CommandRequest),
    /// Something to look at.
    Query(Query),
}

/// Host 2, web service: the JSON route. Status and body of the answer.
///
/// Who gives a command is what the service has authenticated, not what the body says.
pub async fn route(api: &dyn Conversations, user: Principal, body: &[u8]) -> (u16, Vec<u8>) {
    let answer = match serde_json::from_slice(body) {
        Ok(Call::Command(request)) => match api.command(request.principal(user)).await {
            Ok(receipt) => (200, json!(receipt)),
            Err(error) => (error.http_status(), json!({ "error": error.to_string() })),
        },
        Ok(Call::Query(query)) => match api.query(query).await {
            Ok(view) => (200, json!(view)),
            Err(error) => (error.http_status(), json!({ "error": error.to_string() })),
        },
        Err(error) => (400, json!({ "error": error.to_string() })),
    };
    (answer.0, answer.1.to_string().into_bytes())
}

/// Host 2, web service: submits what a webhook delivered; the delivery's id makes doing it twice harmless.
pub async fn submit(
    api: Arc<dyn Conversations>,
    conversation: ConversationId,
    delivery: &str,
    text: &str,
) -> Result<Receipt, CommandError> {
    let input = NewInput::new(text).id(InputId::from_key(&format!("github:delivery:{delivery}")));
    Conversation::new(api, conversation).submit(input).await
}

/// Host 2, web service: what waits for a person, over all conversations.
pub async fn inbox(api: &dyn Conversations) -> Result<Vec<Interaction>, QueryError> {
    interactions(api).await
}

/// Host 2, web service: an approval from one of two browser tabs. It carries the digest that was shown; the second
/// tab gets `409` with who resolved it and how.
pub async fn approve(
    api: Arc<dyn Conversations>,
    user: &str,
    conversation: ConversationId,
    interaction: InteractionId,
    shown: nervekit_types::Digest,
) -> Result<Receipt, (u16, String)> {
    let conversation = Conversation::new(api, conversation).by(Principal::person(user));
    let resolution = Resolution::approve(shown);
    conversation
        .resolve(interaction, resolution)
        .await
        .map_err(|error| (error.http_status(), error.to_string()))
}

/// Host 2, web service: server-sent events. `Last-Event-ID` is the cursor, so a browser goes on where it was, also
/// after the server was killed.
pub async fn server_sent_events(
    api: Arc<dyn Conversations>,
    conversation: ConversationId,
    last_event_id: Option<&str>,
) -> Result<impl Stream<Item = String> + Send + 'static, QueryError> {
    let after = last_event_id.map_or(Ok(Cursor::START), str::parse)?;
    let updates = Conversation::new(api, conversation).follow(after).await?;
    Ok(updates.map(|update| match update {
        Ok(Update::Event { event, cursor }) => {
            format!("id: {cursor}\nevent: event\ndata: {}\n\n", json!(event))
        }
        Ok(update) => format!("event: {}\ndata: {}\n\n", update.kind(), json!(update)),
        Err(error) => format!("event: error\ndata: {}\n\n", json!(error.to_string())),
    }))
}

/// Host 3, desktop app: its own database, and a runtime that the UI's executor knows nothing of. The report is what
/// the badges show.
///
/// The facade adds the defaults of the other ports.
pub async fn desktop(
    database: impl Backend,
    runtime: Handle,
) -> Result<(Arc<dyn Conversations>, RecoveryReport), BuildError> {
    let models = AnyModel::new(Reverse::default());
    let (core, report) = ConversationCore::builder(database, models, ReadersOnly, Catalog::new())
        .runtime(runtime)
        .open_with_report()
        .await?;
    Ok((Arc::new(core), report))
}

/// Host 3, desktop app: what a badge says.
#[must_use]
pub fn badge(report: &RecoveryReport, conversation: ConversationId) -> Option<&'static str> {
    if report.interrupted.contains(&conversation) {
        return Some("interrupted");
    }
    report.resumed.contains(&conversation).then_some("resumed")
}

/// Host 4, CI bot: unattended, limited, with an outcome as JSON and an exit code.
///
/// The facade adds `Host::in_memory()`.
pub async fn ci_bot(
    api: Arc<dyn Conversations>,
    model: ModelSelection,
    prompt: &str,
) -> Result<(String, u8), Failure> {
    let mut config = ConversationConfig::new(model);
    config.attendance = Attendance::Unattended;
    config.limits = Limits::new().turns(40).time(Duration::from_secs(600)).tokens(2_000_000);
    let project = Project::create(api, NewProject::new("ci")).await?;
    let outcome = project.converse(config).await?.ask(prompt).await?;
    Ok((serde_json::to_string(&outcome)?, exit_code(&outcome)))
}

/// Host 4, CI bot: 0 completed, 1 failed, 3 something was denied for want of a person.
#[must_use]
pub fn exit_code(outcome: &Outcome) -> u8 {
    match &outcome.ending {
        _ if !outcome.denied.is_empty() => 3,
        Ending::Completed { .. } => 0,
        Ending::Failed { .. } | Ending::Cancelled | Ending::Interrupted => 1,
    }
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Order {
    /// The number of the order.
    number: u32,
}

/// Host 5, own gateway and own tools: a model that is one function, two function tools, no project folder.
pub async fn own_gateway(question: &str) -> Result<String, Failure> {
    let model = model_fn(ModelInfo::new("gateway", "large"), |request: Arc<ModelRequest>| async move {
        // Here goes the call of the gateway; the request serialises in its own format.
        let tools: Vec<&str> = request.tools.iter().map(|tool| &*tool.name).collect();
        Ok(AssistantMessage::text(format!("I can {}.", tools.join(" and "))))
    });
    let selection = model.info().selection();
    let tools = Catalog::new()
        .with(
            Tool::function(
                "find_order",
                "Finds an order.",
                |order: Order, _context: ToolContext| async move {
                    Ok(format!("order {} is on its way", order.number))
                },
            )
            .reviewed(Risk::Read)
            .targets(|_| vec![Target::whole_tool()])
            .parallel()
            .replay_safe(),
        )
        .with(Tool::function(
            "cancel_order",
            "Cancels an order.",
            |order: Order, context: ToolContext| async move {
                // The key is the same when the call is made again, so that the shop cancels once.
                Ok(format!("order {} is cancelled ({})", order.number, context.effect_key()))
            },
        ));
    let core = ConversationCore::builder(
        MemoryBackend::new(),
        ModelRegistry::new().register(model),
        ReadersOnly,
        tools,
    )
    .open()
    .await?;
    let project = Project::create(Arc::new(core), NewProject::new("support")).await?;
    let new = NewConversation::new(project.id(), ConversationConfig::new(selection))
        .id(ConversationId::from_key("support/4711"));
    let conversation = project.create_conversation(new).await?;
    Ok(conversation.ask(question).await?.into_text()?)
}

/// Host 6, own ports: every one that a core takes.
///
/// Those that a core does not take, `Profiles`, `Documents` and `SearchBackend`, are used by the example `own_ports` of
/// the facade.
pub async fn own_ports(database: impl Backend, hook: Arc<Census>) -> Result<Conversation, Failure> {
    let core = ConversationCore::builder(database, AnyModel::new(Reverse::default()), ReadersOnly, Sayings)
        .harness(Forgetful::default())
        .processes(Town)
        .assets(Attic::default())
        .resources(House)
        .hook(hook)
        .clock(WallClock)
        .ids(Counter::default())
        .entropy(Coin)
        .open()
        .await?;
    let api: Arc<dyn Conversations> = Arc::new(core);
    let project = Project::create(api, NewProject::new("own").id(ProjectId::from_key("own"))).await?;
    Ok(project.converse(ConversationConfig::new("outside/reverse".parse()?)).await?)
}

/// Two requests of one click are one command.
pub async fn click(conversation: &Conversation, key: &str) -> Result<Receipt, CommandError> {
    let pause = nervekit_conversation_core::Command::Pause { conversation_id: conversation.id() };
    conversation.command(CommandId::from_key(key), pause).await
}

/// A project for a folder that may not exist: the error says so.
pub async fn open_folder(api: Arc<dyn Conversations>, folder: &Path) -> Result<Project, CommandError> {
    Project::at(api, folder).await
}
