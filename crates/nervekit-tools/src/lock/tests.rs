use nervekit_permissions::testing::AllowEverything;
use nervekit_permissions::{
    CallOrigin, EffectiveArguments, PermissionEngine, ProposedCall, Risk, Roots, TargetSelector,
    ToolDescriptor, ToolKind,
};
use serde_json::json;

use super::*;

fn decided(folder: &std::path::Path, paths: &[&str]) -> Vec<DecidedPath> {
    let tool = ToolDescriptor::new("touch", ToolKind::Filesystem, Risk::Write)
        .target(TargetSelector::path("paths").write());
    let arguments = EffectiveArguments::new(json!({"paths": paths})).unwrap();
    let call = ProposedCall::new(tool, arguments, CallOrigin::Model, "autonomous").working_directory(folder);
    let evaluation = AllowEverything::new(Roots::new().project(folder)).evaluate(call);
    evaluation.targets.into_iter().filter_map(|target| target.path).collect()
}

fn entries(locks: &MutationLocks) -> usize {
    locks.locks.lock().unwrap().len()
}

#[tokio::test]
async fn two_spellings_of_a_file_share_a_lock_and_locks_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("d")).unwrap();
    let paths = decided(folder.path(), &["f", "./f", "d/../f", "g"]);
    let locks = MutationLocks::default();
    let guard = locks.acquire(&paths).await.unwrap();
    assert_eq!((guard.len(), entries(&locks)), (2, 2));
    let second = decided(folder.path(), &["d/../f"]);
    let waiting = {
        let locks = locks.clone();
        tokio::spawn(async move { locks.acquire(&second).await.map(|guard| guard.len()) })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(guard);
    assert_eq!(waiting.await.unwrap().unwrap(), 1);
    assert_eq!(entries(&locks), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_in_opposite_orders_never_wait_for_each_other_and_never_meet() {
    let folder = tempfile::tempdir().unwrap();
    let locks = MutationLocks::default();
    let inside = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let calls = (0..200).map(|n| {
        let names = if n % 2 == 0 { ["a", "new/b"] } else { ["new/b", "a"] };
        let (paths, locks, inside) = (decided(folder.path(), &names), locks.clone(), inside.clone());
        let new = folder.path().join("new");
        tokio::spawn(async move {
            let _guard = locks.acquire(&paths).await.unwrap();
            assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
            // What names `new/b` changes when the folder appears.
            std::fs::create_dir_all(new).unwrap();
            tokio::task::yield_now().await;
            inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        tokio::time::timeout(std::time::Duration::from_secs(20), call).await.unwrap().unwrap();
    }
    assert_eq!(entries(&locks), 0);
}

#[tokio::test]
async fn whoever_gives_up_waiting_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let paths = decided(folder.path(), &["f"]);
    let locks = MutationLocks::default();
    let guard = locks.acquire(&paths).await.unwrap();
    let waiting = tokio::time::timeout(std::time::Duration::from_millis(10), locks.acquire(&paths)).await;
    assert!(waiting.is_err());
    drop(guard);
    assert_eq!(entries(&locks), 0);
    assert_eq!(locks.acquire(&paths).await.unwrap().len(), 1);
}
