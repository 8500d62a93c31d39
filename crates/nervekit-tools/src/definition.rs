//! What a tool is, as data.

use nervekit_permissions::{EffectiveArguments, Risk, ToolDescriptor, ToolKind};
use nervekit_types::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::projection::OutputBudget;

/// Whether calls of a tool may run beside others of the same message.
///
/// ```
/// use nervekit_tools::{catalog, Execution};
/// assert_eq!(catalog::todos_set().definition().execution, Execution::Sequential);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Execution {
    /// Beside any other call.
    Parallel,
    /// Not beside another sequential call.
    Sequential,
}

/// When a tool is offered.
///
/// ```
/// use nervekit_tools::{Availability, ToolDefinition};
/// let launch = ToolDefinition::unreviewed("launch", "Launches.", serde_json::json!({})).capability("launches");
/// assert_eq!(launch.availability, Availability::Capability("launches".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Availability {
    /// Always.
    Always,
    /// When the host enabled this capability.
    Capability(String),
}

/// Who carries a call out.
///
/// ```
/// use nervekit_tools::{catalog, HandledBy};
/// assert_eq!(catalog::todos_get().definition().handled_by, HandledBy::Core);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandledBy {
    /// Its executor; without one the tool is not offered.
    Local,
    /// The conversation core, in one batch with the result. A core does so for its own tools only, and offers no others
    /// of this kind.
    Core,
    /// The host, by an executor; without one the tool is not offered.
    Host,
}

/// What a tool is: what the model reads, what the permission engine reads, and how its calls are run.
///
/// The defaults fail closed: unknown risk, the whole tool as target, sequential, not replay-safe.
///
/// ```
/// use nervekit_permissions::{Risk, TargetSelector, ToolDescriptor, ToolKind};
/// use nervekit_tools::{Execution, ToolDefinition};
///
/// let descriptor = ToolDescriptor::new("count_lines", ToolKind::Filesystem, Risk::Read)
///     .primary_argument("path")
///     .target(TargetSelector::path("path"));
/// let schema = serde_json::json!({"type": "object", "properties": {"path": {"type": "string"}}});
/// let definition = ToolDefinition::new(descriptor, "Counts the lines of a file.", schema)
///     .label("Count lines")
///     .parallel()
///     .replay_safe();
/// assert_eq!(definition.name(), "count_lines");
/// assert_eq!(definition.execution, Execution::Parallel);
/// assert_eq!(definition.digest(), definition.clone().digest());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// What the permission engine knows, the tool's name included.
    pub descriptor: ToolDescriptor,
    /// The name that a person reads.
    pub label: String,
    /// What the model reads.
    pub description: String,
    /// JSON Schema (draft 2020-12) of the arguments.
    pub parameters: Value,
    /// Whether calls may run beside each other.
    pub execution: Execution,
    /// Whether a call that may have happened can be made again without harm.
    pub replay_safe: bool,
    /// When the tool is offered.
    pub availability: Availability,
    /// Who carries calls out.
    pub handled_by: HandledBy,
    /// A sentence for the system prompt while the tool is offered.
    pub prompt_guideline: Option<String>,
    /// How much of a result the model reads.
    pub budget: OutputBudget,
}

impl ToolDefinition {
    /// Defines a tool with the defaults that fail closed.
    #[must_use]
    pub fn new(descriptor: ToolDescriptor, description: impl Into<String>, parameters: Value) -> Self {
        Self {
            label: descriptor.name.replace('_', " "),
            descriptor,
            description: description.into(),
            parameters,
            execution: Execution::Sequential,
            replay_safe: false,
            availability: Availability::Always,
            handled_by: HandledBy::Local,
            prompt_guideline: None,
            budget: OutputBudget::default(),
        }
    }

    /// Defines a tool of which only name, description and arguments are known: anything is possible.
    ///
    /// ```
    /// use nervekit_permissions::Risk;
    /// use nervekit_tools::ToolDefinition;
    /// let definition = ToolDefinition::unreviewed("deploy", "Deploys.", serde_json::json!({"type": "object"}));
    /// assert_eq!(definition.descriptor.base_risk, Risk::Unknown);
    /// ```
    #[must_use]
    pub fn unreviewed(name: impl Into<String>, description: impl Into<String>, parameters: Value) -> Self {
        let descriptor = ToolDescriptor::new(name, ToolKind::Other, Risk::Unknown).whole_tool();
        Self::new(descriptor, description, parameters)
    }

    /// The tool's name, unique in a catalog.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.descriptor.name
    }

    /// Sets the name that a person reads.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Self {
        Self { label: label.into(), ..self }
    }

    /// Lets calls run beside each other.
    #[must_use]
    pub fn parallel(self) -> Self {
        Self { execution: Execution::Parallel, ..self }
    }

    /// Says that a call can be made again without harm.
    #[must_use]
    pub fn replay_safe(self) -> Self {
        Self { replay_safe: true, ..self }
    }

    /// Offers the tool only with a capability that the host enables.
    #[must_use]
    pub fn capability(self, capability: impl Into<String>) -> Self {
        Self { availability: Availability::Capability(capability.into()), ..self }
    }

    /// Says who carries calls out.
    #[must_use]
    pub fn handled_by(self, handled_by: HandledBy) -> Self {
        Self { handled_by, ..self }
    }

    /// Adds a sentence to the system prompt.
    #[must_use]
    pub fn prompt_guideline(self, guideline: impl Into<String>) -> Self {
        Self { prompt_guideline: Some(guideline.into()), ..self }
    }

    /// Sets how much of a result the model reads.
    #[must_use]
    pub fn budget(self, budget: OutputBudget) -> Self {
        Self { budget, ..self }
    }

    /// Changes what the permission engine knows.
    #[must_use]
    pub fn descriptor(self, change: impl FnOnce(ToolDescriptor) -> ToolDescriptor) -> Self {
        Self { descriptor: change(self.descriptor), ..self }
    }

    /// SHA-256 of the definition: an approval holds only while it is the same. Labels and guidelines count
    /// too, since a person may have decided by them.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let value = serde_json::to_value(self).unwrap_or_default();
        let text = value.to_string();
        // The canonical form (sorted keys) of arguments serves here too; a definition beyond their limits
        // still has a digest.
        EffectiveArguments::new(value).map_or_else(|_| Digest::of(text), |canonical| canonical.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fail_closed() {
        let definition = ToolDefinition::unreviewed("x", "X.", serde_json::json!({}));
        assert_eq!(definition.descriptor.base_risk, Risk::Unknown);
        assert!(definition.descriptor.whole_tool && definition.descriptor.groups.is_empty());
        assert_eq!(definition.execution, Execution::Sequential);
        assert!(!definition.replay_safe);
    }

    #[test]
    fn every_field_counts_in_the_digest_and_serde_keeps_it() {
        let base = ToolDefinition::unreviewed("x", "X.", serde_json::json!({"type": "object"}));
        for other in [
            base.clone().label("y"),
            base.clone().parallel(),
            base.clone().replay_safe(),
            base.clone().capability("y"),
            base.clone().handled_by(HandledBy::Host),
            base.clone().prompt_guideline("y"),
            base.clone().budget(OutputBudget::READ),
            base.clone().descriptor(|descriptor| descriptor.group("y")),
        ] {
            assert_ne!(other.digest(), base.digest(), "{other:?}");
        }
        let text = serde_json::to_string(&base).unwrap();
        let read: ToolDefinition = serde_json::from_str(&text).unwrap();
        assert_eq!((&read, read.digest()), (&base, base.digest()));
    }
}
