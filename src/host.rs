//! A host: a core with a default for every port.

mod builder;
mod feature;
mod folder;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nervekit_conversation_core::{
    CommandError, Conversation, ConversationConfig, ConversationCore, ConversationRecord, Conversations,
    Cursor, Interaction, NewConversation, NewInput, NewProject, Outcome, Page, PolicyHandle, PolicyOwner,
    Project, Query, QueryError, RecoveryReport, Scope, ShutdownReport, Updates, View,
};
use nervekit_types::{ConversationId, ProjectId};

use crate::error::Error;

pub use builder::HostBuilder;
pub use folder::Folders;

/// Conversations on this machine, ready to use: a store, models, tools and permissions, wired up. One process opens one
/// host and clones it wherever it is needed.
///
/// [`Host::local`] or [`Host::in_memory`] begins; [`HostBuilder`] has everything that can be set. What a conversation
/// does is told step by step in [`conversation`](crate::conversation).
///
/// ```
/// use nervekit::Host;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), nervekit::Error> {
/// # let home = tempfile::tempdir()?; let project = tempfile::tempdir()?;
/// # std::fs::write(project.path().join("a.txt"), "TODO: water the plants\n")?;
/// let host = Host::local().home(home.path()).project(project.path()).model("demo").open().await?;
/// let outcome = host.ask("Which TODOs are left in this folder?").await?;
/// assert!(outcome.into_text()?.contains("water the plants"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Host {
    core: ConversationCore,
    api: Arc<dyn Conversations>,
    project: Project,
    config: ConversationConfig,
    home: Option<PathBuf>,
    recovery: Arc<RecoveryReport>,
}

impl Host {
    /// A host that keeps conversations in the home folder (`$NERVE_HOME`, else `~/.nerve`) and works on this machine.
    ///
    /// ```
    /// let builder = nervekit::Host::local().project(".").model("openai/gpt-5");
    /// # let _ = builder;
    /// ```
    pub fn local() -> HostBuilder {
        HostBuilder::local()
    }

    /// A host that keeps nothing beyond its life, and touches no home folder.
    ///
    /// ```
    /// let builder = nervekit::Host::in_memory().model("demo").unattended();
    /// # let _ = builder;
    /// ```
    pub fn in_memory() -> HostBuilder {
        HostBuilder::in_memory()
    }

    /// What was unfinished when the host was opened, and what became of it.
    ///
    /// ```
    /// fn badge(host: &nervekit::Host) -> usize {
    ///     host.recovery().waiting.len()
    /// }
    /// ```
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// The whole API as data, for a route, a recorder, or handles of one's own.
    ///
    /// ```
    /// use nervekit::conversation::Conversations;
    /// fn api(host: &nervekit::Host) -> std::sync::Arc<dyn Conversations> {
    ///     host.api()
    /// }
    /// ```
    #[must_use]
    pub fn api(&self) -> Arc<dyn Conversations> {
        self.api.clone()
    }

    /// The settings of conversations that [`start`](Self::start) creates.
    ///
    /// ```
    /// fn model(host: &nervekit::Host) -> String {
    ///     host.config().model.to_string()
    /// }
    /// ```
    #[must_use]
    pub const fn config(&self) -> &ConversationConfig {
        &self.config
    }

    /// The folder that conversations are kept below, unless they are kept in memory or in a backend of the host's.
    ///
    /// Tools are kept away from its subfolder `data`, by rules that only a person can set aside.
    ///
    /// ```
    /// use std::path::PathBuf;
    /// fn secrets(host: &nervekit::Host) -> Option<PathBuf> {
    ///     Some(host.home()?.join("data/session.secret"))
    /// }
    /// ```
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The project that [`start`](Self::start) works in; without a folder if none was given.
    ///
    /// ```
    /// async fn second(host: &nervekit::Host) -> Result<nervekit::Conversation, nervekit::Error> {
    ///     Ok(host.project().converse(host.config().clone()).await?)
    /// }
    /// ```
    #[must_use]
    pub const fn project(&self) -> &Project {
        &self.project
    }

