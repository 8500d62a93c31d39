//! One call against 1,000 rules in four sources; budget: 5 µs each (`quality.md`).
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a benchmark")]

use criterion::{Criterion, criterion_group, criterion_main};

#[path = "../tests/support/large.rs"]
mod large;

fn decide(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let policy = large::policy();
    let mut group = criterion.benchmark_group("decide_1000_rules");
    for (name, call) in large::calls(folder.path()) {
        group.bench_function(name, |bencher| {
            bencher.iter(|| policy.decide(std::hint::black_box(&call)).decision());
        });
    }
    group.finish();
}

criterion_group!(benches, decide);
criterion_main!(benches);
