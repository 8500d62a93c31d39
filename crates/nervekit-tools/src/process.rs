//! The ports for starting, following and ending processes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nervekit_types::Retry;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// Starts processes and finds them again.
///
/// **Contract.** `start` makes a process that waits behind a *gate*: it does nothing until
/// [`Process::release`], and exits without running when its starter dies first. So a process that can have an
/// effect can always be put on record before. The process reads nothing, gets a group of its own and a reduced
/// environment without credentials, and its output goes to `output` in order; a slow receiver slows the process
/// down and loses nothing. `reattach` never signals anything whose identity is not proven.
///
/// ```
/// use nervekit_tools::{OutputSender, Process, ProcessCommand, ProcessError, ProcessRef, Processes, Reattached};
///
/// /// Refuses to start anything: for a host that offers no commands.
/// #[derive(Debug)]
/// struct NoProcesses;
///
/// #[async_trait::async_trait]
/// impl Processes for NoProcesses {
///     async fn start(&self, _: ProcessCommand, _: OutputSender) -> Result<Box<dyn Process>, ProcessError> {
///         Err(ProcessError::NotOffered)
///     }
///     async fn reattach(&self, _: &ProcessRef, _: OutputSender) -> Result<Reattached, ProcessError> {
///         Ok(Reattached::Unproven)
///     }
/// }
/// ```
#[async_trait]
pub trait Processes: Debug + Send + Sync + 'static {
    /// Starts a process behind its gate.
    async fn start(
        &self,
        command: ProcessCommand,
        output: OutputSender,
    ) -> Result<Box<dyn Process>, ProcessError>;

    /// Finds a process that an earlier host started.
    async fn reattach(
        &self,
        reference: &ProcessRef,
        output: OutputSender,
    ) -> Result<Reattached, ProcessError>;
}

/// One process and the group it leads.
///
/// **Contract.** The process ends when its first process does: members of its group that are left are ended
/// too. Ending a group is TERM, a grace period, KILL; when `wait` or `stop` returns no member is alive and the
/// output is closed, even when a process that left the group still holds the pipe. `wait` may be called any
/// number of times and answers the same. Dropping a process that was started, and has not ended, ends it.
///
/// ```
/// use nervekit_tools::{Process, ProcessEnd, ProcessError, ProcessExit, ProcessRef};
/// use std::time::Duration;
///
/// /// Has always ended well.
/// #[derive(Debug)]
/// struct Done(ProcessRef);
///
/// #[async_trait::async_trait]
/// impl Process for Done {
///     fn reference(&self) -> &ProcessRef {
///         &self.0
///     }
///     async fn release(&self) -> Result<(), ProcessError> {
///         Ok(())
///     }
///     async fn wait(&self) -> ProcessEnd {
///         ProcessEnd::new(ProcessExit::Code(0), Duration::ZERO)
///     }
///     async fn stop(&self) -> ProcessEnd {
///         self.wait().await
///     }
/// }
/// ```
#[async_trait]
pub trait Process: Debug + Send + Sync + 'static {
    /// What names the process durably.
    fn reference(&self) -> &ProcessRef;
    /// Opens the gate. Opening it again changes nothing.
    async fn release(&self) -> Result<(), ProcessError>;
    /// Waits for the end.
    async fn wait(&self) -> ProcessEnd;
    /// Ends the process and its group, and returns how it ended.
    async fn stop(&self) -> ProcessEnd;
}

macro_rules! forward_processes {
    ($pointer:ident) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<P: Processes + ?Sized> Processes for $pointer<P> {
            async fn start(
                &self,
                command: ProcessCommand,
                output: OutputSender,
            ) -> Result<Box<dyn Process>, ProcessError> {
                (**self).start(command, output).await
            }
            async fn reattach(
                &self,
                reference: &ProcessRef,
                output: OutputSender,
            ) -> Result<Reattached, ProcessError> {
                (**self).reattach(reference, output).await
            }
        }

        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<P: Process + ?Sized> Process for $pointer<P> {
            fn reference(&self) -> &ProcessRef {
                (**self).reference()
            }
            async fn release(&self) -> Result<(), ProcessError> {
                (**self).release().await
            }
            async fn wait(&self) -> ProcessEnd {
                (**self).wait().await
            }
            async fn stop(&self) -> ProcessEnd {
                (**self).stop().await
            }
        }
    };
}
forward_processes!(Arc);
forward_processes!(Box);
const _: fn(&dyn Processes, &dyn Process) = |_, _| ();

/// What to run.
///
/// ```
/// use nervekit_tools::ProcessCommand;
/// use std::time::Duration;
/// let command = ProcessCommand::shell("cargo test", "/home/ann/project")
///     .timeout(Duration::from_secs(600))
///     .environment("CARGO_TERM_COLOR", "never");
/// assert_eq!(command.working_directory, std::path::Path::new("/home/ann/project"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessCommand {
    /// The program.
    pub program: Program,
    /// Where it runs.
    pub working_directory: PathBuf,
    /// Variables besides the reduced environment that the port gives.
    pub environment: BTreeMap<String, String>,
    /// After this time from the release the whole group is ended.
    pub timeout: Option<Duration>,
}

