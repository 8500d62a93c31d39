//! The two threads of a backend: one writes, one reads what may take long.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nervekit_conversation_core::{BackendError, Change, WriteSet};
use tokio::sync::oneshot;

use super::commit::{self, Answer, GroupFailure};
use super::connection::Connection;
use super::failure::Failure;

/// The most sets, and the most bytes of values, in one physical commit: what waits behind them goes into the
/// next one, so that no caller waits for an endless group and no commit fills the memory.
const GROUP_SETS: usize = 4_096;
const GROUP_BYTES: usize = 16 << 20;

type Reply<T> = oneshot::Sender<Result<T, BackendError>>;

/// What the writer is asked to do.
pub(super) enum Job {
    Write(Vec<WriteSet>, Reply<Vec<Answer>>),
    Run(Box<dyn FnOnce(&Connection) + Send>),
}

/// A thread and the way to it.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread that opens the connection itself and then works it until the worker is dropped.
    pub(super) fn spawn(
        name: &str,
        work: impl FnOnce(&Receiver<Job>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(&queue))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Hands over a job; the answer comes through what is inside it.
    pub(super) fn send(&self, job: Job) {
        // A thread that is gone drops the job, and with it the sender of its answer: the caller sees that.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(job));
    }
}

impl Drop for Worker {
    /// Lets the thread finish what it was given, and waits for it: the lock of the file is free afterwards.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            // A waker may run a task to its end on our own thread, and the task may hold the last backend.
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// How long no write must have come before the map of free pages is stored.
const QUIET: Duration = Duration::from_millis(250);

/// Works jobs until there are no more; writes that wait together are committed together.
///
/// After a crash redb has to read the whole file to find out which pages are free, ten seconds for a million
/// events, unless the last commit has stored that. Doing so takes two more syncs, which no caller should wait
/// for, so it is done when there is nothing else to do: a host is idle, or waits for a model, most of its time.
pub(super) fn run(connection: &Arc<Connection>, jobs: &Receiver<Job>) {
    let mut next = jobs.recv().ok();
    while let Some(job) = next.take() {
        let mut wrote = false;
        match job {
            Job::Run(work) => work(connection),
            Job::Write(sets, reply) => {
                let mut group = Group::default();
                group.add(sets, reply);
                while !group.is_full() {
                    match jobs.try_recv() {
                        Ok(Job::Write(sets, reply)) => group.add(sets, reply),
                        Ok(other) => {
                            next = Some(other);
                            break;
                        }
                        Err(_) => break,
                    }
                }
                group.commit(connection);
                wrote = true;
            }
        }
        if next.is_none() && wrote {
            next = match jobs.recv_timeout(QUIET) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Disconnected) => None,
                Err(RecvTimeoutError::Timeout) => {
                    // Nobody waits for it: a failure shows in the next call, which opens the file again.
                    let _ = connection.with(commit::store_free_pages);
                    jobs.recv().ok()
                }
            };
        } else if next.is_none() {
            next = jobs.recv().ok();
        }
    }
}

/// Writes of several callers that share one physical commit.
#[derive(Default)]
struct Group {
    sets: Vec<WriteSet>,
    bytes: usize,
    callers: Vec<(usize, Reply<Vec<Answer>>)>,
}

impl Group {
    fn add(&mut self, sets: Vec<WriteSet>, reply: Reply<Vec<Answer>>) {
        let values = sets.iter().flat_map(|set| &set.writes).map(|write| match &write.change {
            Change::Put(value) => write.key.len() + value.len(),
            Change::Keep | Change::Delete => write.key.len(),
        });
        self.bytes += values.sum::<usize>();
        self.callers.push((sets.len(), reply));
        self.sets.extend(sets);
    }

    fn is_full(&self) -> bool {
        self.sets.len() >= GROUP_SETS || self.bytes >= GROUP_BYTES
    }

    fn commit(self, connection: &Connection) {
        match commit_group(connection, self.sets) {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                for (count, reply) in self.callers {
                    let _ = reply.send(Ok(answers.by_ref().take(count).collect()));
                }
            }
            Err(error) => {
                for (_, reply) in self.callers {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }
}

/// Commits, and finds out what became of a commit that failed.
fn commit_group(connection: &Connection, sets: Vec<WriteSet>) -> Result<Vec<Answer>, BackendError> {
    let now = connection.clock.now();
    let mut during = None;
    let outcome = connection.with(|database| match commit::commit(database, sets, now) {
        Ok(answers) => Ok(answers),
        Err(GroupFailure::Before(failure)) => Err(failure),
        Err(GroupFailure::During { failure, last, answers }) => {
            during = Some((last, answers));
            Err(failure)
        }
    });
    let (failure, last, answers) = match (outcome, during) {
        (Ok(answers), _) => return Ok(answers),
        (Err(failure), None) => return Err(failure.into_error(&connection.store)),
        (Err(failure), Some((last, answers))) => (failure, last, answers),
    };
    let unknown = |failure: Failure| BackendError::unknown(connection.store.clone(), failure);
    // What a failed sync left on the disk is not for us to say.
    if connection.sync_failed() {
        return Err(unknown(failure));
    }
    // A write failed: opened again, the file shows its last whole commit.
    match connection.with(commit::last) {
        Ok(stored) if stored >= Some(last) => Ok(answers),
        Ok(_) => Err(failure.into_error(&connection.store)),
        // A page for which there was no room is nowhere, so the commit is not whole.
        Err(_) if failure.is_full() => Err(failure.into_error(&connection.store)),
        Err(_) => Err(unknown(failure)),
    }
}
