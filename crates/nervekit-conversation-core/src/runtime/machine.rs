//! What a conversation does next: a pure function of its durable rows and of what is under way.
//!
//! The same function drives live work and recovery. After a crash nothing is under way, and what follows depends
//! on the durable rows alone; so running it twice gives the same end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nervekit_tools::{Execution, HandledBy};
use nervekit_types::ToolCallId;

use super::plan::{has_eligible, should_start};
use super::projection::Tail;
use crate::conversation::Limits;
use crate::event::FailureReason;
use crate::store::{Draft, Role, Rows};
use crate::tool_call::{CallState, ToolCall};

/// What is under way for a call, in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The rule that a person wants kept is being saved.
    Remembering,
    /// It is being decided, or waits for its permit and its locks.
    Deciding,
    /// It may be claimed: it has its permit and its locks, and the dispatch check passed.
    Cleared,
    /// Its executor runs.
    Running,
    /// Its executor runs and was told to stop.
    Stopping,
}

/// What the machine must know of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToolTraits {
    pub(crate) execution: Execution,
    pub(crate) handled_by: HandledBy,
    pub(crate) replay_safe: bool,
}

/// What is under way in a conversation, in this process.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// Whether a model request is in flight, or waits to be tried again.
    pub(crate) requesting: bool,
    /// What is under way for each call.
    pub(crate) calls: BTreeMap<ToolCallId, Activity>,
    /// Calls that were claimed here, with their message, and have not begun.
    pub(crate) claimed: BTreeSet<ToolCallId>,
    /// Set when this core found the execution open, left by another one: a model request that would come next was
    /// interrupted. Cleared by whatever legitimately carries the execution on.
    pub(crate) interrupted: bool,
}

/// What to do when recovery finds that a model request comes next.
///
/// ```
/// use nervekit_conversation_core::RecoveryPolicy;
/// assert_eq!(RecoveryPolicy::default(), RecoveryPolicy::Interrupt);
/// let unattended = RecoveryPolicy::Continue { at_most: 3 };
/// # let _ = unattended;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecoveryPolicy {
    /// The execution ends as interrupted; a person or the host continues it.
    #[default]
    Interrupt,
    /// It is continued, at most this often for one execution; beyond that it ends as interrupted.
    Continue {
        /// How often.
        at_most: u32,
    },
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start an execution, delivering what is queued.
    Start,
    /// Deliver eligible inputs to the open execution.
    Deliver,
    /// Ask the model.
    Request,
    /// Carry the interrupted execution on, and count that.
    Continue,
    /// Decide about a call: for the first time, or again before it is executed.
    Decide(ToolCallId),
    /// Claim a call that was cleared, and run it.
    Claim(ToolCallId),
    /// Run a call that this core has claimed already.
    Run(ToolCallId),
    /// Let a core tool take effect and settle, in one batch.
    Effect(ToolCallId),
    /// Save the rule that a person wants kept of an answer, before the answer takes effect.
    Remember(ToolCallId),
    /// Act on a person's answer that another core took in.
    ActOnAnswer(ToolCallId),
    /// Tell an executor to stop.
    Stop(ToolCallId),
    /// Settle a call that has not begun as cancelled.
    SettleCancelled(ToolCallId),
    /// Settle a call that another core left running: it is not known whether it had its effect.
    SettleIndeterminate(ToolCallId),
    /// Give a call that another core left running a new attempt: repeating it is safe.
    Repeat(ToolCallId),
    /// End the execution as completed.
    Complete,
    /// End the execution as cancelled.
    Cancel,
    /// End the execution as interrupted.
    Interrupt,
    /// End the execution as failed.
    Fail(FailureReason),
    /// Nothing to do until something happens.
    Wait,
    /// Nothing to do and nothing under way: the lease can be given back.
    Rest,
}

impl Step {
    /// Whether the step begins something outside of the store; recovery, which only writes, leaves it for later.
    pub(crate) const fn begins_something(&self) -> bool {
        matches!(
            self,
            Self::Start
                | Self::Deliver
                | Self::Request
                | Self::Continue
                | Self::Decide(_)
                | Self::Claim(_)
                | Self::Run(_)
                | Self::Effect(_)
                | Self::Remember(_)
        )
    }
}

/// What the machine looks at.
pub(crate) struct View<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) tail: Tail,
    pub(crate) live: &'a Live,
    pub(crate) policy: RecoveryPolicy,
    pub(crate) automatic_limit: u32,
    pub(crate) traits: &'a dyn Fn(&str) -> Option<ToolTraits>,
}

