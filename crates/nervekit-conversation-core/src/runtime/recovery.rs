//! Recovery, the sweep for dead owners, and shutting down.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nervekit_types::{ConversationId, InteractionId, Timestamp, ToolCallId};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::actor::Message;
use super::core::Inner;
use super::plan;
use crate::store::{Draft, Role, StoreError};

/// What recovery found and did.
///
/// ```
/// use nervekit_conversation_core::RecoveryReport;
/// assert!(RecoveryReport::default().is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Conversations whose execution a crash interrupted; `continue_processing` carries them on.
    pub interrupted: Vec<ConversationId>,
    /// Calls of which it is not known whether they had their effect.
    pub indeterminate: Vec<ToolCallId>,
    /// What a person is asked, still.
    pub waiting: Vec<InteractionId>,
    /// Conversations whose queued inputs are delivered now.
    pub delivered: Vec<ConversationId>,
    /// Conversations that go on by themselves: calls that are safe to repeat, executions that the policy continues.
    pub resumed: Vec<ConversationId>,
    /// Conversations that another runtime works on.
    pub held: Vec<ConversationId>,
}

impl RecoveryReport {
    /// Whether nothing was unfinished.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn add(&mut self, mut other: Self) {
        self.interrupted.append(&mut other.interrupted);
        self.indeterminate.append(&mut other.indeterminate);
        self.waiting.append(&mut other.waiting);
        self.delivered.append(&mut other.delivered);
        self.resumed.append(&mut other.resumed);
        self.held.append(&mut other.held);
    }
}

/// What shutting down came to.
///
/// ```
/// use nervekit_conversation_core::ShutdownReport;
/// fn clean(report: &ShutdownReport) -> bool {
///     report.abandoned == 0
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Conversations whose work was brought to a recorded state.
    pub closed: u32,
    /// Conversations that were not done by the deadline; recovery looks after them.
    pub abandoned: u32,
}

/// Recovers what is unfinished. It only writes; what is to be carried on begins when all of it is written.
pub(super) async fn recover(inner: &Arc<Inner>) -> Result<RecoveryReport, StoreError> {
    let mut report = RecoveryReport::default();
    let mut waiting = Vec::new();
    for id in inner.store.unfinished().await? {
        let (done, found) = oneshot::channel();
        inner.send(id, Message::Recover { done });
        waiting.push(found);
    }
    for found in waiting {
        if let Ok(found) = found.await {
            report.add(found);
        }
    }
    super::open_gate(inner);
    Ok(report)
}

/// Looks periodically for conversations with something to be done that nobody holds: whose owner died or shut down,
/// and those that this core itself had to give up while the store was in trouble.
pub(super) fn sweep(inner: &Arc<Inner>) {
    let (weak, period) = (Arc::downgrade(inner), inner.limits.lease);
    inner.runtime.spawn(async move {
        loop {
            tokio::time::sleep(period).await;
            let Some(inner) = weak.upgrade().filter(|inner| !inner.is_closing()) else { return };
            if let Err(error) = sweep_once(&inner).await {
                tracing::warn!(%error, "the sweep for dead owners failed");
            }
        }
    });
}

async fn sweep_once(inner: &Arc<Inner>) -> Result<(), StoreError> {
    if !inner.gate_is_open() {
        return Ok(());
    }
    let now = inner.store.now().await?;
    let running = inner.running_ids();
    for id in inner.store.unfinished().await? {
        if !running.contains(&id) && is_left(inner, id, now).await? {
            inner.send(id, Message::Wake);
        }
    }
    Ok(())
}

/// Whether a conversation without a task here is nobody else's and has something to be done.
async fn is_left(inner: &Inner, id: ConversationId, now: Timestamp) -> Result<bool, StoreError> {
    if let Some(lease) = inner.store.lease(id).await?.filter(|lease| !lease.released) {
        if lease.incarnation == inner.incarnation {
            return Ok(true);
        }
        if lease.is_foreign(inner.incarnation, inner.store.facts().opening, now) {
            return Ok(false);
        }
    }
    let Some(rows) = inner.store.load(id).await? else { return Ok(false) };
    let draft = Draft::new(&rows, Role::Owner, now);
    Ok(!plan::is_at_rest(&draft, inner.limits.automatic_executions))
}

/// Closes every running conversation.
pub(super) async fn shutdown(inner: &Arc<Inner>, deadline: Duration) -> ShutdownReport {
    let until = Instant::now() + deadline;
    inner.closing.store(true, Ordering::SeqCst);
    let mut waiting = Vec::new();
    for id in inner.running_ids() {
        let (done, ended) = oneshot::channel();
        inner.send(id, Message::Close { until, done });
        waiting.push(ended);
    }
    let mut report = ShutdownReport::default();
    for ended in waiting {
        match tokio::time::timeout_at(until, ended).await {
            Ok(Ok(true)) => report.closed += 1,
            _ => report.abandoned += 1,
        }
    }
    inner.finish_telling(until).await;
    inner.permits.close();
    inner.request_permits.close();
    inner.close_feeds();
    report
}
