//! The evaluator: pure, total, compiled once.

mod active;
mod compiled;
mod entry;
mod example;
mod index;
mod matcher;
mod stored;
mod suggestion;
mod verdict;

use std::fmt;
use std::sync::Arc;

use nervekit_types::Digest;

pub use entry::EntryFilter;
pub use verdict::Verdict;

use crate::canonical::{CanonicalSubject, CanonicalTarget, Mark};
use crate::decision::{CallOrigin, Decision};
use crate::document::{CheckedDocument, CheckedRuleSet, DocumentScope, PolicyDocument, RuleSet};
use crate::error::DocumentError;
use crate::evidence::{Precedence, RuleEvidence, RuleSource};
use crate::path::ResolvedCall;
use crate::rule::{Enforcement, Rule};
use crate::target::Access;
use active::ActiveRule;
pub(crate) use compiled::CompiledRule;
use compiled::is_search;
use index::Index;
use verdict::Cause;

/// The id under which the rules stand that are always there.
const BASELINE: &str = "baseline";

/// How a condition is read: an allow needs certainty, what restricts needs a possibility.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Allow,
    Restrict,
}

impl Reading {
    const fn of(decision: Decision) -> Self {
        match decision {
            Decision::Allow => Self::Allow,
            Decision::Prompt | Decision::Deny => Self::Restrict,
        }
    }
}

/// Which targets of a call are looked at.
#[derive(Clone, Copy, Debug)]
enum View {
    All,
    One(usize),
}

impl View {
    fn targets(self, call: &ResolvedCall) -> &[CanonicalTarget] {
        match self {
            Self::All => &call.targets,
            Self::One(index) => call.targets.get(index..=index).unwrap_or_default(),
        }
    }

    fn primary(self, call: &ResolvedCall) -> Option<&CanonicalTarget> {
        match self {
            Self::All | Self::One(0) => call.targets.first(),
            Self::One(_) => None,
        }
    }
}

/// Whether a tool that writes this target also shows what was there.
fn reads_back(call: &ResolvedCall, target: &CanonicalTarget) -> bool {
    call.descriptor.kind == crate::ToolKind::Filesystem && target.access() == Some(Access::Write)
}

/// Whether a deny is confirmed instead: a person's own command, which only a rule set forbids.
fn becomes_a_question(rule: &ActiveRule, call: &ResolvedCall) -> bool {
    rule.source == RuleSource::RuleSet && call.origin == CallOrigin::User
}

/// Compiles a rule and tries its examples.
pub(crate) fn compile(rule: &Rule) -> Result<Arc<CompiledRule>, String> {
    let compiled = Arc::new(CompiledRule::compile(rule)?);
    example::check(&compiled)?;
    Ok(compiled)
}

/// Puts a policy together: a rule set, and the documents bound to it.
///
/// ```
/// use nervekit_permissions::{builtin_rule_sets, Decision, Overlay, PolicyBuilder, PolicyDocument, Rule};
/// let supervised = builtin_rule_sets().iter().find(|set| set.id == "supervised").unwrap();
/// let document = PolicyDocument::new()
///     .overlay(Overlay::new("supervised").rule(Rule::new("a", Decision::Deny)))
///     .overlay(Overlay::new("autonomous").rule(Rule::new("b", Decision::Deny)));
/// let policy = PolicyBuilder::new(supervised).user(&document).build()?;
/// // Rules that are bound to another rule set are not part of it.
/// assert!(policy.rules().iter().any(|rule| rule.rule.id == "a"));
/// assert!(policy.rules().iter().all(|rule| rule.rule.id != "b"));
/// # Ok::<(), nervekit_permissions::DocumentError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PolicyBuilder<'d> {
    rule_set: Option<&'d RuleSet>,
    documents: [Option<&'d PolicyDocument>; 3],
}

impl<'d> PolicyBuilder<'d> {
    /// Starts with a rule set above the baseline.
    #[must_use]
    pub const fn new(rule_set: &'d RuleSet) -> Self {
        Self { rule_set: Some(rule_set), documents: [None; 3] }
    }

    /// Starts with the baseline alone: for when the selected rule set cannot be used.
    #[must_use]
    pub const fn baseline() -> Self {
        Self { rule_set: None, documents: [None; 3] }
    }

    /// Adds the user's document.
    #[must_use]
    pub const fn user(mut self, document: &'d PolicyDocument) -> Self {
        self.documents[0] = Some(document);
        self
    }

    /// Adds the project's document, which somebody trusted.
    #[must_use]
    pub const fn project(mut self, document: &'d PolicyDocument) -> Self {
        self.documents[1] = Some(document);
        self
    }

    /// Adds the conversation's document.
    #[must_use]
    pub const fn conversation(mut self, document: &'d PolicyDocument) -> Self {
        self.documents[2] = Some(document);
        self
    }

