//! One model request: resources, hooks, the stream, and what is found out about the calls of its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::StreamExt as _;
use nervekit_harness::{
    AssistantMessage, Messages, ModelEvent, ModelInfo, ModelRequest, Origin, ProviderError, UserMessage,
};
use nervekit_permissions::PolicyDocument;
use nervekit_tools::Catalog;
use nervekit_types::{AssetId, ConversationId, TurnId};

use super::core::Inner;
use super::feed::{BlockKind, Feed};
use super::offer::{Offer, OfferTerms};
use super::propose::{Prepared, propose};
use super::supervisor::Panicked;
use crate::conversation::{ConversationConfig, ProjectRecord};
use crate::event::FailureReason;
use crate::port::{Hook as _, HookVerdict, Resources, TurnRequest};

/// What a request is made with: the turn's snapshot.
#[derive(Clone, Debug)]
pub(crate) struct TurnSnapshot {
    pub(crate) conversation_id: ConversationId,
    pub(crate) turn_id: TurnId,
    pub(crate) attempt: u32,
    pub(crate) config: Arc<ConversationConfig>,
    pub(crate) project: Arc<ProjectRecord>,
    pub(crate) messages: Messages,
    pub(crate) images: Arc<BTreeSet<AssetId>>,
    pub(crate) policy: Option<Arc<PolicyDocument>>,
    pub(crate) delegated: bool,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A message, and what was found out about its calls.
    Proposed(Box<Prepared>),
    /// The provider failed.
    Provider(ProviderError),
    /// It was not made, or its answer cannot be used.
    Failed {
        /// Why, as data.
        reason: FailureReason,
        /// Why, in words.
        message: String,
    },
}

impl Answer {
    /// A request that was not begun because the runtime shuts down.
    pub(crate) fn shutting_down() -> Self {
        Self::failed(FailureReason::Resources, "the runtime is shutting down")
    }

    /// A request that ended in a panic of the host's code.
    pub(crate) fn panicked(panic: &Panicked) -> Self {
        Self::failed(FailureReason::Resources, format!("the request failed for an internal reason: {panic}"))
    }

    pub(crate) fn failed(reason: FailureReason, message: impl Into<String>) -> Self {
        Self::Failed { reason, message: message.into() }
    }
}

/// Makes a request and follows it to its end. Dropping the future closes the connection.
pub(crate) async fn request(core: Arc<Inner>, feed: Arc<Feed>, turn: TurnSnapshot) -> Answer {
    let started = core.instant();
    let model = match core.models.resolve(&turn.config.model, turn.config.thinking).await {
        Ok(model) => model,
        Err(error) => return Answer::failed(FailureReason::Resources, error.to_string()),
    };
    let info = model.model.info();
    let catalog = core.tools.tools();
    let resources = match resources(&core, &turn, &catalog).await {
        Ok(resources) => resources,
        Err(message) => return Answer::failed(FailureReason::Resources, message),
    };
    let offer = core.offer(&catalog, OfferTerms::of(&turn, &resources, info));
    let mut request = build(&turn, &resources, &offer, info).thinking(model.thinking);
    match images(&core, &turn.images).await {
        Ok(assets) => request = request.assets(Arc::new(assets)),
        Err(message) => return Answer::failed(FailureReason::Resources, message),
    }
    match ask_hooks(&core, turn.conversation_id, &request).await {
        Ok(None) => {}
        Ok(Some(note)) => request.messages.push(UserMessage::text(note).origin(Origin::Runtime)),
        Err(words) => return Answer::failed(FailureReason::Refused, words),
    }
    let message = match stream(&core, &feed, &turn, model.model.clone(), request).await {
        Ok(message) => message,
        Err(error) => return Answer::Provider(error),
    };
    for hook in &core.hooks {
        core.observe("after_model_response", hook.after_model_response(turn.conversation_id, &message)).await;
    }
    let elapsed = core.instant().duration_since(started);
    Answer::Proposed(Box::new(propose(&core, &turn, &offer.tools, message, elapsed, cost(info)).await))
}

