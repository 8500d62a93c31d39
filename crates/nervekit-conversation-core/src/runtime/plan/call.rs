//! Calls: decided, claimed, suspended, settled.

use std::sync::Arc;
use std::time::Duration;

use nervekit_permissions::{CanonicalTarget, Decision, Evaluation, Evidence, GrantScope, Mode};
use nervekit_tools::catalog::{AskUser, TodosSet};
use nervekit_tools::{Attachment, FileFact, InputRequest, UserProjection};
use nervekit_types::{AssetId, Digest, InteractionId};

use super::{Planner, advance, keep_policies, tell_waiting};
use crate::conversation::{Attendance, Todo};
use crate::event::{CallOutcome, DeniedCall, EventPayload, ToolCallResponse};
use crate::interaction::{Interaction, InteractionKind, Question};
use crate::store::{Draft, NewEvent};
use crate::tool_call::{CallState, Claim, ToolCall};

/// How a call ended, and what is kept of it.
#[derive(Clone, Debug)]
pub(crate) struct Settlement {
    pub(crate) outcome: CallOutcome,
    pub(crate) agent: String,
    pub(crate) user: UserProjection,
    pub(crate) complete: Option<AssetId>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) files: Vec<FileFact>,
    /// Time it was carried out.
    pub(crate) busy: Duration,
    /// Set when it was denied because no person could be asked.
    pub(crate) unattended: bool,
    /// What refused it when it was about to begin.
    pub(crate) dispatch: Option<Box<Evaluation>>,
}

impl Settlement {
    /// A call that ended in these words, for the model and the person alike.
    pub(crate) fn new(outcome: CallOutcome, words: impl Into<String>) -> Self {
        let agent = words.into();
        Self {
            outcome,
            user: UserProjection::text(agent.clone()),
            agent,
            complete: None,
            attachments: Vec::new(),
            files: Vec::new(),
            busy: Duration::ZERO,
            unattended: false,
            dispatch: None,
        }
    }

    /// A call that was called off before it had any effect.
    pub(crate) fn cancelled() -> Self {
        Self::new(CallOutcome::Cancelled, "The call was cancelled before it began; it had no effect.")
    }

    /// A call that was under way when contact with it was lost.
    pub(crate) fn indeterminate() -> Self {
        Self::new(
            CallOutcome::Indeterminate,
            "The call was under way when the runtime stopped. It may or may not have had its effect, and it was \
             not repeated: find out before you try again.",
        )
    }

    /// A call that a rule refused.
    pub(crate) fn denied(evidence: &Evidence) -> Self {
        Self::new(CallOutcome::Denied, format!("Denied: {}", evidence.reason))
    }

    /// A call that a rule refused when it was about to begin.
    pub(crate) fn denied_at_dispatch(evaluation: Evaluation) -> Self {
        let settlement = Self::denied(&evaluation.evidence);
        Self { dispatch: Some(Box::new(evaluation)), ..settlement }
    }
}

/// Puts what the permission engine decided into the row of a call; returns the settlement if it may not run.
pub(super) fn supervised(
    draft: &Draft<'_>,
    planner: &Planner<'_>,
    call: &mut ToolCall,
    evidence: &Arc<Evidence>,
) -> Option<Settlement> {
    call.supervision = Some(Arc::clone(evidence));
    match evidence.decision {
        Decision::Allow => {
            call.state = CallState::Ready;
            None
        }
        Decision::Deny => Some(Settlement::denied(evidence)),
        Decision::Prompt if draft.config().attendance == Attendance::Unattended => {
            let mut settlement = Settlement::new(CallOutcome::Denied, unattended_words(evidence));
            settlement.unattended = true;
            Some(settlement)
        }
        Decision::Prompt if open_approvals(draft) >= planner.approval_limit => {
            let words = format!(
                "The call did not run: {} calls wait for a person already. Make it again when they are answered.",
                planner.approval_limit
            );
            Some(Settlement::new(CallOutcome::Failed, words))
        }
        Decision::Prompt => {
            call.state = CallState::AwaitingApproval;
            call.interaction = Some(approval(draft, planner, call, evidence));
            None
        }
    }
}

fn open_approvals(draft: &Draft<'_>) -> usize {
    draft.calls().filter(|call| call.state == CallState::AwaitingApproval).count()
}

fn unattended_words(evidence: &Evidence) -> String {
    format!(
        "Denied: {}, and nobody attends this conversation. A person can allow it with a rule for this call, with \
         another rule set, or by attending.",
        evidence.reason
    )
}