    /// Checks and compiles. One bad rule refuses the whole.
    pub fn build(self) -> Result<Policy, DocumentError> {
        let checked = |document: Option<&PolicyDocument>, scope| {
            document.map(|document| document.checked(scope)).transpose()
        };
        let rule_set = self.rule_set.map(RuleSet::checked).transpose()?;
        let [user, project, conversation] = self.documents;
        let user = checked(user, DocumentScope::User)?;
        let project = checked(project, DocumentScope::Project)?;
        let conversation = checked(conversation, DocumentScope::Conversation)?;
        let documents = [user.as_ref(), project.as_ref(), conversation.as_ref()];
        Ok(Policy::of(rule_set.as_ref(), documents))
    }
}

/// The rules in force under one rule set, compiled.
///
/// ```
/// use nervekit_permissions::*;
/// let folder = tempfile::tempdir()?;
/// let supervised = builtin_rule_sets().iter().find(|set| set.id == "supervised").unwrap();
/// let policy = PolicyBuilder::new(supervised).build()?;
/// let read = ToolDescriptor::new("read", ToolKind::Filesystem, Risk::Read).target(TargetSelector::path("path"));
/// let call = ProposedCall::new(read, EffectiveArguments::parse(r#"{"path": "a"}"#)?, CallOrigin::Model, "supervised")
///     .working_directory(folder.path());
/// let resolved = TargetResolver::new(Roots::new().project(folder.path())).resolve(&call)?;
/// let verdict = policy.decide(&resolved);
/// assert_eq!(verdict.decision(), Decision::Allow);
/// assert_eq!(verdict.evidence().winner.unwrap().rule.id, "supervised.read");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Policy {
    rule_set: String,
    /// The strongest first.
    rules: Vec<ActiveRule>,
    index: Index,
    digest: Digest,
}

impl Policy {
    /// Puts what was checked in force: a rule set, or the baseline alone, and the documents of the user, the
    /// project and the conversation.
    pub(crate) fn of(rule_set: Option<&CheckedRuleSet>, documents: [Option<&CheckedDocument>; 3]) -> Self {
        let mut rules = Vec::new();
        let mut add = |group: &[Arc<CompiledRule>], source, id: &Arc<str>| {
            let active = |rule: &Arc<CompiledRule>| ActiveRule::new(Arc::clone(rule), source, Arc::clone(id));
            rules.extend(group.iter().map(active));
        };
        let baseline = crate::builtin::checked(BASELINE);
        if let Some(set) = baseline {
            add(&set.rules, RuleSource::Baseline, &set.id);
        }
        if let Some(set) = rule_set {
            add(&set.rules, RuleSource::RuleSet, &set.id);
        }
        let id = rule_set.map_or_else(|| BASELINE.into(), |set| Arc::clone(&set.id));
        let sources = [RuleSource::User, RuleSource::Project, RuleSource::Conversation];
        for (document, source) in documents.into_iter().zip(sources) {
            let Some(document) = document else { continue };
            add(&document.guardrails, source, &id);
            if rule_set.is_some() {
                add(document.overlay(&id), source, &id);
            }
        }
        Self::new(&id, rules)
    }

    fn new(rule_set: &str, mut rules: Vec<ActiveRule>) -> Self {
        // Precedences are unique but where two versions of one document are put together: what restricts counts.
        let mildness = |rule: &ActiveRule| match rule.rule.decision {
            Decision::Deny => 0,
            Decision::Prompt => 1,
            Decision::Allow => 2,
        };
        rules.sort_by(|a, b| {
            let stronger = b.precedence.cmp(&a.precedence).then_with(|| mildness(a).cmp(&mildness(b)));
            stronger.then_with(|| a.rule.id.cmp(&b.rule.id))
        });
        Self {
            rule_set: rule_set.to_owned(),
            index: Index::new(&rules),
            digest: Digest::of(stored::written(rule_set, &rules)),
            rules,
        }
    }

    /// No rule at all: every call asks.
    pub(crate) fn empty() -> Self {
        Self::new(BASELINE, Vec::new())
    }

    /// Returns the id of the rule set, `baseline` when there is none.
    #[must_use]
    pub fn rule_set(&self) -> &str {
        &self.rule_set
    }

    /// Returns the SHA-256 of the [bytes](Self::to_bytes): the one that evidence names.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Lists the rules in force, the strongest first.
    #[must_use]
    pub fn rules(&self) -> Vec<RuleEvidence> {
        self.rules.iter().map(ActiveRule::evidence).collect()
    }

