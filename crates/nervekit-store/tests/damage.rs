//! Files that are not what they should be.

#![cfg(feature = "redb")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::time::{Duration, Instant};

use nervekit_conversation_core::{Backend, BackendError, Maintenance, Range, Table, WriteSet};
use nervekit_store::RedbBackend;
use nervekit_types::testing::SeededEntropy;
use nervekit_types::{BatchId, Entropy, SystemEntropy};

const ROWS: Table = Table::new("rows");
/// No damage may make an opening hang.
const OPENING: Duration = Duration::from_secs(1);
/// Nor all that is done afterwards, with its syncs.
const PATIENCE: Duration = Duration::from_secs(5);

fn set(number: usize) -> WriteSet {
    let id = BatchId::from_key(&number.to_string());
    WriteSet::new(id).put(ROWS, format!("{number:04}"), vec![u8::try_from(number % 251).unwrap(); 700])
}

/// A store with 200 rows, closed.
async fn store(path: &Path) -> Vec<u8> {
    let backend = RedbBackend::open(path).await.unwrap();
    for batch in 0..20 {
        let sets = (0..10).map(|row| set(batch * 10 + row)).collect();
        assert!(backend.write(sets).await.unwrap().iter().all(Result::is_ok));
    }
    drop(backend);
    std::fs::read(path).unwrap()
}

/// Opens a damaged file and does everything with it: each step answers, or fails with an error that names the
/// file. What a verification finds clean is as it was. The number of rows, if all goes well.
async fn try_everything(path: &Path) -> Result<usize, BackendError> {
    let start = Instant::now();
    let result = async {
        let opened = RedbBackend::open(path).await;
        assert!(start.elapsed() < OPENING, "opening took {:?}", start.elapsed());
        let backend = opened?;
        backend.get(ROWS, b"0007").await?;
        let report = backend.maintain(Maintenance::Verify).await?;
        let rows = backend.range(vec![Range::new(ROWS)]).await?.remove(0);
        for (number, row) in rows.iter().enumerate().filter(|_| report.is_clean()) {
            assert_eq!(*row.key, *format!("{number:04}").as_bytes());
            assert_eq!(*row.value, [u8::try_from(number % 251).unwrap(); 700]);
        }
        backend.applied(BatchId::from_key("7")).await?;
        backend.maintain(Maintenance::Stats).await?;
        backend.write(vec![set(7)]).await?;
        backend.write(vec![set(1_000)]).await?;
        assert!(!report.is_clean() || rows.len() == 200 || rows.is_empty(), "{} rows", rows.len());
        Ok(rows.len())
    }
    .await;
    assert!(start.elapsed() < PATIENCE, "it took {:?}", start.elapsed());
    result.inspect_err(|error: &BackendError| {
        assert!(error.to_string().contains("store.redb"), "{error}");
        assert!(!matches!(error, BackendError::InUse { .. } | BackendError::Fenced { .. }), "{error}");
    })
}

#[tokio::test]
async fn case_86_what_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    for content in
        [b"".as_slice(), b"x", b"not a database, but long enough to look like one", &vec![0; 100_000]]
    {
        std::fs::write(&path, content).unwrap();
        let error = try_everything(&path).await.unwrap_err();
        assert_eq!(error.kind(), "corrupt", "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    std::fs::remove_file(&path).unwrap();

    std::fs::create_dir(&path).unwrap();
    let error = try_everything(&path).await.unwrap_err();
    assert_eq!(error.kind(), "corrupt", "{error}");
    std::fs::remove_dir(&path).unwrap();

    let error = RedbBackend::open(folder.path().join("no folder/store.redb")).await.unwrap_err();
    assert_eq!(error.kind(), "unavailable", "{error}");

    // The way is free again.
    assert_eq!(try_everything(&path).await.unwrap(), 0);
}

#[cfg(unix)]
#[tokio::test]
async fn case_76_a_pipe_in_place_of_the_file_does_not_hang() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = try_everything(&path).await.unwrap_err();
    assert_eq!(error.kind(), "corrupt", "{error}");
}

#[tokio::test]
async fn case_86_leftovers_of_a_process_killed_while_it_made_the_file_are_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    std::fs::write(folder.path().join("store.redb.new"), [7; 10_000]).unwrap();
    assert_eq!(try_everything(&path).await.unwrap(), 0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn case_86_truncated_files_are_typed_errors_or_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let whole = store(&path).await;
    let mut failed = 0;
    let pages = whole.len() / 4096;
    for length in [1, 8, 63, 320, whole.len() - 1].into_iter().chain((1..pages).map(|page| page * 4096)) {
        std::fs::write(&path, whole.get(..length).unwrap()).unwrap();
        match try_everything(&path).await {
            Ok(rows) => assert_eq!(rows, 200, "cut to {length} of {} bytes", whole.len()),
            Err(error) => {
                assert_eq!(error.kind(), "corrupt", "cut to {length} of {} bytes: {error}", whole.len());
                failed += 1;
            }
        }
    }
    assert!(failed > 5, "{failed} of {pages} cuts were noticed");
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(try_everything(&path).await.unwrap(), 200);
}

#[tokio::test]
async fn case_86_flipped_bytes_are_typed_errors_or_harmless() {
    let mut random = [0; 8];
    SystemEntropy.fill(&mut random);
    let given = std::env::var("NERVEKIT_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or(u64::from_be_bytes(random));
    println!("seed {seed}: NERVEKIT_SEED={seed} runs it again");
    let dice = SeededEntropy::new(seed);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let whole = store(&path).await;
    let (mut failed, mut opened) = (0, 0);
    // All over the header, then bytes anywhere.
    let anywhere = std::iter::repeat_with(|| usize::try_from(dice.next_u64()).unwrap() % whole.len());
    for at in (0..320).step_by(8).chain(anywhere.take(80)) {
        let mut bytes = whole.clone();
        *bytes.get_mut(at).unwrap() ^= u8::try_from(dice.next_u64() % 255 + 1).unwrap();
        std::fs::write(&path, bytes).unwrap();
        match try_everything(&path).await {
            Ok(_) => opened += 1,
            Err(error) => {
                assert!(matches!(error.kind(), "corrupt" | "unavailable"), "byte {at}: {error}");
                failed += 1;
            }
        }
    }
    println!("{failed} flips were noticed, {opened} did not matter to what was read");
    assert!(failed > 10);
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(try_everything(&path).await.unwrap(), 200);
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    drop(RedbBackend::open(&path).await.unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
