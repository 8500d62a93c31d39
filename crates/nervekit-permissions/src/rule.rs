//! Rules as documents hold them.

mod example;

use nervekit_types::Digest;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use crate::arguments::sorted;
use crate::decision::{CallOrigin, Decision};
use crate::descriptor::{Risk, ToolKind};
use crate::root::Root;
use crate::target::{Access, TargetScope};
pub use example::{Example, Examples};

/// Whether other layers may override a rule.
///
/// ```
/// use nervekit_permissions::Enforcement;
/// assert_eq!(Enforcement::default(), Enforcement::Overridable);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// A more specific rule may decide otherwise.
    #[default]
    Overridable,
    /// No other layer decides otherwise. Only the user's document holds such rules, and they never allow.
    Guardrail,
}

/// One rule: which calls it is about, and what happens to them.
///
/// ```
/// use nervekit_permissions::{Decision, Filter, Matcher, Rule};
/// let rule = Rule::new("no-env-files", Decision::Deny)
///     .guardrail()
///     .when(Filter::new().any_target(Matcher::new().pattern("**/.env*")));
/// let json = serde_json::to_value(&rule)?;
/// assert_eq!(json["when"]["targets"]["matcher"]["pattern"], "**/.env*");
/// assert_eq!(serde_json::from_value::<Rule>(json)?, rule);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Rule {
    /// Its id, unique in its document.
    pub id: String,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it counts.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// Its weight among the rules of its group, -1000 to 1000, unique there.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = -1000, max = 1000)))]
    pub priority: i16,
    /// Whether other layers may override it.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// Which calls it is about; an empty filter means every call.
    #[serde(default)]
    pub when: Filter,
    /// What happens to them.
    pub decision: Decision,
    /// Calls that it is meant for, and calls that it is not.
    #[serde(default, skip_serializing_if = "Examples::is_empty")]
    pub examples: Examples,
}

const fn enabled() -> bool {
    true
}

impl Rule {
    /// Makes an enabled, overridable rule of priority 0 about every call.
    #[must_use]
    pub fn new(id: impl Into<String>, decision: Decision) -> Self {
        Self {
            id: id.into(),
            description: None,
            enabled: true,
            priority: 0,
            enforcement: Enforcement::Overridable,
            when: Filter::default(),
            decision,
            examples: Examples::default(),
        }
    }

    /// Sets the words that say what it is for.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets whether it counts.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Sets its weight among the rules of its group.
    #[must_use]
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// Makes it a guardrail.
    #[must_use]
    pub fn guardrail(mut self) -> Self {
        self.enforcement = Enforcement::Guardrail;
        self
    }

    /// Sets which calls it is about.
    #[must_use]
    pub fn when(mut self, filter: Filter) -> Self {
        self.when = filter;
        self
    }

    /// Adds an example of a call that it matches.
    #[must_use]
    pub fn matching(mut self, example: impl Into<Example>) -> Self {
        self.examples.matching.push(example.into());
        self
    }

    /// Adds an example of a call that it does not match.
    #[must_use]
    pub fn not_matching(mut self, example: impl Into<Example>) -> Self {
        self.examples.not_match.push(example.into());
        self
    }
}

/// How the value of an argument is compared.
///
/// ```
/// use nervekit_permissions::Operator;
/// assert_eq!(serde_json::to_string(&Operator::NotEquals)?, "\"notEquals\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Operator {
    /// The same value of the same type. On the whole object (`args`), cosmetic arguments are left out.
    Equals,
    /// Any other value; in a deny or prompt also a missing one.
    NotEquals,
    /// One of several values.
    In,
    /// An anchored, case-sensitive pattern over a text.
    Glob,
    /// Present (`true`) or missing (`false`).
    Exists,
    /// A value with this SHA-256 over its canonical JSON, for values that a rule should not hold in clear.
    Digest,
}

/// A condition on one argument.
///
/// ```
/// use nervekit_permissions::{ArgumentFilter, Operator};
/// let filter = ArgumentFilter::new("args.issue.key", Operator::Equals, "NERVE-1");
/// assert_eq!(filter.path, "args.issue.key");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct ArgumentFilter {
    /// `args` for the whole object, or `args.` and a dotted path; `*` stands for every item of an array.
    pub path: String,
    /// How it is compared.
    pub operator: Operator,
    /// With what: a value, a list for `in`, a text for `glob` and `digest`, a truth value for `exists`.
    #[serde(serialize_with = "sorted")]
    pub value: Value,
}

