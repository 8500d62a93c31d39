//! The contract of [`Backend`] as tests, for every backend.
//!
//! [`backend_conformance!`](crate::backend_conformance) calls each clause with a fresh store.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a clause fails by panicking, as a test does"
)]
#![allow(clippy::missing_panics_doc, reason = "the same")]

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use nervekit_types::testing::ManualClock;
use nervekit_types::{BatchId, Clock, Entropy, SystemClock, SystemEntropy};

use super::backend_model;
use crate::backend::{
    Backend, BackendError, Change, CommitNumber, Expect, Maintenance, Range, Refused, Row, Table, Write,
    WriteSet,
};

const NOTES: Table = Table::new("notes");
const OTHER: Table = Table::new("other");

type Opened = Pin<Box<dyn Future<Output = Result<Arc<dyn Backend>, BackendError>> + Send>>;

/// A fresh store under test, and what the suite may do with it.
///
/// A backend alone is one already. A durable one says how it is opened again, and one whose clock can be set
/// hands it over:
///
/// ```
/// use std::sync::Arc;
/// use nervekit_conversation_core::testing::FaultBackend;
/// use nervekit_conversation_core::testing::backend_conformance::Subject;
/// use nervekit_types::testing::ManualClock;
///
/// let clock = Arc::new(ManualClock::default());
/// let backend = Arc::new(FaultBackend::new().clock(clock.clone()));
/// let disk = backend.clone();
/// let subject = Subject::new(backend).reopen(move || {
///     let disk = disk.clone();
///     async move { Ok(disk.reopen()) }
/// });
/// let subject = subject.clock(clock);
/// ```
pub struct Subject {
    backend: Option<Arc<dyn Backend>>,
    reopen: Option<Box<dyn Fn() -> Opened + Send + Sync>>,
    clock: Option<Arc<ManualClock>>,
    kept: Option<Box<dyn Any + Send + Sync>>,
}

impl Subject {
    /// A store that forgets when it is closed.
    pub fn new(backend: impl Backend) -> Self {
        Self { backend: Some(Arc::new(backend)), reopen: None, clock: None, kept: None }
    }

