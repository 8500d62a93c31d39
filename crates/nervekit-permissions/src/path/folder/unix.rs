//! Folders held by descriptor.
//!
//! On Linux a path is opened with `openat2` and `RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS`
//! (`openat2(2)`, since 5.6); elsewhere, and where a sandbox forbids that call, component by component with
//! `O_NOFOLLOW`. Everything else happens relative to the held descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Identity, Stamp, refused, temporary_name};
use crate::path::decided::{EntryKind, PathMetadata};

/// Enough to look things up below, without the right to list.
#[cfg(target_os = "linux")]
const HELD: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const HELD: OFlags = OFlags::RDONLY;

#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// Opens an absolute path in which no component is a link.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let top = rustix::fs::open("/", HELD | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Self(top).below(path.strip_prefix("/").unwrap_or(path))
    }

    /// Opens a folder below, in whose path no component is a link.
    pub(crate) fn below(&self, relative: &Path) -> io::Result<Self> {
        let flags = HELD | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if relative.as_os_str().is_empty() {
            return Ok(Self(rustix::fs::openat(&self.0, ".", flags, Mode::empty())?));
        }
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH;
            match rustix::fs::openat2(&self.0, relative, flags, Mode::empty(), resolve) {
                Ok(folder) => return Ok(Self(folder)),
                Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut folder = rustix::fs::openat(&self.0, ".", flags, Mode::empty())?;
        for component in relative.components() {
            let Component::Normal(name) = component else {
                return Err(refused("a decided path holds no `.` or `..`"));
            };
            folder = rustix::fs::openat(&folder, name, flags, Mode::empty())?;
        }
        Ok(Self(folder))
    }

    /// Opens a folder below, making the ones that are missing.
    pub(crate) fn below_making(&self, relative: &Path) -> io::Result<Self> {
        let mut folder = self.below(Path::new(""))?;
        for component in relative.components() {
            let Component::Normal(name) = component else {
                return Err(refused("a decided path holds no `.` or `..`"));
            };
            match rustix::fs::mkdirat(&folder.0, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = folder.below(Path::new(name))?;
        }
        Ok(folder)
    }

    pub(crate) fn identity(&self) -> io::Result<Identity> {
        Ok(identity(&rustix::fs::fstat(&self.0)?))
    }

    /// Looks at an entry without following a link.
    pub(crate) fn look(&self, name: &OsStr) -> io::Result<(PathMetadata, Identity)> {
        let stat = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((metadata(&stat), identity(&stat)))
    }

    /// Looks at the folder itself.
    pub(crate) fn look_at_self(&self) -> io::Result<PathMetadata> {
        Ok(metadata(&rustix::fs::fstat(&self.0)?))
    }

    /// Opens a regular file for reading. What is no regular file is not opened, or at least never waited for.
    pub(crate) fn file(&self, name: &OsStr) -> io::Result<File> {
        let (seen, _) = self.look(name)?;
        require_file(seen.kind)?;
        // Between the look and the opening the entry may change: a pipe then opens without waiting, and the
        // opened descriptor is judged.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened =
            rustix::fs::openat(&self.0, name, flags, Mode::empty()).map_err(|error| match error {
                Errno::LOOP => refused("it became a link after it was decided"),
                other => other.into(),
            })?;
        require_file(metadata(&rustix::fs::fstat(&opened)?).kind)?;
        require_stored(&opened)?;
        Ok(File::from(opened))
    }

    /// Puts bytes in place of an entry, or makes it, so that a reader sees the old file or the new one.
    pub(crate) fn replace(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        require_stored(&self.0)?;
        let old = match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                require_file(metadata(&stat).kind)?;
                Some(stat)
            }
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        let temporary = temporary_name();
        // A new file gets what the umask leaves; a copy of an old one is private until it has its mode.
        let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.0, temporary.as_str(), flags, mode)?);
        let written = (|| {
            file.write_all(bytes)?;
            if let Some(old) = &old {
                keep_owner_and_mode(&file, old)?;
            }
            file.sync_all()?;
            rustix::fs::renameat(&self.0, temporary.as_str(), &self.0, name)?;
            Ok(())
        })();
        if written.is_err() {
            // The failure itself is what the caller has to know; a left-over temporary file is harmless.
            let _ = rustix::fs::unlinkat(&self.0, temporary.as_str(), AtFlags::empty());
        }
        written.and_then(|()| self.sync())
    }

    /// Returns the stamp of an entry without following a link or opening it.
    pub(crate) fn stamp(&self, name: &OsStr) -> io::Result<Stamp> {
        Ok(stamp(&rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Returns the stamp of an opened file.
    pub(crate) fn stamp_of(file: &File) -> io::Result<Stamp> {
        Ok(stamp(&rustix::fs::fstat(file)?))
    }

    /// Opens what a lock on the folder is taken on: the folder itself, so that no lock file lies about.
    pub(crate) fn lockable(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.0, ".", flags, Mode::empty())?))
    }

    /// Makes a file that only its owner reads, and returns when its bytes are on the disk.
    pub(crate) fn write_private(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o600))?);
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Puts one entry in place of another, durably.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        rustix::fs::renameat(&self.0, from, &self.0, to)?;
        self.sync()
    }

    /// Gives an entry a name that nothing has yet, durably. `Unsupported` where that cannot be done in one step.
    pub(crate) fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.rename_in_one_step(from, to, true)
    }

    /// Lets two entries change their names, durably. `Unsupported` where that cannot be done in one step.
    pub(crate) fn exchange(&self, one: &OsStr, other: &OsStr) -> io::Result<()> {
        self.rename_in_one_step(one, other, false)
    }

    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    fn rename_in_one_step(&self, from: &OsStr, to: &OsStr, new: bool) -> io::Result<()> {
        use rustix::fs::RenameFlags;
        let flags = if new { RenameFlags::NOREPLACE } else { RenameFlags::EXCHANGE };
        match rustix::fs::renameat_with(&self.0, from, &self.0, to, flags) {
            Ok(()) => self.sync(),
            // The file system does not know it, or the kernel, or a sandbox forbids it.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    fn rename_in_one_step(&self, _from: &OsStr, _to: &OsStr, _new: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        let (seen, _) = self.look(name)?;
        require_file(seen.kind)?;
        rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?;
        self.sync()
    }

    /// Makes a rename in this folder durable. Folders of some file systems cannot be synced; the rename is
    /// then as durable as it gets.
    fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.0, ".", flags, Mode::empty()).and_then(rustix::fs::fsync) {
            Ok(()) | Err(Errno::INVAL | Errno::ACCESS | Errno::NOTSUP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Goes through the entries, in the order of the file system.
    pub(crate) fn entries(
        self: &Arc<Self>,
    ) -> io::Result<impl Iterator<Item = io::Result<(OsString, EntryKind)>> + Send + use<>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut listing = Dir::new(rustix::fs::openat(&self.0, ".", flags, Mode::empty())?)?;
        let folder = Arc::clone(self);
        Ok(std::iter::from_fn(move || {
            loop {
                let entry = match listing.next()? {
                    Ok(entry) => entry,
                    Err(error) => return Some(Err(error.into())),
                };
                let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
                if name.as_bytes() == b"." || name.as_bytes() == b".." {
                    continue;
                }
                let kind = match entry.file_type() {
                    // Some file systems do not say it in the listing.
                    FileType::Unknown => match folder.look(&name) {
                        Ok((seen, _)) => seen.kind,
                        Err(error) => return Some(Err(error)),
                    },
                    known => kind(known),
                };
                return Some(Ok((name, kind)));
            }
        }))
    }

    /// Whether names that differ in case only are one entry here.
    pub(crate) fn folds_case(&self) -> bool {
        // Where it is not known that they are two, two files share a lock.
        #[cfg(not(target_os = "linux"))]
        return cfg!(target_vendor = "apple");
        #[cfg(target_os = "linux")]
        {
            // Magic numbers: msdos, exfat, ntfs (two drivers), smb, smb2, cifs, hfs+. Source: linux/magic.h.
            const FOLDING: [u64; 8] =
                [0x4d44, 0x2011_bab0, 0x5346_544e, 0x7366_746e, 0x517b, 0xfe53_4d42, 0xff53_4d42, 0x482b];
            if statfs_magic(&self.0).is_some_and(|magic| FOLDING.contains(&magic)) {
                return true;
            }
            // ext4 and f2fs fold in folders that bear the flag FS_CASEFOLD_FL; source: linux/fs.h.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(&self.0, ".", flags, Mode::empty())
                .and_then(rustix::fs::ioctl_getflags)
                .is_ok_and(|flags| flags.bits() & 0x4000_0000 != 0)
        }
    }
}

