//! What an executor gets besides the arguments.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nervekit_permissions::{DecidedPath, DecidedTarget, DecidedUrl};
use nervekit_types::{ConversationId, Digest, ToolCallId, TurnId};

use crate::assets::CallAssets;
use crate::cancellation::Cancellation;
use crate::error::ToolError;
use crate::lock::MutationGuard;
use crate::process::{NoProcesses, Processes};
use crate::progress::Progress;

/// What an executor gets besides the arguments: who calls, what was decided, and the means to act. It is owned
/// and cheap to clone.
///
/// What a call may touch comes from here and nowhere else: a decided path is opened without following a link,
/// whatever the argument's text has become since. Without setters a context has no targets, starts no process,
/// keeps assets in memory and is never cancelled.
///
/// ```
/// use nervekit_tools::{Progress, ToolContext};
/// use nervekit_types::{ConversationId, ToolCallId};
///
/// let progress = Progress::default();
/// let context = ToolContext::new(ConversationId::from_key("c"), ToolCallId::from_key("t"))
///     .with_working_directory("/work/project")
///     .with_progress(progress.clone());
/// context.progress("half done\n");
/// assert_eq!(&*progress.after(0)[0].text, "half done\n");
/// assert!(context.path("path").is_err(), "nothing was decided");
/// ```
#[derive(Clone)]
pub struct ToolContext {
    conversation: ConversationId,
    call: ToolCallId,
    turn: Option<TurnId>,
    attempt: u32,
    working_directory: Option<PathBuf>,
    targets: Arc<[DecidedTarget]>,
    last_reads: Arc<BTreeMap<String, Digest>>,
    locks: Option<Arc<MutationGuard>>,
    progress: Progress,
    cancellation: Cancellation,
    processes: Arc<dyn Processes>,
    assets: CallAssets,
    foreground_limit: Option<Duration>,
}

impl ToolContext {
    /// Makes a context for one call.
    #[must_use]
    pub fn new(conversation: ConversationId, call: ToolCallId) -> Self {
        Self {
            conversation,
            call,
            turn: None,
            attempt: 1,
            working_directory: None,
            targets: Arc::default(),
            last_reads: Arc::default(),
            locks: None,
            progress: Progress::default(),
            cancellation: Cancellation::default(),
            processes: Arc::new(NoProcesses),
            assets: CallAssets::in_memory(),
            foreground_limit: None,
        }
    }

    /// Sets the turn that issued the call.
    #[must_use]
    pub fn with_turn(self, turn: TurnId) -> Self {
        Self { turn: Some(turn), ..self }
    }

    /// Sets which attempt this is, from 1.
    #[must_use]
    pub fn with_attempt(self, attempt: u32) -> Self {
        Self { attempt, ..self }
    }

    /// Sets where relative paths started and commands run.
    #[must_use]
    pub fn with_working_directory(self, folder: impl Into<PathBuf>) -> Self {
        Self { working_directory: Some(folder.into()), ..self }
    }

    /// Sets what was decided: the targets of the evaluation.
    #[must_use]
    pub fn with_targets(self, targets: impl Into<Arc<[DecidedTarget]>>) -> Self {
        Self { targets: targets.into(), ..self }
    }

    /// Sets what this conversation last read of files, as noted by earlier outputs.
    #[must_use]
    pub fn with_last_reads(self, reads: impl IntoIterator<Item = (String, Digest)>) -> Self {
        Self { last_reads: Arc::new(reads.into_iter().collect()), ..self }
    }

    /// Keeps the locks of the write targets as long as any clone of the context lives, so that work that was
    /// dropped half-way on the blocking pool still ends under them.
    #[must_use]
    pub fn with_locks(self, locks: MutationGuard) -> Self {
        Self { locks: Some(Arc::new(locks)), ..self }
    }

    /// Sets where live output goes.
    #[must_use]
    pub fn with_progress(self, progress: Progress) -> Self {
        Self { progress, ..self }
    }

    /// Sets what asks the call to end.
    #[must_use]
    pub fn with_cancellation(self, cancellation: Cancellation) -> Self {
        Self { cancellation, ..self }
    }

    /// Sets what starts processes.
    #[must_use]
    pub fn with_processes(self, processes: impl Processes) -> Self {
        Self { processes: Arc::new(processes), ..self }
    }

    /// Sets where assets are kept.
    #[must_use]
    pub fn with_assets(self, assets: CallAssets) -> Self {
        Self { assets, ..self }
    }

