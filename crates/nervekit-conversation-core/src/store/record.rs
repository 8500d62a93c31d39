//! How records are stored: the only place that knows their bytes.
//!
//! A stored record is one line of JSON, `{"v":1,"lease":{…}}`: the version and the kind first, so that both are
//! known before the rest is read, and a record of a newer build is refused by name. Stored JSON is not the JSON of
//! the API: each version is a module of its own that says field by field how the types of the API are written, and
//! that does not change once a release has written it. Whoever changes a type of the API is made to decide here.
//!
//! An event's value begins with its chain hash, 32 bytes: the SHA-256 of the hash before it and the record.

mod error;
mod json;
#[cfg(test)]
mod tests;
mod v1;

use std::sync::Arc;

use nervekit_types::{ConversationId, Digest, EventId, ProjectId};
use serde::{Deserialize, Serialize};

pub use error::RecordError;

use super::row::{CoreRow, Fate, FileRead, MailboxRow, OutcomeRow, TrustRow};
use crate::conversation::{ConversationConfig, Lease, ProjectRecord, Todo};
use crate::event::Event;
use crate::input::QueuedInput;
use crate::tool_call::ToolCall;

/// The version that is written; up to it, all are read.
const NEWEST: u32 = 1;

/// What is stored as one value.
pub(crate) trait Record: Sized {
    /// The name under which it is stored.
    const KIND: &'static str;

    /// Appends the bytes to store. What they say is what [`decode`](Self::decode) returns; what it could not
    /// return is refused.
    fn write(&self, bytes: &mut Vec<u8>) -> Result<(), RecordError>;

    /// The bytes to store, by themselves.
    fn encode(&self) -> Result<Vec<u8>, RecordError> {
        let mut bytes = Vec::with_capacity(256);
        self.write(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads stored bytes of any version.
    fn decode(bytes: &[u8]) -> Result<Self, RecordError>;
}

impl<T: Record> Record for Arc<T> {
    const KIND: &'static str = T::KIND;

    fn write(&self, bytes: &mut Vec<u8>) -> Result<(), RecordError> {
        T::write(self, bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        T::decode(bytes).map(Self::new)
    }
}

macro_rules! records {
    ($($kind:literal $type:ty = $form:ty;)*) => {
        $(impl Record for $type {
            const KIND: &'static str = $kind;

            fn write(&self, bytes: &mut Vec<u8>) -> Result<(), RecordError> {
                json::write($kind, bytes, |serializer| <$form as v1::Form>::write(self, serializer))
            }

            fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
                json::read($kind, bytes, |deserializer| <$form as v1::Form>::read(deserializer))
            }
        })*

        /// The kinds of records, for the tests that look for fixtures.
        #[cfg(test)]
        const KINDS: &[&str] = &[$($kind),*];
    };
}

records! {
    "project" ProjectRecord = v1::conversation::ProjectRecord;
    "core" CoreRow = v1::conversation::CoreRow;
    "mailbox" MailboxRow = v1::conversation::MailboxRow;
    "config" ConversationConfig = v1::conversation::ConversationConfig;
    "lease" Lease = v1::conversation::Lease;
    "call" ToolCall = v1::call::ToolCall;
    "input" QueuedInput = v1::input::QueuedInput;
    "fate" Fate = v1::input::Fate;
    "outcome" OutcomeRow = v1::conversation::OutcomeRow;
    "todos" Vec<Todo> = v1::Each<v1::conversation::Todo>;
    "file_read" FileRead = v1::conversation::FileRead;
    "trust" TrustRow = v1::conversation::TrustRow;
    "index" IndexEntry = v1::conversation::IndexEntry;
    "event" Event = v1::event::Event;
}

/// Events that one batch appended to a conversation: an entry of the event index, which all conversations share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The conversation.
    pub(crate) conversation_id: ConversationId,
    /// Its lead, if it is a delegated one.
    pub(crate) lead: Option<ConversationId>,
    /// Its project.
    pub(crate) project_id: ProjectId,
    /// The sequence of the first event.
    pub(crate) first: u64,
    /// The sequence of the last event.
    pub(crate) last: u64,
}

/// The hash before the first event.
pub(crate) const CHAIN_START: Digest = Digest::from_bytes([0; HASH]);

/// The length of a chain hash.
const HASH: usize = 32;

/// Writes the value to store of an event that follows one with this hash, in place of what the bytes were. The
/// event is told its own hash.
pub(crate) fn write_event(
    event: &mut Event,
    previous: Digest,
    bytes: &mut Vec<u8>,
) -> Result<(), RecordError> {
    bytes.clear();
    bytes.extend_from_slice(previous.as_bytes());
    event.write(bytes)?;
    event.chain_hash = Digest::of(&*bytes);
    if let Some(hash) = bytes.first_chunk_mut() {
        *hash = *event.chain_hash.as_bytes();
    }
    Ok(())
}

/// Reads the value of an event; whether it is the one that was written is for [`check_event`].
pub(crate) fn decode_event(value: &[u8]) -> Result<Event, RecordError> {
    let (hash, record) = split(value)?;
    let mut event = Event::decode(record)?;
    event.chain_hash = hash;
    Ok(event)
}

/// Checks that an event can be read and follows one with this hash. Returns its id and its own hash.
pub(crate) fn check_event(value: &[u8], previous: Digest) -> Result<(EventId, Digest), RecordError> {
    let (hash, record) = split(value)?;
    if Digest::of([previous.as_bytes().as_slice(), record].concat()) != hash {
        return Err(RecordError::Chain);
    }
    Ok((Event::decode(record)?.id, hash))
}

fn split(value: &[u8]) -> Result<(Digest, &[u8]), RecordError> {
    let (hash, record) =
        value.split_first_chunk::<HASH>().ok_or(RecordError::Foreign { record: Event::KIND })?;
    Ok((Digest::from_bytes(*hash), record))
}

/// Which versions the records of a store may have. Its own form never changes, so that every build can read it.
#[derive(Serialize, Deserialize)]
struct FormatMarker {
    oldest: u32,
    newest: u32,
}

const MARKER: &str = "format";

/// The marker of a store that holds records of these versions.
pub(crate) fn format_marker(oldest: u32, newest: u32) -> Vec<u8> {
    format!(r#"{{"oldest":{oldest},"newest":{newest}}}"#).into_bytes()
}

/// Reads the marker: the oldest and the newest version.
pub(crate) fn read_format_marker(bytes: &[u8]) -> Result<(u32, u32), RecordError> {
    let marker: FormatMarker =
        serde_json::from_slice(bytes).map_err(|_| RecordError::Foreign { record: MARKER })?;
    Ok((marker.oldest, marker.newest))
}
