//! Reading: each method is one consistent read of the backend.

use std::collections::BTreeMap;
use std::sync::Arc;

use nervekit_types::{ConversationId, Digest, InputId, ProjectId, ToolCallId};

use super::record::{self, IndexEntry, Record};
use super::row::{CoreRow, Fate, FileRead, MailboxRow, Rows, Versioned};
use super::{NEWEST_RECORD_VERSION, OLDEST_RECORD_VERSION, Store, StoreError, key};
use crate::backend::{Change, Expect, Range, Row, Table, Write, WriteSet};
use crate::conversation::{ConversationConfig, ConversationRecord, Lease, ProjectRecord, Todo};
use crate::event::Event;
use crate::input::QueuedInput;
use crate::tool_call::ToolCall;

/// Which events of a conversation to read, by sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRange {
    /// The first.
    pub first: u64,
    /// The one after the last.
    pub end: u64,
    /// At most this many.
    pub limit: usize,
    /// From the last to the first.
    pub reverse: bool,
}

impl EventRange {
    /// Every event from this one on.
    #[must_use]
    pub const fn from(first: u64) -> Self {
        Self { first, end: u64::MAX, limit: usize::MAX, reverse: false }
    }

    /// At most this many.
    #[must_use]
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// The events before this one, last first.
    #[must_use]
    pub const fn before(end: u64) -> Self {
        Self { first: 0, end, limit: usize::MAX, reverse: true }
    }
}

fn decoded<T: Record>(row: &Row) -> Result<Versioned<T>, StoreError> {
    Ok(Versioned::new(T::decode(&row.value).map_err(Box::new)?, row.version))
}

pub(super) fn first<T: Record>(rows: &[Row]) -> Result<Option<Versioned<T>>, StoreError> {
    rows.first().map(decoded).transpose()
}

impl Store {
    async fn row<T: Record>(&self, table: Table, key: &[u8]) -> Result<Option<Versioned<T>>, StoreError> {
        self.backend.get(table, key).await?.as_ref().map(decoded).transpose()
    }

    pub(super) async fn check_format(&self) -> Result<(), StoreError> {
        let Some(row) = self.backend.get(key::META, key::FORMAT).await? else {
            let marker = record::format_marker(OLDEST_RECORD_VERSION, NEWEST_RECORD_VERSION);
            let mut set = WriteSet::new(nervekit_types::BatchId::next(&self.ids));
            set.writes
                .push(Write::new(key::META, key::FORMAT, Change::Put(marker.into())).expect(Expect::Absent));
            // Should another one be faster, it wrote the same.
            self.backend.write(vec![set]).await?;
            return Ok(());
        };
        let (oldest, newest) = record::read_format_marker(&row.value).map_err(Box::new)?;
        if newest > NEWEST_RECORD_VERSION || oldest < OLDEST_RECORD_VERSION {
            return Err(StoreError::Newer {
                found: newest,
                oldest: OLDEST_RECORD_VERSION,
                newest: NEWEST_RECORD_VERSION,
            });
        }
        Ok(())
    }

    /// A project.
    pub async fn project(&self, id: ProjectId) -> Result<Option<Versioned<ProjectRecord>>, StoreError> {
        self.row(key::PROJECTS, &key::project(id)).await
    }

    /// All projects, in the order of their ids.
    pub async fn projects(&self) -> Result<Vec<ProjectRecord>, StoreError> {
        let rows = self.backend.range(vec![Range::new(key::PROJECTS)]).await?;
        rows.iter().flatten().map(|row| Ok(decoded(row)?.value)).collect()
    }

    /// The rows of a conversation.
    pub async fn load(&self, id: ConversationId) -> Result<Option<Rows>, StoreError> {
        let tables = [
            key::CORE,
            key::MAILBOX,
            key::CONFIG,
            key::LEASES,
            key::CALLS,
            key::QUEUE,
            key::OUTCOMES,
            key::TODOS,
            key::DOCUMENTS,
            key::UNFINISHED,
        ];
        let ranges = tables.iter().map(|table| Range::prefix(*table, key::of(id))).collect();
        let found = self.backend.range(ranges).await?;
        let Ok([core, mailbox, config, lease, calls, queue, outcomes, todos, documents, unfinished]) =
            <[Vec<Row>; 10]>::try_from(found)
        else {
            return Err(StoreError::Damaged("the backend answered another number of ranges".into()));
        };
        let Some(core) = first::<CoreRow>(&core)? else { return Ok(None) };
        let missing = |what: &str| StoreError::Damaged(format!("`{id}` has no {what} record").into());
        Ok(Some(Rows {
            id,
            core,
            mailbox: first::<MailboxRow>(&mailbox)?.ok_or_else(|| missing("mailbox"))?,
            config: first::<Arc<ConversationConfig>>(&config)?.ok_or_else(|| missing("config"))?,
            lease: first::<Lease>(&lease)?,
            calls: keyed(
                &calls,
                |key| key::last_id(key).map(ToolCallId::from_raw),
                decoded::<Arc<ToolCall>>,
            )?,
            queue: keyed(&queue, key::sequence, decoded::<QueuedInput>)?,
            outcomes: keyed(&outcomes, |key| key.last().copied(), |row| Ok(row.value.clone()))?,
            todos: first::<Vec<Todo>>(&todos)?,
            documents: keyed(
                &documents,
                |key| key.get(16..).and_then(|name| String::from_utf8(name.to_vec()).ok()),
                |row| Ok(Versioned::new(row.value.to_vec(), row.version)),
            )?,
            listed: !unfinished.is_empty(),
        }))
    }

