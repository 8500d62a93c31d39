//! A backend that fails where it is told to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nervekit_types::{BatchId, Clock, OpeningId, SystemClock, Timestamp};
use tokio::sync::watch;

use crate::backend::{
    Backend, BackendError, BackendFacts, CommitNumber, Image, Maintenance, MaintenanceReport, Range, Refused,
    Row, Table, WriteSet,
};

/// What goes wrong with a physical commit.
///
/// ```
/// use nervekit_conversation_core::testing::Fault;
/// assert_ne!(Fault::CrashBefore, Fault::CrashAfter);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The process ends before the commit is durable.
    CrashBefore,
    /// The process ends after the commit is durable, before anyone is told.
    CrashAfter,
    /// The answer is [`BackendError::Unknown`], and the commit was not made.
    UnknownLost,
    /// The answer is [`BackendError::Unknown`], and the commit was made.
    UnknownKept,
    /// The answer is [`BackendError::Unavailable`]. As a lasting fault it is the answer to reads too.
    Unavailable,
    /// The answer is [`BackendError::Full`].
    Full,
    /// The commit takes this long, by the timers of tokio; nothing of it is readable before.
    Slow(Duration),
}

impl Fault {
    fn error(self) -> Option<BackendError> {
        match self {
            Self::CrashBefore | Self::CrashAfter | Self::Slow(_) => None,
            Self::UnknownLost | Self::UnknownKept => {
                Some(BackendError::unknown(STORE, "the connection was lost during the commit"))
            }
            Self::Unavailable => Some(BackendError::unavailable(STORE, "it was told to be unavailable")),
            Self::Full => {
                Some(BackendError::full(STORE, std::io::Error::from(std::io::ErrorKind::StorageFull)))
            }
        }
    }
}

/// Keeps rows in memory as if they were on a disk: what was committed survives a crash and is there for the
/// next opening.
///
/// A write is one physical commit if at least one of its sets takes effect; these are counted from 1 in each
/// opening, and [`fault_at`](Self::fault_at) names one of them. After a crash no call ever returns, as none
/// does in a process that is gone: drop what waits, and [`reopen`](Self::reopen). An opening that was followed
/// by another one answers [`BackendError::Fenced`].
///
/// ```
/// use nervekit_conversation_core::testing::{Fault, FaultBackend};
/// use nervekit_conversation_core::{Backend, Table, WriteSet};
/// use nervekit_types::BatchId;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// const NOTES: Table = Table::new("notes");
/// let backend = FaultBackend::new().fault_at(2, Fault::CrashAfter);
/// backend.write(vec![WriteSet::new(BatchId::from_key("1")).put(NOTES, "a", "first")]).await?;
/// tokio::select! {
///     _ = backend.write(vec![WriteSet::new(BatchId::from_key("2")).put(NOTES, "a", "second")]) => unreachable!(),
///     () = backend.crashed() => {}
/// }
/// let reopened = backend.reopen();
/// assert_eq!(reopened.get(NOTES, b"a").await?.map(|row| row.value), Some("second".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FaultBackend {
    disk: Arc<Mutex<Disk>>,
    plan: Mutex<Plan>,
    crash: watch::Sender<bool>,
    opening: OpeningId,
    clock: Arc<dyn Clock>,
}

/// What survives a crash.
#[derive(Clone, Debug, Default)]
struct Disk {
    image: Image,
    openings: u64,
}

/// What an opening is told to do.
#[derive(Debug, Default)]
struct Plan {
    commits: u64,
    at: BTreeMap<u64, Fault>,
    always: Option<Fault>,
}

impl Plan {
    fn next(&self) -> Option<Fault> {
        self.at.get(&(self.commits + 1)).copied().or(self.always)
    }
}

const STORE: &str = "fault backend";

