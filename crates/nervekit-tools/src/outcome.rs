//! How the execution of a call ended.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capture::Capture;
use crate::output::ToolOutput;
use crate::process::Process;

/// How the execution of a call ended. A failure is a [`ToolError`](crate::ToolError) instead, or an output that
/// is marked [`failed`](ToolOutput::failed).
///
/// ```
/// use nervekit_tools::{ToolOutcome, ToolOutput};
/// let outcome = ToolOutcome::from(ToolOutput::text("done"));
/// assert_eq!(outcome.kind(), "completed");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolOutcome {
    /// It is done.
    Completed(ToolOutput),
    /// A person has to answer first; the call is suspended durably and nothing of it stays in memory.
    NeedsInput(InputRequest),
    /// A process goes on in the background; it is handed over undisturbed.
    Backgrounded(Backgrounded),
    /// It was stopped before it had any effect.
    Cancelled,
}

impl ToolOutcome {
    /// The word for the variant.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::NeedsInput(_) => "needs_input",
            Self::Backgrounded(_) => "backgrounded",
            Self::Cancelled => "cancelled",
        }
    }
}

impl<O: Into<ToolOutput>> From<O> for ToolOutcome {
    fn from(output: O) -> Self {
        Self::Completed(output.into())
    }
}

/// What a call asks a person.
///
/// ```
/// use nervekit_tools::InputRequest;
/// let request = InputRequest::new("Which database?").option("PostgreSQL").option("SQLite").recommendation("SQLite");
/// assert_eq!(request.options.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputRequest {
    /// The question.
    pub question: String,
    /// What the person should know to answer it.
    pub context: Option<String>,
    /// What the asker would choose.
    pub recommendation: Option<String>,
    /// Answers to choose from; another one may be given unless the schema forbids it.
    pub options: Vec<String>,
    /// JSON Schema of the answer; a text without one.
    pub schema: Option<Value>,
}

impl InputRequest {
    /// Asks a question that is answered with a text.
    #[must_use]
    pub fn new(question: impl Into<String>) -> Self {
        Self {
            question: question.into(),
            context: None,
            recommendation: None,
            options: Vec::new(),
            schema: None,
        }
    }

    /// Says what the person should know.
    #[must_use]
    pub fn context(self, context: impl Into<String>) -> Self {
        Self { context: Some(context.into()), ..self }
    }

    /// Says what the asker would choose.
    #[must_use]
    pub fn recommendation(self, recommendation: impl Into<String>) -> Self {
        Self { recommendation: Some(recommendation.into()), ..self }
    }

    /// Adds an answer to choose from.
    #[must_use]
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Sets the schema of the answer.
    #[must_use]
    pub fn schema(self, schema: Value) -> Self {
        Self { schema: Some(schema), ..self }
    }
}

/// A process that outlives its call.
///
/// Its gate may still be closed: whoever takes it over records it and calls
/// [`release`](crate::Process::release), which is harmless when it is open.
///
/// ```
/// use nervekit_tools::{Backgrounded, ProcessError};
/// use nervekit_types::AssetId;
///
/// /// What a core does with it, once its record is durable.
/// async fn take_over(run: &Backgrounded) -> Result<Option<AssetId>, ProcessError> {
///     let asset = run.capture.keep().await;
///     run.process.release().await?;
///     Ok(asset)
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Backgrounded {
    /// The process.
    pub process: Box<dyn Process>,
    /// Its output, which goes on being collected.
    pub capture: Capture,
    /// The command as a person reads it.
    pub command: String,
    /// Where it runs: a label.
    pub working_directory: PathBuf,
}

impl Backgrounded {
    /// Hands a process over.
    #[must_use]
    pub fn new(
        process: Box<dyn Process>,
        capture: Capture,
        command: impl Into<String>,
        working_directory: impl Into<PathBuf>,
    ) -> Self {
        Self { process, capture, command: command.into(), working_directory: working_directory.into() }
    }
}
