//! What a durable commit costs, beside a bare transaction that writes the same rows on the same file system.
//!
//! The contestants take turns, a short round each, so that whatever else the machine does at the time meets
//! them all; what counts is the ratio of their medians. `cargo bench -p nervekit-store --bench commit`

#![expect(clippy::unwrap_used, reason = "a benchmark")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nervekit_conversation_core::{Backend, Change, Table, WriteSet};
use nervekit_store::RedbBackend;
use nervekit_types::{BatchId, RawId};
use redb::{Database, TableDefinition};
use rusqlite::{Connection, params};
use tokio::runtime::Runtime;

const ROUNDS: usize = 25;
const COMMITS: u64 = 60;
const WRITERS: u64 = 64;

const EVENTS: Table = Table::new("events");
const CONVERSATIONS: Table = Table::new("conversations");
const INDEX: Table = Table::new("unfinished");

/// One event of a conversation: the event, the conversation's row, and an index entry.
fn set(conversation: u64, number: u64) -> WriteSet {
    let id = BatchId::from_raw(RawId::from_u128(u128::from(conversation) << 64 | u128::from(number)));
    let name = format!("conv_{conversation:020}");
    WriteSet::new(id)
        .insert(EVENTS, format!("{name}/{number:016}"), vec![b'e'; 600])
        .put(CONVERSATIONS, name.clone(), vec![b'c'; 300])
        .put(INDEX, name, vec![b'i'; 20])
}

/// A contestant commits so many events.
trait Contestant {
    fn name(&self) -> &'static str;
    fn round(&mut self, first: u64) -> Duration;
}

struct BareRedb(Database);

impl Contestant for BareRedb {
    fn name(&self) -> &'static str {
        "bare redb, one at a time"
    }

    fn round(&mut self, first: u64) -> Duration {
        let sets: Vec<WriteSet> = (first..first + COMMITS).map(|number| set(0, number)).collect();
        let start = Instant::now();
        for set in sets {
            let transaction = self.0.begin_write().unwrap();
            for write in set.writes {
                let Change::Put(value) = write.change else { unreachable!() };
                let table: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new(write.table.name());
                transaction.open_table(table).unwrap().insert(&*write.key, &*value).unwrap();
            }
            transaction.commit().unwrap();
        }
        start.elapsed()
    }
}

struct BareSqlite(Connection);

impl BareSqlite {
    fn open(path: &Path) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch("pragma journal_mode = wal; pragma synchronous = full;").unwrap();
        for table in [EVENTS, CONVERSATIONS, INDEX] {
            let create =
                format!("create table {table} (key blob primary key, value blob not null) without rowid");
            connection.execute_batch(&create).unwrap();
        }
        Self(connection)
    }
}

impl Contestant for BareSqlite {
    fn name(&self) -> &'static str {
        "bare SQLite (WAL, synchronous = FULL), one at a time"
    }

    fn round(&mut self, first: u64) -> Duration {
        let sets: Vec<WriteSet> = (first..first + COMMITS).map(|number| set(0, number)).collect();
        let start = Instant::now();
        for set in sets {
            let transaction = self.0.transaction().unwrap();
            for write in set.writes {
                let Change::Put(value) = write.change else { unreachable!() };
                let insert = format!("insert or replace into {} values (?1, ?2)", write.table);
                let mut insert = transaction.prepare_cached(&insert).unwrap();
                insert.execute(params![&*write.key, &*value]).unwrap();
            }
            transaction.commit().unwrap();
        }
        start.elapsed()
    }
}

struct OneAtATime(Arc<RedbBackend>, Arc<Runtime>);

impl Contestant for OneAtATime {
    fn name(&self) -> &'static str {
        "RedbBackend, one conversation"
    }

    fn round(&mut self, first: u64) -> Duration {
        let sets: Vec<WriteSet> = (first..first + COMMITS).map(|number| set(0, number)).collect();
        self.1.block_on(async {
            let start = Instant::now();
            for set in sets {
                self.0.write(vec![set]).await.unwrap().remove(0).unwrap();
            }
            start.elapsed()
        })
    }
}

struct ManyAtOnce(Arc<RedbBackend>, Arc<Runtime>);

impl Contestant for ManyAtOnce {
    fn name(&self) -> &'static str {
        "RedbBackend, 64 conversations at once"
    }

    fn round(&mut self, first: u64) -> Duration {
        self.1.block_on(async {
            let start = Instant::now();
            let writers: Vec<_> = (1..=WRITERS)
                .map(|conversation| {
                    let backend = self.0.clone();
                    tokio::spawn(async move {
                        for number in first..first + COMMITS {
                            backend.write(vec![set(conversation, number)]).await.unwrap().remove(0).unwrap();
                        }
                    })
                })
                .collect();
            for writer in writers {
                writer.await.unwrap();
            }
            // For as many events as the others commit in a round.
            start.elapsed() / u32::try_from(WRITERS).unwrap()
        })
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() {
    // `cargo test --benches` asks whether it runs at all.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { ROUNDS } else { 1 };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let runtime = Arc::new(tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap());
    let open = |name: &str| Arc::new(runtime.block_on(RedbBackend::open(folder.path().join(name))).unwrap());
    let mut contestants: Vec<Box<dyn Contestant>> = vec![
        Box::new(BareRedb(Database::create(folder.path().join("bare.redb")).unwrap())),
        Box::new(BareSqlite::open(&folder.path().join("bare.sqlite"))),
        Box::new(OneAtATime(open("one.redb"), runtime.clone())),
        Box::new(ManyAtOnce(open("many.redb"), runtime.clone())),
    ];
    let mut times = vec![Vec::new(); contestants.len()];
    for round in 0..rounds {
        for (contestant, times) in contestants.iter_mut().zip(&mut times) {
            times.push(contestant.round(round as u64 * COMMITS));
        }
    }
    let medians: Vec<Duration> = times.iter().map(|times| median(times)).collect();
    println!("{rounds} rounds of {COMMITS} commits each; one event (three rows, about 1 kB) a commit\n");
    println!("| | time for an event | events/s | beside bare redb |");
    println!("| --- | --- | --- | --- |");
    let bare = medians.first().unwrap().as_secs_f64();
    for (contestant, time) in contestants.iter().zip(&medians) {
        let each = time.as_secs_f64() / f64::from(u32::try_from(COMMITS).unwrap());
        let (name, micros, rate) = (contestant.name(), each * 1e6, 1.0 / each);
        println!("| {name} | {micros:.0} µs | {rate:.0} | {:.2}x |", time.as_secs_f64() / bare);
    }
    if let [.., one, many] = medians.as_slice() {
        println!(
            "\n64 at once commit {:.1} times as many events as one",
            one.as_secs_f64() / many.as_secs_f64()
        );
    }
}
