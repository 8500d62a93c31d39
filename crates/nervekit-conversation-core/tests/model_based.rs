//! Random programs of host commands, crashes among them, against a simple model of what must come of them.
//!
//! Each program has a seed that decides everything: the commands, the answers of the model, when the process
//! dies. A failure names its seed; `NERVEKIT_SEED=… cargo test --test model_based` runs that one alone.
//!
//! Some programs run two cores over one store: either takes any command, and each is shut down or dies at any moment
//! while the other one lives on.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "common/wire.rs"]
mod wire;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nervekit_conversation_core::store::{EventRange, Rows, Store};
use nervekit_conversation_core::testing::{Fault, FaultBackend};
use nervekit_conversation_core::{
    Attendance, Backend as _, CallState, Command, CommandError, CommandOutcome, CommandRequest, ConfigChange,
    ConversationConfig, ConversationCore, Conversations, DeliveryTarget, Event, EventPayload, ExecutionState,
    InputFate, Lease, Limits, NewConversation, NewInput, NewProject, Query, Receipt, RecoveryPolicy,
    Remember, Resolution, RuntimeLimits, Snapshot, Status, View,
};
use nervekit_harness::{
    ContentBlock, Message, ModelRegistry, ModelRequest, ProviderError, ProviderErrorKind, RetryPolicy,
    ScriptedModel, ScriptedReply, StopReason,
};
use nervekit_permissions::{Risk, Roots, RuleEngine};
use nervekit_tools::{
    ArgumentType, Catalog, InputRequest, Tool, ToolCall, ToolContext, ToolDefinition, ToolError,
    ToolExecutor, ToolOutcome, ToolOutput,
};
use nervekit_types::testing::{ManualClock, SeededEntropy, SequenceIds};
use nervekit_types::{
    Clock, CommandId, ConversationId, EventId, ExecutionId, InputId, InteractionId, Principal, ProjectId,
    ToolCallId,
};
use serde_json::json;
use tokio::time::sleep;

use self::wire::{Wire, Wired};

const STEPS: usize = 120;
const CONVERSATIONS: usize = 2;
/// The words of panics that are planned.
const PLANNED: &str = "planned";
/// The lease where two cores run.
const LEASE: Duration = Duration::from_secs(3);
/// In this time everything is over that ends by itself.
const REST: Duration = Duration::from_secs(60);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Decides everything.
#[derive(Debug)]
struct Dice(SeededEntropy);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    fn below(&self, end: usize) -> usize {
        usize::try_from(self.0.next_u64() % u64::try_from(end).unwrap()).unwrap()
    }

    fn chance(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len())].clone())
    }
}

/// What outlives every crash: effects on the world, and what was found to be wrong.
#[derive(Debug, Default)]
struct World {
    /// How often each call had its effect, of those that may have it once at most.
    effects: Mutex<BTreeMap<String, usize>>,
    faults: Mutex<Vec<String>>,
    requests: AtomicUsize,
}

impl World {
    fn fault(&self, fault: String) {
        self.faults.lock().unwrap().push(fault);
    }
}

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Note {
    text: String,
}

/// Asks a person once it runs, and goes on with the answer.
#[derive(Debug)]
struct Consult;

#[async_trait]
impl ToolExecutor for Consult {
    async fn execute(&self, call: ToolCall, _: ToolContext) -> Result<ToolOutcome, ToolError> {
        Ok(ToolOutcome::NeedsInput(InputRequest::new(call.typed::<Note>()?.text)))
    }

    async fn answered(
        &self,
        _: ToolCall,
        answer: serde_json::Value,
        _: ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        Ok(ToolOutput::text(answer.to_string()).into())
    }
}

/// Tools of every kind: repeated freely, repeated never, asked for, asking, slow, failing, panicking.
fn catalog(world: &Arc<World>) -> Catalog {
    let once = |world: &Arc<World>| {
        let world = world.clone();
        move |note: Note, context: ToolContext| {
            let world = world.clone();
            async move {
                sleep(MILLISECOND).await;
                *world.effects.lock().unwrap().entry(context.effect_key()).or_default() += 1;
                sleep(MILLISECOND).await;
                Ok(note.text)
            }
        }
    };
    let slow = |note: Note, context: ToolContext| async move {
        tokio::select! {
            biased;
            () = context.cancelled() => {}
            () = sleep(40 * MILLISECOND) => {}
        }
        Ok(note.text)
    };
    let consult = ArgumentType::of::<Note>();
    let asking = ToolDefinition::unreviewed("consult", "Asks.", consult.schema().clone()).descriptor(
        |mut descriptor| {
            descriptor.base_risk = Risk::Read;
            descriptor
        },
    );
    Catalog::new()
        .with(
            Tool::function("look", "Looks.", |note: Note, _: ToolContext| async move { Ok(note.text) })
                .reviewed(Risk::Read)
                .parallel()
                .replay_safe(),
        )
        .with(Tool::function("slow", "Takes long.", slow).reviewed(Risk::Read).parallel().replay_safe())
        .with(Tool::function("count", "Counts.", once(world)).reviewed(Risk::Read))
        .with(Tool::function("send", "Sends.", once(world)).reviewed(Risk::Network).parallel())
        .with(
            Tool::function("fail", "Fails.", |_: Note, _: ToolContext| async move {
                Err::<String, _>(ToolError::new("it is broken"))
            })
            .reviewed(Risk::Read),
        )
        .with(
            Tool::function("panic", "Panics.", |note: Note, _: ToolContext| async move {
                assert!(note.text.is_empty(), "{PLANNED}");
                Ok(note.text)
            })
            .reviewed(Risk::Read),
        )
        .with(Tool::new(asking, consult, Consult))
        .with(nervekit_tools::catalog::ask_user())
        .with(nervekit_tools::catalog::todos_set())
}

