//! The disk that is written to.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tempfile::TempDir;

/// A folder beside the running program, so under the target folder; it is gone afterwards.
#[derive(Debug)]
pub(crate) struct Folder {
    inner: TempDir,
    kind: String,
    probe: File,
}

impl Folder {
    pub(crate) fn create() -> Result<Self> {
        let program = std::env::current_exe()?;
        let folder = tempfile::tempdir_in(program.parent().context("the program is in no folder")?)?;
        let kind = kind(folder.path())?;
        anyhow::ensure!(kind != "tmpfs", "{} is in memory: set CARGO_TARGET_DIR", folder.path().display());
        let probe = File::create(folder.path().join("probe"))?;
        probe.write_all_at(&[0; PAGE], 0)?;
        probe.sync_all()?;
        Ok(Self { inner: folder, kind, probe })
    }

    pub(crate) fn path(&self) -> &Path {
        self.inner.path()
    }

    /// How long one page takes to reach the disk, written over one that is there.
    pub(crate) fn sync(&self) -> Result<Duration> {
        const TIMES: u8 = 20;
        let started = Instant::now();
        for time in 0..TIMES {
            self.probe.write_all_at(&[time; PAGE], 0)?;
            self.probe.sync_data()?;
        }
        Ok(started.elapsed() / u32::from(TIMES))
    }
}

const PAGE: usize = 4096;

impl fmt::Display for Folder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.path().display(), self.kind)
    }
}

/// The kind of the file system that the path is on, as the system names it.
fn kind(path: &Path) -> Result<String> {
    let path = path.canonicalize()?;
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mounts") else {
        return Ok("a file system of a kind that this system does not tell".to_owned());
    };
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((PathBuf::from(words.next()?), words.next()?))
    });
    // Of several mounts at one place the last one is seen.
    let (_, kind) = mounts
        .filter(|(place, _)| path.starts_with(place))
        .max_by_key(|(place, _)| place.components().count())
        .context("no file system holds the folder")?;
    Ok(kind.to_owned())
}
