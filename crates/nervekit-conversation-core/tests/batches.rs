//! How many atomic writes a turn costs, and that the lease rides in its first and last one.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nervekit_conversation_core::{
    Backend, BackendError, BackendFacts, Change, CommitNumber, Conversation, ConversationConfig,
    ConversationCore, Maintenance, MaintenanceReport, MemoryBackend, NewProject, Project, Range, Refused,
    Row, Table, Update, WriteSet,
};
use nervekit_harness::{ModelRegistry, ScriptedModel, ScriptedReply};
use nervekit_permissions::{Risk, Roots, RuleEngine};
use nervekit_tools::{Catalog, Tool, ToolContext};
use nervekit_types::{BatchId, Timestamp};
use serde_json::json;

/// The tables that a batch writes to, and whether it changes or only checks them.
type Writes = Vec<(&'static str, bool)>;

/// Remembers the changes of every set that took effect.
#[derive(Clone, Debug, Default)]
struct CountingBackend {
    inner: Arc<MemoryBackend>,
    applied: Arc<Mutex<Vec<Writes>>>,
}

impl CountingBackend {
    /// Forgets what was counted so far.
    fn reset(&self) {
        self.applied.lock().unwrap().clear();
    }

    /// The tables that each batch changed; those it only checked are left out.
    fn batches(&self) -> Vec<Vec<&'static str>> {
        let applied = self.applied.lock().unwrap();
        let changed =
            |batch: &Writes| batch.iter().filter(|(_, changed)| *changed).map(|(table, _)| *table).collect();
        applied.iter().map(changed).collect()
    }
}

#[async_trait]
impl Backend for CountingBackend {
    async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
        let tables = |set: &WriteSet| -> Writes {
            set.writes.iter().map(|write| (write.table.name(), write.change != Change::Keep)).collect()
        };
        let asked: Vec<_> = sets.iter().map(tables).collect();
        let answers = self.inner.write(sets).await?;
        let taken = asked.into_iter().zip(&answers).filter(|(_, answer)| answer.is_ok());
        self.applied.lock().unwrap().extend(taken.map(|(tables, _)| tables));
        Ok(answers)
    }

    async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError> {
        self.inner.applied(id).await
    }

    async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
        self.inner.get(table, key).await
    }

    async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
        self.inner.range(ranges).await
    }

    async fn now(&self) -> Result<Timestamp, BackendError> {
        self.inner.now().await
    }

    async fn maintain(&self, job: Maintenance) -> Result<MaintenanceReport, BackendError> {
        self.inner.maintain(job).await
    }

    fn facts(&self) -> BackendFacts {
        self.inner.facts()
    }
}

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Key {
    key: String,
}

/// A tool that is allowed and may be repeated, one that is allowed and may not, one that asks, one of the core's.
fn catalog() -> Catalog {
    let answer = |args: Key, _: ToolContext| async move { Ok(args.key) };
    Catalog::new()
        .with(
            Tool::function("look", "Looks something up.", answer)
                .reviewed(Risk::Read)
                .parallel()
                .replay_safe(),
        )
        .with(Tool::function("count", "Counts up.", answer).reviewed(Risk::Read))
        .with(Tool::function("send", "Sends something.", answer).reviewed(Risk::Network))
        .with(nervekit_tools::catalog::todos_get())
}

async fn idle(replies: impl IntoIterator<Item = ScriptedReply>) -> (CountingBackend, Conversation) {
    let backend = CountingBackend::default();
    let models = ModelRegistry::new().register(ScriptedModel::new(replies));
    let engine = RuleEngine::new(Roots::new());
    let core = ConversationCore::builder(backend.clone(), models, engine, catalog()).open().await.unwrap();
    let project = Project::create(Arc::new(core), NewProject::new("p")).await.unwrap();
    let config = ConversationConfig::new("demo/scripted".parse().unwrap());
    let conversation = project.converse(config).await.unwrap();
    backend.reset();
    (backend, conversation)
}

/// Runs a prompt and returns what each batch changed.
async fn batches_of(replies: impl IntoIterator<Item = ScriptedReply>) -> Vec<Vec<&'static str>> {
    let (backend, conversation) = idle(replies).await;
    conversation.ask("Go.").await.unwrap().into_text().unwrap();
    backend.batches()
}

