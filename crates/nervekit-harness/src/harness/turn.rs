//! One answer, held to the contract of [`Model`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio::time::{Instant, timeout_at};

use crate::assembler::MessageAssembler;
use crate::error::{ProviderError, ProviderErrorKind};
use crate::event::ModelEvent;
use crate::message::{AssistantMessage, ContentBlock, StopReason};
use crate::model::{Model, ModelStream};
use crate::request::ModelRequest;

/// How long an answer may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Between two events.
    pub(crate) idle: Duration,
    /// From the first poll to the end.
    pub(crate) total: Duration,
}

/// Asks the model and passes its events on until the first that breaks the contract.
pub(crate) fn watch(
    model: Arc<dyn Model>,
    request: Arc<ModelRequest>,
    limits: Limits,
) -> impl Stream<Item = Result<ModelEvent, ProviderError>> + Send + 'static {
    let turn = Turn { model, request, limits, answer: None, assembler: MessageAssembler::new() };
    stream::unfold(Some(turn), |turn| async {
        let mut turn = turn?;
        let event = turn.next().await.map_err(|error| {
            let after_content = error.after_content() || turn.assembler.has_content();
            error.with_after_content(after_content)
        });
        let ended = event.as_ref().map_or(true, ModelEvent::is_last);
        Some((event, (!ended).then_some(turn)))
    })
}

struct Turn {
    model: Arc<dyn Model>,
    request: Arc<ModelRequest>,
    limits: Limits,
    /// The model's stream and the moment by which it must have ended, from the first poll on.
    answer: Option<(Contained, Instant)>,
    assembler: MessageAssembler,
}

impl Turn {
    async fn next(&mut self) -> Result<ModelEvent, ProviderError> {
        let (stream, deadline) = match &mut self.answer {
            Some((stream, deadline)) => (stream, *deadline),
            unasked => {
                let (model, request) = (&self.model, &self.request);
                let stream = catch_unwind(AssertUnwindSafe(|| model.stream(Arc::clone(request))))
                    .map_err(|panic| panicked(&*panic))?;
                let deadline = later(self.limits.total);
                (&mut unasked.insert((Contained(Some(stream)), deadline)).0, deadline)
            }
        };
        let silence = later(self.limits.idle);
        let Ok(polled) =
            timeout_at(silence.min(deadline), AssertUnwindSafe(stream.next()).catch_unwind()).await
        else {
            let (what, limit) = if silence < deadline {
                ("no event came", self.limits.idle)
            } else {
                ("the answer was not complete", self.limits.total)
            };
            return Err(ProviderError::new(ProviderErrorKind::Timeout, format!("{what} within {limit:?}")));
        };
        let Some(event) = polled.map_err(|panic| panicked(&*panic))? else {
            return Err(ProviderError::protocol("the answer ended before it was complete"));
        };
        let event = event?;
        self.assembler.push(&event)?;
        Ok(match event {
            ModelEvent::Finished(message) => ModelEvent::Finished(self.accept(message)?),
            event => event,
        })
    }

    /// Refuses an empty answer and names who gave a good one.
    fn accept(&self, mut message: AssistantMessage) -> Result<AssistantMessage, ProviderError> {
        // An answer that was cut, blocked or declined says so by its reason and may well be empty.
        let must_speak = matches!(
            message.stop_reason,
            StopReason::EndTurn | StopReason::ToolUse | StopReason::StopSequence | StopReason::Other
        );
        if must_speak && message.is_empty() {
            let reason = message.provider_stop_reason.as_deref().unwrap_or(message.stop_reason.as_str());
            return Err(ProviderError::protocol(format!("the answer is empty (stop reason `{reason}`)")));
        }
        let info = self.model.info();
        if message.provider.is_empty() {
            message.provider.clone_from(&info.provider);
        }
        if message.model.is_empty() {
            message.model.clone_from(&info.id);
        }
        for block in &mut message.content {
            if let ContentBlock::Thinking(thinking) = block
                && thinking.provider.is_empty()
            {
                thinking.provider.clone_from(&message.provider);
            }
        }
        Ok(message)
    }
}

/// A model's stream whose drop cannot unwind into the caller.
struct Contained(Option<ModelStream>);

impl Contained {
    async fn next(&mut self) -> Option<Result<ModelEvent, ProviderError>> {
        match &mut self.0 {
            Some(stream) => stream.next().await,
            None => None,
        }
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let stream = self.0.take();
        // The panic hook has reported it; there is no one left to tell.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(stream)));
    }
}

fn later(wait: Duration) -> Instant {
    let now = Instant::now();
    // A limit of centuries is no limit; 30 years are what tokio's timers take.
    now.checked_add(wait).unwrap_or(now + Duration::from_secs(30 * 365 * 86_400))
}

fn panicked(panic: &(dyn Any + Send)) -> ProviderError {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    ProviderError::protocol(format!("the model panicked: {text}"))
}

#[cfg(test)]
mod tests;
