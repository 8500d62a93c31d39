//! A folder that is trusted as a whole.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::Arc;

use nervekit_types::Digest;

use super::place::{Place, is_name};
use super::seen;
use crate::error::DocumentProblem;
use crate::path::{EntryKind, Folder, refused};

/// The most files in a folder, at any depth.
const MAXIMUM_FILES: usize = 256;
/// The most folders in it, which are held open while it is read.
const MAXIMUM_FOLDERS: usize = 64;
/// How deep it may be nested.
const MAXIMUM_DEPTH: usize = 8;
/// The most bytes in all its files.
const MAXIMUM_BYTES: usize = 4 << 20;
/// The most entries in the folder of skills.
const MAXIMUM_SKILLS: usize = 256;

/// The files of a folder, as they were read once.
#[derive(Debug)]
pub(super) struct Tree {
    /// By path, components joined by `/`.
    pub(super) files: BTreeMap<String, Arc<[u8]>>,
}

/// A file that was found and not yet opened.
struct Found {
    folder: Arc<Folder>,
    name: OsString,
    path: String,
}

impl Tree {
    /// Reads a folder; `None` when something in it changed meanwhile.
    pub(super) fn read(place: &Place) -> io::Result<Option<Self>> {
        match Self::of(place.open_folder()?) {
            // It is the folder that is there or not; what goes from it is a change.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read,
        }
    }

    /// Everything is counted and measured before the first file is opened.
    fn of(folder: Folder) -> io::Result<Option<Self>> {
        let mut files = BTreeMap::new();
        let mut left = MAXIMUM_BYTES;
        for found in list(folder)? {
            // A file that grew since it was measured does not get beyond the bound.
            let bytes = seen::regular(&found.folder, &found.name, left)
                .map_err(|error| about(&found.path, &error))?;
            let Some(bytes) = bytes else { return Ok(None) };
            left = left.saturating_sub(bytes.len());
            files.insert(found.path, bytes);
        }
        Ok(Some(Self { files }))
    }

    /// The table of the files with their digests, in the order of their paths: what is shown, and what the
    /// digest of the folder is of. JSON says where a path ends, so no two folders have the same table.
    pub(super) fn table(&self) -> Vec<u8> {
        let table: BTreeMap<&str, Digest> =
            self.files.iter().map(|(path, bytes)| (&**path, Digest::of(bytes))).collect();
        // A map of texts becomes text without fail.
        serde_json::to_vec_pretty(&table).unwrap_or_default()
    }
}

/// Finds all files of a folder. One thing in it that cannot be trusted refuses the whole.
fn list(top: Folder) -> io::Result<Vec<Found>> {
    let mut files = Vec::new();
    let (mut folders, mut bytes) = (1, 0);
    let mut pending = vec![(Arc::new(top), String::new(), 1)];
    while let Some((folder, prefix, depth)) = pending.pop() {
        for entry in folder.entries()? {
            let (name, kind) = entry?;
            let Some(text) = name.to_str() else {
                return Err(refused(format!("the name of `{}` is not UTF-8", shown(&prefix, &name))));
            };
            let path = format!("{prefix}{text}");
            match kind {
                EntryKind::File => {
                    let size = folder.stamp(&name).map_err(|error| about(&path, &error))?.size;
                    bytes = usize::try_from(size).unwrap_or(usize::MAX).saturating_add(bytes);
                    files.push(Found { folder: Arc::clone(&folder), name, path });
                }
                EntryKind::Folder if depth == MAXIMUM_DEPTH => {
                    let path = crate::display(&path);
                    return Err(refused(format!(
                        "`{path}` is nested more than {MAXIMUM_DEPTH} folders deep"
                    )));
                }
                EntryKind::Folder => {
                    folders += 1;
                    let below = folder.below(Path::new(&name)).map_err(|error| about(&path, &error))?;
                    pending.push((Arc::new(below), format!("{path}/"), depth + 1));
                }
                EntryKind::Link => {
                    return Err(about(&path, &refused("it is a link, and links are not followed there")));
                }
                EntryKind::Other => {
                    return Err(about(
                        &path,
                        &refused("it is a pipe, socket or device; only regular files are opened"),
                    ));
                }
            }
            if files.len() > MAXIMUM_FILES || folders > MAXIMUM_FOLDERS {
                return Err(refused(format!(
                    "it holds more than {MAXIMUM_FILES} files or {MAXIMUM_FOLDERS} folders"
                )));
            }
            if bytes > MAXIMUM_BYTES {
                return Err(refused(format!(
                    "its files are more than {MAXIMUM_BYTES} bytes long; no more are read"
                )));
            }
        }
    }
    Ok(files)
}

/// Lists what lies in the folder of skills: the names that may be skills, and what is wrong with the others.
/// Files that lie beside, such as a `README.md`, are no skills and not listed.
pub(super) fn skills(place: &Place) -> io::Result<Vec<(String, Result<(), DocumentProblem>)>> {
    let folder = match place.open_folder() {
        Ok(folder) => Arc::new(folder),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut skills = Vec::new();
    for (number, entry) in folder.entries()?.enumerate() {
        let (name, kind) = entry?;
        if number == MAXIMUM_SKILLS {
            return Err(refused(format!("it holds more than {MAXIMUM_SKILLS} entries")));
        }
        match (name.to_str(), kind) {
            (_, EntryKind::File) => {}
            (Some(name), _) if is_name(name) => skills.push((name.to_owned(), Ok(()))),
            (Some(name), _) if name.starts_with('.') => {}
            _ => {
                let what = "the name of a skill is made of letters, digits, `_`, `-`, `.` and `:`";
                skills.push((shown("", &name), Err(DocumentProblem::new(what))));
            }
        }
    }
    skills.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(skills)
}

fn shown(prefix: &str, name: &OsStr) -> String {
    crate::display(&format!("{prefix}{}", name.to_string_lossy()))
}

/// Says of which file this is true, keeping what is gone apart from what is wrong.
fn about(path: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", crate::display(path)))
}