    /// Opens the store again, after the backend was dropped.
    #[must_use]
    pub fn reopen<B: Backend, F>(mut self, open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<B, BackendError>> + Send + 'static,
    {
        self.reopen = Some(Box::new(move || {
            let opened = open();
            Box::pin(async move { Ok(Arc::new(opened.await?) as Arc<dyn Backend>) })
        }));
        self
    }

    /// The clock that the store goes by.
    #[must_use]
    pub fn clock(mut self, clock: Arc<ManualClock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Keeps something until the test is over, such as the folder that the store lies in.
    #[must_use]
    pub fn keep(mut self, kept: impl Any + Send + Sync) -> Self {
        self.kept = Some(Box::new(kept));
        self
    }

    /// The backend, to be shared with a task.
    fn shared(&self) -> Arc<dyn Backend> {
        self.backend.clone().unwrap()
    }

    /// Closes the store and opens it again; what cannot be opened again stays as it is.
    pub(super) async fn reopen_now(&mut self) -> Result<(), BackendError> {
        match &self.reopen {
            Some(reopen) => {
                // Dropped first: an exclusive store is in use until then.
                self.backend = None;
                self.backend = Some(reopen().await?);
            }
            None => assert!(!self.facts().durable, "a durable backend needs `Subject::reopen`"),
        }
        Ok(())
    }
}

impl<B: Backend> From<B> for Subject {
    fn from(backend: B) -> Self {
        Self::new(backend)
    }
}

impl Deref for Subject {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        &**self.backend.as_ref().unwrap()
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("backend", &self.backend).finish_non_exhaustive()
    }
}

/// Longer than any clause takes on a slow disk.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs one clause on a runtime and a thread of its own, so that a backend which blocks for ever fails; what the
/// macro calls.
#[doc(hidden)]
pub fn check<S: Into<Subject>>(
    make: impl AsyncFnOnce() -> S + Send + 'static,
    clause: impl AsyncFnOnce(Subject) + Send + 'static,
) {
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let _ended = ended;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let subject = make().await.into();
            clause(subject).await;
        });
    });
    // Nothing is ever sent: the channel closes when the thread ends, however it does.
    let hangs = end.recv_timeout(DEADLINE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
    assert!(!hangs, "the clause did not end within {DEADLINE:?}");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Makes one test for each clause of the [`Backend`](crate::Backend) contract, for a backend made by an
/// expression: a closure that returns a future of a backend, or of a
/// [`Subject`](crate::testing::backend_conformance::Subject).
///
/// The tests run on tokio; futures are also polled without it.
///
/// ```
/// mod memory {
///     use nervekit_conversation_core::{MemoryBackend, backend_conformance};
///     backend_conformance!(async || MemoryBackend::new());
/// }
/// ```
#[macro_export]
macro_rules! backend_conformance {
    ($make:expr) => {
        $crate::backend_conformance! { @clauses $make;
            a_set_is_applied_and_read_back
            expectations_decide
            a_refused_set_changes_nothing
            a_refused_set_harms_no_other
            sets_of_one_write_see_their_predecessors
            expectations_hold_before_the_first_change
            keeping_changes_nothing
            deleting_what_is_absent_is_no_fault
            commit_numbers_grow_and_are_versions
            versions_are_never_reused
            an_id_is_applied_once
            a_refused_id_may_be_tried_again
            applied_answers_for_a_day
            ranges_select_what_they_say
            ranges_are_of_one_snapshot
            tables_are_apart
            what_was_never_written_is_empty
            keys_and_values_are_any_bytes
            large_rows_are_kept
            concurrent_writers_lose_nothing
            concurrent_sets_are_whole
            an_answered_write_is_readable_everywhere
            an_empty_write_is_answered
            a_dropped_write_is_whole_or_absent
            futures_need_no_runtime_and_move_between_threads
            rows_outlive_the_opening
            the_clock_tells_the_time
            maintenance_changes_no_row
            random_programs_match_the_model
        }
    };
    (@clauses $make:expr; $($clause:ident)*) => {$(
        #[test]
        fn $clause() {
            $crate::testing::backend_conformance::check(
                $make,
                $crate::testing::backend_conformance::$clause,
            );
        }
    )*};
}

fn id(name: &str) -> BatchId {
    BatchId::from_key(name)
}

fn set(name: &str) -> WriteSet {
    WriteSet::new(id(name))
}

impl Subject {
    async fn one(&self, set: WriteSet) -> Result<CommitNumber, Refused> {
        let mut answers = self.write(vec![set]).await.unwrap();
        assert_eq!(answers.len(), 1, "one answer for each set");
        answers.remove(0)
    }

    async fn value(&self, key: &str) -> Option<Bytes> {
        self.get(NOTES, key.as_bytes()).await.unwrap().map(|row| row.value)
    }

    async fn all(&self) -> Vec<Row> {
        self.range(vec![Range::new(NOTES)]).await.unwrap().remove(0)
    }
}

/// What a set puts is there with the set's number as its version.
pub async fn a_set_is_applied_and_read_back(subject: Subject) {
    let number = subject.one(set("1").put(NOTES, "a", "one").put(NOTES, "b", "two")).await.unwrap();
    assert_eq!(subject.get(NOTES, b"a").await.unwrap(), Some(Row::new("a", "one", number)));
    assert_eq!(subject.get(NOTES, b"b").await.unwrap(), Some(Row::new("b", "two", number)));
    assert_eq!(subject.get(NOTES, b"c").await.unwrap(), None);
}

/// Each expectation, against a row that is there and one that is not, for each change.
pub async fn expectations_decide(subject: Subject) {
    let stale = subject.one(set("stale").put(OTHER, "stale", "")).await.unwrap();
    for there in [true, false] {
        for change in [Change::Keep, Change::Put("new".into()), Change::Delete] {
            for expectation in ["any", "absent", "version", "another version"] {
                let name = format!("there {there}, {change:?}, {expectation}");
                let mut found = None;
                if there {
                    let before = set(&format!("{name}, before")).put(NOTES, name.clone(), "old");
                    found = Some(subject.one(before).await.unwrap());
                }
                let (expect, holds) = match expectation {
                    "any" => (Expect::Any, true),
                    "absent" => (Expect::Absent, !there),
                    "version" => (Expect::Version(found.unwrap_or(stale)), there),
                    _ => (Expect::Version(stale), false),
                };
                let write = Write::new(NOTES, name.clone(), change.clone()).expect(expect);
                // A row before it that is always as expected: the refusal names the second one.
                let answer = subject.one(set(&name).keep(OTHER, "stale", stale).write(write.clone())).await;
                let value = subject.value(&name).await;
                if holds {
                    assert!(answer.is_ok(), "{name}: {answer:?}");
                    let due = match change {
                        Change::Keep => there.then(|| "old".into()),
                        Change::Put(_) => Some("new".into()),
                        Change::Delete => None,
                    };
                    assert_eq!(value, due, "{name}");
                } else {
                    assert_eq!(answer, Err(Refused::new(1, &write, found)), "{name}");
                    assert_eq!(value, there.then(|| "old".into()), "{name}");
                }
            }
        }
    }
}

/// Neither the rows before the one that was not as expected, nor those after it.
pub async fn a_refused_set_changes_nothing(subject: Subject) {
    let number = subject.one(set("1").put(NOTES, "a", "one").put(NOTES, "b", "two")).await.unwrap();
    let before = subject.all().await;
    let refused =
        set("2").put(NOTES, "a", "x").delete(NOTES, "b").insert(NOTES, "b", "x").put(NOTES, "c", "x");
    let refused = subject.one(refused).await.unwrap_err();
    assert_eq!((refused.index, refused.table, &*refused.key), (2, NOTES, b"b".as_slice()));
    assert_eq!(refused.found, Some(number));
    assert_eq!(subject.all().await, before);
    assert_eq!(subject.applied(id("2")).await.unwrap(), None);
}

/// The sets before and after it in the same write are applied.
pub async fn a_refused_set_harms_no_other(subject: Subject) {
    let sets = vec![
        set("1").insert(NOTES, "a", ""),
        set("2").insert(NOTES, "a", ""),
        set("3").insert(NOTES, "b", ""),
    ];
    let answers = subject.write(sets).await.unwrap();
    assert!(answers[0].is_ok() && answers[1].is_err() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(subject.all().await.len(), 2);
}

/// A later set finds what an earlier one put, under its number.
pub async fn sets_of_one_write_see_their_predecessors(subject: Subject) {
    let sets = vec![
        set("1").insert(NOTES, "a", "one"),
        set("2").insert(NOTES, "a", "never"),
        set("3").delete(NOTES, "a"),
        set("4").insert(NOTES, "a", "four"),
    ];
    let answers = subject.write(sets).await.unwrap();
    let first = answers[0].clone().unwrap();
    assert_eq!(answers[1].clone().unwrap_err().found, Some(first));
    let last = answers[3].clone().unwrap();
    assert!(first < answers[2].clone().unwrap() && answers[2].clone().unwrap() < last);
    assert_eq!(subject.get(NOTES, b"a").await.unwrap(), Some(Row::new("a", "four", last)));
}

/// A set that names a row twice is checked against what was there before it; its last change wins.
pub async fn expectations_hold_before_the_first_change(subject: Subject) {
    let number = subject.one(set("1").insert(NOTES, "a", "one").insert(NOTES, "a", "two")).await.unwrap();
    assert_eq!(subject.value("a").await, Some("two".into()));
    let twice = set("2").replace(NOTES, "a", number, "three").replace(NOTES, "a", number, "four");
    let number = subject.one(twice).await.unwrap();
    assert_eq!(subject.value("a").await, Some("four".into()));
    subject.one(set("3").put(NOTES, "a", "five").delete(NOTES, "a").keep(NOTES, "a", number)).await.unwrap();
    assert_eq!(subject.value("a").await, None);
}

/// A row that was kept has the version it had.
pub async fn keeping_changes_nothing(subject: Subject) {
    let number = subject.one(set("1").put(NOTES, "a", "one")).await.unwrap();
    let later = subject.one(set("2").keep(NOTES, "a", number)).await.unwrap();
    assert!(later > number);
    assert_eq!(subject.all().await, [Row::new("a", "one", number)]);
    subject.one(set("3").write(Write::new(NOTES, "absent", Change::Keep))).await.unwrap();
    assert_eq!(subject.all().await.len(), 1);
}

/// Unless a version was expected.
pub async fn deleting_what_is_absent_is_no_fault(subject: Subject) {
    let number = subject.one(set("1").delete(NOTES, "a")).await.unwrap();
    subject.one(set("2").write(Write::new(NOTES, "a", Change::Delete).expect(Expect::Absent))).await.unwrap();
    let versioned = Write::new(NOTES, "a", Change::Delete).expect(Expect::Version(number));
    assert_eq!(subject.one(set("3").write(versioned)).await.unwrap_err().found, None);
}

/// Within a write and from write to write.
pub async fn commit_numbers_grow_and_are_versions(subject: Subject) {
    let mut last = None;
    for round in 0..5 {
        let sets =
            (0..5).map(|n| set(&format!("{round} {n}")).put(NOTES, format!("{round} {n}"), "")).collect();
        for number in subject.write(sets).await.unwrap() {
            let number = number.unwrap();
            assert!(Some(number) > last, "{number} after {last:?}");
            last = Some(number);
        }
    }
    let rows = subject.all().await;
    assert!(rows.is_sorted_by_key(|row| row.version), "{rows:?}");
    assert_eq!(rows.last().map(|row| row.version), last);
}

/// Not after a deletion, and not by another opening.
pub async fn versions_are_never_reused(mut subject: Subject) {
    let mut last = None;
    for round in 0..4 {
        let number = subject.one(set(&format!("put {round}")).put(NOTES, "a", "")).await.unwrap();
        assert!(Some(number) > last);
        last = Some(subject.one(set(&format!("delete {round}")).delete(NOTES, "a")).await.unwrap());
        assert!(last > Some(number));
        subject.reopen_now().await.unwrap();
    }
}

/// The second time it is not checked, changes nothing, and gets the first answer.
pub async fn an_id_is_applied_once(mut subject: Subject) {
    let first = subject.one(set("1").insert(NOTES, "a", "one")).await.unwrap();
    let between = subject.one(set("2").put(NOTES, "a", "two")).await.unwrap();
    // Checked now, it would be refused; applied, it would undo the second set.
    assert_eq!(subject.one(set("1").insert(NOTES, "a", "one")).await, Ok(first));
    assert_eq!(subject.one(set("1").put(NOTES, "b", "other content")).await, Ok(first));
    assert_eq!(subject.all().await, [Row::new("a", "two", between)]);

    let twice = vec![set("3").insert(NOTES, "c", ""), set("3").insert(NOTES, "c", "")];
    let answers = subject.write(twice).await.unwrap();
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].is_ok());

    subject.reopen_now().await.unwrap();
    assert_eq!(subject.one(set("3").insert(NOTES, "c", "")).await, answers[0]);
}

