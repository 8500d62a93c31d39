//! A disk that fails at each of its operations in turn.

use std::collections::BTreeSet;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nervekit_conversation_core::Range;
use redb::StorageBackend;
use redb::backends::FileBackend;

use super::file::Medium;
use super::*;

const NOTES: Table = Table::new("notes");

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Write,
    Resize,
    Sync,
    Read,
}

/// A disk that fails one operation, the n-th of its kind, and works again afterwards.
#[derive(Clone, Debug)]
struct Failing {
    operation: Operation,
    kind: io::ErrorKind,
    /// How many more of them succeed; counts on beyond the failure.
    left: Arc<AtomicU64>,
    /// Whether a failed write has written the first half.
    torn: bool,
    /// While it is set, no sync ends.
    stuck: Arc<AtomicBool>,
}

impl Failing {
    fn new(operation: Operation, kind: io::ErrorKind, torn: bool) -> Self {
        let (left, stuck) = (Arc::new(AtomicU64::new(u64::MAX / 4)), Arc::default());
        Self { operation, kind, left, torn, stuck }
    }

    fn fail_after(&self, successes: u64) {
        self.left.store(successes, Ordering::SeqCst);
    }

    fn check(&self, operation: Operation) -> io::Result<()> {
        if operation == self.operation && self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
            return Err(self.kind.into());
        }
        Ok(())
    }

    fn has_failed(&self) -> bool {
        self.left.load(Ordering::SeqCst) > u64::MAX / 2
    }
}

impl Medium for Failing {
    fn storage(&self, file: FileBackend) -> Box<dyn StorageBackend> {
        Box::new(FailingFile { plan: self.clone(), file })
    }
}

#[derive(Debug)]
struct FailingFile {
    plan: Failing,
    file: FileBackend,
}

impl StorageBackend for FailingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.plan.check(Operation::Read)?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.plan.check(Operation::Resize)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        // It ends some time, so that a failing test does too.
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while self.plan.stuck.load(Ordering::SeqCst) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        // The process goes on, so nothing has to reach the disk itself; not syncing makes the test fast.
        self.plan.check(Operation::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.plan.check(Operation::Write).inspect_err(|_| {
            if self.plan.torn {
                self.file.write(offset, data.split_at(data.len() / 2).0).unwrap();
            }
        })?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, redb::BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), redb::BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, redb::BackendError> {
        self.file.query_lock_range(start, end)
    }
}

fn options(path: &Path, medium: impl Medium + 'static) -> RedbOptions {
    let mut options = RedbBackend::options(path);
    options.source.medium = Arc::new(medium);
    options
}

fn batch(round: u32) -> BatchId {
    BatchId::from_key(&round.to_string())
}

/// Large enough that the file has to grow.
fn set(round: u32) -> WriteSet {
    sized(round, 20_000)
}

/// So small that the file has room for it: redb syncs the file when it grows, and readers wait for that.
fn small(round: u32) -> WriteSet {
    sized(round, 10)
}

fn sized(round: u32, bytes: usize) -> WriteSet {
    (0..3).fold(WriteSet::new(batch(round)), |set, row| {
        set.insert(NOTES, format!("{round:03}/{row}"), vec![u8::try_from(round).unwrap(); bytes])
    })
}

async fn rounds(backend: &RedbBackend) -> BTreeSet<u32> {
    let rows = backend.range(vec![Range::new(NOTES)]).await.unwrap().remove(0);
    let mut rounds = std::collections::BTreeMap::<u32, usize>::new();
    for row in rows {
        *rounds
            .entry(std::str::from_utf8(row.key.get(..3).unwrap()).unwrap().parse().unwrap())
            .or_default() += 1;
    }
    assert!(rounds.values().all(|rows| *rows == 3), "a set is there in part: {rounds:?}");
    rounds.into_keys().collect()
}

