//! How texts for Jira are written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a text for Jira is written.
///
/// ```
/// use nervekit_tools::catalog::jira::TextFormat;
/// assert_eq!(TextFormat::default(), TextFormat::Markdown);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TextFormat {
    /// Markdown, which is converted.
    #[default]
    Markdown,
    /// The JSON text of an Atlassian document, sent as it is.
    Adf,
}
