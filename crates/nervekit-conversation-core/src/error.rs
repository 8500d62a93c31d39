//! What commands and queries answer when they cannot be carried out.

use std::time::Duration;

use nervekit_permissions::{DocumentError, GrantError};
use nervekit_types::{
    CommandId, ConversationId, EventId, ExecutionId, InputId, InteractionId, ProjectId, Retry, ToolCallId,
};

use crate::input::InputFate;
use crate::interaction::{Interaction, Resolved};
use crate::store::StoreError;

/// Names a thing in an error.
///
/// ```
/// use nervekit_conversation_core::Subject;
/// use nervekit_types::ProjectId;
/// let subject = Subject::from(ProjectId::from_key("site"));
/// assert!(subject.to_string().starts_with("project `proj_"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Subject {
    /// A project.
    #[error("project `{0}`")]
    Project(ProjectId),
    /// A conversation.
    #[error("conversation `{0}`")]
    Conversation(ConversationId),
    /// An execution.
    #[error("execution `{0}`")]
    Execution(ExecutionId),
    /// An event.
    #[error("event `{0}`")]
    Event(EventId),
    /// An input.
    #[error("input `{0}`")]
    Input(InputId),
    /// An interaction.
    #[error("interaction `{0}`")]
    Interaction(InteractionId),
    /// A tool call.
    #[error("tool call `{0}`")]
    ToolCall(ToolCallId),
    /// A command.
    #[error("command `{0}`")]
    Command(CommandId),
}

macro_rules! subjects {
    ($($id:ident => $variant:ident),*) => {$(
        impl From<$id> for Subject {
            fn from(id: $id) -> Self {
                Self::$variant(id)
            }
        }
    )*};
}

subjects! {
    ProjectId => Project, ConversationId => Conversation, ExecutionId => Execution, EventId => Event,
    InputId => Input, InteractionId => Interaction, ToolCallId => ToolCall, CommandId => Command
}

/// Why a command was not carried out. Unless [`retry`](Self::retry) says otherwise, nothing was changed.
///
/// | Variant | HTTP status |
/// | --- | --- |
/// | `NotFound` | 404 |
/// | `Invalid` | 422 |
/// | `AlreadyExists`, `OtherContent`, `Busy`, `Stale`, `Resolved`, `NotOpen` | 409 |
/// | `Policy` | 409 (422 when the document is malformed, 404 when none is kept, 503 when it cannot be reached) |
/// | `ShuttingDown` | 503 |
/// | `Store` | 503 (507 when full, 500 when corrupt) |
///
/// ```
/// use nervekit_conversation_core::CommandError;
/// use nervekit_types::Retry;
/// let error = CommandError::invalid("the text is empty; submit at least one character or an image");
/// assert_eq!(error.http_status(), 422);
/// assert_eq!(error.retry(), Retry::Never);
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// There is no such thing (any more).
    #[error("{0} does not exist")]
    NotFound(Subject),
    /// The command makes no sense as it is.
    #[error("{0}")]
    Invalid(Box<str>),
    /// Something else has this id.
    #[error("{0} exists already, with other content")]
    AlreadyExists(Subject),
    /// The id was used for other content; an input keeps its first content for ever.
    #[error("input `{id}` was accepted with other content, and is {}", fate.kind())]
    OtherContent {
        /// The input.
        id: InputId,
        /// What became of the first content.
        fate: InputFate,
    },
    /// Something unfinished stands in the way.
    #[error("the conversation is busy with {0}")]
    Busy(Subject),
    /// The execution an input was meant for is not open.
    #[error("{0} is not open")]
    NotOpen(Subject),
    /// The approval carries the digest of something else: this is what is to be approved now.
    #[error("the approval is for an earlier version of the request; look at the current one")]
    Stale {
        /// What is asked now.
        current: Box<Interaction>,
    },
    /// Somebody else was faster, or the call was called off.
    #[error("the request was already resolved{}", how(by.as_deref()))]
    Resolved {
        /// Who resolved it and how; none if its call was called off.
        by: Option<Box<Resolved>>,
    },
    /// A document with permission rules is not the one that was shown, or cannot be read or written.
    #[error(transparent)]
    Policy(Box<GrantError>),
    /// The core shuts down; another one over the same store takes the command.
    #[error("the runtime is shutting down")]
    ShuttingDown,
    /// The store did not take the change.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<GrantError> for CommandError {
    fn from(error: GrantError) -> Self {
        Self::Policy(Box::new(error))
    }
}

