//! What the types promise to a host: everything can cross threads, and every port can be a trait object.

use std::sync::Arc;

use nervekit_harness::{
    CompactionError, CompactionRequest, ContextEstimate, Credentials, EnvironmentCredentials, GiveUp,
    Harness, HeuristicTokens, HttpRequest, HttpResponse, Message, MessageAssembler, Messages, Model,
    ModelEvent, ModelInfo, ModelRegistry, ModelRequest, ModelResolver, ModelSelection, ModelStream,
    ProviderError, RecordModel, ResolveError, ResolvedModel, RetryModel, ScriptedModel, StandardHarness,
    ThinkingLevel, TokenEstimator, Transport, model_fn,
};
use static_assertions::{assert_impl_all, assert_obj_safe};

assert_obj_safe!(Credentials, Harness, Model, ModelResolver, TokenEstimator, Transport);

assert_impl_all!(Arc<dyn Harness>: Harness);
assert_impl_all!(Box<dyn Model>: Model);
assert_impl_all!(Arc<dyn ModelResolver>: ModelResolver);
assert_impl_all!(Box<dyn Transport>: Transport);
assert_impl_all!(Arc<dyn Credentials>: Credentials);
assert_impl_all!(Arc<dyn TokenEstimator>: TokenEstimator);

assert_impl_all!(Messages: Send, Sync, Clone);
assert_impl_all!(ModelRequest: Send, Sync, Clone);
assert_impl_all!(Message: Send, Sync, serde::Serialize, serde::de::DeserializeOwned);
assert_impl_all!(ModelEvent: Send, Sync, serde::Serialize, serde::de::DeserializeOwned);
assert_impl_all!(ModelInfo: Send, Sync, serde::Serialize, serde::de::DeserializeOwned);
assert_impl_all!(ModelSelection: Send, Sync, serde::Serialize, serde::de::DeserializeOwned);
assert_impl_all!(ProviderError: Send, Sync, std::error::Error);
assert_impl_all!(CompactionError: Send, Sync, std::error::Error);
assert_impl_all!(ResolveError: Send, Sync, std::error::Error);
assert_impl_all!(GiveUp: Send, Sync, std::error::Error);
assert_impl_all!(MessageAssembler: Send, Sync);
assert_impl_all!(HttpRequest: Send, Sync);
assert_impl_all!(HttpResponse: Send);
assert_impl_all!(RecordModel<RetryModel<ScriptedModel>>: Model, Clone);
assert_impl_all!(ResolvedModel: Send, Sync);

fn send<T: Send + 'static>(value: T) -> T {
    value
}

#[test]
fn streams_are_send_and_static() {
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new([]));
    let _: ModelStream = send(StandardHarness::new().turn(Arc::clone(&model), Arc::default()));
    let _: ModelStream = send(model.stream(Arc::default()));
    let function = model_fn(ModelInfo::new("p", "m"), |_| async { Err(ProviderError::protocol("no")) });
    let _: ModelStream = send(function.stream(Arc::default()));
}

#[test]
fn futures_are_send_and_static() {
    fn spawnable(future: impl Future + Send + 'static) {
        drop(future);
    }
    let harness: Arc<dyn Harness> = Arc::new(StandardHarness::new());
    let resolver: Arc<dyn ModelResolver> = Arc::new(ModelRegistry::new());
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new([]));
    spawnable(async move { harness.compact(model, CompactionRequest::new(Messages::new())).await });
    spawnable(async move {
        let selection = ModelSelection::new("a", "b");
        resolver.resolve(&selection, ThinkingLevel::Off).await
    });
    spawnable(async { EnvironmentCredentials.secret("NAME").await });
}

#[test]
fn an_error_fits_in_a_cache_line() {
    assert!(size_of::<ProviderError>() <= 64);
    assert!(size_of::<CompactionError>() <= 64);
    assert!(size_of::<ResolveError>() <= 64);
    assert!(size_of::<GiveUp>() <= 64);
}

#[test]
fn a_request_and_its_bytes_stay_out_of_debug() {
    use nervekit_harness::UserMessage;
    let request = ModelRequest::new(Messages::from_iter([UserMessage::text("the secret plan")]));
    assert!(!format!("{request:?}").contains("plan"));
    let estimate: ContextEstimate =
        StandardHarness::new().estimator(HeuristicTokens).context(&ModelInfo::new("p", "m"), &request);
    assert!(estimate.is_estimated());
}
