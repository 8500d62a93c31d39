use super::*;
use crate::testing::asset_store_conformance;

fn id(key: &str) -> AssetId {
    AssetId::from_key(key)
}

#[tokio::test]
async fn the_memory_store_conforms() {
    asset_store_conformance(MemoryAssetStore::default()).await;
    asset_store_conformance(Arc::new(MemoryAssetStore::default()) as Arc<dyn AssetStore>).await;
}

#[tokio::test]
async fn the_file_store_conforms() {
    let folder = tempfile::tempdir().unwrap();
    asset_store_conformance(FileAssetStore::new(folder.path().join("deep/er"))).await;
}

struct Receiver(tokio::sync::mpsc::Receiver<Bytes>);
impl Stream for Receiver {
    type Item = io::Result<Bytes>;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(Ok))
    }
}

#[tokio::test]
async fn a_growing_asset_can_be_read_and_a_reopened_store_lists_it_as_unfinished() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileAssetStore::new(folder.path());
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let writer = store.clone();
    let write = tokio::spawn(async move { writer.write(id("g"), ByteStream::new(Receiver(receiver))).await });
    for piece in [&b"one "[..], b"two "] {
        sender.send(Bytes::from_static(piece)).await.unwrap();
    }
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while store.read(id("g"), 0..100).await.unwrap_or_default() != "one two " {
        assert!(std::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    let reopened = FileAssetStore::new(folder.path()).list(None).await.unwrap();
    assert_eq!(reopened.len(), 1);
    assert!(!reopened[0].finished);
    drop(sender);
    let facts = write.await.unwrap().unwrap();
    assert_eq!(facts.digest, Some(Digest::of("one two ")));
    assert!(store.list(None).await.unwrap()[0].finished);
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileAssetStore::new(folder.path()).max_bytes(4);
    let error = store.write(id("x"), ByteStream::from(Bytes::from_static(b"12345"))).await.unwrap_err();
    assert_eq!(error.to_string(), "the asset is larger than 4 bytes");
    assert!(store.list(None).await.unwrap().is_empty());
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let store = FileAssetStore::new(folder.path().join("assets"));
    store.write(id("x"), ByteStream::from(Bytes::from_static(b"secret"))).await.unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("assets")), 0o700);
    let shard = std::fs::read_dir(folder.path().join("assets")).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read_dir(&shard).unwrap().next().unwrap().unwrap().path();
    assert_eq!((mode(&shard), mode(&file)), (0o700, 0o600));
}

#[test]
fn errors_are_small() {
    assert!(size_of::<AssetError>() <= 64);
}
