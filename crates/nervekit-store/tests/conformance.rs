//! `RedbBackend` against the contract.

#![cfg(feature = "redb")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use nervekit_conversation_core::testing::backend_conformance::{Subject, match_model};
use nervekit_store::RedbBackend;
use nervekit_types::testing::ManualClock;

async fn redb() -> Subject {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::default());
    let options = RedbBackend::options(folder.path().join("store.redb")).clock(clock.clone());
    let backend = options.clone().open().await.unwrap();
    Subject::new(backend).reopen(move || options.clone().open()).clock(clock).keep(folder)
}

nervekit_conversation_core::backend_conformance!(async || redb().await);

#[tokio::test]
async fn a_long_random_program_matches_the_model() {
    match_model(redb().await, 5_000).await;
}
