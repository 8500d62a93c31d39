//! The task of one conversation: asks the machine what is next, carries it out, waits for what happens.
//!
//! It exists while something is under way or to be answered; an idle conversation has none. All changes of a
//! conversation go through it, so they are serialised.

mod answer;
mod command;
mod commit;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nervekit_permissions::{DocumentScope, Evaluation, PolicyDocument};
use nervekit_tools::{Cancellation, ProcessRef};
use nervekit_types::{ConversationId, ToolCallId, TurnId};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::core::Inner;
use super::execute::{self, Cleared, Ran, Work};
use super::feed::Feed;
use super::machine::{Activity, Live, Step, ToolTraits, View};
use super::plan::{self, PERMISSIONS, Settlement};
use super::projection::{Projection, Tail};
use super::propose::CallScope;
use super::recovery::RecoveryReport;
use super::request::{Answer, TurnSnapshot, request};
use crate::command::{CommandRequest, Receipt};
use crate::conversation::ProjectRecord;
use crate::error::{CommandError, Subject};
use crate::event::{ExecutionState, FailureReason};
use crate::store::{EventRange, Rows, StoreError};
use crate::tool_call::ToolCall;

pub(crate) use commit::Failure;

/// What a conversation's task is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// A host asks for something.
    Command {
        /// What.
        request: Box<CommandRequest>,
        /// Who waits for the answer.
        answer: oneshot::Sender<Result<Receipt, CommandError>>,
    },
    /// Recovery found the conversation unfinished.
    Recover {
        /// Told when everything that recovery writes is written.
        done: oneshot::Sender<RecoveryReport>,
    },
    /// Something may have changed: look again.
    Wake,
    /// A process is about to be released: its reference goes on record first.
    Process {
        /// The call that started it.
        call: ToolCallId,
        /// The attempt of the call.
        attempt: u32,
        /// The process.
        process: ProcessRef,
        /// Told when the reference is durable; dropped if the process must not run.
        recorded: oneshot::Sender<()>,
    },
    /// The runtime shuts down.
    Close {
        /// Told when the task ends.
        done: oneshot::Sender<()>,
    },
}

/// What a piece of work in the background came to.
#[derive(Debug)]
enum Done {
    Answer { turn_id: TurnId, attempt: u32, answer: Box<Answer> },
    Judged { call: ToolCallId, result: Box<Result<Evaluation, Settlement>> },
    Cleared { call: ToolCallId, result: Box<Result<Cleared, Settlement>> },
    Ran { call: ToolCallId, attempt: u32, ran: Box<Ran> },
    Overdue { call: ToolCallId, attempt: u32 },
}

/// A call whose executor runs here.
#[derive(Debug)]
struct RunningCall {
    attempt: u32,
    cancellation: Cancellation,
    task: AbortHandle,
}

/// A stop that is answered when the execution has ended.
#[derive(Debug)]
struct PendingStop {
    execution: nervekit_types::ExecutionId,
    receipt: Receipt,
    answer: oneshot::Sender<Result<Receipt, CommandError>>,
}

/// That the conversation cannot be carried on here; without an error, another core has it now.
#[derive(Debug)]
struct GivenUp {
    error: Option<StoreError>,
}

/// Whether the task goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    End,
}

#[derive(Debug)]
struct Actor {
    core: Arc<Inner>,
    id: ConversationId,
    sender: mpsc::UnboundedSender<Message>,
    inbox: mpsc::UnboundedReceiver<Message>,
    rows: Rows,
    project: Arc<ProjectRecord>,
    projection: Option<Projection>,
    /// The conversation's rules; the error if they cannot be read, and then nothing is asked or run.
    policy: Result<Option<Arc<PolicyDocument>>, String>,
    live: Live,
    tasks: JoinSet<Done>,
    request: Option<AbortHandle>,
    attempt: u32,
    retry_at: Option<Instant>,
    evaluations: BTreeMap<ToolCallId, Evaluation>,
    cleared: BTreeMap<ToolCallId, Cleared>,
    running: HashMap<ToolCallId, RunningCall>,
    stops: Vec<PendingStop>,
    renew_at: Option<Instant>,
    recovered: RecoveryReport,
    recovering: Vec<oneshot::Sender<RecoveryReport>>,
    stale: bool,
    feed: Arc<Feed>,
    /// Set when it cannot go on here; without an error, another core has the conversation now.
    given_up: Option<GivenUp>,
}

