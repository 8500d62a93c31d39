//! What each thing that happens does to the rows: functions on a [`Draft`], which neither wait nor touch the
//! store. Each makes one batch.

mod call;
mod command;
mod input;
mod message;

pub(crate) use call::{Settlement, approval_digest, ask, claim, effect, judged, repeat, settle};
pub(crate) use command::{
    PERMISSIONS, act_on_answer, continue_processing, grant, pause, remembered, resolve, resume, revoke, stop,
};
pub(crate) use input::{accept, deliver, has_eligible, is_at_rest, should_start, start};

/// The tools that the core carries out itself.
pub(crate) const CORE_TOOLS: [&str; 3] = ["ask_user", "todos_get", "todos_set"];
pub(crate) use message::{Proposal, ProposedCall, Took, Verdict, message};

use std::sync::Arc;
use std::time::Duration;

use nervekit_permissions::{GrantScope, Policy};
use nervekit_types::{EventId, IdSource, IncarnationId, Principal, TurnId};

use crate::event::{
    Awaited, EventPayload, ExecutionState, FailureReason, InterventionKind, UserIntervention,
};
use crate::store::{Draft, NewEvent};

/// What planning needs of the runtime: who it is and where ids come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planner<'a> {
    pub(crate) ids: &'a dyn IdSource,
    pub(crate) me: IncarnationId,
    pub(crate) automatic_limit: u32,
    /// How many calls of a conversation may wait for an approval.
    pub(crate) approval_limit: usize,
    /// Where an answer can be remembered.
    pub(crate) keeps: Keeps,
}

/// The documents outside of the store in which answers can be remembered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Keeps {
    pub(crate) user: bool,
    pub(crate) project: bool,
}

impl Keeps {
    pub(crate) const fn keeps(self, scope: GrantScope) -> bool {
        match scope {
            GrantScope::Once | GrantScope::Conversation => true,
            GrantScope::Project => self.project,
            GrantScope::User => self.user,
            _ => false,
        }
    }
}

impl Planner<'_> {
    fn event(&self) -> EventId {
        EventId::next(self.ids)
    }

    fn turn(&self) -> TurnId {
        TurnId::next(self.ids)
    }
}

/// Appends a `waiting` event that lists everything awaited, if calls are left and all of them are suspended, or
/// if `suspended` says that this batch suspends one.
fn tell_waiting(draft: &mut Draft<'_>, planner: &Planner<'_>, suspended: bool) {
    let Some(execution_id) = draft.core().open_execution.as_ref().map(|open| open.id) else { return };
    let mut calls: Vec<_> = draft.calls().collect();
    let all = !calls.is_empty() && calls.iter().all(|call| call.is_waiting());
    if !(suspended || all) {
        return;
    }
    calls.sort_by_key(|call| (call.content_index, call.id));
    let awaited = calls
        .iter()
        .filter_map(|call| {
            let interaction = call.interaction.as_ref()?;
            Some(Awaited::new(interaction.id, call.id, &call.tool_name, &interaction.kind))
        })
        .collect();
    draft.append_state(planner.event(), execution_id, ExecutionState::Waiting { awaited });
}

/// After the last call of a turn was settled: the next turn begins, and what is queued is delivered to it, unless
/// something says to hold still.
fn advance(draft: &mut Draft<'_>, planner: &Planner<'_>) {
    let Some(open) = &draft.core().open_execution else { return };
    let marked = draft.mailbox().cancel_mark.is_some_and(|mark| mark.execution_id == open.id);
    if marked || draft.calls().next().is_some() {
        return;
    }
    let turn = planner.turn();
    if let Some(open) = &mut draft.core_mut().open_execution {
        open.turn_id = turn;
    }
    if !draft.mailbox().paused {
        input::deliver_eligible(draft, planner, false);
    }
}

/// Keeps the policies by which calls were judged, each under the digest that evidence names.
pub(crate) fn keep_policies<'p>(draft: &mut Draft<'_>, policies: impl IntoIterator<Item = &'p Arc<Policy>>) {
    for policy in policies {
        draft.put_policy(policy.digest(), policy.to_bytes());
    }
}

/// Ends the open execution.
pub(crate) fn end(draft: &mut Draft<'_>, planner: &Planner<'_>, state: ExecutionState) {
    draft.end_execution(planner.event(), state);
}

/// Ends the open execution as stopped, and says so in history.
pub(crate) fn end_cancelled(draft: &mut Draft<'_>, planner: &Planner<'_>) {
    let stop = UserIntervention { kind: InterventionKind::Stop, principal: Principal::runtime(), text: None };
    draft.append(NewEvent::new(planner.event(), EventPayload::UserIntervention(stop)));
    end(draft, planner, ExecutionState::Cancelled);
}

/// The calls of the execution that were denied for want of a person.
pub(crate) fn denied(draft: &Draft<'_>) -> Vec<crate::event::DeniedCall> {
    draft.core().open_execution.as_ref().map(|open| open.denied.clone()).unwrap_or_default()
}

/// Tells that a model request failed and is tried again.
pub(crate) fn retrying(
    draft: &mut Draft<'_>,
    planner: &Planner<'_>,
    attempt: u32,
    limit: u32,
    delay: Duration,
    error: &str,
) {
    let Some(execution_id) = draft.core().open_execution.as_ref().map(|open| open.id) else { return };
    let state = ExecutionState::Retrying { attempt, limit, delay, error: error.to_owned() };
    draft.append_state(planner.event(), execution_id, state);
}

/// Counts that recovery carries the execution on.
pub(crate) fn count_continued(draft: &mut Draft<'_>, planner: &Planner<'_>) {
    draft.guard_mailbox();
    let Some(open) = &mut draft.core_mut().open_execution else { return };
    open.continued += 1;
    let execution_id = open.id;
    draft.append_state(planner.event(), execution_id, ExecutionState::Resumed);
}

/// A limit that was reached, in words.
pub(crate) fn limit_words(reason: &FailureReason) -> String {
    let what = match reason {
        FailureReason::TurnLimit { limit } => format!("{limit} turns"),
        FailureReason::TimeLimit { limit } => format!("{limit:?} of model and tool time"),
        FailureReason::TokenLimit { limit } => format!("{limit} tokens"),
        FailureReason::CostLimit { limit_micros } => format!("{limit_micros} millionths of a dollar"),
        other => return other.kind().to_owned(),
    };
    format!("the limit of {what} was reached; `continue_processing` carries on with fresh limits")
}
