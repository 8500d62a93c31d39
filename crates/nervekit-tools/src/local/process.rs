//! Processes of this machine.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::net::unix::pipe;
use tokio::sync::{Notify, oneshot, watch};

use super::environment::environment;
use crate::process::{
    EndCause, OutputSender, Process, ProcessCommand, ProcessEnd, ProcessError, ProcessExit, ProcessRef,
    Processes, Program, Reattached,
};

mod identity;

/// The gate: a small shell that reads one line and then becomes the command, with the null device as its input.
/// When the other end of its input is closed before, it exits and nothing runs.
const GATE: &str = r#"read -r line || exit 125; [ "$line" = go ] || exit 125; exec "$@" </dev/null"#;

/// How much of the output is read at once.
const PIECE: usize = 64 * 1024;

/// Starts processes of this machine, each in a group of its own.
///
/// The environment of a child is what builds need (`PATH`, `HOME`, language, toolchains) plus what
/// [`allow`](Self::allow) names, without anything whose name looks like a credential's. On Linux the host process
/// is made non-dumpable with the first command, so that a command cannot read the host's own environment (see
/// [`dumpable`](Self::dumpable)); nothing comparable exists elsewhere. A process that leaves its
/// group (`setsid`) is not followed: it neither delays the end of its command nor is ended with it. Needs a
/// tokio runtime with its I/O driver.
///
/// After a restart of the host the output and the exit status of an earlier process are lost:
/// [`reattach`](Processes::reattach) gives [`Reattached::Lost`], by which it can be ended once its machine, boot,
/// group and start time are proven to be the same.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nervekit_tools::{CallAssets, Capture, LocalProcesses, ProcessCommand, Processes, Progress};
/// let (sender, capture) = Capture::start(CallAssets::in_memory(), Progress::default());
/// let process = LocalProcesses::default().start(ProcessCommand::shell("echo hello", "/"), sender).await?;
/// process.release().await?;
/// assert_eq!(process.wait().await.exit.to_string(), "exit code 0");
/// assert_eq!(&capture.finished().await.head[..], b"hello\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LocalProcesses {
    allowed: Vec<String>,
    grace: Duration,
    dumpable: bool,
}

impl Default for LocalProcesses {
    fn default() -> Self {
        Self { allowed: Vec::new(), grace: Duration::from_secs(2), dumpable: false }
    }
}

impl LocalProcesses {
    /// Starts processes with the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Hands this variable of the host's environment on, unless it looks like a credential.
    ///
    /// ```
    /// let processes = nervekit_tools::LocalProcesses::new().allow("KUBECONFIG");
    /// ```
    #[must_use]
    pub fn allow(mut self, variable: impl Into<String>) -> Self {
        self.allowed.push(variable.into());
        self
    }

    /// Sets how long a group has between TERM and KILL (default 2 s).
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Leaves the host process dumpable, for debuggers and core dumps. Its environment and memory can then be
    /// read by the commands it starts, as on every system but Linux.
    ///
    /// ```
    /// let processes = nervekit_tools::LocalProcesses::new().dumpable();
    /// ```
    #[must_use]
    pub fn dumpable(self) -> Self {
        Self { dumpable: true, ..self }
    }

    fn spawn(&self, command: &ProcessCommand) -> Result<(Child, io::PipeReader), ProcessError> {
        fs::metadata(&command.working_directory)
            .and_then(
                |metadata| {
                    if metadata.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
                },
            )
            .map_err(ProcessError::WorkingDirectory)?;
        if !self.dumpable {
            hide_from_children();
        }
        let (reader, writer) = io::pipe().map_err(ProcessError::NotStarted)?;
        let mut gate = Command::new("/bin/sh");
        gate.arg("-c").arg(GATE).arg("gate");
        match &command.program {
            Program::Shell(text) => gate.arg(shell()).arg("-c").arg(text),
            Program::Direct(words) => gate.args(words),
        };
        // Closed by `Command` in the host when this function ends; both streams in one pipe keep their order.
        let second = writer.try_clone().map_err(ProcessError::NotStarted)?;
        gate.env_clear()
            .envs(environment(std::env::vars_os(), &self.allowed, &command.environment))
            .current_dir(&command.working_directory)
            .stdin(Stdio::piped())
            .stdout(writer)
            .stderr(second)
            .process_group(0);
        Ok((gate.spawn().map_err(ProcessError::NotStarted)?, reader))
    }
}