/// Runs the task of a conversation until nothing is left to do.
pub(super) async fn run(
    core: Arc<Inner>,
    id: ConversationId,
    sender: mpsc::UnboundedSender<Message>,
    mut inbox: mpsc::UnboundedReceiver<Message>,
) {
    loop {
        match load(&core, id).await {
            Ok((rows, project)) => {
                let actor = Actor::new(core.clone(), id, sender.clone(), inbox, rows, project);
                let (rest, failure) = actor.live().await;
                inbox = rest;
                if let Some(error) = failure {
                    refuse_all(&mut inbox, id, Some(&error));
                }
            }
            Err(error) => refuse_all(&mut inbox, id, error.as_ref()),
        }
        if core.retire(id, &inbox) {
            return;
        }
    }
}

async fn load(core: &Inner, id: ConversationId) -> Result<(Rows, Arc<ProjectRecord>), Option<StoreError>> {
    let rows = core.store.load(id).await.map_err(Some)?.ok_or(None)?;
    let project = core.store.project(rows.core.value.project_id).await.map_err(Some)?;
    let project = project.ok_or_else(|| Some(StoreError::Damaged("its project is missing".into())))?;
    Ok((rows, Arc::new(project.value)))
}

/// Answers everything that is queued with why the conversation cannot be had.
fn refuse_all(inbox: &mut mpsc::UnboundedReceiver<Message>, id: ConversationId, error: Option<&StoreError>) {
    while let Ok(message) = inbox.try_recv() {
        match message {
            Message::Command { answer, .. } => {
                let error = match error {
                    Some(error) => CommandError::Store(error.again()),
                    None => CommandError::NotFound(Subject::Conversation(id)),
                };
                // Nobody may be waiting for the answer any more.
                let _ = answer.send(Err(error));
            }
            Message::Recover { done } => drop(done),
            Message::Process { recorded, .. } => drop(recorded),
            Message::Wake => {}
            Message::Close { done } => drop(done.send(())),
        }
    }
}

impl Actor {
    fn new(
        core: Arc<Inner>,
        id: ConversationId,
        sender: mpsc::UnboundedSender<Message>,
        inbox: mpsc::UnboundedReceiver<Message>,
        rows: Rows,
        project: Arc<ProjectRecord>,
    ) -> Self {
        let feed = core.feed(id);
        let foreign = rows.lease.as_ref().is_none_or(|lease| lease.value.incarnation != core.incarnation);
        let attempt =
            rows.core.value.open_execution.as_ref().map_or(1, |open| feed.next_attempt(open.turn_id));
        let live = Live { interrupted: rows.open_execution().is_some() && foreign, ..Live::default() };
        let mut actor = Self {
            core,
            id,
            sender,
            inbox,
            rows,
            project,
            projection: None,
            policy: Ok(None),
            live,
            tasks: JoinSet::new(),
            request: None,
            attempt,
            retry_at: None,
            evaluations: BTreeMap::new(),
            cleared: BTreeMap::new(),
            running: HashMap::new(),
            stops: Vec::new(),
            renew_at: None,
            recovered: RecoveryReport::default(),
            recovering: Vec::new(),
            stale: false,
            feed,
            given_up: None,
        };
        actor.read_policy();
        actor
    }

    /// Lives until there is nothing left to do, or until it cannot go on; gives the inbox back.
    async fn live(mut self) -> (mpsc::UnboundedReceiver<Message>, Option<StoreError>) {
        while self.given_up.is_none() && self.work().await == Flow::On && self.wait().await == Flow::On {}
        if self.given_up.is_none() && !self.stale {
            self.core.keep_projection(self.id, self.rows.core.value.head, self.projection.take());
        }
        (self.inbox, self.given_up.and_then(|given_up| given_up.error))
    }

