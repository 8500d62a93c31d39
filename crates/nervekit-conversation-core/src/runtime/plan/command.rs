//! The control verbs and the resolution of interactions.

use std::sync::Arc;

use nervekit_permissions::{
    Decision, DocumentChange, DocumentError, DocumentProblem, DocumentScope, Grant, GrantError, GrantScope,
    PermissionEngine, PolicyDocument, SuggestedRule,
};
use nervekit_types::{EventId, ExecutionId, InteractionId, Principal, PrincipalKind, ToolCallId};

use super::call::{Settlement, approval_digest, goes_on, settle};
use super::{Planner, input};
use crate::command::CommandOutcome;
use crate::error::{CommandError, Subject};
use crate::event::{CallOutcome, EventPayload, ExecutionState, InterventionKind, UserIntervention};
use crate::interaction::{InteractionKind, Remember, Remembered, Resolution, Resolved};
use crate::runtime::projection::Tail;
use crate::store::{Draft, NewEvent, Role};
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

/// Takes a person's answer in, after which another one is refused, and acts on it. If another core holds the
/// conversation, that one acts, or whoever holds it next.
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
    if matches!(resolution, Resolution::Approve { .. })
        && principal.kind() != PrincipalKind::Person
        && call.supervision.as_ref().is_some_and(|evidence| evidence.fallback.is_some())
    {
        return Err(CommandError::invalid(
            "the rule set of the conversation cannot be used, so only a person approves this; deny it, or select \
             another rule set",
        ));
    }
    if let Resolution::Approve { digest, .. } = resolution
        && (*digest != interaction.digest || interaction.digest != approval_digest(&call))
    {
        return Err(CommandError::Stale { current: Box::new(interaction) });
    }
    let remembered = match resolution {
        Resolution::Approve { remember: Some(how), .. } | Resolution::Deny { remember: Some(how), .. } => {
            remember(draft, planner, engine, &call, &interaction.kind, how, resolution)?
        }
        _ => None,
    };
    call.resolution = Some(Resolved {
        interaction_id: id,
        resolution: resolution.clone(),
        by: principal.clone(),
        at: draft.now(),
        remembered,
    });
    let call_id = call.id;
    draft.put_call(call.clone());
    if draft.role() == Role::Owner {
        act_on_answer(draft, planner, &call);
    }
    Ok(call_id)
}