/// Makes this process non-dumpable, so that a child of the same user cannot read its environment or memory
/// through `/proc` (`PR_SET_DUMPABLE(2const)`). What could not be hidden does not keep a command from running.
#[cfg(target_os = "linux")]
fn hide_from_children() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Nothing comparable exists here, as the documentation of [`LocalProcesses`] says.
#[cfg(not(target_os = "linux"))]
fn hide_from_children() {}

/// `bash`, else `sh`.
fn shell() -> &'static str {
    ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .unwrap_or("/bin/sh")
}

#[async_trait]
impl Processes for LocalProcesses {
    async fn start(
        &self,
        command: ProcessCommand,
        output: OutputSender,
    ) -> Result<Box<dyn Process>, ProcessError> {
        let (mut child, reader) = self.spawn(&command)?;
        let gate = child.stdin.take();
        let group = Group::adopt(child)?;
        let reference = identity::reference(group.pid).map_err(ProcessError::NotStarted)?;
        let reader = pipe::Receiver::from_owned_fd(reader.into()).map_err(ProcessError::NotStarted)?;
        let shared =
            Arc::new(Shared { released: Notify::new(), stop: Notify::new(), end: watch::Sender::new(None) });
        let owner = Owner { group, timeout: command.timeout, grace: self.grace, shared: shared.clone() };
        tokio::spawn(owner.run(reader, output));
        Ok(Box::new(LocalProcess { reference, gate: Mutex::new(gate), shared }))
    }

    async fn reattach(&self, reference: &ProcessRef, _: OutputSender) -> Result<Reattached, ProcessError> {
        Ok(match identity::verify(reference) {
            identity::Verdict::Same => {
                Reattached::Lost(Box::new(LostProcess { reference: reference.clone(), grace: self.grace }))
            }
            identity::Verdict::Gone => Reattached::Gone,
            identity::Verdict::Unproven => Reattached::Unproven,
        })
    }
}

/// What the handle and the owner of a process share.
#[derive(Debug)]
struct Shared {
    released: Notify,
    stop: Notify,
    end: watch::Sender<Option<ProcessEnd>>,
}

impl Shared {
    async fn ended(&self) -> ProcessEnd {
        let mut end = self.end.subscribe();
        // The sender lives as long as `self`, so that waiting cannot fail.
        let end = end.wait_for(Option::is_some).await.ok().and_then(|end| *end);
        end.unwrap_or_else(|| ProcessEnd::new(ProcessExit::Unknown, Duration::ZERO))
    }
}

#[derive(Debug)]
struct LocalProcess {
    reference: ProcessRef,
    gate: Mutex<Option<ChildStdin>>,
    shared: Arc<Shared>,
}

#[async_trait]
impl Process for LocalProcess {
    fn reference(&self) -> &ProcessRef {
        &self.reference
    }

    async fn release(&self) -> Result<(), ProcessError> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut gate) = gate else { return Ok(()) };
        // A line this short fits into the pipe: the write does not wait.
        gate.write_all(b"go\n").map_err(|_| ProcessError::EndedBeforeRelease)?;
        self.shared.released.notify_one();
        Ok(())
    }

    async fn wait(&self) -> ProcessEnd {
        self.shared.ended().await
    }

    async fn stop(&self) -> ProcessEnd {
        self.shared.stop.notify_one();
        self.shared.ended().await
    }
}

impl Drop for LocalProcess {
    fn drop(&mut self) {
        self.shared.stop.notify_one();
    }
}