    /// Does what is to be done until nothing is left but to wait. Ends when nothing is to be waited for either.
    async fn work(&mut self) -> Flow {
        let mut trouble = commit::TROUBLE.0;
        loop {
            if self.core.is_closing() {
                return Flow::On;
            }
            if self.is_foreign() {
                // Another core carries the conversation on; here its mailbox was all there was to write.
                if !self.recovering.is_empty() {
                    self.recovered.held.push(self.id);
                }
                self.answer_stops_elsewhere();
                return self.when_quiet();
            }
            if self.live.requesting && self.rows.is_marked() {
                self.abort_request();
            }
            if let Err(failure) = self.need_projection().await {
                match self.sit_out_failure(failure, &mut trouble).await {
                    Ok(()) => continue,
                    Err(failure) => return self.give_up(&failure),
                }
            }
            let step = self.next_step();
            tracing::trace!(conversation = %self.id, ?step, "step");
            if !self.core.gate_is_open() && step.begins_something() {
                self.note_resumed(&step);
                self.report_recovered();
                return Flow::On;
            }
            match step {
                Step::Wait => {
                    // What recovery had to write is written; work of this core's own is under way.
                    self.report_recovered();
                    return Flow::On;
                }
                Step::Rest => return self.rest().await,
                step => {
                    if let Err(failure) = self.act(step).await {
                        return self.give_up(&failure);
                    }
                }
            }
        }
    }

    fn next_step(&self) -> Step {
        let catalog = self.core.tools.tools();
        let traits = |name: &str| {
            let tool = catalog.get(name)?;
            let definition = tool.definition();
            Some(ToolTraits {
                execution: definition.execution,
                handled_by: definition.handled_by,
                replay_safe: definition.replay_safe,
            })
        };
        View {
            rows: &self.rows,
            tail: self.projection.as_ref().map_or(Tail::Empty, Projection::tail),
            live: &self.live,
            policy: self.core.recovery,
            automatic_limit: self.core.limits.automatic_executions,
            traits: &traits,
        }
        .next()
    }

    /// The task ends if nothing runs and nobody asks; else it waits.
    fn when_quiet(&mut self) -> Flow {
        self.report_recovered();
        if self.tasks.is_empty() && self.inbox.is_empty() { Flow::End } else { Flow::On }
    }

    /// Nothing is to be done: the lease is given back, unless that was part of the last batch.
    async fn rest(&mut self) -> Flow {
        let held = self.holds_lease();
        if held && self.commit_release().await.is_err() {
            return Flow::End;
        }
        self.answer_stops();
        self.when_quiet()
    }

    /// The conversation was taken over or cannot be read: everything here is dropped; whoever has it now goes on.
    fn give_up(&mut self, failure: &Failure) -> Flow {
        tracing::warn!(conversation = %self.id, %failure, "the conversation is given up here");
        self.abort_request();
        self.running.values().for_each(|running| running.cancellation.cancel());
        self.tasks.abort_all();
        self.running.clear();
        self.live = Live::default();
        self.recovering.clear();
        // What was stopped is marked; whoever goes on ends it.
        self.answer_stops_elsewhere();
        self.given_up = Some(GivenUp { error: failure.error() });
        Flow::End
    }

    /// Reads the path to the head, once it is needed.
    async fn need_projection(&mut self) -> Result<(), Failure> {
        if self.projection.is_some() || (self.rows.open_execution().is_none() && self.rows.queue.is_empty()) {
            return Ok(());
        }
        self.load_projection().await
    }

    async fn load_projection(&mut self) -> Result<(), Failure> {
        let core = &self.rows.core.value;
        if let (Some(head), Some((last, mut kept))) = (core.head, self.core.kept_projection(self.id)) {
            let range = EventRange { end: core.next_event_sequence, ..EventRange::from(last.sequence + 1) };
            let events = self.core.store.events(self.id, range).await.map_err(Failure::Store)?;
            if kept.continue_to(last, head, &events) {
                self.projection = Some(kept);
                return Ok(());
            }
        }
        let events = self.core.store.events(self.id, EventRange::from(0)).await.map_err(Failure::Store)?;
        let path = path_to(&events, self.rows.core.value.head);
        self.projection = Some(Projection::of(path));
        Ok(())
    }

