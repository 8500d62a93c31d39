//! A document that is written but not yet in place.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nervekit_types::Digest;

use super::place::Place;
use super::{seen, unavailable};
use crate::document::MAXIMUM_DOCUMENT;
use crate::error::{DocumentError, DocumentProblem};
use crate::path::{Folder, unguessable};

/// How long another program may hold the lock, which it does for as long as two files take to be written.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often what an editor saved is put back while it saves again and again.
const MAXIMUM_RETURNS: usize = 8;

/// Bytes beside the document that they are to replace. Dropped, they vanish; the document is as it was.
#[derive(Debug)]
pub(super) struct Staged {
    folder: Arc<Folder>,
    file: OsString,
    temporary: OsString,
    before: Option<Digest>,
    after: Digest,
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
        let current = seen::bytes(place).map_err(|error| DocumentProblem::new(error.to_string()))?;
        let current = current.map(Digest::of);
        if current != expected {
            return Err(DocumentError::Changed { current: current.map(Box::new) });
        }
        let mut temporary = prefix(&file);
        temporary.push(unguessable());
        temporary.push(SUFFIX);
        let after = Digest::of(bytes);
        let staged = Self { folder, file, temporary, before: expected, after, _lock: lock };
        staged.folder.write_private(&staged.temporary, bytes).map_err(unavailable)?;
        Ok(staged)
    }

    /// Puts the bytes in place, unless something else than expected is there by now: an editor does not know the
    /// lock. The two files change places, so that an editor that saves at the very moment loses nothing.
    pub(super) fn commit(self) -> Result<(), DocumentError> {
        if self.holds(&self.file)? != self.before {
            return Err(DocumentError::Changed { current: None });
        }
        self.put()
    }

    fn put(&self) -> Result<(), DocumentError> {
        let (new, place) = (&*self.temporary, &*self.file);
        let put = match self.before {
            None => self.folder.rename_new(new, place),
            Some(_) => self.folder.exchange(new, place),
        };
        match put {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                // The moment between the comparison and this cannot be closed here.
                return self.folder.rename(new, place).map_err(unavailable);
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound) => {
                return Err(DocumentError::Changed { current: None });
            }
            put => put.map_err(unavailable)?,
        }
        if self.before.is_none() || self.displaced_is(self.before) {
            return Ok(());
        }
        // What was displaced goes back. If somebody has saved once more meanwhile, that is now displaced, and newer.
        for _ in 0..MAXIMUM_RETURNS {
            self.folder.exchange(new, place).map_err(unavailable)?;
            if self.displaced_is(Some(self.after)) {
                break;
            }
        }
        Err(DocumentError::Changed { current: None })
    }

    /// Whether the file beside holds this; something that is not read is something else.
    fn displaced_is(&self, expected: Option<Digest>) -> bool {
        self.holds(&self.temporary).is_ok_and(|found| found == expected)
    }

    /// The digest of a file in the folder, `None` when there is none.
    fn holds(&self, name: &OsStr) -> Result<Option<Digest>, DocumentError> {
        match seen::steady(|| seen::regular(&self.folder, name, MAXIMUM_DOCUMENT)) {
            Ok(bytes) => Ok(Some(Digest::of(bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
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

#[cfg(all(test, any(target_os = "linux", target_vendor = "apple")))]
mod tests {
    use std::fs;

    use super::*;
    use crate::documents::{DocumentId, DocumentOwner};

    #[test]
    fn what_an_editor_saves_after_the_last_comparison_is_put_back() {
        for before in [None, Some("one")] {
            for edit in ["edited", "of another kind", "gone"] {
                let home = tempfile::tempdir().unwrap();
                let place = Place::of(Some(home.path()), &DocumentId::permissions(DocumentOwner::User(None)))
                    .unwrap();
                let file = home.path().join("config/permissions.json");
                fs::create_dir(home.path().join("config")).unwrap();
                if let Some(before) = before {
                    fs::write(&file, before).unwrap();
                }
                let staged = Staged::write(&place, before.map(Digest::of), b"two").unwrap();
                match edit {
                    "edited" => fs::write(&file, edit).unwrap(),
                    "gone" if before.is_some() => fs::remove_file(&file).unwrap(),
                    "gone" => continue,
                    _ => {
                        let _ = fs::remove_file(&file);
                        fs::create_dir(&file).unwrap();
                    }
                }
                let refused = staged.put();
                assert!(matches!(refused, Err(DocumentError::Changed { .. })), "{edit}: {refused:?}");
                drop(staged);
                let found = fs::read_to_string(&file).ok();
                assert_eq!(found.as_deref(), Some(edit).filter(|edit| *edit == "edited"));
                assert_eq!(file.is_dir(), edit == "of another kind");
                let names = fs::read_dir(home.path().join("config")).unwrap().count();
                assert_eq!(names, usize::from(edit != "gone"), "nothing lies beside");
            }
        }
    }
}
