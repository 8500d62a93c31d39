//! The backends of this crate against the contract.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use nervekit_conversation_core::testing::backend_conformance::{Subject, match_model};
use nervekit_conversation_core::testing::{CrashCheck, CrashMatrix, CrashPoint, Fault, FaultBackend};
use nervekit_conversation_core::{Backend, MemoryBackend, Range, Table, WriteSet};
use nervekit_types::BatchId;
use nervekit_types::testing::ManualClock;

const NOTES: Table = Table::new("notes");

fn set(name: &str) -> WriteSet {
    WriteSet::new(BatchId::from_key(name)).put(NOTES, name.to_owned(), "")
}

fn memory() -> Subject {
    let clock = Arc::new(ManualClock::default());
    Subject::new(MemoryBackend::new().clock(clock.clone())).clock(clock)
}

fn fault() -> Subject {
    let clock = Arc::new(ManualClock::default());
    let backend = Arc::new(FaultBackend::new().clock(clock.clone()));
    let disk = backend.clone();
    let reopen = move || {
        let disk = disk.clone();
        async move { Ok(disk.reopen()) }
    };
    Subject::new(backend).reopen(reopen).clock(clock)
}

mod memory_backend {
    nervekit_conversation_core::backend_conformance!(async || super::memory());
}

mod shared_memory_backend {
    // Through the forwarding implementations, and as a plain backend instead of a subject.
    use nervekit_conversation_core::{MemoryBackend, backend_conformance};
    backend_conformance!(async || std::sync::Arc::new(Box::new(MemoryBackend::new())));
}

mod fault_backend {
    nervekit_conversation_core::backend_conformance!(async || super::fault());
}

#[tokio::test]
async fn long_random_programs_match_the_model() {
    match_model(memory(), 20_000).await;
    match_model(fault(), 20_000).await;
}

#[tokio::test]
async fn a_snapshot_and_its_origin_go_separate_ways() {
    let backend = MemoryBackend::new();
    backend.write(vec![set("a")]).await.unwrap();
    let snapshot = backend.snapshot();
    assert_ne!(backend.facts().opening, snapshot.facts().opening);
    backend.write(vec![set("b")]).await.unwrap();
    snapshot.write(vec![set("c")]).await.unwrap();
    assert_eq!(keys(&backend).await, ["a", "b"]);
    assert_eq!(keys(&snapshot).await, ["a", "c"]);
}

#[tokio::test]
async fn faults_write_what_they_say() {
    for (fault, kind, kept) in [
        (Fault::Unavailable, "unavailable", false),
        (Fault::Full, "full", false),
        (Fault::UnknownLost, "unknown", false),
        (Fault::UnknownKept, "unknown", true),
    ] {
        let backend = FaultBackend::new().fault_at(2, fault);
        backend.write(vec![set("a")]).await.unwrap();
        assert_eq!(backend.write(vec![set("b")]).await.unwrap_err().kind(), kind);
        assert_eq!(backend.applied(BatchId::from_key("b")).await.unwrap().is_some(), kept, "{fault:?}");
        assert_eq!(backend.get(NOTES, b"b").await.unwrap().is_some(), kept, "{fault:?}");
        // The next one works, and is the same set.
        backend.write(vec![set("b")]).await.unwrap();
        assert_eq!(keys(&backend).await, ["a", "b"]);
    }
}

