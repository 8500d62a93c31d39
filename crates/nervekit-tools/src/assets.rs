//! The assets as one call sees them.

use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use nervekit_types::{AssetId, Digest, IdSource, SystemIds};
use serde::{Deserialize, Serialize};

use crate::asset::{AssetError, AssetFacts, AssetStore, ByteStream, MemoryAssetStore};

type Readable = dyn Fn(AssetId) -> bool + Send + Sync;

/// The assets of one call: it may write new ones, and read those of its conversation.
///
/// Until [`readable`](Self::readable) says otherwise only what the call itself wrote can be read: ids of other
/// conversations' assets must open nothing.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use bytes::Bytes;
/// use nervekit_tools::{AssetCategory, CallAssets};
/// use nervekit_types::AssetId;
/// let assets = CallAssets::in_memory();
/// let chart = assets.write(AssetCategory::Report, "chart.svg", Bytes::from_static(b"<svg/>")).await?;
/// assert_eq!(assets.read(chart.asset, 0..4).await?, "<svg");
/// assert!(assets.read(AssetId::from_key("of another conversation"), 0..4).await.is_err());
/// # Ok::<(), nervekit_tools::AssetError>(())
/// # }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct CallAssets {
    store: Arc<dyn AssetStore>,
    ids: Arc<dyn IdSource>,
    readable: Arc<Readable>,
    written: Arc<Mutex<Vec<AssetId>>>,
}

impl CallAssets {
    /// Writes to and reads from a store.
    #[must_use]
    pub fn new(store: impl AssetStore) -> Self {
        Self {
            store: Arc::new(store),
            ids: Arc::new(SystemIds::default()),
            readable: Arc::new(|_| false),
            written: Arc::default(),
        }
    }

    /// Keeps assets in memory, as long as this value lives.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::new(MemoryAssetStore::default())
    }

    /// Takes the ids of new assets from a source.
    #[must_use]
    pub fn ids(self, ids: impl IdSource) -> Self {
        Self { ids: Arc::new(ids), ..self }
    }

    /// Says which assets may be read besides those that the call wrote.
    #[must_use]
    pub fn readable(self, readable: impl Fn(AssetId) -> bool + Send + Sync + 'static) -> Self {
        Self { readable: Arc::new(readable), ..self }
    }

    /// Stores bytes and returns, when they are durable, what to attach to the output.
    pub async fn write(
        &self,
        category: AssetCategory,
        name: impl Into<String> + Send,
        bytes: impl Into<ByteStream> + Send,
    ) -> Result<Attachment, AssetError> {
        let name = name.into();
        let (_, written) = self.begin(bytes.into());
        Ok(Attachment::new(written.await?, category, name))
    }

    /// Begins to store bytes: the id, known at once, and the future that stores them.
    pub(crate) fn begin(
        &self,
        bytes: ByteStream,
    ) -> (AssetId, impl Future<Output = Result<AssetFacts, AssetError>> + Send + use<>) {
        let id = AssetId::next(&self.ids);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        let store = self.store.clone();
        (id, async move { store.write(id, bytes).await })
    }

    /// Reads what exists of a range of bytes. What may not be read does not exist.
    pub async fn read(&self, id: AssetId, range: Range<u64>) -> Result<Bytes, AssetError> {
        let own = self.written.lock().unwrap_or_else(PoisonError::into_inner).contains(&id);
        if own || (self.readable)(id) {
            self.store.read(id, range).await
        } else {
            Err(AssetError::NotFound { id })
        }
    }
}

impl Debug for CallAssets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallAssets").field("store", &self.store).finish_non_exhaustive()
    }
}

/// What an asset is for.
///
/// ```
/// use nervekit_tools::AssetCategory;
/// assert_eq!(serde_json::to_string(&AssetCategory::BashOutput)?, "\"bash_output\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AssetCategory {
    /// The complete result of a call, or a raw response.
    Payload,
    /// A file made for a person.
    Report,
    /// A picture.
    Image,
    /// A plan.
    Plan,
    /// The output of a command.
    BashOutput,
}

/// An asset that belongs to a result.
///
/// ```
/// use nervekit_tools::{AssetCategory, AssetFacts, Attachment};
/// use nervekit_types::{AssetId, Timestamp};
/// let facts = AssetFacts::new(AssetId::from_key("chart"), 6, Timestamp::from_millis(0));
/// let attachment = Attachment::new(facts, AssetCategory::Image, "chart.png")
///     .media_type("image/png")
///     .dimensions(640, 480);
/// assert_eq!(attachment.dimensions, Some((640, 480)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attachment {
    /// The asset.
    pub asset: AssetId,
    /// What it is for.
    pub category: AssetCategory,
    /// A name to show: a label, never a file name to open.
    pub name: String,
    /// Its length in bytes.
    pub byte_length: u64,
    /// SHA-256 of its bytes; absent while it grows.
    pub digest: Option<Digest>,
    /// Its media type, where it is known.
    pub media_type: Option<String>,
    /// Width and height of a picture in pixels.
    pub dimensions: Option<(u32, u32)>,
}

impl Attachment {
    /// Describes a stored asset.
    #[must_use]
    pub fn new(facts: AssetFacts, category: AssetCategory, name: impl Into<String>) -> Self {
        let AssetFacts { id, byte_length, digest, .. } = facts;
        Self {
            asset: id,
            category,
            name: name.into(),
            byte_length,
            digest,
            media_type: None,
            dimensions: None,
        }
    }

    /// Sets the media type.
    #[must_use]
    pub fn media_type(self, media_type: impl Into<String>) -> Self {
        Self { media_type: Some(media_type.into()), ..self }
    }

    /// Sets width and height in pixels.
    #[must_use]
    pub fn dimensions(self, width: u32, height: u32) -> Self {
        Self { dimensions: Some((width, height)), ..self }
    }
}
