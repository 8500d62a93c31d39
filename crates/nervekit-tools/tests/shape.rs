//! What can be spawned, shared and sent.

use nervekit_tools::{
    CallAssets, Cancellation, Capture, Catalog, MutationLocks, OutputBudget, Progress, Tool, ToolContext,
    ToolError, ToolOutcome, ToolOutput, catalog, testing,
};
use nervekit_types::{ConversationId, ToolCallId};

fn sendable<F: Future + Send>(_: F) {}

fn shareable<T: Send + Sync + 'static>() {}

#[tokio::test]
async fn every_future_can_be_spawned() {
    let context = ToolContext::new(ConversationId::from_key("c"), ToolCallId::from_key("t"));
    let assets = CallAssets::in_memory();
    let (_sender, capture) = Capture::start(assets.clone(), Progress::default());
    sendable(context.cancelled());
    sendable(context.blocking(|_| ()));
    sendable(Cancellation::default().cancelled());
    sendable(Progress::default().beyond(0));
    sendable(capture.keep());
    sendable(capture.finished());
    sendable(ToolOutput::text("x").settle(OutputBudget::default(), &assets));
    sendable(MutationLocks::process().acquire([]));
    sendable(testing::run(catalog::ask_user(), serde_json::json!({})));
}

#[test]
fn every_value_can_be_shared() {
    shareable::<Catalog>();
    shareable::<Tool>();
    shareable::<ToolContext>();
    shareable::<ToolError>();
    shareable::<ToolOutcome>();
    shareable::<Capture>();
}
