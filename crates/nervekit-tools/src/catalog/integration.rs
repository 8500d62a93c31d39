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
    /// A tool that only reads: beside other calls, and again after a crash.
    pub(super) fn reads<A>(self, name: &str, primary: &[&str], label: &str, description: &str) -> Tool
    where
        A: DeserializeOwned + Serialize + JsonSchema,
    {
        let tool = self.tool::<A>(name, Risk::Network, primary, label, description);
        tool.redefine(|definition| definition.parallel().replay_safe())
    }

    /// A tool with its primary arguments, in order: alone, and never again.
    pub(super) fn tool<A>(
        self,
        name: &str,
        risk: Risk,
        primary: &[&str],
        label: &str,
        description: &str,
    ) -> Tool
    where
        A: DeserializeOwned + Serialize + JsonSchema,
    {
        let arguments = ArgumentType::of::<A>();
        let takes = |argument: &str| arguments.schema()["properties"].get(argument).is_some();
        let mut descriptor =
            ToolDescriptor::new(name, ToolKind::Integration, risk).group(self.0).whole_tool();
        for argument in primary {
            descriptor = descriptor.primary_argument(*argument);
        }
        if takes("limit") {
            descriptor = descriptor.cosmetic("limit");
        }
        // What a person allows for one action says nothing about the others.
        if takes("action") {
            descriptor = descriptor.actions(ActionRisks::new("action"));
        }
        let definition = ToolDefinition::new(descriptor, description, arguments.schema().clone());
        Tool::handled_elsewhere(definition.label(label).capability(self.0), arguments)
    }
}

/// Says that the argument, if it is there, names a file whose content is sent.
pub(super) fn sending_file(tool: Tool, argument: &str) -> Tool {
    let selector = TargetSelector::path(argument).optional().binding_content();
    tool.redefine(|definition| definition.descriptor(|descriptor| descriptor.target(selector)))
}
