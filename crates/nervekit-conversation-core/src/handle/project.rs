//! A project.

use std::path::PathBuf;
use std::sync::Arc;

use nervekit_types::{CommandId, IdSource, ProjectId, SystemIds};

use super::Conversation;
use super::policy::PolicyHandle;
use crate::command::{Command, CommandOutcome, CommandRequest, NewConversation, NewProject, PolicyOwner};
use crate::conversation::ConversationConfig;
use crate::error::{CommandError, QueryError};
use crate::port::Conversations;
use crate::update::{Cursor, Scope, Updates};

/// A project, and the API it is reached by.
///
/// ```
/// use std::sync::Arc;
/// use nervekit_conversation_core::{CommandError, Conversation, ConversationConfig, Conversations, NewProject, Project};
///
/// async fn start(core: Arc<dyn Conversations>) -> Result<Conversation, Box<dyn std::error::Error>> {
///     let project = Project::create(core, NewProject::new("site").directory("/srv/site")).await?;
///     Ok(project.converse(ConversationConfig::new("demo/demo".parse()?)).await?)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Project {
    api: Arc<dyn Conversations>,
    ids: Arc<dyn IdSource>,
    id: ProjectId,
}

impl Project {
    /// The project with this id.
    #[must_use]
    pub fn new(api: Arc<dyn Conversations>, id: ProjectId) -> Self {
        Self { api, ids: Arc::new(SystemIds::default()), id }
    }

    /// Creates a project; one with the same id and content is found again.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use nervekit_conversation_core::{CommandError, Conversations, NewProject, Project};
    /// async fn create(core: Arc<dyn Conversations>) -> Result<Project, CommandError> {
    ///     Project::create(core, NewProject::new("notes")).await
    /// }
    /// ```
    pub async fn create(api: Arc<dyn Conversations>, new: NewProject) -> Result<Self, CommandError> {
        let ids: Arc<dyn IdSource> = Arc::new(SystemIds::default());
        let request = CommandRequest::new(CommandId::next(&ids), Command::CreateProject(new));
        match api.command(request).await?.outcome {
            CommandOutcome::ProjectCreated { project_id } => Ok(Self { api, ids, id: project_id }),
            other => Err(CommandError::invalid(format!("the command was answered with `{}`", other.kind()))),
        }
    }

    /// The project of a folder: its id is derived from the canonical path, so that the same folder always is the
    /// same project.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use nervekit_conversation_core::{CommandError, Conversations, Project};
    /// async fn here(core: Arc<dyn Conversations>) -> Result<Project, CommandError> {
    ///     Project::at(core, ".").await
    /// }
    /// ```
    pub async fn at(
        api: Arc<dyn Conversations>,
        folder: impl Into<PathBuf> + Send,
    ) -> Result<Self, CommandError> {
        let folder = folder.into();
        let canonical = std::fs::canonicalize(&folder).map_err(|error| {
            CommandError::invalid(format!("`{}` is not a folder that can be used: {error}", folder.display()))
        })?;
        let name =
            canonical.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned());
        let id = ProjectId::from_key(&canonical.to_string_lossy());
        Self::create(api, NewProject::new(name).id(id).directory(canonical)).await
    }

    /// Its id.
    ///
    /// ```
    /// # use nervekit_conversation_core::Project;
    /// fn link(project: &Project) -> String {
    ///     format!("/projects/{}", project.id())
    /// }
    /// ```
    #[must_use]
    pub const fn id(&self) -> ProjectId {
        self.id
    }

    /// Creates a conversation with these settings.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, Conversation, ConversationConfig, Project};
    /// async fn start(project: &Project, config: ConversationConfig) -> Result<Conversation, CommandError> {
    ///     project.converse(config).await
    /// }
    /// ```
    pub async fn converse(&self, config: ConversationConfig) -> Result<Conversation, CommandError> {
        self.create_conversation(NewConversation::new(self.id, config)).await
    }

    /// Creates a conversation.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, Conversation, NewConversation, Project};
    /// async fn start(project: &Project, new: NewConversation) -> Result<Conversation, CommandError> {
    ///     project.create_conversation(new).await
    /// }
    /// ```
    pub async fn create_conversation(&self, new: NewConversation) -> Result<Conversation, CommandError> {
        let command = Command::CreateConversation(Box::new(new));
        let request = CommandRequest::new(CommandId::next(&self.ids), command);
        match self.api.command(request).await?.outcome {
            CommandOutcome::ConversationCreated { conversation_id } => {
                Ok(Conversation::new(self.api.clone(), conversation_id))
            }
            other => Err(CommandError::invalid(format!("the command was answered with `{}`", other.kind()))),
        }
    }

    /// The project's document with permission rules, which counts when a version of it is accepted.
    ///
    /// ```
    /// # use nervekit_conversation_core::Project;
    /// async fn shown(project: &Project) -> Result<String, Box<dyn std::error::Error>> {
    ///     let status = project.policy().status().await?;
    ///     let automatic: Vec<&str> = status.automatic.iter().map(|rule| &*rule.summary).collect();
    ///     Ok(format!("{} is {}; without asking: {}", status.place, status.standing, automatic.join(", ")))
    /// }
    /// ```
    #[must_use]
    pub fn policy(&self) -> PolicyHandle {
        PolicyHandle::new(self.api.clone(), PolicyOwner::Project(self.id))
    }

    /// Follows all its conversations: durable facts from a cursor, then live.
    ///
    /// ```
    /// # use nervekit_conversation_core::{Cursor, Project, QueryError, Updates};
    /// async fn inbox(project: &Project) -> Result<Updates, QueryError> {
    ///     project.follow(Cursor::START).await
    /// }
    /// ```
    pub async fn follow(&self, after: Cursor) -> Result<Updates, QueryError> {
        self.api.follow(Scope::Project(self.id), after).await
    }
}