/// The program of a [`ProcessCommand`].
///
/// ```
/// use nervekit_tools::{ProcessCommand, Program};
/// assert_eq!(ProcessCommand::shell("true", "/").program, Program::Shell("true".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Program {
    /// A text for `bash`, or for `sh` where there is none.
    Shell(String),
    /// A program, by path or by name, with its arguments.
    Direct(Vec<String>),
}

impl ProcessCommand {
    /// Runs a text in a shell.
    #[must_use]
    pub fn shell(text: impl Into<String>, working_directory: impl Into<PathBuf>) -> Self {
        Self::new(Program::Shell(text.into()), working_directory.into())
    }

    /// Runs a program; the first word names it.
    ///
    /// ```
    /// use nervekit_tools::{ProcessCommand, Program};
    /// let command = ProcessCommand::direct(["python3", "-c", "print(1)"], "/tmp");
    /// assert!(matches!(command.program, Program::Direct(words) if words.len() == 3));
    /// ```
    #[must_use]
    pub fn direct<W: Into<String>>(
        words: impl IntoIterator<Item = W>,
        working_directory: impl Into<PathBuf>,
    ) -> Self {
        Self::new(Program::Direct(words.into_iter().map(Into::into).collect()), working_directory.into())
    }

    fn new(program: Program, working_directory: PathBuf) -> Self {
        Self { program, working_directory, environment: BTreeMap::new(), timeout: None }
    }

    /// Ends the whole group after this time.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Adds a variable to the reduced environment.
    #[must_use]
    pub fn environment(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }
}

/// Names a process beyond the life of its host: a pid alone may by then be another process.
///
/// ```
/// use nervekit_tools::ProcessRef;
/// let reference = ProcessRef::new("build-7", "3f0c…", 4711, 4711, 123_456);
/// assert_eq!(serde_json::to_value(&reference)?["pid"], 4711);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessRef {
    /// The machine.
    pub host: String,
    /// The boot of that machine.
    pub boot_id: String,
    /// The process.
    pub pid: u32,
    /// The group it leads.
    pub group: u32,
    /// When it started, in the unit of the platform: with the other fields it only has to be equal.
    pub start_time: u64,
}

impl ProcessRef {
    /// Puts a reference together.
    #[must_use]
    pub fn new(
        host: impl Into<String>,
        boot_id: impl Into<String>,
        pid: u32,
        group: u32,
        start_time: u64,
    ) -> Self {
        Self { host: host.into(), boot_id: boot_id.into(), pid, group, start_time }
    }
}

/// What became of a process that an earlier host started.
///
/// The sum is exhaustive on purpose: what is not proven must never be signalled.
///
/// ```
/// use nervekit_tools::Reattached;
///
/// /// Whether a run may be told as still going on.
/// fn is_followed(found: &Reattached) -> bool {
///     matches!(found, Reattached::Followed(_))
/// }
/// assert!(!is_followed(&Reattached::Gone));
/// ```
#[derive(Debug)]
pub enum Reattached {
    /// It runs, and its output and end can be followed again.
    Followed(Box<dyn Process>),
    /// It runs and is proven to be the one, but its output and exit status are lost; `stop` ends it, dropping
    /// leaves it alone.
    Lost(Box<dyn Process>),
    /// It is proven to have ended.
    Gone,
    /// Its identity cannot be proven, as on another machine.
    Unproven,
}

/// How a process ended.
///
/// ```
/// use nervekit_tools::{EndCause, ProcessEnd, ProcessExit};
/// use std::time::Duration;
/// let end = ProcessEnd::new(ProcessExit::Signal(15), Duration::from_secs(3)).cause(EndCause::TimedOut);
/// assert_eq!(end.exit.to_string(), "ended by signal 15 (SIGTERM)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessEnd {
    /// Exit code or signal of the first process.
    pub exit: ProcessExit,
    /// What made it end.
    pub cause: EndCause,
    /// Whether members of the group were left when the first process had ended, and were ended then.
    pub leftovers_ended: bool,
    /// From the release to the end.
    pub duration: Duration,
}

impl ProcessEnd {
    /// A process that ended by itself and left nothing behind.
    #[must_use]
    pub const fn new(exit: ProcessExit, duration: Duration) -> Self {
        Self { exit, cause: EndCause::Exited, leftovers_ended: false, duration }
    }

    /// Sets the cause.
    #[must_use]
    pub const fn cause(self, cause: EndCause) -> Self {
        Self { cause, ..self }
    }

    /// Says whether processes were left behind and were ended.
    #[must_use]
    pub const fn leftovers_ended(self, leftovers_ended: bool) -> Self {
        Self { leftovers_ended, ..self }
    }
}

