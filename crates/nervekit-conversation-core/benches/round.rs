//! A tool round in memory: a prompt, `n` rounds of one no-op call, a final text. The model answers at once.
//!
//! The time of a round must not grow with history, so the same is measured at 20 and at 200 rounds. Call ids are
//! unique. A current-thread runtime is measured: with more workers the figure is that of waking threads.

mod support;

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use support::{Bench, busy, rounds, runtime};

fn round(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("round");
    group.sample_size(50).measurement_time(Duration::from_secs(5));
    for count in [20_u32, 200] {
        group.throughput(Throughput::Elements(count.into()));
        group.bench_function(count.to_string(), |bencher| {
            let runtime = runtime();
            bencher.to_async(&runtime).iter_custom(|times| async move {
                let bench = Bench::open().await;
                let mut total = Duration::ZERO;
                for _ in 0..times {
                    let conversation = bench.conversation().await;
                    let started = busy();
                    rounds(&conversation, count).await;
                    total += busy().saturating_sub(started);
                }
                total
            });
        });
    }
    group.finish();
}

criterion_group!(benches, round);
criterion_main!(benches);
