//! One call of a tool without a conversation core: for the tests of whoever writes tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nervekit_permissions::testing::AllowEverything;
use nervekit_permissions::{
    Access, CallOrigin, CanonicalSubject, CanonicalTarget, Decision, EffectiveArguments, Evaluation,
    PermissionEngine, ProposedCall, Roots, TargetScope,
};
use nervekit_types::{ConversationId, Digest, Entropy, IdSource, SystemEntropy, SystemIds, ToolCallId};
use serde_json::Value;

use crate::argument::{ArgumentError, Effective};
use crate::assets::CallAssets;
use crate::cancellation::Cancellation;
use crate::context::ToolContext;
use crate::error::ToolError;
use crate::executor::ToolCall;
use crate::lock::MutationLocks;
use crate::outcome::ToolOutcome;
use crate::output::SettledOutput;
use crate::process::Processes;
use crate::progress::Progress;
use crate::tool::Tool;

mod asset;

pub use asset::asset_store_conformance;

/// Runs one call in an empty temporary folder, everything allowed: validation, decision, execution, projections.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nervekit_tools::{testing, Tool, ToolContext};
///
/// #[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
/// struct Greet { name: String }
///
/// let greet = Tool::function("greet", "Greets.", async |args: Greet, _: ToolContext| Ok(format!("hello {}", args.name)));
/// let run = testing::run(&greet, serde_json::json!({"name": "Ann"})).await;
/// assert_eq!(run.settled().unwrap().agent, "hello Ann");
///
/// let run = testing::run(&greet, serde_json::json!({"nam": "Ann"})).await;
/// assert_eq!(run.problem().unwrap(), "argument `nam` is unknown; known are `name`");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub async fn run(tool: impl AsRef<Tool>, arguments: Value) -> TestRun {
    TestBed::temporary().run(tool, arguments).await
}

/// What a call meets: a folder, an engine, processes, assets. It remembers what was read, as a conversation does.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nervekit_tools::testing::TestBed;
/// # use nervekit_permissions::Target;
/// # use nervekit_tools::{Tool, ToolContext};
/// # #[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
/// # struct Count { path: String }
/// let count = Tool::function("count", "Counts bytes.", async |_: Count, context: ToolContext| {
///     Ok(context.path("path")?.metadata()?.length.to_string())
/// })
/// .targets(|args| vec![Target::path(&args.path)]);
/// let bed = TestBed::temporary();
/// std::fs::write(bed.folder().join("a.txt"), "12345")?;
/// let run = bed.run(&count, serde_json::json!({"path": "a.txt"})).await;
/// assert_eq!(run.settled().unwrap().agent, "5");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TestBed {
    folder: Arc<Folder>,
    engine: Arc<dyn PermissionEngine>,
    rule_set: String,
    processes: Arc<dyn Processes>,
    assets: CallAssets,
    cancellation: Cancellation,
    progress: Progress,
    foreground_limit: Option<Duration>,
    last_reads: Arc<Mutex<BTreeMap<String, Digest>>>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    temporary: bool,
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.temporary {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

impl TestBed {
    /// Works in an empty folder that is removed with the last clone.
    ///
    /// # Panics
    ///
    /// When the folder cannot be made.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test cannot go on without its folder")]
    pub fn temporary() -> Self {
        let mut random = [0; 16];
        SystemEntropy.fill(&mut random);
        let path = std::env::temp_dir().join(format!("nervekit-{:032x}", u128::from_be_bytes(random)));
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Self::at(Folder { path, temporary: true })
    }

    /// Works in a folder that stays.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::at(Folder { path: folder.into(), temporary: false })
    }

    fn at(folder: Folder) -> Self {
        let roots = Roots::new().project(&folder.path);
        #[cfg(all(feature = "local-tools", unix))]
        let processes: Arc<dyn Processes> = Arc::new(crate::LocalProcesses::default());
        #[cfg(not(all(feature = "local-tools", unix)))]
        let processes: Arc<dyn Processes> = Arc::new(crate::process::NoProcesses);
        Self {
            folder: Arc::new(folder),
            engine: Arc::new(AllowEverything::new(roots)),
            rule_set: "autonomous".to_owned(),
            processes,
            assets: CallAssets::in_memory(),
            cancellation: Cancellation::default(),
            progress: Progress::default(),
            foreground_limit: None,
            last_reads: Arc::default(),
        }
    }

    /// Judges calls by an engine and a rule set of it.
    #[must_use]
    pub fn engine(self, engine: impl PermissionEngine, rule_set: impl Into<String>) -> Self {
        Self { engine: Arc::new(engine), rule_set: rule_set.into(), ..self }
    }

    /// Starts processes otherwise.
    #[must_use]
    pub fn processes(self, processes: impl Processes) -> Self {
        Self { processes: Arc::new(processes), ..self }
    }

    /// Keeps assets elsewhere.
    #[must_use]
    pub fn assets(self, assets: CallAssets) -> Self {
        Self { assets, ..self }
    }

    /// Can be cancelled.
    #[must_use]
    pub fn cancellation(self, cancellation: Cancellation) -> Self {
        Self { cancellation, ..self }
    }

    /// Sends live output elsewhere.
    #[must_use]
    pub fn progress(self, progress: Progress) -> Self {
        Self { progress, ..self }
    }

    /// Puts commands into the background after this time.
    #[must_use]
    pub fn foreground_limit(self, limit: Duration) -> Self {
        Self { foreground_limit: Some(limit), ..self }
    }

    /// The folder: the project and the working directory.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// The assets that calls wrote.
    #[must_use]
    pub const fn stored(&self) -> &CallAssets {
        &self.assets
    }

    /// Runs one call.
    pub async fn run(&self, tool: impl AsRef<Tool>, arguments: Value) -> TestRun {
        let tool = tool.as_ref();
        let (effective, evaluation, result) = match self.judge(tool, arguments) {
            Err(error) => (None, None, Err(TestFailure::Arguments(error))),
            Ok((effective, evaluation)) if evaluation.decision() != Decision::Allow => {
                let decision = evaluation.decision();
                (Some(effective), Some(evaluation), Err(TestFailure::NotAllowed(decision)))
            }
            Ok((effective, evaluation)) => {
                let result = self.carry_out(tool, &effective, &evaluation).await;
                (Some(effective), Some(evaluation), result)
            }
        };
        TestRun { effective, evaluation, result, bed: self.clone() }
    }

    fn judge(&self, tool: &Tool, arguments: Value) -> Result<(Effective, Evaluation), ArgumentError> {
        let sent =
            EffectiveArguments::new(arguments).map_err(|error| ArgumentError::new("", error.to_string()))?;
        let effective = tool.effective(&sent)?;
        let descriptor = tool.definition().descriptor.clone();
        let mut call = ProposedCall::new(
            descriptor,
            effective.arguments.clone(),
            CallOrigin::Model,
            self.rule_set.clone(),
        )
        .working_directory(self.folder());
        let targets = tool.targets(&effective.arguments);
        if !targets.is_empty() {
            call = call.targets(targets);
        }
        Ok((effective, self.engine.evaluate(call)))
    }

    async fn carry_out(
        &self,
        tool: &Tool,
        effective: &Effective,
        evaluation: &Evaluation,
    ) -> Result<Settlement, TestFailure> {
        let Some(executor) = tool.executor() else { return Err(TestFailure::HandledElsewhere) };
        let writes = evaluation.targets.iter().filter(|target| is_written_file(&target.target));
        let writes = writes.filter_map(|target| target.path.as_ref());
        let locks = MutationLocks::process().acquire(writes).await.map_err(ToolError::from)?;
        let last_reads = self.last_reads.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let id = ToolCallId::from_raw(SystemIds::default().next_id());
        let mut context = ToolContext::new(ConversationId::from_key("test"), id)
            .with_working_directory(self.folder())
            .with_targets(evaluation.targets.clone())
            .with_last_reads(last_reads)
            .with_locks(locks)
            .with_progress(self.progress.clone())
            .with_cancellation(self.cancellation.clone())
            .with_processes(self.processes.clone())
            .with_assets(self.assets.clone());
        if let Some(limit) = self.foreground_limit {
            context = context.with_foreground_limit(limit);
        }
        let call = ToolCall::new(id, tool.definition().name(), effective.arguments.clone());
        match executor.execute(call, context).await? {
            ToolOutcome::Completed(output) => {
                let settled = output.settle(tool.definition().budget, &self.assets).await;
                let mut last_reads = self.last_reads.lock().unwrap_or_else(PoisonError::into_inner);
                last_reads.extend(settled.files.iter().map(|file| (file.path.clone(), file.digest)));
                Ok(Settlement::Completed(settled))
            }
            other => Ok(Settlement::Other(other)),
        }
    }
}

