//! Projects and conversations as stored: configuration, usage, status.

use std::path::PathBuf;
use std::time::Duration;

use nervekit_harness::{ModelSelection, ThinkingLevel, Usage};
use nervekit_permissions::Mode;
use nervekit_types::{
    ConversationId, EventId, ExecutionId, IncarnationId, OpeningId, ProjectId, Timestamp, TurnId,
};
use serde::{Deserialize, Serialize};

use crate::event::DeniedCall;

/// A project: a name, and usually a folder that path tools work in.
///
/// ```
/// use nervekit_conversation_core::ProjectRecord;
/// fn label(project: &ProjectRecord) -> String {
///     match &project.directory {
///         Some(folder) => format!("{} in {}", project.name, folder.display()),
///         None => project.name.clone(),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProjectRecord {
    /// The id.
    pub id: ProjectId,
    /// The name a person gave it.
    pub name: String,
    /// The canonical folder; without one there is no `project` root and path tools are not offered.
    pub directory: Option<PathBuf>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Whether a person can be asked.
///
/// ```
/// use nervekit_conversation_core::Attendance;
/// assert_eq!(Attendance::default(), Attendance::Attended);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attendance {
    /// A call that the permission engine [prompts](nervekit_permissions::Decision::Prompt) for waits for a person,
    /// however long that takes.
    #[default]
    Attended,
    /// Such a call settles as denied, in words that name the rule and the ways to allow it;
    /// tools that ask a person are not offered.
    Unattended,
}

/// What one execution may use up before it ends as failed. Everything it did stays, and
/// `continue_processing` carries on with fresh limits.
///
/// ```
/// use nervekit_conversation_core::Limits;
/// use std::time::Duration;
/// let limits = Limits::new().turns(40).time(Duration::from_secs(600)).tokens(200_000);
/// assert_eq!(limits.turns, 40);
/// assert_eq!(Limits::default().turns, 200);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// Model requests that were answered.
    pub turns: u32,
    /// Model and tool time together; time in which a person is waited for does not count.
    pub time: Option<Duration>,
    /// Tokens of all kinds, as reported by the provider.
    pub tokens: Option<u64>,
    /// Cost in millionths of a US dollar, where prices are known.
    pub cost_micros: Option<u64>,
}

impl Limits {
    /// 200 turns, and nothing else bounded.
    #[must_use]
    pub const fn new() -> Self {
        Self { turns: 200, time: None, tokens: None, cost_micros: None }
    }

    /// Bounds the turns of one execution.
    #[must_use]
    pub const fn turns(mut self, turns: u32) -> Self {
        self.turns = turns;
        self
    }

    /// Bounds model and tool time.
    #[must_use]
    pub const fn time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// Bounds tokens.
    #[must_use]
    pub const fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Bounds cost, in millionths of a US dollar.
    #[must_use]
    pub const fn cost_micros(mut self, micros: u64) -> Self {
        self.cost_micros = Some(micros);
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

/// The settings of a conversation: model, rule set, tools, limits. They say how it is set now and are no part of its
/// history; [`Conversation::configure`](crate::Conversation::configure) changes them.
///
/// A new conversation is `supervised`, coding, attended, thinking off, with the default [`Limits`].
///
/// ```
/// use nervekit_conversation_core::ConversationConfig;
/// let config = ConversationConfig::new("demo/demo".parse()?);
/// assert_eq!(config.rule_set_id, "supervised");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConversationConfig {
    /// Which model answers.
    pub model: ModelSelection,
    /// How much the model thinks first.
    pub thinking: ThinkingLevel,
    /// Replaces the host's system prompt.
    pub system_prompt: Option<String>,
    /// The rule set while coding: `read_only`, `supervised`, `autonomous`, or one of the host's own.
    pub rule_set_id: String,
    /// The rule set while planning: `planning` by default.
    pub planning_rule_set_id: String,
    /// Coding or planning: which of the two rule sets judges.
    pub mode: Mode,
    /// The folder relative paths start from; the project's folder if absent.
    pub working_directory: Option<PathBuf>,
    /// If present, only these tools are offered. Whatever is named, a tool about files is offered only where there is a
    /// folder, and `ask_user` only where a person can be asked.
    pub tools: Option<Vec<String>>,
    /// Whether a person can be asked.
    pub attendance: Attendance,
    /// Bounds of each execution.
    pub limits: Limits,
}

impl ConversationConfig {
    /// The defaults, with this model.
    #[must_use]
    pub fn new(model: ModelSelection) -> Self {
        Self {
            model,
            thinking: ThinkingLevel::Off,
            system_prompt: None,
            rule_set_id: "supervised".to_owned(),
            planning_rule_set_id: "planning".to_owned(),
            mode: Mode::Coding,
            working_directory: None,
            tools: None,
            attendance: Attendance::Attended,
            limits: Limits::new(),
        }
    }

