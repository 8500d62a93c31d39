//! Deterministic ports for tests.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::id::RawId;
use crate::port::{Clock, Entropy, IdSource};
use crate::timestamp::Timestamp;

/// A clock that stands still until it is moved.
///
/// ```
/// use nervekit_types::{Clock, Timestamp, testing::ManualClock};
/// use std::time::Duration;
/// let clock = ManualClock::at(Timestamp::from_millis(1_000));
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now().as_millis(), 2_000);
/// ```
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows this moment.
    #[must_use]
    pub const fn at(moment: Timestamp) -> Self {
        Self(AtomicI64::new(moment.as_millis()))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().saturating_add(by));
    }

    /// Sets the clock, forward or back.
    pub fn set(&self, moment: Timestamp) {
        self.0.store(moment.as_millis(), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::at(Timestamp::from_millis(1_767_225_600_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Ids that count upwards from a start.
///
/// ```
/// use nervekit_types::{EventId, testing::SequenceIds};
/// let ids = SequenceIds::default();
/// assert_eq!(EventId::next(&ids).to_string(), "evt_00000000000000000000000001");
/// assert_eq!(EventId::next(&ids).to_string(), "evt_00000000000000000000000002");
/// ```
#[derive(Debug)]
pub struct SequenceIds(AtomicU64);

impl SequenceIds {
    /// Ids that begin after this number: a second process over the same store takes another start.
    #[must_use]
    pub const fn after(start: u64) -> Self {
        Self(AtomicU64::new(start))
    }
}

impl Default for SequenceIds {
    fn default() -> Self {
        Self::after(0)
    }
}

impl IdSource for SequenceIds {
    fn next_id(&self) -> RawId {
        RawId::from_u128(u128::from(self.0.fetch_add(1, Ordering::SeqCst)) + 1)
    }
}

/// Random-looking bytes from a seed (`splitmix64`, <https://prng.di.unimi.it/splitmix64.c>).
///
/// ```
/// use nervekit_types::{Entropy, testing::SeededEntropy};
/// let (mut a, mut b) = ([0; 12], [0; 12]);
/// SeededEntropy::new(7).fill(&mut a);
/// SeededEntropy::new(7).fill(&mut b);
/// assert_eq!(a, b);
/// ```
#[derive(Debug)]
pub struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    /// The same seed gives the same bytes.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next 64 bits.
    ///
    /// ```
    /// use nervekit_types::testing::SeededEntropy;
    /// assert_eq!(SeededEntropy::new(3).next_u64(), SeededEntropy::new(3).next_u64());
    /// ```
    pub fn next_u64(&self) -> u64 {
        let state =
            self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.iter_mut().zip(self.next_u64().to_le_bytes()).for_each(|(byte, random)| *byte = random);
        }
    }
}
