//! What a host or the model is told when something is wrong: one row each.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "common/life.rs"]
mod life;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nervekit_conversation_core::testing::{Fault, FaultBackend};
use nervekit_conversation_core::{
    Backend, BackendError, BackendFacts, BuildProblem, Command, CommandError, CommitNumber, Conversation,
    Event, EventPayload, ExecutionState, Hook, HookCall, HookError, HookVerdict, Maintenance,
    MaintenanceReport, MemoryBackend, NewInput, QueryError, Range, Refused, Resolution, ResourceError,
    Resources, Row, Table, TurnRequest, TurnResources, WriteSet,
};
use nervekit_harness::{
    ModelRequest, ModelSelection, ProviderError, ProviderErrorKind, ScriptedModel, ScriptedReply, StopReason,
};
use nervekit_permissions::{Risk, Target};
use nervekit_tools::{Tool, ToolContext, ToolError};
use nervekit_types::{BatchId, ConversationId, Retry, Timestamp};
use serde_json::json;

use self::life::{Key, Life, World, obliging};

/// What is told of calls, retries and the end.
fn told(events: &[Event]) -> String {
    let words = events.iter().filter_map(|event| match &event.payload {
        EventPayload::ToolCallResponse(response) => Some(format!("{}: {}", response.outcome, response.agent)),
        EventPayload::ExecutionState(state) => match &state.state {
            ExecutionState::Retrying { attempt, limit, delay, error } => {
                // The part of the wait that is random is left out.
                Some(format!("attempt {attempt} of {limit}, again in {}s: {error}", delay.as_secs()))
            }
            ExecutionState::Failed { reason, message, .. } => {
                Some(format!("failed ({}): {message}", reason.kind()))
            }
            _ => None,
        },
        _ => None,
    });
    words.collect::<Vec<_>>().join(" | ")
}

/// Runs one prompt to its end and says what was told.
async fn run(world: World) -> String {
    run_with(world, |builder| builder).await
}

async fn run_with(
    world: World,
    set_up: impl FnOnce(nervekit_conversation_core::CoreBuilder) -> nervekit_conversation_core::CoreBuilder,
) -> String {
    let world = Arc::new(world);
    let core = set_up(Life::builder(MemoryBackend::new(), &world)).open().await.unwrap();
    let life = Life::over(core, &world).await;
    life.submit("go").await;
    life.attend(|_| Resolution::deny()).await;
    told(&life.events().await)
}

fn raw(tool: &str, arguments: &str) -> World {
    World::new([ScriptedReply::new().raw_call("call_1", tool, arguments)])
}

/// A model that fails like this whenever it is asked.
fn failing(reply: ScriptedReply) -> World {
    World::with(ScriptedModel::from_fn(move |_| reply.clone()))
}

fn provider_error(kind: ProviderErrorKind, status: u16, words: &str) -> ProviderError {
    ProviderError::new(kind, words).with_status(status)
}

#[derive(Debug)]
struct PanickingHook {
    on_request: bool,
}

#[async_trait]
impl Hook for PanickingHook {
    async fn before_model_request(
        &self,
        _: ConversationId,
        _: &ModelRequest,
    ) -> Result<HookVerdict, HookError> {
        assert!(!self.on_request, "a fault of the hook");
        Ok(HookVerdict::Continue)
    }

    async fn before_tool_call(&self, _: &HookCall) -> Result<HookVerdict, HookError> {
        panic!("a fault of the hook")
    }
}

/// A hook that never answers.
#[derive(Debug)]
struct HangingHook;

#[async_trait]
impl Hook for HangingHook {
    async fn before_tool_call(&self, _: &HookCall) -> Result<HookVerdict, HookError> {
        std::future::pending().await
    }
}

#[derive(Debug)]
struct PanickingResources;

#[async_trait]
impl TurnResources for PanickingResources {
    async fn resolve(&self, _: &TurnRequest) -> Result<Resources, ResourceError> {
        panic!("a fault of the resources")
    }
}

/// A store that another process has open.
#[derive(Debug)]
struct InUse;

#[async_trait]
impl Backend for InUse {
    async fn write(&self, _: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
        Err(BackendError::in_use("notes.redb"))
    }

    async fn applied(&self, _: BatchId) -> Result<Option<CommitNumber>, BackendError> {
        Err(BackendError::in_use("notes.redb"))
    }

    async fn get(&self, _: Table, _: &[u8]) -> Result<Option<Row>, BackendError> {
        Err(BackendError::in_use("notes.redb"))
    }

    async fn range(&self, _: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
        Err(BackendError::in_use("notes.redb"))
    }

    async fn now(&self) -> Result<Timestamp, BackendError> {
        Err(BackendError::in_use("notes.redb"))
    }

    async fn maintain(&self, _: Maintenance) -> Result<MaintenanceReport, BackendError> {
        Err(BackendError::in_use("notes.redb"))
    }

