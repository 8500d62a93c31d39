//! A path that was decided, and the only ways to use it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use super::folder::{Folder, Identity, refused};
use crate::fold::fold;
use crate::target::Access;

/// What an entry of a folder is, without following a link.
///
/// ```
/// use nervekit_permissions::EntryKind;
/// assert_ne!(EntryKind::File, EntryKind::Link);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link. It is not followed.
    Link,
    /// A pipe, a socket or a device. It is never opened.
    Other,
}

/// An entry of a folder.
///
/// ```
/// use nervekit_permissions::{DecidedEntry, EntryKind};
/// let entry = DecidedEntry::new("main.rs", EntryKind::File);
/// assert_eq!(entry.name, "main.rs");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecidedEntry {
    /// Its name, one component.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
}

impl DecidedEntry {
    /// Puts an entry together.
    #[must_use]
    pub fn new(name: impl Into<OsString>, kind: EntryKind) -> Self {
        Self { name: name.into(), kind }
    }
}

/// What is known about a file or folder without opening it.
///
/// ```
/// use nervekit_permissions::{EntryKind, PathMetadata};
/// let metadata = PathMetadata::new(EntryKind::File, 12, std::time::SystemTime::UNIX_EPOCH);
/// assert_eq!(metadata.length, 12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathMetadata {
    /// What it is.
    pub kind: EntryKind,
    /// Its length, in bytes.
    pub length: u64,
    /// When it was last changed.
    pub modified: SystemTime,
}

impl PathMetadata {
    /// Puts the facts together.
    #[must_use]
    pub const fn new(kind: EntryKind, length: u64, modified: SystemTime) -> Self {
        Self { kind, length, modified }
    }
}

/// What a mutation lock is taken on: the identity of the held parent folder and the final name.
///
/// Two spellings of one file have equal keys. While parent folders are missing, the key is of the nearest
/// folder that exists; so whoever waited for a lock asks for the key again before using it, and takes the
/// other lock when it differs.
///
/// ```
/// use std::collections::HashSet;
/// use nervekit_permissions::LockKey;
/// let locks: HashSet<LockKey> = HashSet::new();
/// assert!(locks.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockKey {
    folder: Identity,
    name: OsString,
}

/// A file or folder that was decided: the only thing that a tool gets to touch it by.
///
/// It is opened on first use, from its root's folder and without following any link, and then used only
/// through the descriptor of its parent folder. Whatever happens to the path meanwhile, no method reaches
/// another place than the one that was judged. It is cheap to clone; no method takes a lock or waits for a
/// pipe. On platforms without `openat` each use is checked instead, and a race remains.
///
/// ```
/// # use nervekit_permissions::*;
/// # let folder = tempfile::tempdir()?;
/// # let tool = ToolDescriptor::new("note", ToolKind::Filesystem, Risk::Write).target(TargetSelector::path("path").write());
/// # let call = ProposedCall::new(tool, EffectiveArguments::parse(r#"{"path": "notes/today"}"#)?, CallOrigin::Model, "autonomous")
/// #     .working_directory(folder.path());
/// let engine = RuleEngine::new(Roots::new().project(folder.path()));
/// let evaluation = engine.evaluate(call);
/// assert_eq!(evaluation.decision(), Decision::Allow);
/// let note = evaluation.target("path").and_then(|target| target.path.as_ref()).unwrap();
/// note.replace(b"one line\n")?; // makes `notes`, writes beside, renames
/// assert_eq!(std::io::read_to_string(note.open()?)?, "one line\n");
/// assert_eq!(note.display(), "notes/today");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DecidedPath(Arc<Place>);

struct Place {
    anchor: Anchor,
    /// The entry in the parent folder; `None` for a folder that stands for itself.
    name: Option<OsString>,
    absolute: PathBuf,
    label: String,
    access: Access,
    parent: OnceLock<Arc<Folder>>,
}

enum Anchor {
    /// The parent folder is opened on first use.
    Below {
        base: PathBuf,
        base_identity: Option<Identity>,
        folders: PathBuf,
        /// The parent as it was when the call was judged.
        parent_identity: Option<Identity>,
    },
    /// The parent folder is the one that was listed.
    Held,
}

/// Where a decided path lies; made by the resolver.
pub(super) struct Location {
    pub(super) base: PathBuf,
    pub(super) base_identity: Option<Identity>,
    /// Below the base; empty for the base itself.
    pub(super) relative: PathBuf,
    pub(super) parent_identity: Option<Identity>,
    pub(super) label: String,
    pub(super) access: Access,
}

impl DecidedPath {
    pub(super) fn new(location: Location) -> Self {
        let Location { base, base_identity, relative, parent_identity, label, access } = location;
        let absolute = if relative.as_os_str().is_empty() { base.clone() } else { base.join(&relative) };
        let name = relative.file_name().map(OsStr::to_owned);
        let folders = relative.parent().map(Path::to_owned).unwrap_or_default();
        let anchor = Anchor::Below { base, base_identity, folders, parent_identity };
        Self(Arc::new(Place { anchor, name, absolute, label, access, parent: OnceLock::new() }))
    }

    /// Returns a form that is safe to show: below the project when it is there, else absolute.
    #[must_use]
    pub fn display(&self) -> String {
        self.0.label.clone()
    }

    /// Returns whether the target was decided for writing.
    #[must_use]
    pub fn access(&self) -> Access {
        self.0.access
    }

