//! Committing: a batch of changes becomes one conditional write of the backend.

use std::sync::Arc;

use bytes::Bytes;
use nervekit_types::{BatchId, ConversationId};

use super::change::{Change, LeaseStep, Role};
use super::record::{self, IndexEntry, Record, RecordError};
use super::row::{Rows, Versioned, wakes};
use super::{CommitError, Store, StoreError, key};
use crate::backend::{
    BackendError, Change as RowChange, CommitNumber, Expect, Refused, Table, Write, WriteSet,
};
use crate::conversation::{ConversationConfig, ProjectRecord};
use crate::event::Event;
use crate::store::row::{CoreRow, MailboxRow};

/// The most bytes that one batch may write: a database takes them in one transaction without trouble, and two of
/// the largest events fit.
const MAX_BATCH_BYTES: u64 = 16 * 1024 * 1024;

/// The length in bytes that few records exceed: their buffer need not grow.
const TYPICAL_RECORD: usize = 4 * 1024;

/// How often a place in the event index is tried when another store over the same backend took it.
const INDEX_ATTEMPTS: u32 = 64;

/// One atomic durable change. Committing it twice is harmless: it has an id, and the second time answers as the
/// first.
#[derive(Clone, Debug)]
pub struct Batch {
    id: BatchId,
    writes: Vec<Write>,
    appended: Vec<IndexEntry>,
    parts: Vec<Part>,
    /// Where records are written before their length is known: a value is then one piece of memory of that
    /// length.
    scratch: Vec<u8>,
    /// Why a record cannot be stored: then nothing is.
    unwritable: Option<Box<RecordError>>,
}

/// What a batch does to one conversation, ready to be taken over by its rows.
#[derive(Clone, Debug)]
struct Part {
    conversation_id: ConversationId,
    change: Change,
    /// The command it remembers, as it is stored.
    outcome: Option<(u8, Bytes)>,
    listed: bool,
}

/// A batch that is durable.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The number of the commit: the version of every record it wrote.
    pub number: CommitNumber,
    /// The events it appended, with their chain hashes.
    pub events: Vec<Arc<Event>>,
    parts: Vec<Part>,
}

impl Batch {
    pub(super) fn new(id: BatchId) -> Self {
        Self {
            id,
            writes: Vec::new(),
            appended: Vec::new(),
            parts: Vec::new(),
            scratch: Vec::with_capacity(TYPICAL_RECORD),
            unwritable: None,
        }
    }

    /// The batch's id.
    #[must_use]
    pub const fn id(&self) -> BatchId {
        self.id
    }

    fn write(&mut self, table: Table, key: Bytes, expect: Expect, change: RowChange) {
        self.writes.push(Write::new(table, key, change).expect(expect));
    }

    /// Puts a record. Returns its bytes, unless it cannot be stored.
    pub(super) fn put<T: Record>(
        &mut self,
        table: Table,
        key: Bytes,
        expect: Expect,
        value: &T,
    ) -> Option<Bytes> {
        self.scratch.clear();
        let written = value.write(&mut self.scratch);
        self.put_scratch(table, key, expect, written)
    }

    /// Puts what stands in the scratch.
    fn put_scratch(
        &mut self,
        table: Table,
        key: Bytes,
        expect: Expect,
        written: Result<(), RecordError>,
    ) -> Option<Bytes> {
        if let Err(error) = written {
            self.unwritable = Some(Box::new(error));
            return None;
        }
        let value = Bytes::copy_from_slice(&self.scratch);
        self.put_bytes(table, key, expect, value.clone());
        Some(value)
    }

    /// Puts what is stored as it is.
    fn put_bytes(&mut self, table: Table, key: Bytes, expect: Expect, value: impl Into<Bytes>) {
        self.write(table, key, expect, RowChange::Put(value.into()));
    }

    /// Puts a row, or deletes it if there is nothing to put.
    fn put_or_delete<T: Record>(&mut self, table: Table, key: Bytes, expect: Expect, value: Option<&T>) {
        match value {
            Some(value) => drop(self.put(table, key, expect, value)),
            None => self.write(table, key, expect, RowChange::Delete),
        }
    }

    /// Puts what is stored as it is, or deletes the row if there is nothing to put.
    pub(super) fn put_bytes_or_delete(
        &mut self,
        table: Table,
        key: Bytes,
        expect: Expect,
        value: Option<Bytes>,
    ) {
        self.write(table, key, expect, value.map_or(RowChange::Delete, RowChange::Put));
    }

