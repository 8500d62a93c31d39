//! The hosts, run: over `Parrot`, and over a core that is made of nothing but the ports of this package.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use futures_util::StreamExt as _;
use nervekit_conversation_core::{
    CommandOutcome, Conversation, ConversationConfig, Conversations, Cursor, InputFate, NewInput, NewProject,
    Page, Project, Scope, Update,
};
use nervekit_types::{ConversationId, InputId, Principal};
use outsider::{Census, Parrot, Shelf, host};

async fn conversation(api: Arc<dyn Conversations>) -> Conversation {
    let project = Project::create(api, NewProject::new("test")).await.unwrap();
    project.converse(ConversationConfig::new("outside/parrot".parse().unwrap())).await.unwrap()
}

#[tokio::test]
async fn quickstart_ends_with_the_answer() {
    let api = Arc::new(Parrot::default());
    let text = host::quickstart(api.clone(), "outside/parrot".parse().unwrap(), |_| {}).await.unwrap();
    assert_eq!(text, "Which TODOs are left in this folder?");
    assert_eq!(host::one_line(&conversation(api).await).await.unwrap(), text);
}

#[tokio::test]
async fn the_web_service_serves_the_whole_api_as_one_route() {
    let api: Arc<dyn Conversations> = Arc::new(Parrot::default());
    let alice = Principal::person("alice");
    let id = conversation(api.clone()).await.id();
    let pause = serde_json::json!({"id": nervekit_types::CommandId::from_key("click"),
        "command": {"command": "pause", "conversation_id": id}});
    let (status, body) = host::route(&*api, alice.clone(), pause.to_string().as_bytes()).await;
    assert_eq!((status, String::from_utf8_lossy(&body).contains("paused")), (200, true));
    let query = serde_json::json!({"query": "snapshot", "conversation_id": ConversationId::from_key("none")});
    assert_eq!(host::route(&*api, alice.clone(), query.to_string().as_bytes()).await.0, 404);
    assert_eq!(host::route(&*api, alice, b"{}").await.0, 400);

    let accepted = host::submit(api.clone(), id, "8f2", "hello").await.unwrap();
    let again = host::submit(api.clone(), id, "8f2", "hello").await.unwrap();
    assert_eq!(accepted.outcome, again.outcome);
    assert_eq!(host::submit(api.clone(), id, "8f2", "other").await.unwrap_err().http_status(), 409);
    assert!(host::inbox(&*api).await.unwrap().is_empty());
    let digest = nervekit_types::Digest::of("shown");
    let gone = nervekit_types::InteractionId::from_key("gone");
    assert_eq!(host::approve(api.clone(), "alice", id, gone, digest).await.unwrap_err().0, 404);

    Conversation::new(api.clone(), id).resume().await.unwrap();
    let all: Vec<String> =
        host::server_sent_events(api.clone(), id, None).await.unwrap().take(5).collect().await;
    assert!(all[0].starts_with("id: 1\nevent: event\ndata: {"), "{}", all[0]);
    assert!(all[4].starts_with("event: finished\n"), "{}", all[4]);
    let rest: Vec<String> =
        host::server_sent_events(api, id, Some("3")).await.unwrap().take(2).collect().await;
    assert_eq!(rest, all[3..]);
}

#[tokio::test]
async fn the_ci_bot_has_an_exit_code() {
    let model = "outside/parrot".parse().unwrap();
    let (json, code) = host::ci_bot(Arc::new(Parrot::default()), model, "check").await.unwrap();
    assert_eq!(code, 0);
    assert!(json.contains(r#""ending":"completed","text":"check""#), "{json}");
}

#[tokio::test]
async fn a_gateway_and_two_functions_are_a_host() {
    let text = host::own_gateway("What can you do?").await.unwrap();
    assert_eq!(text, "I can cancel_order and find_order.");
}

#[tokio::test]
async fn a_core_runs_on_ports_of_others() {
    let census = Arc::new(Census::default());
    let conversation = host::own_ports(Shelf::default(), census.clone()).await.unwrap();
    assert_eq!(conversation.ask("abc").await.unwrap().into_text().unwrap(), "cba");
    assert_eq!(census.requests.load(Ordering::Relaxed), 1);
    assert_eq!(census.answers.load(Ordering::Relaxed), 1);
    let events = conversation.events_since(Cursor::START, Page::default()).await.unwrap().events;
    assert_eq!(census.events.load(Ordering::Relaxed), events.len() as u64);
}

/// A user interface's executor: it wakes a thread, and knows no tokio.
fn poll_here<T>(future: impl Future<Output = T>) -> T {
    struct Bell(Thread);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Bell(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_desktop_app_polls_outside_of_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    poll_here(async {
        let (api, report) = host::desktop(Shelf::default(), runtime.handle().clone()).await.unwrap();
        assert!(report.is_empty());
        let project = Project::create(api, NewProject::new("desk")).await.unwrap();
        let conversation =
            project.converse(ConversationConfig::new("outside/reverse".parse().unwrap())).await.unwrap();
        assert_eq!(host::badge(&report, conversation.id()), None);
        assert_eq!(conversation.ask("abc").await.unwrap().into_text().unwrap(), "cba");
    });
}

#[tokio::test]
async fn a_paused_parrot_keeps_what_it_hears() {
    let api: Arc<dyn Conversations> = Arc::new(Parrot::default());
    let conversation = conversation(api.clone()).await;
    let first = host::click(&conversation, "one").await.unwrap();
    assert_eq!(host::click(&conversation, "one").await.unwrap(), first);
    let input_id = InputId::from_key("a");
    let receipt = conversation.submit(NewInput::new("a").id(input_id)).await.unwrap();
    assert_eq!(receipt.outcome, CommandOutcome::InputAccepted { input_id, fate: InputFate::Queued });
    let mut live = api.follow(Scope::Everything, Cursor::START).await.unwrap();
    let first = tokio::spawn(async move { live.next().await.unwrap().unwrap() });
    conversation.resume().await.unwrap();
    let Update::Event { event, .. } = first.await.unwrap() else {
        unreachable!("the first update is an event")
    };
    assert_eq!(event.payload.kind(), "execution_state");
    let page = conversation.history(Page::new(3), None).await.unwrap();
    assert_eq!(page.events.len(), 3);
    assert!(page.next.is_some());
}
