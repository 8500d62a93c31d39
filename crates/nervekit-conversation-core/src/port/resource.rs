use std::error::Error;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use nervekit_types::{ConversationId, TurnId};

use super::forward;
use crate::conversation::{ConversationConfig, ProjectRecord};

/// What a turn needs resources for.
///
/// ```
/// use nervekit_conversation_core::TurnRequest;
/// fn folder(request: &TurnRequest) -> Option<&std::path::Path> {
///     request.working_directory.as_deref()
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TurnRequest {
    /// The conversation.
    pub conversation_id: ConversationId,
    /// The turn.
    pub turn_id: TurnId,
    /// The settings of the turn.
    pub config: Arc<ConversationConfig>,
    /// The project.
    pub project: Arc<ProjectRecord>,
    /// The folder relative paths start from.
    pub working_directory: Option<PathBuf>,
    /// The tools that exist now, by name.
    pub tools: Vec<String>,
}

impl TurnRequest {
    /// A request; the core makes these, and a test of a port may.
    ///
    /// ```
    /// use nervekit_conversation_core::{ConversationConfig, ProjectRecord, TurnRequest};
    /// use nervekit_types::{ConversationId, TurnId};
    /// fn request(project: ProjectRecord, config: ConversationConfig) -> TurnRequest {
    ///     TurnRequest::new(ConversationId::from_key("a"), TurnId::from_key("t"), config, project)
    /// }
    /// ```
    #[must_use]
    pub fn new(
        conversation_id: ConversationId,
        turn_id: TurnId,
        config: impl Into<Arc<ConversationConfig>>,
        project: impl Into<Arc<ProjectRecord>>,
    ) -> Self {
        let (config, project) = (config.into(), project.into());
        let working_directory = config.working_directory.clone().or_else(|| project.directory.clone());
        Self { conversation_id, turn_id, config, project, working_directory, tools: Vec::new() }
    }

    /// Says which tools exist now.
    #[must_use]
    pub fn tools(mut self, tools: Vec<String>) -> Self {
        self.tools = tools;
        self
    }
}

/// What a turn is made with.
///
/// ```
/// use nervekit_conversation_core::Resources;
/// let resources = Resources::new("You are a careful engineer.").context("AGENTS.md", "Run the tests.");
/// assert_eq!(resources.context.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resources {
    /// The system prompt.
    pub system_prompt: String,
    /// Labelled context that goes before the history as a user message, never into the system prompt: label and
    /// text.
    pub context: Vec<(String, String)>,
    /// If present, only these tools are offered.
    pub tools: Option<Vec<String>>,
}

impl Resources {
    /// A system prompt, no context, every tool.
    #[must_use]
    pub fn new(system_prompt: impl Into<String>) -> Self {
        Self { system_prompt: system_prompt.into(), context: Vec::new(), tools: None }
    }

    /// Adds labelled context.
    #[must_use]
    pub fn context(mut self, label: impl Into<String>, text: impl Into<String>) -> Self {
        self.context.push((label.into(), text.into()));
        self
    }

    /// Offers only these tools.
    #[must_use]
    pub fn tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }
}

/// Why a turn's resources could not be had; the execution ends as failed with these words.
///
/// ```
/// use nervekit_conversation_core::ResourceError;
/// assert_eq!(ResourceError::new("`SYSTEM.md` is larger than 1 MiB").to_string(), "`SYSTEM.md` is larger than 1 MiB");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ResourceError {
    message: Box<str>,
    #[source]
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ResourceError {
    /// What was wrong, and what would work.
    #[must_use]
    pub fn new(message: impl Into<Box<str>>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// Keeps the error behind it.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// Gives a turn its system prompt, its context and its choice of tools.
///
/// **Contract.** The same request gives the same bytes as long as nothing outside changed: providers cache by
/// prefix. Called once a turn, before the request is first made.
///
/// ```
/// use async_trait::async_trait;
/// use nervekit_conversation_core::{ResourceError, Resources, TurnRequest, TurnResources};
///
/// #[derive(Debug)]
/// struct Polite;
///
/// #[async_trait]
/// impl TurnResources for Polite {
///     async fn resolve(&self, request: &TurnRequest) -> Result<Resources, ResourceError> {
///         Ok(Resources::new(format!("You help with {}. Be polite.", request.project.name)))
///     }
/// }
/// ```
#[async_trait]
pub trait TurnResources: Debug + Send + Sync + 'static {
    /// The resources of a turn.
    async fn resolve(&self, request: &TurnRequest) -> Result<Resources, ResourceError>;
}

forward!(TurnResources {
    fn resolve(&self, request: &TurnRequest) -> Result<Resources, ResourceError>;
});

/// The same resources for every turn.
///
/// ```
/// use nervekit_conversation_core::{FixedResources, Resources};
/// let resources = FixedResources::new(Resources::new("You answer in one sentence."));
/// # let _ = resources;
/// ```
#[derive(Clone, Debug)]
pub struct FixedResources(Resources);

impl FixedResources {
    /// These resources.
    #[must_use]
    pub const fn new(resources: Resources) -> Self {
        Self(resources)
    }
}

impl Default for FixedResources {
    /// A short system prompt that names no task.
    fn default() -> Self {
        Self(Resources::new(
            "You are an assistant that works with tools. Use them to find out what is true before you answer, \
             and say plainly what you did and what you could not do. When a tool call is denied, do not try to \
             get around it.",
        ))
    }
}

#[async_trait]
impl TurnResources for FixedResources {
    async fn resolve(&self, _request: &TurnRequest) -> Result<Resources, ResourceError> {
        Ok(self.0.clone())
    }
}
