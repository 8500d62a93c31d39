//! The open database, and the way back to one after a failure.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use nervekit_conversation_core::BackendError;
use nervekit_types::{Clock, OpeningId};
use redb::{Database, ReadableDatabase};

use super::failure::{Failure, guarded};
use super::file::{self, Source, Watch};
use super::layout::{self, META};

/// How often a file that is in use is tried again while the caller waits for it.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// One opening of one file.
#[derive(Debug)]
pub(super) struct Connection {
    /// The path as the caller wrote it, for errors.
    pub(super) store: Arc<str>,
    /// The path, absolute and free of links, so that a reopening finds the same file.
    path: PathBuf,
    source: Source,
    pub(super) opening: OpeningId,
    pub(super) clock: Arc<dyn Clock>,
    state: RwLock<State>,
}

#[derive(Debug)]
enum State {
    Open {
        database: Database,
        watch: Arc<Watch>,
    },
    /// A failure closed it; the next call opens it again.
    Broken {
        sync_failed: bool,
    },
    Fenced,
    Closed,
}

impl Connection {
    /// Opens a file, or makes it, and stores the opening's id in it.
    pub(super) fn open(
        path: &std::path::Path,
        source: Source,
        lock_wait: Duration,
        opening: OpeningId,
        clock: Arc<dyn Clock>,
        given_up: impl Fn() -> bool,
    ) -> Result<Self, BackendError> {
        let store: Arc<str> = path.display().to_string().into();
        let deadline = Instant::now().checked_add(lock_wait);
        let opened = loop {
            match guarded(|| open_or_create(path, &source)) {
                Err(failure)
                    if failure.is_in_use()
                        && !given_up()
                        && deadline.is_none_or(|end| Instant::now() < end) =>
                {
                    std::thread::sleep(LOCK_POLL);
                }
                opened => break opened,
            }
        };
        let named = opened.and_then(|(database, watch)| {
            guarded(|| take_over(&database, opening))?;
            Ok((std::fs::canonicalize(path)?, database, watch))
        });
        let (path, database, watch) = named.map_err(|failure| failure.into_error(&store))?;
        let state = RwLock::new(State::Open { database, watch });
        Ok(Self { store, path, source, opening, clock, state })
    }

    /// Runs something over the database, which it first opens again if a failure closed it. Blocks.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, Failure>) -> Result<T, Failure> {
        self.ensure_open()?;
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let State::Open { database, .. } = &*state else {
            // Another thread has met a failure since.
            return Err(redb::Error::DatabaseClosed.into());
        };
        let result = guarded(|| work(database));
        drop(state);
        self.note(result)
    }

    /// Runs something over the database if that can be done at once: not while it is closed after a failure,
    /// and not during maintenance.
    pub(super) fn try_with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        let state = match self.state.try_read() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let State::Open { database, .. } = &*state else { return None };
        let result = guarded(|| work(database));
        drop(state);
        Some(self.note(result))
    }

    /// Runs something that needs the database for itself. Blocks, and makes others wait.
    pub(super) fn with_exclusive<T>(
        &self,
        work: impl FnOnce(&mut Database) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.ensure_open()?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let State::Open { database, .. } = &mut *state else {
            return Err(redb::Error::DatabaseClosed.into());
        };
        let result = guarded(|| work(database));
        drop(state);
        self.note(result)
    }

    /// Whether the open database has seen a sync fail.
    pub(super) fn sync_failed(&self) -> bool {
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Open { watch, .. } => watch.sync_failed(),
            State::Broken { sync_failed } => *sync_failed,
            State::Fenced | State::Closed => false,
        }
    }

    /// The length of the file.
    pub(super) fn file_bytes(&self) -> Result<u64, Failure> {
        Ok(std::fs::metadata(&self.path)?.len())
    }

    /// Closes the file for good and lets go of its lock.
    pub(super) fn close(&self) {
        self.replace(State::Closed);
    }

    fn note<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        if result.as_ref().is_err_and(Failure::is_lasting) {
            let sync_failed = self.sync_failed();
            self.replace(State::Broken { sync_failed });
        }
        result
    }

    fn replace(&self, next: State) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, State::Fenced | State::Closed) {
            return;
        }
        let before = std::mem::replace(&mut *state, next);
        // Closing a damaged file may panic too, and must be over before anyone opens it again.
        let _ = guarded(|| {
            drop(before);
            Ok(())
        });
    }

    fn ensure_open(&self) -> Result<(), Failure> {
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Open { .. } => return Ok(()),
            State::Fenced => return Err(Failure::Fenced),
            State::Closed => return Err(redb::Error::DatabaseClosed.into()),
            State::Broken { .. } => {}
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let State::Broken { sync_failed } = *state else { return Ok(()) };
        if sync_failed {
            file::forget_pages(&self.path);
        }
        let reopened = guarded(|| {
            // It must be there: a new file in its place would be another store.
            let (database, watch) = file::open(&self.path, &self.source)?;
            if stored_opening(&database)? != Some(self.opening) {
                return Err(Failure::Fenced);
            }
            Ok(State::Open { database, watch })
        });
        match reopened {
            Ok(open) => *state = open,
            Err(Failure::Fenced) => {
                *state = State::Fenced;
                return Err(Failure::Fenced);
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }
}

fn open_or_create(path: &std::path::Path, source: &Source) -> Result<(Database, Arc<Watch>), Failure> {
    if !path.try_exists()? {
        if path.is_symlink() {
            return Err(Failure::damaged("it is a link to a file that is not there"));
        }
        file::create(path, source, lay_out)?;
    }
    file::open(path, source)
}

fn lay_out(database: &Database) -> Result<(), Failure> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert("format", layout::marker().as_slice())?;
    transaction.open_table(layout::YOUNG)?;
    transaction.open_table(layout::OLD)?;
    transaction.commit()?;
    Ok(())
}

/// Checks that the file is ours and stores the id of this opening. Nothing is written to a file of another kind.
fn take_over(database: &Database, opening: OpeningId) -> Result<(), Failure> {
    stored_opening(database)?;
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert("opening", opening.raw().to_bytes().as_slice())?;
    transaction.commit()?;
    Ok(())
}

fn stored_opening(database: &Database) -> Result<Option<OpeningId>, Failure> {
    let transaction = database.begin_read()?;
    let meta = transaction.open_table(META).map_err(|error| match error {
        redb::TableError::TableDoesNotExist(_) => Failure::damaged("it is a redb file of another program"),
        error => error.into(),
    })?;
    layout::check_marker(&meta)?;
    layout::opening(&meta)
}