    fn read_policy(&mut self) {
        let document = self.rows.documents.get(PERMISSIONS);
        let parsed =
            document.map(|document| PolicyDocument::parse(DocumentScope::Conversation, &document.value));
        self.policy = parsed.transpose().map(|policy| policy.map(Arc::new)).map_err(|error| {
            tracing::error!(conversation = %self.id, %error, "the conversation's rules cannot be read");
            format!("the rules of the conversation cannot be read: {error}")
        });
    }

    fn scope(&self, call: &ToolCall) -> Result<CallScope, Settlement> {
        let policy = self.policy.clone().map_err(|error| {
            let words = format!("The call did not run: {error}.");
            Settlement::new(crate::event::CallOutcome::Failed, words)
        })?;
        Ok(CallScope {
            conversation_id: self.id,
            origin: call.origin,
            settings: call.turn_settings.clone(),
            project: self.project.directory.clone(),
            policy,
        })
    }

    fn call(&self, id: ToolCallId) -> Option<Arc<ToolCall>> {
        self.rows.calls.get(&id).map(|row| Arc::clone(&row.value))
    }

    async fn act(&mut self, step: Step) -> Result<(), Failure> {
        match step {
            Step::Start => {
                self.commit(|draft, planner| {
                    plan::start(draft, planner);
                    Ok(())
                })
                .await
            }
            Step::Deliver => {
                self.commit(|draft, planner| {
                    plan::deliver(draft, planner);
                    Ok(())
                })
                .await
            }
            Step::Request => {
                self.begin_request();
                Ok(())
            }
            Step::Continue => {
                self.live.interrupted = false;
                self.commit(|draft, planner| {
                    plan::count_continued(draft, planner);
                    Ok(())
                })
                .await
            }
            Step::Decide(call) => {
                self.decide(call);
                Ok(())
            }
            Step::Claim(call) => self.claim(call).await,
            Step::Run(call) => {
                self.run_claimed(call);
                Ok(())
            }
            Step::Effect(id) => self.with_call(id, plan::effect).await,
            Step::Stop(call) => {
                self.stop_call(call);
                Ok(())
            }
            Step::SettleCancelled(id) => {
                self.forget(id);
                self.with_call(id, |draft, planner, call| {
                    plan::settle(draft, planner, call, Settlement::cancelled());
                })
                .await
            }
            Step::SettleIndeterminate(id) => {
                self.forget(id);
                self.note_indeterminate(id);
                self.end_left_process(id).await;
                self.with_call(id, |draft, planner, call| {
                    plan::settle(draft, planner, call, Settlement::indeterminate());
                })
                .await
            }
            Step::Repeat(id) => {
                self.end_left_process(id).await;
                self.with_call(id, |draft, _, call| plan::repeat(draft, call)).await
            }
            Step::Complete => self.end(|denied| ExecutionState::Completed { denied }).await,
            Step::Cancel => {
                self.commit(|draft, planner| {
                    plan::end_cancelled(draft, planner);
                    Ok(())
                })
                .await?;
                self.answer_stops();
                Ok(())
            }
            Step::Interrupt => {
                self.live.interrupted = false;
                self.note_interrupted();
                self.end(|_| ExecutionState::Interrupted).await
            }
            Step::Fail(reason) => {
                let message = plan::limit_words(&reason);
                self.end(|denied| ExecutionState::Failed {
                    reason: reason.clone(),
                    message: message.clone(),
                    denied,
                })
                .await
            }
            Step::Wait | Step::Rest => Ok(()),
        }
    }

    /// Commits a change to a call, if it is still there.
    async fn with_call(
        &mut self,
        id: ToolCallId,
        change: impl Fn(&mut crate::store::Draft<'_>, &plan::Planner<'_>, &ToolCall),
    ) -> Result<(), Failure> {
        self.commit(|draft, planner| {
            if let Some(call) = draft.call(id).cloned() {
                change(draft, planner, &call);
            }
            Ok(())
        })
        .await
    }

    /// Ends the open execution. What began a new one in the same moment goes on with the next step.
    async fn end(
        &mut self,
        state: impl Fn(Vec<crate::event::DeniedCall>) -> ExecutionState,
    ) -> Result<(), Failure> {
        self.commit(|draft, planner| {
            let denied = plan::denied(draft);
            plan::end(draft, planner, state(denied));
            Ok(())
        })
        .await
    }

