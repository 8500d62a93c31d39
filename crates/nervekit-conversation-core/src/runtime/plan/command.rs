//! The control verbs and the resolution of interactions.

use std::sync::Arc;

use nervekit_permissions::{
    Decision, DocumentChange, DocumentScope, Grant, GrantScope, PermissionEngine, PolicyDocument,
};
use nervekit_types::{EventId, ExecutionId, InteractionId, Principal, PrincipalKind, ToolCallId};

use super::call::{Settlement, approval_digest, settle};
use super::{Planner, input};
use crate::command::CommandOutcome;
use crate::error::{CommandError, Subject};
use crate::event::{CallOutcome, EventPayload, ExecutionState, InterventionKind, UserIntervention};
use crate::interaction::{InteractionKind, Remember, Resolution, Resolved};
use crate::runtime::projection::Tail;
use crate::store::{Draft, NewEvent};
use crate::tool_call::{CallState, ToolCall};

/// The name of the conversation's document that holds its overlay.
pub(crate) const PERMISSIONS: &str = "permissions";

/// Blocks wakes and further model requests.
pub(crate) fn pause(draft: &mut Draft<'_>) -> CommandOutcome {
    draft.mailbox_mut().paused = true;
    CommandOutcome::Paused
}

/// Clears the pause, lets everything queued wake again, and starts what the wake rule says.
pub(crate) fn resume(draft: &mut Draft<'_>) -> CommandOutcome {
    let mailbox = draft.mailbox_mut();
    mailbox.paused = false;
    mailbox.held_through = 0;
    CommandOutcome::Resumed
}

/// Marks what is under way as cancelled, and pauses. Settling follows: the first batch only marks, so that
/// whatever happens next, nothing marked is started, approved, executed, repeated or continued by anyone.
pub(crate) fn stop(draft: &mut Draft<'_>, meant: Option<ExecutionId>) -> CommandOutcome {
    let open = draft.core().open_execution.as_ref().map(|open| open.id);
    let meant_other = meant.is_some() && meant != open;
    if meant_other {
        return CommandOutcome::NothingToStop;
    }
    let mailbox = draft.mailbox_mut();
    mailbox.paused = true;
    mailbox.held_through = mailbox.last_input_sequence;
    match open {
        Some(execution_id) => {
            draft.mark_cancelled();
            CommandOutcome::Stopped { execution_id }
        }
        None => CommandOutcome::NothingToStop,
    }
}

/// Runs without new input: carries an open execution on, or starts one.
pub(crate) fn continue_processing(
    draft: &mut Draft<'_>,
    planner: &Planner<'_>,
    tail: Tail,
    meant: Option<EventId>,
    principal: &Principal,
) -> Result<CommandOutcome, CommandError> {
    let head = draft.core().head.map(|head| head.id);
    if let Some(meant) = meant.filter(|meant| head != Some(*meant)) {
        return Err(CommandError::invalid(format!(
            "the head is no longer `{meant}`; look at what was added and name the current head"
        )));
    }
    if let Some(call) = draft.calls().next() {
        return Err(CommandError::Busy(Subject::ToolCall(call.id)));
    }
    if let Some(open) = &draft.core().open_execution {
        let execution_id = open.id;
        if draft.rows().is_marked() {
            return Err(CommandError::Busy(Subject::Execution(execution_id)));
        }
        resume(draft);
        return Ok(CommandOutcome::Continued { execution_id });
    }
    if head.is_none() && draft.queue().is_empty() {
        return Err(CommandError::invalid("the conversation has no event to continue from; submit an input"));
    }
    resume(draft);
    if !input::start(draft, planner) {
        let started = planner.event();
        draft.open_execution(started, planner.turn());
        if tail != Tail::Unanswered {
            let go_on = UserIntervention {
                kind: InterventionKind::Continue,
                principal: principal.clone(),
                text: Some("Continue.".to_owned()),
            };
            draft.append(NewEvent::new(planner.event(), EventPayload::UserIntervention(go_on)));
        }
    }
    match &draft.core().open_execution {
        Some(open) => Ok(CommandOutcome::Continued { execution_id: open.id }),
        None => Err(CommandError::invalid("nothing could be started")),
    }
}

/// Finds the call that waits with this interaction.
fn waiting_call(draft: &Draft<'_>, id: InteractionId) -> Result<ToolCall, CommandError> {
    let is_open = |call: &&Arc<ToolCall>| call.interaction.as_ref().is_some_and(|open| open.id == id);
    if let Some(call) = draft.calls().find(is_open) {
        if call.cancel_requested || draft.rows().is_marked() {
            return Err(CommandError::Resolved { by: None });
        }
        return Ok(ToolCall::clone(call));
    }
    let resolved =
        |call: &Arc<ToolCall>| call.resolution.clone().filter(|resolved| resolved.interaction_id == id);
    match draft.calls().find_map(resolved) {
        Some(by) => Err(CommandError::Resolved { by: Some(Box::new(by)) }),
        None => Err(CommandError::NotFound(Subject::Interaction(id))),
    }
}

