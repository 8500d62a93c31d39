//! A document that is written but not yet in place.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nervekit_types::Digest;

use super::place::Place;
use super::{seen, unavailable};
use crate::error::{DocumentError, DocumentProblem};
use crate::path::{Folder, Stamp, unguessable};

/// How long another program may hold the lock, which it does for as long as two files take to be written.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes beside the document that they are to replace. Dropped, they vanish; the document is as it was.
#[derive(Debug)]
pub(super) struct Staged {
    folder: Arc<Folder>,
    file: OsString,
    temporary: OsString,
    before: Option<Stamp>,
    /// Held until the end: who else replaces a document in this folder waits.
    _lock: File,
}

impl Staged {
    /// Takes the lock, compares what is there with what the writer saw, and writes beside it.
    pub(super) fn write(
        place: &Place,
        expected: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Self, DocumentError> {
        let (folder, file) = place.open_making().map_err(unavailable)?;
        let folder = Arc::new(folder);
        let lock = lock(&folder)?;
        sweep(&folder, &file);
        let before = place.stamp().map_err(unavailable)?;
        let current = seen::bytes(place).map_err(|error| DocumentProblem::new(error.to_string()))?;
        let current = current.map(Digest::of);
        if current != expected {
            return Err(DocumentError::Changed { current: current.map(Box::new) });
        }
        let mut temporary = prefix(&file);
        temporary.push(unguessable());
        temporary.push(SUFFIX);
        let staged = Self { folder, file, temporary, before, _lock: lock };
        staged.folder.write_private(&staged.temporary, bytes).map_err(unavailable)?;
        Ok(staged)
    }

    /// Puts the bytes in place.
    pub(super) fn commit(self) -> Result<(), DocumentError> {
        // An editor does not know the lock.
        let now = match self.folder.stamp(&self.file) {
            Ok(stamp) => Some(stamp),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(unavailable(error)),
        };
        if now != self.before {
            return Err(DocumentError::Changed { current: None });
        }
        self.folder.rename(&self.temporary, &self.file).map_err(unavailable)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a rename there is nothing to remove, and what stays for another reason is swept the next time.
        let _ = self.folder.remove(&self.temporary);
    }
}

fn lock(folder: &Folder) -> Result<File, DocumentError> {
    let file = folder.lockable().map_err(unavailable)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(unavailable("another program has kept the folder locked for 30 seconds"));
            }
            Err(TryLockError::Error(error)) => return Err(unavailable(error)),
        }
    }
}

const SUFFIX: &str = ".tmp";

fn prefix(file: &OsStr) -> OsString {
    let mut name = OsString::from(".");
    name.push(file);
    name.push(".");
    name
}

/// Removes what programs left that died while they wrote this document. Nobody else writes: the lock is held.
fn sweep(folder: &Arc<Folder>, file: &OsStr) {
    let prefix = prefix(file);
    let Ok(entries) = folder.entries() else { return };
    for (name, _) in entries.flatten() {
        let (text, prefix) = (name.as_encoded_bytes(), prefix.as_encoded_bytes());
        let random = text.strip_prefix(prefix).and_then(|text| text.strip_suffix(SUFFIX.as_bytes()));
        if random.is_some_and(|random| random.len() == 32 && random.iter().all(u8::is_ascii_hexdigit)) {
            // What cannot be removed is in nobody's way.
            let _ = folder.remove(&name);
        }
    }
}
