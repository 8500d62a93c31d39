//! What is found out about the calls of a message before anything is stored: are they valid, what do the hooks
//! say, what does the permission engine decide.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use nervekit_harness::{AssistantMessage, ContentBlock, StopReason, ToolCall as MessageToolCall};
use nervekit_permissions::{
    CallOrigin, Decision, DocumentId, EffectiveArguments, Evaluation, Evidence,
    ProposedCall as PermissionCall, SelectorKind, Target, TargetSubject,
};
use nervekit_tools::{Effective, HandledBy, Tool};
use nervekit_types::{ConversationId, ToolCallId};

use super::core::Inner;
use super::plan::{Proposal, ProposedCall, Settlement, Verdict};
use super::request::TurnSnapshot;
use crate::event::CallOutcome;
use crate::port::{Hook as _, HookCall, HookVerdict};
use crate::tool_call::TurnSettings;

/// The most calls of one message that are looked at; beyond it they are settled as failed.
const MAX_CALLS: usize = 128;

/// A message that is ready to be stored, and the evaluations of its calls: an allowed call that may be repeated
/// is run with the very targets that were decided.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) proposal: Proposal,
    pub(crate) evaluations: BTreeMap<ToolCallId, Evaluation>,
}

/// Looks at every call of a message.
pub(crate) async fn propose(
    core: &Arc<Inner>,
    turn: &TurnSnapshot,
    offered: &BTreeMap<String, Tool>,
    mut message: AssistantMessage,
    elapsed: Duration,
    cost: impl Fn(&AssistantMessage) -> u64,
) -> Prepared {
    let originals = give_unique_ids(core, &mut message);
    let mut calls = Vec::new();
    let mut evaluations = BTreeMap::new();
    for (index, block) in message.content.iter().enumerate() {
        let ContentBlock::ToolCall(call) = block else { continue };
        let id = ToolCallId::next(&core.ids);
        let refused = if calls.len() < MAX_CALLS { not_run(&message, call) } else { Some(too_many()) };
        let looked_at = match refused {
            Some(settlement) => Looked::settled(call, settlement),
            None => look_at(core, turn, offered.get(&call.name), call, id).await,
        };
        if let Some(evaluation) = looked_at.evaluation {
            evaluations.insert(id, evaluation);
        }
        calls.push(ProposedCall {
            id,
            content_index: u32::try_from(index).unwrap_or(u32::MAX),
            provider_call_id: originals.get(calls.len()).cloned().flatten(),
            tool_name: call.name.clone(),
            arguments: looked_at.arguments,
            coercions: looked_at.coercions,
            settings: settings(turn, offered.get(&call.name)),
            verdict: looked_at.verdict,
        });
    }
    let cost_micros = cost(&message);
    let proposal = Proposal {
        turn_id: turn.turn_id,
        message: Arc::new(message),
        attempt: turn.attempt,
        calls,
        elapsed,
        cost_micros,
    };
    Prepared { proposal, evaluations }
}

/// Every call needs an id of its own within its message, or its result could not be told from another's: one that
/// is missing or repeated is replaced. Returns the provider's ids in content order.
fn give_unique_ids(core: &Inner, message: &mut AssistantMessage) -> Vec<Option<String>> {
    let mut seen = HashSet::new();
    let mut originals = Vec::new();
    for block in &mut message.content {
        if let ContentBlock::ToolCall(call) = block {
            originals.push((!call.id.is_empty()).then(|| call.id.clone()));
            if call.id.is_empty() || !seen.insert(call.id.clone()) {
                call.id = ToolCallId::next(&core.ids).to_string();
                seen.insert(call.id.clone());
            }
        }
    }
    originals
}

/// Why a call of this message is not run, whatever it asks for.
fn not_run(message: &AssistantMessage, call: &MessageToolCall) -> Option<Settlement> {
    let reason = message.stop_reason;
    let words = if !reason.runs_tools() {
        format!("The call did not run: the answer ended with `{}`.", reason.as_str())
    } else if reason == StopReason::MaxTokens && !call.is_valid() {
        "The call was cut by the output limit and did not run. Ask for less at once.".to_owned()
    } else {
        return None;
    };
    Some(Settlement::new(CallOutcome::Failed, words))
}

fn too_many() -> Settlement {
    Settlement::new(
        CallOutcome::Failed,
        format!("The call did not run: a message may have {MAX_CALLS} calls."),
    )
}

