//! Assets as files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use nervekit_types::{AssetId, Clock, Digest, SystemClock, Timestamp};
use sha2::{Digest as _, Sha256};

use super::{AssetError, AssetFacts, AssetStore, ByteStream};

/// How an unfinished asset is called.
const PARTIAL: &str = ".partial";
/// The most that one `read` gives.
const READ_LIMIT: u64 = 16 * 1024 * 1024;
/// Assets per page of `list`.
const PAGE: usize = 1_000;

/// Keeps each asset as one file, `<folder>/<last two characters of the id>/<id>`, readable by the owner only.
///
/// Bytes go to `<id>.partial` as they arrive; at the end the file is synced, renamed, and its folder synced,
/// before `write` returns. What a crash leaves as `.partial` can be read and is listed as unfinished. One `read`
/// gives at most 16 MiB. Must be used on a tokio runtime; file operations run on its blocking pool.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use bytes::Bytes;
/// use nervekit_tools::{AssetStore, ByteStream, FileAssetStore};
/// use nervekit_types::AssetId;
/// let folder = tempfile::tempdir()?;
/// let (store, id) = (FileAssetStore::new(folder.path()), AssetId::from_key("log"));
/// let facts = store.write(id, ByteStream::from(Bytes::from_static(b"hello"))).await?;
/// assert_eq!(facts.byte_length, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileAssetStore {
    folder: PathBuf,
    max_bytes: u64,
}

impl FileAssetStore {
    /// Keeps assets below a folder, which is made with the first asset.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), max_bytes: 10 * 1024 * 1024 * 1024 }
    }

    /// Sets the largest asset in bytes (default 10 GiB). A larger one fails to be written and leaves nothing.
    #[must_use]
    pub fn max_bytes(self, max_bytes: u64) -> Self {
        Self { max_bytes, ..self }
    }

    fn shard(&self, id: AssetId) -> PathBuf {
        let name = id.to_string();
        let shard: String = name.chars().skip(name.len().saturating_sub(2)).collect();
        self.folder.join(shard)
    }

    fn path(&self, id: AssetId) -> PathBuf {
        self.shard(id).join(id.to_string())
    }

    fn partial(&self, id: AssetId) -> PathBuf {
        self.shard(id).join(format!("{id}{PARTIAL}"))
    }

    fn create(&self, id: AssetId) -> Result<Writing, AssetError> {
        create_private_folder(&self.folder)?;
        let shard = self.shard(id);
        if create_private_folder(&shard)? {
            sync_folder(&self.folder)?;
        }
        if self.path(id).try_exists()? {
            return Err(AssetError::Exists { id });
        }
        let partial = self.partial(id);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&partial) {
            Ok(file) => Ok(Writing {
                file,
                discard: Discard(Some(partial)),
                hash: Sha256::new(),
                length: 0,
                max_bytes: self.max_bytes,
            }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(AssetError::Exists { id }),
            Err(error) => Err(error.into()),
        }
    }

    fn read_range(&self, id: AssetId, range: &Range<u64>) -> Result<Bytes, AssetError> {
        // A write may finish between the two attempts, hence the third.
        let open = || File::open(self.path(id)).or_else(|_| File::open(self.partial(id)));
        let file = open().or_else(|_| open());
        let mut file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(AssetError::NotFound { id }),
            other => other?,
        };
        file.seek(SeekFrom::Start(range.start))?;
        let mut bytes = Vec::new();
        file.take(range.end.saturating_sub(range.start).min(READ_LIMIT)).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    fn remove_files(&self, id: AssetId) -> Result<(), AssetError> {
        for path in [self.path(id), self.partial(id)] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        match sync_folder(&self.shard(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn page(&self, after: Option<AssetId>) -> Result<Vec<AssetFacts>, AssetError> {
        let mut found: Vec<(AssetId, PathBuf, bool)> = Vec::new();
        for shard in entries(&self.folder)? {
            for path in entries(&shard)? {
                let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
                let (stem, finished) = name.strip_suffix(PARTIAL).map_or((name, true), |stem| (stem, false));
                // Strangers in the folder are not ours to list.
                if let Ok(id) = stem.parse::<AssetId>()
                    && Some(id) > after
                {
                    found.push((id, path, finished));
                }
            }
        }
        found.sort();
        found.truncate(PAGE);
        let mut page = Vec::with_capacity(found.len());
        for (id, path, finished) in found {
            let metadata = match fs::metadata(path) {
                // Removed or finished meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            let changed_at = metadata.modified().map_or(Timestamp::from_millis(0), Timestamp::from);
            let facts = AssetFacts::new(id, metadata.len(), changed_at);
            page.push(if finished { facts.finished() } else { facts });
        }
        Ok(page)
    }
}

/// A write under way.
struct Writing {
    file: File,
    discard: Discard,
    hash: Sha256,
    length: u64,
    max_bytes: u64,
}

impl Writing {
    fn append(&mut self, bytes: &[u8]) -> Result<(), AssetError> {
        self.length += bytes.len() as u64;
        if self.length > self.max_bytes {
            return Err(AssetError::TooLarge { limit: self.max_bytes });
        }
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        Ok(())
    }

    fn finish(mut self, id: AssetId, path: &Path) -> Result<AssetFacts, AssetError> {
        self.file.sync_all()?;
        if let Some(partial) = self.discard.0.take() {
            fs::rename(partial, path)?;
        }
        if let Some(folder) = path.parent() {
            sync_folder(folder)?;
        }
        let digest = Digest::from_bytes(self.hash.finalize().into());
        Ok(AssetFacts::new(id, self.length, SystemClock.now()).digest(digest))
    }
}

/// Removes the partial file of a write that failed. (One that is cut by a crash stays, see the type.)
struct Discard(Option<PathBuf>);

impl Drop for Discard {
    fn drop(&mut self) {
        if let Some(partial) = &self.0 {
            let _ = fs::remove_file(partial);
        }
    }
}

#[async_trait]
impl AssetStore for FileAssetStore {
    async fn write(&self, id: AssetId, mut bytes: ByteStream) -> Result<AssetFacts, AssetError> {
        let store = self.clone();
        let mut writing = blocking(move || store.create(id)).await?;
        while let Some(chunk) = bytes.next().await {
            let chunk = chunk?;
            writing = blocking(move || writing.append(&chunk).map(|()| writing)).await?;
        }
        let path = self.path(id);
        blocking(move || writing.finish(id, &path)).await
    }

    async fn read(&self, id: AssetId, range: Range<u64>) -> Result<Bytes, AssetError> {
        let store = self.clone();
        blocking(move || store.read_range(id, &range)).await
    }

    async fn remove(&self, id: AssetId) -> Result<(), AssetError> {
        let store = self.clone();
        blocking(move || store.remove_files(id)).await
    }

    async fn list(&self, after: Option<AssetId>) -> Result<Vec<AssetFacts>, AssetError> {
        let store = self.clone();
        blocking(move || store.page(after)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AssetError> + Send + 'static,
) -> Result<T, AssetError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(AssetError::Storage(Box::new(error))))
}

/// Makes a folder that only its owner can enter; whether it was made.
fn create_private_folder(folder: &Path) -> io::Result<bool> {
    if folder.is_dir() {
        return Ok(false);
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map(|()| true)
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// Makes a rename durable (`fsync(2)`: the entry of a new file needs its own sync of the folder).
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A folder cannot be opened as a file here; the file system journals renames.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}
