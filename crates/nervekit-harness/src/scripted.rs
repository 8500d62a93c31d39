//! A model that plays a script.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use crate::error::{ProviderError, ProviderErrorKind};
use crate::event::ModelEvent;
use crate::message::{AssistantMessage, ContentBlock, StopReason, Text, Thinking, ToolCall, Usage};
use crate::model::{Model, ModelInfo, ModelStream, ThinkingLevel};
use crate::request::ModelRequest;

/// A model that plays a script of answers and remembers what it was asked; for tests and demos.
///
/// It is `demo/scripted` unless told otherwise. Clones share the script and the memory. When the script is
/// at its end, a request fails with an [`InvalidRequest`](ProviderErrorKind::InvalidRequest) error.
///
/// ```
/// use nervekit_harness::{ModelRequest, ScriptedModel, ScriptedReply};
/// use serde_json::json;
///
/// let fixed = ScriptedModel::new([
///     ScriptedReply::text("let me look").call("read", json!({"path": "a.txt"})),
///     ScriptedReply::text("it says hello"),
/// ]);
/// assert_eq!(fixed.remaining(), 2);
///
/// let computed = ScriptedModel::from_fn(|request: &ModelRequest| {
///     ScriptedReply::text(format!("{} messages", request.messages.len()))
/// });
/// assert!(computed.requests().is_empty());
/// ```
#[derive(Clone)]
pub struct ScriptedModel {
    info: ModelInfo,
    shared: Arc<Shared>,
}

struct Shared {
    script: Script,
    requests: Mutex<Vec<Arc<ModelRequest>>>,
    calls: AtomicU64,
}

enum Script {
    Fixed(Mutex<VecDeque<ScriptedReply>>),
    Computed(Box<dyn Fn(&ModelRequest) -> ScriptedReply + Send + Sync>),
}

impl ScriptedModel {
    /// Plays these answers, one a request.
    #[must_use]
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::play(Script::Fixed(Mutex::new(replies.into_iter().collect())))
    }

    /// Computes each answer from the request.
    #[must_use]
    pub fn from_fn(reply: impl Fn(&ModelRequest) -> ScriptedReply + Send + Sync + 'static) -> Self {
        Self::play(Script::Computed(Box::new(reply)))
    }

    fn play(script: Script) -> Self {
        let info = ModelInfo::new("demo", "scripted").images(true).thinking(ThinkingLevel::ALL);
        let shared = Shared { script, requests: Mutex::default(), calls: AtomicU64::new(0) };
        Self { info, shared: Arc::new(shared) }
    }

    /// Sets what the model claims to be.
    #[must_use]
    pub fn with_info(mut self, info: ModelInfo) -> Self {
        self.info = info;
        self
    }

    /// The requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<ModelRequest>> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many answers of a fixed script have not been played.
    #[must_use]
    pub fn remaining(&self) -> usize {
        match &self.shared.script {
            Script::Fixed(replies) => replies.lock().unwrap_or_else(PoisonError::into_inner).len(),
            Script::Computed(_) => 0,
        }
    }
}

impl Shared {
    fn reply(&self, request: &Arc<ModelRequest>) -> ScriptedReply {
        let number = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.push(Arc::clone(request));
            requests.len()
        };
        match &self.script {
            Script::Computed(reply) => reply(request),
            Script::Fixed(replies) => {
                let next = replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                next.unwrap_or_else(|| {
                    let message = format!("the script has no answer to request number {number}");
                    ScriptedReply::fails(ProviderError::new(ProviderErrorKind::InvalidRequest, message))
                })
            }
        }
    }
}

impl Model for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ModelRequest>) -> ModelStream {
        let shared = Arc::clone(&self.shared);
        stream::once(async move {
            let beats = shared.reply(&request).beats(&shared.calls);
            stream::unfold(beats.into_iter(), |mut beats| async {
                loop {
                    match beats.next()? {
                        Beat::Give(event) => return Some((event, beats)),
                        Beat::Wait(time) => tokio::time::sleep(time).await,
                        Beat::Hang => std::future::pending().await,
                        #[expect(clippy::panic, reason = "the script asks for it")]
                        Beat::Panic(message) => panic!("{message}"),
                    }
                }
            })
        })
        .flatten()
        .boxed()
    }
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel").field("info", &self.info).finish_non_exhaustive()
    }
}

