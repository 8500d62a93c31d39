//! Accepting and delivering inputs.

use std::borrow::Cow;

use super::Planner;
use crate::event::{EventPayload, UserMessageEvent};
use crate::input::{DeliveryTarget, InputFate, InputSource, QueuedInput};
use crate::store::{Draft, NewEvent, Role, wakes};

/// Accepts an input. A person's clears the pause of its own conversation, and counts executions anew.
pub(crate) fn accept(draft: &mut Draft<'_>, input: QueuedInput) {
    if input.source == InputSource::User {
        let mailbox = draft.mailbox_mut();
        mailbox.paused = false;
        mailbox.automatic_executions = 0;
    }
    draft.enqueue(input);
}

/// The wake rule: not paused, nothing open, and an input that starts an execution by itself; beyond the limit of
/// automatic executions, only a person's.
pub(crate) fn should_start(draft: &Draft<'_>, automatic_limit: u32) -> bool {
    let mailbox = draft.mailbox();
    let queue = draft.queue();
    !mailbox.paused
        && draft.core().open_execution.is_none()
        && queue.values().any(|input| wakes(mailbox, input))
        && (mailbox.automatic_executions < automatic_limit
            || queue.values().any(|input| input.source == InputSource::User))
}

/// Whether nothing is to be done without a person: nothing open and nothing that wakes, or what is open waits for
/// answers or for the end of a pause.
pub(crate) fn is_at_rest(draft: &Draft<'_>, automatic_limit: u32) -> bool {
    let Some(open) = &draft.core().open_execution else { return !should_start(draft, automatic_limit) };
    let mut calls = draft.calls().peekable();
    if calls.peek().is_some() {
        return calls.all(|call| call.is_waiting() && !call.cancel_requested);
    }
    let marked = draft.mailbox().cancel_mark.is_some_and(|mark| mark.execution_id == open.id);
    draft.mailbox().paused && !marked
}

/// Starts an execution if the wake rule says so, and delivers what is queued to it. Says whether it did. If another
/// core holds the conversation, that one does.
pub(crate) fn start(draft: &mut Draft<'_>, planner: &Planner<'_>) -> bool {
    if draft.role() == Role::Mailbox || !should_start(draft, planner.automatic_limit) {
        return false;
    }
    let by_person = draft.queue().values().any(|input| input.source == InputSource::User);
    let mailbox = draft.mailbox_mut();
    mailbox.automatic_executions = if by_person { 0 } else { mailbox.automatic_executions + 1 };
    draft.open_execution(planner.event(), planner.turn());
    deliver_eligible(draft, planner, true);
    true
}

/// Delivers eligible inputs to the open execution, as the beginning of a turn.
pub(crate) fn deliver(draft: &mut Draft<'_>, planner: &Planner<'_>) {
    let turn = planner.turn();
    if let Some(open) = &mut draft.core_mut().open_execution {
        open.turn_id = turn;
    }
    deliver_eligible(draft, planner, false);
}

/// Whether an input may be delivered to what is open.
fn is_eligible(draft: &Draft<'_>, input: &QueuedInput, starting: bool) -> bool {
    match input.target {
        DeliveryTarget::NextTurn => true,
        DeliveryTarget::NextExecution => starting,
        DeliveryTarget::Execution { execution_id } => {
            draft.core().open_execution.as_ref().is_some_and(|open| open.id == execution_id)
        }
    }
}

/// Whether anything may be delivered to the open execution.
pub(crate) fn has_eligible(draft: &Draft<'_>) -> bool {
    draft.queue().values().any(|input| is_eligible(draft, input, false))
}

pub(super) fn deliver_eligible(draft: &mut Draft<'_>, planner: &Planner<'_>, starting: bool) {
    let inputs: Vec<QueuedInput> = draft
        .queue()
        .into_values()
        .filter(|input| is_eligible(draft, input, starting))
        .map(Cow::into_owned)
        .collect();
    let turn = draft.core().open_execution.as_ref().map(|open| open.turn_id);
    for input in inputs {
        let id = planner.event();
        let message = UserMessageEvent {
            text: input.text.clone(),
            submitted: None,
            images: input.images.clone(),
            source: input.source,
            submitter: input.submitter.clone(),
        };
        let event = NewEvent {
            id,
            turn_id: turn,
            input_id: Some(input.id),
            payload: EventPayload::UserMessage(message),
        };
        draft.append(event);
        draft.dequeue(&input, InputFate::Delivered { event_id: id });
        if input.source == InputSource::User {
            let now = draft.now();
            draft.mailbox_mut().last_user_message_at = Some(now);
        }
    }
}
