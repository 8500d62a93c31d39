//! Shorter histories: what to keep, what to ask for, what comes of it.
//!
//! The three steps are pure: [`plan`] chooses the cut, [`summary_request`] makes the request that summarises
//! what lies before it, and [`apply`] judges the answer. [`Harness::compact`] drives
//! them with a model.
//!
//! ```
//! use nervekit_harness::compaction::{CompactionSettings, apply, plan, summary_request};
//! use nervekit_harness::{AssistantMessage, HeuristicTokens, Messages, UserMessage};
//!
//! let long = "word ".repeat(2_000);
//! let messages: Messages = (0..10)
//!     .flat_map(|_| [UserMessage::text(&*long).into(), AssistantMessage::text(&*long).into()])
//!     .collect::<Vec<_>>()
//!     .into();
//! let plan = plan(&messages, &CompactionSettings::balanced(), 32_000, &HeuristicTokens)?;
//! let request = summary_request(&plan, None, &HeuristicTokens);
//! assert!(request.tools.is_empty());
//!
//! // … the model answers …
//! let answer = AssistantMessage::text("## Goal\nSay `word` a lot.");
//! let compaction = apply(&plan, &answer, &HeuristicTokens)?;
//! assert!(compaction.tokens_after < compaction.tokens_before);
//! # Ok::<(), nervekit_harness::CompactionError>(())
//! ```

use std::sync::Arc;

use futures_util::StreamExt as _;
use nervekit_types::Retry;
use serde::{Deserialize, Serialize};

use crate::error::ProviderError;
use crate::estimate::TokenEstimator;
use crate::event::ModelEvent;
use crate::harness::Harness;
use crate::message::{Messages, StopReason, Usage};
use crate::model::Model;

mod file;
mod plan;
mod setting;
mod summary;

pub use file::FileList;
pub use plan::{CompactionPlan, plan};
pub use setting::CompactionSettings;
pub use summary::{apply, summary_request};

/// What to compact, and how.
///
/// ```
/// use nervekit_harness::{CompactionRequest, CompactionSettings, Messages};
/// let request = CompactionRequest::new(Messages::new())
///     .settings(CompactionSettings::aggressive())
///     .instructions("keep the error messages word for word");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionRequest {
    /// The messages as the model would read them next.
    pub messages: Messages,
    /// How much to keep.
    pub settings: CompactionSettings,
    /// What the user wants the summary to mind.
    pub instructions: Option<String>,
}

impl CompactionRequest {
    /// A compaction of these messages under the balanced settings.
    #[must_use]
    pub fn new(messages: Messages) -> Self {
        Self { messages, settings: CompactionSettings::balanced(), instructions: None }
    }

    /// Sets how much to keep.
    #[must_use]
    pub fn settings(mut self, settings: CompactionSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets what the summary shall mind.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }
}

/// A summary of the older messages and where the kept ones begin.
///
/// ```
/// use nervekit_harness::{Compaction, Messages, Origin, UserMessage};
/// let summary = UserMessage::text("they said hi").origin(Origin::Summary);
/// let compaction = Compaction::new("they said hi", 4, Messages::from_iter([summary])).tokens(9_000, 5);
/// assert!(compaction.tokens_after < compaction.tokens_before);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Compaction {
    /// The text of the summary, with the exact file list at its end.
    pub summary: String,
    /// The index of the first message that is kept.
    pub first_kept: usize,
    /// Whether the cut lies inside a turn.
    pub splits_turn: bool,
    /// The messages' size before, estimated.
    pub tokens_before: u64,
    /// The messages' size after, estimated.
    pub tokens_after: u64,
    /// What the summary cost.
    pub usage: Usage,
    /// The messages from now on: the summary, then the kept ones.
    pub messages: Messages,
}

impl Compaction {
    /// A compaction that cuts at the beginning of a turn, of unknown sizes.
    #[must_use]
    pub fn new(summary: impl Into<String>, first_kept: usize, messages: Messages) -> Self {
        Self {
            summary: summary.into(),
            first_kept,
            splits_turn: false,
            tokens_before: 0,
            tokens_after: 0,
            usage: Usage::default(),
            messages,
        }
    }

    /// Says whether the cut lies inside a turn.
    #[must_use]
    pub fn splits_turn(mut self, splits_turn: bool) -> Self {
        self.splits_turn = splits_turn;
        self
    }

    /// Sets the messages' sizes, estimated.
    #[must_use]
    pub fn tokens(mut self, before: u64, after: u64) -> Self {
        self.tokens_before = before;
        self.tokens_after = after;
        self
    }

    /// Sets what the summary cost.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }
}

/// A compaction that was not made. The history is as it was.
///
/// ```
/// use nervekit_harness::CompactionError;
/// assert_eq!(CompactionError::EmptySummary.to_string(), "the model gave an empty summary");
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// There is nothing before a place where the messages may be cut.
    #[error("there is nothing to summarise before the last complete exchange")]
    NothingToCompact,
    /// The request for the summary failed.
    #[error("the summary could not be had")]
    Provider(#[from] ProviderError),
    /// The model did not complete the summary.
    #[error("the model ended the summary with `{}`", .0.as_str())]
    Stopped(StopReason),
    /// The model gave no text.
    #[error("the model gave an empty summary")]
    EmptySummary,
    /// The context would not shrink.
    #[error(
        "the summary would take the context from {before} to {after} tokens; use a larger window or other settings"
    )]
    NotSmaller {
        /// The size before.
        before: u64,
        /// The size with the summary.
        after: u64,
    },
}

impl CompactionError {
    /// Whether the same compaction may be tried again.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::Provider(error) => error.retry(),
            // Another sample of the model may do better.
            Self::Stopped(_) | Self::EmptySummary | Self::NotSmaller { .. } => Retry::Now,
            Self::NothingToCompact => Retry::Never,
        }
    }
}

/// Plans, asks and judges.
pub(crate) async fn run(
    harness: &dyn Harness,
    estimator: &dyn TokenEstimator,
    model: Arc<dyn Model>,
    request: CompactionRequest,
) -> Result<Compaction, CompactionError> {
    let plan = plan(&request.messages, &request.settings, model.info().context_window, estimator)?;
    let summarise = summary_request(&plan, request.instructions.as_deref(), estimator);
    let mut events = harness.turn(model, Arc::new(summarise));
    while let Some(event) = events.next().await {
        if let ModelEvent::Finished(answer) = event? {
            return apply(&plan, &answer, estimator);
        }
    }
    Err(ProviderError::protocol("the harness gave no answer").into())
}

#[cfg(test)]
mod tests;
