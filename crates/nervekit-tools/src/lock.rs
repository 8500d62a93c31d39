//! One writer per file.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use nervekit_permissions::{DecidedPath, LockKey};
use tokio::sync::{Mutex as FairMutex, OwnedMutexGuard};

/// Locks on the files that calls write, fair in the order of asking.
///
/// Two spellings of one file share a lock. [`MutationLocks::process`] is the set that all conversations of a
/// process share; whoever runs calls takes the locks of all write targets of a call before it begins and
/// holds them until it has settled.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use nervekit_tools::MutationLocks;
/// let guard = MutationLocks::process().acquire([]).await?;
/// assert_eq!(guard.len(), 0);
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MutationLocks {
    locks: Arc<Mutex<BTreeMap<LockKey, Weak<FairMutex<()>>>>>,
}

/// The locks of one call, held until this is dropped.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use nervekit_tools::MutationLocks;
/// let guard = MutationLocks::process().acquire([]).await?;
/// drop(guard); // releases
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the locks are released when the guard is dropped"]
pub struct MutationGuard {
    /// Before `locks`, so that a lock is free when its entry is looked at.
    held: Vec<(LockKey, OwnedMutexGuard<()>)>,
    locks: MutationLocks,
}

impl MutationLocks {
    /// The locks that everything in this process shares.
    #[must_use]
    pub fn process() -> Self {
        static PROCESS: LazyLock<MutationLocks> = LazyLock::new(MutationLocks::default);
        PROCESS.clone()
    }

    /// Takes the locks of these paths, each once, in canonical order, so that two calls cannot wait for each
    /// other. Dropping the future gives up the place in the queue.
    pub async fn acquire<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a DecidedPath>,
    ) -> io::Result<MutationGuard> {
        let paths: Vec<&DecidedPath> = paths.into_iter().collect();
        let mut wanted = keys(&paths)?;
        loop {
            let mut guard = MutationGuard { held: Vec::with_capacity(wanted.len()), locks: self.clone() };
            for key in &wanted {
                let lock = self.lock(key);
                guard.held.push((key.clone(), lock.lock_owned().await));
            }
            // Whoever held a lock may have made a missing folder, which changes what names the file.
            let now = keys(&paths)?;
            if now == wanted {
                return Ok(guard);
            }
            wanted = now;
        }
    }

    fn lock(&self, key: &LockKey) -> Arc<FairMutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(FairMutex::new(()));
        locks.insert(key.clone(), Arc::downgrade(&lock));
        lock
    }
}

impl MutationGuard {
    /// How many locks are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether no lock is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Drop for MutationGuard {
    fn drop(&mut self) {
        let keys: Vec<LockKey> = self.held.drain(..).map(|(key, _released)| key).collect();
        let mut locks = self.locks.locks.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            if locks.get(&key).is_some_and(|lock| lock.strong_count() == 0) {
                locks.remove(&key);
            }
        }
    }
}

fn keys(paths: &[&DecidedPath]) -> io::Result<Vec<LockKey>> {
    let mut keys = paths.iter().map(|path| path.lock_key()).collect::<io::Result<Vec<_>>>()?;
    keys.sort();
    keys.dedup();
    Ok(keys)
}

#[cfg(test)]
mod tests;
