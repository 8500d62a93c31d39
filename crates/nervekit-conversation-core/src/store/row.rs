//! The rows of a conversation, as its holder knows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use memchr::memmem;
use nervekit_harness::Usage;
use nervekit_types::{
    CommandId, ConversationId, Digest, ExecutionId, InputId, ProjectId, Timestamp, ToolCallId,
};

use super::StoreError;
use super::record::Record as _;
use crate::backend::CommitNumber;
use crate::command::CommandOutcome;
use crate::conversation::{
    CancelMark, ConversationConfig, ConversationRecord, Lease, OpenExecution, Status, Todo,
};
use crate::event::EventLink;
use crate::input::{InputFate, QueuedInput};
use crate::tool_call::ToolCall;
use crate::update::ConversationState;

/// A value as it is stored, with the commit that wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// The commit that wrote it.
    pub version: CommitNumber,
}

impl<T> Versioned<T> {
    pub(super) const fn new(value: T, version: CommitNumber) -> Self {
        Self { value, version }
    }
}

/// What only the holder of the lease writes.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreRow {
    /// The project.
    pub project_id: ProjectId,
    /// Whose it is.
    pub owner_id: String,
    /// The lead.
    pub parent_conversation_id: Option<ConversationId>,
    /// The call that delegated.
    pub parent_tool_call_id: Option<ToolCallId>,
    /// The newest event of the selected branch.
    pub head: Option<EventLink>,
    /// The execution that is open.
    pub open_execution: Option<OpenExecution>,
    /// What the conversation's own requests have used.
    pub usage_own: Usage,
    /// The status by the records of the last owner batch; paused is not known here.
    pub status: Status,
    /// The sequence of the next event.
    pub next_event_sequence: u64,
    /// The chain hash of the event with the last sequence.
    pub chain_hash: Digest,
    /// Grows with each owner batch.
    pub revision: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// What anyone may write, guarded by its version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MailboxRow {
    /// Whether wakes and model requests are blocked.
    pub paused: bool,
    /// What is to end as cancelled.
    pub cancel_mark: Option<CancelMark>,
    /// Inputs with an acceptance sequence up to here do not wake; 0 holds none.
    pub held_through: u64,
    /// The acceptance sequence of the last input that was accepted; the first one gets 1.
    pub last_input_sequence: u64,
    /// Grows with each change of this row.
    pub mailbox_sequence: u64,
    /// The slot of the next command outcome.
    pub next_outcome: u8,
    /// The title.
    pub title: Option<String>,
    /// Executions since the last user prompt that no person asked for.
    pub automatic_executions: u32,
    /// When a prompt was last delivered.
    pub last_user_message_at: Option<Timestamp>,
    /// What children have used.
    pub usage_children: Usage,
}

/// What became of an input, and a digest of its content, by which a repetition is told from a misuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// What became of it.
    pub fate: InputFate,
    /// SHA-256 of its content.
    pub content: Digest,
}

/// A command that was carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct OutcomeRow {
    /// The command.
    pub command_id: CommandId,
    /// SHA-256 of what was asked.
    pub request: Digest,
    /// What came of it.
    pub outcome: CommandOutcome,
}

/// What a conversation last read of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// The canonical path.
    pub path: String,
    /// SHA-256 of the content that was read or written.
    pub digest: Digest,
}

/// What was decided about a document that lies outside of the store. Its bytes that were accepted last have a row of
/// their own, as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRow {
    /// The document's name, for who looks at the store.
    pub name: String,
    /// How often it was written.
    pub revision: u64,
    /// The digests that are accepted.
    pub accepted: Vec<Digest>,
    /// The digests that were refused.
    pub rejected: Vec<Digest>,
}