/// Each call of what the model is sent has exactly one result, directly behind its message, in order.
fn check_messages(request: &ModelRequest) -> Result<(), String> {
    let mut owed: VecDeque<&str> = VecDeque::new();
    for message in &request.messages {
        if let Message::ToolResult(result) = message {
            let call = owed.pop_front().ok_or("a result stands without its call")?;
            if call != result.tool_call_id {
                return Err(format!("the result of `{}` stands for `{call}`", result.tool_call_id));
            }
            continue;
        }
        if let Some(call) = owed.front() {
            return Err(format!("`{call}` has no result"));
        }
        if let Message::Assistant(answer) = message {
            owed.extend(answer.tool_calls().map(|call| call.id.as_str()));
            if owed.iter().collect::<BTreeSet<_>>().len() != owed.len() {
                return Err("two calls of a message have the same id".to_owned());
            }
        }
    }
    match (owed.front(), request.messages.last()) {
        (Some(call), _) => Err(format!("`{call}` has no result at the end")),
        (None, Some(Message::Assistant(_)) | None) => Err("there is nothing to answer".to_owned()),
        _ => Ok(()),
    }
}

/// A model that answers by the dice, and looks at what it is sent.
fn model(dice: Arc<Dice>, world: Arc<World>) -> ScriptedModel {
    ScriptedModel::from_fn(move |request| {
        world.requests.fetch_add(1, Ordering::Relaxed);
        if let Err(fault) = check_messages(request) {
            world.fault(format!("in a request: {fault}"));
        }
        reply(&dice)
    })
}

fn reply(dice: &Dice) -> ScriptedReply {
    let mut reply = ScriptedReply::new();
    if dice.chance(40) {
        reply = reply.delay(MILLISECOND * u32::try_from(dice.below(30)).unwrap());
    }
    let error = |kind| ProviderError::new(kind, "by the dice");
    match dice.below(100) {
        0..5 => return reply.deltas(["par", "tial"]).then_fails(error(ProviderErrorKind::Overloaded)),
        5..7 => return reply.then_fails(error(ProviderErrorKind::InvalidRequest)),
        7..9 => return reply.deltas(["cut"]).then_cut(),
        9..11 => return reply.then_panics(PLANNED),
        11..45 => return reply.deltas(["all", " done"]),
        _ => {}
    }
    for _ in 0..=dice.below(4) {
        let text = json!({"text": format!("{}", dice.below(1_000))});
        reply = match dice.below(16) {
            0..3 => reply.call("look", text),
            3..5 => reply.call("slow", text),
            5..7 => reply.call("count", text),
            7..10 => reply.call("send", text),
            10 => reply.call("consult", text),
            11 => reply.call("ask_user", json!({"question": "which?"})),
            12 => reply.call("todos_set", json!({"todos": [{"todo": "a", "done": false}]})),
            13 => reply.call(["nobody", "fail", "panic"][dice.below(3)], text),
            14 => reply.raw_call("same", "look", text.to_string()),
            _ => reply.raw_call("", "look", ["{\"text\": 1}", "{", "[]"][dice.below(3)]),
        };
    }
    if dice.chance(5) { reply.stop_reason(StopReason::MaxTokens) } else { reply }
}

/// What the host knows of an input.
#[derive(Clone, Debug)]
struct Submitted {
    text: String,
    target: DeliveryTarget,
    /// The order in which it was accepted; none while it is not known whether it was.
    accepted: Option<usize>,
    fate: Option<InputFate>,
}

/// What the host knows of a conversation.
#[derive(Debug)]
struct Known {
    id: ConversationId,
    inputs: BTreeMap<InputId, Submitted>,
    paused: bool,
    title: Option<String>,
    turns: u32,
    /// Set when a command may or may not have been carried out: what it sets is read, not compared.
    in_doubt: bool,
    events: Vec<Event>,
    interactions: Vec<InteractionId>,
    receipts: Vec<(CommandRequest, CommandOutcome)>,
}

/// A core, and its own way to the store.
#[derive(Clone)]
struct Runner {
    core: ConversationCore,
    wire: Arc<Wired<FaultBackend>>,
}

/// A program under way.
struct Program {
    /// How many cores run over the store at once.
    cores: usize,
    dice: Arc<Dice>,
    world: Arc<World>,
    ids: Arc<SequenceIds>,
    clock: Arc<ManualClock>,
    backend: Arc<FaultBackend>,
    project: ProjectId,
    known: Vec<Known>,
    accepted: usize,
    /// Calls that were stopped before they were claimed.
    never: BTreeSet<ToolCallId>,
    trace: Vec<String>,
    steps: usize,
}

/// Whether the process lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    On,
    Died,
}