impl ArgumentFilter {
    /// Makes a condition.
    #[must_use]
    pub fn new(path: impl Into<String>, operator: Operator, value: impl Into<Value>) -> Self {
        Self { path: path.into(), operator, value: value.into() }
    }
}

/// A condition on the primary arguments that are present.
///
/// ```
/// use nervekit_permissions::{Operator, PrimaryFilter};
/// assert_eq!(PrimaryFilter::new(Operator::Glob, "cargo *").operator, Operator::Glob);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct PrimaryFilter {
    /// How each is compared.
    pub operator: Operator,
    /// With what.
    #[serde(serialize_with = "sorted")]
    pub value: Value,
}

impl PrimaryFilter {
    /// Makes a condition.
    #[must_use]
    pub fn new(operator: Operator, value: impl Into<Value>) -> Self {
        Self { operator, value: value.into() }
    }
}

/// The kinds of target that a matcher may ask for.
///
/// ```
/// use nervekit_permissions::TargetKind;
/// assert_eq!(serde_json::to_string(&TargetKind::WholeTool)?, "\"whole_tool\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TargetKind {
    /// A file or folder.
    Path,
    /// A URL.
    Url,
    /// A sub-agent.
    Agent,
    /// The tool as a whole.
    WholeTool,
}

/// Which queries of a URL a matcher accepts.
///
/// ```
/// use nervekit_permissions::QueryMatch;
/// assert_eq!(serde_json::to_string(&QueryMatch::Any)?, "\"any\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueryMatch {
    /// Any query.
    Any,
}

/// A condition on one target. Everything that is set must hold.
///
/// Paths are relative to a root; an absent root means the project in an allow, and every root and external
/// paths in a deny or prompt. `${projectDir}/src/**` is short for the root and the pattern; so are `${nerveHome}`,
/// `${nerveData}`, `${plansDir}`, `${homeDir}` and `${tempDir}`. The folder of a host has no short form.
///
/// ```
/// use nervekit_permissions::{Matcher, Root};
/// let sources = Matcher::new().root(Root::Project).pattern("src/**");
/// let origin = Matcher::new().subtree("https://docs.example/").any_query();
/// assert_ne!(sources, origin);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Matcher {
    /// The kind of target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<TargetKind>,
    /// Whether it is only read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Whether it stands for everything below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<TargetScope>,
    /// The root that contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub root: Option<Root>,
    /// This path or URL and no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<String>,
    /// This path or URL and everything below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtree: Option<String>,
    /// What this pattern matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Whether `exact`, `subtree` or `pattern` is an absolute path instead of one below a root.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub absolute: bool,
    /// Which queries of a URL are covered by `subtree` or `pattern`; none unless stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<QueryMatch>,
    /// The profile of a sub-agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The SHA-256 of the file's content or of the sub-agent's profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub content: Option<Digest>,
}

impl Matcher {
    /// Starts a condition that every target meets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a kind of target.
    #[must_use]
    pub fn kind(mut self, kind: TargetKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Asks for an access.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = Some(access);
        self
    }

    /// Asks for a scope.
    #[must_use]
    pub fn scope(mut self, scope: TargetScope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Asks for a root.
    #[must_use]
    pub fn root(mut self, root: Root) -> Self {
        self.root = Some(root);
        self
    }

    /// Asks for this path or URL and no other.
    #[must_use]
    pub fn exact(mut self, exact: impl Into<String>) -> Self {
        self.exact = Some(exact.into());
        self
    }

    /// Asks for this path or URL or one below.
    #[must_use]
    pub fn subtree(mut self, subtree: impl Into<String>) -> Self {
        self.subtree = Some(subtree.into());
        self
    }

    /// Asks for a match of this pattern.
    #[must_use]
    pub fn pattern(mut self, pattern: impl Into<String>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// Says that the path is absolute.
    #[must_use]
    pub fn absolute(mut self) -> Self {
        self.absolute = true;
        self
    }

    /// Covers any query of a URL.
    #[must_use]
    pub fn any_query(mut self) -> Self {
        self.query = Some(QueryMatch::Any);
        self
    }

    /// Asks for the profile of a sub-agent.
    #[must_use]
    pub fn profile(mut self, profile: impl Into<String>) -> Self {
        self.profile = Some(profile.into());
        self
    }

    /// Asks for this content.
    #[must_use]
    pub fn content(mut self, content: Digest) -> Self {
        self.content = Some(content);
        self
    }
}

/// How many of a call's targets must meet a matcher.
///
/// ```
/// use nervekit_permissions::Quantifier;
/// assert_eq!(serde_json::to_string(&Quantifier::All)?, "\"all\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Quantifier {
    /// At least one.
    Any,
    /// Every one, and there is at least one.
    All,
}

/// A condition on the targets of a call.
///
/// ```
/// use nervekit_permissions::{Matcher, Quantifier, TargetsFilter};
/// assert_eq!(TargetsFilter::new(Quantifier::Any, Matcher::new()).quantifier, Quantifier::Any);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct TargetsFilter {
    /// How many must meet it.
    pub quantifier: Quantifier,
    /// What they must meet.
    pub matcher: Matcher,
}