/// Writes while the disk fails once, and checks what each answer promised. False if it never came to that.
async fn survives(operation: Operation, kind: io::ErrorKind, nth: u64, torn: bool) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let medium = Failing::new(operation, kind, torn);
    drop(options(&path, medium.clone()).open().await.unwrap());
    medium.fail_after(nth);
    let case = format!("{operation:?} {nth} fails with {kind:?}, torn: {torn}");
    let backend = match options(&path, medium.clone()).open().await {
        Ok(backend) => backend,
        Err(error) => {
            assert!(error.store().ends_with("store.redb"), "{case}: {error}");
            assert_ne!(error.kind(), "in_use", "{case}: {error}");
            RedbBackend::open(&path).await.unwrap_or_else(|error| unreachable!("{case}: {error}"));
            return true;
        }
    };
    let opening = backend.facts().opening;
    let (mut applied, mut refused, mut unknown) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for round in 0..4 {
        match backend.write(vec![set(round)]).await {
            Ok(answers) => assert!(answers.iter().all(Result::is_ok) && applied.insert(round), "{case}"),
            Err(error) if error.kind() == "unknown" => assert!(unknown.insert(round)),
            Err(error) => {
                let due = if kind == io::ErrorKind::StorageFull { "full" } else { "unavailable" };
                assert_eq!(error.kind(), due, "{case}: {error}");
                assert!(refused.insert(round));
            }
        }
    }
    let failed = medium.has_failed();
    medium.fail_after(u64::MAX / 4);
    assert!(unknown.is_empty() || operation == Operation::Sync, "{case}: {unknown:?}");
    assert!(refused.len() + unknown.len() <= 1, "{case}: one failure, {refused:?} {unknown:?}");
    for round in unknown {
        // The question that the contract says to ask; the backend has found its own way back to the file.
        if backend.applied(batch(round)).await.unwrap().is_some() {
            applied.insert(round);
        }
    }
    assert_eq!(rounds(&backend).await, applied, "{case}");
    for round in &refused {
        assert_eq!(backend.applied(batch(*round)).await.unwrap(), None, "{case}");
        backend.write(vec![set(*round)]).await.unwrap().remove(0).unwrap();
        applied.insert(*round);
    }
    assert_eq!(backend.facts().opening, opening);
    assert!(backend.maintain(Maintenance::Verify).await.unwrap().is_clean(), "{case}");
    drop(backend);
    let backend = options(&path, medium).open().await.unwrap();
    assert_eq!(rounds(&backend).await, applied, "{case}");
    failed
}

#[tokio::test]
async fn a_disk_that_fails_at_any_operation_loses_nothing_it_answered_for() {
    let mut failures = 0;
    for (operation, kind, torn) in [
        (Operation::Write, io::ErrorKind::StorageFull, false),
        (Operation::Write, io::ErrorKind::Other, true),
        (Operation::Resize, io::ErrorKind::StorageFull, false),
        (Operation::Sync, io::ErrorKind::Other, false),
        (Operation::Read, io::ErrorKind::Other, false),
    ] {
        for nth in 0.. {
            if !survives(operation, kind, nth, torn).await {
                println!("{operation:?} fails with {kind:?}, torn: {torn}: {nth} points");
                break;
            }
            failures += 1;
        }
    }
    assert!(failures > 50, "only {failures} failures");
}

/// Begins to write these sets, each by a caller of its own, so that they wait behind each other in this order, and
/// lets the writer go on only when all are there.
async fn together(
    backend: &RedbBackend,
    sets: Vec<WriteSet>,
) -> Vec<Result<Vec<Result<CommitNumber, Refused>>, BackendError>> {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    backend.writer.as_ref().unwrap().send(Job::Run(Box::new(move |_| {
        // Ends when the sender is dropped.
        let _ = wait.recv();
    })));
    let mut writes: Vec<_> = sets.into_iter().map(|set| backend.write(vec![set])).collect();
    for write in &mut writes {
        let pending = std::future::poll_fn(|context| std::task::Poll::Ready(write.as_mut().poll(context)));
        assert!(pending.await.is_pending());
    }
    drop(go);
    futures_util::future::join_all(writes).await
}