    fn begin_request(&mut self) {
        let (Some(open), Some(projection)) = (&self.rows.core.value.open_execution, &self.projection) else {
            return;
        };
        let (turn_id, attempt) = (open.turn_id, self.attempt);
        let turn = self.policy.clone().map(|policy| TurnSnapshot {
            conversation_id: self.id,
            turn_id,
            attempt,
            config: self.rows.config.value.clone(),
            project: self.project.clone(),
            messages: projection.messages(),
            images: projection.images(),
            policy,
            delegated: self.rows.core.value.parent_conversation_id.is_some(),
        });
        let (core, feed) = (self.core.clone(), self.feed.clone());
        let work = async move {
            let turn = match turn {
                Ok(turn) => turn,
                Err(error) => {
                    let answer = Box::new(Answer::failed(FailureReason::Resources, error));
                    return Done::Answer { turn_id, attempt, answer };
                }
            };
            let answer = match core.request_permits.clone().acquire_owned().await {
                Ok(_permit) => super::supervisor::guard(request(core, feed, turn)).await,
                Err(_) => {
                    return Done::Answer { turn_id, attempt, answer: Box::new(Answer::shutting_down()) };
                }
            };
            let answer = answer.unwrap_or_else(|panic| Answer::panicked(&panic));
            Done::Answer { turn_id, attempt, answer: Box::new(answer) }
        };
        self.live.requesting = true;
        self.request = Some(self.tasks.spawn_on(work, &self.core.runtime));
    }

    /// Drops a request in flight: the connection is closed, what was streamed is discarded.
    fn abort_request(&mut self) {
        if let Some(request) = self.request.take() {
            request.abort();
        }
        self.retry_at = None;
        self.live.requesting = false;
        self.attempt = 1;
        self.feed.drop_draft();
    }

    fn decide(&mut self, id: ToolCallId) {
        let Some(call) = self.call(id) else { return };
        self.live.calls.insert(id, Activity::Deciding);
        let (core, scope) = (self.core.clone(), self.scope(&call));
        if call.state == crate::tool_call::CallState::Supervising {
            self.tasks.spawn_on(
                async move {
                    let result = match scope {
                        Ok(scope) => execute::judge(&core, &call, scope).await,
                        Err(settlement) => Err(settlement),
                    };
                    Done::Judged { call: id, result: Box::new(result) }
                },
                &self.core.runtime,
            );
        } else {
            self.tasks.spawn_on(
                async move {
                    let result = match scope {
                        Ok(scope) => execute::clear(core, call, scope).await,
                        Err(settlement) => Err(settlement),
                    };
                    Done::Cleared { call: id, result: Box::new(result) }
                },
                &self.core.runtime,
            );
        }
    }

    async fn claim(&mut self, id: ToolCallId) -> Result<(), Failure> {
        self.with_call(id, plan::claim).await?;
        match (self.cleared.remove(&id), self.call(id)) {
            (Some(cleared), Some(call)) if call.state == crate::tool_call::CallState::Running => {
                self.spawn_run(call, async move { Ok(cleared) });
            }
            _ => drop(self.live.calls.remove(&id)),
        }
        Ok(())
    }

    /// Runs a call that was claimed with its message.
    fn run_claimed(&mut self, id: ToolCallId) {
        let Some(call) = self.call(id) else { return };
        self.live.claimed.remove(&id);
        let evaluation = self.evaluations.remove(&id);
        let scope = self.scope(&call);
        let judged = call.clone();
        let core = self.core.clone();
        self.spawn_run(call, async move {
            let evaluation = match evaluation {
                Some(evaluation) => evaluation,
                None => execute::judge(&core, &judged, scope?).await?,
            };
            execute::admit_claimed(&core, evaluation).await
        });
    }