/// One answer of a [`ScriptedModel`]: steps in order, then an end.
///
/// ```
/// use nervekit_harness::{ProviderError, ProviderErrorKind, ScriptedReply};
/// use serde_json::json;
/// use std::time::Duration;
///
/// let busy = ProviderError::new(ProviderErrorKind::Overloaded, "try later");
/// let replies = [
///     ScriptedReply::new().thinking("hm").deltas(["hel", "lo"]),
///     ScriptedReply::call_tool("read", json!({"path": "a.txt"})).delay(Duration::from_secs(1)),
///     ScriptedReply::fails(busy),
///     ScriptedReply::text("half an ans").then_cut(),
///     ScriptedReply::new().then_panics("boom"),
///     ScriptedReply::new().then_hangs(),
/// ];
/// # let _ = replies;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ScriptedReply {
    steps: Vec<Step>,
    end: End,
    stop_reason: Option<StopReason>,
    usage: Usage,
}

#[derive(Clone, Debug)]
enum Step {
    Text(Vec<String>),
    Thinking(String),
    Call { id: Option<String>, name: String, arguments: String },
    Delay(Duration),
}

#[derive(Clone, Debug, Default)]
enum End {
    #[default]
    Finish,
    Fail(ProviderError),
    Cut,
    Panic(String),
    Hang,
}

/// What the stream does next.
enum Beat {
    Give(Result<ModelEvent, ProviderError>),
    Wait(Duration),
    Panic(String),
    Hang,
}

