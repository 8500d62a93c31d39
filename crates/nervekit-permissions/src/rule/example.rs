//! Calls that a rule is meant for, and calls that it is not.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::arguments::sorted_map;

/// Calls that show what a rule is about. They are tried when the document is read, so that a rule which does not do
/// what its author thinks is refused instead of in force.
///
/// ```
/// use nervekit_permissions::{Decision, DocumentScope, Overlay, PolicyDocument, Filter, Rule};
/// let tests = Rule::new("tests", Decision::Allow)
///     .when(Filter::new().tool("bash").command_prefix(["cargo", "test"]))
///     .matching("cargo test --all");
/// let document = |rule| PolicyDocument::new().overlay(Overlay::new("supervised").rule(rule));
/// let right = tests.clone().not_matching("cargo test; id");
/// assert!(document(right).check(DocumentScope::User).is_ok());
/// let wrong = tests.matching("cargo build");
/// let error = document(wrong).check(DocumentScope::User).unwrap_err();
/// assert!(error.to_string().contains("does not match its example"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Examples {
    /// Calls that the rule matches.
    #[serde(rename = "match", skip_serializing_if = "Vec::is_empty")]
    pub matching: Vec<Example>,
    /// Calls that it does not match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_match: Vec<Example>,
}

impl Examples {
    pub(crate) fn is_empty(&self) -> bool {
        self.matching.is_empty() && self.not_match.is_empty()
    }
}

/// One call, as far as a rule looks at it.
///
/// A text is what the rule is about: a command, a path below the root that the rule names (the project when it names
/// none), a URL, or else the primary argument. A call in full gives the arguments, and the tool when it is another
/// than that of the rule; its `path` and `url` are targets, its `command` is a command.
///
/// ```
/// use nervekit_permissions::Example;
/// assert_eq!(Example::from("src/main.rs"), serde_json::from_str(r#""src/main.rs""#)?);
/// let call: Example = serde_json::from_str(r#"{"tool": "jira_update_issue", "arguments": {"issue_key": "A-1"}}"#)?;
/// assert!(matches!(call, Example::Call { tool: Some(_), .. }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, deny_unknown_fields)]
#[non_exhaustive]
pub enum Example {
    /// What the rule is about.
    Text(String),
    /// A call in full.
    Call {
        /// The tool; one of the rule's when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// The arguments.
        #[serde(serialize_with = "sorted_map")]
        arguments: Map<String, Value>,
    },
}

impl From<&str> for Example {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Example {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
