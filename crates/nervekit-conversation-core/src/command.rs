//! What a host can ask a conversation to do, as data.

use std::path::PathBuf;

use nervekit_types::{
    CommandId, ConversationId, Digest, EventId, ExecutionId, InputId, InteractionId, Principal, ProjectId,
    ToolCallId,
};
use serde::{Deserialize, Serialize};

use crate::conversation::{ConfigChange, ConversationConfig};
use crate::input::{InputFate, NewInput};
use crate::interaction::Resolution;
use crate::update::Cursor;

/// A command, with the id that makes repeating it harmless and the principal who gives it.
///
/// ```
/// use nervekit_conversation_core::{Command, CommandRequest};
/// use nervekit_types::{CommandId, ConversationId, Principal};
///
/// let conversation_id = ConversationId::from_key("support/4711");
/// let request = CommandRequest::new(CommandId::from_key("click-1"), Command::Pause { conversation_id })
///     .principal(Principal::person("alice"));
/// // One JSON route serves the whole API.
/// let json = serde_json::to_string(&request)?;
/// assert_eq!(serde_json::from_str::<CommandRequest>(&json)?, request);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CommandRequest {
    /// Names the request: a conversation remembers the last 64 with their outcomes, and a repetition returns
    /// the outcome without acting.
    pub id: CommandId,
    /// Who gives it.
    #[serde(default)]
    pub principal: Principal,
    /// What is to be done.
    pub command: Command,
}

impl CommandRequest {
    /// A request by the local person.
    #[must_use]
    pub fn new(id: CommandId, command: Command) -> Self {
        Self { id, principal: Principal::local(), command }
    }

    /// Says who gives it.
    #[must_use]
    pub fn principal(mut self, principal: Principal) -> Self {
        self.principal = principal;
        self
    }
}

/// What to create a conversation with.
///
/// ```
/// use nervekit_conversation_core::{ConversationConfig, NewConversation};
/// use nervekit_types::ProjectId;
/// let new = NewConversation::new(ProjectId::from_key("site"), ConversationConfig::new("demo/demo".parse()?))
///     .title("Fix the build");
/// assert_eq!(new.title.as_deref(), Some("Fix the build"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewConversation {
    /// The id; a fresh one if absent.
    pub id: Option<ConversationId>,
    /// The project, which must exist.
    pub project_id: ProjectId,
    /// Whose it is; `local` if absent.
    pub owner_id: Option<String>,
    /// A title.
    pub title: Option<String>,
    /// Its settings.
    pub config: ConversationConfig,
}

impl NewConversation {
    /// A conversation of this project.
    #[must_use]
    pub fn new(project_id: ProjectId, config: ConversationConfig) -> Self {
        Self { id: None, project_id, owner_id: None, title: None, config }
    }

    /// Gives it an id of the caller's.
    #[must_use]
    pub fn id(mut self, id: ConversationId) -> Self {
        self.id = Some(id);
        self
    }

    /// Says whose it is.
    #[must_use]
    pub fn owner_id(mut self, owner_id: impl Into<String>) -> Self {
        self.owner_id = Some(owner_id.into());
        self
    }

    /// Gives it a title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }
}

/// What to create a project with.
///
/// ```
/// use nervekit_conversation_core::NewProject;
/// assert_eq!(NewProject::new("site").directory("/srv/site").name, "site");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewProject {
    /// The id; a fresh one if absent.
    pub id: Option<ProjectId>,
    /// The name.
    pub name: String,
    /// The folder, which must exist.
    pub directory: Option<PathBuf>,
}

impl NewProject {
    /// A project without a folder.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { id: None, name: name.into(), directory: None }
    }

    /// Gives it an id of the caller's.
    #[must_use]
    pub fn id(mut self, id: ProjectId) -> Self {
        self.id = Some(id);
        self
    }

    /// Gives it a folder.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }
}

/// To whom a document with permission rules belongs.
///
/// ```
/// use nervekit_conversation_core::PolicyOwner;
/// use nervekit_types::ProjectId;
/// let owner = PolicyOwner::Project(ProjectId::from_key("site"));
/// assert_eq!(owner.conversation_id(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PolicyOwner {
    /// The user.
    User,
    /// A project.
    Project(ProjectId),
    /// A conversation.
    Conversation(ConversationId),
}