/// Only an applied id is taken.
pub async fn a_refused_id_may_be_tried_again(subject: Subject) {
    let there = subject.one(set("1").put(NOTES, "a", "")).await.unwrap();
    subject.one(set("2").insert(NOTES, "a", "")).await.unwrap_err();
    let number = subject.one(set("2").replace(NOTES, "a", there, "new")).await.unwrap();
    assert_eq!(subject.applied(id("2")).await.unwrap(), Some(number));
    assert_eq!(subject.value("a").await, Some("new".into()));
}

/// From the commit on, across openings, for at least 24 hours of the store's clock. (The time can pass only
/// for a subject that hands over its clock.)
pub async fn applied_answers_for_a_day(mut subject: Subject) {
    assert_eq!(subject.applied(id("1")).await.unwrap(), None);
    let first = subject.one(set("1").put(NOTES, "a", "one")).await.unwrap();
    let empty = subject.one(set("empty")).await.unwrap();
    let clock = subject.clock.clone();
    let hours = if clock.is_some() { 23 } else { 0 };
    for hour in 0..=hours {
        assert_eq!(subject.applied(id("1")).await.unwrap(), Some(first), "after {hour} hours");
        assert_eq!(subject.applied(id("empty")).await.unwrap(), Some(empty), "after {hour} hours");
        assert_eq!(subject.one(set("1").delete(NOTES, "a")).await, Ok(first), "after {hour} hours");
        subject.one(set(&format!("hour {hour}")).put(NOTES, "b", "")).await.unwrap();
        if let Some(clock) = &clock {
            clock.advance(Duration::from_secs(60 * 60));
        }
        if hour % 8 == 0 {
            subject.reopen_now().await.unwrap();
        }
    }
    // What came late in the day is remembered for a day of its own.
    if let Some(clock) = &clock {
        let late = subject.one(set("late").put(NOTES, "b", "")).await.unwrap();
        clock.advance(Duration::from_secs(2 * 60 * 60));
        subject.one(set("next day").put(NOTES, "b", "")).await.unwrap();
        clock.advance(Duration::from_secs(21 * 60 * 60));
        assert_eq!(subject.one(set("late").delete(NOTES, "b")).await, Ok(late));
        assert_eq!(subject.value("b").await, Some("".into()));
    }
    assert_eq!(subject.value("a").await, Some("one".into()));
}

