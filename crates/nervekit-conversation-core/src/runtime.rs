//! The runtime: carries commands out, answers queries, lets conversations be followed.

mod actor;
mod builder;
mod core;
mod document;
mod execute;
mod feed;
mod follow;
mod machine;
mod neighbour;
mod offer;
mod plan;
mod projection;
mod propose;
mod query;
mod recovery;
mod request;
mod supervisor;
mod tell;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use nervekit_types::{ConversationId, ProjectId};
use tokio::sync::oneshot;

use self::actor::Message;
use self::core::Inner;
use self::follow::{Follower, WideFollower};
use crate::command::{Command, CommandOutcome, CommandRequest, NewConversation, NewProject, Receipt};
use crate::conversation::{ProjectRecord, Status};
use crate::error::{CommandError, QueryError, Subject};
use crate::port::Conversations;
use crate::query::{Query, View};
use crate::store::{CoreRow, MailboxRow, StoreError};
use crate::update::{Cursor, Scope, Updates};

pub use self::builder::{BuildError, BuildProblem, CoreBuilder};
pub use self::core::RuntimeLimits;
pub use self::machine::RecoveryPolicy;
pub use self::recovery::{RecoveryReport, ShutdownReport};

/// Conversations over a store: a cheap, cloneable handle.
///
/// All work runs on the tokio runtime it was opened in or given; the futures and streams it returns may be polled
/// by any executor. Every command is either not begun or runs to its end: dropping its future drops only the
/// answer.
///
/// ```
/// use nervekit_conversation_core::{
///     Command, CommandOutcome, CommandRequest, ConversationCore, Conversations, MemoryBackend, NewProject,
/// };
/// use nervekit_harness::{ModelRegistry, ScriptedModel, ScriptedReply};
/// use nervekit_permissions::{Roots, RuleEngine};
/// use nervekit_tools::Catalog;
/// use nervekit_types::CommandId;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let models = ModelRegistry::new().register(ScriptedModel::new([ScriptedReply::text("Hello.")]));
/// let core = ConversationCore::builder(MemoryBackend::new(), models, RuleEngine::new(Roots::new()), Catalog::new())
///     .open()
///     .await?;
/// let create = Command::CreateProject(NewProject::new("notes"));
/// let receipt = core.command(CommandRequest::new(CommandId::from_key("1"), create)).await?;
/// assert!(matches!(receipt.outcome, CommandOutcome::ProjectCreated { .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ConversationCore {
    inner: Arc<Inner>,
}

impl ConversationCore {
    /// Recovers what is unfinished, as opening does unless [`CoreBuilder::defer_recovery`] says otherwise, and reports
    /// what it found. Once recovered, there is nothing left to find; what opening found is told by
    /// [`CoreBuilder::open_with_report`].
    ///
    /// ```
    /// # async fn f(core: &nervekit_conversation_core::ConversationCore) {
    /// let report = core.recover().await;
    /// # let _ = report;
    /// # }
    /// ```
    pub async fn recover(&self) -> Result<RecoveryReport, StoreError> {
        // Spawned, so that it runs to its end when the caller drops this future: until then nothing is begun.
        let inner = self.inner.clone();
        let recovered = self.inner.runtime.spawn(async move { recovery::recover(&inner).await });
        recovered.await.unwrap_or_else(|_| Err(StoreError::in_trouble()))
    }

