//! Shutting down: within the time that is given, neither less nor more.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "common/life.rs"]
mod life;

use std::sync::Arc;
use std::time::Duration;

use nervekit_conversation_core::{CallOutcome, CommandError, MemoryBackend, RuntimeLimits, Snapshot};
use nervekit_harness::ScriptedReply;
use nervekit_permissions::Risk;
use nervekit_tools::{Tool, ToolContext};
use serde_json::json;
use tokio::time::{Instant, sleep};

use self::life::{Key, Life, World, outcome_of};

const SECOND: Duration = Duration::from_secs(1);

/// A tool that takes eight seconds to come to an end once it is told to stop.
fn wind_down() -> Tool {
    let run = |_: Key, context: ToolContext| async move {
        context.cancelled().await;
        sleep(8 * SECOND).await;
        Ok("tidied up".to_owned())
    };
    Tool::function("wind_down", "Takes its time.", run).reviewed(Risk::Read).into()
}

fn running(seen: &Snapshot) -> bool {
    seen.calls.iter().any(|call| call.claim.is_some())
}

async fn open(backend: Arc<MemoryBackend>, world: &Arc<World>) -> Life {
    let limits = RuntimeLimits::new().cancellation_grace(5 * SECOND);
    Life::over(Life::builder(backend, world).limits(limits).open().await.unwrap(), world).await
}

#[tokio::test(start_paused = true)]
async fn what_runs_has_the_time_that_is_given_to_the_shutdown() {
    for (deadline, takes, closed) in [(20 * SECOND, 8 * SECOND, 1), (3 * SECOND, 3 * SECOND, 0)] {
        let call = ScriptedReply::call_tool("wind_down", json!({ "key": "a" }));
        let world = Arc::new(World::new([call]).tool(wind_down()));
        let backend = Arc::new(MemoryBackend::new());
        let life = open(backend.clone(), &world).await;
        life.submit("go").await;
        life.until("it runs", running).await;
        let begun = Instant::now();
        let report = life.core.shutdown(deadline).await;
        assert_eq!((report.closed, report.abandoned), (closed, 1 - closed));
        assert_eq!(begun.elapsed(), takes);
        let refused = life.conversation.submit("more").await.unwrap_err();
        assert!(matches!(refused, CommandError::ShuttingDown), "{refused}");

        // Nothing holds the store any more, and what was not over in time is recovered like after a crash.
        drop(life);
        assert_eq!(Arc::strong_count(&backend), 1);
        let next = open(backend, &world).await;
        let responses = next.responses().await;
        assert_eq!(outcome_of(&responses, "a"), Some(CallOutcome::Indeterminate));
        assert_eq!(responses[0].agent.contains("tidied up"), closed == 1, "{}", responses[0].agent);
    }
}
