//! What a tool says about itself.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::arguments::EffectiveArguments;
use crate::target::{Access, TargetScope};

/// The sort of work that a tool does.
///
/// ```
/// use nervekit_permissions::ToolKind;
/// assert_eq!(ToolKind::Filesystem.to_string(), "filesystem");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolKind {
    /// Reads or writes files.
    Filesystem,
    /// Runs a shell command.
    Command,
    /// Runs code.
    Code,
    /// Talks to the network.
    Network,
    /// Talks to a person.
    Interaction,
    /// Steers the conversation, its children or its processes.
    Orchestration,
    /// Deploys something.
    Deployment,
    /// Works on an outside service.
    Integration,
    /// Anything else.
    Other,
}

impl ToolKind {
    /// Returns the word used in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Filesystem => "filesystem",
            Self::Command => "command",
            Self::Code => "code",
            Self::Network => "network",
            Self::Interaction => "interaction",
            Self::Orchestration => "orchestration",
            Self::Deployment => "deployment",
            Self::Integration => "integration",
            Self::Other => "other",
        }
    }

    /// Whether the primary argument is a program that can do what no rule sees.
    pub(crate) const fn runs_programs(self) -> bool {
        matches!(self, Self::Command | Self::Code)
    }
}

impl fmt::Display for ToolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a call of a tool can do at worst. One per tool, static, without a default: whoever adds a tool states it.
///
/// The built-in rule sets let `Read` and `Interaction` run without asking. `Interaction`, and the groups that they name
/// (`shell`, `python`, `subagents`), are reserved for the tools of nervekit; a tool of a host or a third party is
/// `Unknown` unless the host reviewed it.
///
/// ```
/// use nervekit_permissions::Risk;
/// assert_eq!(Risk::AgentSpawn.to_string(), "agent_spawn");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Risk {
    /// Reads, changes nothing.
    Read,
    /// Changes something that can be changed back.
    Write,
    /// Sends or fetches over the network.
    Network,
    /// Handles secrets.
    Secret,
    /// Changes something for good.
    Destructive,
    /// Deploys something.
    Deployment,
    /// Starts or stops other agents.
    AgentSpawn,
    /// Talks to the person or keeps the conversation's own notes.
    Interaction,
    /// Not known; anything is possible.
    Unknown,
}

impl Risk {
    /// Returns the word used in documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Network => "network",
            Self::Secret => "secret",
            Self::Destructive => "destructive",
            Self::Deployment => "deployment",
            Self::AgentSpawn => "agent_spawn",
            Self::Interaction => "interaction",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an argument names.
///
/// ```
/// use nervekit_permissions::{Access, SelectorKind, TargetScope, TargetSelector};
/// let selector = TargetSelector::path("path").tree();
/// assert_eq!(selector.kind, SelectorKind::Path { access: Access::Read, scope: TargetScope::Tree });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SelectorKind {
    /// A file or folder.
    Path {
        /// Whether it is read or written.
        access: Access,
        /// Whether everything below is meant too.
        scope: TargetScope,
    },
    /// A URL.
    Url {
        /// Whether it is fetched or sent to.
        access: Access,
    },
    /// The profile of a sub-agent.
    Agent,
}

/// Which argument holds a target, and of what kind that target is.
///
/// An argument is named by its dotted path; `*` stands for every item of an array, and an argument that holds
/// an array of texts stands for each of them.
///
/// ```
/// use nervekit_permissions::TargetSelector;
/// // `grep`: `paths`, else `path`, else the working directory.
/// let selector = TargetSelector::path("paths").or("path").tree().or_working_directory();
/// assert_eq!(selector.arguments, ["paths", "path"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TargetSelector {
    /// The arguments that may hold it; the first one present counts.
    pub arguments: Vec<String>,
    /// What the argument names.
    pub kind: SelectorKind,
    /// Whether a call without any of the arguments has no such target. Otherwise such a call fails closed.
    pub optional: bool,
    /// Whether a call without any of the arguments targets the working directory.
    pub or_working_directory: bool,
    /// Whether an approval also binds the SHA-256 of the file's content: scripts, plans, uploads.
    pub binds_content: bool,
}

impl TargetSelector {
    fn new(argument: &str, kind: SelectorKind) -> Self {
        Self {
            arguments: vec![argument.to_owned()],
            kind,
            optional: false,
            or_working_directory: false,
            binds_content: false,
        }
    }

    /// Selects a path that is read; see [`write`](Self::write) and [`tree`](Self::tree).
    #[must_use]
    pub fn path(argument: &str) -> Self {
        Self::new(argument, SelectorKind::Path { access: Access::Read, scope: TargetScope::Exact })
    }

    /// Selects a URL that is fetched; see [`write`](Self::write).
    #[must_use]
    pub fn url(argument: &str) -> Self {
        Self::new(argument, SelectorKind::Url { access: Access::Read })
    }

    /// Selects the profile of a sub-agent.
    #[must_use]
    pub fn agent(argument: &str) -> Self {
        Self::new(argument, SelectorKind::Agent)
    }

    /// Says that the target is written.
    #[must_use]
    pub fn write(mut self) -> Self {
        match &mut self.kind {
            SelectorKind::Path { access, .. } | SelectorKind::Url { access } => *access = Access::Write,
            SelectorKind::Agent => {}
        }
        self
    }

    /// Says that a path stands for itself and everything below.
    #[must_use]
    pub fn tree(mut self) -> Self {
        if let SelectorKind::Path { scope, .. } = &mut self.kind {
            *scope = TargetScope::Tree;
        }
        self
    }

