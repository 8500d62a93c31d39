//! Following the links of a path, component by component.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::folder::Identity;
use crate::fold::fold;

/// The longest path, in bytes; source: `PATH_MAX` of Linux, `limits.h`.
pub(super) const MAXIMUM_PATH: usize = 4096;
/// The most links that are followed in one path; source: `path_resolution(7)`.
const MAXIMUM_LINKS: usize = 40;

/// Removes `.` and `..` by name.
pub(super) fn without_dots(path: &Path) -> PathBuf {
    let mut kept = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                kept.pop();
            }
            other => kept.push(other),
        }
    }
    kept
}

/// A path without links.
pub(crate) struct Walked {
    pub(crate) path: PathBuf,
    /// Every link that was followed.
    pub(crate) links: Vec<PathBuf>,
}

/// Resolves the links in an absolute path, component by component; what does not exist stays as it is.
pub(crate) fn walk(path: &Path) -> Result<Walked, String> {
    Snapshot::default().walk(path)
}

/// What lies on the paths of one call. Each place is looked at once: roots and targets share most of their folders,
/// and a call is judged by one view of them.
#[derive(Default)]
pub(super) struct Snapshot {
    places: HashMap<OsString, Place>,
}

#[derive(Clone)]
enum Place {
    Nothing,
    Link(PathBuf),
    Folder(Metadata),
    Other(Metadata),
}

impl Snapshot {
    fn look(&mut self, path: &Path) -> io::Result<Place> {
        if let Some(place) = self.places.get(path.as_os_str()) {
            return Ok(place.clone());
        }
        let place = match std::fs::symlink_metadata(path) {
            Ok(facts) if facts.is_symlink() => Place::Link(std::fs::read_link(path)?),
            Ok(facts) if facts.is_dir() => Place::Folder(facts),
            Ok(facts) => Place::Other(facts),
            // Below a file there is nothing, as below what does not exist.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Place::Nothing
            }
            Err(error) => return Err(error),
        };
        self.places.insert(path.as_os_str().to_owned(), place.clone());
        Ok(place)
    }

    /// Every folder on a path without links that exists, and the path itself if it does.
    pub(super) fn identities(&mut self, path: &Path) -> Vec<(PathBuf, Identity)> {
        let mut ancestors: Vec<&Path> = path.ancestors().collect();
        ancestors.reverse();
        let mut identities = Vec::with_capacity(ancestors.len());
        for path in ancestors {
            // Below anything but a folder there is nothing.
            let (facts, is_folder) = match self.look(path) {
                Ok(Place::Folder(facts)) => (facts, true),
                Ok(Place::Other(facts)) => (facts, false),
                Ok(Place::Nothing) => break,
                Ok(Place::Link(_)) | Err(_) => continue,
            };
            identities.extend(identify(path, &facts).map(|identity| (path.to_owned(), identity)));
            if !is_folder {
                break;
            }
        }
        identities
    }

    /// Resolves the links in an absolute path, component by component; what does not exist stays as it is.
    pub(super) fn walk(&mut self, path: &Path) -> Result<Walked, String> {
        let mut pending: VecDeque<OsString> = VecDeque::new();
        let mut resolved = PathBuf::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => pending.push_back(name.to_owned()),
                top => resolved.push(top),
            }
        }
        let top = resolved.clone();
        let mut links = Vec::new();
        let mut missing = false;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                // Only the content of a link brings these. Below something that does not exist, the system would
                // refuse what removing it by name would accept.
                if missing {
                    return Err("a link in it leads through a folder that does not exist".to_owned());
                }
                resolved.pop();
                continue;
            }
            resolved.push(&name);
            if missing {
                continue;
            }
            match self.look(&resolved).map_err(|error| error.to_string())? {
                Place::Link(content) => {
                    links.push(resolved.clone());
                    if links.len() > MAXIMUM_LINKS {
                        return Err("it goes through too many links".to_owned());
                    }
                    resolved.pop();
                    let mut front = Vec::new();
                    for component in content.components() {
                        match component {
                            Component::Prefix(_) | Component::RootDir => resolved.clone_from(&top),
                            Component::CurDir => {}
                            Component::ParentDir => front.push(OsString::from("..")),
                            Component::Normal(name) => front.push(name.to_owned()),
                        }
                    }
                    for name in front.into_iter().rev() {
                        pending.push_front(name);
                    }
                }
                Place::Folder(_) => {}
                Place::Other(_) | Place::Nothing => missing = true,
            }
            if resolved.as_os_str().len() > MAXIMUM_PATH {
                return Err("it is too long".to_owned());
            }
        }
        // Where names are folded by the file system, the spelling on disk is the one that counts.
        if cfg!(any(target_vendor = "apple", windows))
            && let Ok(canonical) = std::fs::canonicalize(&resolved)
            && fold(&canonical.to_string_lossy()) == fold(&resolved.to_string_lossy())
        {
            resolved = canonical;
        }
        Ok(Walked { path: resolved, links })
    }
}

/// What tells the file or folder that was looked at from every other.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems do not always know it")]
fn identify(_path: &Path, facts: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    Some(Identity { device: facts.dev(), inode: facts.ino() })
}

#[cfg(not(unix))]
fn identify(path: &Path, _facts: &Metadata) -> Option<Identity> {
    super::mark::identify(path)
}
