//! The arguments of a call, parsed once.

use std::fmt;
use std::sync::Arc;

use nervekit_types::{Digest, Retry};
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Number, Value};

/// The deepest nesting of arguments; source: `permissions.md`, "The request".
pub(crate) const MAXIMUM_DEPTH: usize = 64;
/// The longest text of arguments, in bytes.
pub(crate) const MAXIMUM_SIZE: usize = 1 << 20;

/// Why a text is not the arguments of a call.
///
/// ```
/// use nervekit_permissions::{ArgumentsError, EffectiveArguments};
/// let twice = EffectiveArguments::parse(r#"{"path": "a", "path": "b"}"#);
/// assert!(matches!(twice, Err(ArgumentsError::Malformed(_))));
/// assert!(twice.unwrap_err().to_string().contains("`path` appears twice"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentsError {
    /// The text is longer than allowed. Nothing of it was read.
    #[error("the arguments are {size} bytes long; at most {maximum} are accepted")]
    TooLarge {
        /// The length, in bytes.
        size: usize,
        /// The longest accepted, in bytes.
        maximum: usize,
    },
    /// The text is not JSON, names a key twice, or nests too deeply.
    #[error("the arguments cannot be read: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The text is JSON, but not an object.
    #[error("the arguments are not a JSON object")]
    NotAnObject,
}

impl ArgumentsError {
    /// Returns the name of the case, for logs and interfaces.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Malformed(_) => "malformed",
            Self::NotAnObject => "not_an_object",
        }
    }

    /// Says whether to try again: never, since the same text has the same fault.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        Retry::Never
    }
}

/// The one value that is matched, shown, hashed, stored and executed.
///
/// It is an object without duplicate keys, at most 64 levels deep and 1 MiB long. A tool reads its typed
/// arguments from it, and writes them back with defaults filled in, before a call is judged.
///
/// ```
/// use nervekit_permissions::EffectiveArguments;
/// let arguments = EffectiveArguments::parse(r#"{"edits": [{"old": "a"}], "path": "src/a"}"#)?;
/// assert_eq!(arguments.get("edits.0.old").and_then(|value| value.as_str()), Some("a"));
/// // The digest does not depend on the order or the spacing in which the keys were written.
/// let other = EffectiveArguments::parse(r#"{"path":"src/a","edits":[{"old":"a"}]}"#)?;
/// assert_eq!(arguments.digest(), other.digest());
/// # Ok::<(), nervekit_permissions::ArgumentsError>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct EffectiveArguments {
    value: Arc<Value>,
    digest: Digest,
}

impl EffectiveArguments {
    /// Parses the text of a call's arguments. An empty text is the empty object.
    pub fn parse(text: &str) -> Result<Self, ArgumentsError> {
        if text.len() > MAXIMUM_SIZE {
            return Err(ArgumentsError::TooLarge { size: text.len(), maximum: MAXIMUM_SIZE });
        }
        if text.trim().is_empty() {
            return Self::new(Value::Object(Map::new()));
        }
        Self::new(strict_json(text).map_err(ArgumentsError::Malformed)?)
    }

    /// Takes a value that is parsed already: typed arguments written back, or what a hook replaced.
    pub fn new(value: Value) -> Result<Self, ArgumentsError> {
        if !value.is_object() {
            return Err(ArgumentsError::NotAnObject);
        }
        if depth(&value) > MAXIMUM_DEPTH {
            return Err(ArgumentsError::Malformed(de::Error::custom(TOO_DEEP)));
        }
        let text = canonical(&value);
        if text.len() > MAXIMUM_SIZE {
            return Err(ArgumentsError::TooLarge { size: text.len(), maximum: MAXIMUM_SIZE });
        }
        Ok(Self { digest: Digest::of(text), value: Arc::new(value) })
    }

    /// Returns the object.
    #[must_use]
    pub fn as_value(&self) -> &Value {
        &self.value
    }

    /// Returns the value at a dotted path, with array items by index.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(&*self.value, |value, part| match value {
            Value::Object(map) => map.get(part),
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Returns the SHA-256 of the canonical text: keys sorted, no spaces.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the object without these top-level arguments.
    pub(crate) fn without(&self, names: &[String]) -> Value {
        match &*self.value {
            Value::Object(map) => Value::Object(
                map.iter()
                    .filter(|(key, _)| !names.contains(key))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
            ),
            other => other.clone(),
        }
    }
}

impl fmt::Debug for EffectiveArguments {
    /// Shows the digest only: arguments may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EffectiveArguments").field(&self.digest).finish()
    }
}

impl Serialize for EffectiveArguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EffectiveArguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Strict { depth: 0 }.deserialize(deserializer)?;
        Self::new(value).map_err(de::Error::custom)
    }
}

/// Reads JSON, refusing duplicate keys and deep nesting.
pub(crate) fn strict_json(text: &str) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict { depth: 0 }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Writes a value with sorted keys and without spaces, whatever order the map keeps.
fn canonical(value: &Value) -> Vec<u8> {
    // Values are plain data; turning one into text does not fail.
    serde_json::to_vec(&Sorted(value)).unwrap_or_default()
}

/// The SHA-256 of a value's canonical text.
pub(crate) fn digest_of(value: &Value) -> Digest {
    Digest::of(canonical(value))
}

/// Serialises a value with sorted keys, whatever order the map keeps.
pub(crate) fn sorted<S: Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    Sorted(value).serialize(serializer)
}

/// Serialises an object with sorted keys, whatever order the map keeps.
pub(crate) fn sorted_map<S: Serializer>(map: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut entries: Vec<_> = map.iter().map(|(key, value)| (key, Sorted(value))).collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    serializer.collect_map(entries)
}

struct Sorted<'v>(&'v Value);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => sorted_map(map, serializer),
            Value::Array(items) => serializer.collect_seq(items.iter().map(Sorted)),
            scalar => scalar.serialize(serializer),
        }
    }
}

const TOO_DEEP: &str = "nested more than 64 levels deep";

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAXIMUM_DEPTH {
            return Err(E::custom(TOO_DEEP));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is too large"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                let key = crate::display(&key);
                return Err(de::Error::custom(format_args!("the key `{key}` appears twice")));
            }
            map.insert(key, access.next_value_seed(inner)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"a":[{"b":1,"b":2}]}"#, r#"{"a":1,"\u0061":2}"#] {
            assert!(matches!(EffectiveArguments::parse(text), Err(ArgumentsError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let nested = |depth: usize| format!("{{\"a\":{}1{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(EffectiveArguments::parse(&nested(64)).is_ok());
        assert!(EffectiveArguments::parse(&nested(65)).is_err());
        let sized = |size: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(size - 8));
        assert!(EffectiveArguments::parse(&sized(MAXIMUM_SIZE)).is_ok());
        assert!(matches!(
            EffectiveArguments::parse(&sized(MAXIMUM_SIZE + 1)),
            Err(ArgumentsError::TooLarge { .. })
        ));
    }

    #[test]
    fn only_an_object_is_accepted() {
        for text in ["[]", "1", "null", "\"a\""] {
            assert!(matches!(EffectiveArguments::parse(text), Err(ArgumentsError::NotAnObject)), "{text}");
        }
        assert!(EffectiveArguments::parse("").is_ok());
        assert!(EffectiveArguments::parse("{} {}").is_err());
    }
}
