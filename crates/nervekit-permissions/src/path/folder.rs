//! A held folder: the one place that differs between platforms.

use std::time::{Duration, SystemTime};

use super::decided::EntryKind;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub(crate) use unix::Folder;

#[cfg(not(unix))]
mod checked;
#[cfg(not(unix))]
pub(crate) use checked::Folder;

/// What tells one file of a machine from every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// What changes when the content of a file does. An edit within the tick of the file system's clock may not
/// show, so a stamp counts only once its times are past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) identity: Identity,
    pub(crate) kind: EntryKind,
    pub(crate) size: u64,
    modified: SystemTime,
    changed: SystemTime,
}

impl Stamp {
    /// Whether an edit after this moment would change the stamp. Some file systems keep times in steps of two
    /// seconds; a time in the future says nothing.
    pub(crate) fn is_settled(&self, now: SystemTime) -> bool {
        let latest = self.modified.max(self.changed);
        now.duration_since(latest).is_ok_and(|age| age > Duration::from_secs(2))
    }
}

/// A refusal that says what would have worked.
pub(crate) fn refused(message: impl Into<String>) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, message.into())
}

/// A name for a temporary file that nobody can guess.
fn temporary_name() -> String {
    format!(".nervekit-{}.tmp", unguessable())
}

/// 32 random hexadecimal digits.
pub(crate) fn unguessable() -> String {
    use nervekit_types::Entropy;
    let mut random = [0; 16];
    nervekit_types::SystemEntropy.fill(&mut random);
    format!("{:032x}", u128::from_be_bytes(random))
}