impl TargetsFilter {
    /// Makes a condition.
    #[must_use]
    pub fn new(quantifier: Quantifier, matcher: Matcher) -> Self {
        Self { quantifier, matcher }
    }
}

/// Which calls a rule is about: everything that is set must hold, and in a list one entry is enough.
///
/// ```
/// use nervekit_permissions::{Filter, Risk};
/// let reads = Filter::new().base_risk(Risk::Read);
/// assert_eq!(serde_json::to_string(&reads)?, r#"{"baseRisks":["read"]}"#);
/// // A list that names nothing would be about no call at all: it is refused.
/// assert!(serde_json::from_str::<Filter>(r#"{"toolNames": []}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Filter {
    /// Names of tools.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "filled")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub tool_names: Vec<String>,
    /// Kinds of tools.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "filled")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub tool_kinds: Vec<ToolKind>,
    /// Groups of tools.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "filled")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub tool_groups: Vec<String>,
    /// Risks of the call.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "filled")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub base_risks: Vec<Risk>,
    /// Who asked for it.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "filled")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub origins: Vec<CallOrigin>,
    /// A condition on the primary arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_argument: Option<PrimaryFilter>,
    /// Conditions on arguments.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "filled")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub arguments: Vec<ArgumentFilter>,
    /// The words with which one simple command begins.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "filled")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub command_prefix: Vec<String>,
    /// A condition on the first target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_target: Option<Matcher>,
    /// A condition on the targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<TargetsFilter>,
}

fn filled<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::deserialize(deserializer)?;
    if list.is_empty() {
        return Err(de::Error::custom(
            "an empty list matches nothing; leave the field out to match everything",
        ));
    }
    Ok(list)
}

impl Filter {
    /// Starts a filter that matches every call.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the name of a tool.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tool_names.push(name.into());
        self
    }

    /// Adds a kind of tools.
    #[must_use]
    pub fn tool_kind(mut self, kind: ToolKind) -> Self {
        self.tool_kinds.push(kind);
        self
    }

    /// Adds a group of tools.
    #[must_use]
    pub fn tool_group(mut self, group: impl Into<String>) -> Self {
        self.tool_groups.push(group.into());
        self
    }

    /// Adds a risk.
    #[must_use]
    pub fn base_risk(mut self, risk: Risk) -> Self {
        self.base_risks.push(risk);
        self
    }

    /// Adds an origin.
    #[must_use]
    pub fn origin(mut self, origin: CallOrigin) -> Self {
        self.origins.push(origin);
        self
    }

    /// Sets the condition on the primary arguments.
    #[must_use]
    pub fn primary_argument(mut self, operator: Operator, value: impl Into<Value>) -> Self {
        self.primary_argument = Some(PrimaryFilter::new(operator, value));
        self
    }

    /// Adds a condition on an argument.
    #[must_use]
    pub fn argument(mut self, path: impl Into<String>, operator: Operator, value: impl Into<Value>) -> Self {
        self.arguments.push(ArgumentFilter::new(path, operator, value));
        self
    }

    /// Sets the words with which one simple command begins.
    #[must_use]
    pub fn command_prefix<W: Into<String>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.command_prefix = words.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the condition on the first target.
    #[must_use]
    pub fn primary_target(mut self, matcher: Matcher) -> Self {
        self.primary_target = Some(matcher);
        self
    }

    /// Asks that at least one target meets a matcher.
    #[must_use]
    pub fn any_target(mut self, matcher: Matcher) -> Self {
        self.targets = Some(TargetsFilter::new(Quantifier::Any, matcher));
        self
    }

    /// Asks that every target meets a matcher.
    #[must_use]
    pub fn every_target(mut self, matcher: Matcher) -> Self {
        self.targets = Some(TargetsFilter::new(Quantifier::All, matcher));
        self
    }
}