fn settings(turn: &TurnSnapshot, tool: Option<&Tool>) -> TurnSettings {
    TurnSettings {
        rule_set_id: turn.config.selected_rule_set().to_owned(),
        mode: turn.config.mode,
        working_directory: turn.config.working_directory.clone().or_else(|| turn.project.directory.clone()),
        definition_digest: tool.map(Tool::digest),
    }
}

struct Looked {
    arguments: serde_json::Value,
    coercions: Vec<String>,
    verdict: Verdict,
    evaluation: Option<Evaluation>,
}

impl Looked {
    fn settled(call: &MessageToolCall, settlement: Settlement) -> Self {
        Self {
            arguments: call.arguments.clone(),
            coercions: Vec::new(),
            verdict: Verdict::Settle(settlement),
            evaluation: None,
        }
    }

    fn failed(call: &MessageToolCall, words: impl Into<String>) -> Self {
        Self::settled(call, Settlement::new(CallOutcome::Failed, words))
    }
}

async fn look_at(
    core: &Arc<Inner>,
    turn: &TurnSnapshot,
    tool: Option<&Tool>,
    call: &MessageToolCall,
    id: ToolCallId,
) -> Looked {
    let Some(tool) = tool else {
        return Looked::failed(call, format!("The tool `{}` is not available.", call.name));
    };
    let parsed = match &call.raw_arguments {
        Some(raw) => EffectiveArguments::parse(raw),
        None => EffectiveArguments::new(call.arguments.clone()),
    };
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return Looked::failed(call, format!("The call did not run: {error}.")),
    };
    let mut effective = match tool.effective(&parsed) {
        Ok(effective) => effective,
        Err(error) => return Looked::failed(call, format!("The call did not run: {error}.")),
    };
    match ask_hooks(core, turn, tool, id, &effective).await {
        Ok(None) => {}
        Ok(Some(replaced)) => effective = replaced,
        Err(words) => {
            return Looked::settled(call, Settlement::new(CallOutcome::Denied, format!("Denied: {words}")));
        }
    }
    let definition = tool.definition();
    let proposed = match permission_call(turn_scope(turn), tool, &effective.arguments) {
        Ok(proposed) => proposed,
        Err(settlement) => return Looked::settled(call, settlement),
    };
    let evaluation = evaluate(core, proposed).await;
    let verdict = Verdict::Decided {
        evidence: evaluation.evidence.clone(),
        core_tool: definition.handled_by == HandledBy::Core,
        replay_safe: definition.replay_safe && definition.execution == nervekit_tools::Execution::Parallel,
    };
    Looked {
        arguments: effective.arguments.as_value().clone(),
        coercions: effective.notes,
        verdict,
        evaluation: Some(evaluation),
    }
}

/// Asks the hooks about a call; replaced arguments are validated like any.
async fn ask_hooks(
    core: &Inner,
    turn: &TurnSnapshot,
    tool: &Tool,
    id: ToolCallId,
    effective: &Effective,
) -> Result<Option<Effective>, String> {
    if core.hooks.is_empty() {
        return Ok(None);
    }
    let mut call = HookCall {
        conversation_id: turn.conversation_id,
        turn_id: turn.turn_id,
        call_id: id,
        tool_name: tool.definition().name().to_owned(),
        arguments: effective.arguments.as_value().clone(),
    };
    let mut replaced = None;
    for hook in &core.hooks {
        match core.ask("before_tool_call", hook.before_tool_call(&call)).await {
            HookVerdict::Continue => {}
            HookVerdict::Deny(words) => return Err(words),
            HookVerdict::Replace(arguments) => {
                let parsed = EffectiveArguments::new(arguments)
                    .map_err(|error| format!("a hook gave arguments that cannot be used: {error}"))?;
                let mut changed = tool
                    .effective(&parsed)
                    .map_err(|error| format!("a hook gave arguments that cannot be used: {error}"))?;
                changed.notes.push("a hook replaced the arguments".to_owned());
                call.arguments = changed.arguments.as_value().clone();
                replaced = Some(changed);
            }
        }
    }
    Ok(replaced)
}

/// What the permission engine must know of where a call is made.
#[derive(Clone, Debug)]
pub(crate) struct CallScope {
    pub(crate) conversation_id: ConversationId,
    pub(crate) origin: CallOrigin,
    pub(crate) settings: TurnSettings,
    pub(crate) project: Option<std::path::PathBuf>,
    pub(crate) policy: Option<Arc<nervekit_permissions::PolicyDocument>>,
}

fn turn_scope(turn: &TurnSnapshot) -> CallScope {
    CallScope {
        conversation_id: turn.conversation_id,
        origin: CallOrigin::Model,
        settings: settings(turn, None),
        project: turn.project.directory.clone(),
        policy: turn.policy.clone(),
    }
}

