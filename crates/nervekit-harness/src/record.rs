//! A model that is overheard.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;

use crate::error::ProviderError;
use crate::event::ModelEvent;
use crate::model::{Model, ModelInfo, ModelStream};
use crate::request::ModelRequest;

/// A model whose requests and events are kept in memory. Clones share the record.
///
/// ```
/// use nervekit_harness::{RecordModel, ScriptedModel, ScriptedReply};
/// let model = RecordModel::new(ScriptedModel::new([ScriptedReply::text("hello")]));
/// assert!(model.exchanges().is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct RecordModel<M> {
    inner: Arc<M>,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

/// A request and what came of it so far, as [`RecordModel`] keeps it.
///
/// ```
/// use nervekit_harness::Exchange;
/// fn failed(exchange: &Exchange) -> bool {
///     exchange.events.last().is_some_and(Result::is_err)
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exchange {
    /// The request.
    pub request: Arc<ModelRequest>,
    /// The events that were taken from the stream.
    pub events: Vec<Result<ModelEvent, ProviderError>>,
}

impl<M: Model> RecordModel<M> {
    /// Wraps a model.
    #[must_use]
    pub fn new(inner: M) -> Self {
        Self { inner: Arc::new(inner), exchanges: Arc::default() }
    }

    /// Everything so far, in the order of the requests.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<M: Model> Model for RecordModel<M> {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn stream(&self, request: Arc<ModelRequest>) -> ModelStream {
        let exchanges = Arc::clone(&self.exchanges);
        let number = {
            let mut exchanges = exchanges.lock().unwrap_or_else(PoisonError::into_inner);
            exchanges.push(Exchange { request: Arc::clone(&request), events: Vec::new() });
            exchanges.len() - 1
        };
        self.inner
            .stream(request)
            .inspect(move |event| {
                let mut exchanges = exchanges.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(exchange) = exchanges.get_mut(number) {
                    exchange.events.push(event.clone());
                }
            })
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{ScriptedModel, ScriptedReply};

    #[tokio::test]
    async fn everything_is_kept_and_passed_on() {
        let model = RecordModel::new(ScriptedModel::new([ScriptedReply::text("hello")]));
        let events: Vec<_> = model.stream(Arc::default()).collect().await;
        let failed: Vec<_> = model.stream(Arc::default()).collect().await;
        let exchanges = model.exchanges();
        assert_eq!(exchanges.len(), 2);
        assert_eq!(exchanges[0].events, events);
        assert_eq!(exchanges[1].events, failed);
        assert!(failed[0].is_err());
    }
}
