//! A model made of one async function.

use std::fmt;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};

use crate::error::ProviderError;
use crate::event::ModelEvent;
use crate::message::AssistantMessage;
use crate::model::{Model, ModelInfo, ModelStream};
use crate::request::ModelRequest;

/// Makes a model of an async function that gives the whole answer at once: a gateway of one's own.
///
/// ```
/// use std::sync::Arc;
/// use nervekit_harness::{AssistantMessage, Model, ModelInfo, ModelRequest, model_fn};
///
/// let echo = model_fn(ModelInfo::new("local", "echo"), |request: Arc<ModelRequest>| async move {
///     Ok(AssistantMessage::text(format!("{} messages", request.messages.len())))
/// });
/// assert_eq!(echo.info().id, "echo");
/// ```
#[must_use]
pub fn model_fn<F, Fut>(info: ModelInfo, call: F) -> impl Model
where
    F: Fn(Arc<ModelRequest>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<AssistantMessage, ProviderError>> + Send + 'static,
{
    FunctionModel { info, call: Arc::new(call) }
}

struct FunctionModel<F> {
    info: ModelInfo,
    call: Arc<F>,
}

impl<F, Fut> Model for FunctionModel<F>
where
    F: Fn(Arc<ModelRequest>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<AssistantMessage, ProviderError>> + Send + 'static,
{
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: Arc<ModelRequest>) -> ModelStream {
        let call = Arc::clone(&self.call);
        stream::once(async move { call(request).await.map(ModelEvent::Finished) }).boxed()
    }
}

impl<F> fmt::Debug for FunctionModel<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionModel").field("info", &self.info).finish_non_exhaustive()
    }
}