impl FaultBackend {
    /// An empty store, under the machine's clock, without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::open(Arc::default(), Arc::new(SystemClock))
    }

    /// Tells the time by this clock, after a reopening too.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Makes this physical commit of this opening fail; the first one is 1.
    #[must_use]
    pub fn fault_at(self, commit: u64, fault: Fault) -> Self {
        self.plan().at.insert(commit, fault);
        self
    }

    /// Makes everything fail from now on, until it is called with none.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.plan().always = fault;
    }

    /// How many physical commits this opening was asked for, failed ones included.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.plan().commits
    }

    /// Resolves when this opening has crashed.
    pub async fn crashed(&self) {
        // The sender is in `self`, so waiting does not fail.
        let _ = self.crash.subscribe().wait_for(|crashed| *crashed).await;
    }

    /// Whether this opening has crashed.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        *self.crash.borrow()
    }

    /// Opens what is durable again, without faults. This opening is fenced from now on.
    #[must_use]
    pub fn reopen(&self) -> Self {
        Self::open(self.disk.clone(), self.clock.clone())
    }

    /// Opens a copy of what is durable; this opening goes on with its own.
    #[must_use]
    pub fn copy(&self) -> Self {
        let disk = self.disk().clone();
        Self::open(Arc::new(Mutex::new(disk)), self.clock.clone())
    }

    fn open(disk: Arc<Mutex<Disk>>, clock: Arc<dyn Clock>) -> Self {
        let opening = {
            let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
            disk.openings += 1;
            opening(disk.openings)
        };
        Self { disk, plan: Mutex::default(), crash: watch::Sender::new(false), opening, clock }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for ever after a crash, and refuses after another opening.
    async fn ready(&self) -> Result<(), BackendError> {
        if self.has_crashed() {
            std::future::pending::<()>().await;
        }
        if opening(self.disk().openings) == self.opening { Ok(()) } else { Err(BackendError::fenced(STORE)) }
    }

    async fn read<T>(&self, read: impl FnOnce(&Image) -> T) -> Result<T, BackendError> {
        self.ready().await?;
        // Let go of before the disk is taken: a commit takes the two in the other order.
        let fault = self.plan().always.filter(|fault| *fault == Fault::Unavailable);
        fault.and_then(Fault::error).map_or_else(|| Ok(read(&self.disk().image)), Err)
    }

    /// Commits, or fails as planned; none if the process crashed.
    fn commit(
        &self,
        sets: Vec<WriteSet>,
    ) -> Option<Result<Vec<Result<CommitNumber, Refused>>, BackendError>> {
        let now = self.clock.now();
        let mut disk = self.disk();
        let mut plan = self.plan();
        // Asked again under the lock: a commit that was on its way when the process crashed is not made.
        if self.has_crashed() {
            return None;
        }
        if opening(disk.openings) != self.opening {
            return Some(Err(BackendError::fenced(STORE)));
        }
        let before = disk.image.last();
        let Some(fault) = plan.next().filter(|fault| !matches!(fault, Fault::Slow(_))) else {
            let answers = sets.into_iter().map(|set| disk.image.apply(set, now)).collect();
            plan.commits += u64::from(disk.image.last() != before);
            return Some(Ok(answers));
        };
        let mut next = disk.image.clone();
        let answers = sets.into_iter().map(|set| next.apply(set, now)).collect();
        if next.last() == before {
            return Some(Ok(answers));
        }
        plan.commits += 1;
        if matches!(fault, Fault::CrashAfter | Fault::UnknownKept) {
            disk.image = next;
        }
        if matches!(fault, Fault::CrashBefore | Fault::CrashAfter) {
            self.crash.send_replace(true);
            return None;
        }
        Some(fault.error().map_or(Ok(answers), Err))
    }
}

fn opening(number: u64) -> OpeningId {
    OpeningId::from_key(&number.to_string())
}

impl Default for FaultBackend {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Backend for FaultBackend {
    async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
        self.ready().await?;
        let fault = self.plan().next();
        if let Some(Fault::Slow(wait)) = fault {
            tokio::time::sleep(wait).await;
        }
        match self.commit(sets) {
            Some(result) => result,
            None => std::future::pending().await,
        }
    }

    async fn applied(&self, id: BatchId) -> Result<Option<CommitNumber>, BackendError> {
        self.read(|image| image.applied(id)).await
    }

    async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
        self.read(|image| image.get(table, key)).await
    }

    async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
        self.read(|image| ranges.iter().map(|range| image.range(range)).collect()).await
    }

    async fn now(&self) -> Result<Timestamp, BackendError> {
        let now = self.clock.now();
        self.read(|_| now).await
    }

    async fn maintain(&self, _job: Maintenance) -> Result<MaintenanceReport, BackendError> {
        let (rows, bytes) = self.read(Image::size).await?;
        Ok(MaintenanceReport::new().rows(rows).bytes(bytes))
    }

    fn facts(&self) -> BackendFacts {
        BackendFacts::new(true).opening(self.opening)
    }
}