impl View<'_> {
    /// What to do next.
    pub(crate) fn next(&self) -> Step {
        let Some(open) = &self.rows.core.value.open_execution else { return self.idle() };
        let mut waiting = false;
        for call in calls_in_order(self.rows) {
            match self.call(call) {
                Some(step) => return step,
                None => waiting = true,
            }
        }
        if waiting {
            return self.at_rest_or_wait();
        }
        if self.rows.is_marked() {
            return if self.live.requesting { Step::Wait } else { Step::Cancel };
        }
        if self.live.requesting {
            return Step::Wait;
        }
        if self.rows.mailbox.value.paused {
            return Step::Rest;
        }
        if has_eligible(&self.draft()) {
            return Step::Deliver;
        }
        if self.tail == Tail::Answered {
            return Step::Complete;
        }
        if self.live.interrupted {
            return match self.policy {
                RecoveryPolicy::Continue { at_most } if open.continued < at_most => Step::Continue,
                _ => Step::Interrupt,
            };
        }
        match exceeded(&self.rows.config.value.limits, open) {
            Some(reason) => Step::Fail(reason),
            None => Step::Request,
        }
    }

    fn idle(&self) -> Step {
        if should_start(&self.draft(), self.automatic_limit) { Step::Start } else { Step::Rest }
    }

    /// The rows, as the planning functions read them.
    fn draft(&self) -> Draft<'_> {
        Draft::new(self.rows, Role::Owner, self.rows.core.value.updated_at)
    }

    /// Calls are left and none of them can be advanced: if all wait for a person, the lease can go.
    fn at_rest_or_wait(&self) -> Step {
        let busy = self.live.requesting || !self.live.calls.is_empty();
        if busy { Step::Wait } else { Step::Rest }
    }

    fn call(&self, call: &ToolCall) -> Option<Step> {
        let activity = self.live.calls.get(&call.id).copied();
        let cancelled = call.cancel_requested || self.rows.is_marked();
        match (call.state, activity) {
            (CallState::Running, Some(Activity::Running)) => cancelled.then_some(Step::Stop(call.id)),
            (CallState::Running, Some(_)) => None,
            (CallState::Running, None) => Some(self.left_running(call, cancelled)),
            // It was acknowledged that the rule is saved, whatever becomes of the call.
            (_, activity) if call.unsaved().is_some() => {
                (activity != Some(Activity::Remembering)).then_some(Step::Remember(call.id))
            }
            // An earlier attempt was under way when contact with it was lost.
            (_, _) if cancelled && call.claim.is_some() => Some(Step::SettleIndeterminate(call.id)),
            (_, _) if cancelled => Some(Step::SettleCancelled(call.id)),
            (CallState::AwaitingApproval | CallState::AwaitingInput, _) => {
                call.is_answered().then_some(Step::ActOnAnswer(call.id))
            }
            (_, Some(Activity::Deciding)) => None,
            (CallState::Supervising, _) => Some(Step::Decide(call.id)),
            (CallState::Ready, activity) => self.ready(call, activity),
        }
    }

    /// A call that is claimed, without anything under way for it here. Whose claim it is does not tell whether it
    /// began: an earlier task of this very core may have lost contact with it.
    fn left_running(&self, call: &ToolCall, cancelled: bool) -> Step {
        let not_begun = self.live.claimed.contains(&call.id);
        match (self.traits)(&call.tool_name) {
            _ if not_begun && !cancelled => Step::Run(call.id),
            // Claimed by this core in the batch of its message, and called off before it began.
            _ if not_begun => Step::SettleCancelled(call.id),
            Some(tool) if tool.replay_safe && !cancelled => Step::Repeat(call.id),
            _ => Step::SettleIndeterminate(call.id),
        }
    }

    fn ready(&self, call: &ToolCall, activity: Option<Activity>) -> Option<Step> {
        let tool = (self.traits)(&call.tool_name);
        if tool.is_some_and(|tool| tool.handled_by == HandledBy::Core) {
            return Some(Step::Effect(call.id));
        }
        if !self.may_begin(call) {
            return None;
        }
        Some(match activity {
            Some(Activity::Cleared) => Step::Claim(call.id),
            _ => Step::Decide(call.id),
        })
    }

    /// Whether the order of the message's calls lets this one begin: at most one sequential call at a time, and of
    /// those that are ready the one with the smallest content index first. A suspended one holds nobody back.
    fn may_begin(&self, call: &ToolCall) -> bool {
        let sequential =
            |name: &str| (self.traits)(name).is_none_or(|tool| tool.execution == Execution::Sequential);
        if !sequential(&call.tool_name) {
            return true;
        }
        self.rows.calls.values().map(|row| &row.value).all(|other| {
            let before = match other.state {
                CallState::Running => true,
                CallState::Ready => {
                    other.content_index < call.content_index || self.live.calls.contains_key(&other.id)
                }
                _ => false,
            };
            other.id == call.id || !before || !sequential(&other.tool_name)
        })
    }
}

/// The calls in the order of their place in the message.
fn calls_in_order(rows: &Rows) -> Vec<&ToolCall> {
    let mut calls: Vec<&ToolCall> = rows.calls.values().map(|row| &*row.value).collect();
    calls.sort_by_key(|call| (call.content_index, call.id));
    calls
}

/// Which limit is reached, if any.
fn exceeded(limits: &Limits, open: &crate::conversation::OpenExecution) -> Option<FailureReason> {
    if open.turns >= limits.turns {
        return Some(FailureReason::TurnLimit { limit: limits.turns });
    }
    if let Some(limit) = limits.time.filter(|limit| Duration::from_millis(open.busy_millis) >= *limit) {
        return Some(FailureReason::TimeLimit { limit });
    }
    if let Some(limit) = limits.tokens.filter(|limit| open.tokens >= *limit) {
        return Some(FailureReason::TokenLimit { limit });
    }
    let limit_micros = limits.cost_micros.filter(|limit| open.cost_micros >= *limit)?;
    Some(FailureReason::CostLimit { limit_micros })
}