    /// Adds an argument to look at when those before it are absent.
    #[must_use]
    pub fn or(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Says that a call without the argument has no such target.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Says that a call without the argument targets the working directory.
    #[must_use]
    pub fn or_working_directory(mut self) -> Self {
        self.or_working_directory = true;
        self
    }

    /// Says that approvals bind the content of the file.
    #[must_use]
    pub fn binding_content(mut self) -> Self {
        self.binds_content = true;
        self
    }
}

/// The risks of a tool whose `action` argument is a closed set.
///
/// ```
/// use nervekit_permissions::{ActionRisks, Risk};
/// let risks = ActionRisks::new("action").risk("list", Risk::Read).risk("status", Risk::Read);
/// assert_eq!(risks.risks["list"], Risk::Read);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ActionRisks {
    /// The argument that holds the action.
    pub argument: String,
    /// The risk of each declared action; any other value has the tool's base risk.
    pub risks: BTreeMap<String, Risk>,
}

impl ActionRisks {
    /// Starts an empty table for this argument.
    #[must_use]
    pub fn new(argument: impl Into<String>) -> Self {
        Self { argument: argument.into(), risks: BTreeMap::new() }
    }

    /// Declares the risk of one action.
    #[must_use]
    pub fn risk(mut self, action: impl Into<String>, risk: Risk) -> Self {
        self.risks.insert(action.into(), risk);
        self
    }
}

/// What the permission engine knows about a tool. It comes from the tool's manifest, never from a call.
///
/// ```
/// use nervekit_permissions::{Risk, TargetSelector, ToolDescriptor, ToolKind};
///
/// let write = ToolDescriptor::new("write", ToolKind::Filesystem, Risk::Write)
///     .group("file_editing")
///     .primary_argument("path")
///     .target(TargetSelector::path("path").write());
/// let bash = ToolDescriptor::new("bash", ToolKind::Command, Risk::Unknown)
///     .group("shell")
///     .primary_argument("command")
///     .whole_tool()
///     .target(TargetSelector::path("cwd").write().tree().optional())
///     .cosmetic("timeout");
/// assert_eq!(write.targets.len(), 1);
/// assert!(bash.whole_tool);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolDescriptor {
    /// The tool's name, unique in a manifest.
    pub name: String,
    /// The sort of work it does.
    pub kind: ToolKind,
    /// The groups it belongs to; rules name them.
    pub groups: Vec<String>,
    /// What a call can do at worst.
    pub base_risk: Risk,
    /// The arguments that matter most, in order, as dotted paths. The first one present is the command or
    /// the code of a tool that runs programs.
    pub primary_arguments: Vec<String>,
    /// Where the targets are.
    pub targets: Vec<TargetSelector>,
    /// Whether each call also targets the tool as a whole. A call without any other target does so anyway.
    pub whole_tool: bool,
    /// Arguments that change nothing that a person would judge: timeout, description, output limits.
    pub cosmetic_arguments: Vec<String>,
    /// The risks of declared actions.
    pub actions: Option<ActionRisks>,
}

impl ToolDescriptor {
    /// Describes a tool without groups, arguments and selectors: each call targets the tool as a whole.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: ToolKind, base_risk: Risk) -> Self {
        Self {
            name: name.into(),
            kind,
            groups: Vec::new(),
            base_risk,
            primary_arguments: Vec::new(),
            targets: Vec::new(),
            whole_tool: false,
            cosmetic_arguments: Vec::new(),
            actions: None,
        }
    }

    /// Adds a group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.groups.push(group.into());
        self
    }

    /// Adds a primary argument after those already there.
    #[must_use]
    pub fn primary_argument(mut self, argument: impl Into<String>) -> Self {
        self.primary_arguments.push(argument.into());
        self
    }

    /// Adds a target selector.
    #[must_use]
    pub fn target(mut self, selector: TargetSelector) -> Self {
        self.targets.push(selector);
        self
    }

    /// Says that each call targets the tool as a whole besides what its selectors find.
    #[must_use]
    pub fn whole_tool(mut self) -> Self {
        self.whole_tool = true;
        self
    }

    /// Marks an argument as cosmetic.
    #[must_use]
    pub fn cosmetic(mut self, argument: impl Into<String>) -> Self {
        self.cosmetic_arguments.push(argument.into());
        self
    }

    /// Declares the risks of single actions.
    #[must_use]
    pub fn actions(mut self, actions: ActionRisks) -> Self {
        self.actions = Some(actions);
        self
    }

    /// Returns the risk of a call: that of its declared action, else the base risk.
    ///
    /// ```
    /// use nervekit_permissions::{ActionRisks, EffectiveArguments, Risk, ToolDescriptor, ToolKind};
    /// let launch = ToolDescriptor::new("launch", ToolKind::Orchestration, Risk::Unknown)
    ///     .actions(ActionRisks::new("action").risk("list", Risk::Read));
    /// assert_eq!(launch.risk_of(&EffectiveArguments::parse(r#"{"action":"list"}"#)?), Risk::Read);
    /// assert_eq!(launch.risk_of(&EffectiveArguments::parse(r#"{"action":"start"}"#)?), Risk::Unknown);
    /// # Ok::<(), nervekit_permissions::ArgumentsError>(())
    /// ```
    #[must_use]
    pub fn risk_of(&self, arguments: &EffectiveArguments) -> Risk {
        self.actions
            .as_ref()
            .and_then(|actions| {
                let action = arguments.get(&actions.argument)?.as_str()?;
                actions.risks.get(action).copied()
            })
            .unwrap_or(self.base_risk)
    }
}