    /// Judges a call. Pure and total; it allocates nothing.
    pub fn decide<'a>(&'a self, call: &'a ResolvedCall) -> Verdict<'a> {
        let winner = self.first(call, View::All, None);
        let rule = winner.and_then(|index| self.rules.get(index));
        let decision = rule.map_or(Decision::Prompt, |rule| rule.rule.decision);
        let verdict = |decision, cause| Verdict { policy: self, call, winner, decision, cause };
        if decision == Decision::Deny {
            return match rule {
                Some(rule) if becomes_a_question(rule, call) => {
                    verdict(Decision::Prompt, Cause::Confirmation)
                }
                _ => verdict(Decision::Deny, Cause::Rule),
            };
        }
        let allowing = rule.filter(|_| decision == Decision::Allow);
        let uncovered = allowing.and_then(|rule| {
            let uncovered = (0..call.targets.len()).filter(|index| !rule.covers(call, *index));
            uncovered.map(|index| self.without(call, index, winner)).reduce(Decision::stricter)
        });
        if uncovered == Some(Decision::Deny) {
            return verdict(Decision::Deny, Cause::Uncovered);
        }
        // A mark asks where a rule would allow. It never turns a deny into a question.
        let marked = (0..call.targets.len()).find_map(|index| {
            self.marks(call, index).find(|(_, satisfied)| !satisfied).map(|(mark, _)| (index, mark))
        });
        if let Some((index, mark)) = marked {
            return verdict(Decision::Prompt, Cause::Mark(index, mark));
        }
        match (allowing, uncovered) {
            (None, _) => verdict(Decision::Prompt, Cause::Rule),
            (Some(_), Some(decision)) => verdict(decision, Cause::Uncovered),
            (Some(_), None) => verdict(Decision::Allow, Cause::Rule),
        }
    }

    /// The strongest rule that matches, but this one.
    fn first(&self, call: &ResolvedCall, view: View, but: Option<usize>) -> Option<usize> {
        self.index.candidates(call).find(|index| {
            Some(*index) != but
                && self
                    .rules
                    .get(*index)
                    .is_some_and(|rule| rule.matches_call(call) && rule.matches_targets(call, view))
        })
    }

    /// What becomes of one target without the winner: `Deny`, otherwise `Prompt`.
    fn without(&self, call: &ResolvedCall, target: usize, winner: Option<usize>) -> Decision {
        let rule = self.first(call, View::One(target), winner).and_then(|index| self.rules.get(index));
        match rule {
            Some(rule) if rule.rule.decision == Decision::Deny && !becomes_a_question(rule, call) => {
                Decision::Deny
            }
            _ => Decision::Prompt,
        }
    }

    /// The marks of a target, and whether a person granted exactly it.
    fn marks<'a>(
        &'a self,
        call: &'a ResolvedCall,
        index: usize,
    ) -> impl Iterator<Item = (Mark, bool)> + use<'a> {
        let marks = match call.targets.get(index).map(CanonicalTarget::subject) {
            Some(CanonicalSubject::Path(path)) => path.marks.as_slice(),
            _ => &[],
        };
        // A search skips what is protected, entry by entry; only a target that itself is protected asks.
        marks.iter().map(move |mark| {
            let granted = self.index.candidates(call).filter_map(|at| self.rules.get(at)).any(|rule| {
                rule.grants_exactly(call, index)
                    && rule.matches_call(call)
                    && rule.matches_targets(call, View::One(index))
            });
            (*mark, granted)
        })
    }

    /// The rules that withhold entries of a searched tree, by id.
    pub(crate) fn withholding(&self, call: &ResolvedCall) -> Vec<String> {
        if !call.targets.iter().any(is_search) {
            return Vec::new();
        }
        let withholding =
            self.index.candidates(call).filter_map(|index| self.rules.get(index)).filter(|rule| {
                rule.matches_call(call) && (0..call.targets.len()).any(|target| rule.withholds(call, target))
            });
        withholding.map(|rule| rule.rule.id.clone()).collect()
    }

    /// The guardrails that would deny a call, by id.
    pub(crate) fn denying_guardrails(&self, call: &ResolvedCall) -> Vec<String> {
        self.index
            .candidates(call)
            .filter_map(|index| self.rules.get(index))
            .filter(|rule| {
                rule.rule.enforcement == Enforcement::Guardrail
                    && rule.rule.decision == Decision::Deny
                    && rule.matches_call(call)
                    && rule.matches_targets(call, View::All)
            })
            .map(|rule| rule.rule.id.clone())
            .collect()
    }

    /// The strength of the marks, for evidence.
    pub(crate) const fn mark_precedence() -> Precedence {
        Precedence::new(Enforcement::Guardrail, Decision::Prompt, RuleSource::Mark, 1000)
    }
}

impl fmt::Debug for Policy {
    /// Shows what it is, not its thousand rules.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("rule_set", &self.rule_set)
            .field("rules", &self.rules.len())
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}