fn leases(batches: &[Vec<&'static str>]) -> Vec<bool> {
    batches.iter().map(|batch| batch.contains(&"leases")).collect()
}

#[tokio::test]
async fn an_answer_without_calls_costs_two_batches() {
    let batches = batches_of([ScriptedReply::text("Done.")]).await;
    assert_eq!(batches.len(), 2, "{batches:?}");
    assert_eq!(leases(&batches), [true, true], "taken with the first, given back with the last");
}

#[tokio::test]
async fn a_turn_with_one_allowed_replay_safe_call_costs_four_batches() {
    let batches =
        batches_of([ScriptedReply::call_tool("look", json!({"key": "a"})), ScriptedReply::text("Done.")])
            .await;
    assert_eq!(batches.len(), 4, "{batches:?}");
    let [accepted, proposed, settled, ended] = &batches[..] else { panic!("{batches:?}") };
    // Accept, deliver, start: the input is never on the queue.
    assert_eq!(accepted.iter().filter(|table| **table == "events").count(), 2);
    assert!(!accepted.contains(&"queue") && accepted.contains(&"fates") && accepted.contains(&"unfinished"));
    // Message, row and claim.
    assert!(proposed.contains(&"events") && proposed.contains(&"calls"));
    // Settle.
    assert!(settled.contains(&"events") && settled.contains(&"calls"));
    // Final message and the end.
    assert_eq!(ended.iter().filter(|table| **table == "events").count(), 2);
    assert!(ended.contains(&"unfinished"));
    assert_eq!(leases(&batches), [true, false, false, true]);
}

#[tokio::test]
async fn each_further_round_costs_two_batches() {
    for rounds in [1, 2, 7] {
        let calls = (0..rounds).map(|n| ScriptedReply::call_tool("look", json!({"key": n.to_string()})));
        let batches = batches_of(calls.chain([ScriptedReply::text("Done.")])).await;
        assert_eq!(batches.len(), 2 + 2 * rounds, "{batches:?}");
        assert_eq!(leases(&batches).iter().filter(|held| **held).count(), 2);
    }
}

#[tokio::test]
async fn several_calls_of_one_message_cost_one_batch_each_to_settle() {
    let message =
        (0..5).fold(ScriptedReply::new(), |reply, n| reply.call("look", json!({"key": n.to_string()})));
    let batches = batches_of([message, ScriptedReply::text("Done.")]).await;
    assert_eq!(batches.len(), 1 + 1 + 5 + 1, "{batches:?}");
}

#[tokio::test]
async fn a_call_that_may_not_be_repeated_is_claimed_in_a_batch_of_its_own() {
    let batches =
        batches_of([ScriptedReply::call_tool("count", json!({"key": "a"})), ScriptedReply::text("Done.")])
            .await;
    assert_eq!(batches.len(), 5, "{batches:?}");
    assert_eq!(leases(&batches), [true, false, false, false, true]);
}

#[tokio::test]
async fn a_core_tool_takes_effect_in_the_batch_of_its_message() {
    let batches =
        batches_of([ScriptedReply::call_tool("todos_get", json!({})), ScriptedReply::text("Done.")]).await;
    assert_eq!(batches.len(), 3, "{batches:?}");
}

#[tokio::test]
async fn an_approval_gives_the_lease_back_while_a_person_is_waited_for() {
    let (backend, conversation) =
        idle([ScriptedReply::call_tool("send", json!({"key": "a"})), ScriptedReply::text("Done.")]).await;
    conversation.submit("Go.").await.unwrap();
    let mut updates = conversation.updates().await.unwrap();
    while let Some(update) = updates.next().await {
        match update.unwrap() {
            Update::Interaction(shown) => drop(conversation.approve(&shown).await.unwrap()),
            Update::Finished(outcome) => {
                outcome.into_text().unwrap();
                break;
            }
            _ => {}
        }
    }
    let batches = backend.batches();
    // Accept; message and waiting; approval; claim; settle; end.
    assert_eq!(batches.len(), 6, "{batches:?}");
    assert_eq!(leases(&batches), [true, true, true, false, false, true]);
}