/// A child and its group. Until this is dropped the child is not reaped, so its process id, which names the
/// group too, cannot become another's: every signal reaches the right group or nobody.
struct Group {
    pid: Pid,
    exited: oneshot::Receiver<ProcessExit>,
    /// Dropping it lets the child be reaped.
    _reap: blocking::Sender<()>,
}

impl Group {
    fn adopt(mut child: Child) -> Result<Self, ProcessError> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| ProcessError::NotStarted(io::Error::other("the process has no id")))?;
        let (sender, exited) = oneshot::channel();
        let (reap, wait_to_reap) = blocking::channel::<()>();
        // A thread of its own: a runtime that shuts down waits for its blocking pool, but not for this.
        let waiting = std::thread::Builder::new().name("nervekit-wait".to_owned()).spawn(move || {
            let _ = sender.send(wait_without_reaping(pid));
            let _ = wait_to_reap.recv();
            let _ = child.wait();
        });
        match waiting {
            Ok(_) => Ok(Self { pid, exited, _reap: reap }),
            Err(error) => {
                // The child went with the closure; its gate is closed, so that it ends by itself.
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
                Err(ProcessError::NotStarted(error))
            }
        }
    }

    fn signal(&self, signal: Signal) {
        // It fails when nobody is left, which is what is wanted.
        let _ = rustix::process::kill_process_group(self.pid, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // On every way out, a dropped runtime included, nobody of the group stays.
        self.signal(Signal::KILL);
    }
}

fn wait_without_reaping(pid: Pid) -> ProcessExit {
    loop {
        match rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Err(_) => return ProcessExit::Unknown,
            Ok(Some(status)) => {
                let exit = status.exit_status().map(ProcessExit::Code);
                let signal = status.terminating_signal().map(ProcessExit::Signal);
                return exit.or(signal).unwrap_or(ProcessExit::Unknown);
            }
        }
    }
}

/// The one task that owns a process from start to end.
struct Owner {
    group: Group,
    timeout: Option<Duration>,
    grace: Duration,
    shared: Arc<Shared>,
}

impl Owner {
    async fn run(mut self, reader: pipe::Receiver, output: OutputSender) {
        let (drained, reading) = Reading::start(reader, output);
        let (exit, cause, duration) = self.until_exit().await;
        let leftovers = identity::has_living_members(self.group.pid);
        if leftovers {
            self.group.signal(Signal::TERM);
            self.members_gone(self.grace).await;
            self.group.signal(Signal::KILL);
            self.members_gone(self.grace).await;
        }
        // Whoever left the group may hold the pipe for ever: what is in it now is the output.
        reading.finish(drained).await;
        let leftovers = leftovers && cause == EndCause::Exited;
        let end = ProcessEnd::new(exit, duration).cause(cause).leftovers_ended(leftovers);
        self.shared.end.send_replace(Some(end));
    }

    /// Waits for the end of the first process, and brings it about when time is up or it is asked for.
    async fn until_exit(&mut self) -> (ProcessExit, EndCause, Duration) {
        let shared = self.shared.clone();
        let mut started = Instant::now();
        let mut released = false;
        let far = Duration::from_secs(60 * 60 * 24 * 365);
        let deadline = tokio::time::sleep(far);
        tokio::pin!(deadline);
        let cause = loop {
            tokio::select! {
                exit = &mut self.group.exited => {
                    return (exit.unwrap_or(ProcessExit::Unknown), EndCause::Exited, started.elapsed());
                }
                () = shared.stop.notified() => break EndCause::Stopped,
                () = shared.released.notified(), if !released => {
                    released = true;
                    started = Instant::now();
                    deadline.as_mut().reset(tokio::time::Instant::now() + self.timeout.unwrap_or(far).min(far));
                }
                () = &mut deadline, if released => break EndCause::TimedOut,
            }
        };
        self.group.signal(Signal::TERM);
        let in_time = tokio::time::timeout(self.grace, &mut self.group.exited).await;
        let exit = if let Ok(exit) = in_time {
            exit
        } else {
            self.group.signal(Signal::KILL);
            (&mut self.group.exited).await
        };
        (exit.unwrap_or(ProcessExit::Unknown), cause, started.elapsed())
    }