fn keep_owner_and_mode(file: &File, old: &Stat) -> io::Result<()> {
    let new = rustix::fs::fstat(file)?;
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid) {
        let owner = rustix::fs::Uid::from_raw(old.st_uid);
        let group = rustix::fs::Gid::from_raw(old.st_gid);
        // Only root may give files away; others keep at least the group when they are in it.
        if rustix::fs::fchown(file, Some(owner), Some(group)).is_err() {
            let _ = rustix::fs::fchown(file, None, Some(group));
        }
    }
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(old.st_mode & 0o7777))?)
}

fn require_file(kind: EntryKind) -> io::Result<()> {
    match kind {
        EntryKind::File => Ok(()),
        EntryKind::Folder => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, not a file")),
        EntryKind::Link => Err(refused("it became a link after it was decided")),
        EntryKind::Other => Err(refused("it is a pipe, socket or device; only regular files are opened")),
    }
}

/// Refuses files that a kernel makes up: what they hold is not stored, and writing them acts on the machine.
fn require_stored(descriptor: impl AsFd) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // procfs, sysfs, debugfs, tracefs, securityfs, cgroup, cgroup2, devpts, bpf. Source: linux/magic.h.
        const MADE_UP: [u64; 9] = [
            0x9fa0,
            0x6265_6572,
            0x6462_6720,
            0x7472_6163,
            0x7363_6673,
            0x0027_e0eb,
            0x6367_7270,
            0x1cd1,
            0xcafe_4a11,
        ];
        if statfs_magic(&descriptor).is_some_and(|magic| MADE_UP.contains(&magic)) {
            return Err(refused("it belongs to the kernel (procfs, sysfs or the like), not to a disk"));
        }
    }
    let _ = descriptor;
    Ok(())
}

