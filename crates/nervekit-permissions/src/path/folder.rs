//! A held folder: the one place that differs between platforms.

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

/// A refusal that says what would have worked.
pub(crate) fn refused(message: impl Into<String>) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, message.into())
}

/// A name for a temporary file that nobody can guess.
fn temporary_name() -> String {
    use nervekit_types::Entropy;
    let mut random = [0; 16];
    nervekit_types::SystemEntropy.fill(&mut random);
    format!(".nervekit-{:032x}.tmp", u128::from_be_bytes(random))
}
