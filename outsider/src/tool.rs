//! Tools, processes, assets and search.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use nervekit_permissions::{Risk, ToolDescriptor, ToolKind};
use nervekit_tools::{
    ArgumentType, AssetError, AssetFacts, AssetStore, ByteStream, Catalog, EndCause, OutputSender, Process,
    ProcessCommand, ProcessEnd, ProcessError, ProcessExit, ProcessRef, Processes, Program, Reattached,
    SearchBackend, SearchError, SearchHit, Tool, ToolCall, ToolContext, ToolDefinition, ToolError,
    ToolExecutor, ToolManifest, ToolOutcome, ToolOutput,
};
use nervekit_types::{AssetId, Digest, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// Offers one tool, `reply`.
#[derive(Debug)]
pub struct Sayings;

impl ToolManifest for Sayings {
    fn tools(&self) -> Catalog {
        let arguments = ArgumentType::of::<Said>();
        let descriptor = ToolDescriptor::new("reply", ToolKind::Other, Risk::Read).whole_tool();
        let definition = ToolDefinition::new(descriptor, "Says it again.", arguments.schema().clone())
            .parallel()
            .replay_safe();
        Catalog::new().with(Tool::new(definition, arguments, Reply))
    }
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Said {
    text: String,
}

/// Says it again.
#[derive(Debug)]
pub struct Reply;

#[async_trait]
impl ToolExecutor for Reply {
    async fn execute(&self, call: ToolCall, _context: ToolContext) -> Result<ToolOutcome, ToolError> {
        let said: Said = call.typed()?;
        Ok(ToolOutput::text(said.text).into())
    }
}

/// A machine that knows one command, `echo`, and runs it by itself.
#[derive(Debug)]
pub struct Town;

#[async_trait]
impl Processes for Town {
    async fn start(
        &self,
        command: ProcessCommand,
        output: OutputSender,
    ) -> Result<Box<dyn Process>, ProcessError> {
        let words = match command.program {
            Program::Direct(words) => words,
            Program::Shell(line) => line.split_whitespace().map(str::to_owned).collect(),
            _ => return Err(ProcessError::NotOffered),
        };
        match words.split_first() {
            Some((program, words)) if program == "echo" => {
                let line = Bytes::from(format!("{}\n", words.join(" ")));
                Ok(Box::new(Townsfolk {
                    reference: ProcessRef::new("town", "0", 1, 1, 0),
                    waiting: Mutex::new(Some((line, output))),
                    end: watch::Sender::new(None),
                }))
            }
            _ => Err(ProcessError::NotOffered),
        }
    }

    async fn reattach(&self, _: &ProcessRef, _: OutputSender) -> Result<Reattached, ProcessError> {
        // It lived in the host that is gone.
        Ok(Reattached::Gone)
    }
}

/// A process of [`Town`].
#[derive(Debug)]
pub struct Townsfolk {
    reference: ProcessRef,
    /// What it does when the gate opens.
    waiting: Mutex<Option<(Bytes, OutputSender)>>,
    end: watch::Sender<Option<ProcessEnd>>,
}

impl Townsfolk {
    /// Closes the gate for good: what is behind it, if this is the first to ask.
    fn take(&self) -> Option<(Bytes, OutputSender)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[async_trait]
impl Process for Townsfolk {
    fn reference(&self) -> &ProcessRef {
        &self.reference
    }

    async fn release(&self) -> Result<(), ProcessError> {
        if let Some((line, output)) = self.take() {
            output.send(line).await;
            self.end.send_replace(Some(ProcessEnd::new(ProcessExit::Code(0), Duration::ZERO)));
        }
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

/// Keeps assets in memory.
#[derive(Debug, Default)]
pub struct Attic(Mutex<BTreeMap<AssetId, (AssetFacts, Bytes)>>);

#[async_trait]
impl AssetStore for Attic {
    async fn write(&self, id: AssetId, bytes: ByteStream) -> Result<AssetFacts, AssetError> {
        let bytes = bytes.collect().await?;
        let length = bytes.len().try_into().unwrap_or(u64::MAX);
        let facts = AssetFacts::new(id, length, Timestamp::from_millis(0)).digest(Digest::of(&bytes));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.contains_key(&id) {
            return Err(AssetError::Exists { id });
        }
        kept.insert(id, (facts, bytes));
        Ok(facts)
    }

    async fn read(&self, id: AssetId, range: Range<u64>) -> Result<Bytes, AssetError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, bytes) = kept.get(&id).ok_or(AssetError::NotFound { id })?;
        let at = |at: u64| usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len()));
        Ok(bytes.slice(at(range.start)..at(range.end.max(range.start))))
    }

    async fn remove(&self, id: AssetId) -> Result<(), AssetError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        Ok(())
    }

    async fn list(&self, after: Option<AssetId>) -> Result<Vec<AssetFacts>, AssetError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.values().map(|(facts, _)| *facts).filter(|facts| Some(facts.id) > after).collect())
    }
}

/// Finds what it was given.
#[derive(Debug, Default)]
pub struct Encyclopedia(Arc<[SearchHit]>);

impl Encyclopedia {
    /// Knows these pages.
    #[must_use]
    pub fn new(pages: impl Into<Arc<[SearchHit]>>) -> Self {
        Self(pages.into())
    }
}

#[async_trait]
impl SearchBackend for Encyclopedia {
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, SearchError> {
        let hits = self.0.iter().filter(|page| page.title.contains(query) || page.excerpt.contains(query));
        Ok(hits.take(limit).cloned().collect())
    }
}
