//! The contract of an asset store, as a test.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use nervekit_types::{AssetId, Digest};

use crate::asset::{AssetError, AssetStore, ByteStream};

/// Checks that a store, empty at first, keeps the contract of [`AssetStore`]: every store calls this in a test.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use nervekit_tools::{testing, MemoryAssetStore};
/// testing::asset_store_conformance(MemoryAssetStore::default()).await;
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
///
/// When the store breaks the contract.
#[expect(clippy::unwrap_used, reason = "a test ends where the contract is broken")]
pub async fn asset_store_conformance(store: impl AssetStore) {
    let id = AssetId::from_key;
    let bytes = Bytes::from(vec![7; 100_000]);
    let facts = store.write(id("a"), bytes.clone().into()).await.unwrap();
    assert_eq!((facts.byte_length, facts.digest, facts.finished), (100_000, Some(Digest::of(&bytes)), true));

    // An id is written once.
    let again = store.write(id("a"), Bytes::from_static(b"other").into()).await;
    assert!(matches!(again, Err(AssetError::Exists { .. })), "{again:?}");
    assert_eq!(store.read(id("a"), 0..u64::MAX).await.unwrap(), bytes);

    // What exists of any range is read.
    #[expect(clippy::reversed_empty_ranges, reason = "a caller may ask for it")]
    for range in [0..0, 99_999..100_001, 100_000..100_005, 5..u64::MAX, 5..3] {
        let wanted = range.end.min(100_000).saturating_sub(range.start);
        assert_eq!(store.read(id("a"), range).await.unwrap().len() as u64, wanted);
    }
    assert!(matches!(store.read(id("none"), 0..1).await, Err(AssetError::NotFound { .. })));

    // A stream that fails leaves nothing that counts as an asset.
    assert!(store.write(id("b"), ByteStream::new(Failing(false))).await.is_err());
    assert!(matches!(store.read(id("b"), 0..1).await, Err(AssetError::NotFound { .. })));
    store.write(id("b"), Bytes::new().into()).await.unwrap();

    let mut ids = [id("a"), id("b")];
    ids.sort();
    let listed = store.list(None).await.unwrap();
    assert_eq!(listed.iter().map(|facts| facts.id).collect::<Vec<_>>(), ids);
    assert!(listed.iter().all(|facts| facts.finished));
    assert_eq!(store.list(Some(ids[0])).await.unwrap().len(), 1);
    assert!(store.list(Some(ids[1])).await.unwrap().is_empty());

    store.remove(id("a")).await.unwrap();
    store.remove(id("a")).await.unwrap();
    assert!(matches!(store.read(id("a"), 0..1).await, Err(AssetError::NotFound { .. })));
    assert_eq!(store.list(None).await.unwrap().len(), 1);
}

/// A stream that breaks after its first bytes.
struct Failing(bool);

impl Stream for Failing {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let begun = std::mem::replace(&mut self.0, true);
        Poll::Ready(Some(if begun { Err(io::Error::other("broken")) } else { Ok(Bytes::from_static(b"x")) }))
    }
}