    fn facts(&self) -> BackendFacts {
        BackendFacts::new(true)
    }
}

macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident: $seen:expr => $expected:literal;)*) => {$(
        $(#[$doc])*
        #[tokio::test(start_paused = true)]
        async fn $name() {
            let seen: String = $seen.await;
            assert_eq!(seen, $expected);
        }
    )*};
}

fn fault() -> ToolError {
    panic!("a fault of the tool")
}

fn panicking() -> Tool {
    let tool = Tool::function("break", "Panics.", |_: Key, _: ToolContext| async move {
        Err::<String, ToolError>(fault())
    });
    tool.reviewed(Risk::Read).into()
}

fn without_targets() -> Tool {
    let tool = Tool::function("lost", "Panics.", |_: Key, _: ToolContext| async move { Ok("done") });
    tool.reviewed(Risk::Read).targets(|_| -> Vec<Target> { panic!("a fault of the targets") }).into()
}

fn erring() -> Tool {
    let tool = Tool::function("err", "Fails.", |_: Key, _: ToolContext| async move {
        Err::<String, _>(
            ToolError::new("there is no such note; list them first").because("a detail of the host"),
        )
    });
    tool.reviewed(Risk::Read).into()
}

fn call(tool: &str) -> ScriptedReply {
    ScriptedReply::call_tool(tool, json!({ "key": "a" }))
}

