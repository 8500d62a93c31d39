//! Faults met in the field in systems of this kind, each as a test named for its case.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "common/life.rs"]
mod life;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nervekit_conversation_core::testing::{Fault, FaultBackend};
use nervekit_conversation_core::{
    CallOutcome, CallState, Command, CommandError, CommandOutcome, Conversation, InputFate, Interaction,
    MemoryBackend, NewConversation, NewInput, QueuedInput, Resolution, RuntimeLimits, Snapshot, Status,
    Update,
};
use nervekit_harness::{
    Message, ModelRequest, ProviderError, ProviderErrorKind, ScriptedModel, ScriptedReply, StopReason,
};
use nervekit_permissions::Risk;
use nervekit_tools::{Tool, ToolContext, ToolError};
use nervekit_types::{ConversationId, InputId, InteractionId, ProjectId};
use serde_json::json;
use tokio::sync::Semaphore;

use self::life::{Key, Life, World, answers, ends, key_of, obliging, outcome_of, story, unpaired};

fn call(tool: &str, key: &str) -> ScriptedReply {
    ScriptedReply::call_tool(tool, json!({ "key": key }))
}

/// One message with a call of the tool for each key.
fn calls(tool: &str, keys: &[&str]) -> ScriptedReply {
    keys.iter().fold(ScriptedReply::new(), |reply, key| reply.call(tool, json!({ "key": key })))
}

async fn open(world: World) -> Life {
    Life::open(MemoryBackend::new(), &Arc::new(world)).await
}

async fn asked(life: &Life, key: &str) -> Interaction {
    let open = life.interactions().await;
    open.into_iter().find(|open| key_of(&open.tool_name, &open.arguments) == key).unwrap()
}

fn approve(open: &Interaction) -> Resolution {
    Resolution::approve(open.digest)
}

fn running(seen: &Snapshot) -> bool {
    seen.calls.iter().any(|call| call.state == CallState::Running)
}

/// A tool that ends when the test says so, and counts as done only then.
fn gate(open: &Arc<Semaphore>) -> Tool {
    let open = open.clone();
    let tool = Tool::function("gate", "Waits for the test.", move |args: Key, _: ToolContext| {
        let open = open.clone();
        async move {
            open.acquire().await.map_err(|_| ToolError::new("closed"))?.forget();
            Ok(format!("passed {}", args.key))
        }
    });
    tool.reviewed(Risk::Read).parallel().into()
}

fn fault() -> ToolError {
    panic!("a fault of the tool")
}

/// The roles of a request's messages, with what a user said.
fn roles(request: &ModelRequest) -> Vec<String> {
    let role = |message: &Message| match message {
        Message::User(user) => {
            format!("user {}", nervekit_harness::AssistantMessage::new(user.content.clone()).plain_text())
        }
        Message::Assistant(_) => "assistant".to_owned(),
        _ => "result".to_owned(),
    };
    request.messages.iter().map(role).collect()
}

fn assert_paired(world: &World) {
    for request in world.model.requests() {
        assert_eq!(unpaired(&request), None, "{:?}", roles(&request));
    }
}

#[tokio::test(start_paused = true)]
async fn case_28_an_approval_releases_the_call_it_names_and_no_other() {
    let life = open(World::new([calls("send", &["1", "2", "3"])])).await;
    life.submit("go").await;
    life.quiet().await;
    let [one, two, three] = [asked(&life, "1").await, asked(&life, "2").await, asked(&life, "3").await];

    // The same call by two people at once: one of them decides.
    let resolve = |resolution| life.conversation.resolve(two.id, resolution);
    let (first, second) = tokio::join!(resolve(approve(&two)), resolve(Resolution::deny()));
    assert!(matches!(first.unwrap().outcome, CommandOutcome::Resolved { call_id } if call_id == two.call_id));
    assert!(matches!(second.unwrap_err(), CommandError::Resolved { by: Some(_) }));
    life.resolve(&three, Resolution::deny()).await.unwrap();

    // An unknown interaction, and one of another conversation.
    let before = life.events().await.len();
    let unknown = life.conversation.resolve(InteractionId::from_key("unknown"), approve(&one)).await;
    assert!(matches!(unknown.unwrap_err(), CommandError::NotFound(_)));
    let new = NewConversation::new(ProjectId::from_key("project"), life.world.config.clone())
        .id(ConversationId::from_key("other"));
    life.send("other", Command::CreateConversation(Box::new(new))).await.unwrap();
    let other = Conversation::new(Arc::new(life.core.clone()), ConversationId::from_key("other"));
    assert!(matches!(other.approve(&one).await.unwrap_err(), CommandError::NotFound(_)));
    // Approving call 1 with what was shown of call 3.
    let mixed = life.conversation.resolve(one.id, approve(&three)).await;
    assert!(matches!(mixed.unwrap_err(), CommandError::Stale { .. }));
    assert_eq!(life.events().await.len(), before);

    // What a person says is never taken for an approval.
    life.submit("yes, approved, go ahead").await;
    life.quiet().await;
    assert_eq!(life.world.effects(), ["2"]);
    let responses = life.responses().await;
    assert_eq!(outcome_of(&responses, "2"), Some(CallOutcome::Completed));
    assert_eq!(outcome_of(&responses, "3"), Some(CallOutcome::Denied));
    assert_eq!(life.interactions().await, [one]);
}

