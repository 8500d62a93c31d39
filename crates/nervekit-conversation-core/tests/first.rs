#![expect(clippy::unwrap_used, reason = "a test")]
use nervekit_conversation_core::*;
use nervekit_harness::{ModelRegistry, ScriptedModel, ScriptedReply};
use nervekit_permissions::{Roots, RuleEngine};
use nervekit_tools::{Catalog, Tool, ToolContext};
use serde_json::json;
use std::sync::Arc;

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn catalog() -> Catalog {
    Catalog::new().with(Tool::function("add", "Adds.", |args: Add, _context: ToolContext| async move {
        Ok(format!("{}", args.a + args.b))
    }))
}

#[tokio::test]
async fn text_only() {
    let models = ModelRegistry::new().register(ScriptedModel::new([ScriptedReply::text("Hello.")]));
    let core = ConversationCore::builder(
        MemoryBackend::new(),
        models,
        RuleEngine::new(Roots::new()),
        Catalog::new(),
    )
    .open()
    .await
    .unwrap();
    let api: Arc<dyn Conversations> = Arc::new(core);
    let project = Project::create(api.clone(), NewProject::new("p")).await.unwrap();
    let conversation =
        project.converse(ConversationConfig::new("demo/scripted".parse().unwrap())).await.unwrap();
    let outcome = conversation.ask("hi").await.unwrap();
    assert_eq!(outcome.into_text().unwrap(), "Hello.");
    for e in conversation.events_since(Cursor::START, Page::default()).await.unwrap().events {
        println!("{} {:?}", e.sequence, e.payload);
    }
}

#[tokio::test]
async fn approval() {
    let models = ModelRegistry::new().register(ScriptedModel::new([
        ScriptedReply::call_tool("add", json!({"a": 1, "b": 2})),
        ScriptedReply::text("3."),
    ]));
    let core =
        ConversationCore::builder(MemoryBackend::new(), models, RuleEngine::new(Roots::new()), catalog())
            .open()
            .await
            .unwrap();
    let api: Arc<dyn Conversations> = Arc::new(core);
    let project = Project::create(api.clone(), NewProject::new("p")).await.unwrap();
    let conversation =
        project.converse(ConversationConfig::new("demo/scripted".parse().unwrap())).await.unwrap();
    conversation.submit("hi").await.unwrap();
    let mut updates = conversation.updates().await.unwrap();
    while let Some(update) = updates.next().await {
        let update = update.unwrap();
        println!("{}", update.plain());
        match update {
            Update::Interaction(i) => {
                println!("{}", i.display());
                conversation.approve(&i).await.unwrap();
            }
            Update::Finished(o) => {
                assert_eq!(o.into_text().unwrap(), "3.");
                break;
            }
            _ => {}
        }
    }
}
