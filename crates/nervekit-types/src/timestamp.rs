//! Moments in UTC with millisecond precision.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// A moment: milliseconds since 1970-01-01T00:00:00Z, printed in RFC 3339 with three decimals.
///
/// ```
/// use nervekit_types::Timestamp;
/// let moment = Timestamp::from_millis(1_789_000_000_123);
/// assert_eq!(moment.to_string(), "2026-09-10T00:26:40.123Z");
/// assert_eq!(moment.to_string().parse::<Timestamp>()?, moment);
/// # Ok::<(), nervekit_types::TimestampParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The last moment that a timestamp holds, 9999-12-30T22:00:00Z: what RFC 3339 and `jiff` can both print.
const MAX_MILLIS: i64 = 253_402_207_200_000;

impl Timestamp {
    /// The moment that milliseconds since 1970 name, clamped to the years 1970 to 9999.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        if millis < 0 {
            Self(0)
        } else if millis > MAX_MILLIS {
            Self(MAX_MILLIS)
        } else {
            Self(millis)
        }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The moment this much later.
    ///
    /// ```
    /// use nervekit_types::Timestamp;
    /// use std::time::Duration;
    /// let start = Timestamp::from_millis(1_000);
    /// assert_eq!(start.saturating_add(Duration::from_secs(2)).as_millis(), 3_000);
    /// ```
    #[must_use]
    pub fn saturating_add(self, later: Duration) -> Self {
        let millis = i64::try_from(later.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    ///
    /// ```
    /// use nervekit_types::Timestamp;
    /// use std::time::Duration;
    /// let (early, late) = (Timestamp::from_millis(1_000), Timestamp::from_millis(1_500));
    /// assert_eq!(late.saturating_since(early), Duration::from_millis(500));
    /// assert_eq!(early.saturating_since(late), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not an RFC 3339 moment between 1970 and 9999.
///
/// ```
/// use nervekit_types::Timestamp;
/// assert!("yesterday".parse::<Timestamp>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a timestamp is an RFC 3339 moment such as `2026-09-10T00:26:40.123Z`")]
#[non_exhaustive]
pub struct TimestampParseError;

impl FromStr for Timestamp {
    type Err = TimestampParseError;

    fn from_str(text: &str) -> Result<Self, TimestampParseError> {
        let moment: jiff::Timestamp = text.parse().map_err(|_| TimestampParseError)?;
        let millis = moment.as_millisecond();
        if (0..=MAX_MILLIS).contains(&millis) { Ok(Self(millis)) } else { Err(TimestampParseError) }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_print_and_parse() {
        for millis in [0, 1, 999, 1_000, MAX_MILLIS, i64::MAX, i64::MIN] {
            let moment = Timestamp::from_millis(millis);
            assert_eq!(moment.to_string().parse::<Timestamp>().unwrap(), moment, "{moment}");
        }
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn what_lies_outside_is_refused() {
        for bad in ["", "1969-12-31T23:59:59Z", "2026-13-01T00:00:00Z", "0"] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }
}