fn approval(draft: &Draft<'_>, planner: &Planner<'_>, call: &ToolCall, evidence: &Evidence) -> Interaction {
    let mut suggested = evidence.suggestions.clone();
    for suggestion in &mut suggested {
        suggestion.scopes.retain(|scope| planner.keeps.keeps(*scope));
    }
    suggested.retain(|suggestion| suggestion.scopes.iter().any(|scope| *scope != GrantScope::Once));
    let rememberable = evidence.rememberable() && !suggested.is_empty();
    Interaction {
        id: InteractionId::next(planner.ids),
        conversation_id: draft.rows().id,
        lead: draft.core().parent_conversation_id,
        call_id: call.id,
        digest: approval_digest(call),
        tool_name: call.tool_name.clone(),
        arguments: call.arguments.clone(),
        targets: evidence.targets.iter().map(CanonicalTarget::display).collect(),
        reason: evidence.reason.clone(),
        kind: InteractionKind::Approval { suggested, rememberable },
        opened_at: draft.now(),
    }
}

/// SHA-256 over what an approval is for: the tool, its effective arguments, its canonical targets, and the
/// settings under which it was decided.
pub(crate) fn approval_digest(call: &ToolCall) -> Digest {
    let settings = &call.turn_settings;
    let evidence = call.supervision.as_ref();
    let targets = evidence.map(|evidence| serde_json::to_string(&evidence.targets).unwrap_or_default());
    Digest::of_parts([
        call.tool_name.clone(),
        evidence.map_or_else(|| call.arguments.to_string(), |evidence| evidence.arguments.to_string()),
        targets.unwrap_or_default(),
        settings.rule_set_id.clone(),
        mode_word(settings.mode).to_owned(),
        settings.working_directory.as_ref().map(|folder| folder.display().to_string()).unwrap_or_default(),
        settings.definition_digest.map(|digest| digest.to_string()).unwrap_or_default(),
    ])
}

/// The word of a mode in a digest. Digests are stored: it stays as it is, whatever the variant is called.
const fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Coding => "coding",
        Mode::Planning => "planning",
    }
}

/// What a core tool does when it becomes ready.
#[derive(Debug)]
enum Effect {
    /// It took effect; the call is settled.
    Settled(Settlement),
    /// A person is asked.
    Asks(Question),
}

/// Lets a core tool take effect within the draft.
fn core_effect(draft: &mut Draft<'_>, call: &ToolCall) -> Effect {
    let failed =
        |error: serde_json::Error| Effect::Settled(Settlement::new(CallOutcome::Failed, error.to_string()));
    match call.tool_name.as_str() {
        "todos_set" => match serde_json::from_value::<TodosSet>(call.arguments.clone()) {
            Ok(set) => {
                let todos: Vec<Todo> =
                    set.todos.into_iter().map(|entry| Todo::new(entry.todo).done(entry.done)).collect();
                let words = todo_words(&todos);
                draft.put_todos(todos);
                Effect::Settled(Settlement::new(CallOutcome::Completed, words))
            }
            Err(error) => failed(error),
        },
        "todos_get" => {
            let words = todo_words(draft.todos());
            Effect::Settled(Settlement::new(CallOutcome::Completed, words))
        }
        "ask_user" if draft.config().attendance == Attendance::Unattended => {
            let words = "Denied: nobody attends this conversation, so nobody can be asked.";
            let mut settlement = Settlement::new(CallOutcome::Denied, words);
            settlement.unattended = true;
            Effect::Settled(settlement)
        }
        "ask_user" => match serde_json::from_value::<AskUser>(call.arguments.clone()) {
            Ok(ask) => {
                let mut question = Question::new(ask.question).options(ask.options);
                question.context = ask.context;
                question.recommendation = ask.recommendation;
                Effect::Asks(question)
            }
            Err(error) => failed(error),
        },
        other => Effect::Settled(Settlement::new(
            CallOutcome::Failed,
            format!("The tool `{other}` is not available here."),
        )),
    }
}

fn todo_words(todos: &[Todo]) -> String {
    if todos.is_empty() {
        return "The list is empty.".to_owned();
    }
    let lines: Vec<String> =
        todos.iter().map(|todo| format!("[{}] {}", if todo.done { 'x' } else { ' ' }, todo.todo)).collect();
    lines.join("\n")
}

