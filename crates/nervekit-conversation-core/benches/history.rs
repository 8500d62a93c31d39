//! What a turn costs behind a long history: a tool round, and a prompt to a conversation at rest.
//!
//! Budget: at 10,000 events at most 1.2 times what it costs at 100.

#![expect(clippy::unwrap_used, reason = "a benchmark")]

mod support;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use nervekit_conversation_core::Conversation;
use support::{Bench, busy, rounds, runtime};

/// A conversation with at least so many events, two for each round, and as many commands as it remembers: they are
/// read whenever its work begins.
async fn grown(bench: &Bench, events: u64) -> Conversation {
    let conversation = bench.conversation().await;
    for command in 0..64 {
        conversation.set_title(Some(command.to_string())).await.unwrap();
    }
    rounds(&conversation, u32::try_from(events / 2).unwrap()).await;
    // What growing has left in the caches is not what a prompt finds.
    for _ in 0..8 {
        rounds(&conversation, 0).await;
    }
    conversation
}

/// Times `count` rounds behind a history of so many events, and not much more.
async fn behind(events: u64, count: u32, times: u64) -> Duration {
    let bench = Bench::open().await;
    let mut conversation = grown(&bench, events).await;
    let (mut total, mut added) = (Duration::ZERO, 0);
    for _ in 0..times {
        if added > (events / 5).max(100) {
            conversation = grown(&bench, events).await;
            added = 0;
        }
        let started = busy();
        rounds(&conversation, count).await;
        total += busy().saturating_sub(started);
        added += u64::from(count) * 2 + 4;
    }
    total
}

fn history(criterion: &mut Criterion) {
    for (name, count) in [("prompt_at_rest", 0), ("twenty_rounds", 20)] {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(20).measurement_time(Duration::from_secs(5));
        for events in [100, 1_000, 10_000] {
            group.bench_function(events.to_string(), |bencher| {
                let runtime = runtime();
                bencher.to_async(&runtime).iter_custom(|times| behind(events, count, times));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, history);
criterion_main!(benches);