    /// Waits until no member of the group is alive, at most this long.
    async fn members_gone(&self, most: Duration) {
        let end = tokio::time::Instant::now() + most;
        while identity::has_living_members(self.group.pid) && tokio::time::Instant::now() < end {
            // Members are no children of ours: their end cannot be waited for, only looked for.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The task that reads the output.
struct Reading {
    finish: oneshot::Sender<()>,
}

impl Reading {
    fn start(reader: pipe::Receiver, output: OutputSender) -> (oneshot::Receiver<()>, Self) {
        let (finish, finishing) = oneshot::channel();
        let (done, drained) = oneshot::channel();
        tokio::spawn(async move {
            read_all(&reader, &output, finishing).await;
            drop(output);
            let _ = done.send(());
        });
        (drained, Self { finish })
    }

    /// Reads what is in the pipe, without waiting for its end, and closes the output.
    async fn finish(self, drained: oneshot::Receiver<()>) {
        let _ = self.finish.send(());
        let _ = drained.await;
    }
}

async fn read_all(reader: &pipe::Receiver, output: &OutputSender, mut finishing: oneshot::Receiver<()>) {
    let mut finish = false;
    // What fits into a pipe at most (`pipe(7)`, `pipe-max-size`), so that a process that left the group and
    // goes on writing cannot keep the end from coming.
    let mut rest = 1024 * 1024;
    loop {
        let mut piece = BytesMut::zeroed(PIECE);
        let read = if finish {
            // The pipe itself is asked: that bytes are there may not have reached the runtime yet.
            rustix::io::read(reader, &mut *piece).map_err(io::Error::from)
        } else {
            reader.try_read(&mut piece)
        };
        match read {
            Ok(0) => return,
            Ok(length) => {
                piece.truncate(length);
                if finish {
                    rest -= length.min(rest);
                }
                // Nobody listens any more: the pipe is drained all the same, so that the process goes on.
                let _ = output.send(shrunk(piece)).await;
                if finish && rest == 0 {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if finish {
                    return;
                }
                tokio::select! {
                    _ = &mut finishing => finish = true,
                    readable = reader.readable() => if readable.is_err() { return },
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// A piece that does not hold on to far more memory than its length.
fn shrunk(piece: BytesMut) -> Bytes {
    if piece.len() < PIECE / 4 { Bytes::copy_from_slice(&piece) } else { piece.freeze() }
}

/// A process that an earlier host started and that is proven to be the one.
#[derive(Debug)]
struct LostProcess {
    reference: ProcessRef,
    grace: Duration,
}

#[async_trait]
impl Process for LostProcess {
    fn reference(&self) -> &ProcessRef {
        &self.reference
    }

    async fn release(&self) -> Result<(), ProcessError> {
        // Its gate was held by the host that died.
        Err(ProcessError::EndedBeforeRelease)
    }

    async fn wait(&self) -> ProcessEnd {
        while identity::verify(&self.reference) == identity::Verdict::Same {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        ProcessEnd::new(ProcessExit::Unknown, Duration::ZERO)
    }

    async fn stop(&self) -> ProcessEnd {
        for signal in [Signal::TERM, Signal::KILL] {
            let deadline = tokio::time::Instant::now() + self.grace;
            // Proven anew before each signal.
            if identity::verify(&self.reference) != identity::Verdict::Same {
                break;
            }
            if let Some(group) = i32::try_from(self.reference.group).ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process_group(group, signal);
            }
            while identity::verify(&self.reference) == identity::Verdict::Same
                && tokio::time::Instant::now() < deadline
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        ProcessEnd::new(ProcessExit::Unknown, Duration::ZERO).cause(EndCause::Stopped)
    }
}

#[cfg(test)]
mod tests;