impl PolicyOwner {
    /// The conversation, if it is one.
    #[must_use]
    pub const fn conversation_id(self) -> Option<ConversationId> {
        match self {
            Self::Conversation(id) => Some(id),
            Self::User | Self::Project(_) => None,
        }
    }
}

/// What a host can ask for. The typed methods on the handles are made of these.
///
/// ```
/// use nervekit_conversation_core::Command;
/// use nervekit_types::ConversationId;
/// let command = Command::Stop { conversation_id: ConversationId::from_key("a"), execution_id: None };
/// assert_eq!(command.kind(), "stop");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Command {
    /// Creates a project.
    CreateProject(NewProject),
    /// Creates a conversation.
    CreateConversation(Box<NewConversation>),
    /// Changes settings.
    Configure {
        /// The conversation.
        conversation_id: ConversationId,
        /// The change.
        change: Box<ConfigChange>,
    },
    /// Sets the title; none clears it.
    SetTitle {
        /// The conversation.
        conversation_id: ConversationId,
        /// The title.
        title: Option<String>,
    },
    /// Accepts an input.
    Submit {
        /// The conversation.
        conversation_id: ConversationId,
        /// The input.
        input: NewInput,
    },
    /// Takes back an input that was not delivered.
    CancelInput {
        /// The conversation.
        conversation_id: ConversationId,
        /// The input.
        input_id: InputId,
    },
    /// Answers an interaction.
    Resolve {
        /// The conversation.
        conversation_id: ConversationId,
        /// The interaction.
        interaction_id: InteractionId,
        /// The answer.
        resolution: Resolution,
    },
    /// Holds still: nothing starts by itself and no further model request is made; what is under way comes to its end.
    Pause {
        /// The conversation.
        conversation_id: ConversationId,
    },
    /// Clears a pause: what was paused goes on, what is queued is delivered.
    Resume {
        /// The conversation.
        conversation_id: ConversationId,
    },
    /// Stops the work: pauses, and cancels what is under way.
    Stop {
        /// The conversation.
        conversation_id: ConversationId,
        /// The execution that is meant; the open one if absent.
        execution_id: Option<ExecutionId>,
    },
    /// Accepts a version of a document with permission rules: the one that was shown. That of a project counts from
    /// then on, with all that it allows; that of the user counts again after it was edited by hand.
    TrustPolicy {
        /// Whose document.
        owner: PolicyOwner,
        /// The digest of what was shown. If something else is there now, nothing is accepted.
        digest: Digest,
    },
    /// Refuses a version of a document with permission rules; what it restricts stays, if it was accepted before.
    RejectPolicy {
        /// Whose document.
        owner: PolicyOwner,
        /// The digest of the version.
        digest: Digest,
    },
    /// Takes a rule out of a document, such as one that remembers an answer.
    RevokeRule {
        /// Whose document.
        owner: PolicyOwner,
        /// The id of the rule.
        rule: String,
    },
    /// Makes the model go on without a new prompt; clears a pause.
    ContinueProcessing {
        /// The conversation.
        conversation_id: ConversationId,
        /// The head that is meant; the current one if absent.
        head: Option<EventId>,
    },
}

impl Command {
    /// The command's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::CreateProject(_) => "create_project",
            Self::CreateConversation(_) => "create_conversation",
            Self::Configure { .. } => "configure",
            Self::SetTitle { .. } => "set_title",
            Self::Submit { .. } => "submit",
            Self::CancelInput { .. } => "cancel_input",
            Self::Resolve { .. } => "resolve",
            Self::Pause { .. } => "pause",
            Self::Resume { .. } => "resume",
            Self::Stop { .. } => "stop",
            Self::ContinueProcessing { .. } => "continue_processing",
            Self::TrustPolicy { .. } => "trust_policy",
            Self::RejectPolicy { .. } => "reject_policy",
            Self::RevokeRule { .. } => "revoke_rule",
        }
    }

    /// The conversation it is for, unless it creates something.
    ///
    /// ```
    /// use nervekit_conversation_core::{Command, NewProject};
    /// assert_eq!(Command::CreateProject(NewProject::new("site")).conversation_id(), None);
    /// ```
    #[must_use]
    pub const fn conversation_id(&self) -> Option<ConversationId> {
        match self {
            Self::CreateProject(_) | Self::CreateConversation(_) => None,
            Self::TrustPolicy { owner, .. }
            | Self::RejectPolicy { owner, .. }
            | Self::RevokeRule { owner, .. } => owner.conversation_id(),
            Self::Configure { conversation_id, .. }
            | Self::SetTitle { conversation_id, .. }
            | Self::Submit { conversation_id, .. }
            | Self::CancelInput { conversation_id, .. }
            | Self::Resolve { conversation_id, .. }
            | Self::Pause { conversation_id }
            | Self::Resume { conversation_id }
            | Self::Stop { conversation_id, .. }
            | Self::ContinueProcessing { conversation_id, .. } => Some(*conversation_id),
        }
    }
}