#[tokio::test(start_paused = true)]
async fn case_29_the_stored_call_is_approved_and_not_asked_for_again() {
    let asked_before = std::sync::atomic::AtomicBool::new(false);
    let model = ScriptedModel::from_fn(move |request| match answers(request) {
        0 if asked_before.swap(true, Ordering::SeqCst) => call("send", "other arguments"),
        0 => call("send", "these arguments"),
        _ => ScriptedReply::text("Done."),
    });
    let world = Arc::new(World::with(model));
    let backend = Arc::new(FaultBackend::new());
    let life = Life::open(backend.clone(), &world).await;
    life.submit("go").await;
    life.quiet().await;
    let shown = asked(&life, "these arguments").await;

    let reopened = Arc::new(backend.reopen());
    let life = Life::open(reopened.clone(), &world).await;
    life.resolve(&shown, approve(&shown)).await.unwrap();
    life.quiet().await;
    assert_eq!(world.effects(), ["these arguments"]);

    // Again, with another command, after another restart.
    let life = Life::open(Arc::new(reopened.reopen()), &world).await;
    let again = life.conversation.approve(&shown).await.unwrap_err();
    assert!(matches!(again, CommandError::Resolved { by: Some(_) }), "{again}");
    assert_eq!(world.effects(), ["these arguments"]);
    assert_eq!(world.model.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn case_31_what_is_stopped_or_denied_is_settled_and_cannot_be_approved() {
    // (a) Stopped while it is asked for.
    let life = open(World::new([calls("write", &["1", "2", "3"])])).await;
    life.submit("go").await;
    life.quiet().await;
    let one = asked(&life, "1").await;
    assert!(matches!(life.stop("stop").await, CommandOutcome::Stopped { .. }));
    let late = life.conversation.approve(&one).await.unwrap_err();
    assert!(matches!(late, CommandError::Resolved { .. }), "{late}");
    let settled: Vec<_> = life.responses().await.iter().map(|response| response.outcome).collect();
    assert_eq!(settled, [CallOutcome::Cancelled; 3]);
    assert_eq!(ends(&life.events().await), ["cancelled"]);
    // (d) The next prompt is answered.
    life.submit("never mind").await;
    life.see_through(obliging).await;
    assert_eq!(ends(&life.events().await), ["cancelled", "completed"]);
    assert!(life.world.effects().is_empty());
    assert_paired(&life.world);

    // (b) One of them is denied.
    let life = open(World::new([calls("write", &["1", "2", "3"])])).await;
    life.submit("go").await;
    life.quiet().await;
    life.resolve(&asked(&life, "1").await, Resolution::deny()).await.unwrap();
    let seen = life.quiet().await;
    assert_eq!(seen.state.conversation.status, Status::Waiting);
    assert_eq!(outcome_of(&life.responses().await, "1"), Some(CallOutcome::Denied));
    assert_eq!(
        seen.calls.iter().map(|call| call.state).collect::<Vec<_>>(),
        [CallState::AwaitingApproval; 2]
    );
    life.see_through(obliging).await;
    assert_eq!(life.world.effects(), ["2", "3"]);
    assert_paired(&life.world);
}

#[tokio::test(start_paused = true)]
async fn case_31_a_call_that_was_approved_and_waits_for_its_turn_is_not_begun_after_a_stop() {
    let world = Arc::new(World::new([call("hold", "held").call("send", json!({ "key": "approved" }))]));
    // `hold` takes the only permit, so that what is approved has to wait.
    let core = Life::builder(MemoryBackend::new(), &world).limits(RuntimeLimits::new().parallel_tools(1));
    let life = Life::over(core.open().await.unwrap(), &world).await;
    life.submit("go").await;
    life.until("it runs", running).await;
    let shown = asked(&life, "approved").await;
    life.resolve(&shown, approve(&shown)).await.unwrap();
    life.stop("stop").await;
    life.quiet().await;
    assert_eq!(world.effects(), ["held"]);
    let responses = life.responses().await;
    assert_eq!(outcome_of(&responses, "held"), Some(CallOutcome::Cancelled));
    assert_eq!(outcome_of(&responses, "approved"), Some(CallOutcome::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn case_32_a_pending_approval_survives_the_process() {
    for resolution in ["approve", "deny", "a new message"] {
        let world = Arc::new(World::new([call("send", "a")]));
        let backend = Arc::new(FaultBackend::new());
        let life = Life::open(backend.clone(), &world).await;
        life.submit("go").await;
        life.quiet().await;
        let shown = asked(&life, "a").await;

        let builder = Life::builder(backend.reopen(), &world);
        let (core, report) = builder.open_with_report().await.unwrap();
        let life = Life::over(core, &world).await;
        assert_eq!(report.waiting, [shown.id]);
        assert_eq!(life.interactions().await, std::slice::from_ref(&shown));
        let mut updates = life.conversation.updates().await.unwrap();
        let told = loop {
            if let Update::Interaction(told) = updates.next().await.unwrap().unwrap() {
                break told;
            }
        };
        assert_eq!(*told, shown);
        match resolution {
            "approve" => {
                life.resolve(&shown, approve(&shown)).await.unwrap();
            }
            "deny" => {
                life.resolve(&shown, Resolution::deny()).await.unwrap();
            }
            _ => {
                // It waits behind what is asked: nothing passes an open approval.
                life.submit("something else").await;
                let seen = life.quiet().await;
                assert_eq!((seen.state.queue.len(), seen.state.interactions.len()), (1, 1));
                life.resolve(&shown, Resolution::deny()).await.unwrap();
            }
        }
        life.quiet().await;
        let effects: &[&str] = if resolution == "approve" { &["a"] } else { &[] };
        assert_eq!(world.effects(), effects, "{resolution}");
        assert_eq!(ends(&life.events().await), ["completed"], "{resolution}");
        assert_paired(&world);
    }
}

#[tokio::test(start_paused = true)]
async fn case_35_an_effect_is_never_had_twice_and_siblings_keep_their_results() {
    let world = || Arc::new(World::new([calls("stamp", &["1", "2", "3"])]));
    let clean = Arc::new(FaultBackend::new());
    let life = Life::open(clean.clone(), &world()).await;
    life.submit("go").await;
    life.quiet().await;
    assert_eq!(life.world.effects(), ["1", "2", "3"]);

    let mut indeterminate = 0;
    for commit in 4..=clean.commits() {
        for side in [Fault::CrashBefore, Fault::CrashAfter] {
            let world = world();
            let backend = Arc::new(FaultBackend::new().fault_at(commit, side));
            tokio::select! {
                biased;
                () = backend.crashed() => {}
                () = async {
                    let life = Life::open(backend.clone(), &world).await;
                    life.submit("go").await;
                    life.quiet().await;
                } => panic!("commit {commit} was not made"),
            }
            let before = world.effects();
            let life = Life::open(Arc::new(backend.reopen()), &world).await;
            let settled = life.responses().await;
            life.submit("go").await;
            life.see_through(obliging).await;

            let responses = life.responses().await;
            for (at, key) in ["1", "2", "3"].into_iter().enumerate() {
                let had = world.effects().iter().filter(|effect| *effect == key).count();
                let outcome = outcome_of(&responses, key).unwrap();
                let expected = match outcome {
                    CallOutcome::Completed => had == 1,
                    CallOutcome::Indeterminate => {
                        had <= 1 && had == before.iter().filter(|had| *had == key).count()
                    }
                    _ => false,
                };
                assert!(expected, "{side:?} {commit}: call {at} is {outcome} with {had} effects");
                indeterminate += u32::from(outcome == CallOutcome::Indeterminate);
                if let Some(outcome) = outcome_of(&settled, key) {
                    assert_eq!(outcome_of(&responses, key), Some(outcome), "a result that was stored stays");
                }
            }
            assert_paired(&world);
        }
    }
    // Each of the three was hit between its claim and its result, on either side of it.
    assert!(indeterminate >= 6, "{indeterminate}");
}

#[tokio::test(start_paused = true)]
async fn case_37_one_conversation_has_one_driver_in_a_process() {
    let life = open(World::new([])).await;
    let submit = async |text: &str| {
        life.submit(text).await;
    };
    tokio::join!(submit("one"), submit("two"), submit("three"));
    life.quiet().await;
    let events = life.events().await;
    let said: Vec<_> = story(&events).into_iter().filter(|line| line.starts_with("user: ")).collect();
    assert_eq!(said, ["user: one", "user: two", "user: three"]);
    let mut open = 0;
    for line in story(&events) {
        match line.as_str() {
            "started" => open += 1,
            "completed" => open -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&open), "{:?}", story(&events));
    }
    assert_paired(&life.world);
}

#[tokio::test(start_paused = true)]
async fn case_37_a_second_core_over_the_same_store_leaves_the_driver_alone() {
    let world = Arc::new(World::new([call("hold", "held")]));
    let backend = Arc::new(FaultBackend::new());
    let driver = Life::open(backend.clone(), &world).await;
    driver.submit("go").await;
    driver.until("it runs", running).await;

    let (core, report) = Life::builder(backend.clone(), &world).open_with_report().await.unwrap();
    let other = Life::over(core, &world).await;
    assert_eq!(report.held, [other.id()]);
    let receipt = other.submit("and this").await;
    assert!(matches!(receipt.outcome, CommandOutcome::InputAccepted { fate: InputFate::Queued, .. }));
    // The mark is set by whoever stops; the driver ends the work.
    assert!(matches!(other.stop("stop").await, CommandOutcome::Stopped { .. }));
    driver.until("the driver has ended it", |seen| !seen.state.conversation.status.is_open()).await;
    assert_eq!(world.effects(), ["held"]);
    assert_eq!(ends(&driver.events().await), ["cancelled"]);
    assert_eq!(world.model.requests().len(), 1);

    // Now nobody drives it, and the other one may.
    other.submit("go on").await;
    other.quiet().await;
    let said: Vec<_> =
        story(&other.events().await).into_iter().filter(|line| line.starts_with("user: ")).collect();
    assert_eq!(said, ["user: go", "user: and this", "user: go on"]);
    assert_paired(&world);
}

#[tokio::test(start_paused = true)]
async fn case_37_a_core_that_lost_its_store_neither_records_nor_repeats() {
    let passage = Arc::new(Semaphore::new(0));
    let world = Arc::new(World::new([call("gate", "a")]).tool(gate(&passage)));
    let backend = Arc::new(FaultBackend::new());
    let old = Life::open(backend.clone(), &world).await;
    old.submit("go").await;
    old.until("it runs", running).await;

    // Whoever opens the store now owns it, without waiting for a lease to pass.
    let new = Life::open(Arc::new(backend.reopen()), &world).await;
    assert_eq!(new.status().await, Status::Interrupted);
    assert_eq!(outcome_of(&new.responses().await, "a"), Some(CallOutcome::Indeterminate));
    passage.add_permits(1);
    let refused = old.conversation.submit("and this").await.unwrap_err();
    assert!(matches!(refused, CommandError::Store(_)), "{refused}");
    new.see_through(obliging).await;
    assert_eq!(new.responses().await.len(), 1);
    assert_eq!(ends(&new.events().await), ["interrupted", "completed"]);
}

#[tokio::test(start_paused = true)]
async fn case_40_every_call_has_one_result_however_it_was_interrupted() {
    let broken = || {
        let tool = Tool::function("break", "Panics.", |_: Key, _: ToolContext| async move {
            Err::<String, ToolError>(fault())
        });
        tool.reviewed(Risk::Read)
    };
    let mut texts = Vec::new();
    for (tool, how) in [
        ("write", "stop"),
        ("ask_user", "stop"),
        ("hold", "stop"),
        ("write", "deny"),
        ("ask_user", "withdraw"),
        ("hold", "kill"),
        ("write", "kill and deny"),
        ("break", "nothing"),
        ("nope", "nothing"),
    ] {
        let reply = ScriptedReply::call_tool(tool, json!({ "key": "a", "question": "a" }))
            .call("peek", json!({ "key": "b" }));
        let reply = if tool == "ask_user" {
            ScriptedReply::call_tool(tool, json!({ "question": "a" })).call("peek", json!({ "key": "b" }))
        } else if tool == "nope" {
            reply
        } else {
            call(tool, "a").call("peek", json!({ "key": "b" }))
        };
        let world = Arc::new(World::new([reply]).tool(broken()));
        let backend = Arc::new(FaultBackend::new());
        let mut life = Life::open(backend.clone(), &world).await;
        life.submit("go").await;
        let still = |seen: &Snapshot| {
            let rest: Vec<_> = seen.calls.iter().map(|call| call.tool_name.as_str()).collect();
            rest == [tool] || rest.is_empty()
        };
        life.until("only the call in question is left", still).await;
        match how {
            "stop" => assert!(matches!(life.stop("stop").await, CommandOutcome::Stopped { .. })),
            "deny" => drop(life.attend(|_| Resolution::deny()).await),
            "withdraw" => drop(life.attend(|_| Resolution::Cancel).await),
            "kill" => {
                life.until("it runs", running).await;
                life = Life::open(Arc::new(backend.reopen()), &world).await;
            }
            "kill and deny" => {
                life = Life::open(Arc::new(backend.reopen()), &world).await;
                life.attend(|_| Resolution::deny()).await;
            }
            _ => drop(life.quiet().await),
        }
        life.submit("what now?").await;
        life.see_through(obliging).await;
        assert_paired(&world);
        let last = world.model.requests().pop().unwrap();
        assert_eq!(roles(&last).last().unwrap(), "user what now?", "{tool} {how}");
        let responses = life.responses().await;
        let response = responses.iter().find(|response| response.tool_name == tool).unwrap();
        texts.push(format!("{tool}, {how}: {}: {}", response.outcome, response.agent));
    }
    assert_eq!(
        texts,
        [
            "write, stop: cancelled: The call was cancelled before it began; it had no effect.",
            "ask_user, stop: cancelled: The call was cancelled before it began; it had no effect.",
            "hold, stop: cancelled: The call was cancelled; it had no effect.",
            "write, deny: denied: Denied by a person.",
            "ask_user, withdraw: cancelled: A person withdrew the request.",
            "hold, kill: indeterminate: The call was under way when the runtime stopped. It may or may not have \
             had its effect, and it was not repeated: find out before you try again.",
            "write, kill and deny: denied: Denied by a person.",
            "break, nothing: failed: The tool failed for an internal reason.",
            "nope, nothing: failed: The tool `nope` is not available.",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn case_41_what_is_said_while_calls_run_follows_their_results() {
    let passage = Arc::new(Semaphore::new(0));
    let reply =
        call("gate", "slow").call("peek", json!({ "key": "quick" })).call("send", json!({ "key": "asks" }));
    let life = open(World::new([reply]).tool(gate(&passage))).await;
    life.submit("go").await;
    life.until("one is done, one runs, one is asked for", |seen| {
        seen.calls.len() == 2 && running(seen) && !seen.state.interactions.is_empty()
    })
    .await;
    life.submit("user 1").await;
    passage.add_permits(1);
    life.until("only the approval is left", |seen| seen.calls.len() == 1).await;
    life.submit("user 2").await;
    let seen = life.quiet().await;
    assert_eq!(seen.state.queue.len(), 2);
    life.see_through(obliging).await;

    let last = life.world.model.requests().pop().unwrap();
    assert_eq!(
        roles(&last),
        ["user go", "assistant", "result", "result", "result", "user user 1", "user user 2"]
    );
    assert!(life.responses().await.iter().all(|response| response.outcome == CallOutcome::Completed));
    assert_paired(&life.world);
}

#[tokio::test(start_paused = true)]
async fn case_44_blank_texts_do_not_stop_a_conversation() {
    let silent = |name: &str, output: &'static str| {
        let tool =
            Tool::function(name, "Says nothing.", move |_: Key, _: ToolContext| async move { Ok(output) });
        tool.reviewed(Risk::Read)
    };
    for blank in ["", "  \n", "\u{200B}"] {
        let reply = ScriptedReply::text(blank)
            .call("empty", json!({ "key": "a" }))
            .call("newline", json!({ "key": "b" }));
        let life = open(World::new([reply]).tool(silent("empty", "")).tool(silent("newline", "\n"))).await;
        assert!(matches!(life.conversation.submit(blank).await.unwrap_err(), CommandError::Invalid(_)));
        life.submit("go").await;
        life.quiet().await;
        life.submit("and").await;
        life.quiet().await;
        assert_eq!(ends(&life.events().await), ["completed", "completed"], "{blank:?}");
        let request = life.world.model.requests().pop().unwrap();
        for message in &request.messages {
            if let Message::ToolResult(result) = message {
                let text = nervekit_harness::AssistantMessage::new(result.content.clone()).plain_text();
                assert!(!text.trim().is_empty(), "a result says nothing");
            }
        }
    }
    // An answer of which nothing is left is an error of the provider, not a message.
    let empty = ScriptedModel::from_fn(|_| ScriptedReply::text(" \n"));
    let life = open(World::with(empty)).await;
    life.submit("go").await;
    life.quiet().await;
    assert_eq!(ends(&life.events().await), ["failed"]);
    assert!(story(&life.events().await).iter().all(|line| !line.starts_with("assistant")));
}

#[tokio::test(start_paused = true)]
async fn case_53_arguments_that_were_cut_are_never_run() {
    let cut = r#"{"key":"half"#;
    for (arguments, stop, outcome) in [
        (cut, StopReason::MaxTokens, CallOutcome::Failed),
        (cut, StopReason::ToolUse, CallOutcome::Failed),
        (cut, StopReason::EndTurn, CallOutcome::Failed),
        (r#"{"key":"half","list":["x","y""#, StopReason::MaxTokens, CallOutcome::Failed),
        // Decided: a call that is complete was meant, whatever was cut behind it.
        (r#"{"key":"whole"}"#, StopReason::MaxTokens, CallOutcome::Completed),
        (r#"{"key":"whole"}"#, StopReason::Refusal, CallOutcome::Failed),
    ] {
        let reply = ScriptedReply::new().raw_call("call_1", "peek", arguments).stop_reason(stop);
        let life = open(World::new([reply])).await;
        life.submit("go").await;
        life.quiet().await;
        let responses = life.responses().await;
        assert_eq!(responses[0].outcome, outcome, "{arguments} {stop:?}: {}", responses[0].agent);
        let effects = usize::from(outcome == CallOutcome::Completed);
        assert_eq!(life.world.effects().len(), effects, "{arguments} {stop:?}");
        // What goes back is an object, and the conversation goes on.
        let request = life.world.model.requests().pop().unwrap();
        for message in &request.messages {
            if let Message::Assistant(answer) = message {
                assert!(answer.tool_calls().all(|call| call.arguments.is_object()));
            }
        }
        assert_paired(&life.world);
        assert_eq!(ends(&life.events().await), ["completed"]);
    }
    // A model that does nothing else is ended by the limit of turns.
    let world = World::with(ScriptedModel::from_fn(move |_| {
        ScriptedReply::new().raw_call("call_1", "peek", cut).stop_reason(StopReason::MaxTokens)
    }));
    let life = open(world.configured(|config| config.limits = config.limits.turns(5))).await;
    life.submit("go").await;
    life.quiet().await;
    assert_eq!(life.world.model.requests().len(), 5);
    assert_eq!(ends(&life.events().await), ["failed"]);
}

fn queued(queue: &[QueuedInput]) -> Vec<&str> {
    queue.iter().map(|input| input.text.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn case_85_what_waits_survives_the_end_of_a_turn_in_order() {
    for how in ["stop", "failure", "time limit"] {
        let passage = Arc::new(Semaphore::new(0));
        let fails = how == "failure";
        let model = ScriptedModel::from_fn(move |request| match answers(request) {
            0 => call("gate", "a"),
            1 if fails && !roles(request).contains(&"user m4".to_owned()) => {
                let error = ProviderError::new(ProviderErrorKind::Authentication, "the key was withdrawn");
                ScriptedReply::fails(error)
            }
            _ => ScriptedReply::text("Done."),
        });
        let world = World::with(model).tool(gate(&passage)).configured(|config| {
            if how == "time limit" {
                config.limits = config.limits.time(std::time::Duration::from_secs(5));
            }
        });
        let life = open(world).await;
        life.submit("go").await;
        life.until("it runs", running).await;
        // For the next execution, so that they wait whatever the present one comes to.
        for text in ["m1", "m2", "m3"] {
            let input = NewInput::new(text)
                .id(InputId::from_key(text))
                .target(nervekit_conversation_core::DeliveryTarget::NextExecution);
            life.send(text, Command::Submit { conversation_id: life.id(), input }).await.unwrap();
        }
        let cancel = async |text: &str| {
            let input_id = InputId::from_key(text);
            life.conversation.cancel_input(input_id).await.unwrap().outcome
        };
        assert!(matches!(cancel("m2").await, CommandOutcome::InputCancelled { .. }));
        if how == "stop" {
            tokio::join!(life.stop("stop"), async { passage.add_permits(1) });
        } else {
            if how == "time limit" {
                tokio::time::advance(std::time::Duration::from_secs(6)).await;
            }
            passage.add_permits(1);
        }
        // They are held: nothing runs on its own after a stop or a failure.
        let seen = life.until("it ended", |seen| !seen.state.conversation.status.is_open()).await;
        assert_eq!(queued(&seen.state.queue), ["m1", "m3"], "{how}");

        life.submit("m4").await;
        life.quiet().await;
        let said: Vec<_> =
            story(&life.events().await).into_iter().filter(|line| line.starts_with("user: ")).collect();
        assert_eq!(said, ["user: go", "user: m1", "user: m3", "user: m4"], "{how}");
        assert_eq!(ends(&life.events().await).last(), Some(&"completed"), "{how}");
        assert!(matches!(
            cancel("m1").await,
            CommandOutcome::InputNotCancelled { fate: InputFate::Delivered { .. }, .. }
        ));
        assert!(matches!(
            cancel("m2").await,
            CommandOutcome::InputNotCancelled { fate: InputFate::Cancelled, .. }
        ));
        assert_paired(&life.world);
    }
}

/// A call that was left running is not begun again by the core that claimed it, after its store was in trouble.
#[tokio::test(start_paused = true)]
async fn a_running_call_outlives_a_store_that_cannot_be_read() {
    let passage = Arc::new(Semaphore::new(0));
    let world = Arc::new(World::new([call("gate", "a")]).tool(gate(&passage)));
    let backend = Arc::new(FaultBackend::new());
    let life = Life::open(backend.clone(), &world).await;
    life.submit("go").await;
    life.until("it runs", running).await;
    backend.set_fault(Some(Fault::Unavailable));
    // Long enough for the lease to be due several times.
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    passage.add_permits(1);
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    backend.set_fault(None);
    life.quiet().await;
    let responses = life.responses().await;
    assert_eq!(responses.len(), 1);
    assert_eq!((responses[0].outcome, responses[0].attempts), (CallOutcome::Completed, 1));
    assert_eq!(ends(&life.events().await), ["completed"]);
}

/// What runs is what was approved: a link that leads elsewhere by then is not followed.
#[cfg(unix)]
#[tokio::test]
async fn an_approved_call_whose_target_has_changed_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    std::fs::create_dir(folder.join("one")).unwrap();
    std::fs::create_dir(folder.join("two")).unwrap();
    std::os::unix::fs::symlink("one", folder.join("link")).unwrap();
    let note = Tool::function("note", "Writes.", |_: Key, context: ToolContext| async move {
        context.path("key")?.replace(b"written")?;
        Ok("written")
    })
    .reviewed(Risk::Write)
    .targets(|args: &Key| vec![nervekit_permissions::Target::path(&args.key).write()]);
    let world = World::new([call("note", folder.join("link/file").to_str().unwrap())]).tool(note);
    let life = open(world).await;
    life.submit("go").await;
    life.quiet().await;
    let shown = life.interactions().await.remove(0);
    std::fs::remove_file(folder.join("link")).unwrap();
    std::os::unix::fs::symlink("two", folder.join("link")).unwrap();
    life.resolve(&shown, approve(&shown)).await.unwrap();
    life.quiet().await;
    let responses = life.responses().await;
    assert_eq!(responses[0].outcome, CallOutcome::Failed, "{}", responses[0].agent);
    assert!(!folder.join("two/file").exists() && !folder.join("one/file").exists());
}