/// Whether the call may go on: nobody called it off, and the batch holds only if nobody does meanwhile. One that is
/// called off is neither started, judged, answered nor repeated, only settled. A draft that is made anew after a
/// conflict may find the mark that caused it.
pub(super) fn goes_on(draft: &mut Draft<'_>, call: &ToolCall) -> bool {
    if call.cancel_requested || draft.rows().is_marked() {
        return false;
    }
    draft.guard_mailbox();
    true
}

/// Carries a ready core tool out, in the batch of this draft: no `running` state is ever on disk for it.
pub(crate) fn effect(draft: &mut Draft<'_>, planner: &Planner<'_>, call: &ToolCall) {
    if !goes_on(draft, call) {
        return;
    }
    match core_effect(draft, call) {
        Effect::Settled(settlement) => settle(draft, planner, call, settlement),
        Effect::Asks(question) => {
            suspend(draft, planner, call.clone(), question);
            tell_waiting(draft, planner, true);
        }
    }
}

/// The same in the batch of the call's own message, where what comes next is asked once for all calls. Says
/// whether a person is waited for.
pub(super) fn effect_in_message(draft: &mut Draft<'_>, planner: &Planner<'_>, call: ToolCall) -> bool {
    match core_effect(draft, &call) {
        Effect::Settled(settlement) => {
            append_response(draft, planner, &call, settlement);
            false
        }
        Effect::Asks(question) => {
            suspend(draft, planner, call, question);
            true
        }
    }
}

fn suspend(draft: &mut Draft<'_>, planner: &Planner<'_>, mut call: ToolCall, question: Question) {
    call.state = CallState::AwaitingInput;
    call.claim = None;
    call.interaction = Some(Interaction {
        id: InteractionId::next(planner.ids),
        conversation_id: draft.rows().id,
        lead: draft.core().parent_conversation_id,
        call_id: call.id,
        digest: approval_digest(&call),
        tool_name: call.tool_name.clone(),
        arguments: call.arguments.clone(),
        targets: Vec::new(),
        reason: "a person is asked".to_owned(),
        kind: InteractionKind::Question(question),
        opened_at: draft.now(),
    });
    draft.put_call(call);
}

/// Suspends a running call whose executor needs a person's answer.
pub(crate) fn ask(
    draft: &mut Draft<'_>,
    planner: &Planner<'_>,
    call: &ToolCall,
    request: InputRequest,
    busy: Duration,
) {
    if !goes_on(draft, call) {
        // Nobody is asked for an execution that ends.
        let mut settlement =
            Settlement::new(CallOutcome::Cancelled, "The call was cancelled when it needed an answer.");
        settlement.busy = busy;
        return settle(draft, planner, call, settlement);
    }
    add_busy(draft, busy);
    let mut question = Question::new(request.question).options(request.options);
    question.context = request.context;
    question.recommendation = request.recommendation;
    suspend(draft, planner, call.clone(), question);
    tell_waiting(draft, planner, true);
}

/// Claims a ready call for this core, before its first outside effect.
pub(crate) fn claim(draft: &mut Draft<'_>, planner: &Planner<'_>, call: &ToolCall) {
    if call.state != CallState::Ready || !goes_on(draft, call) {
        return;
    }
    let mut call = call.clone();
    call.claim = Some(Claim { attempt: next_attempt(&call), incarnation: planner.me, process: None });
    call.state = CallState::Running;
    draft.put_call(call);
}

/// Puts a call that another core left running back to ready: its next claim is a new attempt.
pub(crate) fn repeat(draft: &mut Draft<'_>, call: &ToolCall) {
    if !goes_on(draft, call) {
        return;
    }
    let mut call = call.clone();
    call.state = CallState::Ready;
    draft.put_call(call);
}

pub(super) fn next_attempt(call: &ToolCall) -> u32 {
    call.claim.as_ref().map_or(1, |claim| claim.attempt + 1)
}

fn add_busy(draft: &mut Draft<'_>, busy: Duration) {
    if busy > Duration::ZERO
        && let Some(open) = &mut draft.core_mut().open_execution
    {
        open.busy_millis += u64::try_from(busy.as_millis()).unwrap_or(u64::MAX);
    }
}