/// Everything of a conversation but its events, with versions. The holder of the lease keeps it in memory; each
/// commit extends it.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The conversation.
    pub id: ConversationId,
    /// What its owner writes.
    pub core: Versioned<CoreRow>,
    /// What anyone may write.
    pub mailbox: Versioned<MailboxRow>,
    /// Its settings.
    pub config: Versioned<Arc<ConversationConfig>>,
    /// Who may write the core row.
    pub lease: Option<Versioned<Lease>>,
    /// Calls that are not settled.
    pub calls: BTreeMap<ToolCallId, Versioned<Arc<ToolCall>>>,
    /// Inputs that are not delivered, by acceptance sequence.
    pub queue: BTreeMap<u64, Versioned<QueuedInput>>,
    /// The last commands, by slot, as they are stored: there are up to 64 whenever work on a conversation begins,
    /// and next to never is one of them looked for.
    pub outcomes: BTreeMap<u8, Bytes>,
    /// The list of things to do.
    pub todos: Option<Versioned<Vec<Todo>>>,
    /// The conversation's documents, by name.
    pub documents: BTreeMap<String, Versioned<Vec<u8>>>,
    /// Whether the conversation is listed as unfinished.
    pub listed: bool,
}

impl Rows {
    /// The conversation as a host sees it.
    #[must_use]
    pub fn record(&self) -> ConversationRecord {
        record(self.id, &self.core.value, &self.mailbox.value, self.calls.is_empty())
    }

    /// The state as a follower sees it.
    #[must_use]
    pub fn state(&self) -> ConversationState {
        let mut interactions: Vec<_> =
            self.calls.values().filter_map(|call| call.value.interaction.clone()).collect();
        interactions.sort_by_key(|interaction| (interaction.opened_at, interaction.id));
        ConversationState {
            conversation: self.record(),
            config: self.config.value.clone(),
            queue: self.queue.values().map(|input| input.value.clone()).collect(),
            interactions,
            policy_problems: Vec::new(),
            store_available: true,
        }
    }

    /// The id of the execution that is open.
    #[must_use]
    pub fn open_execution(&self) -> Option<ExecutionId> {
        self.core.value.open_execution.as_ref().map(|open| open.id)
    }

    /// Whether the open execution is marked to end as cancelled.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        let mark = self.mailbox.value.cancel_mark.map(|mark| mark.execution_id);
        mark.is_some() && mark == self.open_execution()
    }

    /// The command with this id, if it is among the last ones.
    pub fn outcome(&self, id: CommandId) -> Result<Option<OutcomeRow>, StoreError> {
        let name = id.to_string();
        let named = self.outcomes.values().filter(|bytes| memmem::find(bytes, name.as_bytes()).is_some());
        for bytes in named {
            let row = OutcomeRow::decode(bytes).map_err(Box::new)?;
            if row.command_id == id {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// The queued input with this id.
    #[must_use]
    pub fn queued(&self, id: InputId) -> Option<&QueuedInput> {
        self.queue.values().map(|row| &row.value).find(|input| input.id == id)
    }
}

/// The wake rule's condition on an input: it starts an execution by itself.
pub(crate) fn wakes(mailbox: &MailboxRow, input: &QueuedInput) -> bool {
    input.wake_when_idle && input.acceptance_sequence > mailbox.held_through
}

pub(super) fn record(
    id: ConversationId,
    core: &CoreRow,
    mailbox: &MailboxRow,
    no_calls: bool,
) -> ConversationRecord {
    let mut usage = core.usage_own;
    usage += mailbox.usage_children;
    let status = match core.status {
        Status::Running if mailbox.paused && no_calls => Status::Paused,
        status => status,
    };
    ConversationRecord {
        id,
        project_id: core.project_id,
        owner_id: core.owner_id.clone(),
        parent_conversation_id: core.parent_conversation_id,
        title: mailbox.title.clone(),
        head_event_id: core.head.map(|head| head.id),
        open_execution: core.open_execution.clone(),
        paused: mailbox.paused,
        status,
        usage,
        next_event_sequence: core.next_event_sequence,
        revision: core.revision,
        created_at: core.created_at,
        updated_at: core.updated_at,
        last_user_message_at: mailbox.last_user_message_at,
    }
}
