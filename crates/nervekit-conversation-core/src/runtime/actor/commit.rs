//! Committing from the task of a conversation: drafted on its rows, tried again when somebody else was faster,
//! held back while the store is in trouble.

use std::fmt;
use std::time::Duration;

use nervekit_types::Retry;
use tokio::time::Instant;

use super::{Actor, Message, plan};
use crate::conversation::Lease;
use crate::error::CommandError;
use crate::event::{Event, EventPayload, ExecutionState};
use crate::store::{Change, CommitError, Committed, Draft, FATES, Role, Rows, StoreError};

/// How often a draft is made anew when others write the same rows.
const CONFLICTS: u32 = 32;

/// The first and the longest wait between attempts to reach a store in trouble.
pub(super) const TROUBLE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Why the task of a conversation cannot go on.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another core has the conversation now.
    Fenced,
    /// The conversation is gone.
    Gone,
    /// A command makes no sense in this state; nothing was changed.
    Refused(CommandError),
    /// The store failed for good, or for a command that is not to wait for it.
    Store(StoreError),
}

impl Failure {
    /// The error to answer with, unless a new look at the conversation tells more.
    pub(super) fn error(&self) -> Option<StoreError> {
        match self {
            Self::Fenced | Self::Gone | Self::Refused(_) => None,
            Self::Store(error) => Some(error.again()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced => f.write_str("another runtime took the conversation over"),
            Self::Gone => f.write_str("the conversation is gone"),
            Self::Refused(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

/// Whether a commit waits for a store in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// The runtime's own: finished work is kept in memory until the store takes it.
    Wait,
    /// A command's: it answers with the error.
    Answer,
}

impl Actor {
    pub(super) fn holds_lease(&self) -> bool {
        let mine = |lease: &Lease| !lease.released && lease.incarnation == self.core.incarnation;
        self.rows.lease.as_ref().is_some_and(|lease| mine(&lease.value))
    }

    /// Whether another live core carries the conversation on.
    pub(super) fn is_foreign(&self) -> bool {
        let opening = self.core.store.facts().opening;
        let foreign = |lease: &Lease| lease.is_foreign(self.core.incarnation, opening, self.core.now());
        self.rows.lease.as_ref().is_some_and(|lease| foreign(&lease.value))
    }

    /// Commits what the runtime does on its own.
    pub(super) async fn commit(
        &mut self,
        plan: impl Fn(&mut Draft<'_>, &plan::Planner<'_>) -> Result<(), CommandError>,
    ) -> Result<(), Failure> {
        self.commit_with(Patience::Wait, plan).await
    }

    /// Gives the lease back in a batch of its own, where it could not ride in the last one.
    pub(super) async fn commit_release(&mut self) -> Result<(), Failure> {
        self.commit(|draft, _| {
            draft.release_lease();
            Ok(())
        })
        .await
    }

    /// Gives the lease back unless somebody has written to the mailbox: whoever writes there while another core
    /// holds the conversation relies on being read. Says whether it is given back; else the rows are those of now.
    pub(super) async fn release_if_read(&mut self) -> Result<bool, Failure> {
        let mut draft = Draft::new(&self.rows, Role::Owner, self.core.now());
        draft.release_lease();
        draft.guard_mailbox();
        match self.commit_change(Patience::Wait, draft.finish()).await {
            Ok(()) => Ok(true),
            Err(CommitError::Conflict { .. }) => self.reload_patiently().await.map(|()| false),
            Err(CommitError::Fenced) => Err(Failure::Fenced),
            Err(CommitError::NotFound) => Err(Failure::Gone),
            Err(error) => Err(Failure::Store(error.into())),
        }
    }

    /// Drafts a change on the rows and commits it. If others wrote the same rows, they are read again and the
    /// change is drafted anew.
    pub(super) async fn commit_with<T>(
        &mut self,
        patience: Patience,
        plan: impl Fn(&mut Draft<'_>, &plan::Planner<'_>) -> Result<T, CommandError>,
    ) -> Result<T, Failure> {
        let mut conflicts = 0;
        loop {
            let foreign = self.is_foreign();
            let (answer, change) = self.draft(foreign, &plan)?;
            if change.is_empty() {
                return Ok(answer);
            }
            match self.commit_change(patience, change).await {
                Ok(()) => {
                    self.mailed |= foreign;
                    return Ok(answer);
                }
                // The input's id is taken, and stays so.
                Err(error @ CommitError::Conflict { record: FATES }) => {
                    self.reload().await?;
                    return Err(Failure::Store(error.into()));
                }
                Err(CommitError::Conflict { .. }) if conflicts < CONFLICTS => {
                    conflicts += 1;
                    match patience {
                        Patience::Wait => self.reload_patiently().await?,
                        Patience::Answer => self.reload().await?,
                    }
                }
                Err(CommitError::Fenced) => return Err(Failure::Fenced),
                Err(CommitError::NotFound) => return Err(Failure::Gone),
                Err(error) => return Err(Failure::Store(error.into())),
            }
        }
    }

    fn draft<T>(
        &self,
        foreign: bool,
        plan: &impl Fn(&mut Draft<'_>, &plan::Planner<'_>) -> Result<T, CommandError>,
    ) -> Result<(T, Change), Failure> {
        let role = if foreign { Role::Mailbox } else { Role::Owner };
        let mut draft = Draft::new(&self.rows, role, self.core.now());
        let planner = self.core.planner(self.core.keeps(self.project.directory.as_deref()));
        let answer = plan(&mut draft, &planner).map_err(Failure::Refused)?;
        if foreign {
            if draft.needs_owner() {
                return Err(Failure::Store(self.held()));
            }
        } else if draft.needs_owner() {
            self.lease_for(&mut draft);
        } else if !draft.releases_lease() {
            draft.as_mailbox();
        }
        Ok((answer, draft.finish()))
    }

    fn held(&self) -> StoreError {
        let until = self.rows.lease.as_ref().map_or_else(|| self.core.now(), |lease| lease.value.expiry);
        StoreError::Held { until }
    }

    /// Takes, prolongs or gives back the lease along with the change: the first and the last batch of the work
    /// need no batch of their own. It is given back only if the mailbox was read to its end.
    fn lease_for(&self, draft: &mut Draft<'_>) {
        let limits = &self.core.limits;
        if self.rests_after(draft) {
            // A dead owner's too: what it left is finished by this very batch.
            if self.rows.lease.as_ref().is_some_and(|lease| !lease.value.released) {
                draft.release_lease();
                draft.guard_mailbox();
            }
            return;
        }
        let now = draft.now();
        let previous = self.rows.lease.as_ref().map(|lease| &lease.value);
        let fresh = previous.is_some_and(|lease| {
            !lease.released
                && lease.incarnation == self.core.incarnation
                && lease.expiry > now.saturating_add(limits.lease / 2)
        });
        if !fresh {
            let opening = self.core.store.facts().opening;
            draft.hold_lease(Lease::taken(previous, self.core.incarnation, opening, now, limits.lease));
        }
    }

    /// Whether nothing will be under way after this change.
    fn rests_after(&self, draft: &Draft<'_>) -> bool {
        let busy = self.live.requesting || !self.live.calls.is_empty();
        !busy && plan::is_at_rest(draft, self.core.limits.automatic_executions)
    }

    async fn commit_change(&mut self, patience: Patience, change: Change) -> Result<(), CommitError> {
        let mut batch = self.core.store.batch();
        if batch.change(&self.rows, change).is_err() {
            return Err(CommitError::Conflict { record: "role" });
        }
        let mut wait = TROUBLE.0;
        loop {
            let result = self.core.store.commit(&mut batch).await;
            if result.is_err() {
                // The places it had in the event index are given up: who could not read past them looks again.
                self.core.tell_committed();
            }
            let error = match result {
                Ok(committed) => {
                    self.take_over(committed);
                    return Ok(());
                }
                Err(error @ (CommitError::Backend(_) | CommitError::Unknown(_)))
                    if patience == Patience::Wait =>
                {
                    error
                }
                // Whether it is durable is not known: what is in memory may be behind the store.
                Err(error @ CommitError::Unknown(_)) => {
                    self.stale = true;
                    return Err(error);
                }
                Err(error) => return Err(error),
            };
            if self.core.is_closing() || error.is_final() {
                return Err(error);
            }
            tracing::warn!(conversation = %self.id, %error, "the store is in trouble; trying again");
            self.show_trouble();
            self.sit_out(wait).await;
            wait = (wait * 2).min(TROUBLE.1);
        }
    }

    /// Waits, and answers commands with what is the matter meanwhile.
    async fn sit_out(&mut self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut kept = Vec::new();
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => break,
                message = self.inbox.recv() => match message {
                    Some(Message::Command { answer, .. }) => {
                        let error = StoreError::in_trouble();
                        drop(answer.send(Err(CommandError::Store(error))));
                    }
                    Some(message @ Message::Close { .. }) => {
                        kept.push(message);
                        break;
                    }
                    Some(message) => kept.push(message),
                    None => break,
                },
            }
        }
        for message in kept {
            // The task's own inbox takes it until the task ends.
            drop(self.sender.send(message));
        }
    }

    fn take_over(&mut self, mut committed: Committed) {
        let events = std::mem::take(&mut committed.events);
        let documents = committed.documents_of(self.id);
        self.rows.apply(&mut committed);
        if events.iter().any(|event| carries_on(event)) {
            self.live.interrupted = false;
        }
        if documents {
            self.read_policy();
        }
        if let Some(projection) = &mut self.projection {
            for event in &events {
                projection.extend(event);
            }
        }
        self.plan_to_look();
        let rows = &self.rows;
        self.feed.publish(&events, || rows.state());
        if !events.is_empty() {
            self.core.tell_committed();
        }
        self.core.tell_hooks(self.id, &events);
    }

    /// While this core holds the conversation it looks at the mailbox again and again, whatever else it commits:
    /// others write there.
    pub(super) fn plan_to_look(&mut self) {
        let interval = self.core.limits.lease / 3;
        self.renew_at =
            self.holds_lease().then(|| self.renew_at.unwrap_or_else(|| Instant::now() + interval));
    }

    fn show_trouble(&self) {
        let rows = &self.rows;
        self.feed.publish_state(|| {
            let mut state = rows.state();
            state.store_available = false;
            state
        });
    }

    /// Reads the rows again. What became durable through others is shown to followers.
    pub(super) async fn reload(&mut self) -> Result<(), Failure> {
        let rows = self.core.store.load(self.id).await.map_err(Failure::Store)?.ok_or(Failure::Gone)?;
        let advanced = rows.core.value.next_event_sequence != self.rows.core.value.next_event_sequence;
        let holder = |rows: &Rows| rows.lease.as_ref().map(|lease| lease.value.incarnation);
        if holder(&rows) != holder(&self.rows) && holder(&rows) != Some(self.core.incarnation) {
            // Another core has had the conversation since.
            self.live.interrupted = rows.open_execution().is_some();
        }
        self.rows = rows;
        (self.stale, self.behind) = (false, false);
        self.read_policy();
        if advanced {
            // An event of ours whose commit was of unknown fate, or of another core's.
            let had = self.projection.take().is_some();
            if had {
                self.load_projection().await?;
            }
            self.feed.catch_up(self.rows.core.value.next_event_sequence);
        }
        let rows = &self.rows;
        self.feed.publish_state(|| rows.state());
        Ok(())
    }

    /// Reads the rows again, as soon as the store can be read.
    async fn reload_patiently(&mut self) -> Result<(), Failure> {
        let mut wait = TROUBLE.0;
        while let Err(failure) = self.reload().await {
            self.sit_out_failure(failure, &mut wait).await?;
        }
        Ok(())
    }

    /// Waits after a failure that may pass, a little longer each time; gives back one that does not pass.
    pub(super) async fn sit_out_failure(
        &mut self,
        failure: Failure,
        wait: &mut Duration,
    ) -> Result<(), Failure> {
        let passes = matches!(&failure, Failure::Store(error) if error.retry() != Retry::Never);
        if !passes || self.core.is_closing() {
            return Err(failure);
        }
        tracing::warn!(conversation = %self.id, %failure, "the store is in trouble; trying again");
        self.show_trouble();
        self.sit_out(*wait).await;
        *wait = (*wait * 2).min(TROUBLE.1);
        Ok(())
    }

    /// Looks whether others have written to the mailbox meanwhile, and prolongs the lease.
    pub(super) async fn renew(&mut self) -> Result<(), Failure> {
        self.renew_at = None;
        self.reload_patiently().await?;
        if !self.holds_lease() {
            return Err(Failure::Fenced);
        }
        let lease = Lease::taken(
            self.rows.lease.as_ref().map(|lease| &lease.value),
            self.core.incarnation,
            self.core.store.facts().opening,
            self.core.now(),
            self.core.limits.lease,
        );
        self.commit(|draft, _| {
            draft.hold_lease(lease);
            Ok(())
        })
        .await
    }
}

/// Whether an event makes the model request that comes next one of this core's own: an execution that was begun
/// here, or an input that was delivered here, is not what another core left.
fn carries_on(event: &Event) -> bool {
    match &event.payload {
        EventPayload::UserMessage(_) => true,
        EventPayload::ExecutionState(state) => matches!(state.state, ExecutionState::Started),
        _ => false,
    }
}
