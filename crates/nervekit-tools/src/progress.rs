//! Live output of a running call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::projection::floor_boundary;

/// The most UTF-8 bytes of one frame.
pub(crate) const FRAME_BYTES: usize = 8 * 1024;
/// What is kept for late followers.
const TAIL_CHARACTERS: usize = 32_000;
const TAIL_FRAMES: usize = 400;

/// A piece of live output: at most 8 KiB of UTF-8. The frames of a call, concatenated, are its output.
///
/// ```
/// use nervekit_tools::Progress;
/// let progress = Progress::default();
/// progress.write("one ");
/// progress.write("two");
/// let frames = progress.after(0);
/// assert_eq!((frames[1].offset, &*frames[1].text), (4, "two"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProgressFrame {
    /// Bytes of live output before this frame.
    pub offset: u64,
    /// The text.
    pub text: Arc<str>,
}

/// The live output of one call: the tool writes, any number of followers read at their own pace.
///
/// Nothing here waits for a follower and nothing is stored: a rolling tail of 32,000 characters in at most 400
/// frames is kept, so a slow or late follower misses the beginning and sees by the offsets how much. Bytes are
/// decoded as UTF-8, lossily, and a character that is split between two writes is put together.
///
/// ```
/// use nervekit_tools::Progress;
/// let progress = Progress::default();
/// progress.write("building 中".as_bytes().get(..10).unwrap());
/// progress.write("building 中".as_bytes().get(10..).unwrap());
/// let text: String = progress.after(0).iter().map(|frame| &*frame.text).collect();
/// assert_eq!(text, "building 中");
/// ```
#[derive(Clone, Debug)]
pub struct Progress {
    shared: Arc<Mutex<Tail>>,
    end: Arc<watch::Sender<u64>>,
}

#[derive(Debug, Default)]
struct Tail {
    frames: VecDeque<ProgressFrame>,
    characters: usize,
    end: u64,
    /// The beginning of a character whose rest has not come yet.
    pending: Vec<u8>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { shared: Arc::default(), end: Arc::new(watch::Sender::new(0)) }
    }
}

impl Progress {
    /// Appends output.
    pub fn write(&self, bytes: impl AsRef<[u8]>) {
        let mut tail = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        tail.write(bytes.as_ref());
        self.end.send_replace(tail.end);
    }

    /// Ends the output: a character whose rest never came is shown as U+FFFD.
    pub fn finish(&self) {
        let mut tail = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut tail.pending).is_empty() {
            tail.push("\u{fffd}");
            self.end.send_replace(tail.end);
        }
    }

    /// The kept frames that end after this offset.
    #[must_use]
    pub fn after(&self, offset: u64) -> Vec<ProgressFrame> {
        let tail = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = tail.frames.iter().filter(|frame| frame.offset + frame.text.len() as u64 > offset);
        fresh.cloned().collect()
    }

    /// Waits until there is output beyond this offset.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// use nervekit_tools::Progress;
    /// let progress = Progress::default();
    /// progress.write("x");
    /// progress.beyond(0).await;
    /// # });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn beyond(&self, offset: u64) {
        // The sender lives as long as `self`, so that waiting cannot fail.
        let _ = self.end.subscribe().wait_for(|end| *end > offset).await;
    }
}

impl Tail {
    fn write(&mut self, bytes: &[u8]) {
        let joined;
        let mut rest = if self.pending.is_empty() {
            bytes
        } else {
            joined = [std::mem::take(&mut self.pending).as_slice(), bytes].concat();
            &joined
        };
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.push(text),
                Err(error) => {
                    let (valid, after) = rest.split_at_checked(error.valid_up_to()).unwrap_or((rest, &[]));
                    self.push(std::str::from_utf8(valid).unwrap_or_default());
                    let Some(length) = error.error_len() else {
                        self.pending = after.to_vec();
                        return;
                    };
                    self.push("\u{fffd}");
                    rest = after.get(length..).unwrap_or_default();
                }
            }
        }
    }

    fn push(&mut self, mut text: &str) {
        while !text.is_empty() {
            let (frame, rest) =
                text.split_at_checked(floor_boundary(text, FRAME_BYTES)).unwrap_or((text, ""));
            self.frames.push_back(ProgressFrame { offset: self.end, text: frame.into() });
            self.end += frame.len() as u64;
            self.characters += frame.chars().count();
            text = rest;
            while self.characters > TAIL_CHARACTERS || self.frames.len() > TAIL_FRAMES {
                let Some(oldest) = self.frames.pop_front() else { break };
                self.characters -= oldest.text.chars().count();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(frames: &[ProgressFrame]) -> String {
        frames.iter().map(|frame| &*frame.text).collect()
    }

    #[test]
    fn frames_concatenate_to_the_text_for_every_cut_of_the_bytes() {
        let bytes = "a中é👩\u{200d}🚀z".as_bytes();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let progress = Progress::default();
                progress.write(&bytes[..first]);
                progress.write(&bytes[first..second]);
                progress.write(&bytes[second..]);
                progress.finish();
                assert_eq!(text(&progress.after(0)).as_bytes(), bytes, "{first} {second}");
            }
        }
    }

    #[test]
    fn frames_are_bounded_and_their_offsets_dense() {
        let progress = Progress::default();
        progress.write("中".repeat(9_000));
        let frames = progress.after(0);
        assert!(frames.iter().all(|frame| frame.text.len() <= FRAME_BYTES));
        for pair in frames.windows(2) {
            assert_eq!(pair[0].offset + pair[0].text.len() as u64, pair[1].offset);
        }
        assert_eq!(text(&frames), "中".repeat(9_000));
    }

    #[test]
    fn the_tail_is_bounded_in_characters_and_frames() {
        let progress = Progress::default();
        for _ in 0..1_000 {
            progress.write("x");
        }
        assert_eq!(progress.after(0).len(), TAIL_FRAMES);
        progress.write("y".repeat(100_000));
        let frames = progress.after(0);
        assert!(text(&frames).chars().count() <= TAIL_CHARACTERS);
        assert!(text(&frames).ends_with('y'));
    }

    #[test]
    fn invalid_bytes_are_replaced_like_the_standard_library_does() {
        for bytes in [&b"a\xffb"[..], b"\xe4\xb8", b"\xf0\x9f", b"\xed\xa0\x80x", b"\xe4\xb8a"] {
            let progress = Progress::default();
            for byte in bytes {
                progress.write([*byte]);
            }
            progress.finish();
            assert_eq!(text(&progress.after(0)), String::from_utf8_lossy(bytes), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_follower_wakes_and_reads_only_what_is_new() {
        let progress = Progress::default();
        progress.write("first ");
        let writer = progress.clone();
        let follower = tokio::spawn(async move {
            progress.beyond(6).await;
            text(&progress.after(6))
        });
        tokio::task::yield_now().await;
        writer.write("second");
        assert_eq!(follower.await.unwrap(), "second");
    }
}
