//! The pieces of a message.

use bytes::Bytes;
use nervekit_types::AssetId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::unique;

/// One piece of a message.
///
/// An unknown `type` does not deserialise: content is never lost in silence.
///
/// ```
/// use nervekit_harness::{ContentBlock, Text};
/// let block = ContentBlock::from(Text::new("hello"));
/// assert_eq!(serde_json::to_string(&block).unwrap(), r#"{"type":"text","text":"hello"}"#);
/// assert_eq!(block.kind(), "text");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentBlock {
    /// Visible text.
    Text(Text),
    /// The model's reasoning.
    Thinking(Thinking),
    /// A wish to run a tool.
    ToolCall(ToolCall),
    /// A picture.
    Image(Image),
}

impl ContentBlock {
    /// The block's name: `text`, `thinking`, `tool_call` or `image`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Thinking(_) => "thinking",
            Self::ToolCall(_) => "tool_call",
            Self::Image(_) => "image",
        }
    }
}

impl From<Text> for ContentBlock {
    fn from(block: Text) -> Self {
        Self::Text(block)
    }
}

impl From<Thinking> for ContentBlock {
    fn from(block: Thinking) -> Self {
        Self::Thinking(block)
    }
}

impl From<ToolCall> for ContentBlock {
    fn from(block: ToolCall) -> Self {
        Self::ToolCall(block)
    }
}

impl From<Image> for ContentBlock {
    fn from(block: Image) -> Self {
        Self::Image(block)
    }
}

/// Visible text.
///
/// ```
/// assert_eq!(nervekit_harness::Text::new("hello").text, "hello");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Text {
    /// The text.
    pub text: String,
    /// An opaque mark of the provider that goes back with this very block (Gemini's `thoughtSignature`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl Text {
    /// A text without a signature.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), signature: None }
    }

    /// Sets the provider's mark.
    #[must_use]
    pub fn signature(mut self, signature: impl Into<String>) -> Self {
        self.signature = Some(signature.into());
        self
    }
}

/// The model's reasoning, kept to be sent back untouched to the provider that made it and to no other.
///
/// ```
/// use nervekit_harness::Thinking;
/// let thinking = Thinking::new("anthropic", "the file must exist").signature("EqQB…");
/// assert!(!thinking.redacted);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Thinking {
    /// The readable part, often a summary; empty when redacted.
    pub text: String,
    /// The provider's proof of the text; for a redacted block its opaque data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Whether the provider hides the text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
    /// The provider's name in the registry.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub provider: String,
}

impl Thinking {
    /// Unsigned reasoning of this provider.
    #[must_use]
    pub fn new(provider: impl Into<String>, text: impl Into<String>) -> Self {
        Self { text: text.into(), provider: provider.into(), ..Self::default() }
    }

    /// Hidden reasoning: only the provider can read the data.
    #[must_use]
    pub fn redacted(provider: impl Into<String>, data: impl Into<String>) -> Self {
        Self { redacted: true, ..Self::new(provider, "").signature(data) }
    }

    /// Sets the provider's proof.
    #[must_use]
    pub fn signature(mut self, signature: impl Into<String>) -> Self {
        self.signature = Some(signature.into());
        self
    }
}

/// A wish of the model to run a tool.
///
/// ```
/// use nervekit_harness::ToolCall;
/// use serde_json::json;
///
/// let call = ToolCall::parse("call_1", "read", r#"{"path":"a.txt"}"#);
/// assert_eq!(call.arguments, json!({"path": "a.txt"}));
/// assert!(call.is_valid());
///
/// // Cut by the output limit: never repaired, never run.
/// let cut = ToolCall::parse("call_2", "write", r#"{"path":"a.txt","content":"abc"#);
/// assert!(!cut.is_valid());
/// assert_eq!(cut.arguments, json!({}));
///
/// // A tool without parameters is often called with no text at all.
/// assert!(ToolCall::parse("call_3", "now", " ").is_valid());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCall {
    /// The provider's id of the call; unique among the calls of one message.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, always a JSON object; empty when the text was not one.
    pub arguments: Value,
    /// The text of the arguments when it was not a JSON object. Such a call must not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_arguments: Option<String>,
    /// An opaque mark of the provider that goes back with this very block (Gemini's `thoughtSignature`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl ToolCall {
    /// A call with these arguments. What is not an object is kept as raw text and makes the call invalid.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        let (arguments, raw_arguments) = match arguments {
            Value::Object(_) => (arguments, None),
            other => (Value::Object(serde_json::Map::new()), Some(other.to_string())),
        };
        Self { id: id.into(), name: name.into(), arguments, raw_arguments, signature: None }
    }

    /// A call whose arguments come as text. Blank text is `{}`; what is not a JSON object, or names a key twice, is
    /// kept raw.
    #[must_use]
    pub fn parse(id: impl Into<String>, name: impl Into<String>, arguments: &str) -> Self {
        let object = || Value::Object(serde_json::Map::new());
        if arguments.trim().is_empty() {
            return Self::new(id, name, object());
        }
        match unique::parse(arguments) {
            Some(value @ Value::Object(_)) => Self::new(id, name, value),
            Some(Value::Null) => Self::new(id, name, object()),
            _ => Self { raw_arguments: Some(arguments.to_owned()), ..Self::new(id, name, object()) },
        }
    }

    /// Sets the provider's mark.
    #[must_use]
    pub fn signature(mut self, signature: impl Into<String>) -> Self {
        self.signature = Some(signature.into());
        self
    }

    /// Whether the arguments were a JSON object: only then may the call run.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.raw_arguments.is_none()
    }
}

/// A picture.
///
/// ```
/// use nervekit_harness::Image;
/// let image = Image::inline("image/png", vec![137, 80, 78, 71]);
/// let json = serde_json::to_string(&image).unwrap();
/// assert_eq!(json, r#"{"media_type":"image/png","source":{"inline":"iVBORw=="}}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Image {
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// Where the bytes are.
    pub source: ImageSource,
}

impl Image {
    /// A picture kept as an asset. A request carries the bytes beside its messages
    /// ([`ModelRequest::asset`](crate::ModelRequest::asset)).
    #[must_use]
    pub fn asset(media_type: impl Into<String>, id: AssetId) -> Self {
        Self { media_type: media_type.into(), source: ImageSource::Asset(id) }
    }

    /// A picture whose bytes stand in the message.
    #[must_use]
    pub fn inline(media_type: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        Self { media_type: media_type.into(), source: ImageSource::Inline(bytes.into()) }
    }
}

/// Where the bytes of an [`Image`] are.
///
/// ```
/// use nervekit_harness::ImageSource;
/// let source: ImageSource = serde_json::from_str(r#"{"inline":"aGk="}"#).unwrap();
/// assert_eq!(source, ImageSource::Inline("hi".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImageSource {
    /// In the asset store.
    Asset(AssetId),
    /// Here; base 64 in JSON.
    Inline(#[serde(with = "base64_bytes")] Bytes),
}

mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Bytes::from).map_err(D::Error::custom)
    }
}