impl Program {
    fn new(seed: u64, cores: usize) -> Self {
        let clock = Arc::new(ManualClock::default());
        let known = |n| Known {
            id: ConversationId::from_key(&format!("{n}")),
            inputs: BTreeMap::new(),
            paused: false,
            title: None,
            turns: Limits::new().turns,
            in_doubt: false,
            events: Vec::new(),
            interactions: Vec::new(),
            receipts: Vec::new(),
        };
        Self {
            cores,
            dice: Arc::new(Dice::new(seed)),
            world: Arc::default(),
            ids: Arc::default(),
            backend: Arc::new(FaultBackend::new().clock(clock.clone())),
            clock,
            project: ProjectId::from_key("p"),
            known: (0..CONVERSATIONS).map(known).collect(),
            accepted: 0,
            never: BTreeSet::new(),
            trace: Vec::new(),
            steps: 0,
        }
    }

    /// Runs to the end. Each opening of the store has a runtime of its own, so that a crash leaves no task behind.
    fn run(&mut self) {
        while self.steps < STEPS {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(self.life());
            drop(runtime);
            self.backend = Arc::new(self.backend.reopen());
            self.trace.push("reopened".to_owned());
        }
    }

    /// From an opening to a crash or to the end of the program.
    async fn life(&mut self) {
        let mut runners = vec![self.open(None).await];
        while runners.len() < self.cores {
            runners.push(self.open(runners.first()).await);
        }
        let store = Store::open(self.backend.clone(), self.ids.clone()).await.unwrap();
        self.create(&runners[0].core).await;
        for known in &mut self.known {
            known.in_doubt = true;
        }
        self.check(&runners[0], &store).await;
        while self.steps < STEPS {
            self.steps += 1;
            let at = if self.cores > 1 { self.dice.below(self.cores) } else { 0 };
            if self.cores > 1 && self.dice.chance(4) {
                self.replace(&mut runners, at).await;
            }
            if self.step(&runners[at]).await == Life::Died {
                return;
            }
            if runners[at].wire.is_cut() {
                self.reopen(&mut runners, at).await;
            }
            self.check(&runners[at], &store).await;
        }
        // In the end everything comes to rest, and shutting down leaves nothing behind.
        self.come_to_rest(&runners, &store).await;
        for runner in runners {
            let report = runner.core.shutdown(Duration::from_secs(60)).await;
            assert_eq!(report.abandoned, 0);
        }
    }

    async fn open(&self, beside: Option<&Runner>) -> Runner {
        let policy = match self.dice.below(3) {
            0 => RecoveryPolicy::Continue { at_most: 2 },
            _ => RecoveryPolicy::Interrupt,
        };
        let wire = Arc::new(Wired::new(self.backend.clone()));
        let models = ModelRegistry::new().register(model(self.dice.clone(), self.world.clone()));
        let engine = RuleEngine::new(Roots::new());
        let builder = ConversationCore::builder(wire.clone(), models, engine, catalog(&self.world))
            .ids(self.ids.clone())
            .clock(self.clock.clone())
            .entropy(SeededEntropy::new(self.dice.0.next_u64()))
            .retries(RetryPolicy::new().retries(2))
            .recovery(policy);
        let builder = match beside {
            // Leases expire in the course of the program, also those of cores that live.
            Some(_) if self.dice.chance(50) => builder.limits(RuntimeLimits::new().lease(LEASE)),
            Some(other) => builder.limits(RuntimeLimits::new().lease(LEASE)).beside(&other.core),
            None if self.cores > 1 => builder.limits(RuntimeLimits::new().lease(LEASE)),
            None => builder,
        };
        Runner { core: builder.open().await.unwrap(), wire }
    }

    /// Shuts one of the cores down, or lets it die, now or at its next commit.
    async fn replace(&mut self, runners: &mut [Runner], at: usize) {
        let how = self.dice.below(4);
        self.trace.push(format!("core {at} ends: {how}"));
        match how {
            0 => {
                // What it commits meanwhile may crash the process.
                let backend = self.backend.clone();
                tokio::select! {
                    biased;
                    report = runners[at].core.shutdown(Duration::from_secs(60)) => assert_eq!(report.abandoned, 0),
                    () = backend.crashed() => return,
                }
            }
            1 => runners[at].wire.set(Wire::Cut),
            2 => return runners[at].wire.set(Wire::CutBefore),
            _ => return runners[at].wire.set(Wire::CutAfter),
        }
        self.reopen(runners, at).await;
    }

    /// Opens a core in the place of one that has ended.
    async fn reopen(&mut self, runners: &mut [Runner], at: usize) {
        self.trace.push(format!("core {at} is opened again"));
        let backend = self.backend.clone();
        tokio::select! {
            biased;
            opened = self.open(runners.get(1 - at)) => runners[at] = opened,
            () = backend.crashed() => {}
        }
    }

    async fn create(&self, core: &ConversationCore) {
        let create = Command::CreateProject(NewProject::new("p").id(self.project));
        core.command(CommandRequest::new(CommandId::next(&*self.ids), create)).await.unwrap();
        for known in &self.known {
            let config = ConversationConfig::new("demo/scripted".parse().unwrap());
            let new = NewConversation::new(self.project, config).id(known.id);
            let create = Command::CreateConversation(Box::new(new));
            core.command(CommandRequest::new(CommandId::next(&*self.ids), create)).await.unwrap();
        }
    }

