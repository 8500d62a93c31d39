//! The contestants.
//!
//! Every side does the same: the prompt is a number, the model calls `count_down` with the number it was told last, the
//! tool answers with one less, and at 0 the model says that it is done. Its answers are whole, at once and cost little:
//! it looks at the last message only.

mod agent_sdk;
mod nervekit;
mod rig;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use async_trait::async_trait;

/// One contestant with its store open.
#[async_trait(?Send)]
pub(crate) trait Side {
    fn name(&self) -> &'static str;

    /// Begins a conversation, and holds it to its end: a prompt, so many rounds of one call, a final text.
    async fn converse(&self, rounds: u32) -> Result<()>;
}

/// Opens the stores of all sides, in the order in which they take turns.
pub(crate) async fn all(folder: &Path) -> Result<Vec<Box<dyn Side>>> {
    Ok(vec![
        Box::new(
            nervekit::on_disk("nervekit-redb", &folder.join("plain.redb"), nervekit::Repeat::Safe).await?,
        ),
        Box::new(agent_sdk::on_disk("agent-sdk-sqlite", &folder.join("agent.sqlite"))?),
        Box::new(
            nervekit::on_disk(
                "nervekit-redb-claimed",
                &folder.join("claimed.redb"),
                nervekit::Repeat::Unsafe,
            )
            .await?,
        ),
        Box::new(nervekit::in_memory("nervekit-memory", nervekit::Repeat::Safe).await?),
        Box::new(agent_sdk::in_memory("agent-sdk-memory")),
        Box::new(rig::in_memory("rig-memory")),
    ])
}

/// Which sides are set beside each other, the one that is expected to take longer first.
pub(crate) const COMPARED: [[&str; 2]; 5] = [
    ["agent-sdk-sqlite", "nervekit-redb"],
    ["agent-sdk-sqlite", "nervekit-redb-claimed"],
    ["nervekit-redb", "nervekit-memory"],
    ["nervekit-memory", "agent-sdk-memory"],
    ["nervekit-memory", "rig-memory"],
];

const TOOL: &str = "count_down";
const DONE: &str = "Done.";

/// What the model does after it was told a number.
enum Move {
    Call { id: String, from: u32 },
    Finish,
}

/// The script of the model: the same for all.
#[derive(Debug, Default)]
struct Script {
    calls: AtomicU64,
}

impl Script {
    /// Ids are unique in a store: one side keys what it keeps of a call by them alone.
    fn next(&self, told: &str) -> Move {
        match told.parse() {
            Ok(from @ 1..) => {
                Move::Call { id: format!("call_{}", self.calls.fetch_add(1, Ordering::Relaxed)), from }
            }
            _ => Move::Finish,
        }
    }
}

/// What the tool is asked for.
#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct CountDown {
    from: u32,
}

impl CountDown {
    fn answer(&self) -> String {
        self.from.saturating_sub(1).to_string()
    }
}

/// That the conversation came to its end, and not to an early one.
fn check(answer: &str) -> Result<()> {
    anyhow::ensure!(answer == DONE, "the answer is `{answer}`, not `{DONE}`");
    Ok(())
}
