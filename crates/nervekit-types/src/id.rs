//! Typed, prefixed, sortable identifiers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::port::IdSource;

/// Crockford's base 32, lower case: no `i`, `l`, `o`, `u`, so that an id survives being read aloud.
/// Source: <https://www.crockford.com/base32.html>; the 26-digit form is that of ULID.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const DIGITS: usize = 26;

/// The 128 bits behind every id: 48 bits of milliseconds since 1970, then 80 bits that make it unique.
///
/// An [`IdSource`] hands these out; a typed id wraps one. Ids made by one source sort in the order in which
/// they were made.
///
/// ```
/// use nervekit_types::RawId;
/// let raw = RawId::from_u128(42);
/// assert_eq!(raw.as_u128(), 42);
/// assert_eq!(RawId::from_bytes(raw.to_bytes()), raw);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawId(u128);

impl RawId {
    /// Wraps a number.
    #[must_use]
    pub const fn from_u128(value: u128) -> Self {
        Self(value)
    }

    /// Returns the number.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// Reads sixteen bytes, most significant first.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Returns sixteen bytes, most significant first: they sort as the ids do.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Derives an id from a domain and a key: the same pair gives the same id in every process, for ever.
    ///
    /// The value is the first 128 bits of the SHA-256 of `domain`, a zero byte and `key`. Derived ids do not
    /// sort by time.
    ///
    /// ```
    /// use nervekit_types::RawId;
    /// assert_eq!(RawId::derive("input", "a"), RawId::derive("input", "a"));
    /// assert_ne!(RawId::derive("input", "a"), RawId::derive("event", "a"));
    /// ```
    #[must_use]
    pub fn derive(domain: &str, key: &str) -> Self {
        let hash = Sha256::new().chain_update(domain).chain_update([0]).chain_update(key).finalize();
        Self(hash.iter().take(16).fold(0, |value, byte| (value << 8) | u128::from(*byte)))
    }

    /// Writes the digits at once: records are full of ids.
    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; DIGITS];
        for (place, byte) in text.iter_mut().rev().enumerate() {
            let value = usize::try_from((self.0 >> (5 * place)) & 31).unwrap_or_default();
            *byte = ALPHABET.get(value).copied().unwrap_or_default();
        }
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }

    fn parse(text: &str) -> Option<Self> {
        if text.len() != DIGITS {
            return None;
        }
        let mut value: u128 = 0;
        for byte in text.bytes() {
            let digit = ALPHABET.iter().position(|b| *b == byte)?;
            value = value.checked_mul(32)? | u128::try_from(digit).ok()?;
        }
        Some(Self(value))
    }
}

/// A text that is not an id of the wanted type.
///
/// ```
/// use nervekit_types::EventId;
/// let error = "evt_1".parse::<EventId>().unwrap_err();
/// assert_eq!(error.to_string(), "`evt_1` is not an id of the form `evt_` + 26 characters of 0-9 a-z without i, l, o, u");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id of the form `{prefix}` + 26 characters of 0-9 a-z without i, l, o, u")]
pub struct IdParseError {
    /// The prefix that was wanted, with its underscore.
    pub prefix: &'static str,
    /// The text that was given, at most 64 characters of it, control characters escaped.
    pub text: String,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// ```
        #[doc = concat!("use nervekit_types::", stringify!($name), ";")]
        #[doc = concat!("let id = ", stringify!($name), "::from_key(\"any stable key\");")]
        #[doc = concat!("assert!(id.to_string().starts_with(", stringify!($prefix), "));")]
        #[doc = concat!("assert_eq!(id.to_string().parse::<", stringify!($name), ">()?, id);")]
        /// # Ok::<(), nervekit_types::IdParseError>(())
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(RawId);

        impl $name {
            /// What every printed id of this type begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Takes the next id from a source.
            #[must_use]
            pub fn next(source: &dyn IdSource) -> Self {
                Self(source.next_id())
            }