#[cfg(target_os = "linux")]
fn statfs_magic(descriptor: impl AsFd) -> Option<u64> {
    let magic = rustix::fs::fstatfs(descriptor).ok()?.f_type;
    // The type of the field differs between architectures; the numbers have 32 bits.
    Some(number(i128::from(magic) & 0xffff_ffff))
}

fn kind(file_type: FileType) -> EntryKind {
    match file_type {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

/// The types of the fields of `stat` differ between platforms; all their values fit.
fn number(value: impl Into<i128>) -> u64 {
    u64::try_from(value.into()).unwrap_or_default()
}

fn identity(stat: &Stat) -> Identity {
    Identity { device: number(stat.st_dev), inode: number(stat.st_ino) }
}

fn stamp(stat: &Stat) -> Stamp {
    Stamp {
        identity: identity(stat),
        kind: kind(FileType::from_raw_mode(stat.st_mode)),
        size: number(stat.st_size),
        modified: moment(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
        changed: moment(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
    }
}

fn moment(seconds: i128, nanoseconds: i128) -> SystemTime {
    let nanoseconds = u32::try_from(nanoseconds).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::new(number(seconds), nanoseconds)
}

fn metadata(stat: &Stat) -> PathMetadata {
    let modified = moment(stat.st_mtime.into(), stat.st_mtime_nsec.into());
    PathMetadata::new(kind(FileType::from_raw_mode(stat.st_mode)), number(stat.st_size), modified)
}
