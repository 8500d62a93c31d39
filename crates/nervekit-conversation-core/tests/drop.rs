//! Futures that are dropped, and executors that are not tokio's.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "common/life.rs"]
mod life;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use nervekit_conversation_core::testing::{Fault, FaultBackend};
use nervekit_conversation_core::{
    Command, CommandRequest, ConfigChange, Conversations, Cursor, DeliveryTarget, MemoryBackend,
    NewConversation, NewInput, NewProject, Query, Resolution, Scope, Update, View,
};
use nervekit_harness::ScriptedReply;
use nervekit_types::{CommandId, ConversationId, InputId, ProjectId};
use serde_json::json;

use self::life::{Life, World, obliging, story};

/// The situations in which commands are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Situation {
    Idle,
    /// A call is asked for, and a prompt waits.
    Waiting,
    Paused,
    /// The last execution failed.
    Failed,
}

async fn prepared(situation: Situation) -> (Life, Arc<FaultBackend>) {
    let world = World::new([ScriptedReply::call_tool("write", json!({ "key": "a" }))]);
    let world = world.configured(|config| {
        if situation == Situation::Failed {
            config.model = "nobody/none".parse().unwrap();
        }
    });
    let backend = Arc::new(FaultBackend::new());
    let life = Life::open(backend.clone(), &Arc::new(world)).await;
    match situation {
        Situation::Idle => {}
        Situation::Paused => {
            life.conversation.pause().await.unwrap();
        }
        Situation::Failed => {
            life.submit("go").await;
            life.quiet().await;
            // It works from now on.
            let model = "demo/scripted".parse::<nervekit_harness::ModelSelection>().unwrap();
            life.conversation.configure(ConfigChange::new().model(model)).await.unwrap();
        }
        Situation::Waiting => {
            life.submit("go").await;
            life.quiet().await;
            let input = NewInput::new("waits").id(InputId::from_key("waits"));
            life.conversation.submit(input.target(DeliveryTarget::NextExecution)).await.unwrap();
        }
    }
    (life, backend)
}

async fn commands(life: &Life) -> Vec<(&'static str, Command)> {
    let conversation_id = life.id();
    let mut commands = vec![
        ("project", Command::CreateProject(NewProject::new("another").id(ProjectId::from_key("another")))),
        (
            "conversation",
            Command::CreateConversation(Box::new(
                NewConversation::new(ProjectId::from_key("project"), life.world.config.clone())
                    .id(ConversationId::from_key("another")),
            )),
        ),
        (
            "configure",
            Command::Configure {
                conversation_id,
                change: Box::new(ConfigChange::new().system_prompt("Be brief.")),
            },
        ),
        ("title", Command::SetTitle { conversation_id, title: Some("Another".to_owned()) }),
        ("submit", Command::Submit { conversation_id, input: NewInput::new("hello") }),
        ("pause", Command::Pause { conversation_id }),
        ("resume", Command::Resume { conversation_id }),
        ("stop", Command::Stop { conversation_id, execution_id: None }),
        ("cancel", Command::CancelInput { conversation_id, input_id: InputId::from_key("waits") }),
        ("continue", Command::ContinueProcessing { conversation_id, head: None }),
    ];
    if let Some(open) = life.interactions().await.first() {
        let resolve = |resolution| Command::Resolve { conversation_id, interaction_id: open.id, resolution };
        commands.push(("approve", resolve(Resolution::approve(open.digest))));
        commands.push(("deny", resolve(Resolution::deny())));
    }
    commands
}

/// Everything that a command may change, without ids and times.
async fn state(life: &Life) -> String {
    let snapshot = life.quiet().await;
    let conversation = &snapshot.state.conversation;
    let queue: Vec<_> = snapshot.state.queue.iter().map(|input| &input.text).collect();
    let calls: Vec<_> = snapshot.calls.iter().map(|call| (call.state, call.cancel_requested)).collect();
    let View::Projects(projects) = life.core.query(Query::Projects).await.unwrap() else {
        panic!("projects")
    };
    let all = Query::Conversations {
        project_id: None,
        page: nervekit_conversation_core::Page::default(),
        before: None,
    };
    let View::Conversations(conversations) = life.core.query(all).await.unwrap() else {
        panic!("conversations")
    };
    format!(
        "{:?} {:?} {:?} {:?} {queue:?} {calls:?} {:?} {} projects, {} conversations",
        story(&life.events().await),
        conversation.status,
        conversation.paused,
        conversation.title,
        snapshot.state.config.system_prompt,
        projects.len(),
        conversations.len()
    )
}