/// What a message costs, in millionths of a US dollar, where prices are known.
fn cost(info: &ModelInfo) -> impl Fn(&AssistantMessage) -> u64 {
    let prices = info.prices;
    move |message| {
        let dollars = prices.map_or(0.0, |prices| prices.cost(&message.usage));
        micros(dollars)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the float is clamped to what the integer holds, and NaN becomes 0"
)]
fn micros(dollars: f64) -> u64 {
    (dollars * 1e6).round().clamp(0.0, 1e18) as u64
}

async fn resources(core: &Inner, turn: &TurnSnapshot, catalog: &Catalog) -> Result<Resources, String> {
    let names = catalog.iter().map(|tool| tool.definition().name().to_owned()).collect();
    let request =
        TurnRequest::new(turn.conversation_id, turn.turn_id, turn.config.clone(), turn.project.clone())
            .tools(names);
    let resolved = super::supervisor::guard(core.resources.resolve(&request)).await;
    match resolved {
        Ok(Ok(resources)) => Ok(resources),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("the turn's resources could not be resolved: {panic}")),
    }
}

fn build(turn: &TurnSnapshot, resources: &Resources, offer: &Offer, info: &ModelInfo) -> ModelRequest {
    let mut system = turn.config.system_prompt.clone().unwrap_or_else(|| resources.system_prompt.clone());
    system.push_str(&offer.guidelines);
    let messages = if resources.context.is_empty() {
        turn.messages.clone()
    } else {
        let mut messages = Messages::new();
        for (label, text) in &resources.context {
            let text = format!("Context from {label}:\n\n{text}");
            messages.push(UserMessage::text(text).origin(Origin::Runtime));
        }
        messages.extend(turn.messages.shared().cloned());
        messages
    };
    let mut request = ModelRequest::new(messages).tools(offer.specs.clone());
    if !system.is_empty() {
        request = request.system(system);
    }
    if info.max_output == 0 { request } else { request.max_output(info.max_output) }
}

/// The bytes of the images that the messages name. They are inlined only while a request is built.
async fn images(core: &Inner, named: &BTreeSet<AssetId>) -> Result<BTreeMap<AssetId, bytes::Bytes>, String> {
    let mut assets = BTreeMap::new();
    for id in named {
        let bytes = core.assets.read(*id, 0..u64::MAX).await;
        assets.insert(*id, bytes.map_err(|error| format!("an image cannot be read: {error}"))?);
    }
    Ok(assets)
}

/// Asks the hooks; the first refusal wins. A note of the last one that adds one is added.
async fn ask_hooks(
    core: &Inner,
    conversation_id: ConversationId,
    request: &ModelRequest,
) -> Result<Option<String>, String> {
    let mut note = None;
    for hook in &core.hooks {
        match core.ask("before_model_request", hook.before_model_request(conversation_id, request)).await {
            HookVerdict::Continue => {}
            HookVerdict::Deny(words) => return Err(words),
            HookVerdict::Replace(value) => {
                note = Some(value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned));
            }
        }
    }
    Ok(note)
}

async fn stream(
    core: &Inner,
    feed: &Feed,
    turn: &TurnSnapshot,
    model: Arc<dyn nervekit_harness::Model>,
    request: ModelRequest,
) -> Result<AssistantMessage, ProviderError> {
    feed.begin_attempt(turn.turn_id, turn.attempt);
    let mut events = core.harness.turn(model, Arc::new(request));
    while let Some(event) = events.next().await {
        match event? {
            ModelEvent::TextDelta { block, delta } => feed.push(turn, BlockKind::Text, block, &delta),
            ModelEvent::ThinkingDelta { block, delta } => feed.push(turn, BlockKind::Thinking, block, &delta),
            ModelEvent::Finished(message) => return Ok(message),
            _ => {}
        }
    }
    Err(ProviderError::protocol("the stream ended without an answer"))
}