    /// Events of a conversation.
    pub async fn events(&self, id: ConversationId, range: EventRange) -> Result<Vec<Event>, StoreError> {
        let mut rows = Range::new(key::EVENTS)
            .start(key::event(id, range.first))
            .end(key::event(id, range.end))
            .limit(range.limit);
        if range.reverse {
            rows = rows.reverse();
        }
        let found = self.backend.range(vec![rows]).await?;
        found.iter().flatten().map(|row| Ok(record::decode_event(&row.value).map_err(Box::new)?)).collect()
    }

    /// Conversations, newest first, older than one; of one project or all.
    pub async fn conversations(
        &self,
        project: Option<ProjectId>,
        before: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<ConversationRecord>, StoreError> {
        let mut range = match project {
            Some(project) => Range::prefix(key::PROJECT_CONVERSATIONS, key::project(project)),
            None => Range::new(key::CORE),
        };
        if let Some(before) = before {
            range = range.end(match project {
                Some(project) => key::project_conversation(project, before),
                None => key::of(before),
            });
        }
        let listed = self.backend.range(vec![range.limit(limit).reverse()]).await?;
        let ids: Vec<ConversationId> = listed
            .iter()
            .flatten()
            .filter_map(|row| key::last_id(&row.key).map(ConversationId::from_raw))
            .collect();
        let ranges = ids
            .iter()
            .flat_map(|id| {
                [key::CORE, key::MAILBOX, key::CALLS].map(|table| Range::prefix(table, key::of(*id)))
            })
            .collect();
        let rows = self.backend.range(ranges).await?;
        let mut records = Vec::with_capacity(ids.len());
        for (id, found) in ids.iter().zip(rows.chunks(3)) {
            if let [core, mailbox, calls] = found
                && let (Some(core), Some(mailbox)) = (first::<CoreRow>(core)?, first::<MailboxRow>(mailbox)?)
            {
                records.push(super::row::record(*id, &core.value, &mailbox.value, calls.is_empty()));
            }
        }
        Ok(records)
    }

    /// What became of an input.
    pub async fn fate(&self, id: ConversationId, input: InputId) -> Result<Option<Fate>, StoreError> {
        Ok(self.row(key::FATES, &key::fate(id, input)).await?.map(|row| row.value))
    }

    /// What the conversation last read or wrote of a file.
    pub async fn file_read(&self, id: ConversationId, path: &str) -> Result<Option<Digest>, StoreError> {
        let row = self.row::<FileRead>(key::FILE_READS, &key::file_read(id, path)).await?;
        // The key is a digest of the path; the path is compared all the same.
        Ok(row.filter(|row| row.value.path == path).map(|row| row.value.digest))
    }

    /// The calls of a conversation that are not settled.
    pub async fn calls(&self, id: ConversationId) -> Result<Vec<ToolCall>, StoreError> {
        let rows = self.backend.range(vec![Range::prefix(key::CALLS, key::of(id))]).await?;
        rows.iter().flatten().map(|row| Ok(decoded::<ToolCall>(row)?.value)).collect()
    }

    /// Who may write the core row of a conversation.
    pub async fn lease(&self, id: ConversationId) -> Result<Option<Lease>, StoreError> {
        Ok(self.row::<Lease>(key::LEASES, &key::of(id)).await?.map(|row| row.value))
    }

    /// The bytes of an effective policy.
    pub async fn policy(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.backend.get(key::POLICIES, digest.as_bytes()).await?.map(|row| row.value.to_vec()))
    }

    /// Entries of the event index from a place on, and the place to continue at.
    pub(crate) async fn index_from(
        &self,
        place: u64,
        limit: usize,
    ) -> Result<(Vec<(u64, IndexEntry)>, u64), StoreError> {
        self.find_lost().await;
        let end = self.index.readable_end();
        if place >= end {
            return Ok((Vec::new(), place));
        }
        let range = Range::new(key::INDEX).start(key::index(place)).end(key::index(end)).limit(limit);
        let found = self.backend.range(vec![range]).await?;
        let mut entries = Vec::new();
        for row in found.iter().flatten() {
            if let Some(at) = key::sequence(&row.key) {
                entries.push((at, decoded::<IndexEntry>(row)?.value));
            }
        }
        let next = if entries.len() < limit { end } else { entries.last().map_or(end, |(at, _)| at + 1) };
        Ok((entries, next))
    }

    /// Asks after the batches whose fate was unknown. A batch that is not durable is not going to be at the places
    /// it had: when it is committed again it gets others.
    async fn find_lost(&self) {
        for (place, batch) in self.index.lost() {
            if self.backend.applied(batch).await.is_ok() {
                self.index.find(place);
            }
        }
    }

    /// The place after the last readable entry of the event index.
    pub(crate) fn index_end(&self) -> u64 {
        self.index.readable_end()
    }
}

fn keyed<K: Ord, V>(
    rows: &[Row],
    key: impl Fn(&[u8]) -> Option<K>,
    value: impl Fn(&Row) -> Result<V, StoreError>,
) -> Result<BTreeMap<K, V>, StoreError> {
    rows.iter()
        .map(|row| {
            let key = key(&row.key).ok_or_else(|| StoreError::Damaged("a key has another form".into()))?;
            Ok((key, value(row)?))
        })
        .collect()
}