    /// Stops accepting work, tells what runs to end, records what it came to within the deadline, tells the hooks of
    /// it, and gives every lease back. What is not over by then is dropped and left for recovery. Other clones answer
    /// `ShuttingDown` from now on.
    ///
    /// ```
    /// # async fn f(core: nervekit_conversation_core::ConversationCore) {
    /// let report = core.shutdown(std::time::Duration::from_secs(10)).await;
    /// assert_eq!(report.abandoned, 0);
    /// # }
    /// ```
    pub async fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        // Spawned, because the caller's executor need not have tokio's timers.
        let inner = self.inner.clone();
        let closed = self.inner.runtime.spawn(async move { recovery::shutdown(&inner, deadline).await });
        // The tokio runtime itself may be gone; then nothing runs that could be closed.
        closed.await.unwrap_or_default()
    }

    async fn create_project(
        &self,
        request: &CommandRequest,
        new: &NewProject,
    ) -> Result<CommandOutcome, CommandError> {
        let inner = &self.inner;
        let directory = new.directory.as_deref().map(canonical_folder).transpose()?;
        let id = new.id.unwrap_or_else(|| ProjectId::from_key(&request.id.to_string()));
        if let Some(found) = inner.store.project(id).await? {
            let same = found.value.name == new.name && found.value.directory == directory;
            return if same {
                Ok(CommandOutcome::ProjectCreated { project_id: id })
            } else {
                Err(CommandError::AlreadyExists(Subject::Project(id)))
            };
        }
        let now = inner.now();
        let project =
            ProjectRecord { id, name: new.name.clone(), directory, created_at: now, updated_at: now };
        let mut batch = inner.store.batch();
        batch.project(&project, None);
        inner.store.commit(&mut batch).await.map_err(StoreError::from)?;
        Ok(CommandOutcome::ProjectCreated { project_id: id })
    }

    async fn create_conversation(
        &self,
        request: &CommandRequest,
        new: &NewConversation,
    ) -> Result<CommandOutcome, CommandError> {
        let inner = &self.inner;
        let id = new.id.unwrap_or_else(|| ConversationId::from_key(&request.id.to_string()));
        let owner_id = new.owner_id.clone().unwrap_or_else(|| "local".to_owned());
        if let Some(rows) = inner.store.load(id).await? {
            let core = &rows.core.value;
            return if core.project_id == new.project_id && core.owner_id == owner_id {
                Ok(CommandOutcome::ConversationCreated { conversation_id: id })
            } else {
                Err(CommandError::AlreadyExists(Subject::Conversation(id)))
            };
        }
        let Some(project) = inner.store.project(new.project_id).await? else {
            return Err(CommandError::NotFound(Subject::Project(new.project_id)));
        };
        let now = inner.now();
        let core = CoreRow {
            project_id: new.project_id,
            owner_id,
            parent_conversation_id: None,
            parent_tool_call_id: None,
            head: None,
            open_execution: None,
            usage_own: nervekit_harness::Usage::default(),
            status: Status::Idle,
            next_event_sequence: 0,
            chain_hash: crate::store::CHAIN_START,
            revision: 0,
            created_at: now,
            updated_at: now,
        };
        let mailbox = MailboxRow { title: new.title.clone(), ..MailboxRow::default() };
        let mut batch = inner.store.batch();
        batch.create(id, &core, &new.config, &mailbox, project.version);
        inner.store.commit(&mut batch).await.map_err(StoreError::from)?;
        Ok(CommandOutcome::ConversationCreated { conversation_id: id })
    }
}

/// The canonical form of a project's folder.
fn canonical_folder(folder: &Path) -> Result<std::path::PathBuf, CommandError> {
    let canonical = std::fs::canonicalize(folder).map_err(|error| {
        CommandError::invalid(format!("`{}` is not a folder that can be used: {error}", folder.display()))
    })?;
    if canonical.is_dir() {
        Ok(canonical)
    } else {
        Err(CommandError::invalid(format!("`{}` is not a folder", folder.display())))
    }
}

#[async_trait]
impl Conversations for ConversationCore {
    async fn command(&self, request: CommandRequest) -> Result<Receipt, CommandError> {
        if self.inner.is_closing() {
            return Err(CommandError::ShuttingDown);
        }
        let (answer, answered) = oneshot::channel();
        if let Some(id) = request.command.conversation_id() {
            self.inner.send(id, Message::Command { request: Box::new(request), answer });
        } else {
            // Spawned, so that it runs to its end when the caller drops this future.
            let core = self.clone();
            self.inner.runtime.spawn(async move {
                let outcome = match &request.command {
                    Command::CreateProject(new) => core.create_project(&request, new).await,
                    Command::CreateConversation(new) => core.create_conversation(&request, new).await,
                    command => core.inner.decide_document(command).await,
                };
                let receipt = outcome.map(|outcome| Receipt::new(request.id, outcome, Cursor::START));
                // Whoever has the answer may close the store.
                drop(core);
                drop(answer.send(receipt));
            });
        }
        answered.await.unwrap_or(Err(CommandError::ShuttingDown))
    }

    async fn query(&self, query: Query) -> Result<View, QueryError> {
        query::answer(&self.inner, query).await
    }

    async fn follow(&self, scope: Scope, after: Cursor) -> Result<Updates, QueryError> {
        let inner = &self.inner;
        if inner.is_closing() {
            return Err(QueryError::ShuttingDown);
        }
        match scope {
            Scope::Conversation(id) => {
                Ok(Follower::new(inner.store.clone(), id, inner.feed(id), after).await?.updates())
            }
            scope => {
                if after.seen() > inner.store.index_end() {
                    return Err(QueryError::InvalidCursor);
                }
                let changed = inner.committed.subscribe();
                Ok(WideFollower::new(inner.store.clone(), scope, after, changed).updates())
            }
        }
    }
}

/// Lets the tasks act: before, recovery only writes.
fn open_gate(inner: &Arc<Inner>) {
    inner.gate.store(true, Ordering::SeqCst);
    let actors: Vec<ConversationId> = inner.running_ids();
    for id in actors {
        inner.send(id, Message::Wake);
    }
}
