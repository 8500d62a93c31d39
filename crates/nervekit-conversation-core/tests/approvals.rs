//! Bounds on what waits for a person, and on who may approve it.

#[path = "common/life.rs"]
mod life;

use std::sync::Arc;

use nervekit_conversation_core::{CallOutcome, CommandError, MemoryBackend, Resolution, RuntimeLimits};
use nervekit_harness::ScriptedReply;
use nervekit_types::Principal;
use serde_json::json;

use self::life::{Life, World, obliging};

/// One message with so many calls.
fn calls(tool: &str, count: usize) -> ScriptedReply {
    (0..count)
        .fold(ScriptedReply::new(), |reply, number| reply.call(tool, json!({ "key": number.to_string() })))
}

async fn count(life: &Life, outcome: CallOutcome) -> usize {
    life.responses().await.iter().filter(|response| response.outcome == outcome).count()
}

#[tokio::test(start_paused = true)]
async fn of_more_calls_than_may_wait_for_a_person_the_rest_is_settled() {
    let world = Arc::new(World::new([calls("send", 66), calls("send", 3)]));
    let life = Life::open(MemoryBackend::new(), &world).await;
    life.submit("go").await;
    life.quiet().await;
    assert_eq!((life.interactions().await.len(), count(&life, CallOutcome::Failed).await), (64, 2));
    let refused = life.responses().await.remove(0);
    assert!(refused.agent.contains("64 calls wait for a person already"), "{}", refused.agent);
    // When they are answered, others may wait.
    life.attend(obliging).await;
    assert_eq!(count(&life, CallOutcome::Completed).await, 67);
    assert_eq!(count(&life, CallOutcome::Failed).await, 2);

    // The bound is the host's.
    let world = Arc::new(World::new([calls("send", 3)]));
    let builder = Life::builder(MemoryBackend::new(), &world).limits(RuntimeLimits::new().open_approvals(2));
    let life = Life::over(builder.open().await.unwrap(), &world).await;
    life.submit("go").await;
    life.quiet().await;
    assert_eq!((life.interactions().await.len(), count(&life, CallOutcome::Failed).await), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn of_a_message_with_too_many_calls_the_rest_is_settled() {
    let world = Arc::new(World::new([calls("peek", 130)]));
    let life = Life::open(MemoryBackend::new(), &world).await;
    life.submit("go").await;
    life.quiet().await;
    assert_eq!(count(&life, CallOutcome::Completed).await, 128);
    assert_eq!(count(&life, CallOutcome::Failed).await, 2);
    assert_eq!(world.effects().len(), 128);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_because_the_rule_set_is_gone_is_approved_by_a_person_only() {
    let world = World::new([calls("send", 1)]).configured(|config| config.rule_set_id = "gone".to_owned());
    let world = Arc::new(world);
    let life = Life::open(MemoryBackend::new(), &world).await;
    life.submit("go").await;
    life.quiet().await;
    let [open] = <[_; 1]>::try_from(life.interactions().await).unwrap();
    assert!(open.reason.contains("`gone`"), "{}", open.reason);
    let program = life.conversation.by(Principal::automatic("--yes"));
    let refused = program.resolve(open.id, Resolution::approve(open.digest)).await.unwrap_err();
    assert!(matches!(refused, CommandError::Invalid(_)) && refused.to_string().contains("only a person"));
    // It is asked as before, and a person may approve it.
    assert_eq!(life.interactions().await.as_slice(), std::slice::from_ref(&open));
    life.conversation.resolve(open.id, Resolution::approve(open.digest)).await.unwrap();
    life.quiet().await;
    assert_eq!(world.effects(), ["0"]);

    // A program may deny it.
    let world = World::new([calls("send", 1)]).configured(|config| config.rule_set_id = "gone".to_owned());
    let life = Life::open(MemoryBackend::new(), &Arc::new(world)).await;
    life.submit("go").await;
    life.quiet().await;
    let [open] = <[_; 1]>::try_from(life.interactions().await).unwrap();
    life.conversation.by(Principal::automatic("--yes")).resolve(open.id, Resolution::deny()).await.unwrap();
    life.quiet().await;
    assert_eq!(count(&life, CallOutcome::Denied).await, 1);
}
