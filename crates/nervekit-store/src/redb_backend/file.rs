//! The file: made whole or not at all, locked by one opening, and watched for the kind of failure it has.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, Builder, Database, DatabaseError, StorageBackend};

use super::failure::Failure;

/// What the watched file has seen.
#[derive(Debug, Default)]
pub(super) struct Watch {
    sync_failed: AtomicBool,
}

impl Watch {
    /// Whether the system could not tell that written data is on the disk. From then on what the file seems
    /// to hold, and what the disk holds, may differ.
    pub(super) fn sync_failed(&self) -> bool {
        self.sync_failed.load(Ordering::Acquire)
    }
}

/// How a file is opened for redb: as it is, or, in tests, one that fails.
pub(super) trait Medium: Debug + Send + Sync {
    fn storage(&self, file: FileBackend) -> Box<dyn StorageBackend>;
}

/// The file as it is.
#[derive(Debug)]
pub(super) struct Disk;

impl Medium for Disk {
    fn storage(&self, file: FileBackend) -> Box<dyn StorageBackend> {
        Box::new(file)
    }
}

/// Where the files of a store come from, and how much of them is kept in memory.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) medium: Arc<dyn Medium>,
    pub(super) cache_bytes: usize,
}

impl Source {
    fn database(&self, file: File) -> Result<(Database, Arc<Watch>), DatabaseError> {
        let watch = Arc::new(Watch::default());
        let file = self.medium.storage(FileBackend::new(file)?);
        let watched = WatchedFile { file, watch: watch.clone() };
        let database = Builder::new().set_cache_size(self.cache_bytes).create_with_backend(watched)?;
        Ok((database, watch))
    }
}

/// redb's file, and a note when it could not be synced.
#[derive(Debug)]
struct WatchedFile {
    file: Box<dyn StorageBackend>,
    watch: Arc<Watch>,
}

impl StorageBackend for WatchedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data().inspect_err(|_| self.watch.sync_failed.store(true, Ordering::Release))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

/// Opens the file that is there.
///
/// The descriptor is close-on-exec, as all those of the standard library are: a process started by the host
/// does not hold the lock.
pub(super) fn open(path: &Path, source: &Source) -> Result<(Database, Arc<Watch>), Failure> {
    // Looked at before it is opened: opening a pipe would wait for its other end.
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(Failure::damaged("it is no regular file"));
    }
    // redb would make a new database of an empty file. We never leave one behind, so there was a store once.
    if found.len() == 0 {
        return Err(Failure::damaged("the file is empty; if there never was a store, delete it"));
    }
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    Ok(source.database(file)?)
}

/// Makes a new file, unless one is there by now, in which case it does nothing.
///
/// A file that redb was killed over while it was laying it out can never be opened again. So it is laid out
/// under another name and then renamed: the store is there whole or not at all. Whoever makes it holds the lock
/// of the other name until the end; what a killed process left there is overwritten.
pub(super) fn create(
    path: &Path,
    source: &Source,
    lay_out: impl FnOnce(&Database) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let fresh = sibling(path);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    // Conversations are their owner's.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&fresh)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(redb::Error::DatabaseAlreadyOpen.into()),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    // Asked under the lock: whoever held it before has renamed the file by now, and it may be the one in hand.
    if path.try_exists()? {
        return Ok(());
    }
    file.set_len(0)?;
    let (database, _) = source.database(file)?;
    lay_out(&database)?;
    fs::rename(&fresh, path)?;
    sync_folder(path)?;
    database.close().map_err(Failure::from)
}

/// `store.redb` is laid out as `store.redb.new`.
fn sibling(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Makes a new name in a folder durable.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Other systems have no such call; their file systems log names.
#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes the system forget what it holds of the file in memory, so that the next read comes from the disk.
///
/// When a sync fails, Linux marks the pages that it could not write as clean and keeps them: reading would show
/// what is not on the disk. Source: <https://lwn.net/Articles/752063/>.
#[cfg(target_os = "linux")]
pub(super) fn forget_pages(path: &Path) {
    if let Ok(file) = File::open(path) {
        // It is a hint; where it is not taken the checksums of redb remain.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn forget_pages(_path: &Path) {}
