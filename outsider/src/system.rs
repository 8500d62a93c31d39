//! Time, ids and randomness.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use nervekit_types::{Clock, Entropy, IdSource, RawId, Timestamp};

/// The time of the machine.
#[derive(Debug)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// Counts up from a place of its own, drawn when it was made, so that two of them do not meet.
#[derive(Debug)]
pub struct Counter {
    high: u64,
    low: AtomicU64,
}

impl Default for Counter {
    fn default() -> Self {
        Self { high: random(), low: AtomicU64::new(0) }
    }
}

impl IdSource for Counter {
    fn next_id(&self) -> RawId {
        let low = self.low.fetch_add(1, Ordering::Relaxed);
        RawId::from_u128(u128::from(self.high) << 64 | u128::from(low))
    }
}

/// The random keys of the standard library's hash maps. Good for jitter, too weak for keys.
#[derive(Debug)]
pub struct Coin;

impl Entropy for Coin {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.iter_mut().zip(random().to_be_bytes()).for_each(|(byte, random)| *byte = random);
        }
    }
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