#[tokio::test]
async fn a_lasting_fault_ends_when_it_is_taken_away() {
    let backend = FaultBackend::new();
    backend.write(vec![set("a")]).await.unwrap();
    backend.set_fault(Some(Fault::Unavailable));
    for _ in 0..3 {
        assert_eq!(backend.write(vec![set("b")]).await.unwrap_err().kind(), "unavailable");
        assert_eq!(backend.get(NOTES, b"a").await.unwrap_err().kind(), "unavailable");
    }
    backend.set_fault(Some(Fault::Full));
    assert_eq!(backend.write(vec![set("b")]).await.unwrap_err().kind(), "full");
    assert_eq!(keys(&backend).await, ["a"]);
    backend.set_fault(None);
    backend.write(vec![set("b")]).await.unwrap();
    assert_eq!(keys(&backend).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_slow_commit_is_readable_before_it_is_made() {
    let backend = Arc::new(FaultBackend::new().fault_at(1, Fault::Slow(Duration::from_secs(5))));
    let writer = backend.clone();
    let write = tokio::spawn(async move { writer.write(vec![set("a")]).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(4_999)).await;
    assert!(keys(&*backend).await.is_empty() && !write.is_finished());
    write.await.unwrap();
    assert_eq!(keys(&*backend).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_no_call_returns_and_the_old_opening_is_fenced() {
    let backend = Arc::new(FaultBackend::new().fault_at(1, Fault::CrashAfter));
    let writer = backend.clone();
    let write = tokio::spawn(async move { writer.write(vec![set("a")]).await });
    backend.crashed().await;
    let read = tokio::time::timeout(Duration::from_secs(3600), backend.get(NOTES, b"a")).await;
    assert!(read.is_err() && !write.is_finished());
    write.abort();

    let second = backend.reopen();
    assert_eq!(keys(&second).await, ["a"]);
    let third = second.reopen();
    assert_eq!(second.write(vec![set("b")]).await.unwrap_err().kind(), "fenced");
    assert_eq!(second.get(NOTES, b"a").await.unwrap_err().kind(), "fenced");
    third.write(vec![set("b")]).await.unwrap();

    // A copy fences nobody.
    let copy = third.copy();
    copy.write(vec![set("c")]).await.unwrap();
    assert_eq!(keys(&third).await, ["a", "b"]);
}

#[tokio::test]
async fn refused_and_repeated_writes_are_no_commits() {
    let backend = FaultBackend::new();
    backend.write(vec![set("a"), set("b")]).await.unwrap();
    backend.write(vec![set("a")]).await.unwrap();
    let refused = WriteSet::new(BatchId::from_key("c")).insert(NOTES, "a", "");
    backend.write(vec![refused]).await.unwrap();
    backend.write(vec![]).await.unwrap();
    assert_eq!(backend.commits(), 1);
}

/// An order is noted, charged outside the store, and marked as charged; recovery charges what is noted only.
async fn order(backend: &FaultBackend, charged: &std::sync::Mutex<Vec<&'static str>>, charge_first: bool) {
    if charge_first {
        charged.lock().unwrap().push("charge");
    }
    backend.write(vec![set("noted")]).await.unwrap();
    if !charge_first {
        charged.lock().unwrap().push("charge");
    }
    backend.write(vec![set("charged")]).await.unwrap();
}

async fn orders(charge_first: bool) -> CrashMatrix {
    let mut matrix = CrashMatrix::new();
    matrix
        .scenario(
            "order",
            || std::sync::Mutex::new(Vec::new()),
            async |backend: Arc<FaultBackend>, charged| order(&backend, &charged, charge_first).await,
            async |backend: Arc<FaultBackend>, charged| {
                // Whether the charge was made is unknown between the two commits: it is not made again.
                if keys(&*backend).await.is_empty() {
                    order(&backend, &charged, charge_first).await;
                }
            },
            async |_, charged: Arc<std::sync::Mutex<Vec<&str>>>, _| {
                CrashCheck::new(
                    "at most 1 charge",
                    match charged.lock().unwrap().len() {
                        0 | 1 => "at most 1 charge".to_owned(),
                        many => format!("{many} charges"),
                    },
                )
            },
        )
        .await;
    matrix
}

#[tokio::test]
async fn the_crash_matrix_finds_the_order_of_things() {
    let right = orders(false).await;
    println!("{right}");
    assert!(right.is_clean(), "{right}");
    assert_eq!(right.lines().len(), 5);

    // Charging before the note is durable is the fault that the matrix is there for.
    let wrong = orders(true).await;
    let faults: Vec<Option<CrashPoint>> =
        wrong.lines().iter().filter(|line| !line.check.holds()).map(|line| line.point).collect();
    assert_eq!(faults.len(), 1, "{wrong}");
    assert_eq!(faults.first().unwrap().unwrap().to_string(), "before commit 1");
    assert!(wrong.to_string().contains("2 charges  <- differs"), "{wrong}");
}

async fn keys(backend: &dyn Backend) -> Vec<String> {
    let rows = backend.range(vec![Range::new(NOTES)]).await.unwrap().remove(0);
    rows.iter().map(|row| String::from_utf8(row.key.to_vec()).unwrap()).collect()
}