    async fn step(&mut self, runner: &Runner) -> Life {
        let at = self.dice.below(CONVERSATIONS);
        let roll = self.dice.below(100);
        match roll {
            0..22 => {
                let time = [0, 1, 1, 2, 5, 20, 200, 5_000][self.dice.below(8)];
                self.trace.push(format!("wait {time} ms"));
                self.wait(time * MILLISECOND).await
            }
            22..25 => self.crash().await,
            _ => {
                let Some(command) = self.command(runner, at).await else { return Life::On };
                self.carry_out(runner, at, command).await
            }
        }
    }

    async fn wait(&self, time: Duration) -> Life {
        let backend = self.backend.clone();
        tokio::select! {
            biased;
            () = backend.crashed() => return Life::Died,
            () = sleep(time) => {}
        }
        self.clock.advance(time);
        Life::On
    }

    /// Dies here, or before or after the next commit.
    async fn crash(&mut self) -> Life {
        let fault = [None, Some(Fault::CrashBefore), Some(Fault::CrashAfter)][self.dice.below(3)];
        self.trace.push(format!("crash {fault:?}"));
        if fault.is_none() {
            return Life::Died;
        }
        self.backend.set_fault(fault);
        // What is under way may get there by itself; otherwise the next command does.
        let life = self.wait(MILLISECOND).await;
        if life == Life::Died {
            self.trace.push("died".to_owned());
        }
        life
    }

    /// A random command for this conversation.
    async fn command(&mut self, runner: &Runner, at: usize) -> Option<Command> {
        let dice = self.dice.clone();
        let conversation_id = self.known[at].id;
        let snapshot = self.snapshot(runner, conversation_id).await?;
        let open = snapshot.state.conversation.open_execution.as_ref().map(|open| open.id);
        Some(match dice.below(100) {
            0..30 => Command::Submit { conversation_id, input: self.input(at, open) },
            30..35 => {
                let known: Vec<InputId> = self.known[at].inputs.keys().copied().collect();
                let input_id = dice.pick(&known).unwrap_or_else(|| InputId::from_key("nobody's"));
                Command::CancelInput { conversation_id, input_id }
            }
            35..40 => Command::Pause { conversation_id },
            40..46 => Command::Resume { conversation_id },
            46..51 => {
                let other = dice.chance(20).then(|| ExecutionId::from(EventId::next(&*self.ids)));
                Command::Stop { conversation_id, execution_id: other.or(open.filter(|_| dice.chance(50))) }
            }
            51..58 => Command::ContinueProcessing { conversation_id, head: None },
            58..62 => {
                let title = dice.chance(80).then(|| format!("title {}", dice.below(100)));
                Command::SetTitle { conversation_id, title }
            }
            62..68 => {
                let change = match dice.below(4) {
                    0 => ConfigChange::new().attendance(Attendance::Unattended),
                    1 => ConfigChange::new().attendance(Attendance::Attended),
                    2 => {
                        ConfigChange::new().rule_set(["supervised", "autonomous", "read_only"][dice.below(3)])
                    }
                    _ => {
                        let turns = [3, 200][dice.below(2)];
                        ConfigChange::new().limits(Limits::new().turns(turns))
                    }
                };
                Command::Configure { conversation_id, change: Box::new(change) }
            }
            _ => match self.resolution(at, &snapshot) {
                Some(resolve) => resolve,
                None => Command::Submit { conversation_id, input: self.input(at, open) },
            },
        })
    }

    fn input(&self, at: usize, open: Option<ExecutionId>) -> NewInput {
        let dice = &self.dice;
        let known = &self.known[at];
        if dice.chance(15) {
            // Known already: the same once more, or something else under the same id.
            let ids: Vec<InputId> = known.inputs.keys().copied().collect();
            if let Some(id) = dice.pick(&ids) {
                let submitted = &known.inputs[&id];
                let text = if dice.chance(60) { submitted.text.clone() } else { "other words".to_owned() };
                return NewInput::new(text).id(id).target(submitted.target);
            }
        }
        let target = match (dice.below(10), open) {
            (0, _) => DeliveryTarget::NextExecution,
            (1 | 2, Some(execution_id)) => DeliveryTarget::Execution { execution_id },
            (3, None) => DeliveryTarget::Execution { execution_id: EventId::next(&*self.ids).into() },
            _ => DeliveryTarget::NextTurn,
        };
        // With an id of the host's, as the model must know it even if the answer gets lost.
        NewInput::new(format!("words {}", dice.below(1_000_000))).id(InputId::next(&*self.ids)).target(target)
    }

