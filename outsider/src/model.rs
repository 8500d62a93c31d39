//! Models and what they need.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use nervekit_harness::{
    AssistantMessage, Compaction, CompactionError, CompactionRequest, ContextEstimate, Credentials, Harness,
    HttpRequest, HttpResponse, Message, Model, ModelEvent, ModelInfo, ModelRequest, ModelResolver,
    ModelSelection, ModelStream, ProviderError, ResolveError, ResolvedModel, StandardHarness, ThinkingLevel,
    TokenEstimator, Transport,
};
use nervekit_types::Secret;

/// Says the last message backwards, in one piece.
#[derive(Debug)]
pub struct Reverse(ModelInfo);

impl Default for Reverse {
    fn default() -> Self {
        Self(ModelInfo::new("outside", "reverse"))
    }
}

impl Model for Reverse {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, request: Arc<ModelRequest>) -> ModelStream {
        let text = request.messages.last().map(plain_text).unwrap_or_default();
        let answer: String = text.chars().rev().collect();
        let events = [
            ModelEvent::TextDelta { block: 0, delta: answer.clone() },
            ModelEvent::Finished(AssistantMessage::text(answer)),
        ];
        stream::iter(events.map(Ok)).boxed()
    }
}

fn plain_text(message: &Message) -> String {
    let texts = message.content().iter().filter_map(|block| match block {
        nervekit_harness::ContentBlock::Text(text) => Some(&*text.text),
        _ => None,
    });
    texts.collect()
}

/// Resolves its one model by its name.
#[derive(Debug)]
pub struct AnyModel(Arc<dyn Model>);

impl AnyModel {
    /// Offers this model.
    #[must_use]
    pub fn new(model: impl Model) -> Self {
        Self(Arc::new(model))
    }
}

#[async_trait]
impl ModelResolver for AnyModel {
    async fn resolve(
        &self,
        selection: &ModelSelection,
        thinking: ThinkingLevel,
    ) -> Result<ResolvedModel, ResolveError> {
        let known = self.0.info().selection();
        if *selection == known {
            return Ok(ResolvedModel::new(Arc::clone(&self.0), thinking));
        }
        Err(ResolveError::unknown_model(selection.clone(), [known]))
    }
}

/// Never summarises: a conversation ends where the window does.
#[derive(Debug, Default)]
pub struct Forgetful(StandardHarness);

#[async_trait]
impl Harness for Forgetful {
    fn turn(&self, model: Arc<dyn Model>, request: Arc<ModelRequest>) -> ModelStream {
        self.0.turn(model, request)
    }

    fn context(&self, model: &ModelInfo, request: &ModelRequest) -> ContextEstimate {
        let texts = request.messages.iter().map(|message| Words.tokens(&plain_text(message)));
        ContextEstimate::new(model.context_window, 0, texts.sum())
    }

    async fn compact(
        &self,
        _model: Arc<dyn Model>,
        _request: CompactionRequest,
    ) -> Result<Compaction, CompactionError> {
        Err(CompactionError::NothingToCompact)
    }
}

/// Takes a word for a token.
#[derive(Debug)]
pub struct Words;

impl TokenEstimator for Words {
    fn tokens(&self, text: &str) -> u64 {
        text.split_whitespace().count().try_into().unwrap_or(u64::MAX)
    }
}

/// Knows no secret.
#[derive(Debug)]
pub struct NoSecrets;

#[async_trait]
impl Credentials for NoSecrets {
    async fn secret(&self, _name: &str) -> Result<Option<Secret>, ProviderError> {
        Ok(None)
    }
}

/// Answers every request with the same bytes.
#[derive(Debug)]
pub struct Canned(Bytes);

impl Canned {
    /// Answers with these bytes.
    #[must_use]
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self(body.into())
    }
}

#[async_trait]
impl Transport for Canned {
    async fn send(&self, _request: HttpRequest) -> Result<HttpResponse, ProviderError> {
        let body = self.0.clone();
        Ok(HttpResponse::new(200, stream::once(async { Ok(body) }).boxed()))
    }
}
