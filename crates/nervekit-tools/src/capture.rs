//! Collecting the output of a process with bounded memory.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use nervekit_types::{AssetId, Digest};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::asset::{AssetError, AssetFacts, ByteStream};
use crate::assets::CallAssets;
use crate::process::{OutputReceiver, OutputSender};
use crate::progress::Progress;

/// How much of each end is held in memory.
const END: usize = 32 * 1024;

/// An output at some moment: both ends, its length, and where all of it is.
///
/// ```
/// use nervekit_tools::CapturedOutput;
/// let output = CapturedOutput::default();
/// assert_eq!((output.byte_length, output.finished), (0, false));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CapturedOutput {
    /// The first bytes.
    pub head: Bytes,
    /// The last bytes, where they are not in `head`.
    pub tail: Bytes,
    /// Length of all output in bytes.
    pub byte_length: u64,
    /// The asset with all bytes, when it has one.
    pub asset: Option<AssetId>,
    /// SHA-256 of all bytes, when the asset is finished.
    pub digest: Option<Digest>,
    /// Whether the output has ended and its asset, if any, is durable.
    pub finished: bool,
    /// Why the asset is incomplete, when storing it failed.
    pub problem: Option<String>,
}

impl CapturedOutput {
    /// Whether `head` and `tail` are all of it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        (self.head.len() + self.tail.len()) as u64 >= self.byte_length
    }
}

/// Collects an output: both ends in memory, 32 KiB each; all of it in an asset as soon as it is longer than
/// that, or when [`keep`](Self::keep) asks; live frames to a [`Progress`]. Clones look at the same output.
///
/// Collecting goes on, on the runtime, until every sender is gone, whoever looks; a store that fails is noted
/// and never stops the process.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use nervekit_tools::{CallAssets, Capture, Progress};
/// let (sender, capture) = Capture::start(CallAssets::in_memory(), Progress::default());
/// sender.send("hello\n".into()).await;
/// drop(sender);
/// let output = capture.finished().await;
/// assert_eq!((&output.head[..], output.asset), (&b"hello\n"[..], None));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Capture {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    held: Mutex<Held>,
    keep: Notify,
    /// The id of the asset once it has one; `None` as long as everything is in memory.
    asset: watch::Sender<Option<AssetId>>,
    finished: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Held {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    byte_length: u64,
    digest: Option<Digest>,
    problem: Option<String>,
}

impl Capture {
    /// Starts to collect what is sent. Must be called on a tokio runtime.
    #[must_use]
    pub fn start(assets: CallAssets, progress: Progress) -> (OutputSender, Self) {
        let (sender, receiver) = OutputSender::channel();
        let shared = Arc::new(Shared {
            held: Mutex::default(),
            keep: Notify::new(),
            asset: watch::Sender::new(None),
            finished: watch::Sender::new(false),
        });
        let collector = Collector { shared: shared.clone(), assets, progress, writing: None };
        tokio::spawn(collector.run(receiver));
        (sender, Self { shared })
    }

    /// The output so far.
    #[must_use]
    pub fn so_far(&self) -> CapturedOutput {
        let finished = *self.shared.finished.borrow();
        let asset = *self.shared.asset.borrow();
        let held = self.shared.held();
        CapturedOutput {
            head: Bytes::copy_from_slice(&held.head),
            tail: held.tail.iter().copied().collect(),
            byte_length: held.byte_length,
            asset,
            digest: held.digest,
            finished,
            problem: held.problem.clone(),
        }
    }

    /// Has the output stored as an asset from its first byte, however short it is, and returns the asset's id;
    /// `None` when the output ended before.
    pub async fn keep(&self) -> Option<AssetId> {
        self.shared.keep.notify_one();
        let mut asset = self.shared.asset.subscribe();
        let mut finished = self.shared.finished.subscribe();
        tokio::select! {
            // The senders live as long as `self`, so that waiting cannot fail.
            _ = asset.wait_for(Option::is_some) => {}
            _ = finished.wait_for(|finished| *finished) => {}
        }
        *self.shared.asset.borrow()
    }

    /// Waits for the end of the output and until its asset, if any, is durable.
    pub async fn finished(&self) -> CapturedOutput {
        let _ = self.shared.finished.subscribe().wait_for(|finished| *finished).await;
        self.so_far()
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn append(&mut self, bytes: &[u8]) {
        self.byte_length += bytes.len() as u64;
        let (head, rest) = bytes.split_at_checked(END - self.head.len()).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(head);
        let rest = rest.get(rest.len().saturating_sub(END)..).unwrap_or_default();
        let excess = (self.tail.len() + rest.len()).saturating_sub(END);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }
}

/// The way into the asset, and the task that stores it.
type Writing = (mpsc::Sender<Bytes>, JoinHandle<Result<AssetFacts, AssetError>>);

/// The task that collects.
struct Collector {
    shared: Arc<Shared>,
    assets: CallAssets,
    progress: Progress,
    writing: Option<Writing>,
}

impl Collector {
    async fn run(mut self, mut receiver: OutputReceiver) {
        loop {
            let wanted = self.shared.clone();
            tokio::select! {
                biased;
                () = wanted.keep.notified(), if self.writing.is_none() => self.begin_asset().await,
                bytes = receiver.next() => match bytes {
                    Some(bytes) => self.take(bytes).await,
                    None => break,
                }
            }
        }
        self.progress.finish();
        if let Some((bytes, written)) = self.writing.take() {
            drop(bytes);
            let result = written.await.unwrap_or_else(|error| Err(AssetError::Storage(Box::new(error))));
            let mut held = self.shared.held();
            match result {
                Ok(facts) => held.digest = facts.digest,
                Err(error) => held.problem = Some(error.to_string()),
            }
        }
        self.shared.finished.send_replace(true);
    }