    /// Opens a regular file for reading. A folder, pipe, socket, device, or a file that the kernel makes up is
    /// refused by what the opened descriptor is, without waiting for it.
    pub fn open(&self) -> io::Result<File> {
        match &self.0.name {
            Some(name) => self.parent(false)?.file(name),
            None => Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, not a file")),
        }
    }

    /// Puts bytes in place of the file, or makes it and the folders above it. A reader sees the old file or the
    /// new one; mode and, where the system allows it, owner of an existing file stay. It is durable on return.
    ///
    /// Fails when the target was decided for reading only.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let name = self.writable_name()?;
        self.parent(true)?.replace(name, bytes)
    }

    /// Removes the file. A folder is refused.
    ///
    /// Fails when the target was decided for reading only.
    pub fn remove(&self) -> io::Result<()> {
        let name = self.writable_name()?;
        self.parent(false)?.remove(name)
    }

    /// Looks at the file or folder without opening it; a link that took its place is reported as one.
    pub fn metadata(&self) -> io::Result<PathMetadata> {
        match &self.0.name {
            Some(name) => Ok(self.parent(false)?.look(name)?.0),
            None => self.parent(false)?.look_at_self(),
        }
    }

    /// Returns whether something is there.
    pub fn exists(&self) -> io::Result<bool> {
        match self.metadata() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Goes through the entries of a folder, in the order of the file system.
    pub fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<DecidedEntry>> + Send + use<>> {
        let entries = self.folder()?.entries()?;
        Ok(entries.map(|entry| entry.map(|(name, kind)| DecidedEntry { name, kind })))
    }

    /// Returns an entry of the folder, to be used through the descriptor of this very folder.
    ///
    /// The name is one component. Whether the entry may be opened is for the
    /// [`EntryFilter`](crate::EntryFilter) of the target to say.
    pub fn child(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        let mut components = Path::new(name).components();
        let one = matches!(components.next(), Some(std::path::Component::Normal(first)) if first == name);
        if !one || components.next().is_some() {
            return Err(refused("the name of an entry is one component"));
        }
        let shown = crate::display(&name.to_string_lossy());
        let label = if self.0.label == "." {
            shown
        } else {
            format!("{}/{shown}", self.0.label.trim_end_matches('/'))
        };
        Ok(Self(Arc::new(Place {
            anchor: Anchor::Held,
            name: Some(name.to_owned()),
            absolute: self.0.absolute.join(name),
            label,
            access: self.0.access,
            parent: OnceLock::from(self.folder()?),
        })))
    }

    /// Returns what a mutation lock is taken on.
    pub fn lock_key(&self) -> io::Result<LockKey> {
        let key = |folder: &Folder, name: &Path| {
            let name = if folder.folds_case() {
                fold(&name.to_string_lossy()).into()
            } else {
                name.as_os_str().to_owned()
            };
            Ok(LockKey { folder: folder.identity()?, name })
        };
        let name = self.0.name.as_deref().unwrap_or_default();
        match self.parent(false) {
            Ok(folder) => key(&folder, Path::new(name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Anchor::Below { base, folders, .. } = &self.0.anchor else { return Err(error) };
                let base = Folder::open(base)?;
                for existing in folders.ancestors().skip(1) {
                    if let Ok(folder) = base.below(existing) {
                        let missing = folders.strip_prefix(existing).unwrap_or(folders);
                        return key(&folder, &missing.join(name));
                    }
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the path, for what can only take a path, such as a child process.
    ///
    /// Whoever opens it may reach another file than the one that was decided: someone can swap a folder or a
    /// link in between. Use the other methods wherever they suffice.
    #[must_use]
    pub fn as_racy_path(&self) -> &Path {
        &self.0.absolute
    }

    fn writable_name(&self) -> io::Result<&OsStr> {
        if self.0.access != Access::Write {
            let message = "the call was decided for reading this path, not for writing it";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        self.0
            .name
            .as_deref()
            .ok_or_else(|| io::Error::new(io::ErrorKind::IsADirectory, "it is a folder, not a file"))
    }

    /// The folder that this path itself is.
    fn folder(&self) -> io::Result<Arc<Folder>> {
        let parent = self.parent(false)?;
        match &self.0.name {
            Some(name) => Ok(Arc::new(parent.below(Path::new(name))?)),
            None => Ok(parent),
        }
    }

    /// The folder that holds this path, opened once.
    fn parent(&self, make: bool) -> io::Result<Arc<Folder>> {
        if let Some(folder) = self.0.parent.get() {
            return Ok(Arc::clone(folder));
        }
        let Anchor::Below { base, base_identity, folders, parent_identity } = &self.0.anchor else {
            return Err(refused("the folder is not held any more"));
        };
        let base = Folder::open(base)?;
        if base_identity.is_some_and(|seen| base.identity().ok() != Some(seen)) {
            return Err(changed());
        }
        let folder = match base.below(folders) {
            Err(error) if make && error.kind() == io::ErrorKind::NotFound => base.below_making(folders)?,
            other => other?,
        };
        if parent_identity.is_some_and(|seen| folder.identity().ok() != Some(seen)) {
            return Err(changed());
        }
        Ok(Arc::clone(self.0.parent.get_or_init(|| Arc::new(folder))))
    }
}

fn changed() -> io::Error {
    refused("a folder above it was replaced after it was decided; make the call again")
}

impl fmt::Debug for DecidedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecidedPath").field("path", &self.0.label).field("access", &self.0.access).finish()
    }
}

const _: fn() = || {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    shared::<DecidedPath>();
};