/// Lets the answer that a call has got take effect, unless it is to be saved first.
pub(crate) fn act_on_answer(draft: &mut Draft<'_>, planner: &Planner<'_>, call: &ToolCall) {
    if call.unsaved().is_some() {
        return;
    }
    let resolved = call.resolution.clone().filter(|_| call.is_answered());
    let Some(resolved) = resolved.filter(|_| goes_on(draft, call)) else { return };
    tell_resumed(draft, planner);
    match resolved.resolution {
        Resolution::Deny { message, .. } => {
            let person = resolved.by.kind() == PrincipalKind::Person;
            let who = if person { "Denied by a person" } else { "Denied" };
            let words = match message {
                Some(message) => format!("{who}: {message}"),
                None => format!("{who}."),
            };
            settle(draft, planner, call, Settlement::new(CallOutcome::Denied, words));
        }
        Resolution::Answer { text } if call.claim.is_none() && call.tool_name == "ask_user" => {
            settle(draft, planner, call, Settlement::new(CallOutcome::Completed, text));
        }
        Resolution::Cancel => {
            settle(
                draft,
                planner,
                call,
                Settlement::new(CallOutcome::Cancelled, "A person withdrew the request."),
            );
        }
        // Approved, or answered to an executor that takes the answer in.
        Resolution::Approve { .. } | Resolution::Answer { .. } => {
            draft.put_call(ToolCall { state: CallState::Ready, ..call.clone() });
        }
    }
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

/// What becomes of an answer that is to be remembered: a rule of the conversation is written in the batch of the
/// resolution; one for another document is put on record there, and saved before anything else happens to the call.
/// What can never be saved is refused.
fn remember(
    draft: &mut Draft<'_>,
    planner: &Planner<'_>,
    engine: &dyn PermissionEngine,
    call: &ToolCall,
    kind: &InteractionKind,
    how: &Remember,
    resolution: &Resolution,
) -> Result<Option<Remembered>, CommandError> {
    let InteractionKind::Approval { suggested, rememberable } = kind else {
        return Err(CommandError::invalid("an answer to a question cannot be remembered"));
    };
    if how.scope == GrantScope::Once && !how.guardrail {
        return Ok(None);
    }
    if !rememberable {
        return Err(CommandError::invalid("this can only be decided for this once"));
    }
    let Some(suggestion) = suggested.get(how.suggestion) else {
        let words = format!("there is no suggestion {}; {} are offered", how.suggestion, suggested.len());
        return Err(CommandError::invalid(words));
    };
    if !planner.keeps.keeps(how.scope) {
        return Err(CommandError::invalid(
            "this core keeps no document of that scope; choose one that is offered",
        ));
    }
    let grant = grant(call, suggestion, how, resolution).ok_or_else(|| {
        CommandError::invalid("the call was never judged, so nothing can be remembered of it")
    })?;
    match engine.plan_grant(grant.clone()) {
        // The document is looked at when the rule is saved.
        Ok(_) => {}
        Err(error) if error.stands() => return Ok(Some(Remembered::Failed { problem: error.to_string() })),
        Err(error) => return Err(CommandError::invalid(format!("this cannot be remembered: {error}"))),
    }
    if how.scope == GrantScope::Once {
        return Ok(None);
    }
    if how.scope != GrantScope::Conversation {
        return Ok(Some(Remembered::Pending { rule: Box::new(suggestion.clone()) }));
    }
    Ok(Some(match remember_here(draft, engine, grant) {
        Ok(rule) => Remembered::Saved { rule },
        Err(problem) => Remembered::Failed { problem },
    }))
}

/// The grant that a person's answer asks for.
pub(crate) fn grant(
    call: &ToolCall,
    suggestion: &SuggestedRule,
    how: &Remember,
    resolution: &Resolution,
) -> Option<Grant> {
    let decision = match resolution {
        Resolution::Approve { .. } if how.guardrail => Decision::Prompt,
        Resolution::Approve { .. } => Decision::Allow,
        _ => Decision::Deny,
    };
    let grant = Grant::new(call.supervision.clone()?, suggestion.clone(), decision, how.scope);
    Some(if how.guardrail { grant.guardrail() } else { grant })
}

/// Puts a rule into the document of the conversation and returns its id, or says why not.
fn remember_here(
    draft: &mut Draft<'_>,
    engine: &dyn PermissionEngine,
    mut grant: Grant,
) -> Result<String, String> {
    if let Some(bytes) = draft.document(PERMISSIONS) {
        let document = PolicyDocument::parse(DocumentScope::Conversation, bytes)
            .map_err(|error| format!("the conversation's rules cannot be read: {error}"))?;
        grant = grant.document(document);
    }
    match engine.plan_grant(grant).map_err(|error| error.to_string())? {
        DocumentChange::Replace { document, rule, .. } => {
            draft.put_document(PERMISSIONS, written(&document).map_err(|error| error.to_string())?);
            Ok(rule)
        }
        _ => Err("the permission engine has nothing to write".to_owned()),
    }
}

/// Takes a rule out of the conversation's document; says whether it was there.
pub(crate) fn revoke(draft: &mut Draft<'_>, rule: &str) -> Result<bool, CommandError> {
    let Some(bytes) = draft.document(PERMISSIONS) else { return Ok(false) };
    let mut document = PolicyDocument::parse(DocumentScope::Conversation, bytes).map_err(GrantError::from)?;
    if document.remove(rule).is_none() {
        return Ok(false);
    }
    draft.put_document(PERMISSIONS, written(&document)?);
    Ok(true)
}

fn written(document: &PolicyDocument) -> Result<Vec<u8>, GrantError> {
    let bytes = serde_json::to_vec_pretty(document).map_err(DocumentProblem::from);
    Ok(bytes.map_err(DocumentError::from)?)
}

/// Takes in what became of a rule that was to be saved; then the answer takes effect.
pub(crate) fn remembered(
    draft: &mut Draft<'_>,
    planner: &Planner<'_>,
    call: &ToolCall,
    remembered: &Remembered,
) {
    if call.unsaved().is_none() {
        return;
    }
    let mut call = call.clone();
    if let Some(resolved) = &mut call.resolution {
        resolved.remembered = Some(remembered.clone());
    }
    draft.put_call(call.clone());
    act_on_answer(draft, planner, &call);
}

/// Tells that a waiting execution goes on.
fn tell_resumed(draft: &mut Draft<'_>, planner: &Planner<'_>) {
    let waiting = draft.calls().all(|call| call.state.is_suspended());
    if waiting && let Some(open) = &draft.core().open_execution {
        let execution_id = open.id;
        draft.append_state(planner.event(), execution_id, ExecutionState::Resumed);
    }
}
