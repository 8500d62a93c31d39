//! Checking, measuring and compacting a store.

use nervekit_types::{ConversationId, Digest};
use serde::{Deserialize, Serialize};

use super::load::EventRange;
use super::{Store, StoreError, key};
use crate::backend::{Maintenance, MaintenanceReport, Range};

/// How many rows are read at once.
const PAGE: usize = 512;

/// How large a store is.
///
/// ```
/// use nervekit_conversation_core::StoreStats;
/// fn words(stats: &StoreStats) -> String {
///     format!("{} conversations, {} events", stats.conversations, stats.events)
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoreStats {
    /// Projects.
    pub projects: u64,
    /// Conversations.
    pub conversations: u64,
    /// Conversations with something unfinished.
    pub unfinished: u64,
    /// Events of all conversations.
    pub events: u64,
    /// Bytes the backend occupies, where it can tell.
    pub bytes: Option<u64>,
}

/// What a check found.
///
/// ```
/// use nervekit_conversation_core::VerifyReport;
/// assert!(VerifyReport::default().is_clean());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Conversations that were checked.
    pub conversations: u64,
    /// Events that were checked.
    pub events: u64,
    /// What is wrong, in words that name the conversation and the first event of it that breaks the chain.
    pub faults: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }
}

impl Store {
    /// Sizes. Reads keys only, in pages.
    pub async fn stats(&self) -> Result<StoreStats, StoreError> {
        let report = self.backend.maintain(Maintenance::Stats).await?;
        let mut stats = StoreStats { bytes: report.bytes, ..StoreStats::default() };
        stats.projects = self.projects().await?.len() as u64;
        stats.unfinished = self.unfinished().await?.len() as u64;
        let mut after: Option<ConversationId> = None;
        loop {
            let page = self.conversations(None, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(stats) };
            after = Some(last.id);
            stats.conversations += page.len() as u64;
            stats.events += page.iter().map(|conversation| conversation.next_event_sequence).sum::<u64>();
        }
    }

    /// Gives unused space back, where the backend can.
    pub async fn compact(&self) -> Result<MaintenanceReport, StoreError> {
        Ok(self.backend.maintain(Maintenance::Compact).await?)
    }

    /// Checks the backend, the chain of events of every conversation, that sequences are dense and heads reachable,
    /// that no row is without its conversation, and that the list of unfinished conversations is what a full scan
    /// finds.
    pub async fn verify(&self) -> Result<VerifyReport, StoreError> {
        let backend = self.backend.maintain(Maintenance::Verify).await?;
        let mut report = VerifyReport { faults: backend.faults, ..VerifyReport::default() };
        let mut start = bytes::Bytes::new();
        loop {
            let range = Range::new(key::CORE).start(start.clone()).limit(PAGE);
            let rows = self.backend.range(vec![range]).await?.pop().unwrap_or_default();
            for row in &rows {
                if let Some(id) = key::conversation(&row.key) {
                    self.verify_conversation(id, &mut report).await?;
                }
            }
            let Some(last) = rows.last() else { break };
            start = [&last.key[..], &[0]].concat().into();
        }
        self.verify_orphans(&mut report).await?;
        Ok(report)
    }

    async fn verify_conversation(
        &self,
        id: ConversationId,
        report: &mut VerifyReport,
    ) -> Result<(), StoreError> {
        report.conversations += 1;
        let rows = match self.load(id).await {
            Ok(Some(rows)) => rows,
            Ok(None) => return Ok(()),
            Err(StoreError::Backend(error)) => return Err(error.into()),
            Err(error) => {
                report.faults.push(format!("`{id}`: {error}"));
                return Ok(());
            }
        };
        if rows.listed != rows.is_unfinished() {
            report
                .faults
                .push(format!("`{id}`: listed as unfinished: {}, but is: {}", rows.listed, !rows.listed));
        }
        let core = &rows.core.value;
        let mut chain = super::record::CHAIN_START;
        let mut expected = 0;
        let mut head_found = core.head.is_none();
        while expected < core.next_event_sequence {
            let range = Range::new(key::EVENTS)
                .start(key::event(id, expected))
                .end(key::event(id, core.next_event_sequence))
                .limit(PAGE);
            let page = self.backend.range(vec![range]).await?.pop().unwrap_or_default();
            if page.is_empty() {
                report.faults.push(format!("`{id}`: event {expected} is missing"));
                return Ok(());
            }
            for row in &page {
                let sequence = key::sequence(&row.key);
                if sequence != Some(expected) {
                    report.faults.push(format!("`{id}`: event {expected} is missing"));
                    return Ok(());
                }
                match super::record::check_event(&row.value, chain) {
                    Ok((event, hash)) => {
                        chain = hash;
                        head_found |=
                            core.head.is_some_and(|head| head.id == event && head.sequence == expected);
                    }
                    Err(error) => {
                        report.faults.push(format!("`{id}`: event {expected}: {error}"));
                        return Ok(());
                    }
                }
                expected += 1;
                report.events += 1;
            }
        }
        self.verify_end(&rows, chain, head_found, report).await
    }

    async fn verify_end(
        &self,
        rows: &super::Rows,
        chain: Digest,
        head_found: bool,
        report: &mut VerifyReport,
    ) -> Result<(), StoreError> {
        let (id, core) = (rows.id, &rows.core.value);
        if chain != core.chain_hash {
            report.faults.push(format!("`{id}`: the chain of events does not end as recorded"));
        }
        if !head_found {
            report.faults.push(format!("`{id}`: the head is not among its events"));
        }
        let beyond = EventRange::from(core.next_event_sequence).limit(1);
        if !self.events(id, beyond).await.is_ok_and(|events| events.is_empty()) {
            report.faults.push(format!("`{id}`: there are events after the last one"));
        }
        Ok(())
    }

    /// Looks for rows whose conversation is gone.
    async fn verify_orphans(&self, report: &mut VerifyReport) -> Result<(), StoreError> {
        for table in [key::MAILBOX, key::CONFIG, key::CALLS, key::QUEUE, key::UNFINISHED] {
            let mut start = bytes::Bytes::new();
            loop {
                let range = Range::new(table).start(start.clone()).limit(PAGE);
                let rows = self.backend.range(vec![range]).await?.pop().unwrap_or_default();
                for row in &rows {
                    let Some(id) = key::conversation(&row.key) else {
                        report.faults.push(format!("a row of `{}` belongs to nothing", table.name()));
                        continue;
                    };
                    if self.backend.get(key::CORE, &key::of(id)).await?.is_none() {
                        report
                            .faults
                            .push(format!("`{id}`: a row of `{}` has no conversation", table.name()));
                    }
                }
                let Some(last) = rows.last() else { break };
                start = [&last.key[..], &[0]].concat().into();
            }
        }
        Ok(())
    }
}

impl super::Rows {
    /// Whether anything of the conversation is unfinished: the condition of the list.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.core.value.open_execution.is_some()
            || !self.calls.is_empty()
            || self.queue.values().any(|input| super::row::wakes(&self.mailbox.value, &input.value))
    }
}