    fn resolution(&self, at: usize, snapshot: &Snapshot) -> Option<Command> {
        let dice = &self.dice;
        let conversation_id = self.known[at].id;
        let Some(shown) = dice.pick(&snapshot.state.interactions).filter(|_| dice.chance(90)) else {
            if dice.chance(80) {
                return None;
            }
            // One that was open once, or never.
            let interaction_id = dice
                .pick(&self.known[at].interactions)
                .unwrap_or_else(|| InteractionId::from_key("nobody's"));
            return Some(Command::Resolve {
                conversation_id,
                interaction_id,
                resolution: Resolution::deny(),
            });
        };
        let resolution = match dice.below(10) {
            0..4 => Resolution::approve(shown.digest),
            4 => Resolution::approve(shown.digest).remember(Remember::conversation(0)),
            5 => Resolution::approve(nervekit_types::Digest::of("something else")),
            6 => Resolution::deny(),
            7 => Resolution::Cancel,
            _ => Resolution::answer("an answer"),
        };
        Some(Command::Resolve { conversation_id, interaction_id: shown.id, resolution })
    }

    /// Carries a command out, unless the process dies meanwhile, and takes note of what came of it.
    async fn carry_out(&mut self, runner: &Runner, at: usize, command: Command) -> Life {
        let again = self.dice.pick(&self.known[at].receipts).filter(|_| self.dice.chance(5));
        if let Some((request, outcome)) = again {
            return self.repeat(runner, request, outcome).await;
        }
        let request = CommandRequest::new(CommandId::next(&*self.ids), command.clone());
        let words = format!("{}: {}", at, serde_json::to_string(&command).unwrap());
        self.note_begun(at, &command);
        let backend = self.backend.clone();
        let carried_out = tokio::select! {
            biased;
            result = runner.core.command(request.clone()) => Some(result),
            () = backend.crashed() => None,
            () = runner.wire.cut() => None,
        };
        match carried_out {
            None => {
                self.trace.push(format!("{words} -> died"));
                self.known[at].in_doubt = true;
                if self.backend.has_crashed() { Life::Died } else { Life::On }
            }
            Some(Ok(receipt)) => {
                self.trace.push(format!("{words} -> {}", serde_json::to_string(&receipt.outcome).unwrap()));
                self.note_done(at, &request, receipt);
                Life::On
            }
            Some(Err(error)) => {
                self.trace.push(format!("{words} -> {error}"));
                self.note_refused(at, &command, &error);
                Life::On
            }
        }
    }

    /// A command that was carried out is answered as before, and does nothing.
    async fn repeat(&mut self, runner: &Runner, request: CommandRequest, outcome: CommandOutcome) -> Life {
        self.trace.push(format!("again: {}", serde_json::to_string(&request.command).unwrap()));
        let backend = self.backend.clone();
        tokio::select! {
            biased;
            result = runner.core.command(request.clone()) => {
                let receipt = result.unwrap();
                assert_eq!(receipt.outcome, outcome, "the repetition of {request:?}");
                Life::On
            }
            () = backend.crashed() => Life::Died,
            () = runner.wire.cut() => Life::On,
        }
    }

    fn note_begun(&mut self, at: usize, command: &Command) {
        if let Command::Submit { input, .. } = command {
            let id = input.id.unwrap();
            self.known[at].inputs.entry(id).or_insert_with(|| Submitted {
                text: input.text.clone(),
                target: input.target,
                accepted: None,
                fate: None,
            });
        }
    }

    fn note_done(&mut self, at: usize, request: &CommandRequest, receipt: Receipt) {
        let accepted = self.accepted;
        let known = &mut self.known[at];
        let mut acted = true;
        match (&request.command, &receipt.outcome) {
            (Command::Submit { input, .. }, CommandOutcome::InputAccepted { input_id, fate }) => {
                assert_eq!(input.id, Some(*input_id));
                let submitted = known.inputs.get_mut(input_id).unwrap();
                assert_eq!(submitted.text, input.text, "other content under the same id is refused");
                if submitted.accepted.is_none() {
                    submitted.accepted = Some(accepted);
                    self.accepted += 1;
                    // Nothing but its first acceptance clears the pause.
                    known.paused = false;
                }
                submitted.fate = Some(*fate);
                // A known input is answered with its fate, whatever it is by then.
                acted = accepted != self.accepted;
            }
            (Command::CancelInput { input_id, .. }, CommandOutcome::InputCancelled { .. }) => {
                known.inputs.get_mut(input_id).unwrap().fate = Some(InputFate::Cancelled);
            }
            (Command::CancelInput { input_id, .. }, CommandOutcome::InputNotCancelled { fate, .. }) => {
                assert!(fate.is_final(), "a queued input can be taken back: {input_id}");
            }
            (Command::Pause { .. }, CommandOutcome::Paused)
            | (Command::Stop { .. }, CommandOutcome::Stopped { .. }) => known.paused = true,
            (Command::Resume { .. }, CommandOutcome::Resumed)
            | (Command::ContinueProcessing { .. }, CommandOutcome::Continued { .. }) => known.paused = false,
            (Command::Stop { execution_id, .. }, CommandOutcome::NothingToStop) => {
                // Nothing is open: it is paused all the same, unless another execution was meant.
                known.paused |= execution_id.is_none();
            }
            (Command::SetTitle { title, .. }, CommandOutcome::TitleSet) => known.title.clone_from(title),
            (Command::Configure { change, .. }, CommandOutcome::Configured) => {
                known.turns = change.limits.map_or(known.turns, |limits| limits.turns);
            }
            (Command::Resolve { .. }, CommandOutcome::Resolved { .. }) => {}
            (command, outcome) => panic!("{command:?} was answered with {outcome:?}"),
        }
        if acted {
            known.receipts.push((request.clone(), receipt.outcome));
        }
        let forgotten = known.receipts.len().saturating_sub(40);
        known.receipts.drain(..forgotten);
    }