    /// The rule set that the mode selects.
    ///
    /// ```
    /// # use nervekit_conversation_core::{ConfigChange, ConversationConfig};
    /// # use nervekit_permissions::Mode;
    /// let mut config = ConversationConfig::new("demo/demo".parse()?);
    /// ConfigChange::new().mode(Mode::Planning).apply_to(&mut config);
    /// assert_eq!(config.selected_rule_set(), "planning");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn selected_rule_set(&self) -> &str {
        match self.mode {
            Mode::Coding => &self.rule_set_id,
            Mode::Planning => &self.planning_rule_set_id,
        }
    }
}

macro_rules! config_change {
    ($($(#[$doc:meta])* $field:ident: $type:ty $(=> $wrap:expr)?;)*) => {
        /// Settings to change; what is not named stays. A change takes effect at the next boundary: the model,
        /// thinking and system prompt before the next provider request, the rest at the next turn.
        ///
        /// ```
        /// use nervekit_conversation_core::{Attendance, ConfigChange};
        /// let change = ConfigChange::new().rule_set("autonomous").attendance(Attendance::Unattended);
        /// assert_eq!(change.rule_set.as_deref(), Some("autonomous"));
        /// ```
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        #[non_exhaustive]
        pub struct ConfigChange {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
        }

        impl ConfigChange {
            /// Changes nothing.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }

            $(
                $(#[$doc])*
                #[must_use]
                pub fn $field(mut self, value: impl Into<$type>) -> Self {
                    self.$field = Some(value.into());
                    self
                }
            )*
        }
    };
}

config_change! {
    /// Selects another model.
    model: ModelSelection;
    /// Sets how much the model thinks first.
    thinking: ThinkingLevel;
    /// Replaces the host's system prompt; an empty text gives the host's back.
    system_prompt: String;
    /// Selects the rule set for coding.
    rule_set: String;
    /// Selects the rule set for planning.
    planning_rule_set: String;
    /// Switches between coding and planning.
    mode: Mode;
    /// Sets the folder relative paths start from.
    working_directory: PathBuf;
    /// Offers only these tools; an empty list offers all.
    tools: Vec<String>;
    /// Says whether a person can be asked.
    attendance: Attendance;
    /// Replaces the limits.
    limits: Limits;
}

impl ConfigChange {
    /// Carries the change out on a configuration.
    ///
    /// ```
    /// use nervekit_conversation_core::{ConfigChange, ConversationConfig};
    /// let mut config = ConversationConfig::new("demo/demo".parse()?);
    /// ConfigChange::new().system_prompt("Be brief.").apply_to(&mut config);
    /// assert_eq!(config.system_prompt.as_deref(), Some("Be brief."));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply_to(self, config: &mut ConversationConfig) {
        fn set<T>(field: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *field = value;
            }
        }
        set(&mut config.model, self.model);
        set(&mut config.thinking, self.thinking);
        set(&mut config.system_prompt, self.system_prompt.map(|text| (!text.is_empty()).then_some(text)));
        set(&mut config.rule_set_id, self.rule_set);
        set(&mut config.planning_rule_set_id, self.planning_rule_set);
        set(&mut config.mode, self.mode);
        set(&mut config.working_directory, self.working_directory.map(Some));
        set(&mut config.tools, self.tools.map(|tools| (!tools.is_empty()).then_some(tools)));
        set(&mut config.attendance, self.attendance);
        set(&mut config.limits, self.limits);
    }
}

/// What a conversation is doing; a function of its records.
///
/// ```
/// use nervekit_conversation_core::Status;
/// assert!(Status::Waiting.is_open() && !Status::Failed.is_open());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// Nothing is open.
    Idle,
    /// An execution is open and something is under way.
    Running,
    /// An execution is open and everything left of it waits for a person.
    Waiting,
    /// An execution is open, and paused with nothing in flight.
    Paused,
    /// Nothing is open, and the last execution failed.
    Failed,
    /// Nothing is open, and the last execution was interrupted by a crash.
    Interrupted,
}