const fn document_status(error: &DocumentError) -> u16 {
    match error {
        DocumentError::Malformed(_) => 422,
        DocumentError::Unsupported => 404,
        DocumentError::Unavailable(_) => 503,
        _ => 409,
    }
}

fn how(by: Option<&Resolved>) -> String {
    by.map_or_else(String::new, |by| format!(": {} by {}", by.resolution.kind(), by.by))
}

impl CommandError {
    /// A command that makes no sense, with words that say what would.
    #[must_use]
    pub fn invalid(problem: impl Into<Box<str>>) -> Self {
        Self::Invalid(problem.into())
    }

    /// Whether to try again.
    ///
    /// ```
    /// use nervekit_conversation_core::CommandError;
    /// use nervekit_types::Retry;
    /// assert!(matches!(CommandError::ShuttingDown.retry(), Retry::After(_)));
    /// ```
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            // The same words mean the same until something else changes.
            Self::NotFound(_)
            | Self::Invalid(_)
            | Self::AlreadyExists(_)
            | Self::OtherContent { .. }
            | Self::NotOpen(_)
            | Self::Stale { .. }
            | Self::Resolved { .. } => Retry::Never,
            // What is unfinished ends some time, though a person may have to act first; a successor opens the store
            // within seconds, as a rule.
            Self::Busy(_) | Self::ShuttingDown => Retry::After(Duration::from_secs(1)),
            Self::Policy(error) => error.retry(),
            Self::Store(error) => error.retry(),
        }
    }

    /// The HTTP status that a web host answers with; see the table above.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        match self {
            Self::NotFound(_) => 404,
            Self::Policy(error) => match &**error {
                GrantError::Document(error) => document_status(error),
                _ => 409,
            },
            Self::Invalid(_) => 422,
            Self::AlreadyExists(_)
            | Self::OtherContent { .. }
            | Self::Busy(_)
            | Self::NotOpen(_)
            | Self::Stale { .. }
            | Self::Resolved { .. } => 409,
            Self::ShuttingDown => 503,
            Self::Store(error) => error.http_status(),
        }
    }
}

/// Why a query was not answered.
///
/// | Variant | HTTP status |
/// | --- | --- |
/// | `NotFound` | 404 |
/// | `InvalidCursor` | 400 |
/// | `Invalid` | 422 |
/// | `Document` | 503 (404 when none is kept) |
/// | `OtherView` | 502 |
/// | `ShuttingDown` | 503 |
/// | `Store` | 503 (500 when corrupt) |
///
/// ```
/// use nervekit_conversation_core::{Cursor, QueryError};
/// let error = "x".parse::<Cursor>().unwrap_err();
/// assert_eq!(error.http_status(), 400);
/// assert!(matches!(error, QueryError::InvalidCursor));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// There is no such thing (any more).
    #[error("{0} does not exist")]
    NotFound(Subject),
    /// The cursor is not one of this scope.
    #[error("a cursor is a whole number that an update or a snapshot returned for the same scope")]
    InvalidCursor,
    /// The query makes no sense as it is.
    #[error("{0}")]
    Invalid(Box<str>),
    /// A document with permission rules cannot be had.
    #[error(transparent)]
    Document(#[from] Box<DocumentError>),
    /// The API answered with a view of another kind than the query asks for.
    #[error("the query was answered with `{kind}`")]
    OtherView {
        /// The kind of the answer.
        kind: &'static str,
    },
    /// The core shuts down.
    #[error("the runtime is shutting down")]
    ShuttingDown,
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl QueryError {
    /// Whether to try again.
    ///
    /// ```
    /// use nervekit_conversation_core::QueryError;
    /// use nervekit_types::Retry;
    /// assert_eq!(QueryError::InvalidCursor.retry(), Retry::Never);
    /// ```
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            // The answer is the same until something is created.
            Self::NotFound(_) | Self::InvalidCursor | Self::Invalid(_) | Self::OtherView { .. } => {
                Retry::Never
            }
            Self::Document(error) => error.retry(),
            Self::ShuttingDown => Retry::After(Duration::from_secs(1)),
            Self::Store(error) => error.retry(),
        }
    }

    /// The HTTP status that a web host answers with; see the table above.
    #[must_use]
    pub fn http_status(&self) -> u16 {
        match self {
            Self::NotFound(_) => 404,
            Self::InvalidCursor => 400,
            Self::Invalid(_) => 422,
            Self::Document(error) => document_status(error),
            Self::OtherView { .. } => 502,
            Self::ShuttingDown => 503,
            Self::Store(error) => error.http_status(),
        }
    }
}
