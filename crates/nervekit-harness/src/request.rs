//! What a model is asked.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use nervekit_types::AssetId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Messages;
use crate::model::ThinkingLevel;

/// One request: everything the model sees.
///
/// A clone is cheap; a request per turn shares its messages, tools and images with the one before. From turn
/// to turn only the end of `messages` changes, so that the bytes sent keep their prefix and provider caches
/// hit.
///
/// ```
/// use nervekit_harness::{Messages, ModelRequest, ThinkingLevel, ToolSpec, UserMessage};
/// use serde_json::json;
///
/// let request = ModelRequest::new(Messages::from_iter([UserMessage::text("hi")]))
///     .system("answer briefly")
///     .tools([ToolSpec::new("read", "reads a file", json!({"type": "object"}))])
///     .thinking(ThinkingLevel::Low)
///     .max_output(4_096);
/// assert_eq!(request.tools.len(), 1);
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The system prompt; none or a blank one is not sent.
    pub system: Option<Arc<str>>,
    /// The conversation.
    pub messages: Messages,
    /// The tools on offer, sorted by name.
    pub tools: ToolSet,
    /// How hard to think.
    pub thinking: ThinkingLevel,
    /// The most output tokens, thinking included; none leaves it to the adapter.
    pub max_output: Option<u64>,
    /// The form that the final answer must have.
    pub response_schema: Option<ResponseSchema>,
    /// The bytes of the images that messages name as assets.
    pub assets: Arc<BTreeMap<AssetId, Bytes>>,
}

impl ModelRequest {
    /// A request with these messages and nothing else.
    #[must_use]
    pub fn new(messages: Messages) -> Self {
        Self { messages, ..Self::default() }
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system(mut self, prompt: impl Into<Arc<str>>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    /// Sets the tools.
    #[must_use]
    pub fn tools(mut self, tools: impl Into<ToolSet>) -> Self {
        self.tools = tools.into();
        self
    }

    /// Sets how hard to think.
    #[must_use]
    pub fn thinking(mut self, level: ThinkingLevel) -> Self {
        self.thinking = level;
        self
    }

    /// Sets the most output tokens.
    #[must_use]
    pub fn max_output(mut self, tokens: u64) -> Self {
        self.max_output = Some(tokens);
        self
    }

    /// Sets the form that the final answer must have.
    #[must_use]
    pub fn response_schema(mut self, schema: ResponseSchema) -> Self {
        self.response_schema = Some(schema);
        self
    }

    /// Adds the bytes of an image that messages name as an asset. An image without bytes is sent as a text
    /// that says so.
    #[must_use]
    pub fn asset(mut self, id: AssetId, bytes: impl Into<Bytes>) -> Self {
        Arc::make_mut(&mut self.assets).insert(id, bytes.into());
        self
    }

    /// Sets the bytes of all images, shared with other requests.
    #[must_use]
    pub fn assets(mut self, assets: Arc<BTreeMap<AssetId, Bytes>>) -> Self {
        self.assets = assets;
        self
    }
}

impl fmt::Debug for ModelRequest {
    /// Shows sizes and no content: a request holds what people wrote.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRequest")
            .field("system", &self.system.as_ref().map(|prompt| prompt.len()))
            .field("messages", &self.messages.len())
            .field("tools", &self.tools.len())
            .field("thinking", &self.thinking)
            .field("max_output", &self.max_output)
            .field("assets", &self.assets.len())
            .finish_non_exhaustive()
    }
}

/// A tool as a model sees it.
///
/// ```
/// use nervekit_harness::ToolSpec;
/// use serde_json::json;
/// let tool = ToolSpec::new("now", "tells the time", json!({"type": "object", "properties": {}}));
/// assert_eq!(tool.name, "now");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name, unique among the tools of a request.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON Schema of its arguments, an object.
    pub parameters: Value,
}

impl ToolSpec {
    /// A tool.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        Self { name: name.into(), description: description.into(), parameters }
    }
}

/// The tools of a request, sorted by name so that their order never changes the request's bytes. Of two with
/// the same name the last one stays. A clone shares them.
///
/// ```
/// use nervekit_harness::{ToolSet, ToolSpec};
/// use serde_json::json;
/// let tool = |name: &str| ToolSpec::new(name, "", json!({}));
/// let tools = ToolSet::from([tool("write"), tool("read")]);
/// assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["read", "write"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolSet(Arc<[ToolSpec]>);

impl Deref for ToolSet {
    type Target = [ToolSpec];

    fn deref(&self) -> &[ToolSpec] {
        &self.0
    }
}

impl FromIterator<ToolSpec> for ToolSet {
    fn from_iter<I: IntoIterator<Item = ToolSpec>>(tools: I) -> Self {
        let sorted: BTreeMap<String, ToolSpec> =
            tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect();
        Self(sorted.into_values().collect())
    }
}

impl From<Vec<ToolSpec>> for ToolSet {
    fn from(tools: Vec<ToolSpec>) -> Self {
        tools.into_iter().collect()
    }
}

impl<const N: usize> From<[ToolSpec; N]> for ToolSet {
    fn from(tools: [ToolSpec; N]) -> Self {
        tools.into_iter().collect()
    }
}

/// The JSON Schema that a final answer must satisfy.
///
/// ```
/// use nervekit_harness::ResponseSchema;
/// use serde_json::json;
/// let schema = ResponseSchema::new("verdict", json!({"type": "object"}));
/// assert_eq!(schema.name, "verdict");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResponseSchema {
    /// A short name: letters, digits, `_` and `-`.
    pub name: String,
    /// The schema, of an object.
    pub schema: Value,
}

impl ResponseSchema {
    /// A schema under a name.
    #[must_use]
    pub fn new(name: impl Into<String>, schema: Value) -> Self {
        Self { name: name.into(), schema }
    }
}