    async fn take(&mut self, bytes: Bytes) {
        self.progress.write(&bytes);
        let in_memory = self.shared.held().byte_length + bytes.len() as u64;
        if self.writing.is_none() && in_memory > 2 * END as u64 {
            self.begin_asset().await;
        }
        if let Some((writer, _)) = &self.writing {
            // A store that failed no longer listens; the reason is told at the end.
            let _ = writer.send(bytes.clone()).await;
        }
        self.shared.held().append(&bytes);
    }

    /// Begins the asset with what is held: all bytes so far.
    async fn begin_asset(&mut self) {
        let (writer, receiver) = mpsc::channel(8);
        let (id, written) = self.assets.begin(ByteStream::new(Pieces(receiver)));
        let so_far: Bytes = {
            let held = self.shared.held();
            held.head.iter().chain(&held.tail).copied().collect()
        };
        let _ = writer.send(so_far).await;
        self.writing = Some((writer, tokio::spawn(written)));
        self.shared.asset.send_replace(Some(id));
    }
}

struct Pieces(mpsc::Receiver<Bytes>);

impl Stream for Pieces {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asset::MemoryAssetStore;

    #[tokio::test]
    async fn a_short_output_needs_no_asset_and_a_long_one_is_whole_in_its_asset() {
        for length in [0, 1, END - 1, END, END + 1, 2 * END - 1, 2 * END, 2 * END + 1, 7 * END + 3] {
            for piece in [977, 70_001] {
                let assets = CallAssets::in_memory();
                let (sender, capture) = Capture::start(assets.clone(), Progress::default());
                let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
                for piece in bytes.chunks(piece) {
                    sender.send(Bytes::copy_from_slice(piece)).await;
                }
                drop(sender);
                let output = capture.finished().await;
                assert_eq!(output.byte_length, length as u64);
                assert_eq!(output.is_whole(), length <= 2 * END);
                assert!(bytes.starts_with(&output.head) && bytes.ends_with(&output.tail));
                assert_eq!(output.asset.is_some(), length > 2 * END, "{length}");
                if let Some(asset) = output.asset {
                    assert_eq!(assets.read(asset, 0..u64::MAX).await.unwrap(), bytes);
                    assert_eq!(output.digest, Some(Digest::of(&bytes)));
                }
            }
        }
    }

    #[tokio::test]
    async fn keeping_stores_a_short_output_from_its_first_byte() {
        let assets = CallAssets::in_memory();
        let (sender, capture) = Capture::start(assets.clone(), Progress::default());
        sender.send("before ".into()).await;
        let asset = capture.keep().await.unwrap();
        assert_eq!(capture.keep().await, Some(asset));
        sender.send("after".into()).await;
        drop(sender);
        assert!(capture.finished().await.digest.is_some());
        assert_eq!(assets.read(asset, 0..99).await.unwrap(), "before after");
        assert_eq!(capture.keep().await, Some(asset));
    }

    #[tokio::test]
    async fn a_store_that_fails_is_noted_and_the_ends_are_kept() {
        #[derive(Debug)]
        struct Full;
        #[async_trait::async_trait]
        impl crate::AssetStore for Full {
            async fn write(&self, _: AssetId, _: ByteStream) -> Result<AssetFacts, AssetError> {
                Err(AssetError::Full)
            }
            async fn read(&self, id: AssetId, _: std::ops::Range<u64>) -> Result<Bytes, AssetError> {
                Err(AssetError::NotFound { id })
            }
            async fn remove(&self, _: AssetId) -> Result<(), AssetError> {
                Ok(())
            }
            async fn list(&self, _: Option<AssetId>) -> Result<Vec<AssetFacts>, AssetError> {
                Ok(Vec::new())
            }
        }
        let (sender, capture) = Capture::start(CallAssets::new(Full), Progress::default());
        for _ in 0..100 {
            assert!(sender.send(vec![b'x'; 10_000].into()).await);
        }
        drop(sender);
        let output = capture.finished().await;
        assert_eq!(output.byte_length, 1_000_000);
        assert_eq!(output.problem.as_deref(), Some("no space is left for assets"));
        assert_eq!((output.head.len(), output.tail.len()), (END, END));
    }

    #[tokio::test]
    async fn nobody_has_to_look_for_the_output_to_be_stored() {
        let store = Arc::new(MemoryAssetStore::default());
        let (sender, capture) = Capture::start(CallAssets::new(store.clone()), Progress::default());
        let asset = capture.keep().await.unwrap();
        drop(capture);
        sender.send("kept".into()).await;
        drop(sender);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while crate::AssetStore::read(&store, asset, 0..9).await.is_err() {
            assert!(std::time::Instant::now() < deadline);
            tokio::task::yield_now().await;
        }
    }
}
