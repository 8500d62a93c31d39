//! What a follower of conversations receives.

use std::fmt;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::stream::BoxStream;
use nervekit_permissions::{IgnoredDocument, display};
use nervekit_types::{ConversationId, InteractionId, ProjectId, ToolCallId, TurnId};
use serde::{Deserialize, Serialize};

use crate::conversation::{ConversationConfig, ConversationRecord};
use crate::error::QueryError;
use crate::event::Event;
use crate::input::QueuedInput;
use crate::interaction::Interaction;
use crate::outcome::Outcome;

/// Which conversations a follower wants to hear of.
///
/// ```
/// use nervekit_conversation_core::Scope;
/// use nervekit_types::ConversationId;
/// let scope = Scope::Conversation(ConversationId::from_key("a"));
/// assert_ne!(scope, Scope::Everything);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// One conversation.
    Conversation(ConversationId),
    /// A lead and the conversations it delegated to.
    Family(ConversationId),
    /// All conversations of a project.
    Project(ProjectId),
    /// All conversations of the store.
    Everything,
}

/// A place among durable events, to continue from; it can be kept and sent, as a `Last-Event-ID` for instance.
///
/// For one conversation it counts the events seen; for every wider scope it counts the entries of the store's
/// event index.
///
/// ```
/// use nervekit_conversation_core::Cursor;
/// let cursor: Cursor = "17".parse()?;
/// assert_eq!(cursor.to_string(), "17");
/// assert_eq!(Cursor::START.to_string(), "0");
/// assert!("seventeen".parse::<Cursor>().is_err());
/// # Ok::<(), nervekit_conversation_core::QueryError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(u64);

impl Cursor {
    /// Before the first event.
    pub const START: Self = Self(0);

    /// After this many events or index entries.
    #[must_use]
    pub const fn after(seen: u64) -> Self {
        Self(seen)
    }

    /// How many events or index entries have been seen.
    #[must_use]
    pub const fn seen(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Cursor {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        text.parse().map(Self).map_err(|_| QueryError::InvalidCursor)
    }
}

/// One thing a follower receives. Only [`Event`](Self::Event) is durable and moves the cursor; everything else
/// can be lost without loss, because it is derived from, or followed by, durable facts.
///
/// ```
/// use nervekit_conversation_core::Update;
/// fn show(update: &Update) {
///     match update {
///         Update::Text { delta, .. } => print!("{delta}"),
///         other => println!("{}", other.plain()),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "update", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Update {
    /// A durable fact, and the cursor that continues after it.
    Event {
        /// The fact.
        event: Arc<Event>,
        /// Where to continue.
        cursor: Cursor,
    },
    /// The latest state of a conversation; an older one that was not read yet is replaced, never dropped.
    State(Box<ConversationState>),
    /// A person is asked. A follower that comes later is told what is still open.
    Interaction(Box<Interaction>),
    /// Nobody is asked any more: it was resolved, or its call was called off.
    InteractionClosed {
        /// The conversation.
        conversation_id: ConversationId,
        /// The interaction.
        interaction_id: InteractionId,
    },
    /// More text of the answer under way. The deltas of one attempt and block, concatenated, are always a prefix
    /// of its text: what a slow or late follower missed comes next, as one larger delta.
    Text {
        /// The conversation.
        conversation_id: ConversationId,
        /// The turn.
        turn_id: TurnId,
        /// The attempt, from 1.
        attempt: u32,
        /// The index of the block in the message.
        block: u32,
        /// How many bytes of the block came before.
        offset: u64,
        /// The next bytes.
        delta: String,
    },
    /// More of what the model thinks; like [`Text`](Self::Text).
    Thinking {
        /// The conversation.
        conversation_id: ConversationId,
        /// The turn.
        turn_id: TurnId,
        /// The attempt, from 1.
        attempt: u32,
        /// The index of the block in the message.
        block: u32,
        /// How many bytes of the block came before.
        offset: u64,
        /// The next bytes.
        delta: String,
    },
    /// More live output of a running call. A follower that is late gets what is still kept, at its true offset.
    Progress {
        /// The conversation.
        conversation_id: ConversationId,
        /// The call.
        call_id: ToolCallId,
        /// How many bytes came before.
        offset: u64,
        /// The next bytes.
        delta: String,
    },
    /// The request is made once more: text of earlier attempts is void. Comes before the new attempt's first delta.
    Restarted {
        /// The conversation.
        conversation_id: ConversationId,
        /// The turn.
        turn_id: TurnId,
        /// The new attempt.
        attempt: u32,
    },
    /// An execution ended; derived from its last event and replayed with it.
    Finished(Outcome),
}