#[tokio::test]
async fn writes_that_wait_together_share_one_sync() {
    let folder = tempfile::tempdir().unwrap();
    let medium = Failing::new(Operation::Sync, io::ErrorKind::Other, false);
    let backend = options(&folder.path().join("store.redb"), medium.clone()).open().await.unwrap();
    backend.write(vec![set(0)]).await.unwrap().remove(0).unwrap();

    medium.fail_after(1);
    // One of them is refused, which harms no other.
    let refused = WriteSet::new(BatchId::from_key("refused")).insert(NOTES, "000/0", "");
    let sets = (1..40).map(small).chain([refused]).chain((40..60).map(small));
    let answers = together(&backend, sets.collect()).await;
    for (index, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap().remove(0).is_ok(), index != 39, "{index}");
    }
    assert!(!medium.has_failed(), "there was a second sync");
    medium.fail_after(u64::MAX / 4);
    assert_eq!(rounds(&backend).await.len(), 60);
}

#[tokio::test]
async fn when_the_shared_commit_fails_every_caller_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let medium = Failing::new(Operation::Write, io::ErrorKind::StorageFull, false);
    let backend = options(&folder.path().join("store.redb"), medium.clone()).open().await.unwrap();
    backend.write(vec![set(0)]).await.unwrap().remove(0).unwrap();
    medium.fail_after(3);
    let answers = together(&backend, (1..30).map(set).collect()).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap_err().kind() == "full"), "{answers:?}");
    assert_eq!(rounds(&backend).await, BTreeSet::from([0]));
    let answers = together(&backend, (1..30).map(set).collect()).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap().remove(0).is_ok()));
    assert_eq!(rounds(&backend).await.len(), 30);
}

#[tokio::test]
async fn nothing_is_readable_before_it_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let medium = Failing::new(Operation::Sync, io::ErrorKind::Other, false);
    let backend = Arc::new(options(&folder.path().join("store.redb"), medium.clone()).open().await.unwrap());
    backend.write(vec![set(0)]).await.unwrap().remove(0).unwrap();
    medium.stuck.store(true, Ordering::SeqCst);
    let left = medium.left.load(Ordering::SeqCst);
    let writer = backend.clone();
    let write = tokio::spawn(async move { writer.write(vec![small(1)]).await });
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(backend.get(NOTES, b"001/0").await.unwrap(), None);
    }
    assert!(!write.is_finished() && medium.left.load(Ordering::SeqCst) == left);
    medium.stuck.store(false, Ordering::SeqCst);
    write.await.unwrap().unwrap().remove(0).unwrap();
    assert_eq!(rounds(&backend).await, BTreeSet::from([0, 1]));
}

#[tokio::test]
async fn a_store_that_another_opening_took_over_is_fenced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let first = RedbBackend::open(&path).await.unwrap();
    first.write(vec![set(0)]).await.unwrap().remove(0).unwrap();
    // It loses the file, and cannot open it again before the second one has.
    first.connection.with(|_| Err::<(), _>(io::Error::other("lost").into())).unwrap_err();
    let second = RedbBackend::open(&path).await.unwrap();
    assert_eq!(first.write(vec![set(1)]).await.unwrap_err().kind(), "in_use");
    assert_eq!(first.get(NOTES, b"000/0").await.unwrap_err().kind(), "in_use");
    second.write(vec![set(2)]).await.unwrap().remove(0).unwrap();
    drop(second);

    for _ in 0..2 {
        assert_eq!(first.write(vec![set(3)]).await.unwrap_err().kind(), "fenced");
        assert_eq!(first.get(NOTES, b"000/0").await.unwrap_err().kind(), "fenced");
        assert_eq!(first.applied(batch(0)).await.unwrap_err().kind(), "fenced");
        assert_eq!(first.maintain(Maintenance::Verify).await.unwrap_err().kind(), "fenced");
    }
    let third = RedbBackend::open(&path).await.unwrap();
    assert_eq!(rounds(&third).await, BTreeSet::from([0, 2]));
}

