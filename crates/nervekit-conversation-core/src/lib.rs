#![doc = include_str!("../README.md")]

mod backend;
mod command;
mod conversation;
mod error;
mod event;
mod handle;
mod input;
mod interaction;
mod outcome;
mod port;
pub mod ports;
mod query;
mod runtime;
#[cfg(feature = "testing")]
pub mod store;
#[cfg(not(feature = "testing"))]
#[expect(
    unreachable_pub,
    dead_code,
    unused_imports,
    reason = "the store is shown to tests, by the feature `testing`"
)]
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod tool_call;
mod update;

// The runtime and its handles.
pub use handle::{AskError, Conversation, PolicyHandle, Project, interactions};
pub use runtime::{
    BuildError, BuildProblem, ConversationCore, CoreBuilder, RecoveryPolicy, RecoveryReport, RuntimeLimits,
    ShutdownReport,
};

// What is asked and answered.
pub use command::{
    Command, CommandOutcome, CommandRequest, NewConversation, NewProject, PolicyOwner, Receipt,
};
pub use error::{CommandError, QueryError, Subject};
pub use input::{DeliveryTarget, Image, InputFate, InputSource, NewImage, NewInput, QueuedInput};
pub use interaction::{Interaction, InteractionKind, Question, Remember, Remembered, Resolution, Resolved};
pub use outcome::{Ending, NotCompleted, Outcome};
pub use query::{EventPage, Page, PageMark, Query, Snapshot, ToolCallView, View};
pub use update::{ConversationState, Cursor, Scope, Update, Updates};

// What is stored.
pub use conversation::{
    Attendance, CancelMark, ConfigChange, ConversationConfig, ConversationRecord, Lease, Limits,
    OpenExecution, ProjectRecord, Status, Todo,
};
pub use event::{
    AssistantMessageEvent, Awaited, CallOutcome, DeniedCall, Event, EventLink, EventPayload, ExecutionState,
    ExecutionStateEvent, FailureReason, InterventionKind, LlmRepresentation, MessageCall, Notification,
    ToolCallResponse, UserIntervention, UserMessageEvent,
};
pub use store::{RecordError, StoreError, StoreStats, StoredConversation, StoredTrust, VerifyReport};
pub use tool_call::{CallState, Claim, ToolCall, TurnSettings};

// Ports.
pub use backend::{
    Backend, BackendError, BackendFacts, Change, CommitNumber, Expect, Maintenance, MaintenanceReport,
    MemoryBackend, Range, Refused, Row, Table, Write, WriteSet,
};
pub use port::{
    Conversations, FixedResources, Hook, HookCall, HookError, HookVerdict, NoProfiles, Profile, Profiles,
    ResourceError, Resources, TurnRequest, TurnResources,
};
