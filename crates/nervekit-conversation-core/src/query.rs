//! What a host can read, as data.

use nervekit_permissions::{DocumentStatus, RuleEvidence};
use nervekit_types::{ConversationId, Digest, EventId, ProjectId, ToolCallId};
use serde::{Deserialize, Serialize};

use crate::command::PolicyOwner;
use crate::conversation::{ConversationRecord, ProjectRecord, Todo};
use crate::event::{Event, ToolCallResponse};
use crate::interaction::Interaction;
use crate::store::{StoreStats, VerifyReport};
use crate::tool_call::ToolCall;
use crate::update::{ConversationState, Cursor};

/// A page of a listing: how many entries, and how many bytes of them, at most; 200 and 1 MiB by default.
///
/// ```
/// use nervekit_conversation_core::Page;
/// let page = Page::new(20).bytes(64 * 1024);
/// assert_eq!(page.count, 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Page {
    /// At most this many entries.
    pub count: u32,
    /// At most this many bytes of stored events; one entry is always returned.
    pub bytes: u64,
}

impl Page {
    /// A page of this many entries and at most 1 MiB.
    #[must_use]
    pub const fn new(count: u32) -> Self {
        Self { count, bytes: 1024 * 1024 }
    }

    /// Bounds its bytes.
    #[must_use]
    pub const fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }
}

impl Default for Page {
    /// 200 entries, 1 MiB.
    fn default() -> Self {
        Self::new(200)
    }
}

/// What a host can read.
///
/// ```
/// use nervekit_conversation_core::Query;
/// use nervekit_types::ConversationId;
/// let query = Query::Snapshot { conversation_id: ConversationId::from_key("a") };
/// assert_eq!(query.kind(), "snapshot");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "query", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Query {
    /// All projects.
    Projects,
    /// Conversations, newest first.
    Conversations {
        /// Only those of this project.
        project_id: Option<ProjectId>,
        /// How many.
        #[serde(default)]
        page: Page,
        /// Those older than this one.
        #[serde(default)]
        before: Option<ConversationId>,
    },
    /// The state of one conversation in one consistent read, with the cursor that continues it.
    Snapshot {
        /// The conversation.
        conversation_id: ConversationId,
    },
    /// The events that lead to the head, newest page first, in order within a page.
    History {
        /// The conversation.
        conversation_id: ConversationId,
        /// How many.
        #[serde(default)]
        page: Page,
        /// Those before this event; the newest if absent.
        #[serde(default)]
        before: Option<EventId>,
    },
    /// All events in order of their sequence, those of branches that were left included.
    EventsSince {
        /// The conversation.
        conversation_id: ConversationId,
        /// After this place.
        after: Cursor,
        /// How many.
        #[serde(default)]
        page: Page,
    },
    /// Everything a person is asked, oldest first: the inbox.
    Interactions {
        /// Only those of this conversation.
        conversation_id: Option<ConversationId>,
    },
    /// One tool call, unfinished or settled.
    ToolCall {
        /// The conversation.
        conversation_id: ConversationId,
        /// The call.
        call_id: ToolCallId,
    },
    /// Whether a document with permission rules counts, what of it runs without asking, and how it differs from the
    /// version that was accepted last.
    PolicyStatus {
        /// Whose document.
        owner: PolicyOwner,
    },
    /// The permission rules in force for a conversation, the strongest first.
    Rules {
        /// The conversation.
        conversation_id: ConversationId,
    },
    /// The effective policy that evidence names by its digest: it explains a call long after the documents changed.
    Policy {
        /// The digest.
        digest: Digest,
    },
    /// Sizes.
    Stats,
    /// Checks the store and every chain of events.
    Verify,
}

