//! Carrying out a call: cleared to begin, run, and its outcome made a settlement.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nervekit_permissions::{
    Access, CanonicalSubject, DecidedPath, DecidedTarget, Decision, EffectiveArguments, Evaluation, Risk,
    TargetScope,
};
use nervekit_tools::{
    Backgrounded, CallAssets, Cancellation, InputRequest, MutationGuard, OutputSender, Process,
    ProcessCommand, ProcessEnd, ProcessError, ProcessRef, Processes, Progress, Reattached, Tool,
    ToolCall as ExecutorCall, ToolContext, ToolError, ToolOutcome,
};
use nervekit_types::{AssetId, ToolCallId};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::actor::Message;
use super::core::Inner;
use super::plan::{Settlement, approval_digest};
use super::propose::{CallScope, evaluate, permission_call};
use super::supervisor::guard;
use crate::event::CallOutcome;
use crate::interaction::Resolution;
use crate::tool_call::ToolCall;

/// A call that may begin: it has passed the dispatch check and holds its permit and its locks.
#[derive(Debug)]
pub(crate) struct Cleared {
    pub(crate) evaluation: Evaluation,
    permit: OwnedSemaphorePermit,
    locks: MutationGuard,
}

/// What came of a call that was carried out.
#[derive(Debug)]
pub(crate) enum Ran {
    /// It ended.
    Settled(Settlement),
    /// It needs a person's answer.
    NeedsInput(InputRequest, Duration),
}

/// The tool of a call, if it still is the one that was judged.
pub(crate) fn same_tool(core: &Inner, call: &ToolCall) -> Result<Tool, Settlement> {
    let gone = |words: String| Settlement::new(CallOutcome::Failed, words);
    let catalog = core.tools.tools();
    let Some(tool) = catalog.get(&call.tool_name) else {
        return Err(gone(format!(
            "The call did not run: the tool `{}` is no longer available.",
            call.tool_name
        )));
    };
    if call.turn_settings.definition_digest.is_some_and(|digest| digest != tool.digest()) {
        return Err(gone(format!(
            "The call did not run: the tool `{}` has changed since the call was judged.",
            call.tool_name
        )));
    }
    Ok(tool.clone())
}

fn arguments(call: &ToolCall) -> Result<EffectiveArguments, Settlement> {
    EffectiveArguments::new(call.arguments.clone())
        .map_err(|error| Settlement::new(CallOutcome::Failed, format!("The call did not run: {error}.")))
}

/// Evaluates a call under the settings it was judged under.
pub(crate) async fn judge(
    core: &Arc<Inner>,
    call: &ToolCall,
    scope: CallScope,
) -> Result<Evaluation, Settlement> {
    let tool = same_tool(core, call)?;
    let arguments = arguments(call)?;
    Ok(evaluate(core, permission_call(scope, &tool, &arguments)?).await)
}

/// Clears a ready call: evaluates it once more under the current documents, where only a denial changes anything,
/// then takes its permit, then its locks.
pub(crate) async fn clear(
    core: Arc<Inner>,
    call: Arc<ToolCall>,
    scope: CallScope,
) -> Result<Cleared, Settlement> {
    let evaluation = match judge(&core, &call, scope).await {
        Ok(evaluation) if call.claim.is_some() => may_repeat(evaluation),
        Ok(evaluation) => still_the_same(&call, evaluation),
        // Whatever is said of this attempt, the one that was lost may have had its effect.
        Err(_) if call.claim.is_some() => Err(Settlement::indeterminate()),
        Err(settlement) => Err(settlement),
    }?;
    let (permit, locks) = admit(&core, &evaluation.targets).await?;
    Ok(Cleared { evaluation, permit, locks })
}

/// A call whose attempt was lost and that may be repeated is repeated if it only reads, or if no person would be
/// asked about it now.
fn may_repeat(evaluation: Evaluation) -> Result<Evaluation, Settlement> {
    match evaluation.decision() {
        Decision::Allow => Ok(evaluation),
        Decision::Prompt if evaluation.evidence.base_risk == Risk::Read => Ok(evaluation),
        Decision::Prompt | Decision::Deny => Err(Settlement::indeterminate()),
    }
}

/// What a person approved is what runs: the digest of the approval is made again of what the call would do now.
/// The same holds for a call that a rule allowed and that would be asked about now.
fn still_the_same(call: &ToolCall, evaluation: Evaluation) -> Result<Evaluation, Settlement> {
    let approved = matches!(
        call.resolution.as_ref().map(|resolved| &resolved.resolution),
        Some(Resolution::Approve { .. })
    );
    match evaluation.decision() {
        Decision::Deny => return Err(Settlement::denied_at_dispatch(evaluation)),
        Decision::Allow if !approved => return Ok(evaluation),
        Decision::Allow | Decision::Prompt => {}
    }
    let now = ToolCall { supervision: Some(evaluation.evidence.clone()), ..ToolCall::clone(call) };
    if approval_digest(&now) == approval_digest(call) {
        return Ok(evaluation);
    }
    let words = "The call did not run: what it would affect has changed since it was decided about.";
    Err(Settlement::new(CallOutcome::Failed, words))
}

