//! Projects, the rows of a conversation, and the event index.

use std::path::PathBuf;
use std::time::Duration;

use nervekit_harness::{ModelSelection, ThinkingLevel, Usage};
use nervekit_permissions::Mode;
use nervekit_types::{
    CommandId, ConversationId, Digest, ExecutionId, IncarnationId, InputId, OpeningId, ProjectId, Timestamp,
    ToolCallId, TurnId,
};
use serde::{Deserialize, Serialize};

use super::event::{DeniedCall, EventLink};
use super::input::InputFate;
use super::{Each, Maybe, Millis, forms};
use crate::store::{record, row};
use crate::{command, conversation, event, input};

#[derive(Serialize, Deserialize)]
#[serde(remote = "conversation::ProjectRecord", deny_unknown_fields)]
pub(in crate::store::record) struct ProjectRecord {
    id: ProjectId,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<PathBuf>,
    #[serde(with = "Millis")]
    created_at: Timestamp,
    #[serde(with = "Millis")]
    updated_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "row::CoreRow", deny_unknown_fields)]
pub(in crate::store::record) struct CoreRow {
    project_id: ProjectId,
    owner_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_conversation_id: Option<ConversationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_tool_call_id: Option<ToolCallId>,
    #[serde(with = "Maybe::<EventLink>", default, skip_serializing_if = "Option::is_none")]
    head: Option<event::EventLink>,
    #[serde(with = "Maybe::<OpenExecution>", default, skip_serializing_if = "Option::is_none")]
    open_execution: Option<conversation::OpenExecution>,
    usage_own: Usage,
    #[serde(with = "Status")]
    status: conversation::Status,
    next_event_sequence: u64,
    chain_hash: Digest,
    revision: u64,
    #[serde(with = "Millis")]
    created_at: Timestamp,
    #[serde(with = "Millis")]
    updated_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "row::MailboxRow", deny_unknown_fields)]
pub(in crate::store::record) struct MailboxRow {
    paused: bool,
    #[serde(with = "Maybe::<CancelMark>", default, skip_serializing_if = "Option::is_none")]
    cancel_mark: Option<conversation::CancelMark>,
    held_through: u64,
    last_input_sequence: u64,
    mailbox_sequence: u64,
    next_outcome: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    automatic_executions: u32,
    #[serde(with = "Maybe::<Millis>", default, skip_serializing_if = "Option::is_none")]
    last_user_message_at: Option<Timestamp>,
    usage_children: Usage,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "conversation::Status", rename_all = "snake_case")]
enum Status {
    Idle,
    Running,
    Waiting,
    Paused,
    Failed,
    Interrupted,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "conversation::OpenExecution", deny_unknown_fields)]
struct OpenExecution {
    id: ExecutionId,
    turn_id: TurnId,
    turns: u32,
    continued: u32,
    busy_millis: u64,
    tokens: u64,
    cost_micros: u64,
    #[serde(with = "Each::<DeniedCall>", default, skip_serializing_if = "Vec::is_empty")]
    denied: Vec<event::DeniedCall>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "conversation::CancelMark", deny_unknown_fields)]
struct CancelMark {
    execution_id: ExecutionId,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "conversation::ConversationConfig", deny_unknown_fields)]
pub(in crate::store::record) struct ConversationConfig {
    model: ModelSelection,
    thinking: ThinkingLevel,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<String>,
    rule_set_id: String,
    planning_rule_set_id: String,
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    working_directory: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
    #[serde(with = "Attendance")]
    attendance: conversation::Attendance,
    #[serde(with = "Limits")]
    limits: conversation::Limits,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "conversation::Attendance", rename_all = "snake_case")]
enum Attendance {
    Attended,
    Unattended,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "conversation::Limits", deny_unknown_fields)]
struct Limits {
    turns: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_micros: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "conversation::Lease", deny_unknown_fields)]
pub(in crate::store::record) struct Lease {
    #[serde(skip_serializing_if = "Option::is_none")]
    opening: Option<OpeningId>,
    incarnation: IncarnationId,
    epoch: u64,
    #[serde(with = "Millis")]
    expiry: Timestamp,
    released: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "row::OutcomeRow", deny_unknown_fields)]
pub(in crate::store::record) struct OutcomeRow {
    command_id: CommandId,
    request: Digest,
    #[serde(with = "CommandOutcome")]
    outcome: command::CommandOutcome,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "command::CommandOutcome", rename_all = "snake_case", deny_unknown_fields)]
enum CommandOutcome {
    ProjectCreated {
        project_id: ProjectId,
    },
    ConversationCreated {
        conversation_id: ConversationId,
    },
    Configured,
    TitleSet,
    InputAccepted {
        input_id: InputId,
        #[serde(with = "InputFate")]
        fate: input::InputFate,
    },
    InputCancelled {
        input_id: InputId,
    },
    InputNotCancelled {
        input_id: InputId,
        #[serde(with = "InputFate")]
        fate: input::InputFate,
    },
    PolicyTrusted,
    PolicyRejected,
    RuleRevoked {
        found: bool,
    },
    Resolved {
        call_id: ToolCallId,
    },
    Paused,
    Resumed,
    Stopped {
        execution_id: ExecutionId,
    },
    NothingToStop,
    Continued {
        execution_id: ExecutionId,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "conversation::Todo", deny_unknown_fields)]
pub(in crate::store::record) struct Todo {
    todo: String,
    done: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "row::FileRead", deny_unknown_fields)]
pub(in crate::store::record) struct FileRead {
    path: String,
    digest: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "row::TrustRow", deny_unknown_fields)]
pub(in crate::store::record) struct TrustRow {
    name: String,
    revision: u64,
    accepted: Vec<Digest>,
    rejected: Vec<Digest>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "record::IndexEntry", deny_unknown_fields)]
pub(in crate::store::record) struct IndexEntry {
    conversation_id: ConversationId,
    #[serde(skip_serializing_if = "Option::is_none")]
    lead: Option<ConversationId>,
    project_id: ProjectId,
    first: u64,
    last: u64,
}

forms! {
    ProjectRecord = conversation::ProjectRecord;
    CoreRow = row::CoreRow;
    MailboxRow = row::MailboxRow;
    OpenExecution = conversation::OpenExecution;
    CancelMark = conversation::CancelMark;
    ConversationConfig = conversation::ConversationConfig;
    Lease = conversation::Lease;
    OutcomeRow = row::OutcomeRow;
    Todo = conversation::Todo;
    FileRead = row::FileRead;
    TrustRow = row::TrustRow;
    IndexEntry = record::IndexEntry;
}
