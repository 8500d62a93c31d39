//! A model without a network: a small planner that works on the given folder through the real tools.
//!
//! It is no canned story. What it says is computed from what the tools told it, so its facts (how many files, the
//! largest, every TODO) are true of that folder. It is there to try a host, not to be clever.

mod plan;
mod survey;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use nervekit_harness::{
    AssistantMessage, ContentBlock, Model, ModelEvent, ModelInfo, ModelRequest, ProviderError, Usage,
};

/// The demo model, known by the name `demo`.
///
/// ```
/// use nervekit::demo::DemoModel;
/// use nervekit::harness::Model;
/// assert_eq!(DemoModel::new().info().selection().to_string(), "demo/demo");
/// ```
#[derive(Clone, Debug)]
pub struct DemoModel {
    info: ModelInfo,
    pace: Duration,
}

impl Default for DemoModel {
    fn default() -> Self {
        Self::new()
    }
}

impl DemoModel {
    /// A model that answers at once.
    #[must_use]
    pub fn new() -> Self {
        Self { info: ModelInfo::new("demo", "demo").context_window(200_000), pace: Duration::ZERO }
    }

    /// Waits this long between words, so that a person sees them come.
    ///
    /// ```
    /// use nervekit::demo::DemoModel;
    /// let model = DemoModel::new().pace(std::time::Duration::from_millis(20));
    /// # let _ = model;
    /// ```
    #[must_use]
    pub const fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }
}

impl Model for DemoModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ModelRequest>) -> BoxStream<'static, Result<ModelEvent, ProviderError>> {
        let message = plan::answer(&request).from_model("demo", "demo").usage(usage(&request));
        let events = events(message);
        let pace = self.pace;
        if pace.is_zero() {
            return stream::iter(events.into_iter().map(Ok)).boxed();
        }
        stream::iter(events)
            .then(move |event| async move {
                tokio::time::sleep(pace).await;
                Ok(event)
            })
            .boxed()
    }
}

/// A rough count, as a provider would report it: four bytes to a token.
fn usage(request: &ModelRequest) -> Usage {
    let bytes: usize = request.messages.iter().map(|message| format!("{:?}", message.content()).len()).sum();
    Usage::new(bytes as u64 / 4, 0)
}

fn events(message: AssistantMessage) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    for (block, content) in message.content.iter().enumerate() {
        match content {
            ContentBlock::Text(text) => {
                let words = text.text.split_inclusive(' ');
                events.extend(words.map(|word| ModelEvent::TextDelta { block, delta: word.to_owned() }));
            }
            ContentBlock::ToolCall(call) => {
                events.push(ModelEvent::ToolCallStarted {
                    block,
                    id: call.id.clone(),
                    name: call.name.clone(),
                });
                events.push(ModelEvent::ToolCallFinished { block, call: call.clone() });
            }
            _ => {}
        }
    }
    events.push(ModelEvent::Finished(message));
    events
}