/// Admits a call that was claimed with its message.
pub(crate) async fn admit_claimed(core: &Inner, evaluation: Evaluation) -> Result<Cleared, Settlement> {
    let (permit, locks) = admit(core, &evaluation.targets).await?;
    Ok(Cleared { evaluation, permit, locks })
}

async fn admit(
    core: &Inner,
    targets: &[DecidedTarget],
) -> Result<(OwnedSemaphorePermit, MutationGuard), Settlement> {
    let failed = |words: String| Settlement::new(CallOutcome::Failed, words);
    let permit = core.permits.clone().acquire_owned().await;
    let permit = permit.map_err(|_| failed("The runtime is shutting down.".to_owned()))?;
    let locks = core.locks.acquire(written_paths(targets)).await;
    let locks = locks.map_err(|error| failed(format!("The target cannot be locked: {}", error.kind())))?;
    Ok((permit, locks))
}

/// The files a call writes. A tree, such as the folder a command runs in, is not one file that two may edit.
fn written_paths(targets: &[DecidedTarget]) -> impl Iterator<Item = &DecidedPath> {
    targets.iter().filter_map(|target| match target.target.subject() {
        CanonicalSubject::Path(path) if path.access == Access::Write && path.scope == TargetScope::Exact => {
            target.path.as_ref()
        }
        _ => None,
    })
}

/// What a call is run with, besides what was cleared.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) call: Arc<ToolCall>,
    pub(crate) cancellation: Cancellation,
    pub(crate) progress: Progress,
    pub(crate) assets: Arc<BTreeSet<AssetId>>,
    pub(crate) inbox: mpsc::UnboundedSender<Message>,
}

/// Runs a claimed call to its end. A panic settles it as failed.
pub(crate) async fn run(core: Arc<Inner>, work: Work, cleared: Cleared) -> Ran {
    let started = core.instant();
    let ran = guard(execute(&core, &work, cleared)).await;
    let busy = core.instant().duration_since(started);
    work.progress.finish();
    match ran {
        Ok(Ran::Settled(mut settlement)) => {
            settlement.busy = busy;
            if work.cancellation.is_cancelled() {
                settlement = told_to_stop(settlement);
            }
            Ran::Settled(settlement)
        }
        Ok(Ran::NeedsInput(request, _)) => Ran::NeedsInput(request, busy),
        Err(panic) => {
            tracing::error!(tool = work.call.tool_name, "a tool panicked");
            let mut settlement =
                Settlement::new(CallOutcome::Failed, "The tool failed for an internal reason.");
            settlement.busy = busy;
            tracing::debug!(%panic, "the panic");
            Ran::Settled(settlement)
        }
    }
}

/// A call that was told to stop is cancelled only if its executor says that it had no effect. Whatever else it says,
/// how far it came is not known; what it put out is kept.
fn told_to_stop(mut settlement: Settlement) -> Settlement {
    if settlement.outcome != CallOutcome::Cancelled {
        settlement.outcome = CallOutcome::Indeterminate;
        settlement.agent = format!(
            "The call was told to stop while it ran; it may have had its effect, or a part.\n{}",
            settlement.agent
        );
    }
    settlement
}

async fn execute(core: &Arc<Inner>, work: &Work, cleared: Cleared) -> Ran {
    let call = &work.call;
    let tool = match same_tool(core, call) {
        Ok(tool) => tool,
        Err(settlement) => return Ran::Settled(settlement),
    };
    let Some(executor) = tool.executor().cloned() else {
        let words = format!("The call did not run: the tool `{}` has no executor here.", call.tool_name);
        return Ran::Settled(Settlement::new(CallOutcome::Failed, words));
    };
    let arguments = match arguments(call) {
        Ok(arguments) => arguments,
        Err(settlement) => return Ran::Settled(settlement),
    };
    let Cleared { evaluation, permit, locks } = cleared;
    let last_reads = last_reads(core, call, &evaluation.targets).await;
    let known = work.assets.clone();
    let assets =
        CallAssets::new(core.assets.clone()).ids(core.ids.clone()).readable(move |id| known.contains(&id));
    let gate = GatedProcesses {
        inner: core.processes.clone(),
        inbox: work.inbox.clone(),
        call: call.id,
        attempt: call.claim.as_ref().map_or(0, |claim| claim.attempt),
    };
    let mut context = ToolContext::new(call.conversation_id, call.id)
        .with_turn(call.turn_id)
        .with_attempt(call.claim.as_ref().map_or(1, |claim| claim.attempt))
        .with_targets(evaluation.targets)
        .with_last_reads(last_reads)
        .with_locks(locks)
        .with_progress(work.progress.clone())
        .with_cancellation(work.cancellation.clone())
        .with_processes(gate)
        .with_assets(assets.clone());
    if let Some(folder) = &call.turn_settings.working_directory {
        context = context.with_working_directory(folder.clone());
    }
    let request = ExecutorCall::new(call.id, call.tool_name.clone(), arguments);
    let outcome = match call.resolution.as_ref().map(|resolved| &resolved.resolution) {
        Some(Resolution::Answer { text }) => executor.answered(request, text.clone().into(), context).await,
        _ => executor.execute(request, context).await,
    };
    drop(permit);
    settled(&tool, &assets, outcome).await
}