rows! {
    unknown_tool: run(raw("nope", r#"{"key":"a"}"#))
        => "failed: The tool `nope` is not available.";
    invalid_arguments: run(raw("peek", r#"{"kee":"a"}"#)) => "failed: The call did not run: argument `kee` is unknown; known are `key`.";
    duplicate_keys: run(raw("peek", r#"{"key":"a","key":"b"}"#)) => "failed: The call did not run: the arguments cannot be read: the key `key` appears twice at line 1 column 16.";
    truncated_arguments: run(raw("peek", r#"{"key":"a"#)) => "failed: The call did not run: the arguments cannot be read: EOF while parsing a string at line 1 column 9.";
    arguments_cut_by_the_output_limit: run(World::new([
        ScriptedReply::new().raw_call("call_1", "peek", r#"{"key":"a"#).stop_reason(StopReason::MaxTokens),
    ])) => "failed: The call was cut by the output limit and did not run. Ask for less at once.";
    arguments_that_are_no_object: run(raw("peek", "[1]")) => "failed: The call did not run: the arguments are not a JSON object.";

    unattended: run(World::new([call("write")]).configured(|config| {
        config.attendance = nervekit_conversation_core::Attendance::Unattended;
    })) => "denied: Denied: the rule `supervised.rest` of the rule set `supervised` asks, and nobody attends this conversation. A person can allow it with a rule for this call, with another rule set, or by attending.";
    unattended_question: run(
        World::new([ScriptedReply::call_tool("ask_user", json!({ "question": "Which?" }))]).configured(
            |config| config.attendance = nervekit_conversation_core::Attendance::Unattended,
        ),
    ) => "failed: The tool `ask_user` is not available.";
    denied_by_rule: run(World::new([call("write")]).configured(|config| {
        config.rule_set_id = "read_only".to_owned();
    })) => "denied: Denied: the rule `read_only.rest` of the rule set `read_only` denies";
    unknown_rule_set: run(World::new([call("write")]).configured(|config| {
        config.rule_set_id = "nowhere".to_owned();
    })) => "denied: Denied by a person.";

    panicking_tool: run(World::new([call("break")]).tool(panicking())) => "failed: The tool failed for an internal reason.";
    panicking_targets: run(World::new([call("lost")]).tool(without_targets())) => "failed: The call did not run: the tool could not tell what it affects.";
    erring_tool: run(World::new([call("err")]).tool(erring())) => "failed: there is no such note; list them first";
    panicking_hook: run_with(World::new([call("peek")]), |builder| {
        builder.hook(PanickingHook { on_request: false })
    }) => "denied: Denied: a hook of the host failed";
    panicking_request_hook: run_with(World::new([call("peek")]), |builder| {
        builder.hook(PanickingHook { on_request: true })
    }) => "failed (refused): a hook of the host failed";
    hanging_hook: run_with(World::new([call("peek")]), |builder| builder.hook(HangingHook)) => "denied: Denied: a hook of the host took too long";
    panicking_model: run(failing(ScriptedReply::new().then_panics("a fault of the model"))) => "attempt 1 of 4, again in 2s: protocol: the model panicked: a fault of the model | attempt 2 of 4, again in 4s: protocol: the model panicked: a fault of the model | attempt 3 of 4, again in 11s: protocol: the model panicked: a fault of the model | failed (provider): protocol: the model panicked: a fault of the model (the request failed 4 times)";
    panicking_resources: run_with(World::new([]), |builder| builder.resources(PanickingResources)) => "failed (resources): the turn's resources could not be resolved: it panicked: a fault of the resources";
    unknown_model: run(World::new([]).configured(|config| {
        config.model = "demo/other".parse::<ModelSelection>().unwrap();
    })) => "failed (resources): there is no model `demo/other`; known are `demo/scripted`";
    unknown_provider: run(World::new([]).configured(|config| {
        config.model = "nobody/other".parse::<ModelSelection>().unwrap();
    })) => "failed (resources): there is no provider `nobody`; known are `demo`";

    hanging_provider: run(failing(ScriptedReply::text("half").then_hangs())) => "attempt 1 of 4, again in 2s: timeout: no event came within 300s | attempt 2 of 4, again in 4s: timeout: no event came within 300s | attempt 3 of 4, again in 11s: timeout: no event came within 300s | failed (provider): timeout: no event came within 300s (the request failed 4 times)";
    wrong_key: run(failing(ScriptedReply::fails(provider_error(
        ProviderErrorKind::Authentication, 401, "the API key is not valid",
    )))) => "failed (provider): authentication (status 401): the API key is not valid";
    stream_cut_in_the_middle: run(failing(ScriptedReply::text("half an ans").then_cut())) => "failed (provider): protocol: the answer ended before it was complete";
    empty_answer: run(failing(ScriptedReply::new())) => "attempt 1 of 4, again in 2s: protocol: the answer is empty (stop reason `end_turn`) | attempt 2 of 4, again in 4s: protocol: the answer is empty (stop reason `end_turn`) | attempt 3 of 4, again in 11s: protocol: the answer is empty (stop reason `end_turn`) | failed (provider): protocol: the answer is empty (stop reason `end_turn`) (the request failed 4 times)";
    retry_after: asked_to_wait() => "attempt 1 of 4, again in 7s: rate_limited (status 429): slow down | Hi. after 7s";

    unknown_conversation: nowhere() => "conversation `…` does not exist | conversation `…` does not exist";
    store_in_use: opened_elsewhere() => "store `notes.redb` is in use by another process or another opening | retry After(100ms)";
    store_unavailable: store_trouble(Fault::Unavailable) => "store `fault backend` is unavailable: it was told to be unavailable";
    store_full: store_trouble(Fault::Full) => "store `fault backend` is full";
    blank_input: shows_nothing() => "the text is blank; submit at least one visible character or an image";
}

/// It waits as long as the provider asks, and no longer.
async fn asked_to_wait() -> String {
    let busy = provider_error(ProviderErrorKind::RateLimited, 429, "slow down")
        .with_retry_after(Duration::from_secs(7));
    let world =
        Arc::new(World::with(ScriptedModel::new([ScriptedReply::fails(busy), ScriptedReply::text("Hi.")])));
    let life = Life::open(MemoryBackend::new(), &world).await;
    let begun = tokio::time::Instant::now();
    let answer = life.conversation.ask("go").await.unwrap().into_text().unwrap();
    format!("{} | {answer} after {}s", told(&life.events().await), begun.elapsed().as_secs())
}

async fn nowhere() -> String {
    let world = Arc::new(World::new([]));
    let life = Life::open(MemoryBackend::new(), &world).await;
    let id = ConversationId::from_key("nowhere");
    let other = Conversation::new(Arc::new(life.core.clone()), id);
    let command = other.submit("go").await.unwrap_err();
    let query = other.snapshot().await.unwrap_err();
    assert!(matches!(query, QueryError::NotFound(_)) && matches!(command, CommandError::NotFound(_)));
    assert_eq!((command.http_status(), query.http_status()), (404, 404));
    format!("{command} | {query}").replace(&id.to_string(), "…")
}

async fn opened_elsewhere() -> String {
    let world = Arc::new(World::new([]));
    let error = Life::builder(InUse, &world).open().await.unwrap_err();
    assert!(matches!(error.problems.first(), Some(BuildProblem::Store(_))));
    format!("{error} | retry {:?}", error.retry())
}

async fn store_trouble(fault: Fault) -> String {
    let world = Arc::new(World::new([]));
    let backend = Arc::new(FaultBackend::new());
    let life = Life::open(backend.clone(), &world).await;
    backend.set_fault(Some(fault));
    let submit = Command::Submit { conversation_id: life.id(), input: NewInput::new("go") };
    let error = life.send("go", submit).await.unwrap_err();
    assert_ne!(error.retry(), Retry::Never);
    backend.set_fault(None);
    life.submit("go").await;
    life.attend(obliging).await;
    assert_eq!(life::ends(&life.events().await), ["completed"]);
    format!("{error}")
}

async fn shows_nothing() -> String {
    let world = Arc::new(World::new([]));
    let life = Life::open(MemoryBackend::new(), &world).await;
    let mut told = Vec::new();
    for text in ["", " \n\t", "\u{200B}\u{FEFF}"] {
        told.push(life.conversation.submit(text).await.unwrap_err().to_string());
    }
    told.dedup();
    told.join(" | ")
}