    /// Adds a project, or replaces the one that was read with this version.
    pub fn project(&mut self, project: &ProjectRecord, read: Option<CommitNumber>) {
        let expect = read.map_or(Expect::Absent, Expect::Version);
        self.put(key::PROJECTS, key::project(project.id), expect, project);
    }

    /// Adds a conversation without events to a project that was read with this version.
    pub fn create(
        &mut self,
        id: ConversationId,
        core: &CoreRow,
        config: &ConversationConfig,
        mailbox: &MailboxRow,
        project_read: CommitNumber,
    ) {
        let project = core.project_id;
        self.write(key::PROJECTS, key::project(project), Expect::Version(project_read), RowChange::Keep);
        self.put(key::CORE, key::of(id), Expect::Absent, core);
        self.put(key::MAILBOX, key::of(id), Expect::Absent, mailbox);
        self.put(key::CONFIG, key::of(id), Expect::Absent, config);
        let place = key::project_conversation(project, id);
        self.put_bytes(key::PROJECT_CONVERSATIONS, place, Expect::Absent, Bytes::new());
    }

    /// Adds a change of a conversation, drafted on these rows.
    ///
    /// A mailbox change that touches what only the owner may write is refused here, before anything is written.
    pub fn change(&mut self, rows: &Rows, mut change: Change) -> Result<(), StoreError> {
        if change.role == Role::Mailbox
            && (change.core.is_some() || !change.events.is_empty() || change.lease != LeaseStep::Keep)
        {
            return Err(StoreError::Damaged(
                "a mailbox change may not write what belongs to the owner".into(),
            ));
        }
        let id = rows.id;
        self.lease(rows, &change);
        self.events(rows, &mut change);
        if let Some(core) = &change.core {
            self.put(key::CORE, key::of(id), Expect::Version(rows.core.version), core);
        } else if change.guards_core {
            self.write(key::CORE, key::of(id), Expect::Version(rows.core.version), RowChange::Keep);
        }
        if let Some(mailbox) = &change.mailbox {
            self.put(key::MAILBOX, key::of(id), Expect::Version(rows.mailbox.version), mailbox);
        } else if change.guards_mailbox {
            self.write(key::MAILBOX, key::of(id), Expect::Version(rows.mailbox.version), RowChange::Keep);
        }
        if let Some(config) = &change.config {
            self.put(key::CONFIG, key::of(id), Expect::Version(rows.config.version), config);
        }
        for (call, changed) in &change.calls {
            let expect = rows.calls.get(call).map_or(Expect::Absent, |row| Expect::Version(row.version));
            self.put_or_delete(key::CALLS, key::call(id, *call), expect, changed.as_deref());
        }
        for (at, changed) in &change.queue {
            let expect = rows.queue.get(at).map_or(Expect::Absent, |row| Expect::Version(row.version));
            self.put_or_delete(key::QUEUE, key::queued(id, *at), expect, changed.as_ref());
        }
        for (input, fate) in &change.fates {
            // The mailbox row's version guards these: a fate changes only with the queue. One that is new is new
            // for ever: an id that somebody else has used meanwhile is not used again.
            let expect = if rows.queued(*input).is_some() { Expect::Any } else { Expect::Absent };
            self.put(key::FATES, key::fate(id, *input), expect, fate);
        }
        let outcome = change.outcome.take().and_then(|(slot, outcome)| {
            let value = self.put(key::OUTCOMES, key::outcome(id, slot), Expect::Any, &outcome)?;
            Some((slot, value))
        });
        if let Some(todos) = &change.todos {
            self.put(key::TODOS, key::of(id), Expect::Any, todos);
        }
        for (name, content) in &change.documents {
            let expect = rows.documents.get(name).map_or(Expect::Absent, |row| Expect::Version(row.version));
            self.put_bytes(key::DOCUMENTS, key::document(id, name), expect, content.clone());
        }
        for read in &change.file_reads {
            self.put(key::FILE_READS, key::file_read(id, &read.path), Expect::Any, read);
        }
        for (digest, bytes) in &change.policies {
            let place = Bytes::copy_from_slice(digest.as_bytes());
            self.put_bytes(key::POLICIES, place, Expect::Any, bytes.clone());
        }
        let listed = self.list(rows, &change);
        self.parts.push(Part { conversation_id: id, change, outcome, listed });
        Ok(())
    }

