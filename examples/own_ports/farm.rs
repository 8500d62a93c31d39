//! The farm: where commands run.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nervekit::tools::{
    EndCause, OutputSender, Process, ProcessCommand, ProcessEnd, ProcessError, ProcessExit, ProcessRef,
    Processes, Program, Reattached,
};
use tokio::sync::watch;

/// Machines that run commands. Here they only say so.
#[derive(Debug)]
pub(crate) struct Farm;

#[async_trait]
impl Processes for Farm {
    async fn start(
        &self,
        command: ProcessCommand,
        output: OutputSender,
    ) -> Result<Box<dyn Process>, ProcessError> {
        let Program::Shell(line) = command.program else { return Err(ProcessError::NotOffered) };
        println!("farm: machine 7 holds `{line}`");
        Ok(Box::new(Job {
            reference: ProcessRef::new("farm", "machine 7", 1, 1, 0),
            held: Mutex::new(Some((line, output))),
            end: watch::Sender::new(None),
        }))
    }

    async fn reattach(&self, _: &ProcessRef, _: OutputSender) -> Result<Reattached, ProcessError> {
        // A farm that outlives this program would find the job by its reference.
        Ok(Reattached::Gone)
    }
}

/// A command on a machine. It begins when it is released, once it is on record, and not before.
#[derive(Debug)]
struct Job {
    reference: ProcessRef,
    held: Mutex<Option<(String, OutputSender)>>,
    end: watch::Sender<Option<ProcessEnd>>,
}

impl Job {
    /// What is behind the gate, for the first who asks.
    fn take(&self) -> Option<(String, OutputSender)> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[async_trait]
impl Process for Job {
    fn reference(&self) -> &ProcessRef {
        &self.reference
    }

    async fn release(&self) -> Result<(), ProcessError> {
        let Some((line, output)) = self.take() else { return Err(ProcessError::EndedBeforeRelease) };
        println!("farm: machine 7 runs `{line}`");
        output.send("212 tests passed\n".into()).await;
        self.end.send_replace(Some(ProcessEnd::new(ProcessExit::Code(0), Duration::from_secs(3))));
        Ok(())
    }

    async fn wait(&self) -> ProcessEnd {
        let mut end = self.end.subscribe();
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|end| *end);
        ended.unwrap_or_else(|| ProcessEnd::new(ProcessExit::Unknown, Duration::ZERO))
    }

    async fn stop(&self) -> ProcessEnd {
        if self.take().is_some() {
            let end = ProcessEnd::new(ProcessExit::Signal(15), Duration::ZERO).cause(EndCause::Stopped);
            self.end.send_replace(Some(end));
        }
        self.wait().await
    }
}
