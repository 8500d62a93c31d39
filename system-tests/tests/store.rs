//! `RedbBackend` on disks that are full or read-only, and in folders of others.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nervekit_conversation_core::{Backend, BackendError, Maintenance, Range, Table, WriteSet};
use nervekit_store::RedbBackend;
use nervekit_types::BatchId;

const ROWS: Table = Table::new("rows");
const FOLDER: &str = "NERVEKIT_TEST_FOLDER";

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Runs a future and insists that it does not take more than a second.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    let start = Instant::now();
    let result = block_on(future);
    assert!(start.elapsed() < Duration::from_secs(1), "it took {:?}", start.elapsed());
    result
}

fn set(number: u32) -> WriteSet {
    let id = BatchId::from_key(&number.to_string());
    (0..3).fold(WriteSet::new(id), |set, row| {
        set.insert(ROWS, format!("{number:05}/{row}"), vec![u8::try_from(number % 251).unwrap(); 30_000])
    })
}

/// The numbers of the sets that are there, each whole.
fn stored(backend: &RedbBackend) -> Result<BTreeSet<u32>, BackendError> {
    let rows = at_once(backend.range(vec![Range::new(ROWS)]))?.remove(0);
    let numbers: Vec<u32> = rows
        .iter()
        .map(|row| std::str::from_utf8(row.key.get(..5).unwrap()).unwrap().parse().unwrap())
        .collect();
    let distinct: BTreeSet<u32> = numbers.iter().copied().collect();
    assert_eq!(numbers.len(), 3 * distinct.len(), "a set is there in part");
    Ok(distinct)
}

/// Runs the named test again, in another process that a command starts; there, `FOLDER` is set.
fn again(test: &str, folder: &Path, program: &str, arguments: &[&str]) {
    assert!(rustix::process::geteuid().is_root(), "this test needs root");
    // The other uid may not be allowed to reach the folder that the binary was built in.
    let binary = folder.join("test-binary");
    fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(&binary)
        .args(["--exact", test, "--nocapture"])
        .env(FOLDER, folder.join("work"));
    let output =
        command.output().unwrap_or_else(|error| unreachable!("this test needs `{program}`: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
    print!("{out}");
}

/// In a mount namespace of its own, so that nothing has to be cleaned up: the folder, with a disk of this size.
fn with_disk(test: &str, mebibytes: u32, scenario: impl FnOnce(&Path)) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let size = format!("size={mebibytes}m");
        mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], Path::new(&folder));
        return scenario(Path::new(&folder));
    }
    let folder = folder();
    again(test, folder.path(), "unshare", &["--mount", "--"]);
}

fn mount(arguments: &[&str], folder: &Path) {
    let status = Command::new("mount").args(arguments).arg(folder).status();
    assert!(status.unwrap().success(), "this test needs to mount a tmpfs");
}

/// A folder that everyone may enter, with an empty one in it that is root's.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("work")).unwrap();
    folder
}

/// Fills what is left of a disk.
fn fill(path: &Path) {
    let mut size = 1 << 20;
    let mut ballast = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    while size > 0 {
        if std::io::Write::write_all(&mut ballast, &vec![0; size]).is_err() {
            size /= 2;
        }
    }
}

fn expect(error: &BackendError, kind: &str) {
    assert_eq!(error.kind(), kind, "{error}: {error:?}");
    assert!(error.to_string().contains("store.redb"), "{error}");
}

