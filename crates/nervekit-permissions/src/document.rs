//! Rule sets, overlays and the documents that hold them.

mod checked;
mod fault;
#[cfg(test)]
mod schema;
mod version;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decision::{Decision, Mode};
use crate::error::{DocumentError, DocumentProblem};
use crate::policy::{CompiledRule, compile};
use crate::rule::{Enforcement, Rule};
pub(crate) use checked::{CheckedDocument, CheckedRuleSet};
use fault::{Fault, locate, position};
pub(crate) use version::{is_same, restrictions, strictest};

/// The version of the document format that this crate reads and writes.
pub const SCHEMA_VERSION: u32 = 2;
/// The most rules in one document.
const MAXIMUM_RULES: usize = 256;
/// The longest document, in bytes.
pub(crate) const MAXIMUM_DOCUMENT: usize = 1 << 20;
/// The bounds of a rule's priority.
const PRIORITIES: std::ops::RangeInclusive<i16> = -1000..=1000;

/// To whom a document belongs.
///
/// ```
/// use nervekit_permissions::DocumentScope;
/// assert_eq!(DocumentScope::Project.to_string(), "project");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentScope {
    /// The user, in every project.
    User,
    /// One project, for everybody who trusted it.
    Project,
    /// One conversation.
    Conversation,
}

impl std::fmt::Display for DocumentScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Conversation => "conversation",
        })
    }
}

/// Named, versioned rules that a conversation selects. They are always overridable.
///
/// ```
/// use nervekit_permissions::{Decision, Filter, Risk, Rule, RuleSet};
/// let careful = RuleSet::new("careful")
///     .rule(Rule::new("rest", Decision::Prompt).priority(-1000))
///     .rule(Rule::new("reads", Decision::Allow).when(Filter::new().base_risk(Risk::Read)));
/// let bytes = serde_json::to_vec(&careful)?;
/// assert_eq!(RuleSet::parse(&bytes)?, careful);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct RuleSet {
    /// The version of the format.
    #[cfg_attr(test, schemars(range(min = 2, max = 2)))]
    pub schema_version: u32,
    /// Its id: what a conversation selects and overlays are bound to.
    pub id: String,
    /// What it is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its own version, raised by whoever edits it.
    #[serde(default = "first")]
    pub version: u32,
    /// The modes in which it may be selected; every mode when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatible_modes: Option<Vec<Mode>>,
    /// Whether it may be selected at all.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub enabled: bool,
    /// Its rules.
    pub rules: Vec<Rule>,
}

const fn first() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

impl RuleSet {
    /// Starts an empty set: every call falls through to the baseline.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            id: id.into(),
            description: None,
            version: 1,
            compatible_modes: None,
            enabled: true,
            rules: Vec::new(),
        }
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Sets what it is for.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Restricts it to these modes.
    #[must_use]
    pub fn compatible_modes(mut self, modes: impl IntoIterator<Item = Mode>) -> Self {
        self.compatible_modes = Some(modes.into_iter().collect());
        self
    }

    /// Sets whether it may be selected.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Reads and checks a rule set. One bad rule makes the whole set refused.
    pub fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        Ok(Self::read(bytes)?.0)
    }

    /// Reads and checks a rule set, and returns it with its compiled rules, too.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Self, CheckedRuleSet), DocumentError> {
        let (set, text) = read::<Self>(bytes)?;
        let checked = set.examine().map_err(|fault| locate(fault, text, set.rules.iter(), &[]))?;
        Ok((set, checked))
    }

    /// Checks a set that was built in code.
    pub fn check(&self) -> Result<(), DocumentError> {
        self.checked().map(drop)
    }

    /// Checks a set, and returns what the check made of it.
    pub(crate) fn checked(&self) -> Result<CheckedRuleSet, DocumentError> {
        Ok(self.examine().map_err(DocumentProblem::from)?)
    }

    fn examine(&self) -> Result<CheckedRuleSet, Fault<'_>> {
        check_version(self.schema_version)?;
        check_id(&self.id, "rule set").map_err(Fault::whole)?;
        let mut ids = BTreeSet::new();
        let rules = check_group(&self.rules, &mut ids)?;
        for rule in &self.rules {
            if rule.enforcement == Enforcement::Guardrail {
                return Err(Fault::rule(rule, "a rule set holds overridable rules only"));
            }
        }
        check_count(self.rules.len())?;
        Ok(CheckedRuleSet::new(self, rules))
    }
}