/// Polls a future this often, lets others work after each time, and drops it. Says whether it was ready.
async fn poll_and_drop(future: impl Future, polls: usize) -> bool {
    let mut future = pin!(future);
    for _ in 0..polls {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test(start_paused = true)]
async fn a_command_whose_future_is_dropped_is_not_begun_or_runs_to_its_end() {
    for situation in [Situation::Idle, Situation::Waiting, Situation::Paused, Situation::Failed] {
        let count = commands(&prepared(situation).await.0).await.len();
        for at in 0..count {
            // What comes of it when it is waited for, and what was there before.
            let (life, _) = prepared(situation).await;
            let before = state(&life).await;
            let (name, command) = commands(&life).await.swap_remove(at);
            let answer = life.core.command(CommandRequest::new(CommandId::from_key("it"), command)).await;
            let after = state(&life).await;

            for (slow, polls) in
                [(false, 0), (false, 1), (false, 2), (false, 3), (true, 0), (true, 1), (true, 3)]
            {
                let (life, backend) = prepared(situation).await;
                assert_eq!(state(&life).await, before, "{name}: the situation is not the same each time");
                let (_, command) = commands(&life).await.swap_remove(at);
                let request = CommandRequest::new(CommandId::from_key("it"), command);
                if slow {
                    backend.set_fault(Some(Fault::Slow(Duration::from_millis(50))));
                }
                poll_and_drop(life.core.command(request.clone()), polls).await;
                // By the paused clock: whatever was begun has ended.
                tokio::time::sleep(Duration::from_secs(30)).await;
                backend.set_fault(None);
                let seen = state(&life).await;
                let expected = if polls == 0 { &before } else { &after };
                assert_eq!(
                    seen, *expected,
                    "{name} in {situation:?}, dropped after {polls} polls, slow: {slow}"
                );

                // Sent again under its id, it is answered as if it had been waited for.
                let again = life.core.command(request).await;
                assert_eq!(again.is_ok(), answer.is_ok(), "{name} in {situation:?}: {again:?}");
                if answer.is_ok() {
                    assert_eq!(state(&life).await, after, "{name} in {situation:?}, sent again");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn queries_and_streams_may_be_dropped_at_any_time() {
    let (life, backend) = prepared(Situation::Waiting).await;
    let before = state(&life).await;
    backend.set_fault(Some(Fault::Slow(Duration::from_millis(50))));
    for polls in 0..4 {
        poll_and_drop(life.conversation.snapshot(), polls).await;
        poll_and_drop(life.conversation.finished(), polls).await;
        let mut updates = life.conversation.updates().await.unwrap();
        poll_and_drop(updates.next(), polls).await;
    }
    backend.set_fault(None);
    assert_eq!(state(&life).await, before);
    // A stream of which a `next` was dropped has lost nothing.
    let mut updates = life.conversation.updates().await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < life.events().await.len() {
        let polled = pin!(updates.next()).poll(&mut Context::from_waker(Waker::noop()));
        let update = match polled {
            Poll::Ready(update) => update,
            Poll::Pending => updates.next().await,
        };
        if let Update::Event { event, .. } = update.unwrap().unwrap() {
            seen.push(event.sequence);
        }
    }
    assert!(seen.into_iter().eq(0..life.events().await.len() as u64));
}

#[tokio::test(start_paused = true)]
async fn recovery_that_is_not_waited_for_ends_all_the_same() {
    let (_, backend) = prepared(Situation::Idle).await;
    let world = Arc::new(World::new([]));
    let core = Life::builder(backend.reopen(), &world).defer_recovery().open().await.unwrap();
    let life = Life::over(core, &world).await;
    life.submit("go").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(world.model.requests().is_empty(), "nothing is begun before recovery");
    poll_and_drop(life.core.recover(), 1).await;
    life.quiet().await;
    assert_eq!(life::ends(&life.events().await), ["completed"]);
}

/// An executor of a few lines, in a thread that knows nothing of tokio.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn any_executor_may_poll() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let world = Arc::new(World::new([
        ScriptedReply::call_tool("write", json!({ "key": "a" })).delay(Duration::from_millis(1))
    ]));
    let handle = runtime.handle().clone();
    block_on(async {
        assert!(tokio::runtime::Handle::try_current().is_err());
        let core = Life::builder(MemoryBackend::new(), &world).runtime(handle).open().await.unwrap();
        let life = Life::over(core, &world).await;
        let mut everything = life.core.follow(Scope::Everything, Cursor::default()).await.unwrap();
        life.submit("go").await;
        let mut updates = life.conversation.updates().await.unwrap();
        let text = loop {
            match updates.next().await.unwrap().unwrap() {
                Update::Interaction(open) => drop(life.resolve(&open, obliging(&open)).await.unwrap()),
                Update::Finished(outcome) => break outcome.into_text().unwrap(),
                _ => {}
            }
        };
        assert_eq!(text, "Done.");
        assert!(everything.next().await.unwrap().is_ok());
        assert_eq!(life.conversation.finished().await.unwrap().into_text().unwrap(), "Done.");
        assert!(life.core.recover().await.unwrap().is_empty());
        assert_eq!(life.core.shutdown(Duration::from_secs(10)).await.abandoned, 0);
        assert!(updates.next().await.is_none_or(|update| update.is_ok()));
        let refused = life.conversation.submit("more").await.unwrap_err();
        assert!(matches!(refused, nervekit_conversation_core::CommandError::ShuttingDown));
    });
}