            /// Derives a stable id from a key that the caller has: the same key gives the same id.
            #[must_use]
            pub fn from_key(key: &str) -> Self {
                Self(RawId::derive($prefix, key))
            }

            /// Wraps the bits of an id.
            #[must_use]
            pub const fn from_raw(raw: RawId) -> Self {
                Self(raw)
            }

            /// Returns the bits of this id.
            #[must_use]
            pub const fn raw(self) -> RawId {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                self.0.write(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdParseError;

            fn from_str(text: &str) -> Result<Self, IdParseError> {
                text.strip_prefix($prefix).and_then(RawId::parse).map(Self).ok_or_else(|| IdParseError {
                    prefix: $prefix,
                    text: text.chars().take(64).flat_map(char::escape_debug).collect(),
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

ids! {
    /// Names a conversation.
    ConversationId = "conv_";
    /// Names an event: an append-only fact of a conversation.
    EventId = "evt_";
    /// Names a tool call, unfinished or settled.
    ToolCallId = "tool_";
    /// Names an input; unique in its conversation and never forgotten.
    InputId = "input_";
    /// Names a background command.
    BashRunId = "bash_";
    /// Names an asset: bytes kept beside a conversation.
    AssetId = "asset_";
    /// Names a project.
    ProjectId = "proj_";
    /// Names a turn: one model invocation and the calls it issued.
    TurnId = "turn_";
    /// Names a host command, so that repeating it is harmless.
    CommandId = "cmd_";
    /// Names an open request to a person: an approval, a question, a plan review.
    InteractionId = "int_";
    /// Names an execution: a span of turns. It has the bits of the `started` event's id.
    ExecutionId = "exec_";
    /// Names a grant on its way into a document.
    GrantId = "grant_";
    /// Names one running conversation core.
    IncarnationId = "inc_";
    /// Names one atomic change of the store.
    BatchId = "batch_";
    /// Names one opening of an exclusive backend.
    OpeningId = "open_";
}

impl From<EventId> for ExecutionId {
    /// The execution that this `started` event began.
    fn from(started: EventId) -> Self {
        Self(started.0)
    }
}

impl ExecutionId {
    /// Returns the id of the event that started this execution.
    ///
    /// ```
    /// use nervekit_types::{EventId, ExecutionId};
    /// let started = EventId::from_key("started");
    /// assert_eq!(ExecutionId::from(started).started_event(), started);
    /// ```
    #[must_use]
    pub const fn started_event(self) -> EventId {
        EventId(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_and_parsing_are_inverse_at_the_edges() {
        for value in [0, 1, u128::MAX, 1 << 127, 31, 32] {
            let id = EventId::from_raw(RawId::from_u128(value));
            assert_eq!(id.to_string().parse::<EventId>().unwrap(), id);
        }
    }

    #[test]
    fn parsing_is_strict() {
        let good = EventId::from_raw(RawId::from_u128(7)).to_string();
        for bad in [
            good.to_uppercase(),
            format!(" {good}"),
            format!("{good}0"),
            good.replace("evt_", "conv_"),
            good.replace('7', "u"),
            // 26 digits hold 130 bits: what does not fit into 128 is refused, never truncated.
            "evt_80000000000000000000000000".to_owned(),
            String::new(),
        ] {
            assert!(bad.parse::<EventId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn printed_ids_sort_as_their_bits() {
        let ids: Vec<EventId> =
            [5, 900, 1 << 60, 1 << 100].map(|v| EventId::from_raw(RawId::from_u128(v))).to_vec();
        let mut printed: Vec<String> = ids.iter().map(ToString::to_string).collect();
        printed.sort();
        assert_eq!(printed, ids.iter().map(ToString::to_string).collect::<Vec<_>>());
    }

    #[test]
    fn serde_is_the_printed_form() {
        let id = ToolCallId::from_key("k");
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<ToolCallId>(&json).unwrap(), id);
        assert_eq!(serde_json::from_value::<ToolCallId>(serde_json::json!(id.to_string())).unwrap(), id);
    }
}