/// Extra rules for one rule set.
///
/// ```
/// use nervekit_permissions::{Decision, Overlay, Rule};
/// let overlay = Overlay::new("supervised").rule(Rule::new("a", Decision::Allow));
/// assert_eq!(overlay.rule_set_id, "supervised");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Overlay {
    /// The rule set that it is bound to; under any other it does not exist.
    pub rule_set_id: String,
    /// Its rules.
    pub rules: Vec<Rule>,
}

impl Overlay {
    /// Starts an empty overlay.
    #[must_use]
    pub fn new(rule_set_id: impl Into<String>) -> Self {
        Self { rule_set_id: rule_set_id.into(), rules: Vec::new() }
    }

    /// Adds a rule.
    #[must_use]
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}

/// The rules that a user, a project or a conversation adds.
///
/// ```
/// use nervekit_permissions::{DocumentScope, PolicyDocument};
/// let document = PolicyDocument::parse(DocumentScope::User, br#"{
///     "schemaVersion": 2,
///     "guardrails": [{"id": "never-push", "enforcement": "guardrail", "decision": "deny",
///                     "when": {"commandPrefix": ["git", "push"]}}],
///     "overlays": [{"ruleSetId": "supervised", "rules": [
///         {"id": "tests", "decision": "allow", "when": {"toolNames": ["bash"], "commandPrefix": ["cargo", "test"]}}
///     ]}]
/// }"#)?;
/// assert_eq!(document.rules().count(), 2);
/// // Only the user's document holds guardrails.
/// assert!(document.check(DocumentScope::Project).is_err());
/// # Ok::<(), nervekit_permissions::DocumentError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct PolicyDocument {
    /// The version of the format.
    #[cfg_attr(test, schemars(range(min = 2, max = 2)))]
    pub schema_version: u32,
    /// Rules that bind under every rule set; in the user's document only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<Rule>,
    /// Rules for single rule sets.
    #[serde(default)]
    pub overlays: Vec<Overlay>,
}

impl Default for PolicyDocument {
    fn default() -> Self {
        Self::new()
    }
}

impl PolicyDocument {
    /// Starts an empty document.
    #[must_use]
    pub fn new() -> Self {
        Self { schema_version: SCHEMA_VERSION, guardrails: Vec::new(), overlays: Vec::new() }
    }

    /// Adds a guardrail for every rule set.
    #[must_use]
    pub fn guardrail(mut self, rule: Rule) -> Self {
        self.guardrails.push(rule.guardrail());
        self
    }

    /// Adds an overlay.
    #[must_use]
    pub fn overlay(mut self, overlay: Overlay) -> Self {
        self.overlays.push(overlay);
        self
    }

    /// Goes through all rules: guardrails first, then overlay by overlay.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.guardrails.iter().chain(self.overlays.iter().flat_map(|overlay| &overlay.rules))
    }

    /// Takes a rule out, as when an answer is revoked, and returns it.
    ///
    /// ```
    /// use nervekit_permissions::{Decision, Overlay, PolicyDocument, Rule};
    /// let mut document = PolicyDocument::new().overlay(Overlay::new("supervised").rule(Rule::new("a", Decision::Allow)));
    /// assert!(document.remove("b").is_none());
    /// assert_eq!(document.remove("a").map(|rule| rule.id).as_deref(), Some("a"));
    /// assert!(document.overlays.is_empty());
    /// ```
    pub fn remove(&mut self, id: &str) -> Option<Rule> {
        let groups = std::iter::once(&mut self.guardrails);
        let mut groups = groups.chain(self.overlays.iter_mut().map(|overlay| &mut overlay.rules));
        let removed = groups.find_map(|rules| {
            let at = rules.iter().position(|rule| rule.id == id)?;
            Some(rules.remove(at))
        });
        self.overlays.retain(|overlay| !overlay.rules.is_empty());
        removed
    }

    /// Reads and checks a document. One bad rule makes the whole document refused, never partly applied.
    pub fn parse(scope: DocumentScope, bytes: &[u8]) -> Result<Self, DocumentError> {
        Ok(Self::read(scope, bytes)?.0)
    }

    /// Reads and checks a document, and returns it with its compiled rules, too.
    pub(crate) fn read(scope: DocumentScope, bytes: &[u8]) -> Result<(Self, CheckedDocument), DocumentError> {
        let (document, text) = read::<Self>(bytes)?;
        let checked = document
            .examine(scope)
            .map_err(|fault| locate(fault, text, document.rules(), &document.overlays))?;
        Ok((document, checked))
    }

    /// Checks a document that was built in code, as one of this scope.
    pub fn check(&self, scope: DocumentScope) -> Result<(), DocumentError> {
        self.checked(scope).map(drop)
    }

    /// Checks a document, and returns what the check made of it.
    pub(crate) fn checked(&self, scope: DocumentScope) -> Result<CheckedDocument, DocumentError> {
        Ok(self.examine(scope).map_err(DocumentProblem::from)?)
    }

    fn examine(&self, scope: DocumentScope) -> Result<CheckedDocument, Fault<'_>> {
        check_version(self.schema_version)?;
        check_count(self.rules().count())?;
        let mut ids = BTreeSet::new();
        let mut checked = CheckedDocument::new(check_group(&self.guardrails, &mut ids)?);
        for rule in &self.guardrails {
            if rule.enforcement != Enforcement::Guardrail {
                return Err(Fault::rule(
                    rule,
                    "a rule under `guardrails` has `\"enforcement\": \"guardrail\"`",
                ));
            }
        }
        let mut bound = BTreeSet::new();
        for overlay in &self.overlays {
            check_id(&overlay.rule_set_id, "rule set").map_err(|what| Fault::overlay(overlay, what))?;
            if !bound.insert(&overlay.rule_set_id) {
                let name = crate::display(&overlay.rule_set_id);
                let what = format!("there are two overlays for `{name}`; join them");
                return Err(Fault::overlay(overlay, what));
            }
            checked.add(&overlay.rule_set_id, check_group(&overlay.rules, &mut ids)?);
            // Guardrails of the whole document join those of each overlay in one group.
            for rule in overlay.rules.iter().filter(|rule| rule.enforcement == Enforcement::Guardrail) {
                if self.guardrails.iter().any(|known| known.priority == rule.priority) {
                    return Err(Fault::rule(rule, "a guardrail for all rule sets has the same priority"));
                }
            }
        }
        for rule in self.rules().filter(|rule| rule.enforcement == Enforcement::Guardrail) {
            if scope != DocumentScope::User {
                return Err(Fault::rule(rule, "only the user's document holds guardrails"));
            }
            if rule.decision == Decision::Allow {
                return Err(Fault::rule(rule, "a guardrail prompts or denies, it never allows"));
            }
        }
        Ok(checked)
    }
}

