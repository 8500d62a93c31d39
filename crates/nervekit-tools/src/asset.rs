//! Bytes kept beside a conversation: complete outputs, images, reports.

use std::fmt::{self, Debug};
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;
use nervekit_types::{AssetId, Digest, Retry, Timestamp};
use serde::{Deserialize, Serialize};

mod file;
mod memory;

pub use file::FileAssetStore;
pub use memory::MemoryAssetStore;

/// Keeps bytes under ids.
///
/// **Contract.** `write` returns when the bytes are durable: a crash afterwards loses nothing, and a crash
/// before leaves either nothing or an *unfinished* asset (its digest is absent in `list`). An id is written
/// once; a second write of it is refused ([`AssetError::Exists`]) and changes nothing. While a write is under
/// way `read` may answer with what has arrived. `read` gives the bytes of the range that exist, so a range
/// beyond the end is empty. `remove` of an unknown id succeeds. `list` gives at most a page, in the order of
/// the ids, each greater than `after`; an empty page ends the listing.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::ops::Range;
/// use std::sync::Mutex;
///
/// use bytes::Bytes;
/// use nervekit_tools::{AssetError, AssetFacts, AssetStore, ByteStream};
/// use nervekit_types::{AssetId, Digest, Timestamp};
///
/// #[derive(Debug, Default)]
/// struct Shelf(Mutex<BTreeMap<AssetId, Bytes>>);
///
/// #[async_trait::async_trait]
/// impl AssetStore for Shelf {
///     async fn write(&self, id: AssetId, bytes: ByteStream) -> Result<AssetFacts, AssetError> {
///         let bytes = bytes.collect().await?;
///         let facts = AssetFacts::new(id, bytes.len() as u64, Timestamp::from_millis(0));
///         let facts = facts.digest(Digest::of(&bytes));
///         let mut shelf = self.0.lock().unwrap();
///         if shelf.contains_key(&id) {
///             return Err(AssetError::Exists { id });
///         }
///         shelf.insert(id, bytes);
///         Ok(facts)
///     }
///     async fn read(&self, id: AssetId, range: Range<u64>) -> Result<Bytes, AssetError> {
///         let shelf = self.0.lock().unwrap();
///         let bytes = shelf.get(&id).ok_or(AssetError::NotFound { id })?;
///         let at = |at: u64| bytes.len().min(at as usize);
///         Ok(bytes.slice(at(range.start)..at(range.end).max(at(range.start))))
///     }
///     async fn remove(&self, id: AssetId) -> Result<(), AssetError> {
///         self.0.lock().unwrap().remove(&id);
///         Ok(())
///     }
///     async fn list(&self, after: Option<AssetId>) -> Result<Vec<AssetFacts>, AssetError> {
///         let shelf = self.0.lock().unwrap();
///         let facts = |(id, bytes): (&AssetId, &Bytes)| {
///             AssetFacts::new(*id, bytes.len() as u64, Timestamp::from_millis(0)).digest(Digest::of(bytes))
///         };
///         Ok(shelf.iter().filter(|(id, _)| Some(**id) > after).map(facts).collect())
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let (shelf, id) = (Shelf::default(), AssetId::from_key("log"));
/// shelf.write(id, ByteStream::from(Bytes::from_static(b"hello"))).await?;
/// assert_eq!(shelf.read(id, 1..9).await?, "ello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait AssetStore: Debug + Send + Sync + 'static {
    /// Stores all bytes of a stream and returns when they are durable.
    async fn write(&self, id: AssetId, bytes: ByteStream) -> Result<AssetFacts, AssetError>;
    /// Reads what exists of a range of bytes.
    async fn read(&self, id: AssetId, range: Range<u64>) -> Result<Bytes, AssetError>;
    /// Removes the bytes, finished or not.
    async fn remove(&self, id: AssetId) -> Result<(), AssetError>;
    /// Lists what is stored, unfinished assets included.
    async fn list(&self, after: Option<AssetId>) -> Result<Vec<AssetFacts>, AssetError>;
}

