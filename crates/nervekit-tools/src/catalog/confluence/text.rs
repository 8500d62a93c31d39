//! How texts for Confluence are written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a text of Confluence is written.
///
/// ```
/// use nervekit_tools::catalog::confluence::PageFormat;
/// assert_eq!(PageFormat::default(), PageFormat::Markdown);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PageFormat {
    /// Markdown, which is converted.
    #[default]
    Markdown,
    /// The storage format of Confluence, as it is.
    Storage,
}
