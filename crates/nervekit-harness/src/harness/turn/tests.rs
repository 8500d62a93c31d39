use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::*;
use crate::function::model_fn;
use crate::message::{Thinking, ToolCall};
use crate::model::ModelInfo;
use crate::scripted::{ScriptedModel, ScriptedReply};

const LIMITS: Limits = Limits { idle: Duration::from_secs(10), total: Duration::from_secs(60) };

type Item = Result<ModelEvent, ProviderError>;

async fn turn(model: impl Model) -> Vec<Item> {
    watch(Arc::new(model), Arc::default(), LIMITS).collect().await
}

async fn reply(reply: ScriptedReply) -> Vec<Item> {
    turn(ScriptedModel::new([reply])).await
}

/// The one terminal item, which must be the last.
fn end(items: &[Item]) -> &Item {
    let ends = items.iter().filter(|item| item.as_ref().map_or(true, ModelEvent::is_last)).count();
    assert_eq!(ends, 1, "{items:?}");
    items.last().unwrap()
}

fn error(items: &[Item]) -> &ProviderError {
    end(items).as_ref().unwrap_err()
}

fn message(items: &[Item]) -> &AssistantMessage {
    match end(items) {
        Ok(ModelEvent::Finished(message)) => message,
        other => panic!("{other:?}"),
    }
}

/// Any stream as a model.
struct Raw<F>(ModelInfo, F);

impl<F> std::fmt::Debug for Raw<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Raw")
    }
}

impl<F: Fn() -> ModelStream + Send + Sync + 'static> Model for Raw<F> {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, _: Arc<ModelRequest>) -> ModelStream {
        (self.1)()
    }
}

fn raw(
    stream: impl Fn() -> ModelStream + Send + Sync + 'static,
) -> Raw<impl Fn() -> ModelStream + Send + Sync> {
    Raw(ModelInfo::new("p", "m"), stream)
}

#[expect(clippy::unnecessary_wraps, reason = "an item of a stream")]
fn text(delta: &str) -> Item {
    Ok(ModelEvent::TextDelta { block: 0, delta: delta.into() })
}

#[tokio::test(start_paused = true)]
async fn a_good_answer_passes_unchanged_and_is_named() {
    let items = reply(
        ScriptedReply::new()
            .thinking("hm")
            .deltas(["he", "llo"])
            .call("read", json!({"path": "a"}))
            .delay(LIMITS.idle / 2),
    )
    .await;
    let kinds: Vec<_> = items.iter().map(|item| item.as_ref().unwrap().kind()).collect();
    assert_eq!(
        kinds,
        [
            "thinking_delta",
            "text_delta",
            "text_delta",
            "tool_call_started",
            "tool_arguments_delta",
            "tool_call_finished",
            "usage",
            "finished"
        ]
    );
    let message = message(&items);
    assert_eq!((&*message.provider, &*message.model), ("demo", "scripted"));
    assert_eq!(message.content[0], Thinking::new("demo", "hm").into());
    assert_eq!(message.content[2], ToolCall::new("call_1", "read", json!({"path": "a"})).into());
    assert_eq!(message.stop_reason, StopReason::ToolUse);
}

#[tokio::test]
async fn case_50_a_cut_stream_is_an_error() {
    let items = reply(ScriptedReply::text("half an ans").then_cut()).await;
    assert_eq!(error(&items).kind(), ProviderErrorKind::Protocol);
    assert!(error(&items).after_content());
    let items = reply(ScriptedReply::new().then_cut()).await;
    assert!(!error(&items).after_content());
}