    /// Sets after which time a command goes on in the background; never without.
    #[must_use]
    pub fn with_foreground_limit(self, limit: Duration) -> Self {
        Self { foreground_limit: Some(limit), ..self }
    }

    /// The conversation.
    #[must_use]
    pub const fn conversation(&self) -> ConversationId {
        self.conversation
    }

    /// The call.
    #[must_use]
    pub const fn call(&self) -> ToolCallId {
        self.call
    }

    /// The turn; `None` for a person's direct command.
    #[must_use]
    pub const fn turn(&self) -> Option<TurnId> {
        self.turn
    }

    /// Which attempt this is, from 1; above 1 only for a replay-safe tool.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Where relative paths started and commands run. A label and a folder for child processes; files are
    /// opened by [`path`](Self::path).
    #[must_use]
    pub fn working_directory(&self) -> Option<&Path> {
        self.working_directory.as_deref()
    }

    /// The decided target of an argument, named by its dotted path (`path`, `files.0`).
    #[must_use]
    pub fn target(&self, argument: &str) -> Option<&DecidedTarget> {
        self.targets.iter().find(|target| target.target.argument() == Some(argument))
    }

    /// Everything that was decided.
    #[must_use]
    pub fn targets(&self) -> &[DecidedTarget] {
        &self.targets
    }

    /// The decided path of an argument.
    pub fn path(&self, argument: &str) -> Result<&DecidedPath, ToolError> {
        self.target(argument).and_then(|target| target.path.as_ref()).ok_or_else(|| {
            ToolError::new(format!("argument `{argument}` is not a path that was decided for this call"))
        })
    }

    /// The decided URL of an argument.
    pub fn url(&self, argument: &str) -> Result<&DecidedUrl, ToolError> {
        self.target(argument).and_then(|target| target.url.as_ref()).ok_or_else(|| {
            ToolError::new(format!("argument `{argument}` is not a URL that was decided for this call"))
        })
    }

    /// The digest of a file when this conversation last read or wrote it.
    #[must_use]
    pub fn last_read(&self, path: &DecidedPath) -> Option<Digest> {
        self.last_reads.get(&Self::file_key(path)).copied()
    }

    /// What files are known by in [`FileFact`](crate::FileFact) and [`last_read`](Self::last_read).
    #[must_use]
    pub fn file_key(path: &DecidedPath) -> String {
        path.as_racy_path().to_string_lossy().into_owned()
    }

    /// Shows live output. It never waits and is never stored.
    pub fn progress(&self, text: impl AsRef<[u8]>) {
        self.progress.write(text);
    }

    /// Where live output goes.
    #[must_use]
    pub const fn live(&self) -> &Progress {
        &self.progress
    }

    /// Waits until the call is asked to end.
    pub async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }

    /// Whether the call is asked to end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Runs work that blocks where that is allowed. The work goes on when the future is dropped, so long work
    /// asks [`is_cancelled`](Self::is_cancelled) of a clone; a panic of it is an error.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// # use nervekit_tools::ToolContext;
    /// # use nervekit_types::{ConversationId, ToolCallId};
    /// # let context = ToolContext::new(ConversationId::from_key("c"), ToolCallId::from_key("t"));
    /// let cores = context.blocking(|_| std::thread::available_parallelism()).await.unwrap();
    /// assert!(cores.is_ok());
    /// # });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, ToolError> {
        let context = self.clone();
        Ok(tokio::task::spawn_blocking(move || work(&context)).await?)
    }

    /// What starts processes.
    #[must_use]
    pub fn processes(&self) -> &dyn Processes {
        &*self.processes
    }

    /// The assets of the call.
    #[must_use]
    pub const fn assets(&self) -> &CallAssets {
        &self.assets
    }

    /// After which time a command goes on in the background; `None`: never.
    #[must_use]
    pub const fn foreground_limit(&self) -> Option<Duration> {
        self.foreground_limit
    }

    /// A key that is the same in every attempt of the call and of no other: for services that take an
    /// idempotency key.
    #[must_use]
    pub fn effect_key(&self) -> String {
        self.call.to_string()
    }
}

impl Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("conversation", &self.conversation)
            .field("call", &self.call)
            .field("attempt", &self.attempt)
            .field("working_directory", &self.working_directory)
            .field("targets", &self.targets)
            .field("locks", &self.locks.as_ref().map_or(0, |locks| locks.len()))
            .finish_non_exhaustive()
    }
}

const _: fn() = || {
    fn owned<T: Send + Sync + Clone + 'static>() {}
    owned::<ToolContext>();
};