#[test]
fn case_86_a_full_disk_loses_nothing_that_was_answered_for() {
    with_disk("case_86_a_full_disk_loses_nothing_that_was_answered_for", 8, |folder| {
        let path = folder.join("store.redb");
        let ballast = folder.join("ballast");
        fs::write(&ballast, vec![0; 3 << 20]).unwrap();
        let backend = at_once(RedbBackend::open(&path)).unwrap();
        let mut acknowledged = BTreeSet::new();
        let refused = (0..200).find(|number| match at_once(backend.write(vec![set(*number)])) {
            Ok(answers) => {
                assert!(answers.iter().all(Result::is_ok));
                acknowledged.insert(*number);
                false
            }
            Err(error) => {
                expect(&error, "full");
                true
            }
        });
        let refused = refused.unwrap();
        println!("full after {} batches", acknowledged.len());
        assert!(acknowledged.len() > 5);
        for _ in 0..5 {
            expect(&at_once(backend.write(vec![set(refused)])).unwrap_err(), "full");
            // A full store can be read.
            assert_eq!(stored(&backend).unwrap(), acknowledged);
            assert_eq!(at_once(backend.applied(BatchId::from_key(&refused.to_string()))).unwrap(), None);
        }

        fs::remove_file(&ballast).unwrap();
        at_once(backend.write(vec![set(refused)])).unwrap().remove(0).unwrap();
        acknowledged.insert(refused);
        assert_eq!(stored(&backend).unwrap(), acknowledged);
        assert!(block_on(backend.maintain(Maintenance::Verify)).unwrap().is_clean());

        // Closed and opened while there is no room at all: it opens, or says why not, and is whole afterwards.
        fill(&ballast);
        drop(backend);
        match at_once(RedbBackend::open(&path)) {
            Ok(backend) => assert_eq!(stored(&backend).unwrap(), acknowledged),
            Err(error) => expect(&error, "full"),
        }
        fs::remove_file(&ballast).unwrap();
        let backend = at_once(RedbBackend::open(&path)).unwrap();
        assert_eq!(stored(&backend).unwrap(), acknowledged);
        assert!(block_on(backend.maintain(Maintenance::Verify)).unwrap().is_clean());
    });
}

#[test]
fn case_86_a_store_is_not_begun_on_a_full_disk() {
    with_disk("case_86_a_store_is_not_begun_on_a_full_disk", 4, |folder| {
        let (path, ballast) = (folder.join("store.redb"), folder.join("ballast"));
        fill(&ballast);
        for _ in 0..3 {
            expect(&at_once(RedbBackend::open(&path)).unwrap_err(), "full");
            assert!(!path.exists());
        }
        fs::remove_file(&ballast).unwrap();
        let backend = at_once(RedbBackend::open(&path)).unwrap();
        at_once(backend.write(vec![set(1)])).unwrap().remove(0).unwrap();
        assert_eq!(stored(&backend).unwrap(), BTreeSet::from([1]));
    });
}

#[test]
fn case_86_a_read_only_file_system_is_unavailable_until_it_is_writable() {
    with_disk("case_86_a_read_only_file_system_is_unavailable_until_it_is_writable", 8, |folder| {
        let path = folder.join("store.redb");
        let backend = at_once(RedbBackend::open(&path)).unwrap();
        at_once(backend.write(vec![set(1)])).unwrap().remove(0).unwrap();
        drop(backend);
        mount(&["-o", "remount,ro"], folder);
        expect(&at_once(RedbBackend::open(&path)).unwrap_err(), "unavailable");
        let other = folder.join("new-store.redb");
        expect(&at_once(RedbBackend::open(&other)).unwrap_err(), "unavailable");
        mount(&["-o", "remount,rw"], folder);
        assert!(!other.exists());
        let backend = at_once(RedbBackend::open(&path)).unwrap();
        assert_eq!(stored(&backend).unwrap(), BTreeSet::from([1]));
    });
}

#[test]
fn folders_and_files_of_others_are_unavailable() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let folder = Path::new(&folder);
        // No new store in their folder, no store of theirs, but one that they have left open to us.
        expect(&at_once(RedbBackend::open(folder.join("new-store.redb"))).unwrap_err(), "unavailable");
        expect(&at_once(RedbBackend::open(folder.join("store.redb"))).unwrap_err(), "unavailable");
        let backend = at_once(RedbBackend::open(folder.join("shared-store.redb"))).unwrap();
        at_once(backend.write(vec![set(2)])).unwrap().remove(0).unwrap();
        assert_eq!(stored(&backend).unwrap(), BTreeSet::from([1, 2]));
        return;
    }
    let folder = folder();
    let work = folder.path().join("work");
    for name in ["store.redb", "shared-store.redb"] {
        let backend = at_once(RedbBackend::open(work.join(name))).unwrap();
        at_once(backend.write(vec![set(1)])).unwrap().remove(0).unwrap();
    }
    fs::set_permissions(work.join("shared-store.redb"), PermissionsExt::from_mode(0o666)).unwrap();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    again("folders_and_files_of_others_are_unavailable", folder.path(), "setpriv", &nobody);
    // Nothing was left behind, and root can go on.
    assert_eq!(fs::read_dir(&work).unwrap().count(), 2);
    let backend = at_once(RedbBackend::open(work.join("store.redb"))).unwrap();
    assert_eq!(stored(&backend).unwrap(), BTreeSet::from([1]));
}
