//! The whole contract, over SQLite.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use desktop_backend::SqliteBackend;
use nervekit::conversation::testing::backend_conformance::{Subject, match_model};
use nervekit::types::SystemClock;
use nervekit::types::testing::ManualClock;

async fn sqlite() -> Subject {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sqlite");
    let clock = Arc::new(ManualClock::default());
    let backend = SqliteBackend::open(&path, clock.clone()).await.unwrap();
    let kept = clock.clone();
    Subject::new(backend)
        .reopen(move || SqliteBackend::open(path.clone(), kept.clone()))
        .clock(clock)
        .keep(folder)
}

nervekit::conversation::backend_conformance!(async || sqlite().await);

#[tokio::test]
async fn a_long_random_program_matches_the_model() {
    match_model(sqlite().await, 2_000).await;
}

#[tokio::test]
async fn a_second_opening_is_told_that_the_store_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.sqlite");
    let first = SqliteBackend::open(&path, Arc::new(SystemClock)).await.unwrap();
    let second = SqliteBackend::open(&path, Arc::new(SystemClock)).await;
    assert_eq!(second.unwrap_err().kind(), "in_use");
    drop(first);
    SqliteBackend::open(&path, Arc::new(SystemClock)).await.unwrap();
}
