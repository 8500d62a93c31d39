//! Crashes a scenario before and after each of its commits.

use std::fmt;
use std::sync::Arc;

use super::fault_backend::{Fault, FaultBackend};

/// The side of a commit on which the process ended.
///
/// ```
/// use nervekit_conversation_core::testing::CrashSide;
/// assert_eq!(CrashSide::Before.to_string(), "before");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashSide {
    /// The commit was not made.
    Before,
    /// The commit was made.
    After,
}

impl CrashSide {
    const fn fault(self) -> Fault {
        match self {
            Self::Before => Fault::CrashBefore,
            Self::After => Fault::CrashAfter,
        }
    }
}

impl fmt::Display for CrashSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

/// Where a run crashed.
///
/// ```
/// use nervekit_conversation_core::testing::{CrashPoint, CrashSide};
/// assert_eq!(CrashPoint::new(3, CrashSide::After).to_string(), "after commit 3");
/// assert_eq!(CrashPoint::new(3, CrashSide::After).durable(), 3);
/// assert_eq!(CrashPoint::new(3, CrashSide::Before).durable(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashPoint {
    /// The commit of the scenario, from 1.
    pub commit: u64,
    /// Its side.
    pub side: CrashSide,
    /// The commit of the recovery, from 1, at which it crashed once more.
    pub again: Option<(u64, CrashSide)>,
}

impl CrashPoint {
    /// A crash at this commit, and none in the recovery.
    #[must_use]
    pub const fn new(commit: u64, side: CrashSide) -> Self {
        Self { commit, side, again: None }
    }

    /// How many commits of the scenario were made.
    #[must_use]
    pub const fn durable(self) -> u64 {
        match self.side {
            CrashSide::Before => self.commit.saturating_sub(1),
            CrashSide::After => self.commit,
        }
    }
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commit {}", self.side, self.commit)?;
        match self.again {
            Some((commit, side)) => write!(f, ", {side} recovery's commit {commit}"),
            None => Ok(()),
        }
    }
}

/// What a scenario should have come to, and what it came to, each in a few words.
///
/// ```
/// use nervekit_conversation_core::testing::CrashCheck;
/// assert!(CrashCheck::new("2 notes", format!("{} notes", 2)).holds());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashCheck {
    /// What should be.
    pub expected: String,
    /// What is.
    pub seen: String,
}

impl CrashCheck {
    /// Puts the two beside each other.
    #[must_use]
    pub fn new(expected: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { expected: expected.into(), seen: seen.into() }
    }

    /// Whether they are the same.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.expected == self.seen
    }
}

/// One run of a scenario.
///
/// ```
/// use nervekit_conversation_core::testing::CrashMatrix;
/// assert!(CrashMatrix::new().lines().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashLine {
    /// The scenario's name.
    pub scenario: String,
    /// Where it crashed; none for the run that did not.
    pub point: Option<CrashPoint>,
    /// What came of it.
    pub check: CrashCheck,
}

/// Crashes scenarios at every commit and collects what came of it in a table.
///
/// ```
/// use std::sync::Arc;
/// use nervekit_conversation_core::testing::{CrashCheck, CrashMatrix, FaultBackend};
/// use nervekit_conversation_core::{Backend, Range, Table, WriteSet};
/// use nervekit_types::BatchId;
///
/// const NOTES: Table = Table::new("notes");
///
/// async fn note(backend: &FaultBackend, key: &'static str) {
///     let set = WriteSet::new(BatchId::from_key(key)).put(NOTES, key, "");
///     backend.write(vec![set]).await.unwrap();
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut matrix = CrashMatrix::new().also_in_recovery();
/// matrix
///     .scenario(
///         "two notes",
///         || (),
///         async |backend: Arc<FaultBackend>, _: Arc<()>| {
///             note(&backend, "a").await;
///             note(&backend, "b").await;
///         },
///         async |backend: Arc<FaultBackend>, _: Arc<()>| note(&backend, "recovered").await,
///         async |backend: Arc<FaultBackend>, _: Arc<()>, point| {
///             let seen = backend.range(vec![Range::new(NOTES)]).await.unwrap().remove(0).len() as u64;
///             let expected = point.map_or(2, |point| point.durable() + 1);
///             CrashCheck::new(format!("{expected} notes"), format!("{seen} notes"))
///         },
///     )
///     .await;
/// assert!(matrix.is_clean(), "{matrix}");
/// assert_eq!(matrix.lines().len(), 1 + 4 + 8);
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct CrashMatrix {
    lines: Vec<CrashLine>,
    in_recovery: bool,
    set_up: u64,
}

impl CrashMatrix {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Crashes the recovery too, at each of its commits, after each crash of the scenario.
    #[must_use]
    pub const fn also_in_recovery(mut self) -> Self {
        self.in_recovery = true;
        self
    }

    /// Leaves the first commits of each scenario alone: they set it up, and another one crashes there.
    ///
    /// ```
    /// use nervekit_conversation_core::testing::CrashMatrix;
    /// let matrix = CrashMatrix::new().after_commit(3);
    /// # let _ = matrix;
    /// ```
    #[must_use]
    pub const fn after_commit(mut self, last: u64) -> Self {
        self.set_up = last;
        self
    }