/// The answer to a command that was carried out; durable when it is returned.
///
/// ```
/// use nervekit_conversation_core::{CommandOutcome, Receipt};
/// fn accepted(receipt: &Receipt) -> bool {
///     matches!(receipt.outcome, CommandOutcome::InputAccepted { .. })
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The command that is answered.
    pub command: CommandId,
    /// What came of it.
    pub outcome: CommandOutcome,
    /// Where a follower of the conversation continues to see what the command caused.
    pub cursor: Cursor,
}

impl Receipt {
    /// A receipt.
    ///
    /// ```
    /// use nervekit_conversation_core::{CommandOutcome, Cursor, Receipt};
    /// use nervekit_types::CommandId;
    /// let receipt = Receipt::new(CommandId::from_key("1"), CommandOutcome::Paused, Cursor::START);
    /// assert_eq!(receipt.outcome.kind(), "paused");
    /// ```
    #[must_use]
    pub const fn new(command: CommandId, outcome: CommandOutcome, cursor: Cursor) -> Self {
        Self { command, outcome, cursor }
    }
}

/// What came of a command; one variant per operation that answers something.
///
/// ```
/// use nervekit_conversation_core::CommandOutcome;
/// assert_eq!(CommandOutcome::NothingToStop.kind(), "nothing_to_stop");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CommandOutcome {
    /// The project exists.
    ProjectCreated {
        /// Its id.
        project_id: ProjectId,
    },
    /// The conversation exists.
    ConversationCreated {
        /// Its id.
        conversation_id: ConversationId,
    },
    /// The settings are changed.
    Configured,
    /// The title is set.
    TitleSet,
    /// The input is accepted, now or earlier.
    InputAccepted {
        /// Its id.
        input_id: InputId,
        /// What has become of it.
        fate: InputFate,
    },
    /// The input will not be delivered.
    InputCancelled {
        /// Its id.
        input_id: InputId,
    },
    /// The input could not be taken back: this is what became of it.
    InputNotCancelled {
        /// Its id.
        input_id: InputId,
        /// What became of it.
        fate: InputFate,
    },
    /// The interaction is resolved.
    Resolved {
        /// The call that waited.
        call_id: ToolCallId,
    },
    /// The conversation is paused.
    Paused,
    /// The conversation is not paused any more.
    Resumed,
    /// The execution is stopped: every call is settled and it has ended. If another core holds the conversation, it
    /// is marked for good, and that core ends it.
    Stopped {
        /// The execution.
        execution_id: ExecutionId,
    },
    /// Nothing that was meant is under way. The conversation is paused, unless one execution was named that is not the
    /// open one: then nothing is changed.
    NothingToStop,
    /// The execution that runs now.
    Continued {
        /// Its id.
        execution_id: ExecutionId,
    },
    /// The version counts.
    PolicyTrusted,
    /// The version does not count.
    PolicyRejected,
    /// The rule is gone.
    RuleRevoked {
        /// Whether it was there.
        found: bool,
    },
}

impl CommandOutcome {
    /// The outcome's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ProjectCreated { .. } => "project_created",
            Self::ConversationCreated { .. } => "conversation_created",
            Self::Configured => "configured",
            Self::TitleSet => "title_set",
            Self::InputAccepted { .. } => "input_accepted",
            Self::InputCancelled { .. } => "input_cancelled",
            Self::InputNotCancelled { .. } => "input_not_cancelled",
            Self::Resolved { .. } => "resolved",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Stopped { .. } => "stopped",
            Self::NothingToStop => "nothing_to_stop",
            Self::Continued { .. } => "continued",
            Self::PolicyTrusted => "policy_trusted",
            Self::PolicyRejected => "policy_rejected",
            Self::RuleRevoked { .. } => "rule_revoked",
        }
    }
}