/// What made a process end.
///
/// ```
/// use nervekit_tools::EndCause;
/// assert_eq!(serde_json::to_string(&EndCause::TimedOut)?, "\"timed_out\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndCause {
    /// It ended by itself.
    Exited,
    /// Its time was up.
    TimedOut,
    /// It was stopped.
    Stopped,
}

/// The status of the first process.
///
/// ```
/// use nervekit_tools::ProcessExit;
/// assert_eq!(ProcessExit::Code(2).to_string(), "exit code 2");
/// assert_eq!(ProcessExit::Signal(9).to_string(), "ended by signal 9 (SIGKILL)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProcessExit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Nobody saw its status.
    Unknown,
}

impl std::fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => {
                write!(f, "ended by signal {signal}")?;
                // The numbers that Linux and macOS share (POSIX.1-2017, `kill`).
                match signal {
                    1 => f.write_str(" (SIGHUP)"),
                    2 => f.write_str(" (SIGINT)"),
                    3 => f.write_str(" (SIGQUIT)"),
                    6 => f.write_str(" (SIGABRT)"),
                    8 => f.write_str(" (SIGFPE)"),
                    9 => f.write_str(" (SIGKILL)"),
                    11 => f.write_str(" (SIGSEGV)"),
                    13 => f.write_str(" (SIGPIPE)"),
                    15 => f.write_str(" (SIGTERM)"),
                    _ => Ok(()),
                }
            }
            Self::Unknown => f.write_str("exit status unknown"),
        }
    }
}

/// Why a process could not be started, released or found.
///
/// ```
/// use nervekit_tools::ProcessError;
/// use nervekit_types::Retry;
/// assert_eq!(ProcessError::NotOffered.retry(), Retry::Never);
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The host starts no processes.
    #[error("commands are not offered here")]
    NotOffered,
    /// The working directory cannot be entered.
    #[error("the working directory cannot be entered")]
    WorkingDirectory(#[source] std::io::Error),
    /// The system did not start the process.
    #[error("the command could not be started")]
    NotStarted(#[source] std::io::Error),
    /// The process ended before its gate was opened: nothing ran.
    #[error("the command was ended before it began")]
    EndedBeforeRelease,
}

impl ProcessError {
    /// Whether trying again makes sense.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            // The setting, or the folder, has to change first.
            Self::NotOffered | Self::WorkingDirectory(_) => Retry::Never,
            // Out of processes or memory, or ended by someone: nothing ran.
            Self::NotStarted(_) | Self::EndedBeforeRelease => Retry::Now,
        }
    }
}

/// Starts nothing: for a host without commands, and what a [`ToolContext`](crate::ToolContext) has until it is
/// given another.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use nervekit_tools::{NoProcesses, OutputSender, ProcessCommand, Processes};
/// let (sender, _receiver) = OutputSender::channel();
/// assert!(NoProcesses.start(ProcessCommand::shell("true", "/"), sender).await.is_err());
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProcesses;

#[async_trait]
impl Processes for NoProcesses {
    async fn start(&self, _: ProcessCommand, _: OutputSender) -> Result<Box<dyn Process>, ProcessError> {
        Err(ProcessError::NotOffered)
    }

    async fn reattach(&self, _: &ProcessRef, _: OutputSender) -> Result<Reattached, ProcessError> {
        Ok(Reattached::Unproven)
    }
}

/// Where the output of a process goes, standard output and error in the order in which they were written.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use bytes::Bytes;
/// use nervekit_tools::OutputSender;
/// let (sender, mut receiver) = OutputSender::channel();
/// assert!(sender.send(Bytes::from_static(b"hello\n")).await);
/// drop(sender); // closes the output
/// assert_eq!(receiver.next().await.unwrap(), "hello\n");
/// assert!(receiver.next().await.is_none());
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OutputSender(mpsc::Sender<Bytes>);

/// The other end of an [`OutputSender`].
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use nervekit_tools::OutputSender;
/// let (sender, mut receiver) = OutputSender::channel();
/// drop(sender);
/// assert!(receiver.next().await.is_none());
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct OutputReceiver(mpsc::Receiver<Bytes>);

impl OutputSender {
    /// Makes both ends. A few pieces fit between them; then the sender waits.
    #[must_use]
    pub fn channel() -> (Self, OutputReceiver) {
        let (sender, receiver) = mpsc::channel(8);
        (Self(sender), OutputReceiver(receiver))
    }

    /// Sends a piece of output. `false`: nobody listens any more, so that reading on only drains the pipe.
    pub async fn send(&self, bytes: Bytes) -> bool {
        self.0.send(bytes).await.is_ok()
    }
}

impl OutputReceiver {
    /// The next piece; `None` when all senders are gone.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.0.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static_assertions::assert_obj_safe!(Processes, Process);

    #[test]
    fn errors_are_small() {
        assert!(size_of::<ProcessError>() <= 64);
    }
}
