//! Processes that are killed, that overlap, and that leave children behind.

#![cfg(all(unix, feature = "redb"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nervekit_conversation_core::{Backend, BackendError, Maintenance, Range, Table, WriteSet};
use nervekit_store::RedbBackend;
use nervekit_types::testing::SeededEntropy;
use nervekit_types::{BatchId, Entropy, SystemEntropy};

const ROWS: Table = Table::new("rows");
const STORE: &str = "NERVEKIT_TEST_STORE";
const ROLE: &str = "NERVEKIT_TEST_ROLE";

/// One batch of a child: which run of it, which thread, and which in that thread.
type Batch = (u64, u64, u64);

fn id((run, thread, number): Batch) -> BatchId {
    BatchId::from_key(&format!("{run} {thread} {number}"))
}

/// Three rows, which are there together or not at all, and one that all batches of a thread change.
fn set(batch: Batch) -> WriteSet {
    let (run, thread, number) = batch;
    let length = usize::try_from(number * 37 % 5_000).unwrap();
    (0..3)
        .fold(WriteSet::new(id(batch)), |set, row| {
            set.insert(ROWS, format!("{run:04}/{thread:02}/{number:08}/{row}"), vec![b'x'; length])
        })
        .put(Table::new("heads"), format!("{thread:02}"), format!("{run} {number}"))
}

fn child(role: &str, path: &Path, run: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "the_other_process", "--nocapture"]);
    command.env(STORE, path).env(ROLE, format!("{role} {run}")).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn say(line: &str) {
    // Not `println!`, which the test harness may keep to itself; one write, so that lines stay whole.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n#{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The lines that a child has said.
fn said(out: impl Read) -> impl Iterator<Item = String> {
    BufReader::new(out)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix('#').map(str::to_owned))
}

/// What the child processes of the tests below run; by itself it does nothing.
#[test]
fn the_other_process() {
    let (Some(path), Ok(role)) = (std::env::var_os(STORE), std::env::var(ROLE)) else { return };
    let (role, run) = role.split_once(' ').unwrap();
    let run = run.parse().unwrap();
    let backend = match block_on(RedbBackend::open(path)) {
        Ok(backend) => backend,
        Err(error) => return say(error.kind()),
    };
    match role {
        "commit" => std::thread::scope(|scope| {
            for thread in 0..16 {
                let backend = &backend;
                scope.spawn(move || {
                    for number in 0.. {
                        let batch = (run, thread, number);
                        block_on(backend.write(vec![set(batch)])).unwrap().remove(0).unwrap();
                        say(&format!("{run} {thread} {number}"));
                    }
                });
            }
        }),
        "open" => {
            block_on(backend.write(vec![set((run, 0, 0))])).unwrap().remove(0).unwrap();
            let _ = std::io::stdin().read(&mut [0]);
        }
        "hold" => {
            // As a tool would: a child that outlives its parent and has inherited what it could.
            #[expect(clippy::zombie_processes, reason = "it is to outlive this process; the test ends it")]
            let tool =
                Command::new("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
            block_on(backend.write(vec![set((run, 0, 0))])).unwrap().remove(0).unwrap();
            say(&format!("held {}", tool.id()));
            let _ = std::io::stdin().read(&mut [0]);
        }
        other => unreachable!("{other}"),
    }
}

/// Kills its process at the end of the test, whatever comes of that.
struct Killed(Child);

impl Killed {
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill();
    }
}

fn dice() -> SeededEntropy {
    let mut random = [0; 8];
    SystemEntropy.fill(&mut random);
    let given = std::env::var("NERVEKIT_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or(u64::from_be_bytes(random));
    println!("seed {seed}: NERVEKIT_SEED={seed} runs it again");
    SeededEntropy::new(seed)
}

/// Opens a store after its process is gone, at once, and checks it against what was acknowledged.
fn check(path: &Path, acknowledged: &BTreeSet<Batch>) -> Duration {
    let start = Instant::now();
    let backend = block_on(RedbBackend::open(path)).unwrap();
    let took = start.elapsed();
    let rows = block_on(backend.range(vec![Range::new(ROWS)])).unwrap().remove(0);
    let mut batches = BTreeMap::<Batch, BTreeSet<_>>::new();
    for row in rows {
        let key = std::str::from_utf8(&row.key).unwrap();
        let mut parts = key.split('/').map(|part| part.parse::<u64>().unwrap());
        let batch = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        batches.entry(batch).or_default().insert((parts.next().unwrap(), row.version));
    }
    for (batch, rows) in &batches {
        let number = block_on(backend.applied(id(*batch))).unwrap().unwrap();
        let whole = (0..3).map(|row| (row, number)).collect();
        assert_eq!(*rows, whole, "batch {batch:?} is there in part");
    }
    for batch in acknowledged {
        assert!(batches.contains_key(batch), "batch {batch:?} was acknowledged and is gone");
    }
    let report = block_on(backend.maintain(Maintenance::Verify)).unwrap();
    assert!(report.is_clean(), "{report:?}");
    took
}

#[test]
fn case_86_killed_processes_lose_no_acknowledged_batch() {
    const KILLS: u64 = 40;
    let dice = dice();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let mut acknowledged = BTreeSet::new();
    let mut slowest = Duration::ZERO;
    for run in 0..KILLS {
        let mut process = Killed(child("commit", &path, run).spawn().unwrap());
        let out = process.0.stdout.take().unwrap();
        let count = AtomicU64::new(0);
        let heard: Vec<Batch> = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let heard = said(out).inspect(|_| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
                heard
                    .map(|line| {
                        let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
                        (numbers.next().unwrap(), numbers.next().unwrap(), numbers.next().unwrap())
                    })
                    .collect()
            });
            // Every fourth one is killed at any time since its start, the others while they commit.
            if run % 4 != 0 {
                let deadline = Instant::now() + Duration::from_secs(20);
                while count.load(Ordering::Relaxed) == 0 && Instant::now() < deadline {
                    std::thread::yield_now();
                }
            }
            std::thread::sleep(Duration::from_micros(dice.next_u64() % 60_000));
            process.kill();
            reader.join().unwrap()
        });
        assert!(run % 4 == 0 || !heard.is_empty(), "run {run} committed nothing");
        acknowledged.extend(heard);
        slowest = slowest.max(check(&path, &acknowledged));
    }
    println!("{KILLS} kills, {} acknowledged batches, slowest opening {slowest:?}", acknowledged.len());
}