    fn lease(&mut self, rows: &Rows, change: &Change) {
        if change.role == Role::Mailbox {
            return;
        }
        let place = key::of(rows.id);
        let expect = rows.lease.as_ref().map_or(Expect::Absent, |lease| Expect::Version(lease.version));
        match change.lease {
            LeaseStep::Hold(lease) => drop(self.put(key::LEASES, place, expect, &lease)),
            LeaseStep::Release => {
                if let Some(lease) = &rows.lease {
                    self.put(key::LEASES, place, expect, &lease.value.given_back());
                }
            }
            LeaseStep::Keep => self.write(key::LEASES, place, expect, RowChange::Keep),
        }
    }

    /// Writes the events, chained, and tells the core row the last hash.
    fn events(&mut self, rows: &Rows, change: &mut Change) {
        let Change { core: Some(core), events, .. } = change else { return };
        for event in events.iter_mut() {
            let written = record::write_event(event, core.chain_hash, &mut self.scratch);
            core.chain_hash = event.chain_hash;
            self.put_scratch(key::EVENTS, key::event(rows.id, event.sequence), Expect::Absent, written);
        }
        if let (Some(first), Some(last)) = (events.first(), events.last()) {
            self.appended.push(IndexEntry {
                conversation_id: rows.id,
                lead: core.parent_conversation_id,
                project_id: core.project_id,
                first: first.sequence,
                last: last.sequence,
            });
        }
    }

    /// Keeps the list of unfinished conversations, and says whether this one belongs on it.
    ///
    /// What is the owner's to know (an open execution, calls) and what is the mailbox's (inputs that wake) is each
    /// exact only for who writes it. So whoever begins something lists the conversation, and whoever ends the last
    /// of its kind takes it off, unless there is something of the other kind: that batch holds only on unchanged
    /// core and mailbox rows.
    fn list(&mut self, rows: &Rows, change: &Change) -> bool {
        let core = change.core.as_ref().unwrap_or(&rows.core.value);
        let mailbox = change.mailbox.as_ref().unwrap_or(&rows.mailbox.value);
        let worked = rows.core.value.open_execution.is_some() || !rows.calls.is_empty();
        let works = core.open_execution.is_some()
            || rows.calls.keys().any(|id| !change.calls.contains_key(id))
            || change.calls.values().any(Option::is_some);
        let waited = rows.queue.values().any(|row| wakes(&rows.mailbox.value, &row.value));
        let kept =
            rows.queue.iter().filter(|(at, _)| !change.queue.contains_key(*at)).map(|(_, row)| &row.value);
        let waits = kept.chain(change.queue.values().flatten()).any(|input| wakes(mailbox, input));
        let place = key::of(rows.id);
        if (works && !worked) || (waits && !waited) {
            self.put_bytes(key::UNFINISHED, place, Expect::Any, Bytes::new());
        } else if (worked && !works) || (waited && !waits) {
            if change.core.is_none() && !change.guards_core {
                let version = Expect::Version(rows.core.version);
                self.write(key::CORE, place.clone(), version, RowChange::Keep);
            }
            if change.mailbox.is_none() && !change.guards_mailbox {
                let version = Expect::Version(rows.mailbox.version);
                self.write(key::MAILBOX, place.clone(), version, RowChange::Keep);
            }
            if !works && !waits {
                self.write(key::UNFINISHED, place, Expect::Any, RowChange::Delete);
            }
        }
        works || waits
    }

    fn size(&self) -> u64 {
        let bytes = self.writes.iter().map(|write| match &write.change {
            RowChange::Put(value) => write.key.len() + value.len(),
            RowChange::Keep | RowChange::Delete => write.key.len(),
        });
        bytes.map(|bytes| bytes as u64).sum()
    }
}

impl Store {
    /// Commits a batch: all of it, or nothing. After [`CommitError::Unknown`] commit the same batch again; it
    /// asks first whether it is durable already.
    pub async fn commit(&self, batch: &mut Batch) -> Result<Committed, CommitError> {
        if let Some(error) = &batch.unwritable {
            return Err(CommitError::Record(error.clone()));
        }
        let size = batch.size();
        if size > MAX_BATCH_BYTES {
            return Err(CommitError::TooLarge { size, limit: MAX_BATCH_BYTES });
        }
        let mut attempts = 0;
        loop {
            let places: Vec<u64> = batch.appended.iter().map(|_| self.index.allocate()).collect();
            let result = self.write(batch, &places).await;
            let unsettled = matches!(result, Err(CommitError::Unknown(_)));
            for place in places {
                // A place of unknown fate stays in flight, or a reader could pass it by before it appears.
                if unsettled {
                    self.index.lose(batch.id, place);
                } else {
                    self.index.settle(place);
                }
            }
            match result {
                Err(CommitError::Conflict { record })
                    if record == key::INDEX.name() && attempts < INDEX_ATTEMPTS =>
                {
                    // Another store over the same backend was here.
                    attempts += 1;
                    let end = self.stored_index_end().await.map_err(|error| match error {
                        StoreError::Backend(error) => CommitError::Backend(error),
                        _ => CommitError::Conflict { record },
                    })?;
                    self.index.advance_to(end);
                }
                result => return result,
            }
        }
    }