impl Query {
    /// The query's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Projects => "projects",
            Self::Conversations { .. } => "conversations",
            Self::Snapshot { .. } => "snapshot",
            Self::History { .. } => "history",
            Self::EventsSince { .. } => "events_since",
            Self::Interactions { .. } => "interactions",
            Self::ToolCall { .. } => "tool_call",
            Self::PolicyStatus { .. } => "policy_status",
            Self::Rules { .. } => "rules",
            Self::Policy { .. } => "policy",
            Self::Stats => "stats",
            Self::Verify => "verify",
        }
    }
}

/// The answer to a query.
///
/// ```
/// use nervekit_conversation_core::View;
/// assert_eq!(View::Projects(vec![]).kind(), "projects");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "view", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum View {
    /// All projects.
    Projects(Vec<ProjectRecord>),
    /// Conversations, newest first.
    Conversations(Vec<ConversationRecord>),
    /// One conversation.
    Snapshot(Box<Snapshot>),
    /// Events.
    Events(EventPage),
    /// What a person is asked.
    Interactions(Vec<Interaction>),
    /// One tool call.
    ToolCall(Box<ToolCallView>),
    /// A document with permission rules.
    PolicyStatus(Box<DocumentStatus>),
    /// Permission rules.
    Rules(Vec<RuleEvidence>),
    /// An effective policy, as a [`Policy`](nervekit_permissions::Policy) is read from
    /// [bytes](nervekit_permissions::Policy::from_bytes); `None` if none was recorded under the digest.
    Policy(Option<String>),
    /// Sizes.
    Stats(StoreStats),
    /// What the check found.
    Verify(VerifyReport),
}

impl View {
    /// The view's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Projects(_) => "projects",
            Self::Conversations(_) => "conversations",
            Self::Snapshot(_) => "snapshot",
            Self::Events(_) => "events",
            Self::Interactions(_) => "interactions",
            Self::ToolCall(_) => "tool_call",
            Self::PolicyStatus(_) => "policy_status",
            Self::Rules(_) => "rules",
            Self::Policy(_) => "policy",
            Self::Stats(_) => "stats",
            Self::Verify(_) => "verify",
        }
    }
}

/// The state of a conversation in one consistent read, and the cursor that continues it.
///
/// It does not hold what was said: show a page of [`Conversation::history`](crate::Conversation::history) first, and
/// [`follow`](crate::Conversation::follow) from the cursor.
///
/// ```
/// use nervekit_conversation_core::Snapshot;
/// fn done(snapshot: &Snapshot) -> usize {
///     snapshot.todos.iter().filter(|todo| todo.done).count()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its state, settings, queue and open interactions.
    pub state: ConversationState,
    /// Calls that are not settled.
    pub calls: Vec<ToolCall>,
    /// The list of things to do.
    pub todos: Vec<Todo>,
    /// Where to continue.
    pub cursor: Cursor,
}

/// Some events, and whether there are more.
///
/// ```
/// use nervekit_conversation_core::EventPage;
/// fn all(page: &EventPage) -> bool {
///     page.next.is_none()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventPage {
    /// The events.
    pub events: Vec<Event>,
    /// The place to ask for next, if there are more: the first event of the page for a history, the last one's
    /// cursor for events in order.
    pub next: Option<PageMark>,
}

/// Where the next page begins.
///
/// ```
/// use nervekit_conversation_core::{Cursor, PageMark};
/// assert_ne!(PageMark::After(Cursor::START), PageMark::After(Cursor::after(3)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PageMark {
    /// Ask for what comes before this event.
    Before(EventId),
    /// Ask for what comes after this place.
    After(Cursor),
}

/// A tool call as far as it has come.
///
/// ```
/// use nervekit_conversation_core::ToolCallView;
/// fn name(view: &ToolCallView) -> &str {
///     match view {
///         ToolCallView::Unfinished(call) => &call.tool_name,
///         ToolCallView::Settled(response) => &response.tool_name,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum ToolCallView {
    /// It is not settled.
    Unfinished(Box<ToolCall>),
    /// It is settled.
    Settled(Box<ToolCallResponse>),
}
