//! Following the links of a path, component by component.

use std::collections::VecDeque;
use std::ffi::OsString;
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
    /// Every folder on the way that exists, and the path itself if it does.
    pub(super) seen: Vec<(PathBuf, Identity)>,
    /// Every link that was followed.
    pub(crate) links: Vec<PathBuf>,
}

/// Resolves the links in an absolute path, component by component; what does not exist stays as it is.
pub(crate) fn walk(path: &Path) -> Result<Walked, String> {
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
        match std::fs::symlink_metadata(&resolved) {
            Ok(facts) if facts.is_symlink() => {
                links.push(resolved.clone());
                if links.len() > MAXIMUM_LINKS {
                    return Err("it goes through too many links".to_owned());
                }
                let content = std::fs::read_link(&resolved).map_err(|error| error.to_string())?;
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
            // Below a file there is nothing, as below what does not exist.
            Ok(facts) => missing = !facts.is_dir(),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                missing = true;
            }
            Err(error) => return Err(error.to_string()),
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
    let mut seen = Vec::new();
    for ancestor in resolved.ancestors() {
        seen.extend(identify_plain(ancestor).map(|identity| (ancestor.to_owned(), identity)));
    }
    Ok(Walked { path: resolved, seen, links })
}

#[cfg(unix)]
fn identify_plain(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    let facts = std::fs::symlink_metadata(path).ok()?;
    Some(Identity { device: facts.dev(), inode: facts.ino() })
}

#[cfg(not(unix))]
fn identify_plain(path: &Path) -> Option<Identity> {
    super::mark::identify(path)
}
