//! Tokens, counted once.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// The tokens of one or many requests in disjoint buckets: no token is counted in two of them, so that
/// buckets and messages add up.
///
/// ```
/// use nervekit_harness::Usage;
/// let first = Usage::new(100, 20).cache_read(900);
/// let second = Usage::new(30, 5).thinking(7);
/// assert_eq!((first + second).total(), 1_062);
/// assert_eq!(first.context(), 1_020);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// Input tokens that no cache knew.
    pub input: u64,
    /// Visible output: text and calls.
    pub output: u64,
    /// Input tokens read from the provider's prompt cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's prompt cache.
    pub cache_write: u64,
    /// Output tokens spent on thinking.
    pub thinking: u64,
}

impl Usage {
    /// Plain input and output.
    #[must_use]
    pub const fn new(input: u64, output: u64) -> Self {
        Self { input, output, cache_read: 0, cache_write: 0, thinking: 0 }
    }

    /// Sets the tokens read from the cache.
    #[must_use]
    pub const fn cache_read(mut self, tokens: u64) -> Self {
        self.cache_read = tokens;
        self
    }

    /// Sets the tokens written to the cache.
    #[must_use]
    pub const fn cache_write(mut self, tokens: u64) -> Self {
        self.cache_write = tokens;
        self
    }

    /// Sets the tokens spent on thinking.
    #[must_use]
    pub const fn thinking(mut self, tokens: u64) -> Self {
        self.thinking = tokens;
        self
    }

    /// All tokens.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.context().saturating_add(self.thinking)
    }

    /// The tokens that the next request carries again: everything but the thinking, which most providers drop.
    #[must_use]
    pub const fn context(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
            .saturating_add(self.output)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            thinking: self.thinking.saturating_add(other.thinking),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), Add::add)
    }
}