macro_rules! forward_assets {
    ($pointer:ident) => {
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<P: AssetStore + ?Sized> AssetStore for $pointer<P> {
            async fn write(&self, id: AssetId, bytes: ByteStream) -> Result<AssetFacts, AssetError> {
                (**self).write(id, bytes).await
            }
            async fn read(&self, id: AssetId, range: Range<u64>) -> Result<Bytes, AssetError> {
                (**self).read(id, range).await
            }
            async fn remove(&self, id: AssetId) -> Result<(), AssetError> {
                (**self).remove(id).await
            }
            async fn list(&self, after: Option<AssetId>) -> Result<Vec<AssetFacts>, AssetError> {
                (**self).list(after).await
            }
        }
    };
}
forward_assets!(Arc);
forward_assets!(Box);
const _: fn(&dyn AssetStore) = |_| ();

/// What a store knows about one asset.
///
/// ```
/// use nervekit_tools::AssetFacts;
/// use nervekit_types::{AssetId, Timestamp};
/// let facts = AssetFacts::new(AssetId::from_key("log"), 12, Timestamp::from_millis(0));
/// assert!(facts.digest.is_none(), "unfinished until it has a digest");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AssetFacts {
    /// Its id.
    pub id: AssetId,
    /// Its length in bytes; of an unfinished one, so far.
    pub byte_length: u64,
    /// SHA-256 of the bytes. In the answer to `list` it may be absent of a finished asset too, where
    /// `finished` tells.
    pub digest: Option<Digest>,
    /// Whether all bytes have arrived and are durable.
    pub finished: bool,
    /// When bytes were last added.
    pub changed_at: Timestamp,
}

impl AssetFacts {
    /// Describes an unfinished asset.
    #[must_use]
    pub const fn new(id: AssetId, byte_length: u64, changed_at: Timestamp) -> Self {
        Self { id, byte_length, digest: None, finished: false, changed_at }
    }

    /// Says that the asset is finished.
    #[must_use]
    pub const fn finished(self) -> Self {
        Self { finished: true, ..self }
    }

    /// Sets the digest, which says that the asset is finished.
    #[must_use]
    pub const fn digest(self, digest: Digest) -> Self {
        Self { digest: Some(digest), finished: true, ..self }
    }
}

/// Why an asset could not be written, read, removed or listed.
///
/// ```
/// use nervekit_tools::AssetError;
/// use nervekit_types::{AssetId, Retry};
/// let error = AssetError::NotFound { id: AssetId::from_key("x") };
/// assert_eq!(error.retry(), Retry::Never);
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssetError {
    /// There are no bytes under this id.
    #[error("asset `{id}` does not exist")]
    NotFound {
        /// The id.
        id: AssetId,
    },
    /// There are bytes under this id, finished or not.
    #[error("asset `{id}` exists already; an id is written once")]
    Exists {
        /// The id.
        id: AssetId,
    },
    /// The stream held more bytes than the store accepts.
    #[error("the asset is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// No space is left.
    #[error("no space is left for assets")]
    Full,
    /// The storage failed.
    #[error("the asset storage failed")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl AssetError {
    /// Whether trying again makes sense.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            // Nothing changes by itself: the caller, or a person who makes room, has to act.
            Self::NotFound { .. } | Self::Exists { .. } | Self::TooLarge { .. } | Self::Full => Retry::Never,
            // A write may have become durable although the answer was an error.
            Self::Storage(_) => Retry::Unknown,
        }
    }
}

impl From<io::Error> for AssetError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Storage(Box::new(error)),
        }
    }
}

/// The bytes of an asset on their way into a store.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use bytes::Bytes;
/// use nervekit_tools::ByteStream;
/// let stream = ByteStream::from(Bytes::from_static(b"all at once"));
/// assert_eq!(stream.collect().await?, "all at once");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ByteStream(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>);

impl ByteStream {
    /// Wraps a stream. An error of the stream ends the write, which then fails.
    #[must_use]
    pub fn new(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self(Box::pin(stream))
    }

    /// The next bytes.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        std::future::poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }

    /// Reads everything into memory.
    pub async fn collect(mut self) -> io::Result<Bytes> {
        let mut all = bytes::BytesMut::new();
        while let Some(bytes) = self.next().await {
            all.extend_from_slice(&bytes?);
        }
        Ok(all.freeze())
    }
}

impl Stream for ByteStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl Debug for ByteStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByteStream")
    }
}

impl From<Bytes> for ByteStream {
    fn from(bytes: Bytes) -> Self {
        struct Once(Option<Bytes>);
        impl Stream for Once {
            type Item = io::Result<Bytes>;
            fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                Poll::Ready(self.0.take().map(Ok))
            }
        }
        Self::new(Once(Some(bytes)))
    }
}

#[cfg(test)]
mod tests;