#[tokio::test]
async fn case_44_an_empty_answer_is_an_error() {
    for empty in [
        ScriptedReply::new(),
        ScriptedReply::text(""),
        ScriptedReply::text(" \n"),
        ScriptedReply::text("\u{200B}"),
        ScriptedReply::new().thinking("only thoughts"),
        ScriptedReply::new().stop_reason(StopReason::Other),
    ] {
        let items = reply(empty).await;
        assert!(error(&items).message().contains("empty"), "{items:?}");
    }
    for reason in [StopReason::MaxTokens, StopReason::Refusal, StopReason::ContentFilter, StopReason::Paused]
    {
        let items = reply(ScriptedReply::new().stop_reason(reason)).await;
        assert_eq!(message(&items).stop_reason, reason);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_ends_an_answer() {
    let start = Instant::now();
    let items = reply(ScriptedReply::text("half").then_hangs()).await;
    assert_eq!(error(&items).kind(), ProviderErrorKind::Timeout);
    assert!(error(&items).message().starts_with("no event came"));
    assert_eq!(start.elapsed(), LIMITS.idle);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_trickles_for_ever_ends_too() {
    let start = Instant::now();
    let endless = raw(|| {
        stream::repeat(())
            .then(|()| async {
                tokio::time::sleep(Duration::from_secs(7)).await;
                text("x")
            })
            .boxed()
    });
    let items = turn(endless).await;
    assert_eq!(error(&items).kind(), ProviderErrorKind::Timeout);
    assert_eq!(items.len(), 9);
    assert_eq!(start.elapsed(), LIMITS.total);
}

#[tokio::test]
async fn limits_of_centuries_do_not_overflow() {
    let limits = Limits { idle: Duration::MAX, total: Duration::MAX };
    let model = Arc::new(ScriptedModel::new([ScriptedReply::text("hi")]));
    let items: Vec<_> = watch(model, Arc::default(), limits).collect().await;
    assert_eq!(message(&items).plain_text(), "hi");
}

#[tokio::test]
async fn a_panic_becomes_an_error() {
    let items = reply(ScriptedReply::text("half").then_panics("boom")).await;
    assert_eq!(error(&items).message(), "the model panicked: boom");

    let items = turn(raw(|| panic!("at {}", "once"))).await;
    assert_eq!(error(&items).message(), "the model panicked: at once");

    let items = turn(model_fn(ModelInfo::new("p", "m"), |_| async { panic!("inside") })).await;
    assert_eq!(error(&items).message(), "the model panicked: inside");
}

#[tokio::test]
async fn a_panic_on_drop_stays_inside() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let armed = raw(|| {
        let bomb = Bomb;
        stream::iter([text("hi"), Ok(ModelEvent::Finished(AssistantMessage::text("hi")))])
            .inspect(move |_| {
                let _ = &bomb;
            })
            .boxed()
    });
    let mut items = Box::pin(watch(Arc::new(armed), Arc::default(), LIMITS));
    assert_eq!(items.next().await, Some(text("hi")));
    drop(items);
}

#[tokio::test]
async fn nothing_follows_the_end() {
    let finished = || Ok(ModelEvent::Finished(AssistantMessage::text("hi")));
    let refused = || Err(ProviderError::protocol("no"));
    for items in [
        vec![finished(), finished()],
        vec![finished(), refused()],
        vec![refused(), finished()],
        vec![text("hi"), finished(), text("more")],
    ] {
        let items = std::sync::Mutex::new(items);
        let model = raw(move || stream::iter(std::mem::take(&mut *items.lock().unwrap())).boxed());
        end(&turn(model).await);
    }
}

#[tokio::test]
async fn a_message_that_contradicts_its_deltas_is_an_error() {
    let model =
        raw(|| stream::iter([text("one"), Ok(ModelEvent::Finished(AssistantMessage::text("two")))]).boxed());
    assert_eq!(error(&turn(model).await).kind(), ProviderErrorKind::Protocol);
}

#[tokio::test]
async fn dropping_the_stream_drops_the_request() {
    let alive = Arc::new(());
    let witness = Arc::clone(&alive);
    let model = raw(move || {
        let witness = Arc::clone(&witness);
        stream::iter([text("hi")])
            .chain(stream::pending())
            .inspect(move |_| {
                let _ = &witness;
            })
            .boxed()
    });
    let mut items = Box::pin(watch(Arc::new(model), Arc::default(), LIMITS));
    assert_eq!(items.next().await, Some(text("hi")));
    // Ours, the model's, the stream's.
    assert_eq!(Arc::strong_count(&alive), 3);
    drop(items);
    assert_eq!(Arc::strong_count(&alive), 1);
}
