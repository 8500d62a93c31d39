//! Decided files as tools read them: bounded, cancellable, and only regular ones.

use std::fs::File;
use std::io::{self, Read};

use nervekit_permissions::{DecidedPath, EntryKind};
use nervekit_types::Digest;

use crate::context::ToolContext;
use crate::error::ToolError;

/// The largest file that is held in memory to be edited.
pub(crate) const EDIT_LIMIT: u64 = 64 * 1024 * 1024;
/// How much is read at once.
pub(crate) const PIECE: usize = 256 * 1024;

/// Opens a regular file, with an error that says what is there instead.
pub(crate) fn open(path: &DecidedPath) -> Result<File, ToolError> {
    // What it is decides before it is opened; what the opened descriptor is decides after.
    let metadata = path.metadata().map_err(|error| refused(path, error))?;
    match metadata.kind {
        EntryKind::Folder => {
            return Err(ToolError::new(format!("`{}` is a folder; `ls` lists it", path.display())));
        }
        EntryKind::Other => {
            return Err(ToolError::new(format!(
                "`{}` is a pipe, socket or device; only regular files are read",
                path.display()
            )));
        }
        _ => {}
    }
    path.open().map_err(|error| refused(path, error))
}

/// An error of the file system about a decided path, in words.
pub(crate) fn refused(path: &DecidedPath, error: io::Error) -> ToolError {
    let name = path.display();
    let text = match error.kind() {
        io::ErrorKind::NotFound => format!("`{name}` does not exist"),
        io::ErrorKind::PermissionDenied => format!("the operating system refuses access to `{name}`"),
        io::ErrorKind::IsADirectory => format!("`{name}` is a folder"),
        io::ErrorKind::NotADirectory => format!("a part of `{name}` is not a folder"),
        io::ErrorKind::InvalidFilename => format!("`{name}` is not a valid file name here"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("no space is left to write `{name}`")
        }
        io::ErrorKind::ReadOnlyFilesystem => format!("`{name}` is on a read-only file system"),
        // What the permission crate refuses says so itself, about this path.
        io::ErrorKind::InvalidInput => format!("`{name}` cannot be used: {error}"),
        _ => format!("`{name}` cannot be used"),
    };
    ToolError::new(text).because(error)
}

/// Reads a whole file that is to be changed.
pub(crate) fn read_whole(path: &DecidedPath) -> Result<Vec<u8>, ToolError> {
    let mut bytes = Vec::new();
    open(path)?.take(EDIT_LIMIT + 1).read_to_end(&mut bytes).map_err(|error| refused(path, error))?;
    if bytes.len() as u64 > EDIT_LIMIT {
        let limit = EDIT_LIMIT / (1024 * 1024);
        return Err(ToolError::new(format!(
            "`{}` is larger than {limit} MiB; change it by a command",
            path.display()
        )));
    }
    Ok(bytes)
}

/// Refuses a file that is not what this conversation last read or wrote.
pub(crate) fn unchanged_since_read(
    context: &ToolContext,
    path: &DecidedPath,
    bytes: &[u8],
) -> Result<Digest, ToolError> {
    let digest = Digest::of(bytes);
    match context.last_read(path) {
        Some(read) if read != digest => Err(ToolError::new(format!(
            "`{}` changed since it was read; read it again and repeat the call if it is still right",
            path.display()
        ))),
        _ => Ok(digest),
    }
}

/// Replaces a file whose content was just seen, unless it was changed in between by someone who takes no locks.
pub(crate) fn replace_seen(path: &DecidedPath, seen: Option<Digest>, bytes: &[u8]) -> Result<(), ToolError> {
    let exists = path.exists().map_err(|error| refused(path, error))?;
    let now = if exists { Some(Digest::of(read_whole(path)?)) } else { None };
    if now != seen {
        return Err(ToolError::new(format!(
            "`{}` was changed by someone else meanwhile; read it again",
            path.display()
        )));
    }
    path.replace(bytes).map_err(|error| refused(path, error))
}

/// A reader that ends with an error when the call is cancelled.
pub(crate) struct Cancellable<'a, R> {
    pub(crate) reader: R,
    pub(crate) context: &'a ToolContext,
}

impl<R: Read> Read for Cancellable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.context.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.reader.read(buffer)
    }
}

/// Whether bytes are no text: they hold a NUL, unless they begin as UTF-16 does.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    let utf16 = start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff");
    !utf16 && start.contains(&0)
}
