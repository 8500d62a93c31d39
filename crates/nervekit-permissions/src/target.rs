//! What a call affects, as its arguments say it: not yet resolved, not yet to be judged.

use serde::{Deserialize, Serialize};

/// Whether a target is only read.
///
/// ```
/// use nervekit_permissions::Access;
/// assert_eq!(serde_json::to_string(&Access::Write)?, "\"write\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// It is read or fetched.
    Read,
    /// It is written or sent to.
    Write,
}

/// Whether a path stands for itself alone.
///
/// ```
/// use nervekit_permissions::TargetScope;
/// assert_eq!(serde_json::to_string(&TargetScope::Tree)?, "\"tree\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TargetScope {
    /// The path itself.
    Exact,
    /// The path and everything below.
    Tree,
}

/// What a raw target names.
///
/// ```
/// use nervekit_permissions::{Target, TargetSubject};
/// assert_eq!(Target::path("src/a").subject, TargetSubject::Path("src/a".into()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TargetSubject {
    /// A path as typed; relative ones start at the working directory. Nothing in it is expanded.
    Path(String),
    /// A URL as typed.
    Url(String),
    /// A sub-agent.
    Agent(AgentTarget),
    /// The tool as a whole.
    WholeTool,
}

/// A sub-agent that a call starts or stops.
///
/// ```
/// use nervekit_permissions::AgentTarget;
/// let agent = AgentTarget::new("explorer").rule_set("read_only").origin("builtin");
/// assert_eq!(agent.profile, "explorer");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentTarget {
    /// The id of its profile.
    pub profile: String,
    /// The rule set that binds it.
    pub rule_set: Option<String>,
    /// Where the profile comes from: `builtin`, `user`, `project`, `conversation`.
    pub origin: Option<String>,
    /// The digest of the profile.
    pub digest: Option<nervekit_types::Digest>,
}

impl AgentTarget {
    /// Names a profile.
    #[must_use]
    pub fn new(profile: impl Into<String>) -> Self {
        Self { profile: profile.into(), rule_set: None, origin: None, digest: None }
    }

    /// Sets the rule set that binds the agent.
    #[must_use]
    pub fn rule_set(mut self, rule_set: impl Into<String>) -> Self {
        self.rule_set = Some(rule_set.into());
        self
    }

    /// Sets where the profile comes from.
    #[must_use]
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origin = Some(origin.into());
        self
    }

    /// Sets the digest of the profile.
    #[must_use]
    pub fn digest(mut self, digest: nervekit_types::Digest) -> Self {
        self.digest = Some(digest);
        self
    }
}

/// What a call affects, as typed. The engine resolves it; a rule is never compared with it.
///
/// ```
/// use nervekit_permissions::{Access, Target, TargetScope};
/// let target = Target::path("notes").write().tree();
/// assert_eq!((target.access, target.scope), (Access::Write, TargetScope::Tree));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Target {
    /// What it names.
    pub subject: TargetSubject,
    /// Whether it is only read.
    pub access: Access,
    /// Whether everything below is meant too.
    pub scope: TargetScope,
    /// The argument it came from, as a dotted path: how an executor asks for it.
    pub argument: Option<String>,
    /// Whether an approval also binds the SHA-256 of the file's content.
    pub binds_content: bool,
}

impl Target {
    fn new(subject: TargetSubject) -> Self {
        Self {
            subject,
            access: Access::Read,
            scope: TargetScope::Exact,
            argument: None,
            binds_content: false,
        }
    }

    /// Names a path that is read; see [`write`](Self::write) and [`tree`](Self::tree).
    #[must_use]
    pub fn path(path: impl Into<String>) -> Self {
        Self::new(TargetSubject::Path(path.into()))
    }

    /// Names a URL that is fetched; see [`write`](Self::write).
    #[must_use]
    pub fn url(url: impl Into<String>) -> Self {
        Self::new(TargetSubject::Url(url.into()))
    }

    /// Names a sub-agent.
    #[must_use]
    pub fn agent(agent: AgentTarget) -> Self {
        Self::new(TargetSubject::Agent(agent))
    }

    /// Names the tool as a whole.
    #[must_use]
    pub fn whole_tool() -> Self {
        Self::new(TargetSubject::WholeTool)
    }

    /// Says that it is written.
    #[must_use]
    pub fn write(mut self) -> Self {
        self.access = Access::Write;
        self
    }

    /// Says that everything below is meant too.
    #[must_use]
    pub fn tree(mut self) -> Self {
        self.scope = TargetScope::Tree;
        self
    }

    /// Says which argument it came from.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.argument = Some(argument.into());
        self
    }

    /// Says that approvals bind the content of the file.
    #[must_use]
    pub fn binding_content(mut self) -> Self {
        self.binds_content = true;
        self
    }
}