/// Resolves an interaction.
pub(crate) fn resolve(
    draft: &mut Draft<'_>,
    planner: &Planner<'_>,
    engine: &dyn PermissionEngine,
    id: InteractionId,
    resolution: &Resolution,
    principal: &Principal,
) -> Result<ToolCallId, CommandError> {
    let mut call = waiting_call(draft, id)?;
    let Some(interaction) = call.interaction.take() else {
        return Err(CommandError::NotFound(Subject::Interaction(id)));
    };
    check_kind(&interaction.kind, resolution)?;
    if let Resolution::Approve { digest, .. } = resolution
        && (*digest != interaction.digest || interaction.digest != approval_digest(&call))
    {
        return Err(CommandError::Stale { current: Box::new(interaction) });
    }
    if let Resolution::Approve { remember: Some(how), .. } | Resolution::Deny { remember: Some(how), .. } =
        resolution
    {
        remember(draft, engine, &call, &interaction.kind, how, resolution)?;
    }
    call.resolution = Some(Resolved {
        interaction_id: id,
        resolution: resolution.clone(),
        by: principal.clone(),
        at: draft.now(),
    });
    let call_id = call.id;
    tell_resumed(draft, planner);
    match resolution {
        Resolution::Deny { message, .. } => {
            let who = if principal.kind() == PrincipalKind::Person { "Denied by a person" } else { "Denied" };
            let words = match message {
                Some(message) => format!("{who}: {message}"),
                None => format!("{who}."),
            };
            settle(draft, planner, &call, Settlement::new(CallOutcome::Denied, words));
        }
        Resolution::Answer { text } if call.claim.is_none() && call.tool_name == "ask_user" => {
            settle(draft, planner, &call, Settlement::new(CallOutcome::Completed, text.clone()));
        }
        Resolution::Cancel => {
            settle(
                draft,
                planner,
                &call,
                Settlement::new(CallOutcome::Cancelled, "A person withdrew the request."),
            );
        }
        // Approved, or answered to an executor that takes the answer in.
        Resolution::Approve { .. } | Resolution::Answer { .. } => {
            call.state = CallState::Ready;
            draft.put_call(call);
        }
    }
    Ok(call_id)
}

fn check_kind(kind: &InteractionKind, resolution: &Resolution) -> Result<(), CommandError> {
    let fits = matches!(
        (kind, resolution),
        (_, Resolution::Cancel | Resolution::Deny { .. })
            | (InteractionKind::Approval { .. }, Resolution::Approve { .. })
            | (InteractionKind::Question(_), Resolution::Answer { .. })
    );
    if fits {
        return Ok(());
    }
    let wanted = match kind {
        InteractionKind::Approval { .. } => "approve, deny or cancel it",
        InteractionKind::Question(_) => "answer, deny or cancel it",
    };
    Err(CommandError::invalid(format!("`{}` does not resolve this request; {wanted}", resolution.kind())))
}

/// Puts the remembered rule into the conversation's overlay, in the batch of the resolution.
fn remember(
    draft: &mut Draft<'_>,
    engine: &dyn PermissionEngine,
    call: &ToolCall,
    kind: &InteractionKind,
    how: &Remember,
    resolution: &Resolution,
) -> Result<(), CommandError> {
    let InteractionKind::Approval { suggested, rememberable } = kind else {
        return Err(CommandError::invalid("an answer to a question cannot be remembered"));
    };
    if how.scope == GrantScope::Once {
        return Ok(());
    }
    if !rememberable || how.scope != GrantScope::Conversation {
        return Err(CommandError::invalid(
            "this can only be decided for this once, or for the conversation if rules \
                                          are suggested",
        ));
    }
    let Some(suggestion) = suggested.get(how.suggestion) else {
        return Err(CommandError::invalid(format!(
            "there is no suggestion {}; {} are offered",
            how.suggestion,
            suggested.len()
        )));
    };
    let Some(evidence) = call.supervision.clone() else {
        return Err(CommandError::invalid("the call was never judged, so nothing can be remembered of it"));
    };
    let decision =
        if matches!(resolution, Resolution::Approve { .. }) { Decision::Allow } else { Decision::Deny };
    let mut grant = Grant::new(evidence, suggestion.clone(), decision, how.scope);
    if let Some(bytes) = draft.document(PERMISSIONS) {
        let document = PolicyDocument::parse(DocumentScope::Conversation, bytes).map_err(|error| {
            CommandError::invalid(format!("the conversation's rules cannot be read: {error}"))
        })?;
        grant = grant.document(document);
    }
    match engine.plan_grant(grant) {
        Ok(DocumentChange::Replace { document, .. }) => {
            let bytes = serde_json::to_vec_pretty(&document)
                .map_err(|error| CommandError::invalid(format!("the rule cannot be written: {error}")))?;
            draft.put_document(PERMISSIONS, bytes);
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(CommandError::invalid(format!("this cannot be remembered: {error}"))),
    }
}

/// Tells that a waiting execution goes on.
fn tell_resumed(draft: &mut Draft<'_>, planner: &Planner<'_>) {
    let waiting = draft.calls().all(|call| call.state.is_suspended());
    if waiting && let Some(open) = &draft.core().open_execution {
        let execution_id = open.id;
        draft.append_state(planner.event(), execution_id, ExecutionState::Resumed);
    }
}