    async fn write(&self, batch: &mut Batch, places: &[u64]) -> Result<Committed, CommitError> {
        let mut set = WriteSet::new(batch.id);
        set.writes.clone_from(&batch.writes);
        for (place, entry) in places.iter().zip(&batch.appended) {
            let change = RowChange::Put(entry.encode().map_err(Box::new)?.into());
            set.writes.push(Write::new(key::INDEX, key::index(*place), change).expect(Expect::Absent));
        }
        let answer = match self.backend.write(vec![set]).await {
            Ok(mut answers) => answers.pop(),
            Err(error @ BackendError::Unknown { .. }) => match self.backend.applied(batch.id).await {
                Ok(Some(number)) => Some(Ok(number)),
                Ok(None) => return Err(CommitError::Backend(not_written(error))),
                Err(_) => return Err(CommitError::Unknown(error)),
            },
            Err(error) => return Err(CommitError::Backend(error)),
        };
        match answer {
            Some(Ok(number)) => Ok(batch.committed(number)),
            Some(Err(refused)) => Err(refusal(&refused)),
            None => Err(CommitError::Conflict { record: "batch" }),
        }
    }
}

fn refusal(refused: &Refused) -> CommitError {
    if refused.table == key::LEASES {
        CommitError::Fenced
    } else if refused.found.is_none() && (refused.table == key::CORE || refused.table == key::MAILBOX) {
        CommitError::NotFound
    } else {
        CommitError::Conflict { record: refused.table.name() }
    }
}

/// The error of a write of which is known by now that it did not happen.
fn not_written(error: BackendError) -> BackendError {
    match error {
        BackendError::Unknown { store, source } => BackendError::Unavailable { store, source },
        error => error,
    }
}

impl Batch {
    fn committed(&mut self, number: CommitNumber) -> Committed {
        let mut parts = std::mem::take(&mut self.parts);
        let events =
            parts.iter_mut().flat_map(|part| std::mem::take(&mut part.change.events)).map(Arc::new).collect();
        Committed { number, events, parts }
    }
}

impl Committed {
    /// Whether the batch changed documents of a conversation.
    #[must_use]
    pub fn documents_of(&self, id: ConversationId) -> bool {
        self.parts.iter().any(|part| part.conversation_id == id && !part.change.documents.is_empty())
    }
}

impl Rows {
    /// Takes over what was committed of this conversation.
    pub fn apply(&mut self, committed: &mut Committed) {
        let number = committed.number;
        if let Some(at) = committed.parts.iter().position(|part| part.conversation_id == self.id) {
            self.apply_part(committed.parts.swap_remove(at), number);
        }
    }

    fn apply_part(&mut self, part: Part, number: CommitNumber) {
        let Part { change, outcome, listed, .. } = part;
        self.listed = listed;
        match change.lease {
            LeaseStep::Hold(lease) => self.lease = Some(Versioned::new(lease, number)),
            LeaseStep::Release => {
                self.lease = self.lease.take().map(|lease| Versioned::new(lease.value.given_back(), number));
            }
            LeaseStep::Keep => {}
        }
        if let Some(core) = change.core {
            self.core = Versioned::new(core, number);
        }
        if let Some(mailbox) = change.mailbox {
            self.mailbox = Versioned::new(mailbox, number);
        }
        if let Some(config) = change.config {
            self.config = Versioned::new(Arc::new(config), number);
        }
        for (id, call) in change.calls {
            match call {
                Some(call) => self.calls.insert(id, Versioned::new(call, number)),
                None => self.calls.remove(&id),
            };
        }
        for (at, input) in change.queue {
            match input {
                Some(input) => self.queue.insert(at, Versioned::new(input, number)),
                None => self.queue.remove(&at),
            };
        }
        if let Some((slot, outcome)) = outcome {
            self.outcomes.insert(slot, outcome);
        }
        if let Some(todos) = change.todos {
            self.todos = Some(Versioned::new(todos, number));
        }
        for (name, content) in change.documents {
            self.documents.insert(name, Versioned::new(content, number));
        }
    }
}
