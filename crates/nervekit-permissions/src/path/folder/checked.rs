//! Folders held by path, checked before each use: what a platform without `openat` allows.
//!
//! A race between the check and the use cannot be excluded here; the crate's documentation says so.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::{Identity, Stamp, refused, temporary_name};
use crate::path::decided::{EntryKind, PathMetadata};

#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let folder = Self(path.to_owned());
        if fs::canonicalize(path)?
            != fs::canonicalize(path.parent().unwrap_or(path))?.join(path.file_name().unwrap_or_default())
            && path.parent().is_some()
        {
            return Err(refused("it became a link after it was decided"));
        }
        require_folder(&folder.0)?;
        Ok(folder)
    }

    pub(crate) fn below(&self, relative: &Path) -> io::Result<Self> {
        let mut folder = self.0.clone();
        for component in relative.components() {
            let Component::Normal(name) = component else {
                return Err(refused("a decided path holds no `.` or `..`"));
            };
            folder.push(name);
            require_folder(&folder)?;
        }
        Ok(Self(folder))
    }

    pub(crate) fn below_making(&self, relative: &Path) -> io::Result<Self> {
        let mut folder = self.below(Path::new(""))?;
        for component in relative.components() {
            let path = folder.0.join(component);
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => folder = folder.below(Path::new(component.as_os_str()))?,
            }
        }
        Ok(folder)
    }

    /// Stands in for device and inode: a digest of the canonical path.
    pub(crate) fn identity(&self) -> io::Result<Identity> {
        let path = crate::fold::fold(&fs::canonicalize(&self.0)?.to_string_lossy());
        let digest = nervekit_types::Digest::of(path);
        let (device, inode) = digest.as_bytes().split_at(16);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Ok(Identity { device: number(device), inode: number(inode) })
    }

    pub(crate) fn look(&self, name: &OsStr) -> io::Result<(PathMetadata, Identity)> {
        let facts = fs::symlink_metadata(self.0.join(name))?;
        Ok((metadata(&facts), Self(self.0.join(name)).identity()?))
    }

    pub(crate) fn look_at_self(&self) -> io::Result<PathMetadata> {
        Ok(metadata(&fs::symlink_metadata(&self.0)?))
    }

    pub(crate) fn file(&self, name: &OsStr) -> io::Result<File> {
        let path = self.0.join(name);
        require_file(&path)?;
        let file = File::open(&path)?;
        if !file.metadata()?.is_file() {
            return Err(refused("only regular files are opened"));
        }
        Ok(file)
    }

    pub(crate) fn replace(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let path = self.0.join(name);
        if path.symlink_metadata().is_ok() {
            require_file(&path)?;
        }
        let temporary = self.0.join(temporary_name());
        let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        let written =
            file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            // The failure itself is what the caller has to know; a left-over temporary file is harmless.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    pub(crate) fn stamp(&self, name: &OsStr) -> io::Result<Stamp> {
        let (seen, identity) = self.look(name)?;
        let facts = fs::symlink_metadata(self.0.join(name))?;
        Ok(Stamp { identity, kind: seen.kind, ..stamp(&facts) })
    }

    /// Of an opened file the identity is not known here; its size and times are.
    pub(crate) fn stamp_of(file: &File) -> io::Result<Stamp> {
        Ok(stamp(&file.metadata()?))
    }

    pub(crate) fn lockable(&self) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(false).write(true).open(self.0.join(".lock"))
    }

    pub(crate) fn write_private(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(self.0.join(name))?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    pub(crate) fn rename_new(&self, _from: &OsStr, _to: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn exchange(&self, _one: &OsStr, _other: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        require_file(&self.0.join(name))?;
        fs::remove_file(self.0.join(name))
    }

    pub(crate) fn entries(
        self: &Arc<Self>,
    ) -> io::Result<impl Iterator<Item = io::Result<(OsString, EntryKind)>> + Send + use<>> {
        Ok(fs::read_dir(&self.0)?.map(|entry| {
            let entry = entry?;
            Ok((entry.file_name(), metadata(&fs::symlink_metadata(entry.path())?).kind))
        }))
    }

    pub(crate) fn folds_case(&self) -> bool {
        true
    }
}

fn require_folder(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        Ok(())
    } else {
        Err(refused("it became a link after it was decided"))
    }
}

fn require_file(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_file() { Ok(()) } else { Err(refused("only regular files are opened")) }
}

fn stamp(facts: &fs::Metadata) -> Stamp {
    let seen = metadata(facts);
    let changed = facts.created().unwrap_or(SystemTime::UNIX_EPOCH);
    let identity = Identity { device: 0, inode: 0 };
    Stamp { identity, kind: seen.kind, size: seen.length, modified: seen.modified, changed }
}

fn metadata(facts: &fs::Metadata) -> PathMetadata {
    let kind = if facts.is_file() {
        EntryKind::File
    } else if facts.is_dir() {
        EntryKind::Folder
    } else if facts.is_symlink() {
        EntryKind::Link
    } else {
        EntryKind::Other
    };
    PathMetadata::new(kind, facts.len(), facts.modified().unwrap_or(SystemTime::UNIX_EPOCH))
}