    /// The user's document with permission rules, `config/permissions.json` of the home. After it was edited by hand it
    /// restricts at once, and allows when the new version is accepted.
    ///
    /// ```
    /// use nervekit::permissions::Standing;
    /// async fn accept(host: &nervekit::Host) -> Result<(), nervekit::Error> {
    ///     let status = host.policy().status().await?;
    ///     if let (Standing::Changed, Some(digest)) = (status.standing, status.digest) {
    ///         // A person has seen `status.automatic` and `status.added` before.
    ///         host.policy().trust(digest).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn policy(&self) -> PolicyHandle {
        PolicyHandle::new(self.api.clone(), PolicyOwner::User)
    }

    /// The project of another folder.
    ///
    /// ```
    /// async fn other(host: &nervekit::Host) -> Result<nervekit::Project, nervekit::Error> {
    ///     host.project_at("/srv/site").await
    /// }
    /// ```
    pub async fn project_at(&self, folder: impl AsRef<Path> + Send) -> Result<Project, Error> {
        Ok(Project::at(self.api.clone(), folder.as_ref()).await?)
    }

    /// The conversation with this id: all that resuming needs.
    ///
    /// ```
    /// use nervekit::types::ConversationId;
    /// async fn resume(host: &nervekit::Host, id: ConversationId) -> Result<(), nervekit::Error> {
    ///     host.conversation(id).continue_processing().await?;
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn conversation(&self, id: ConversationId) -> Conversation {
        Conversation::new(self.api.clone(), id)
    }

    /// Creates a conversation with a first prompt, and returns when that is stored; the work goes on behind.
    /// [`Conversation::updates`] shows it, [`Conversation::finished`] waits for it.
    ///
    /// ```
    /// async fn start(host: &nervekit::Host) -> Result<nervekit::Conversation, nervekit::Error> {
    ///     host.start("Which TODOs are left in this folder?").await
    /// }
    /// ```
    pub async fn start(&self, input: impl Into<NewInput> + Send) -> Result<Conversation, Error> {
        let conversation = self.create(None).await?;
        conversation.submit(input).await?;
        Ok(conversation)
    }

    /// Creates a conversation without input, with a title.
    ///
    /// ```
    /// async fn create(host: &nervekit::Host) -> Result<nervekit::Conversation, nervekit::Error> {
    ///     host.create(Some("Fix the build".to_owned())).await
    /// }
    /// ```
    pub async fn create(&self, title: Option<String>) -> Result<Conversation, Error> {
        let mut new = NewConversation::new(self.project.id(), self.config.clone());
        if let Some(title) = title {
            new = new.title(title);
        }
        Ok(self.project.create_conversation(new).await?)
    }

    /// Asks once, in a conversation of its own, and waits for the outcome.
    ///
    /// ```
    /// async fn ask(host: &nervekit::Host) -> Result<String, nervekit::Error> {
    ///     Ok(host.ask("Which TODOs are left?").await?.into_text()?)
    /// }
    /// ```
    pub async fn ask(&self, input: impl Into<NewInput> + Send) -> Result<Outcome, Error> {
        Ok(self.create(None).await?.ask(input).await?)
    }

    /// What a person is asked, in all conversations: the inbox.
    ///
    /// ```
    /// async fn count(host: &nervekit::Host) -> Result<usize, nervekit::Error> {
    ///     Ok(host.interactions().await?.len())
    /// }
    /// ```
    pub async fn interactions(&self) -> Result<Vec<Interaction>, Error> {
        Ok(nervekit_conversation_core::interactions(&*self.api).await?)
    }

    /// Conversations, newest first, of all projects.
    ///
    /// ```
    /// use nervekit::conversation::Page;
    /// async fn newest(host: &nervekit::Host) -> Result<usize, nervekit::Error> {
    ///     Ok(host.conversations(Page::new(20)).await?.len())
    /// }
    /// ```
    pub async fn conversations(&self, page: Page) -> Result<Vec<ConversationRecord>, Error> {
        let query = Query::Conversations { project_id: None, page, before: None };
        match self.api.query(query).await? {
            View::Conversations(conversations) => Ok(conversations),
            other => Err(Error::Query(QueryError::OtherView { kind: other.kind() })),
        }
    }

    /// Follows all conversations: durable facts from a cursor, then live.
    ///
    /// ```
    /// use nervekit::Cursor;
    /// async fn all(host: &nervekit::Host) -> Result<nervekit::Updates, nervekit::Error> {
    ///     host.follow(Cursor::START).await
    /// }
    /// ```
    pub async fn follow(&self, after: Cursor) -> Result<Updates, Error> {
        Ok(self.api.follow(Scope::Everything, after).await?)
    }

    /// Stops accepting work, ends what runs, records what it came to, and gives the store back.
    ///
    /// ```
    /// async fn leave(host: nervekit::Host) {
    ///     let report = host.shutdown(std::time::Duration::from_secs(10)).await;
    ///     assert_eq!(report.abandoned, 0);
    /// }
    /// ```
    pub async fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        self.core.shutdown(deadline).await
    }
}

/// The project of a host that was given no folder.
async fn project_without_folder(api: Arc<dyn Conversations>) -> Result<Project, CommandError> {
    let id = ProjectId::from_key("nervekit: no folder");
    Project::create(api, NewProject::new("no folder").id(id)).await
}
