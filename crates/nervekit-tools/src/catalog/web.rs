//! `web_search` and `web_fetch`: definitions, whose executors a host supplies.

use nervekit_permissions::{Risk, TargetSelector, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::definition::ToolDefinition;
use crate::tool::Tool;

/// The arguments of `web_search`.
///
/// ```
/// use nervekit_tools::catalog::WebSearch;
/// let args: WebSearch = serde_json::from_str(r#"{"query": "rust 1.90 release notes"}"#)?;
/// assert_eq!(args.max_results, 5);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct WebSearch {
    /// What to search for, in the words of a search engine.
    pub query: String,
    /// How many results at most.
    #[serde(default = "few")]
    #[schemars(range(min = 1, max = 20))]
    pub max_results: u32,
}

const fn few() -> u32 {
    5
}

/// The arguments of `web_fetch`.
///
/// ```
/// use nervekit_tools::catalog::WebFetch;
/// let args: WebFetch = serde_json::from_str(r#"{"url": "https://www.rust-lang.org/"}"#)?;
/// assert!(!args.raw);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct WebFetch {
    /// The address, with `https://` or `http://`.
    pub url: String,
    /// The text as it was sent, instead of the main content as Markdown.
    #[serde(default)]
    pub raw: bool,
}

/// The tool `web_search`: asks a search engine. A definition without an executor; one that uses a
/// [`SearchBackend`](crate::SearchBackend) is added with [`Tool::carried_out_by`].
///
/// ```
/// let tool = nervekit_tools::catalog::web_search();
/// assert!(tool.executor().is_none());
/// ```
#[must_use]
pub fn web_search() -> Tool {
    let arguments = ArgumentType::of::<WebSearch>();
    let descriptor = ToolDescriptor::new("web_search", ToolKind::Network, Risk::Network)
        .group("web")
        .primary_argument("query")
        .whole_tool()
        .cosmetic("max_results");
    let definition = ToolDefinition::new(
        descriptor,
        "Searches the web and returns titles, addresses and excerpts. Read a page with `web_fetch`.",
        arguments.schema().clone(),
    )
    .label("Search the web")
    .capability("web")
    .parallel()
    .replay_safe();
    Tool::handled_elsewhere(definition, arguments)
}

/// The tool `web_fetch`: reads what is at an address. A definition without an executor.
///
/// ```
/// use nervekit_permissions::{derive_targets, EffectiveArguments, Target};
/// let tool = nervekit_tools::catalog::web_fetch();
/// let arguments = EffectiveArguments::parse(r#"{"url": "https://example.com/"}"#)?;
/// let targets = derive_targets(tool.descriptor(), &arguments)?;
/// assert_eq!(targets, [Target::url("https://example.com/").argument("url")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn web_fetch() -> Tool {
    let arguments = ArgumentType::of::<WebFetch>();
    let descriptor = ToolDescriptor::new("web_fetch", ToolKind::Network, Risk::Network)
        .group("web")
        .primary_argument("url")
        .target(TargetSelector::url("url"));
    let definition = ToolDefinition::new(
        descriptor,
        "Reads a page of the web: the main content of HTML as Markdown, JSON indented, other text as it is. A \
         redirect to another host ends the call and names the address: call again with it.",
        arguments.schema().clone(),
    )
    .label("Read a web page")
    .capability("web")
    .parallel()
    .replay_safe();
    Tool::handled_elsewhere(definition, arguments)
}
