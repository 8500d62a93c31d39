//! The tables, and how their keys are made: fixed-width, big-endian, the conversation first, so that everything
//! of one conversation is one range in each table.

use bytes::{BufMut, Bytes, BytesMut};
use nervekit_permissions::{DocumentId, DocumentOwner};
use nervekit_types::{ConversationId, Digest, InputId, ProjectId, RawId, ToolCallId};

use crate::backend::Table;

pub(super) const META: Table = Table::new("meta");
pub(super) const PROJECTS: Table = Table::new("projects");
pub(super) const PROJECT_CONVERSATIONS: Table = Table::new("project_conversations");
pub(super) const CORE: Table = Table::new("core");
pub(super) const MAILBOX: Table = Table::new("mailbox");
pub(super) const CONFIG: Table = Table::new("config");
pub(super) const LEASES: Table = Table::new("leases");
pub(super) const EVENTS: Table = Table::new("events");
pub(super) const CALLS: Table = Table::new("calls");
pub(super) const QUEUE: Table = Table::new("queue");
pub(super) const FATES: Table = Table::new("fates");
pub(super) const OUTCOMES: Table = Table::new("outcomes");
pub(super) const TODOS: Table = Table::new("todos");
pub(super) const DOCUMENTS: Table = Table::new("documents");
pub(super) const FILE_READS: Table = Table::new("file_reads");
pub(super) const POLICIES: Table = Table::new("policies");
pub(super) const UNFINISHED: Table = Table::new("unfinished");
pub(super) const INDEX: Table = Table::new("event_index");
pub(super) const TRUST: Table = Table::new("trust");
pub(super) const ACCEPTED: Table = Table::new("accepted");

/// The key of the format marker in [`META`].
pub(super) const FORMAT: &[u8] = b"format";

fn raw(id: RawId) -> Bytes {
    Bytes::copy_from_slice(&id.to_bytes())
}

fn pair(first: RawId, second: &[u8]) -> Bytes {
    let mut key = BytesMut::with_capacity(16 + second.len());
    key.put_slice(&first.to_bytes());
    key.put_slice(second);
    key.freeze()
}

pub(super) fn project(id: ProjectId) -> Bytes {
    raw(id.raw())
}

pub(super) fn project_conversation(project: ProjectId, conversation: ConversationId) -> Bytes {
    pair(project.raw(), &conversation.raw().to_bytes())
}

pub(super) fn of(id: ConversationId) -> Bytes {
    raw(id.raw())
}

pub(super) fn event(conversation: ConversationId, sequence: u64) -> Bytes {
    pair(conversation.raw(), &sequence.to_be_bytes())
}

pub(super) fn call(conversation: ConversationId, call: ToolCallId) -> Bytes {
    pair(conversation.raw(), &call.raw().to_bytes())
}

pub(super) fn queued(conversation: ConversationId, acceptance_sequence: u64) -> Bytes {
    pair(conversation.raw(), &acceptance_sequence.to_be_bytes())
}

pub(super) fn fate(conversation: ConversationId, input: InputId) -> Bytes {
    pair(conversation.raw(), &input.raw().to_bytes())
}

pub(super) fn outcome(conversation: ConversationId, slot: u8) -> Bytes {
    pair(conversation.raw(), &[slot])
}

pub(super) fn document(conversation: ConversationId, name: &str) -> Bytes {
    pair(conversation.raw(), name.as_bytes())
}

pub(super) fn file_read(conversation: ConversationId, path: &str) -> Bytes {
    pair(conversation.raw(), Digest::of(path).as_bytes())
}

/// Of a document that lies outside of the store: names and paths may be of any length, and of any bytes. None for an
/// owner of a kind that is not known here.
pub(super) fn outside(document: &DocumentId) -> Option<Bytes> {
    let (kind, owner) = match &document.owner {
        DocumentOwner::User(None) => ("user", &[][..]),
        DocumentOwner::User(Some(id)) => ("other user", id.as_bytes()),
        DocumentOwner::Project(folder) => ("project", folder.as_os_str().as_encoded_bytes()),
        DocumentOwner::Conversation(id) => ("conversation", &id.raw().to_bytes()[..]),
        _ => return None,
    };
    let digest = Digest::of_parts([kind.as_bytes(), owner, document.name.as_bytes()]);
    Some(Bytes::copy_from_slice(digest.as_bytes()))
}

pub(super) fn index(place: u64) -> Bytes {
    Bytes::copy_from_slice(&place.to_be_bytes())
}

/// The conversation that a key begins with.
pub(super) fn conversation(key: &[u8]) -> Option<ConversationId> {
    key.first_chunk::<16>().map(|bytes| ConversationId::from_raw(RawId::from_bytes(*bytes)))
}

/// The number that a key ends with.
pub(super) fn sequence(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
}

/// The last sixteen bytes of a key as an id.
pub(super) fn last_id(key: &[u8]) -> Option<RawId> {
    key.last_chunk::<16>().map(|bytes| RawId::from_bytes(*bytes))
}
