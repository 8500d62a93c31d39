//! How long it takes to open a store of many events, after it was closed and after a crash.
//!
//! `cargo bench -p nervekit-store --bench reopen`

#![expect(clippy::unwrap_used, reason = "a benchmark")]

use std::path::Path;
use std::time::{Duration, Instant};

use nervekit_conversation_core::{Backend, Maintenance, Table, WriteSet};
use nervekit_store::RedbBackend;
use nervekit_types::{BatchId, RawId};

const EVENTS: Table = Table::new("events");
const CONVERSATIONS: u64 = 10_000;
const GROUP: u64 = 10_000;

/// Events as they come: each conversation grows a little at a time.
fn group(first: u64) -> Vec<WriteSet> {
    (first..first + GROUP)
        .map(|number| {
            let id = BatchId::from_raw(RawId::from_u128(u128::from(number)));
            let key = format!("conv_{:020}/{number:016}", number % CONVERSATIONS);
            WriteSet::new(id).insert(EVENTS, key, vec![b'e'; 500])
        })
        .collect()
}

fn open(path: &Path) -> (Duration, RedbBackend) {
    let start = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let backend = runtime.block_on(RedbBackend::open(path)).unwrap();
    (start.elapsed(), backend)
}

fn main() {
    // `cargo test --benches` asks whether it runs at all.
    let events = if std::env::args().any(|argument| argument == "--bench") { 1_000_000 } else { GROUP };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (path, idle, busy) =
        (folder.path().join("store.redb"), folder.path().join("idle.redb"), folder.path().join("busy.redb"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (_, backend) = open(&path);
    for first in (0..events).step_by(usize::try_from(GROUP).unwrap()) {
        runtime.block_on(backend.write(group(first))).unwrap();
    }
    // What lies on the disk while no commit is on its way is what a killed process leaves. A second after the
    // last commit, the backend has stored what a repair would have to find out.
    std::fs::copy(&path, &busy).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    std::fs::copy(&path, &idle).unwrap();
    let bytes = runtime.block_on(backend.maintain(Maintenance::Stats)).unwrap().bytes.unwrap();
    println!("{events} events, {} MiB\n\n| opened | time |\n| --- | --- |", bytes >> 20);
    drop(backend);
    println!("| after it was closed | {:.0?} |", open(&path).0);
    println!("| after a crash while nothing was written | {:.0?} |", open(&idle).0);
    println!("| after a crash right after a commit | {:.0?} |", open(&busy).0);
}