/// Every pair of bounds over keys that are hard to sort, both ways, with every limit.
pub async fn ranges_select_what_they_say(subject: Subject) {
    let keys: [&[u8]; 11] =
        [b"", b"\0", b"\0\0", b"A", b"a", b"a\0", b"a\xff", b"b", b"\x7f", b"\x80", b"\xff\xff"];
    let sets = keys.iter().map(|key| {
        WriteSet::new(BatchId::from_key(&key.escape_ascii().to_string())).put(
            NOTES,
            key.to_vec(),
            key.to_vec(),
        )
    });
    // Not in order, so that the order is the store's.
    let rows = subject.write(sets.rev().collect()).await.unwrap();
    assert!(rows.iter().all(Result::is_ok));

    let mut ranges = Vec::new();
    for start in keys {
        for end in keys.map(Some).into_iter().chain([None, Some(b"a\xff\xff".as_slice())]) {
            for limit in [0, 1, 2, keys.len(), usize::MAX] {
                let range = Range::new(NOTES).start(start).limit(limit);
                let range = end.map_or(range.clone(), |end| range.end(end));
                ranges.extend([range.clone(), range.reverse()]);
            }
        }
        ranges.push(Range::prefix(NOTES, start));
    }
    let found = subject.range(ranges.clone()).await.unwrap();
    assert_eq!(found.len(), ranges.len());
    for (range, found) in ranges.iter().zip(found) {
        let mut due: Vec<&[u8]> = keys.into_iter().filter(|key| range.contains(key)).collect();
        due.sort_unstable();
        if range.reverse {
            due.reverse();
        }
        due.truncate(range.limit);
        assert_eq!(found.iter().map(|row| &*row.key).collect::<Vec<_>>(), due, "{range:?}");
        assert!(found.iter().all(|row| row.key == row.value), "{range:?}");
    }
    assert!(subject.range(Vec::new()).await.unwrap().is_empty());
}