    fn spawn_run(
        &mut self,
        call: Arc<ToolCall>,
        admitted: impl Future<Output = Result<Cleared, Settlement>> + Send + 'static,
    ) {
        let (id, attempt) = (call.id, call.claim.as_ref().map_or(0, |claim| claim.attempt));
        let (cancellation, progress) = (Cancellation::default(), self.feed.output(id));
        let work = Work {
            call,
            cancellation: cancellation.clone(),
            progress,
            assets: self.projection.as_ref().map(Projection::assets).unwrap_or_default(),
            inbox: self.sender.clone(),
        };
        let core = self.core.clone();
        let task = async move {
            let ran = match admitted.await {
                Ok(cleared) => execute::run(core.clone(), work, cleared).await,
                Err(settlement) => Ran::Settled(settlement),
            };
            Done::Ran { call: id, attempt, ran: Box::new(ran) }
        };
        let task = self.tasks.spawn_on(task, &self.core.runtime);
        self.live.calls.insert(id, Activity::Running);
        self.running.insert(id, RunningCall { attempt, cancellation, task });
    }

    /// Tells an executor to stop; after the grace period it is dropped.
    fn stop_call(&mut self, id: ToolCallId) {
        self.live.calls.insert(id, Activity::Stopping);
        let Some(running) = self.running.get(&id) else { return };
        running.cancellation.cancel();
        let (attempt, grace) = (running.attempt, self.core.limits.cancellation_grace);
        self.tasks.spawn_on(
            async move {
                tokio::time::sleep(grace).await;
                Done::Overdue { call: id, attempt }
            },
            &self.core.runtime,
        );
    }

    /// Drops what was decided about a call that is not to run.
    fn forget(&mut self, id: ToolCallId) {
        self.live.calls.remove(&id);
        self.live.claimed.remove(&id);
        self.cleared.remove(&id);
        self.evaluations.remove(&id);
    }

    /// Ends the process that another core left running for a call, if it verifiably is that one.
    async fn end_left_process(&self, id: ToolCallId) {
        let Some(process) = self.call(id).and_then(|call| call.claim.clone()).and_then(|claim| claim.process)
        else {
            return;
        };
        let (output, _receiver) = nervekit_tools::OutputSender::channel();
        match self.core.processes.reattach(&process, output).await {
            Ok(nervekit_tools::Reattached::Followed(left) | nervekit_tools::Reattached::Lost(left)) => {
                left.stop().await;
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a process that was left running could not be found"),
        }
    }

    async fn wait(&mut self) -> Flow {
        let renew = self.renew_at;
        let retry = self.retry_at;
        tokio::select! {
            biased;
            message = self.inbox.recv() => match message {
                Some(message) => self.receive(message).await,
                None => Flow::End,
            },
            Some(done) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                if let Ok(done) = done
                    && let Err(failure) = self.finish(done).await
                {
                    self.give_up(&failure);
                }
                Flow::On
            }
            () = at(retry) => {
                self.retry_at = None;
                self.live.requesting = false;
                Flow::On
            }
            () = at(renew) => {
                if let Err(failure) = self.renew().await {
                    self.give_up(&failure);
                }
                Flow::On
            }
        }
    }

    async fn receive(&mut self, message: Message) -> Flow {
        match message {
            Message::Command { request, answer } => self.command(*request, answer).await,
            Message::Recover { done } => self.recovering.push(done),
            Message::Wake => match self.reload().await {
                Ok(()) => {}
                // It is read when it is next needed: whatever is written holds only on the rows as they are.
                Err(Failure::Store(_)) => self.stale = true,
                Err(failure) => drop(self.give_up(&failure)),
            },
            Message::Process { call, attempt, process, recorded } => {
                self.record_process(call, attempt, process, recorded).await;
            }
            Message::Close { done } => {
                self.close().await;
                // Who shuts down may have stopped waiting.
                let _ = done.send(());
                return Flow::End;
            }
        }
        Flow::On
    }
}

/// Waits until a moment; for ever if there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The events from the first to the head, along the links.
fn path_to(
    events: &[crate::event::Event],
    head: Option<crate::event::EventLink>,
) -> Vec<&crate::event::Event> {
    let mut path = Vec::with_capacity(events.len());
    let mut link = head;
    while let Some(at) = link {
        let found = usize::try_from(at.sequence).ok().and_then(|sequence| events.get(sequence));
        let Some(event) = found.filter(|event| event.id == at.id) else { break };
        path.push(event);
        link = event.previous;
    }
    path.reverse();
    path
}
