//! `bash`: runs a shell command.

use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use nervekit_permissions::{Risk, TargetSelector, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::asset::AssetFacts;
use crate::assets::{AssetCategory, Attachment};
use crate::capture::{Capture, CapturedOutput};
use crate::context::ToolContext;
use crate::definition::ToolDefinition;
use crate::error::ToolError;
use crate::executor::{ToolCall, ToolExecutor};
use crate::outcome::{Backgrounded, ToolOutcome};
use crate::output::{OutputBody, ToolOutput, UserProjection};
use crate::process::{EndCause, Process, ProcessCommand, ProcessEnd, ProcessError};
use crate::projection::{Keep, OutputBudget, clip, cut_ends};
use crate::tool::Tool;

/// The arguments of `bash`.
///
/// ```
/// use nervekit_tools::catalog::Bash;
/// let args: Bash = serde_json::from_str(r#"{"command": "make", "timeout": 600}"#)?;
/// assert_eq!(args.timeout, Some(600));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Bash {
    /// The command. Each call is a new shell: directory, variables and functions do not carry over.
    pub command: String,
    /// The folder to run in. Default: the working directory.
    pub cwd: Option<String>,
    /// Seconds after which the command and everything it started is ended.
    #[schemars(range(min = 1, max = 86_400))]
    pub timeout: Option<u64>,
}

/// The longest timeout in seconds: a day.
const LONGEST: u64 = 86_400;

/// How much output the model reads: the end matters as much as the beginning.
const BUDGET: OutputBudget = OutputBudget::new(24_000, 200).keep(Keep::Both);

/// The tool `bash`: runs a command in a shell.
///
/// The command has no input, a reduced environment and a process group of its own, and ends with its shell:
/// what it leaves running is ended too. Its output goes to an asset as soon as it is long. A call that lasts
/// longer than the context's foreground limit goes on in the background, undisturbed.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nervekit_tools::{catalog, testing};
/// let run = testing::run(&catalog::bash(), serde_json::json!({"command": "echo hello"})).await;
/// let settled = run.settled().unwrap();
/// assert!(settled.agent.starts_with("exit code 0, "));
/// assert!(settled.agent.ends_with("hello\n"));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn bash() -> Tool {
    let arguments = ArgumentType::of::<Bash>();
    let descriptor = ToolDescriptor::new("bash", ToolKind::Command, Risk::Unknown)
        .group("shell")
        .primary_argument("command")
        .whole_tool()
        .target(TargetSelector::path("cwd").write().tree().optional())
        .cosmetic("timeout");
    let definition = ToolDefinition::new(
        descriptor,
        "Runs a bash command and returns its exit code and output (standard output and error together; of a \
         long output the beginning and the end). No input, no terminal: use flags that do not ask. Processes \
         left running when the shell exits are ended.",
        arguments.schema().clone(),
    )
    .label("Run command")
    .budget(BUDGET);
    Tool::new(definition, arguments, BashExecutor)
}

#[derive(Debug)]
struct BashExecutor;

#[async_trait]
impl ToolExecutor for BashExecutor {
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError> {
        let Bash { command, cwd, timeout } = call.typed()?;
        if command.trim().is_empty() {
            return Err(ToolError::new("`command` is empty"));
        }
        if timeout.is_some_and(|seconds| !(1..=LONGEST).contains(&seconds)) {
            return Err(ToolError::new(format!("`timeout` is 1 to {LONGEST} seconds")));
        }
        let folder = match cwd {
            // The shell enters the folder by its path; `cwd` is judged as a tree that may be written for that.
            Some(_) => context.path("cwd")?.as_racy_path().to_owned(),
            None => context
                .working_directory()
                .ok_or_else(|| ToolError::new("there is no working directory; give `cwd`"))?
                .to_owned(),
        };
        if context.is_cancelled() {
            return Ok(ToolOutcome::Cancelled);
        }
        let mut process_command = ProcessCommand::shell(&*command, &*folder);
        process_command.timeout = timeout.map(Duration::from_secs);
        let (sender, capture) = Capture::start(context.assets().clone(), context.live().clone());
        let process = context.processes().start(process_command, sender).await.map_err(not_started)?;
        process.release().await.map_err(not_started)?;
        let limit = async {
            match context.foreground_limit() {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let cancelled = tokio::select! {
            biased;
            _ = process.wait() => false,
            () = context.cancelled() => true,
            () = limit => {
                return Ok(ToolOutcome::Backgrounded(Backgrounded::new(process, capture, command, folder)));
            }
        };
        let end = if cancelled { process.stop().await } else { process.wait().await };
        Ok(output(&end, timeout, capture.finished().await).into())
    }
}

fn not_started(error: ProcessError) -> ToolError {
    ToolError::new(error.to_string()).because(error)
}

/// The result of a command that ended.
fn output(end: &ProcessEnd, timeout: Option<u64>, captured: CapturedOutput) -> ToolOutput {
    let seconds = end.duration.as_secs_f64();
    let mut status = match (end.cause, timeout) {
        (EndCause::TimedOut, Some(timeout)) => {
            format!("ended after its timeout of {timeout} s ({}), with everything it had started", end.exit)
        }
        (EndCause::Stopped, _) => format!("stopped after {seconds:.1} s ({})", end.exit),
        _ => format!("{}, {seconds:.1} s", end.exit),
    };
    if captured.byte_length == 0 {
        status.push_str(", no output");
    }
    if end.leftovers_ended {
        status.push_str("\nProcesses were left running and have been ended.");
    }
    if let Some(problem) = &captured.problem {
        // Writing to a `String` does not fail.
        let _ = write!(status, "\nThe complete output could not be stored: {problem}.");
    }
    let card =
        cut_ends(&captured.head, &captured.tail, captured.byte_length, &OutputBudget::new(1_600, 10)).text;
    let first = status.lines().next().unwrap_or_default();
    let summary = UserProjection::text(format!("{first}\n{}", clip(&card, 2_000)).trim_end());
    let attachment = captured.asset.map(|asset| {
        let facts = AssetFacts::new(asset, captured.byte_length, nervekit_types::Timestamp::from_millis(0));
        let facts = captured.digest.map_or(facts, |digest| facts.digest(digest));
        Attachment::new(facts, AssetCategory::BashOutput, "output").media_type("text/plain")
    });
    let mut output = ToolOutput::new(OutputBody::Captured(captured)).status(status).summary(summary);
    output.attachments.extend(attachment);
    output.failed = end.cause != EndCause::Exited;
    output
}

#[cfg(test)]
mod tests;