    fn note_refused(&mut self, at: usize, command: &Command, error: &CommandError) {
        let known = &mut self.known[at];
        let fits = match (command, error) {
            (Command::Submit { input, .. }, CommandError::NotOpen(_)) => {
                let id = input.id.unwrap();
                if known.inputs[&id].accepted.is_none() {
                    known.inputs.remove(&id);
                }
                matches!(input.target, DeliveryTarget::Execution { .. })
            }
            (Command::Submit { input, .. }, CommandError::OtherContent { id, .. }) => {
                input.text != known.inputs[id].text
            }
            (Command::CancelInput { input_id, .. }, CommandError::NotFound(_)) => {
                known.inputs.get(input_id).is_none_or(|input| input.accepted.is_none())
            }
            (Command::ContinueProcessing { .. }, CommandError::Invalid(_)) => known.events.is_empty(),
            (Command::ContinueProcessing { .. }, CommandError::Busy(_))
            | (
                Command::Resolve { .. },
                CommandError::Invalid(_)
                | CommandError::Stale { .. }
                | CommandError::Resolved { .. }
                | CommandError::NotFound(_),
            ) => true,
            _ => false,
        };
        assert!(fits, "{command:?} was refused: {error}");
    }

    async fn snapshot(&self, runner: &Runner, id: ConversationId) -> Option<Snapshot> {
        let query = runner.core.query(Query::Snapshot { conversation_id: id });
        let backend = self.backend.clone();
        tokio::select! {
            biased;
            view = query => match view.unwrap() {
                View::Snapshot(snapshot) => Some(*snapshot),
                other => panic!("{other:?}"),
            },
            () = backend.crashed() => None,
            () = runner.wire.cut() => None,
        }
    }

    /// What must hold after every step.
    async fn check(&mut self, runner: &Runner, store: &Store) {
        if self.backend.has_crashed() {
            return;
        }
        let faults = std::mem::take(&mut *self.world.faults.lock().unwrap());
        assert!(faults.is_empty(), "{faults:?}");
        for (call, times) in &*self.world.effects.lock().unwrap() {
            assert!(*times <= 1, "{call} had its effect {times} times");
        }
        for at in 0..CONVERSATIONS {
            let id = self.known[at].id;
            // Both are read in one go, without waiting: nothing happens in between.
            let rows = store.load(id).await.unwrap().unwrap();
            let seen = self.known[at].events.len() as u64;
            let new = store.events(id, EventRange::from(seen)).await.unwrap();
            self.known[at].events.extend(new);
            check_events(&self.known[at].events, &rows);
            check_calls(&self.known[at].events, &rows);
            self.check_stopped(at, &rows);
            self.check_inputs(at, &rows, store).await;
            self.check_settings(runner, at, &rows).await;
        }
        let report = store.verify().await.unwrap();
        assert!(report.is_clean(), "{report:?}");
    }

    /// What was stopped before it was claimed never is.
    fn check_stopped(&mut self, at: usize, rows: &Rows) {
        for call in rows.calls.values().map(|row| &row.value) {
            let unclaimed = call.claim.is_none();
            assert!(unclaimed || !self.never.contains(&call.id), "{} was begun after a stop", call.id);
            if unclaimed && (call.cancel_requested || rows.is_marked()) {
                self.never.insert(call.id);
            }
        }
        for event in &self.known[at].events {
            if let EventPayload::ToolCallResponse(response) = &event.payload {
                let begun = response.attempts > 0 && self.never.contains(&response.call_id);
                assert!(!begun, "{} was begun after a stop", response.call_id);
            }
        }
    }

    async fn check_inputs(&mut self, at: usize, rows: &Rows, store: &Store) {
        let known = &mut self.known[at];
        let mut delivered: BTreeMap<InputId, Vec<&Event>> = BTreeMap::new();
        for event in &known.events {
            if let Some(input) = event.input_id {
                delivered.entry(input).or_default().push(event);
            }
        }
        let mut queued: BTreeMap<InputId, usize> = BTreeMap::new();
        for row in rows.queue.values() {
            *queued.entry(row.value.id).or_default() += 1;
        }
        for id in delivered.keys().chain(queued.keys()) {
            assert!(known.inputs.contains_key(id), "{id} was never submitted");
        }
        let mut unaccepted = Vec::new();
        for (id, submitted) in &mut known.inputs {
            let Some(stored) = store.fate(rows.id, *id).await.unwrap() else {
                assert!(submitted.accepted.is_none(), "the acceptance of {id} was forgotten");
                unaccepted.push(*id);
                continue;
            };
            if let Some(before) = submitted.fate.filter(|fate| fate.is_final()) {
                assert_eq!(stored.fate, before, "a fate is final");
            }
            submitted.fate = Some(stored.fate);
            let (events, rows) =
                (delivered.get(id).map_or(0, Vec::len), queued.get(id).copied().unwrap_or(0));
            match stored.fate {
                InputFate::Queued => assert_eq!((events, rows), (0, 1), "{id} is queued"),
                InputFate::Delivered { event_id } => {
                    assert_eq!((events, rows), (1, 0), "{id} is delivered");
                    let EventPayload::UserMessage(message) = &delivered[id][0].payload else { panic!() };
                    assert_eq!((delivered[id][0].id, &message.text), (event_id, &submitted.text));
                }
                _ => assert_eq!((events, rows), (0, 0), "{id} was taken back or expired"),
            }
            if submitted.accepted.is_none() {
                // The answer was lost with the process, the input was not.
                submitted.accepted = Some(self.accepted);
                self.accepted += 1;
            }
        }
        if known.in_doubt {
            for id in unaccepted {
                known.inputs.remove(&id);
            }
        } else {
            assert!(unaccepted.is_empty(), "{unaccepted:?}");
        }
        let next_turn = |event: &Event| {
            let submitted = &known.inputs[&event.input_id?];
            (submitted.target == DeliveryTarget::NextTurn).then_some(submitted.accepted)
        };
        assert!(known.events.iter().filter_map(next_turn).is_sorted(), "prompts keep their order");
    }

