//! A file as it was seen.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::SystemTime;

use super::place::Place;
use super::tree::Tree;
use crate::document::MAXIMUM_DOCUMENT;
use crate::path::{EntryKind, Folder, Stamp, refused};

/// How often a file is read that changes meanwhile.
const MAXIMUM_READINGS: usize = 4;

/// What a file held, and what tells whether it still does.
#[derive(Debug)]
pub(super) struct Seen {
    stamp: Option<Stamp>,
    settled: bool,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Missing,
    Bytes(Arc<[u8]>),
    /// Something is there that is not read, and why.
    Refused(String),
}

impl Seen {
    /// Starts with something that never still holds.
    pub(super) fn nothing() -> Self {
        Self { stamp: None, settled: false, content: Content::Missing }
    }

    pub(super) fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// Whether reading the file again would give the same.
    pub(super) fn still_holds(&self, stamp: &io::Result<Option<Stamp>>) -> bool {
        match stamp {
            Ok(stamp) => self.settled && self.stamp == *stamp,
            Err(_) => false,
        }
    }

    /// Reads a file once.
    pub(super) fn read(place: &Place) -> Self {
        let stamp = match place.stamp() {
            Ok(Some(stamp)) => stamp,
            Ok(None) => return Self { stamp: None, settled: true, content: Content::Missing },
            Err(error) => return Self { content: Content::Refused(error.to_string()), ..Self::nothing() },
        };
        // Taken before the file is read, so that an edit in between is noticed. No stamp of a folder tells what
        // happens to the files below, so a folder is read each time.
        let settled = !place.is_folder() && stamp.is_settled(SystemTime::now());
        let content = match steady(|| read(place)) {
            Ok(bytes) => Content::Bytes(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::nothing(),
            Err(error) => Content::Refused(error.to_string()),
        };
        Self { stamp: Some(stamp), settled, content }
    }
}

/// Reads until nothing changes meanwhile.
pub(super) fn steady<T>(read: impl Fn() -> io::Result<Option<T>>) -> io::Result<T> {
    (0..MAXIMUM_READINGS)
        .find_map(|_| read().transpose())
        .unwrap_or_else(|| Err(refused("it keeps changing while it is read")))
}

/// Reads the bytes of the document; `None` when they changed meanwhile.
fn read(place: &Place) -> io::Result<Option<Arc<[u8]>>> {
    if place.is_folder() {
        return Ok(Tree::read(place)?.map(|tree| tree.table().into()));
    }
    let (folder, name) = place.open()?;
    if folder.stamp(&name)?.kind == EntryKind::Link {
        return Err(refused("it is a link, and links are not followed there"));
    }
    regular(&folder, &name, MAXIMUM_DOCUMENT)
}

/// Reads the bytes of a regular file of a bounded size; `None` when they changed meanwhile.
pub(super) fn regular(folder: &Folder, name: &OsStr, limit: usize) -> io::Result<Option<Arc<[u8]>>> {
    let file = folder.file(name)?;
    let before = Folder::stamp_of(&file)?;
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    if before.size > limit {
        let found = before.size;
        return Err(refused(format!("it is {found} bytes long; at most {limit} are read")));
    }
    let mut bytes = Vec::new();
    // One byte more tells a file that grew.
    (&file).take(limit + 1).read_to_end(&mut bytes)?;
    let same = Folder::stamp_of(&file)? == before && u64::try_from(bytes.len()) == Ok(before.size);
    Ok(same.then(|| bytes.into()))
}

/// Reads what is there, for a comparison under the lock.
pub(super) fn bytes(place: &Place) -> io::Result<Option<Arc<[u8]>>> {
    match Seen::read(place).content {
        Content::Missing => Ok(None),
        Content::Bytes(bytes) => Ok(Some(bytes)),
        Content::Refused(problem) => Err(refused(problem)),
    }
}