impl ScriptedReply {
    /// An answer without content yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An answer of one text in one delta.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().deltas([text])
    }

    /// An answer of one tool call.
    pub fn call_tool(name: impl Into<String>, arguments: impl Into<Value>) -> Self {
        Self::new().call(name, arguments)
    }

    /// An error in place of an answer.
    pub fn fails(error: ProviderError) -> Self {
        Self::new().then_fails(error)
    }

    /// Adds a text block that comes in these deltas.
    pub fn deltas<T: Into<String>>(self, deltas: impl IntoIterator<Item = T>) -> Self {
        self.step(Step::Text(deltas.into_iter().map(Into::into).collect()))
    }

    /// Adds a thinking block.
    pub fn thinking(self, text: impl Into<String>) -> Self {
        self.step(Step::Thinking(text.into()))
    }

    /// Adds a tool call. Its id is `call_1`, `call_2` and so on over the life of the model.
    pub fn call(self, name: impl Into<String>, arguments: impl Into<Value>) -> Self {
        self.step(Step::Call { id: None, name: name.into(), arguments: arguments.into().to_string() })
    }

    /// Adds a tool call with this id and this argument text, which may be broken.
    pub fn raw_call(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        self.step(Step::Call { id: Some(id.into()), name: name.into(), arguments: arguments.into() })
    }

    /// Waits before what follows.
    pub fn delay(self, time: Duration) -> Self {
        self.step(Step::Delay(time))
    }

    /// Sets the usage.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the stop reason, in place of the one that follows from the content.
    pub fn stop_reason(mut self, reason: StopReason) -> Self {
        self.stop_reason = Some(reason);
        self
    }

    /// Ends with an error.
    pub fn then_fails(self, error: ProviderError) -> Self {
        self.then(End::Fail(error))
    }

    /// Ends without a last event, as a cut connection does.
    pub fn then_cut(self) -> Self {
        self.then(End::Cut)
    }

    /// Ends with a panic.
    pub fn then_panics(self, message: impl Into<String>) -> Self {
        self.then(End::Panic(message.into()))
    }

    /// Never ends.
    pub fn then_hangs(self) -> Self {
        self.then(End::Hang)
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn then(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    fn beats(self, calls: &AtomicU64) -> Vec<Beat> {
        let mut beats = Vec::new();
        let mut content: Vec<ContentBlock> = Vec::new();
        let give = |beats: &mut Vec<Beat>, event| beats.push(Beat::Give(Ok(event)));
        for step in self.steps {
            let block = content.len();
            match step {
                Step::Delay(time) => beats.push(Beat::Wait(time)),
                Step::Text(deltas) => {
                    content.push(Text::new(deltas.concat()).into());
                    for delta in deltas {
                        give(&mut beats, ModelEvent::TextDelta { block, delta });
                    }
                }
                Step::Thinking(text) => {
                    content.push(Thinking::new("", &*text).into());
                    give(&mut beats, ModelEvent::ThinkingDelta { block, delta: text });
                }
                Step::Call { id, name, arguments } => {
                    let number = calls.fetch_add(1, Ordering::Relaxed) + 1;
                    let id = id.unwrap_or_else(|| format!("call_{number}"));
                    let call = ToolCall::parse(&*id, &*name, &arguments);
                    content.push(call.clone().into());
                    give(&mut beats, ModelEvent::ToolCallStarted { block, id, name });
                    give(&mut beats, ModelEvent::ToolArgumentsDelta { block, delta: arguments });
                    give(&mut beats, ModelEvent::ToolCallFinished { block, call });
                }
            }
        }
        match self.end {
            End::Finish => {
                let mut message = AssistantMessage::new(content).usage(self.usage);
                if let Some(reason) = self.stop_reason {
                    message = message.stop_reason(reason);
                }
                beats.push(Beat::Give(Ok(ModelEvent::Usage(self.usage))));
                beats.push(Beat::Give(Ok(ModelEvent::Finished(message))));
            }
            End::Fail(error) => beats.push(Beat::Give(Err(error))),
            End::Cut => {}
            End::Panic(message) => beats.push(Beat::Panic(message)),
            End::Hang => beats.push(Beat::Hang),
        }
        beats
    }
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt as _;
    use serde_json::json;

    use super::*;
    use crate::assembler::MessageAssembler;
    use crate::message::{Messages, UserMessage};

    async fn answer(model: &ScriptedModel, request: ModelRequest) -> Result<AssistantMessage, ProviderError> {
        let mut assembler = MessageAssembler::new();
        let events: Vec<_> = model.stream(Arc::new(request)).try_collect().await?;
        events.iter().try_for_each(|event| assembler.push(event))?;
        assembler.finish()
    }

    #[tokio::test]
    async fn ids_of_calls_never_repeat() {
        let reply = ScriptedReply::call_tool("a", json!({})).call("b", json!({}));
        let model = ScriptedModel::new([reply.clone(), reply]);
        let mut ids = Vec::new();
        for _ in 0..2 {
            let message = answer(&model.clone(), ModelRequest::default()).await.unwrap();
            ids.extend(message.tool_calls().map(|call| call.id.clone()));
        }
        assert_eq!(ids, ["call_1", "call_2", "call_3", "call_4"]);
    }

    #[tokio::test]
    async fn a_script_that_is_over_says_so() {
        let model = ScriptedModel::new([ScriptedReply::text("one")]);
        answer(&model, ModelRequest::default()).await.unwrap();
        let error = answer(&model, ModelRequest::default()).await.unwrap_err();
        assert_eq!(error.message(), "the script has no answer to request number 2");
        assert_eq!(model.requests().len(), 2);
    }

    #[tokio::test]
    async fn an_answer_can_follow_from_the_request() {
        let model = ScriptedModel::from_fn(|request| ScriptedReply::text(request.messages.len().to_string()));
        let request =
            ModelRequest::new(Messages::from_iter([UserMessage::text("a"), UserMessage::text("b")]));
        assert_eq!(answer(&model, request).await.unwrap().plain_text(), "2");
    }

    #[test]
    fn a_request_that_is_never_polled_is_not_asked() {
        let model = ScriptedModel::new([ScriptedReply::text("one")]);
        drop(model.stream(Arc::default()));
        assert_eq!((model.remaining(), model.requests().len()), (1, 0));
    }
}