/// Settles a call: appends its response and removes its row; after the last one of the turn the next turn begins.
pub(crate) fn settle(draft: &mut Draft<'_>, planner: &Planner<'_>, call: &ToolCall, settlement: Settlement) {
    append_response(draft, planner, call, settlement);
    draft.remove_call(call.id);
    if draft.calls().next().is_some() {
        tell_waiting(draft, planner, false);
    } else {
        advance(draft, planner);
    }
}

/// Appends the response of a call, without asking what comes next.
pub(super) fn append_response(
    draft: &mut Draft<'_>,
    planner: &Planner<'_>,
    call: &ToolCall,
    settlement: Settlement,
) {
    add_busy(draft, settlement.busy);
    if let Some(refused) = &settlement.dispatch {
        let policies = refused.policy.iter().chain(&refused.policy_until_confirmed);
        keep_policies(draft, policies);
    }
    if settlement.unattended
        && let Some(open) = &mut draft.core_mut().open_execution
    {
        open.denied.push(DeniedCall {
            call_id: call.id,
            tool_name: call.tool_name.clone(),
            reason: settlement.agent.clone(),
        });
    }
    for file in &settlement.files {
        draft.put_file_read(file.path.clone(), file.digest);
    }
    let response = ToolCallResponse {
        call_id: call.id,
        provider_call_id: call.provider_call_id.clone(),
        tool_name: call.tool_name.clone(),
        arguments: call.arguments.clone(),
        origin: call.origin,
        assistant_event_id: Some(call.assistant_event_id),
        content_index: Some(call.content_index),
        outcome: settlement.outcome,
        agent: settlement.agent,
        user: settlement.user,
        supervision: call.supervision.clone(),
        resolution: call.resolution.clone(),
        dispatch: settlement.dispatch.map(|refused| refused.evidence),
        complete: settlement.complete,
        attachments: settlement.attachments,
        attempts: call.claim.as_ref().map_or(0, |claim| claim.attempt),
    };
    let event = NewEvent::new(planner.event(), EventPayload::ToolCallResponse(Box::new(response)));
    draft.append(event.turn(call.turn_id));
}

/// Takes in how a call that was found in `supervising` was decided.
pub(crate) fn judged(
    draft: &mut Draft<'_>,
    planner: &Planner<'_>,
    call: &ToolCall,
    evidence: &Arc<Evidence>,
) {
    if !goes_on(draft, call) {
        return;
    }
    let mut call = call.clone();
    if let Some(settlement) = supervised(draft, planner, &mut call, evidence) {
        settle(draft, planner, &call, settlement);
        return;
    }
    let suspended = call.is_waiting();
    draft.put_call(call);
    if suspended {
        tell_waiting(draft, planner, true);
    }
}

#[cfg(test)]
mod tests {
    use nervekit_permissions::{CallOrigin, Mode};
    use nervekit_types::{ConversationId, EventId, ExecutionId, Timestamp, ToolCallId, TurnId};

    use super::approval_digest;
    use crate::tool_call::{CallState, ToolCall, TurnSettings};

    fn call(mode: Mode) -> ToolCall {
        ToolCall {
            id: ToolCallId::from_key("call"),
            provider_call_id: None,
            conversation_id: ConversationId::from_key("conversation"),
            execution_id: ExecutionId::from_key("execution"),
            turn_id: TurnId::from_key("turn"),
            assistant_event_id: EventId::from_key("message"),
            content_index: 0,
            origin: CallOrigin::Model,
            tool_name: "bash".to_owned(),
            arguments: serde_json::json!({ "command": "ls" }),
            coercions: Vec::new(),
            turn_settings: TurnSettings {
                rule_set_id: "supervised".to_owned(),
                mode,
                working_directory: Some("/work".into()),
                definition_digest: None,
            },
            state: CallState::AwaitingApproval,
            supervision: None,
            interaction: None,
            resolution: None,
            claim: None,
            cancel_requested: false,
            updated_at: Timestamp::from_millis(0),
        }
    }

    /// The digests are those of stored approvals: a release that computes others makes every approval that waits stale.
    #[test]
    fn the_digest_of_an_approval_is_the_same_in_every_release() {
        let digests = [Mode::Coding, Mode::Planning].map(|mode| approval_digest(&call(mode)).to_string());
        assert_eq!(
            digests,
            [
                "sha256:3aaa42e4369c2648cc206c8ab2712fc2215d24c748f32d928593cebb197ebea3",
                "sha256:e155b9d325d15a43f0f92571c34c1cfe9b86722db02dd0f1acc19537efd1f336",
            ]
        );
    }
}