/// Two rows that are always changed together are never seen apart.
pub async fn ranges_are_of_one_snapshot(subject: Subject) {
    let backend = subject.shared();
    let writer = tokio::spawn(async move {
        for round in 0..100 {
            let value = format!("{round}");
            let both = set(&value).put(NOTES, "a", value.clone()).put(OTHER, "a", value);
            backend.write(vec![both]).await.unwrap().remove(0).unwrap();
        }
    });
    let mut reads = 0;
    while !writer.is_finished() || reads == 0 {
        let found =
            subject.range(vec![Range::new(NOTES), Range::new(OTHER), Range::new(NOTES)]).await.unwrap();
        assert!(found[0] == found[1] && found[1] == found[2], "{found:?}");
        reads += 1;
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
}

/// The same key in two tables is two rows.
pub async fn tables_are_apart(subject: Subject) {
    subject.one(set("1").put(NOTES, "a", "notes").put(OTHER, "a", "other")).await.unwrap();
    subject.one(set("2").delete(NOTES, "a")).await.unwrap();
    assert_eq!(subject.value("a").await, None);
    assert_eq!(subject.get(OTHER, b"a").await.unwrap().unwrap().value, "other");
}

/// A table that nobody has named is there, and is empty.
pub async fn what_was_never_written_is_empty(subject: Subject) {
    const NEVER: Table = Table::new("a234567890123456789012345678_012");
    assert_eq!(subject.get(NEVER, b"a").await.unwrap(), None);
    assert_eq!(subject.range(vec![Range::new(NEVER), Range::new(NEVER).reverse()]).await.unwrap(), [[], []]);
    let refused = subject.one(set("1").keep(NEVER, "a", CommitNumber::after(None))).await;
    assert_eq!(refused.unwrap_err().found, None);
    subject.one(set("2").delete(NEVER, "a").insert(NEVER, "b", "")).await.unwrap();
    assert_eq!(subject.range(vec![Range::new(NEVER)]).await.unwrap()[0].len(), 1);
}

/// Every byte, no byte, and what looks like the end of a text.
pub async fn keys_and_values_are_any_bytes(subject: Subject) {
    let every: Bytes = (0..=u8::MAX).collect::<Vec<_>>().into();
    for (index, key) in
        [Bytes::new(), every.clone(), Bytes::from_static(b"'; --"), Bytes::from_static(b"\xc3\x28")]
            .into_iter()
            .enumerate()
    {
        for (round, value) in [Bytes::new(), every.clone(), key.clone()].into_iter().enumerate() {
            let number = subject
                .one(set(&format!("{index} {round}")).put(NOTES, key.clone(), value.clone()))
                .await
                .unwrap();
            assert_eq!(subject.get(NOTES, &key).await.unwrap(), Some(Row::new(key.clone(), value, number)));
        }
    }
}

/// Keys of 1 KiB and values of 16 MiB.
pub async fn large_rows_are_kept(mut subject: Subject) {
    let key = Bytes::from(vec![b'k'; 1024]);
    let mut value = vec![0; 16 << 20];
    SystemEntropy.fill(&mut value);
    let value = Bytes::from(value);
    let number = subject.one(set("1").put(NOTES, key.clone(), value.clone())).await.unwrap();
    subject.reopen_now().await.unwrap();
    let row = subject.get(NOTES, &key).await.unwrap().unwrap();
    assert!(row.value == value && row.version == number);
    assert!(subject.all().await == [row]);
}

/// Many tasks raise one counter, each by what it read: no step is lost, and each is taken once.
pub async fn concurrent_writers_lose_nothing(subject: Subject) {
    const WRITERS: u64 = 16;
    const STEPS: u64 = 8;
    subject.one(set("zero").put(NOTES, "counter", "0")).await.unwrap();
    let tasks = (0..WRITERS).map(|writer| {
        let backend = subject.shared();
        tokio::spawn(async move {
            for step in 0..STEPS {
                for attempt in 0.. {
                    let row = backend.get(NOTES, b"counter").await.unwrap().unwrap();
                    let next = std::str::from_utf8(&row.value).unwrap().parse::<u64>().unwrap() + 1;
                    let raise = set(&format!("{writer} {step} {attempt}"))
                        .replace(NOTES, "counter", row.version, next.to_string())
                        .insert(OTHER, next.to_string(), "");
                    if backend.write(vec![raise]).await.unwrap().remove(0).is_ok() {
                        break;
                    }
                }
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
    assert_eq!(subject.value("counter").await, Some((WRITERS * STEPS).to_string().into()));
    assert_eq!(subject.range(vec![Range::new(OTHER)]).await.unwrap()[0].len() as u64, WRITERS * STEPS);
}

/// Sets of many callers, some refused, are each there in full or not at all.
pub async fn concurrent_sets_are_whole(subject: Subject) {
    let tasks = (0..64).map(|writer| {
        let backend = subject.shared();
        tokio::spawn(async move {
            // Two writers compete for each name.
            let name = format!("{}", writer / 2);
            let rows = (0..5).fold(set(&format!("writer {writer}")), |set, row| {
                set.insert(NOTES, format!("{name}/{row}"), writer.to_string())
            });
            backend.write(vec![rows]).await.unwrap().remove(0).is_ok()
        })
    });
    let applied = join_all(tasks).await.into_iter().filter(|applied| *applied.as_ref().unwrap()).count();
    assert_eq!(applied, 32);
    for name in 0..32 {
        let rows = subject.range(vec![Range::prefix(NOTES, format!("{name}/"))]).await.unwrap().remove(0);
        assert_eq!(rows.len(), 5);
        assert!(
            rows.iter().all(|row| (&row.value, row.version) == (&rows[0].value, rows[0].version)),
            "{rows:?}"
        );
    }
}

/// As soon as one caller has the answer, all others see the rows.
pub async fn an_answered_write_is_readable_everywhere(subject: Subject) {
    for round in 0..20 {
        let key = format!("{round:02}");
        let number = subject.one(set(&key).put(NOTES, key.clone(), "")).await.unwrap();
        let readers = (0..4).map(|_| {
            let (backend, key) = (subject.shared(), key.clone());
            tokio::spawn(async move {
                let row = backend.get(NOTES, key.as_bytes()).await.unwrap();
                let last = backend.range(vec![Range::new(NOTES).reverse().limit(1)]).await.unwrap();
                (row, last[0][0].clone())
            })
        });
        for reader in join_all(readers).await {
            let (row, last) = reader.unwrap();
            assert_eq!((row.map(|row| row.version), last.version), (Some(number), number));
        }
    }
}

/// No set, and a set without rows, which has a number all the same.
pub async fn an_empty_write_is_answered(subject: Subject) {
    assert!(subject.write(Vec::new()).await.unwrap().is_empty());
    let first = subject.one(set("1")).await.unwrap();
    let second = subject.one(set("2").put(NOTES, "a", "")).await.unwrap();
    assert!(second > first);
    assert_eq!(subject.one(set("1")).await, Ok(first));
}

/// Dropped after each number of polls, a write was not begun or runs to its end.
pub async fn a_dropped_write_is_whole_or_absent(subject: Subject) {
    for polls in 0..6 {
        let name = format!("{polls}");
        let two = set(&name).insert(NOTES, format!("{name}/1"), "").insert(NOTES, format!("{name}/2"), "");
        {
            let mut write = subject.write(vec![two]);
            for _ in 0..polls {
                let done = poll_fn(|context| Poll::Ready(write.as_mut().poll(context).is_ready())).await;
                if done {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // A later write of the same caller comes after it.
        subject.one(set(&format!("after {name}"))).await.unwrap();
        let rows = subject.range(vec![Range::prefix(NOTES, format!("{name}/"))]).await.unwrap().remove(0);
        let applied = subject.applied(id(&name)).await.unwrap();
        assert_eq!(rows.len(), if applied.is_some() { 2 } else { 0 }, "{polls} polls");
    }
}

/// A future that was made here is polled by another thread, which has no runtime.
pub async fn futures_need_no_runtime_and_move_between_threads(subject: Subject) {
    let backend = subject.shared();
    let runtime = tokio::runtime::Handle::current();
    let written = std::thread::spawn(move || {
        let write = Box::pin(async move {
            let number = backend.write(vec![set("1").put(NOTES, "a", "")]).await.unwrap().remove(0).unwrap();
            assert_eq!(backend.get(NOTES, b"a").await.unwrap().unwrap().version, number);
            assert_eq!(backend.range(vec![Range::new(NOTES)]).await.unwrap()[0].len(), 1);
            assert_eq!(backend.applied(id("1")).await.unwrap(), Some(number));
            // The last owner of a backend may be gone on any thread; keep this one for the test's.
            backend
        });
        drop(runtime);
        block_on(write)
    });
    let backend = tokio::task::spawn_blocking(move || written.join()).await.unwrap().unwrap();
    assert!(backend.now().await.is_ok());
}

/// The plainest executor: the thread parks until it is woken.
fn block_on<T>(mut future: Pin<Box<dyn Future<Output = T> + Send>>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park();
    }
}

/// The rows of a durable store are there for the next opening, which has another id.
pub async fn rows_outlive_the_opening(mut subject: Subject) {
    let facts = subject.facts();
    let number = subject.one(set("1").put(NOTES, "a", "one")).await.unwrap();
    subject.reopen_now().await.unwrap();
    if facts.durable {
        assert_eq!(subject.all().await, [Row::new("a", "one", number)]);
        assert_eq!(subject.applied(id("1")).await.unwrap(), Some(number));
        assert!(facts.opening.is_none() || facts.opening != subject.facts().opening);
    }
    assert_eq!(facts.durable, subject.facts().durable);
    assert_eq!(subject.facts(), subject.facts());
}

/// The given clock, or one that is within five minutes of the machine's.
pub async fn the_clock_tells_the_time(subject: Subject) {
    let now = subject.now().await.unwrap();
    if let Some(clock) = &subject.clock {
        assert_eq!(now, clock.now());
        clock.advance(Duration::from_secs(1));
        assert_eq!(subject.now().await.unwrap(), clock.now());
    } else {
        let here = SystemClock.now();
        let apart = here.saturating_since(now).max(now.saturating_since(here));
        assert!(apart < Duration::from_secs(300), "{now} against {here}");
    }
}

/// Every job finds a healthy store clean and leaves its rows.
pub async fn maintenance_changes_no_row(subject: Subject) {
    for n in 0..50 {
        subject.one(set(&format!("{n}")).put(NOTES, format!("{n}"), vec![7; 10_000])).await.unwrap();
    }
    subject.one((0..40).fold(set("delete"), |set, n| set.delete(NOTES, format!("{n}")))).await.unwrap();
    let before = subject.all().await;
    for job in [Maintenance::Stats, Maintenance::Verify, Maintenance::Compact, Maintenance::Verify] {
        let report = subject.maintain(job).await.unwrap();
        assert!(report.is_clean(), "{job:?}: {report:?}");
        assert!(report.rows.is_none_or(|rows| rows == 10), "{job:?}: {report:?}");
        assert_eq!(subject.all().await, before, "{job:?}");
    }
    subject.one(set("after").put(NOTES, "after", "")).await.unwrap();
}

/// A random program of 400 steps.
pub async fn random_programs_match_the_model(subject: Subject) {
    match_model(subject, 400).await;
}

/// Runs a random program of so many steps against a store and a map, with reopenings. The seed is printed and
/// can be given in `NERVEKIT_SEED`.
pub async fn match_model(mut subject: Subject, steps: usize) {
    let mut random = [0; 8];
    SystemEntropy.fill(&mut random);
    let given = std::env::var("NERVEKIT_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or(u64::from_be_bytes(random));
    println!("seed {seed}: NERVEKIT_SEED={seed} runs it again");
    let run = backend_model::run(&mut subject, seed, steps).await;
    assert_eq!(run, Ok(()));
}