/// The call as the permission engine sees it. A tool that cannot tell its targets is not run.
pub(crate) fn permission_call(
    scope: CallScope,
    tool: &Tool,
    arguments: &EffectiveArguments,
) -> Result<PermissionCall, Settlement> {
    let descriptor = tool.descriptor().clone();
    let mut call =
        PermissionCall::new(descriptor, arguments.clone(), scope.origin, scope.settings.rule_set_id.clone())
            .mode(scope.settings.mode)
            .conversation(scope.conversation_id);
    let targets = super::supervisor::guard_call(|| tool.targets(arguments)).map_err(|panic| {
        tracing::error!(tool = tool.definition().name(), %panic, "a tool panicked when asked for its targets");
        Settlement::new(CallOutcome::Failed, "The call did not run: the tool could not tell what it affects.")
    })?;
    if !targets.is_empty() {
        call = call.targets(targets);
    }
    if let Some(folder) = scope.settings.working_directory {
        call = call.working_directory(folder);
    }
    if let Some(project) = scope.project {
        call = call.project(project);
    }
    Ok(match scope.policy {
        Some(policy) => call.conversation_document(policy),
        None => call,
    })
}

/// How often documents are read again for one call when somebody keeps writing them. Then it is judged by what was
/// read: what changed since counts as not accepted.
const MAX_READS: usize = 3;

/// A call that was judged, or the documents that have to be read before it is.
enum Judged {
    Done(Evaluation),
    Unread(Box<PermissionCall>, Vec<DocumentId>),
}

/// Evaluates a call: inline if it has no path target, else on the blocking pool with a time limit. An overrun or a
/// panic denies.
pub(crate) async fn evaluate(core: &Arc<Inner>, mut call: PermissionCall) -> Evaluation {
    let denied = denied_for(&call);
    for reads in 0..=MAX_READS {
        let judged = match look_and_judge(core, call, reads < MAX_READS).await {
            Ok(judged) => judged,
            Err(reason) => return denied(&reason),
        };
        match judged {
            Judged::Done(evaluation) => return evaluation,
            Judged::Unread(back, documents) => {
                if let Some(outside) = &core.documents
                    && let Err(error) = outside.read(documents).await
                {
                    return denied(&format!("the documents with the rules cannot be had: {error}"));
                }
                call = *back;
            }
        }
    }
    denied("the documents with the rules cannot be had")
}

async fn look_and_judge(core: &Arc<Inner>, call: PermissionCall, look: bool) -> Result<Judged, String> {
    let aside = touches_files(&call);
    let inner = core.clone();
    let work = move || {
        super::supervisor::guard_call(|| {
            let outside = inner.documents.as_ref().filter(|_| look);
            let unread = outside.map_or_else(Vec::new, |outside| {
                let sets = [Some(&*call.rule_set), call.until_confirmed.as_deref()];
                outside.unread(call.project.as_deref(), sets.into_iter().flatten())
            });
            if unread.is_empty() {
                return Judged::Done(inner.permissions.evaluate(call));
            }
            Judged::Unread(Box::new(call), unread)
        })
    };
    let judged = if aside {
        match tokio::time::timeout(core.limits.permission_time, core.runtime.spawn_blocking(work)).await {
            Ok(Ok(judged)) => judged,
            Ok(Err(_)) => return Err("the permission engine was stopped".to_owned()),
            Err(_) => return Err("the permission engine took too long".to_owned()),
        }
    } else {
        work()
    };
    judged.map_err(|panic| format!("the permission engine failed: {panic}"))
}

/// Whether judging the call looks at the file system.
fn touches_files(call: &PermissionCall) -> bool {
    let is_path = |target: &Target| matches!(target.subject, TargetSubject::Path(_));
    call.targets.as_ref().is_some_and(|targets| targets.iter().any(is_path))
        || call.descriptor.targets.iter().any(|selector| matches!(selector.kind, SelectorKind::Path { .. }))
}

fn denied_for(call: &PermissionCall) -> impl Fn(&str) -> Evaluation + use<> {
    let (descriptor, digest, rule_set) =
        (call.descriptor.clone(), call.arguments.digest(), call.rule_set.clone());
    move |reason| {
        let none = nervekit_types::Digest::of_parts::<&str>([]);
        let risk = descriptor.base_risk;
        let evidence = Evidence::new(Decision::Deny, reason, risk, digest, rule_set.clone(), none);
        Evaluation::new(evidence.tool(descriptor.name.clone()))
    }
}