/// What this conversation last read of the files a call writes.
async fn last_reads(
    core: &Inner,
    call: &ToolCall,
    targets: &[DecidedTarget],
) -> Vec<(String, nervekit_types::Digest)> {
    let mut reads = Vec::new();
    for path in written_paths(targets) {
        let key = ToolContext::file_key(path);
        if let Ok(Some(digest)) = core.store.file_read(call.conversation_id, &key).await {
            reads.push((key, digest));
        }
    }
    reads
}

async fn settled(tool: &Tool, assets: &CallAssets, outcome: Result<ToolOutcome, ToolError>) -> Ran {
    let output = match outcome {
        Ok(ToolOutcome::Completed(output)) => output,
        Ok(ToolOutcome::NeedsInput(request)) => return Ran::NeedsInput(request, Duration::ZERO),
        Ok(ToolOutcome::Cancelled) => {
            let words = "The call was cancelled; it had no effect.";
            return Ran::Settled(Settlement::new(CallOutcome::Cancelled, words));
        }
        Ok(ToolOutcome::Backgrounded(background)) => return Ran::Settled(end_background(background).await),
        Ok(other) => {
            let words = format!("The tool ended in a way that is not known here: `{}`.", other.kind());
            return Ran::Settled(Settlement::new(CallOutcome::Failed, words));
        }
        Err(error) => {
            if let Some(source) = error.source() {
                tracing::debug!(tool = tool.definition().name(), %source, "a tool failed");
            }
            return Ran::Settled(Settlement::new(CallOutcome::Failed, error.for_model()));
        }
    };
    let settled = output.settle(tool.definition().budget, assets).await;
    let outcome = if settled.failed { CallOutcome::Failed } else { CallOutcome::Completed };
    let mut settlement = Settlement::new(outcome, settled.agent);
    settlement.user = settled.user;
    settlement.complete = settled.complete;
    settlement.attachments = settled.attachments;
    settlement.files = settled.files;
    Ran::Settled(settlement)
}

/// A command that was left to the background has nobody to look after it here, so it is ended.
async fn end_background(background: Backgrounded) -> Settlement {
    background.process.stop().await;
    Settlement::new(
        CallOutcome::Failed,
        "Background commands are not kept by this runtime; the command was ended.",
    )
}

/// Processes whose reference is on record before they can have an effect: the gate opens after the commit.
#[derive(Debug)]
struct GatedProcesses {
    inner: Arc<dyn Processes>,
    inbox: mpsc::UnboundedSender<Message>,
    call: ToolCallId,
    attempt: u32,
}

#[async_trait]
impl Processes for GatedProcesses {
    async fn start(
        &self,
        command: ProcessCommand,
        output: OutputSender,
    ) -> Result<Box<dyn Process>, ProcessError> {
        let process = self.inner.start(command, output).await?;
        Ok(Box::new(GatedProcess {
            process,
            inbox: self.inbox.clone(),
            call: self.call,
            attempt: self.attempt,
        }))
    }

    async fn reattach(
        &self,
        reference: &ProcessRef,
        output: OutputSender,
    ) -> Result<Reattached, ProcessError> {
        self.inner.reattach(reference, output).await
    }
}

#[derive(Debug)]
struct GatedProcess {
    process: Box<dyn Process>,
    inbox: mpsc::UnboundedSender<Message>,
    call: ToolCallId,
    attempt: u32,
}

#[async_trait]
impl Process for GatedProcess {
    fn reference(&self) -> &ProcessRef {
        self.process.reference()
    }

    async fn release(&self) -> Result<(), ProcessError> {
        let (recorded, answer) = oneshot::channel();
        let message = Message::Process {
            call: self.call,
            attempt: self.attempt,
            process: self.process.reference().clone(),
            recorded,
        };
        if self.inbox.send(message).is_err() || answer.await.is_err() {
            // Without the record the command must not run.
            self.process.stop().await;
            return Err(ProcessError::EndedBeforeRelease);
        }
        self.process.release().await
    }

    async fn wait(&self) -> ProcessEnd {
        self.process.wait().await
    }

    async fn stop(&self) -> ProcessEnd {
        self.process.stop().await
    }
}
