//! Whether it makes sense to try again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What every error of the crates answers to "may I try again?".
///
/// The sum is exhaustive on purpose: a new case must break every caller that decides by it.
///
/// ```
/// use nervekit_types::Retry;
/// fn pause(retry: Retry) -> Option<std::time::Duration> {
///     match retry {
///         Retry::Now => Some(std::time::Duration::ZERO),
///         Retry::After(wait) => Some(wait),
///         Retry::Never | Retry::Unknown => None,
///     }
/// }
/// assert_eq!(pause(Retry::Now), Some(std::time::Duration::ZERO));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// Nothing happened; the same call may succeed at once.
    Now,
    /// Nothing happened; the same call may succeed after this time.
    After(Duration),
    /// The same call fails again until something else changes.
    Never,
    /// It may have happened: find out before trying again.
    Unknown,
}
