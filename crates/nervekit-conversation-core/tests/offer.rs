//! A tool that nobody carries out is data: no model is offered it, and a call of it settles as failed.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "common/life.rs"]
mod life;

use std::sync::Arc;

use async_trait::async_trait;
use nervekit_conversation_core::{MemoryBackend, Resolution};
use nervekit_harness::ScriptedReply;
use nervekit_tools::{
    Availability, HandledBy, Tool, ToolCall, ToolContext, ToolError, ToolExecutor, ToolOutcome, ToolOutput,
    catalog,
};
use serde_json::json;

use self::life::{Life, World};

/// Definitions without an executor, which are not the core's own.
fn definitions() -> Vec<Tool> {
    let core = catalog::core_tools();
    let runs = |tool: &&Tool| tool.executor().is_some() || core.get(tool.definition().name()).is_some();
    catalog::known_tools().iter().filter(|tool| !runs(tool)).cloned().collect()
}

/// Lets a model call a tool where its capability is enabled and everything is allowed. Says whether it was offered, and
/// what came of the call.
async fn call(tool: Tool) -> (bool, String) {
    let name = tool.definition().name().to_owned();
    let Availability::Capability(capability) = tool.definition().availability.clone() else { unreachable!() };
    let folder = tempfile::tempdir().unwrap();
    let world = World::new([ScriptedReply::call_tool(&name, json!({}))]).tool(tool).configured(|config| {
        "autonomous".clone_into(&mut config.rule_set_id);
        config.working_directory = Some(folder.path().to_owned());
    });
    let world = Arc::new(world);
    let builder = Life::builder(MemoryBackend::new(), &world).capability(capability);
    let life = Life::over(builder.open().await.unwrap(), &world).await;
    life.submit("go").await;
    life.attend(|_| Resolution::deny()).await;
    let responses = life.responses().await;
    let told = responses.iter().map(|response| format!("{}: {}", response.outcome, response.agent));
    let offered = world.model.requests().first().unwrap().tools.iter().any(|tool| tool.name == name);
    (offered, told.collect::<Vec<_>>().join(" | "))
}

#[tokio::test(start_paused = true)]
async fn a_tool_without_an_executor_is_not_offered_and_not_available() {
    let definitions = definitions();
    assert_eq!(definitions.len(), 39);
    for tool in definitions {
        let name = tool.definition().name().to_owned();
        let (offered, told) = call(tool).await;
        assert!(!offered, "{name}");
        assert_eq!(told, format!("failed: The tool `{name}` is not available."));
    }
}

#[derive(Debug)]
struct Supplied;

#[async_trait]
impl ToolExecutor for Supplied {
    async fn execute(&self, _: ToolCall, _: ToolContext) -> Result<ToolOutcome, ToolError> {
        Ok(ToolOutput::text("done").into())
    }
}

/// The same tools, with an executor that a host supplies; those of the core once the host says that they are its own.
#[tokio::test(start_paused = true)]
async fn it_is_offered_once_a_host_carries_it_out() {
    for tool in definitions() {
        let name = tool.definition().name().to_owned();
        let (by, tool) = (tool.definition().handled_by, tool.carried_out_by(Supplied));
        let (offered, _) = call(tool.clone()).await;
        assert_eq!(offered, by != HandledBy::Core, "{name}");
        let (offered, told) = call(tool.redefine(|definition| definition.handled_by(HandledBy::Host))).await;
        assert!(offered, "{name}");
        assert!(!told.contains("not available"), "{name}: {told}");
    }
}