#[tokio::test]
async fn a_file_that_is_gone_is_not_made_anew_by_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let backend = RedbBackend::open(&path).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    backend.connection.with(|_| Err::<(), _>(io::Error::other("lost").into())).unwrap_err();
    assert_eq!(backend.write(vec![set(0)]).await.unwrap_err().kind(), "unavailable");
    assert!(!path.exists());
    // A store in its place is not ours.
    drop(RedbBackend::open(&path).await.unwrap());
    assert_eq!(backend.write(vec![set(0)]).await.unwrap_err().kind(), "fenced");
}

#[tokio::test]
async fn a_panic_in_redb_is_a_finding_about_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let backend = RedbBackend::open(&path).await.unwrap();
    backend.write(vec![set(0)]).await.unwrap().remove(0).unwrap();
    let failure =
        backend.connection.with::<()>(|_| std::panic::panic_any("an assertion of redb")).unwrap_err();
    let error = failure.into_error(&backend.connection.store);
    assert_eq!(error.kind(), "corrupt");
    assert!(error.to_string().contains("store.redb") && error.to_string().contains("an assertion of redb"));
    // The next call opens the file again, and finds it whole.
    assert_eq!(rounds(&backend).await, BTreeSet::from([0]));
}

#[tokio::test]
async fn newer_and_older_layouts_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let backend = RedbBackend::open(&path).await.unwrap();
    backend.write(vec![set(0)]).await.unwrap().remove(0).unwrap();
    drop(backend);
    let mark = |marker: Option<Vec<u8>>| {
        let database = redb::Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        match marker {
            Some(marker) => {
                transaction.open_table(layout::META).unwrap().insert("format", &*marker).unwrap();
            }
            None => drop(transaction.open_table(layout::META).unwrap().remove("format").unwrap()),
        }
        transaction.commit().unwrap();
    };
    let version = |oldest: u32, newest: u32| {
        Some([b"nervekit".as_slice(), &oldest.to_be_bytes(), &newest.to_be_bytes()].concat())
    };
    for (marker, said) in [
        (version(1, 2), "layout version 2 is newer than 1"),
        (version(0, 1), "layout version 0 is older than 1"),
        (Some(b"nervekit".to_vec()), "not one of nervekit"),
        (Some(b"somebody00000000".to_vec()), "not one of nervekit"),
        (None, "marker is missing"),
    ] {
        mark(marker);
        let before = std::fs::read(&path).unwrap();
        let error = RedbBackend::open(&path).await.unwrap_err();
        assert_eq!(error.kind(), "corrupt");
        assert!(error.to_string().contains(said) && error.to_string().contains("store.redb"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap().len(), before.len());
    }
    mark(version(1, 1));
    assert_eq!(rounds(&RedbBackend::open(&path).await.unwrap()).await, BTreeSet::from([0]));

    let other = folder.path().join("other.redb");
    drop(redb::Database::create(&other).unwrap());
    let error = RedbBackend::open(&other).await.unwrap_err();
    assert!(error.to_string().contains("a redb file of another program"), "{error}");
}

#[tokio::test]
async fn a_crash_while_nothing_is_written_needs_no_repair() {
    let folder = tempfile::tempdir().unwrap();
    let (path, image) = (folder.path().join("store.redb"), folder.path().join("image.redb"));
    let backend = RedbBackend::open(&path).await.unwrap();
    backend.write(vec![set(0)]).await.unwrap().remove(0).unwrap();
    // What a killed process leaves is what the file holds.
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    let mut repaired = true;
    while repaired && std::time::Instant::now() < deadline {
        std::fs::copy(&path, &image).unwrap();
        let seen = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let note = seen.clone();
        let opened = redb::Builder::new()
            .set_repair_callback(move |_| note.store(true, Ordering::SeqCst))
            .open(&image);
        repaired = opened.is_err() || seen.load(Ordering::SeqCst);
    }
    assert!(!repaired);
    let reopened = RedbBackend::open(&image).await.unwrap();
    assert_eq!(rounds(&reopened).await, BTreeSet::from([0]));
    backend.write(vec![set(1)]).await.unwrap().remove(0).unwrap();
    assert_eq!(rounds(&backend).await, BTreeSet::from([0, 1]));
}