impl Update {
    /// The variant's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Event { .. } => "event",
            Self::State(_) => "state",
            Self::Interaction(_) => "interaction",
            Self::InteractionClosed { .. } => "interaction_closed",
            Self::Text { .. } => "text",
            Self::Thinking { .. } => "thinking",
            Self::Progress { .. } => "progress",
            Self::Restarted { .. } => "restarted",
            Self::Finished(_) => "finished",
        }
    }

    /// One line that is safe to print, for whatever a host does not show in its own way.
    #[must_use]
    pub fn plain(&self) -> String {
        match self {
            Self::Event { event, .. } => format!("#{} {}", event.sequence, event.payload.kind()),
            Self::State(state) => format!("state: {:?}", state.conversation.status).to_lowercase(),
            Self::Interaction(interaction) => {
                format!("{} wanted: {}", interaction.kind.kind(), display(&interaction.tool_name))
            }
            Self::InteractionClosed { interaction_id, .. } => format!("no longer wanted: {interaction_id}"),
            Self::Text { delta, .. } => format!("text: {}", display(delta)),
            Self::Thinking { delta, .. } => format!("thinking: {}", display(delta)),
            Self::Progress { delta, .. } => format!("output: {}", display(delta)),
            Self::Restarted { attempt, .. } => format!("attempt {attempt}"),
            Self::Finished(outcome) => outcome.ending.kind().to_owned(),
        }
    }
}

/// The latest state of a conversation, in one piece.
///
/// ```
/// use nervekit_conversation_core::ConversationState;
/// fn waiting(state: &ConversationState) -> usize {
///     state.queue.len()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConversationState {
    /// The conversation.
    pub conversation: ConversationRecord,
    /// Its settings.
    pub config: Arc<ConversationConfig>,
    /// What waits to be delivered, in order.
    pub queue: Vec<QueuedInput>,
    /// What a person is asked, oldest first.
    pub interactions: Vec<Interaction>,
    /// What is wrong with the documents that hold the permission rules: which of them do not count, and why. As it
    /// was when a call was judged last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_problems: Vec<IgnoredDocument>,
    /// Whether the store answers; while it does not, no work is begun.
    pub store_available: bool,
}

/// A stream of [`Update`]s. It goes on after an execution has ended, and ends when its source shuts down; dropping it
/// only stops listening.
///
/// ```
/// use nervekit_conversation_core::{Cursor, Update, Updates};
/// # futures_executor_like(async {
/// // A port that replays a recording.
/// let mut updates = Updates::from_stream(futures_util::stream::iter([]));
/// assert!(updates.next().await.is_none());
/// # });
/// # fn futures_executor_like(f: impl std::future::Future<Output = ()>) {
/// #     tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(f);
/// # }
/// ```
#[must_use = "updates do nothing unless they are read"]
pub struct Updates(BoxStream<'static, Result<Update, QueryError>>);

impl Updates {
    /// Makes updates of any stream.
    pub fn from_stream(stream: impl Stream<Item = Result<Update, QueryError>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// The next update; none when the source has shut down.
    pub async fn next(&mut self) -> Option<Result<Update, QueryError>> {
        std::future::poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl Stream for Updates {
    type Item = Result<Update, QueryError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Updates").finish_non_exhaustive()
    }
}
