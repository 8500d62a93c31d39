//! What the definitions of tools over an outside service have in common.

use nervekit_permissions::{ActionRisks, Risk, TargetSelector, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::argument::ArgumentType;
use crate::definition::ToolDefinition;
use crate::tool::Tool;

/// A service, named as the group of its tools and as the capability that they need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service(pub(super) &'static str);

impl Service {
    /// Describes a tool with its primary arguments, in order.
    pub(super) fn describe(self, name: &str, risk: Risk, primary: &[&str]) -> ToolDescriptor {
        let descriptor = ToolDescriptor::new(name, ToolKind::Integration, risk).group(self.0).whole_tool();
        primary.iter().copied().fold(descriptor, ToolDescriptor::primary_argument)
    }

    /// A tool that only reads: beside other calls, and again after a crash.
    pub(super) fn reads<A>(self, name: &str, primary: &[&str], label: &str, description: &str) -> Tool
    where
        A: DeserializeOwned + Serialize + JsonSchema,
    {
        let descriptor = self.describe(name, Risk::Network, primary);
        self.define::<A>(descriptor, label, description)
            .redefine(|definition| definition.parallel().replay_safe())
    }

    /// A tool as described, without an executor.
    pub(super) fn define<A>(self, mut descriptor: ToolDescriptor, label: &str, description: &str) -> Tool
    where
        A: DeserializeOwned + Serialize + JsonSchema,
    {
        let arguments = ArgumentType::of::<A>();
        if arguments.schema().pointer("/properties/limit").is_some() {
            descriptor = descriptor.cosmetic("limit");
        }
        let definition = ToolDefinition::new(descriptor, description, arguments.schema().clone());
        Tool::handled_elsewhere(definition.label(label).capability(self.0), arguments)
    }
}

/// Says that the argument `action` decides what a call does, so that a grant for one call says nothing about the next.
pub(super) fn several_actions(descriptor: ToolDescriptor) -> ToolDescriptor {
    descriptor.actions(ActionRisks::new("action"))
}

/// Says that the argument, if it is there, names a file whose content is sent.
pub(super) fn sends_file(descriptor: ToolDescriptor, argument: &str) -> ToolDescriptor {
    descriptor.target(TargetSelector::path(argument).optional().binding_content())
}