/// Reads the text of a document, and returns it with what it says.
pub(crate) fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<(T, &str), DocumentError> {
    if bytes.len() > MAXIMUM_DOCUMENT {
        let found = bytes.len();
        let what = format!("it is {found} bytes long; at most {MAXIMUM_DOCUMENT} are read");
        return Err(DocumentProblem::new(what).into());
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let (line, column) = position(bytes, error.valid_up_to());
        DocumentProblem::new("it is not UTF-8").at(line, column)
    })?;
    // The first reading refuses what serde would accept silently: a key that appears twice.
    if !crate::arguments::strict_json(text).map_err(DocumentProblem::from)?.is_object() {
        return Err(DocumentProblem::new("it is not an object").at(1, 1).into());
    }
    Ok((serde_json::from_str(text).map_err(DocumentProblem::from)?, text))
}

fn check_version(version: u32) -> Result<(), Fault<'static>> {
    if version == SCHEMA_VERSION {
        return Ok(());
    }
    Err(Fault::whole(format!("schema version {version} is not known; this program reads {SCHEMA_VERSION}")))
}

fn check_count(count: usize) -> Result<(), Fault<'static>> {
    if count <= MAXIMUM_RULES {
        return Ok(());
    }
    Err(Fault::whole(format!("it holds {count} rules; at most {MAXIMUM_RULES} are read")))
}

fn check_id(id: &str, what: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    if !id.is_empty() && id.len() <= 128 && id.chars().all(good) {
        return Ok(());
    }
    let id = crate::display(id);
    Err(format!("`{id}` is not the id of a {what}: letters, digits, `_`, `-`, `.`, `:`"))
}

/// Checks the rules of a group, and returns those that count.
fn check_group<'r>(
    rules: &'r [Rule],
    ids: &mut BTreeSet<&'r str>,
) -> Result<Vec<Arc<CompiledRule>>, Fault<'r>> {
    let mut priorities = BTreeSet::new();
    let mut group = Vec::with_capacity(rules.len());
    for rule in rules {
        check_id(&rule.id, "rule").map_err(|what| Fault::rule(rule, what))?;
        if !ids.insert(&rule.id) {
            return Err(Fault::rule(rule, "another rule of the document has the same id"));
        }
        if !PRIORITIES.contains(&rule.priority) {
            return Err(Fault::rule(rule, "a priority lies between -1000 and 1000"));
        }
        if !priorities.insert((rule.enforcement == Enforcement::Guardrail, rule.priority)) {
            return Err(Fault::rule(rule, "another rule of its group has the same priority"));
        }
        let compiled = compile(rule).map_err(|what| Fault::rule(rule, what))?;
        if rule.enabled {
            group.push(compiled);
        }
    }
    Ok(group)
}
