//! `plan_mode_enter`, `plan_mode_present` and `plan_mode_force_exit`: definitions of what a conversation core carries
//! out.

use nervekit_permissions::{Risk, TargetSelector, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::definition::{HandledBy, ToolDefinition};
use crate::tool::Tool;

/// The arguments of `plan_mode_enter`.
///
/// ```
/// use nervekit_tools::catalog::PlanModeEnter;
/// let args: PlanModeEnter = serde_json::from_str(r#"{"reason": "it touches every crate"}"#)?;
/// assert_eq!(args.reason, "it touches every crate");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PlanModeEnter {
    /// Why the work should be planned first. The person reads it.
    pub reason: String,
}

/// The arguments of `plan_mode_present`.
///
/// ```
/// use nervekit_tools::catalog::PlanModePresent;
/// let args: PlanModePresent = serde_json::from_str(r#"{"file_path": "/home/ann/plans/split.md"}"#)?;
/// assert!(args.file_path.ends_with("split.md"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PlanModePresent {
    /// The file with the plan, in the folder for plans.
    pub file_path: String,
}

/// The arguments of `plan_mode_force_exit`.
///
/// ```
/// use nervekit_tools::catalog::PlanModeForceExit;
/// let args: PlanModeForceExit = serde_json::from_str(r#"{"reason": "there is nothing to change"}"#)?;
/// assert_eq!(args.reason, "there is nothing to change");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PlanModeForceExit {
    /// Why there is no plan to present. The person reads it.
    pub reason: String,
}

/// The tool `plan_mode_enter`: switches the conversation to planning. A definition; no core of this version carries
/// it out.
///
/// ```
/// let tool = nervekit_tools::catalog::plan_mode_enter();
/// assert_eq!(tool.definition().descriptor.groups, ["plan_mode"]);
/// ```
#[must_use]
pub fn plan_mode_enter() -> Tool {
    define::<PlanModeEnter>(
        describe("plan_mode_enter").primary_argument("reason"),
        "Enter planning",
        "Switches to planning: from here on you read, ask and write plans, and change nothing else. For work that \
         is large, or that can be done in ways that differ.",
    )
}

/// The tool `plan_mode_present`: shows a plan to the person, and waits. A definition; no core of this version carries
/// it out.
///
/// Whoever carries it out refuses a file outside of the folder for plans. What the person reviews is what the
/// approval binds: the content of the file counts.
///
/// ```
/// let tool = nervekit_tools::catalog::plan_mode_present();
/// assert!(tool.definition().descriptor.targets[0].binds_content);
/// ```
#[must_use]
pub fn plan_mode_present() -> Tool {
    define::<PlanModePresent>(
        describe("plan_mode_present")
            .primary_argument("file_path")
            .target(TargetSelector::path("file_path").binding_content()),
        "Present the plan",
        "Shows the person a plan that you wrote to a file, and waits. If they approve, planning ends and you carry \
         the plan out; otherwise you read what they want changed.",
    )
}

/// The tool `plan_mode_force_exit`: leaves planning without a plan. A definition; no core of this version carries it
/// out.
///
/// ```
/// let tool = nervekit_tools::catalog::plan_mode_force_exit();
/// assert!(tool.definition().replay_safe);
/// ```
#[must_use]
pub fn plan_mode_force_exit() -> Tool {
    define::<PlanModeForceExit>(
        describe("plan_mode_force_exit").primary_argument("reason"),
        "Leave planning",
        "Leaves planning without a plan, after the person confirmed it. When a plan turned out not to be needed.",
    )
}

fn describe(name: &str) -> ToolDescriptor {
    ToolDescriptor::new(name, ToolKind::Orchestration, Risk::Interaction).group("plan_mode").whole_tool()
}

fn define<A>(descriptor: ToolDescriptor, label: &str, description: &str) -> Tool
where
    A: DeserializeOwned + Serialize + JsonSchema,
{
    let arguments = ArgumentType::of::<A>();
    let definition = ToolDefinition::new(descriptor, description, arguments.schema().clone())
        .label(label)
        .capability("plan_mode")
        .replay_safe()
        .handled_by(HandledBy::Core);
    Tool::handled_elsewhere(definition, arguments)
}
