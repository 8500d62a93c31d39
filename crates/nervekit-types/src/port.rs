//! The ports through which time, ids and randomness enter.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::id::RawId;
use crate::timestamp::Timestamp;

/// Tells the time. Deadlines that must survive a restart are kept as [`Timestamp`]s read from here; waiting
/// itself uses the async runtime's timers.
///
/// **Contract.** `now` does not block and never fails. It may go backwards when the machine's clock is set.
///
/// ```
/// use nervekit_types::{Clock, Timestamp};
///
/// #[derive(Debug)]
/// struct Noon;
/// impl Clock for Noon {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_millis(43_200_000)
///     }
/// }
/// assert_eq!(Noon.now().to_string(), "1970-01-01T12:00:00.000Z");
/// ```
pub trait Clock: Debug + Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// Hands out ids.
///
/// **Contract.** No value is returned twice, in this process or another one over the same store. Values of
/// one source grow, so that ids sort in the order in which they were made.
///
/// ```
/// use nervekit_types::{IdSource, RawId};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// #[derive(Debug, Default)]
/// struct Counter(AtomicU64);
/// impl IdSource for Counter {
///     fn next_id(&self) -> RawId {
///         RawId::from_u128(u128::from(self.0.fetch_add(1, Ordering::Relaxed)))
///     }
/// }
/// let ids = Counter::default();
/// assert!(ids.next_id() < ids.next_id());
/// ```
pub trait IdSource: Debug + Send + Sync + 'static {
    /// The next id.
    fn next_id(&self) -> RawId;
}

/// Gives random bytes: retry jitter and session secrets.
///
/// **Contract.** `fill` overwrites every byte, does not block for long and never fails.
///
/// ```
/// use nervekit_types::Entropy;
///
/// #[derive(Debug)]
/// struct Fours;
/// impl Entropy for Fours {
///     fn fill(&self, bytes: &mut [u8]) {
///         bytes.fill(4); // chosen by a fair dice roll
///     }
/// }
/// let mut bytes = [0; 2];
/// Fours.fill(&mut bytes);
/// assert_eq!(bytes, [4, 4]);
/// ```
pub trait Entropy: Debug + Send + Sync + 'static {
    /// Fills the buffer.
    fn fill(&self, bytes: &mut [u8]);
}

macro_rules! forward {
    ($port:ident, fn $method:ident(&self $(, $name:ident: $type:ty)*) $(-> $result:ty)?) => {
        #[deny(clippy::missing_trait_methods)]
        impl<P: $port + ?Sized> $port for Arc<P> {
            fn $method(&self $(, $name: $type)*) $(-> $result)? {
                (**self).$method($($name),*)
            }
        }
        #[deny(clippy::missing_trait_methods)]
        impl<P: $port + ?Sized> $port for Box<P> {
            fn $method(&self $(, $name: $type)*) $(-> $result)? {
                (**self).$method($($name),*)
            }
        }
        const _: fn(&dyn $port) = |_| ();
    };
}

forward!(Clock, fn now(&self) -> Timestamp);
forward!(IdSource, fn next_id(&self) -> RawId);
forward!(Entropy, fn fill(&self, bytes: &mut [u8]));

/// The machine's clock.
///
/// ```
/// use nervekit_types::{Clock, SystemClock, Timestamp};
/// assert!(SystemClock.now() > Timestamp::from_millis(0));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// The operating system's random bytes.
///
/// Should the system refuse (it does not on any supported platform after boot), the bytes come from the keys
/// of the standard library's hash maps, which are seeded at random too.
///
/// ```
/// use nervekit_types::{Entropy, SystemEntropy};
/// let (mut a, mut b) = ([0; 16], [0; 16]);
/// SystemEntropy.fill(&mut a);
/// SystemEntropy.fill(&mut b);
/// assert_ne!(a, b);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        if getrandom::fill(bytes).is_err() {
            use std::hash::{BuildHasher, Hasher, RandomState};
            for chunk in bytes.chunks_mut(8) {
                let random = RandomState::new().build_hasher().finish().to_be_bytes();
                chunk.iter_mut().zip(random).for_each(|(byte, random)| *byte = random);
            }
        }
    }
}

/// Ids of the form of ULID: the clock's milliseconds, then 80 random bits; within one millisecond the last
/// value plus one, so that they grow.
///
/// ```
/// use nervekit_types::{IdSource, SystemIds};
/// let ids = SystemIds::default();
/// assert!(ids.next_id() < ids.next_id());
/// ```
#[derive(Debug)]
pub struct SystemIds {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    last: Mutex<u128>,
}

impl SystemIds {
    /// Makes a source that reads this clock and these random bytes.
    ///
    /// ```
    /// use nervekit_types::{IdSource, SystemClock, SystemEntropy, SystemIds};
    /// let ids = SystemIds::new(SystemClock, SystemEntropy);
    /// assert_ne!(ids.next_id(), ids.next_id());
    /// ```
    #[must_use]
    pub fn new(clock: impl Clock, entropy: impl Entropy) -> Self {
        Self { clock: Arc::new(clock), entropy: Arc::new(entropy), last: Mutex::new(0) }
    }
}

impl Default for SystemIds {
    fn default() -> Self {
        Self::new(SystemClock, SystemEntropy)
    }
}

impl IdSource for SystemIds {
    fn next_id(&self) -> RawId {
        let millis = u128::try_from(self.clock.now().as_millis()).unwrap_or(0);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that stands still or was set back must not make ids shrink.
        *last = if millis > *last >> 80 {
            let mut random = [0; 16];
            if let Some(low) = random.get_mut(6..) {
                self.entropy.fill(low);
            }
            millis << 80 | u128::from_be_bytes(random)
        } else {
            last.wrapping_add(1)
        };
        RawId::from_u128(*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static_assertions::assert_obj_safe!(Clock, IdSource, Entropy);

    #[test]
    fn ids_grow_when_the_clock_is_set_back() {
        let clock = Arc::new(crate::testing::ManualClock::at(Timestamp::from_millis(5_000)));
        let ids = SystemIds::new(clock.clone(), SystemEntropy);
        let first = ids.next_id();
        clock.set(Timestamp::from_millis(1_000));
        let second = ids.next_id();
        assert!(second > first);
        clock.set(Timestamp::from_millis(9_000));
        assert!(ids.next_id() > second);
    }
}