/// Whether a target is one file that is written. A tree is a folder for a command, which takes no locks.
fn is_written_file(target: &CanonicalTarget) -> bool {
    match target.subject() {
        CanonicalSubject::Path(path) => path.access == Access::Write && path.scope == TargetScope::Exact,
        _ => false,
    }
}

#[derive(Debug)]
enum Settlement {
    Completed(SettledOutput),
    Other(ToolOutcome),
}

/// Why a test call has no outcome.
#[derive(Debug)]
enum TestFailure {
    Arguments(ArgumentError),
    NotAllowed(Decision),
    HandledElsewhere,
    Tool(ToolError),
}

impl From<ToolError> for TestFailure {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

/// What became of a test call, step by step.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nervekit_tools::{catalog, testing};
/// let run = testing::run(&catalog::ask_user(), serde_json::json!({"question": "Which?"})).await;
/// assert!(run.effective().is_some() && run.settled().is_none());
/// assert_eq!(run.problem().unwrap(), "the core or the host carries out this tool");
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TestRun {
    effective: Option<Effective>,
    evaluation: Option<Evaluation>,
    result: Result<Settlement, TestFailure>,
    bed: TestBed,
}

impl TestRun {
    /// The validated arguments; `None` when they were refused.
    #[must_use]
    pub const fn effective(&self) -> Option<&Effective> {
        self.effective.as_ref()
    }

    /// The decision with its targets; `None` when it did not come so far.
    #[must_use]
    pub const fn evaluation(&self) -> Option<&Evaluation> {
        self.evaluation.as_ref()
    }

    /// The output with its projections, when the call completed.
    #[must_use]
    pub const fn settled(&self) -> Option<&SettledOutput> {
        match &self.result {
            Ok(Settlement::Completed(settled)) => Some(settled),
            _ => None,
        }
    }

    /// The outcome, when it is another than completed.
    #[must_use]
    pub fn into_outcome(self) -> Option<ToolOutcome> {
        match self.result {
            Ok(Settlement::Other(outcome)) => Some(outcome),
            _ => None,
        }
    }

    /// What the model would read of a call that failed.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        match &self.result {
            Ok(_) => None,
            Err(TestFailure::Arguments(error)) => Some(error.to_string()),
            Err(TestFailure::NotAllowed(decision)) => Some(format!("not allowed: {decision:?}")),
            Err(TestFailure::HandledElsewhere) => {
                Some("the core or the host carries out this tool".to_owned())
            }
            Err(TestFailure::Tool(error)) => Some(error.for_model().to_owned()),
        }
    }

    /// What the call met, to look at or to run the next call.
    #[must_use]
    pub const fn bed(&self) -> &TestBed {
        &self.bed
    }
}