    async fn check_settings(&mut self, runner: &Runner, at: usize, rows: &Rows) {
        let Some(snapshot) = self.snapshot(runner, rows.id).await else { return };
        let known = &mut self.known[at];
        let state = &snapshot.state;
        if known.in_doubt {
            known.in_doubt = false;
            known.paused = state.conversation.paused;
            known.title.clone_from(&state.conversation.title);
            known.turns = state.config.limits.turns;
        }
        assert_eq!(state.conversation.paused, known.paused, "paused");
        assert_eq!(state.conversation.title, known.title);
        assert_eq!(state.config.limits.turns, known.turns);
        assert_eq!(
            state.conversation.status,
            status_of(&known.events, rows),
            "the status is what the records say"
        );
        for interaction in &state.interactions {
            if !known.interactions.contains(&interaction.id) {
                known.interactions.push(interaction.id);
            }
        }
    }

    /// Nothing is left running, and nobody waits in vain.
    async fn come_to_rest(&mut self, runners: &[Runner], store: &Store) {
        self.backend.set_fault(None);
        for runner in runners {
            runner.wire.set(Wire::Whole);
        }
        if self.wait(REST).await == Life::Died {
            return;
        }
        // What a dead core held is taken over.
        if self.wait(REST).await == Life::Died {
            return;
        }
        let runner = &runners[0];
        self.check(runner, store).await;
        for at in 0..CONVERSATIONS {
            let rows = store.load(self.known[at].id).await.unwrap().unwrap();
            let status = status_of(&self.known[at].events, &rows);
            assert_ne!(status, Status::Running, "it goes on, or comes to rest");
            let mailbox = &rows.mailbox.value;
            if rows.open_execution().is_none() && !mailbox.paused {
                let waits = |input: &u64| *input > mailbox.held_through;
                assert!(!rows.queue.keys().any(waits), "an input that wakes was left behind");
            }
            // Whatever is asked can be answered, until the execution has ended.
            let principal = Principal::local();
            for n in 0..200 {
                let Some(snapshot) = self.snapshot(runner, rows.id).await else { return };
                let Some(shown) = snapshot.state.interactions.first() else { break };
                let resolve = Command::Resolve {
                    conversation_id: rows.id,
                    interaction_id: shown.id,
                    resolution: Resolution::Cancel,
                };
                let request =
                    CommandRequest::new(CommandId::next(&*self.ids), resolve).principal(principal.clone());
                runners[n % runners.len()].core.command(request).await.unwrap();
                self.wait(REST).await;
            }
            self.check(runner, store).await;
            let stop = Command::Stop { conversation_id: rows.id, execution_id: None };
            runner.core.command(CommandRequest::new(CommandId::next(&*self.ids), stop)).await.unwrap();
            self.known[at].paused = true;
            self.check(runner, store).await;
            let rows = store.load(rows.id).await.unwrap().unwrap();
            assert!(rows.open_execution().is_none() && rows.calls.is_empty());
            // One that a crash left behind is void: it was taken in another opening, or its time is over.
            let holds = |lease: &Lease| {
                lease.opening == self.backend.facts().opening && lease.expiry > Clock::now(&*self.clock)
            };
            let lease = rows.lease.map(|lease| lease.value).filter(holds);
            assert!(lease.is_none_or(|lease| lease.released), "who rests holds no lease");
        }
    }
}

/// Sequences are dense, the links lead from the head to the first event, executions do not overlap.
fn check_events(events: &[Event], rows: &Rows) {
    assert_eq!(events.len() as u64, rows.core.value.next_event_sequence);
    let mut previous = None;
    let mut open = None;
    for (at, event) in (0..).zip(events) {
        assert_eq!((event.sequence, event.conversation_id), (at, rows.id));
        assert_eq!(event.previous.map(|link| link.id), previous);
        previous = Some(event.id);
        let EventPayload::ExecutionState(state) = &event.payload else {
            assert!(open.is_some(), "{} lies outside of an execution", event.payload.kind());
            continue;
        };
        match &state.state {
            ExecutionState::Started => {
                assert_eq!(open, None, "an execution is open already");
                assert_eq!(state.execution_id.started_event(), event.id);
                open = Some(state.execution_id);
            }
            other => {
                assert_eq!(open, Some(state.execution_id), "{} belongs to the open execution", other.kind());
                open = open.filter(|_| !other.is_terminal());
            }
        }
    }
    assert_eq!(rows.core.value.head.map(|head| head.id), previous);
    assert_eq!(rows.open_execution(), open);
}

