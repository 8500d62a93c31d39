//! The task of one conversation: asks the machine what is next, carries it out, waits for what happens.
//!
//! It exists while something is under way or to be answered; an idle conversation has none. All changes of a
//! conversation go through it, so they are serialised.

mod answer;
mod command;
mod commit;
mod step;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nervekit_permissions::{DocumentScope, Evaluation, Evidence, PolicyDocument};
use nervekit_tools::{Cancellation, ProcessRef};
use nervekit_types::{ConversationId, ToolCallId, TurnId};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::core::Inner;
use super::execute::{Cleared, Ran};
use super::feed::Feed;
use super::machine::{Live, Step, ToolTraits, View};
use super::plan::{self, PERMISSIONS, Settlement};
use super::projection::{Projection, Tail, path_to};
use super::recovery::RecoveryReport;
use super::request::Answer;
use crate::command::{CommandRequest, Receipt};
use crate::conversation::ProjectRecord;
use crate::error::{CommandError, Subject};
use crate::interaction::Remembered;
use crate::store::{EventRange, Rows, StoreError};

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
        /// When what runs must have come to an end.
        until: Instant,
        /// Told when the task ends: whether everything that ran came to a recorded end.
        done: oneshot::Sender<bool>,
    },
}

/// What a piece of work in the background came to.
#[derive(Debug)]
enum Done {
    Answer { turn_id: TurnId, attempt: u32, answer: Box<Answer> },
    Remembered { call: ToolCallId, remembered: Box<Remembered> },
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
    /// Set while others may have written without being noticed here: before a command is carried out, the rows are
    /// read again.
    behind: bool,
    /// Set when something was written to the mailbox of another core's conversation.
    mailed: bool,
    feed: Arc<Feed>,
    /// Set when it cannot go on here; without an error, another core has the conversation now.
    given_up: Option<GivenUp>,
    closed: Option<Closed>,
}

/// Whoever shuts down waits for this task, and is told whether everything that ran is recorded.
#[derive(Debug)]
struct Closed {
    done: oneshot::Sender<bool>,
    recorded: bool,
}

/// Runs the task of a conversation until nothing is left to do.
pub(super) async fn run(
    core: Arc<Inner>,
    id: ConversationId,
    sender: mpsc::UnboundedSender<Message>,
    mut inbox: mpsc::UnboundedReceiver<Message>,
) {
    let mut closed = None;
    loop {
        match load(&core, id).await {
            _ if core.is_closing() => refuse_all(&mut inbox, || CommandError::ShuttingDown),
            Ok((rows, project)) => {
                let actor = Actor::new(core.clone(), id, sender.clone(), inbox, rows, project);
                let (rest, failure, end) = actor.live().await;
                inbox = rest;
                closed = end.or(closed);
                if let Some(error) = failure {
                    refuse_all(&mut inbox, || CommandError::Store(error.again()));
                }
            }
            Err(Some(error)) => refuse_all(&mut inbox, || CommandError::Store(error.again())),
            Err(None) => refuse_all(&mut inbox, || CommandError::NotFound(Subject::Conversation(id))),
        }
        if core.retire(id, &inbox) {
            break;
        }
    }
    // Whoever has the answer may close the store.
    drop(core);
    if let Some(Closed { done, recorded }) = closed {
        // Who shuts down may have stopped waiting.
        let _ = done.send(recorded);
    }
}

async fn load(core: &Inner, id: ConversationId) -> Result<(Rows, Arc<ProjectRecord>), Option<StoreError>> {
    let rows = core.store.load(id).await.map_err(Some)?.ok_or(None)?;
    let project = core.store.project(rows.core.value.project_id).await.map_err(Some)?;
    let project = project.ok_or_else(|| Some(StoreError::Damaged("its project is missing".into())))?;
    Ok((rows, Arc::new(project.value)))
}

/// Answers everything that is queued with why the conversation cannot be had.
fn refuse_all(inbox: &mut mpsc::UnboundedReceiver<Message>, error: impl Fn() -> CommandError) {
    while let Ok(message) = inbox.try_recv() {
        match message {
            // Nobody may be waiting for the answer any more.
            Message::Command { answer, .. } => drop(answer.send(Err(error()))),
            Message::Recover { done } => drop(done),
            Message::Process { recorded, .. } => drop(recorded),
            Message::Wake => {}
            Message::Close { done, .. } => drop(done.send(true)),
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
            behind: false,
            mailed: false,
            feed,
            given_up: None,
            closed: None,
        };
        actor.read_policy();
        actor.plan_to_look();
        actor
    }

    /// Lives until there is nothing left to do, or until it cannot go on; gives the inbox back, and whoever is to be
    /// told of the end.
    async fn live(mut self) -> (mpsc::UnboundedReceiver<Message>, Option<StoreError>, Option<Closed>) {
        while self.given_up.is_none() && self.work().await == Flow::On && self.wait().await == Flow::On {}
        if self.given_up.is_none() && !self.stale {
            self.core.keep_projection(self.id, self.rows.core.value.head, self.projection.take());
        }
        (self.inbox, self.given_up.and_then(|given_up| given_up.error), self.closed)
    }

    /// Does what is to be done until nothing is left but to wait. Ends when nothing is to be waited for either.
    async fn work(&mut self) -> Flow {
        let mut trouble = commit::TROUBLE.0;
        loop {
            if self.core.is_closing() {
                return Flow::On;
            }
            if self.is_foreign() {
                if self.live.requesting || !self.live.calls.is_empty() {
                    return self.give_up(&Failure::Fenced);
                }
                // Another core carries the conversation on; here its mailbox was all there was to write.
                if std::mem::take(&mut self.mailed) {
                    self.tell_holder();
                    // It may have given the conversation back just before. If that cannot be read, the sweep looks.
                    if self.reload().await.is_ok() {
                        continue;
                    }
                }
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
                Step::Rest => {
                    if let Some(flow) = self.rest().await {
                        return flow;
                    }
                }
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

    /// Nothing is to be done: the lease is given back, unless that was part of the last batch. None if something has
    /// come in between.
    async fn rest(&mut self) -> Option<Flow> {
        if self.holds_lease() {
            match self.release_if_read().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(_) => return Some(Flow::End),
            }
        }
        self.answer_stops();
        Some(self.when_quiet())
    }

    /// Lets the core that holds the conversation look at once, if it is known here; else it looks by itself before
    /// long.
    fn tell_holder(&self) {
        if let Some(lease) = &self.rows.lease {
            self.core.neighbours.wake(lease.value.incarnation, self.id);
        }
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

    /// Shows followers what is wrong with the documents by which a call was judged, once it is something else than
    /// before.
    fn show_problems(&self, evidence: &Evidence) {
        if self.feed.problems_changed(&evidence.ignored_documents) {
            self.feed.publish_state(|| self.rows.state());
        }
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

    async fn wait(&mut self) -> Flow {
        let renew = self.renew_at;
        let retry = self.retry_at;
        if self.inbox.is_empty() {
            self.behind |= !self.holds_lease();
        }
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
                Err(Failure::Store(_)) => self.behind = true,
                Err(failure) => drop(self.give_up(&failure)),
            },
            Message::Process { call, attempt, process, recorded } => {
                self.record_process(call, attempt, process, recorded).await;
            }
            Message::Close { until, done } => {
                let recorded = self.close(until).await;
                self.closed = Some(Closed { done, recorded });
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
