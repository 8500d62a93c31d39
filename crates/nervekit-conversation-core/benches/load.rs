//! Many conversations: how long a thousand take on two cores, and what one keeps in memory while a model answers,
//! after a long history, and when it is only stored. Prints figures; nothing is asserted.
//!
//! Memory is the resident set of the process, so it needs Linux; elsewhere zeros are printed.

#![expect(clippy::unwrap_used, reason = "a benchmark")]

mod support;

use std::time::{Duration, Instant};

use support::{Bench, HOLD, rounds};

const CONVERSATIONS: u32 = 1_000;
const STORED: u32 = 20_000;

/// Kibibytes of memory that the process occupies.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// A thousand conversations with twenty rounds each, all at once.
async fn throughput() {
    let bench = Bench::open().await;
    let mut conversations = Vec::new();
    for _ in 0..CONVERSATIONS {
        conversations.push(bench.conversation().await);
    }
    let (before, started) = (resident(), Instant::now());
    let mut work = tokio::task::JoinSet::new();
    for conversation in conversations {
        work.spawn(async move { rounds(&conversation, 20).await });
    }
    work.join_all().await;
    let took = started.elapsed();
    println!(
        "{CONVERSATIONS} conversations at once, 20 rounds each: {took:.2?}, {:?} a round, {} KiB grown each, \
         history included",
        took / (CONVERSATIONS * 20),
        (resident() - before) / u64::from(CONVERSATIONS)
    );
}

/// What a conversation keeps while it waits for its model, beyond what is stored of it.
async fn running(history: u32) {
    let bench = Bench::open().await;
    let mut conversations = Vec::new();
    for _ in 0..CONVERSATIONS {
        let conversation = bench.conversation().await;
        if history > 0 {
            rounds(&conversation, history).await;
        }
        conversations.push(conversation);
    }
    let before = resident();
    for conversation in &conversations {
        conversation.submit(HOLD).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let grown = resident().saturating_sub(before) / u64::from(CONVERSATIONS);
    println!("{CONVERSATIONS} running behind {history} rounds: {grown} KiB each");
}

/// What a conversation costs that is only stored: its rows, which this backend keeps in memory.
async fn stored() {
    let bench = Bench::open().await;
    let before = resident();
    for _ in 0..STORED {
        rounds(&bench.conversation().await, 1).await;
    }
    let grown = (resident() - before) * 1024 / u64::from(STORED);
    println!("{STORED} stored after one round each: {grown} bytes each, rows in memory included");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        stored().await;
        running(0).await;
        running(100).await;
        throughput().await;
    });
}