/// Each call of each message has either a row or exactly one response; without an open execution, a response.
fn check_calls(events: &[Event], rows: &Rows) {
    let mut responses: BTreeMap<ToolCallId, usize> = BTreeMap::new();
    for event in events {
        if let EventPayload::ToolCallResponse(response) = &event.payload {
            *responses.entry(response.call_id).or_default() += 1;
        }
    }
    let mut calls = BTreeSet::new();
    for event in events {
        let EventPayload::AssistantMessage(message) = &event.payload else { continue };
        let blocks =
            message.message.content.iter().filter(|block| matches!(block, ContentBlock::ToolCall(_)));
        assert_eq!(message.calls.len(), blocks.count(), "every block is a call");
        for call in &message.calls {
            calls.insert(call.id);
            let (settled, unfinished) =
                (responses.get(&call.id).copied().unwrap_or(0), rows.calls.contains_key(&call.id));
            assert_eq!(settled + usize::from(unfinished), 1, "{} has one row or one response", call.id);
        }
    }
    assert!(responses.keys().chain(rows.calls.keys()).all(|id| calls.contains(id)));
    if rows.open_execution().is_none() {
        assert!(rows.calls.is_empty(), "no call outlives its execution");
    }
    for call in rows.calls.values().map(|row| &row.value) {
        assert!(call.state != CallState::Running || call.claim.is_some(), "who runs is claimed");
        assert!(call.state.is_suspended() || call.interaction.is_none(), "who is waited for waits");
        let answered = call.resolution.is_some();
        assert!(
            call.interaction.is_some() || !call.state.is_suspended() || answered,
            "who waits is waited for"
        );
    }
}

/// The status, from the records alone.
fn status_of(events: &[Event], rows: &Rows) -> Status {
    if rows.open_execution().is_some() {
        let mut calls = rows.calls.values().map(|row| &row.value).peekable();
        return if calls.peek().is_none() {
            if rows.mailbox.value.paused { Status::Paused } else { Status::Running }
        } else if calls.all(|call| call.state.is_suspended()) {
            // The holder has not acted on the answers yet.
            Status::Waiting
        } else {
            Status::Running
        };
    }
    let last = events.iter().rev().find_map(|event| match &event.payload {
        EventPayload::ExecutionState(state) if state.state.is_terminal() => Some(&state.state),
        _ => None,
    });
    match last {
        Some(ExecutionState::Failed { .. }) => Status::Failed,
        Some(ExecutionState::Interrupted) => Status::Interrupted,
        _ => Status::Idle,
    }
}

/// Panics that the program is made of are not reported.
fn mute_planned_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload().downcast_ref::<String>().is_none_or(|words| words != PLANNED) {
                report(panic);
            }
        }));
    });
}

fn run(seed: u64, cores: usize) -> (usize, usize) {
    mute_planned_panics();
    let mut program = Program::new(seed, cores);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| program.run()));
    if let Err(panic) = result {
        for line in &program.trace {
            eprintln!("  {line}");
        }
        eprintln!("seed {seed}, {cores} cores, after {} steps", program.steps);
        std::panic::resume_unwind(panic);
    }
    (program.steps, program.world.requests.load(Ordering::Relaxed))
}

/// Runs the programs of these seeds, or the one that the environment asks for.
fn run_all(seeds: std::ops::Range<u64>, cores: usize) {
    if let Some(seed) = std::env::var("NERVEKIT_SEED").ok().and_then(|seed| seed.parse().ok()) {
        run(seed, cores);
        return;
    }
    let offset = std::env::var("NERVEKIT_FIRST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let seeds = seeds.start + offset..seeds.end + offset;
    let (mut steps, mut requests) = (0, 0);
    for seed in seeds.clone() {
        let (more_steps, more_requests) = run(seed, cores);
        steps += more_steps;
        requests += more_requests;
    }
    println!("seeds {seeds:?}: {steps} steps, {requests} model requests");
    assert!(steps >= 700 && requests >= 100, "the programs do something");
}

/// Several tests, so that they run at the same time.
macro_rules! programs {
    ($($name:ident: $seeds:expr, $cores:expr;)*) => {$(
        #[test]
        fn $name() {
            run_all($seeds, $cores);
        }
    )*};
}

programs! {
    random_programs_keep_every_promise_1: 0..8, 1;
    random_programs_keep_every_promise_2: 8..16, 1;
    random_programs_keep_every_promise_3: 16..24, 1;
    random_programs_keep_every_promise_4: 24..32, 1;
    random_programs_of_two_cores_keep_every_promise_1: 0..8, 2;
    random_programs_of_two_cores_keep_every_promise_2: 8..16, 2;
}

#[test]
fn the_same_seed_is_the_same_program() {
    let trace = |cores| {
        let mut program = Program::new(7, cores);
        program.run();
        program.trace
    };
    assert_eq!(trace(1), trace(1));
    assert_eq!(trace(2), trace(2));
}