#[test]
fn case_86_a_process_killed_while_it_makes_the_file_leaves_none_or_a_whole_one() {
    let dice = dice();
    let (mut none, mut whole) = (0, 0);
    for run in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.redb");
        let mut process = Killed(child("open", &path, run).spawn().unwrap());
        // Until it begins the file, and then a moment.
        let deadline = Instant::now() + Duration::from_secs(20);
        while std::fs::read_dir(folder.path()).unwrap().next().is_none() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(dice.next_u64() % 8_000));
        process.kill();
        if path.exists() {
            whole += 1;
        } else {
            none += 1;
        }
        check(&path, &BTreeSet::new());
    }
    println!("{none} without a file, {whole} with one");
}

fn kill_tool(line: &str) {
    let tool = line.strip_prefix("held ").unwrap();
    assert!(Command::new("kill").args(["-9", tool]).status().unwrap().success());
}

/// Starts a process that holds the store, and a tool of it.
fn holder(path: &Path) -> (Killed, String) {
    let mut process = Killed(child("hold", path, 1).spawn().unwrap());
    let held = said(process.0.stdout.take().unwrap()).next().unwrap();
    assert!(held.starts_with("held "), "{held}");
    (process, held)
}

fn in_use(path: &Path) {
    let start = Instant::now();
    let error = block_on(RedbBackend::open(path)).unwrap_err();
    assert!(matches!(error, BackendError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("store.redb"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn case_88_a_second_opening_in_one_process_is_in_use_until_the_first_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let first = block_on(RedbBackend::open(&path)).unwrap();
    in_use(&path);
    block_on(first.write(vec![set((1, 0, 0))])).unwrap().remove(0).unwrap();
    let before = first.facts().opening;
    drop(first);
    let second = block_on(RedbBackend::open(&path)).unwrap();
    assert_ne!(second.facts().opening, before);
    assert!(block_on(second.applied(id((1, 0, 0)))).unwrap().is_some());
}

#[test]
fn case_88_a_path_through_a_link_is_the_same_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let link = folder.path().join("link-to-store.redb");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    // A link to nothing is a mistake, or a store that is gone: nothing is made in its place.
    let error = block_on(RedbBackend::open(&link)).unwrap_err();
    assert_eq!(error.kind(), "corrupt");
    assert!(link.is_symlink() && !path.exists());

    let first = block_on(RedbBackend::open(&path)).unwrap();
    in_use(&link);
    drop(first);
    let second = block_on(RedbBackend::open(&link)).unwrap();
    in_use(&path);
    drop(second);
}

#[test]
fn case_88_another_process_is_in_use_until_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let (mut process, tool) = holder(&path);
    in_use(&path);
    process.kill();
    // The tool that the process has started is still there, and holds nothing.
    check(&path, &BTreeSet::from([(1, 0, 0)]));
    kill_tool(&tool);
}

#[test]
fn case_88_a_child_process_is_refused_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let first = block_on(RedbBackend::open(&path)).unwrap();
    let mut process = Killed(child("hold", &path, 1).spawn().unwrap());
    assert_eq!(said(process.0.stdout.take().unwrap()).next().unwrap(), "in_use");
    drop(first);
}

#[test]
fn case_88_waiting_for_the_lock_ends_when_it_is_free_or_the_time_is_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let (mut process, tool) = holder(&path);
    let start = Instant::now();
    let wait = |time| RedbBackend::options(&path).lock_wait(time).open();
    let error = block_on(wait(Duration::from_millis(200))).unwrap_err();
    assert_eq!(error.kind(), "in_use");
    assert!(start.elapsed() >= Duration::from_millis(200));

    let opened = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(wait(Duration::from_secs(30))));
        process.kill();
        waiting.join().unwrap()
    });
    assert!(block_on(opened.unwrap().applied(id((1, 0, 0)))).unwrap().is_some());
    kill_tool(&tool);
}

#[test]
fn dropping_an_opening_that_waits_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let first = block_on(RedbBackend::open(&path)).unwrap();
    let start = Instant::now();
    let mut opening = Box::pin(RedbBackend::options(&path).lock_wait(Duration::from_secs(600)).open());
    let polled = block_on(std::future::poll_fn(|context| {
        std::task::Poll::Ready(opening.as_mut().poll(context).is_pending())
    }));
    assert!(polled);
    drop(opening);
    assert!(start.elapsed() < Duration::from_secs(60));
    drop(first);
    block_on(RedbBackend::open(&path)).unwrap();
}
