//! A build farm: commands run on its machines, rules, roles and prompts come from the company's own places.
//!
//! Shows the ports that a host replaces first, each in a small and complete form: `Model`, `TurnResources`, `Profiles`,
//! `Documents`, `SearchBackend`, and in `own_ports/farm.rs` `Processes` and `Process`. What each must hold is in its
//! documentation. All other ports are replaced in the package `outsider`.

#[path = "own_ports/farm.rs"]
mod farm;

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt as _, stream};
use nervekit::conversation::{
    NewConversation, Profile, Profiles, ResourceError, Resources, TurnRequest, TurnResources,
};
use nervekit::harness::{
    AssistantMessage, Message, Model, ModelEvent, ModelInfo, ModelRequest, ModelStream, ToolCall,
};
use nervekit::permissions::{
    DocumentError, DocumentId, DocumentOwner, DocumentScope, DocumentState, Documents, PolicyDocument, Risk,
    Roots, RuleEngine, StoredDocument, Trust,
};
use nervekit::tools::{FunctionTool, Json, SearchBackend, SearchError, SearchHit, catalog};
use nervekit::types::{ConversationId, Digest};
use nervekit::{Host, Tool, ToolContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Looks the build up, runs it, and reports: worked out from the request alone.
#[derive(Debug)]
struct Foreman(ModelInfo);

impl Model for Foreman {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: Arc<ModelRequest>) -> ModelStream {
        let call = |tool, arguments| AssistantMessage::new(vec![ToolCall::new(tool, tool, arguments).into()]);
        let answer = match request.messages.last() {
            Some(Message::ToolResult(found)) if found.tool_name == "search" => {
                call("bash", json!({"command": "make test"}))
            }
            Some(Message::ToolResult(ran)) if ran.is_error => {
                AssistantMessage::text("The build did not run.")
            }
            Some(Message::ToolResult(_)) => AssistantMessage::text("The build ran, as the wiki says."),
            _ => call("search", json!({"query": "nightly"})),
        };
        stream::iter([Ok(ModelEvent::Finished(answer))]).boxed()
    }
}

/// The company's wiki: what agents are told, and what they can look up.
#[derive(Debug)]
struct Wiki;

#[async_trait]
impl TurnResources for Wiki {
    async fn resolve(&self, request: &TurnRequest) -> Result<Resources, ResourceError> {
        // The same request gives the same bytes, so that a provider can cache them.
        let role = request.config.system_prompt.as_deref().unwrap_or("You help.");
        Ok(Resources::new(role).context("wiki/house-rules", "Builds run on the farm, never elsewhere."))
    }
}

#[async_trait]
impl SearchBackend for Wiki {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, SearchError> {
        let page = SearchHit::new("The nightly build", "https://wiki.example/nightly").excerpt("`make test`");
        Ok([page].into_iter().filter(|page| page.title.contains(query)).take(limit).collect())
    }
}

/// Who an agent can be.
#[derive(Debug)]
struct Roles;

#[async_trait]
impl Profiles for Roles {
    async fn profiles(&self, _lead: ConversationId) -> Result<Vec<Profile>, DocumentError> {
        let builder = Profile::new("builder", "Builder", "Runs builds and says how they went.", "supervised");
        Ok(vec![builder.system_prompt("You run the nightly build.")])
    }
}

/// The directory of the company, which alone says what is allowed. Nobody writes there through an agent.
#[derive(Debug)]
struct Directory;

impl Directory {
    const RULES: &[u8] = br#"{"schemaVersion": 2, "overlays": [{"ruleSetId": "supervised", "rules": [
        {"id": "farm.make", "decision": "allow", "when": {"toolNames": ["bash"], "commandPrefix": ["make"]}}]}]}"#;
}

#[async_trait]
impl Documents for Directory {
    async fn read(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
        Ok(self.look(id))
    }

    fn look(&self, id: &DocumentId) -> Arc<DocumentState> {
        let state = DocumentState::new("the directory of the company");
        if id.name != "permissions" {
            return Arc::new(state);
        }
        let rules = StoredDocument::new(Self::RULES).trust(Trust::Trusted);
        Arc::new(state.current(rules.clone()).last_accepted(rules))
    }

    async fn replace(&self, _: &DocumentId, _: Option<Digest>, _: &[u8]) -> Result<Digest, DocumentError> {
        Err(DocumentError::Unsupported)
    }

    async fn trust(&self, _: &DocumentId, _: Digest) -> Result<(), DocumentError> {
        Err(DocumentError::Unsupported)
    }

    async fn reject(&self, _: &DocumentId, _: Digest) -> Result<(), DocumentError> {
        Err(DocumentError::Unsupported)
    }

    async fn forget(&self, _: &DocumentId) -> Result<(), DocumentError> {
        Err(DocumentError::Unsupported)
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Search {
    query: String,
}

fn search(wiki: Arc<dyn SearchBackend>) -> FunctionTool<Search> {
    Tool::function("search", "Searches the wiki.", move |args: Search, _: ToolContext| {
        let wiki = wiki.clone();
        async move { Ok(Json(wiki.search(&args.query, 5).await?)) }
    })
    .reviewed(Risk::Read)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::current_dir()?.canonicalize()?;
    let rules = Directory.read(&DocumentId::permissions(DocumentOwner::User(None))).await?;
    let rules = PolicyDocument::parse(
        DocumentScope::User,
        &rules.current.as_ref().ok_or("the directory has no rules")?.bytes,
    )?;
    let host = Host::in_memory()
        .project(&folder)
        .without_local_tools()
        .tool(catalog::bash())
        .tool(search(Arc::new(Wiki)))
        .model(Foreman(ModelInfo::new("farm", "foreman")))
        .processes(farm::Farm)
        .resources(Wiki)
        .permissions(RuleEngine::new(Roots::new().project(&folder)).user_document(rules))
        .unattended()
        .open()
        .await?;
    let lead = ConversationId::from_key("nightly");
    let role = Roles.profiles(lead).await?.into_iter().next().ok_or("there is no role")?;
    let mut config = host.config().clone();
    (config.rule_set_id, config.system_prompt) = (role.rule_set, role.system_prompt);
    let new = NewConversation::new(host.project().id(), config).id(lead).title(role.name);
    let outcome = host.project().create_conversation(new).await?.ask("Run the nightly build.").await?;
    println!("{}", outcome.into_text()?);
    Ok(())
}