    /// Runs a scenario once to its end, then crashes it before and after each physical commit that it made.
    ///
    /// Each run begins with an empty store and a fresh `world`: what lies outside the store and survives a
    /// crash, such as files or the list of effects that a tool had. `run` is dropped when the process crashes;
    /// what it has spawned should end with it, for instance by owning the runtime that it spawns on. Then the
    /// store is opened again for `recover` and `check`. The run that does not crash goes to `check` at once.
    pub async fn scenario<W>(
        &mut self,
        name: &str,
        world: impl Fn() -> W,
        run: impl AsyncFn(Arc<FaultBackend>, Arc<W>),
        recover: impl AsyncFn(Arc<FaultBackend>, Arc<W>),
        check: impl AsyncFn(Arc<FaultBackend>, Arc<W>, Option<CrashPoint>) -> CrashCheck,
    ) {
        let (backend, outside) = (Arc::new(FaultBackend::new()), Arc::new(world()));
        run(backend.clone(), outside.clone()).await;
        let commits = backend.commits();
        self.line(name, None, check(backend, outside, None).await);

        for (commit, side) in sides(commits).filter(|(commit, _)| *commit > self.set_up).collect::<Vec<_>>() {
            let mut point = CrashPoint::new(commit, side);
            let (recovery, seen) = crash(point, &world, &run, &recover, &check).await;
            self.line(name, Some(point), seen);
            for again in sides(recovery).filter(|_| self.in_recovery).collect::<Vec<_>>() {
                point.again = Some(again);
                let (_, seen) = crash(point, &world, &run, &recover, &check).await;
                self.line(name, Some(point), seen);
            }
        }
    }

    /// All runs so far.
    #[must_use]
    pub fn lines(&self) -> &[CrashLine] {
        &self.lines
    }

    /// Whether all runs came to what was expected.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lines.iter().all(|line| line.check.holds())
    }

    fn line(&mut self, scenario: &str, point: Option<CrashPoint>, check: CrashCheck) {
        self.lines.push(CrashLine { scenario: scenario.to_owned(), point, check });
    }
}

/// Both sides of so many commits.
fn sides(commits: u64) -> impl Iterator<Item = (u64, CrashSide)> {
    (1..=commits).flat_map(|commit| [(commit, CrashSide::Before), (commit, CrashSide::After)])
}

/// Crashes one run at one point, recovers, and checks; tells how many commits the recovery made.
async fn crash<W>(
    point: CrashPoint,
    world: &impl Fn() -> W,
    run: &impl AsyncFn(Arc<FaultBackend>, Arc<W>),
    recover: &impl AsyncFn(Arc<FaultBackend>, Arc<W>),
    check: &impl AsyncFn(Arc<FaultBackend>, Arc<W>, Option<CrashPoint>) -> CrashCheck,
) -> (u64, CrashCheck) {
    // A run that makes other commits than the one before it is a finding too.
    let unreached = || (0, CrashCheck::new("the commits of the first run", "this commit was not made"));
    let outside = Arc::new(world());
    let backend = Arc::new(FaultBackend::new().fault_at(point.commit, point.side.fault()));
    if !crashes(&backend, run(backend.clone(), outside.clone())).await {
        return unreached();
    }
    let mut reopened = backend.reopen();
    if let Some((commit, side)) = point.again {
        let crashing = Arc::new(reopened.fault_at(commit, side.fault()));
        if !crashes(&crashing, recover(crashing.clone(), outside.clone())).await {
            return unreached();
        }
        reopened = crashing.reopen();
    }
    let backend = Arc::new(reopened);
    recover(backend.clone(), outside.clone()).await;
    (backend.commits(), check(backend, outside, Some(point)).await)
}

/// Polls a run until it ends or its process crashes; tells whether it crashed.
async fn crashes(backend: &FaultBackend, run: impl Future<Output = ()>) -> bool {
    tokio::select! {
        biased;
        () = backend.crashed() => true,
        () = run => backend.has_crashed(),
    }
}

impl fmt::Display for CrashMatrix {
    /// A table: scenario, crash point, expected, seen, and a mark where they differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["scenario", "crash", "expected", "seen"].map(str::to_owned);
        let rows: Vec<[String; 4]> = std::iter::once(head)
            .chain(self.lines.iter().map(|line| {
                let point = line.point.map_or_else(|| "none".to_owned(), |point| point.to_string());
                [line.scenario.clone(), point, line.check.expected.clone(), line.check.seen.clone()]
            }))
            .collect();
        let width = |cell: fn(&[String; 4]) -> &String| {
            rows.iter().map(|row| cell(row).chars().count()).max().unwrap_or_default()
        };
        let (first, second, third) = (width(|r| &r[0]), width(|r| &r[1]), width(|r| &r[2]));
        for [scenario, point, expected, seen] in &rows {
            let mark = if expected == seen || scenario == "scenario" { "" } else { "  <- differs" };
            writeln!(f, "{scenario:first$}  {point:second$}  {expected:third$}  {seen}{mark}")?;
        }
        Ok(())
    }
}
