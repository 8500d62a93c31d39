//! The answer of the model: message, call rows and their supervision are one batch.

use std::sync::Arc;
use std::time::Duration;

use nervekit_harness::AssistantMessage;
use nervekit_permissions::{CallOrigin, Evidence};
use nervekit_types::{ToolCallId, TurnId};
use serde_json::Value;

use super::call::{self, Settlement, append_response, next_attempt, supervised};
use super::{Planner, advance, denied, end, input, tell_waiting};
use crate::event::{AssistantMessageEvent, EventPayload, ExecutionState, MessageCall};
use crate::store::{Draft, NewEvent};
use crate::tool_call::{CallState, Claim, ToolCall, TurnSettings};

/// A message of the model, with what was found out about each of its calls.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub(crate) turn_id: TurnId,
    pub(crate) message: Arc<AssistantMessage>,
    pub(crate) attempt: u32,
    pub(crate) calls: Vec<ProposedCall>,
    pub(crate) elapsed: Duration,
    pub(crate) cost_micros: u64,
}

/// A call of the message.
#[derive(Clone, Debug)]
pub(crate) struct ProposedCall {
    pub(crate) id: ToolCallId,
    pub(crate) content_index: u32,
    pub(crate) provider_call_id: Option<String>,
    pub(crate) tool_name: String,
    pub(crate) arguments: Value,
    pub(crate) coercions: Vec<String>,
    pub(crate) settings: TurnSettings,
    pub(crate) verdict: Verdict,
}

/// What was found out about a call.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// It cannot run: unknown, invalid, cut off, or refused by a hook.
    Settle(Settlement),
    /// The permission engine decided.
    Decided {
        /// How.
        evidence: Arc<Evidence>,
        /// Whether the core carries the tool out itself.
        core_tool: bool,
        /// Whether it may be claimed in the batch of its message.
        replay_safe: bool,
    },
}

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Took {
    /// It is in the draft.
    Taken,
    /// The turn was called off meanwhile: the answer is discarded.
    Discarded,
}

/// Takes the message in. It holds only if nobody marked the turn or accepted an input meanwhile.
pub(crate) fn message(draft: &mut Draft<'_>, planner: &Planner<'_>, proposal: &Proposal) -> Took {
    let current = draft.core().open_execution.as_ref().is_some_and(|open| open.turn_id == proposal.turn_id);
    if !current || draft.rows().is_marked() {
        return Took::Discarded;
    }
    draft.guard_mailbox();
    charge(draft, proposal);
    let message = AssistantMessageEvent {
        message: proposal.message.clone(),
        calls: proposal
            .calls
            .iter()
            .map(|call| MessageCall { id: call.id, content_index: call.content_index })
            .collect(),
        attempt: proposal.attempt,
    };
    let event =
        NewEvent::new(planner.event(), EventPayload::AssistantMessage(message)).turn(proposal.turn_id);
    let assistant = draft.append(event);
    let mut suspended = false;
    for proposed in &proposal.calls {
        let row = row(draft, proposed, assistant.id, proposal.turn_id);
        suspended |= take_call(draft, planner, row, &proposed.verdict);
    }
    if suspended {
        tell_waiting(draft, planner, true);
    }
    if !proposal.calls.is_empty() {
        advance(draft, planner);
    } else if !input::has_eligible(draft) && !draft.mailbox().paused {
        let denied = denied(draft);
        end(draft, planner, ExecutionState::Completed { denied });
    }
    Took::Taken
}

fn charge(draft: &mut Draft<'_>, proposal: &Proposal) {
    let usage = &proposal.message.usage;
    let core = draft.core_mut();
    core.usage_own += *usage;
    if let Some(open) = &mut core.open_execution {
        open.turns += 1;
        open.tokens += usage.total();
        open.cost_micros += proposal.cost_micros;
        open.busy_millis += u64::try_from(proposal.elapsed.as_millis()).unwrap_or(u64::MAX);
    }
}

fn row(
    draft: &Draft<'_>,
    proposed: &ProposedCall,
    assistant_event_id: nervekit_types::EventId,
    turn_id: TurnId,
) -> ToolCall {
    let execution_id =
        draft.core().open_execution.as_ref().map_or_else(|| assistant_event_id.into(), |open| open.id);
    ToolCall {
        id: proposed.id,
        provider_call_id: proposed.provider_call_id.clone(),
        conversation_id: draft.rows().id,
        execution_id,
        turn_id,
        assistant_event_id,
        content_index: proposed.content_index,
        origin: CallOrigin::Model,
        tool_name: proposed.tool_name.clone(),
        arguments: proposed.arguments.clone(),
        coercions: proposed.coercions.clone(),
        turn_settings: proposed.settings.clone(),
        state: CallState::Supervising,
        supervision: None,
        interaction: None,
        resolution: None,
        claim: None,
        cancel_requested: false,
        updated_at: draft.now(),
    }
}

/// Takes one call in, as far as it can go in this batch. Says whether a person is waited for.
fn take_call(draft: &mut Draft<'_>, planner: &Planner<'_>, mut row: ToolCall, verdict: &Verdict) -> bool {
    let (evidence, core_tool, replay_safe) = match verdict {
        Verdict::Settle(settlement) => {
            append_response(draft, planner, &row, settlement.clone());
            return false;
        }
        Verdict::Decided { evidence, core_tool, replay_safe } => (evidence, *core_tool, *replay_safe),
    };
    if let Some(settlement) = supervised(draft, planner, &mut row, evidence) {
        append_response(draft, planner, &row, settlement);
        return false;
    }
    if row.state == CallState::AwaitingApproval {
        draft.put_call(row);
        return true;
    }
    if core_tool {
        return call::effect_in_message(draft, planner, row);
    }
    if replay_safe {
        row.claim = Some(Claim { attempt: next_attempt(&row), incarnation: planner.me, process: None });
        row.state = CallState::Running;
    }
    draft.put_call(row);
    false
}