impl Status {
    /// Whether an execution is open.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Waiting | Self::Paused)
    }
}

/// The execution that is open in a conversation: the work between a prompt and its final answer, and what it has used
/// up so far of its [`Limits`].
///
/// ```
/// use nervekit_conversation_core::OpenExecution;
/// fn turns_left(execution: &OpenExecution, limit: u32) -> u32 {
///     limit.saturating_sub(execution.turns)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenExecution {
    /// Its id, which has the bits of its `started` event's id.
    pub id: ExecutionId,
    /// The turn under way.
    pub turn_id: TurnId,
    /// Model requests that were answered.
    pub turns: u32,
    /// How often recovery has carried it on.
    pub continued: u32,
    /// Model and tool time spent, in milliseconds.
    pub busy_millis: u64,
    /// Tokens of all kinds, as reported by the provider.
    pub tokens: u64,
    /// Cost in millionths of a US dollar.
    pub cost_micros: u64,
    /// Calls that were denied because no person could be asked.
    pub denied: Vec<DeniedCall>,
}

/// The stop mark of a conversation, which [`Conversation::stop`](crate::Conversation::stop) sets: nothing of this
/// execution may be started any more.
///
/// ```
/// use nervekit_conversation_core::CancelMark;
/// fn applies(mark: Option<CancelMark>, execution: nervekit_types::ExecutionId) -> bool {
///     mark.is_some_and(|mark| mark.execution_id == execution)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CancelMark {
    /// The execution that is to end as cancelled.
    pub execution_id: ExecutionId,
}

/// A conversation as a list of conversations shows it: what it is, whose it is, what it is doing.
///
/// ```
/// use nervekit_conversation_core::{ConversationRecord, Status};
/// fn badge(conversation: &ConversationRecord) -> &'static str {
///     match conversation.status {
///         Status::Waiting => "needs you",
///         Status::Running => "working",
///         _ => "",
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConversationRecord {
    /// The id.
    pub id: ConversationId,
    /// The project it belongs to.
    pub project_id: ProjectId,
    /// Whose it is, opaque to the runtime; `local` by default.
    pub owner_id: String,
    /// The lead, for a conversation that delegation made.
    pub parent_conversation_id: Option<ConversationId>,
    /// The title a person gave it.
    pub title: Option<String>,
    /// The newest event, which the next one will follow.
    pub head_event_id: Option<EventId>,
    /// The execution that is open.
    pub open_execution: Option<OpenExecution>,
    /// Whether it is paused: nothing starts by itself, and the model is not asked.
    pub paused: bool,
    /// What it is doing.
    pub status: Status,
    /// What its own requests have used.
    pub usage: Usage,
    /// The sequence of its next event.
    pub next_event_sequence: u64,
    /// Grows with each change that the runtime makes to it.
    pub revision: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When the runtime last changed it.
    pub updated_at: Timestamp,
    /// When a prompt was last delivered.
    pub last_user_message_at: Option<Timestamp>,
}

/// Which running core owns a conversation, and until when. Only the owner writes its history; two cores over one store
/// so never work on the same conversation. Hosts need not look at it.
///
/// ```
/// use nervekit_conversation_core::Lease;
/// fn held_by(lease: &Lease, incarnation: nervekit_types::IncarnationId) -> bool {
///     !lease.released && lease.incarnation == incarnation
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lease {
    /// The opening of an exclusive backend under which it was taken.
    pub opening: Option<OpeningId>,
    /// The core that holds it.
    pub incarnation: IncarnationId,
    /// Grows with every taking: what is written under an older one is refused.
    pub epoch: u64,
    /// When it ends by itself, by the store's clock.
    pub expiry: Timestamp,
    /// Whether its holder gave it back.
    pub released: bool,
}

/// Something a person or the model wants done, on the conversation's list.
///
/// ```
/// use nervekit_conversation_core::Todo;
/// assert!(!Todo::new("write the report").done);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Todo {
    /// What is to be done.
    pub todo: String,
    /// Whether it is done.
    pub done: bool,
}

impl Todo {
    /// An open entry.
    #[must_use]
    pub fn new(todo: impl Into<String>) -> Self {
        Self { todo: todo.into(), done: false }
    }

    /// Sets whether it is done.
    #[must_use]
    pub const fn done(mut self, done: bool) -> Self {
        self.done = done;
        self
    }
}
