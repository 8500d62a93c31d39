//! `subagent_prompt`, `subagent_status` and `subagent_stop`: definitions of what a conversation core carries out.

use nervekit_permissions::{AgentTarget, Risk, Target, TargetSelector, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::definition::{HandledBy, ToolDefinition};
use crate::tool::Tool;

/// The arguments of `subagent_prompt`.
///
/// ```
/// use nervekit_tools::catalog::SubagentPrompt;
/// let text = r#"{"assignments": [{"name": "docs", "prompt": "Read the docs.", "profile": "explore"}]}"#;
/// let args: SubagentPrompt = serde_json::from_str(text)?;
/// assert_eq!(args.assignments[0].profile.as_deref(), Some("explore"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SubagentPrompt {
    /// The assignments, each with another name. All are accepted or none.
    #[schemars(length(min = 1, max = 8))]
    pub assignments: Vec<Assignment>,
}

/// What one sub-agent is to do.
///
/// ```
/// use nervekit_tools::catalog::Assignment;
/// let follow_up: Assignment = serde_json::from_str(r#"{"name": "docs", "prompt": "And the changelog?"}"#)?;
/// assert!(follow_up.profile.is_none() && !follow_up.resume);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Assignment {
    /// The name of the sub-agent: a new one makes it, a known one sends it a follow-up.
    pub name: String,
    /// What it is to do, complete in itself: it knows nothing of this conversation.
    pub prompt: String,
    /// The profile of a new sub-agent. One that exists keeps its own, so leave it out there.
    pub profile: Option<String>,
    /// Also if the sub-agent is paused.
    #[serde(default)]
    pub resume: bool,
}

/// The arguments of `subagent_status`.
///
/// ```
/// use nervekit_tools::catalog::SubagentStatus;
/// let args: SubagentStatus = serde_json::from_str("{}")?;
/// assert_eq!(args.names, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SubagentStatus {
    /// The sub-agents. Default: all of this conversation.
    pub names: Option<Vec<String>>,
}

/// The arguments of `subagent_stop`.
///
/// ```
/// use nervekit_tools::catalog::SubagentStop;
/// let args: SubagentStop = serde_json::from_str(r#"{"names": ["docs"]}"#)?;
/// assert_eq!(args.names, ["docs"]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SubagentStop {
    /// The sub-agents to stop.
    #[schemars(length(min = 1))]
    pub names: Vec<String>,
}

/// The tool `subagent_prompt`: gives work to sub-agents and goes on. A definition; no core of this version carries it
/// out.
///
/// Its targets are the profiles. A follow-up names none, so it has the tool as a whole for a target: what a person
/// allowed for one profile does not cover it.
///
/// ```
/// use nervekit_permissions::{AgentTarget, EffectiveArguments, Target};
/// let tool = nervekit_tools::catalog::subagent_prompt();
/// let arguments = EffectiveArguments::parse(
///     r#"{"assignments": [{"name": "a", "prompt": "Look.", "profile": "explore"}, {"name": "b", "prompt": "And?"}]}"#,
/// )?;
/// let explore = Target::agent(AgentTarget::new("explore")).argument("assignments.0.profile");
/// assert_eq!(tool.targets(&arguments), [explore, Target::whole_tool()]);
/// # Ok::<(), nervekit_permissions::ArgumentsError>(())
/// ```
#[must_use]
pub fn subagent_prompt() -> Tool {
    let arguments = ArgumentType::of::<SubagentPrompt>();
    let descriptor = ToolDescriptor::new("subagent_prompt", ToolKind::Orchestration, Risk::AgentSpawn)
        .group("subagents")
        .target(TargetSelector::agent("assignments.*.profile").optional());
    let definition = ToolDefinition::new(
        descriptor,
        "Gives work to sub-agents and returns at once; each tells you by itself when it is done. A new name makes \
         a sub-agent from a profile, a known one sends it a follow-up.",
        arguments.schema().clone(),
    )
    .label("Delegate")
    .capability("subagents")
    .handled_by(HandledBy::Core);
    Tool::handled_elsewhere(definition, arguments).with_targets(|args: &SubagentPrompt| {
        let target = |(index, assignment): (usize, &Assignment)| match &assignment.profile {
            Some(profile) => {
                let argument = format!("assignments.{index}.profile");
                Target::agent(AgentTarget::new(profile)).argument(argument)
            }
            None => Target::whole_tool(),
        };
        args.assignments.iter().enumerate().map(target).collect()
    })
}

/// The tool `subagent_status`: what sub-agents are at. A definition; no core of this version carries it out.
///
/// ```
/// use nervekit_permissions::Risk;
/// let tool = nervekit_tools::catalog::subagent_status();
/// assert_eq!(tool.definition().descriptor.base_risk, Risk::Read);
/// ```
#[must_use]
pub fn subagent_status() -> Tool {
    let arguments = ArgumentType::of::<SubagentStatus>();
    let descriptor = ToolDescriptor::new("subagent_status", ToolKind::Orchestration, Risk::Read)
        .group("subagents")
        .primary_argument("names")
        .whole_tool();
    let definition = ToolDefinition::new(
        descriptor,
        "Tells what sub-agents are at: state, background commands, and the last answer of those that are done. \
         They tell you when they are done, so do not poll.",
        arguments.schema().clone(),
    )
    .label("Look after sub-agents")
    .capability("subagents")
    .parallel()
    .replay_safe()
    .handled_by(HandledBy::Core);
    Tool::handled_elsewhere(definition, arguments)
}

/// The tool `subagent_stop`: stops sub-agents and keeps their history. A definition; no core of this version carries
/// it out.
///
/// ```
/// use nervekit_permissions::Risk;
/// let tool = nervekit_tools::catalog::subagent_stop();
/// assert_eq!(tool.definition().descriptor.base_risk, Risk::AgentSpawn);
/// ```
#[must_use]
pub fn subagent_stop() -> Tool {
    let arguments = ArgumentType::of::<SubagentStop>();
    let descriptor = ToolDescriptor::new("subagent_stop", ToolKind::Orchestration, Risk::AgentSpawn)
        .group("subagents")
        .primary_argument("names")
        .whole_tool();
    let definition = ToolDefinition::new(
        descriptor,
        "Stops the work of sub-agents. What they have said and done stays, and they can be given work again.",
        arguments.schema().clone(),
    )
    .label("Stop sub-agents")
    .capability("subagents")
    .replay_safe()
    .handled_by(HandledBy::Core);
    Tool::handled_elsewhere(definition, arguments)
}
