//! The port through which the runtime uses models.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;

use crate::compaction::{Compaction, CompactionError, CompactionRequest};
use crate::estimate::{ContextEstimate, HeuristicTokens, TokenEstimator, request_tokens};
use crate::model::{Model, ModelInfo, ModelStream};
use crate::request::ModelRequest;

mod turn;

/// One model turn, the size of a context, and its compaction.
///
/// **Contract.** `turn` sends the request once: retries belong to the caller, who can make them durable. Its
/// stream gives exactly one [`Finished`](crate::ModelEvent::Finished) or one `Err`, as its last item, within
/// bounded time and without unwinding, whatever the model does; dropping it cancels the request. A finished
/// message is never empty. `context` is pure and quick. `compact` changes nothing: it returns what to
/// remember, or an error with the history as it was.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use nervekit_harness::{
///     Compaction, CompactionError, CompactionRequest, ContextEstimate, Harness, Model, ModelInfo,
///     ModelRequest, ModelStream, StandardHarness,
/// };
///
/// /// Counts every message as a hundred tokens, and leaves the rest to the standard.
/// #[derive(Debug, Default)]
/// struct Hundreds(StandardHarness);
///
/// #[async_trait]
/// impl Harness for Hundreds {
///     fn turn(&self, model: Arc<dyn Model>, request: Arc<ModelRequest>) -> ModelStream {
///         self.0.turn(model, request)
///     }
///
///     fn context(&self, model: &ModelInfo, request: &ModelRequest) -> ContextEstimate {
///         ContextEstimate::new(model.context_window, 0, 100 * request.messages.len() as u64)
///     }
///
///     async fn compact(
///         &self,
///         model: Arc<dyn Model>,
///         request: CompactionRequest,
///     ) -> Result<Compaction, CompactionError> {
///         self.0.compact(model, request).await
///     }
/// }
/// let empty = ModelRequest::default();
/// assert_eq!(Hundreds::default().context(&ModelInfo::new("p", "m"), &empty).tokens(), 0);
/// ```
#[async_trait]
pub trait Harness: Debug + Send + Sync + 'static {
    /// Sends a request once and watches over the answer.
    fn turn(&self, model: Arc<dyn Model>, request: Arc<ModelRequest>) -> ModelStream;

    /// How much of the model's window a request takes.
    ///
    /// The newest answer with a usage is the anchor. Answers kept by a compaction were counted with what is
    /// now gone: [`apply`](crate::compaction::apply) clears their usage, and so must whoever builds the
    /// messages another way.
    fn context(&self, model: &ModelInfo, request: &ModelRequest) -> ContextEstimate;

    /// Summarises the older part of a conversation.
    async fn compact(
        &self,
        model: Arc<dyn Model>,
        request: CompactionRequest,
    ) -> Result<Compaction, CompactionError>;
}

crate::port::forward!(#[async_trait] Harness {
    fn turn(&self, model: Arc<dyn Model>, request: Arc<ModelRequest>) -> ModelStream;
    fn context(&self, model: &ModelInfo, request: &ModelRequest) -> ContextEstimate;
    ; async fn compact(&self, model: Arc<dyn Model>, request: CompactionRequest) -> Result<Compaction, CompactionError>;
});

/// The harness that is used when none is given.
///
/// Its streams use tokio's timers: they must be polled inside a tokio runtime with time enabled.
///
/// ```
/// use std::sync::Arc;
/// use futures_util::StreamExt;
/// use nervekit_harness::{
///     Harness, Messages, ModelEvent, ModelRequest, ScriptedModel, ScriptedReply, StandardHarness, UserMessage,
/// };
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let model = Arc::new(ScriptedModel::new([ScriptedReply::text("hello")]));
/// let request = ModelRequest::new(Messages::from_iter([UserMessage::text("hi")]));
/// let mut events = StandardHarness::new().turn(model, Arc::new(request));
/// while let Some(event) = events.next().await {
///     if let ModelEvent::Finished(message) = event? {
///         assert_eq!(message.plain_text(), "hello");
///     }
/// }
/// # Ok::<(), nervekit_harness::ProviderError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct StandardHarness {
    estimator: Arc<dyn TokenEstimator>,
    limits: turn::Limits,
}

impl Default for StandardHarness {
    fn default() -> Self {
        Self::new()
    }
}

impl StandardHarness {
    /// A harness that gives up on an answer after 5 minutes without an event and after one hour in all, and
    /// estimates tokens by a rule of thumb.
    #[must_use]
    pub fn new() -> Self {
        Self {
            estimator: Arc::new(HeuristicTokens),
            limits: turn::Limits { idle: Duration::from_secs(300), total: Duration::from_secs(3_600) },
        }
    }

    /// Sets the longest silence: before the first event and between two of them.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.limits.idle = timeout;
        self
    }

    /// Sets the longest time of one answer.
    #[must_use]
    pub fn total_timeout(mut self, timeout: Duration) -> Self {
        self.limits.total = timeout;
        self
    }

    /// Sets how tokens are estimated.
    #[must_use]
    pub fn estimator(mut self, estimator: impl TokenEstimator) -> Self {
        self.estimator = Arc::new(estimator);
        self
    }
}

#[async_trait]
impl Harness for StandardHarness {
    fn turn(&self, model: Arc<dyn Model>, request: Arc<ModelRequest>) -> ModelStream {
        turn::watch(model, request, self.limits).boxed()
    }

    fn context(&self, model: &ModelInfo, request: &ModelRequest) -> ContextEstimate {
        request_tokens(&*self.estimator, model.context_window, request)
    }

    async fn compact(
        &self,
        model: Arc<dyn Model>,
        request: CompactionRequest,
    ) -> Result<Compaction, CompactionError> {
        crate::compaction::run(self, &*self.estimator, model, request).await
    }
}
