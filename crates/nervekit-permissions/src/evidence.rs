//! Why a call was decided as it was.

use nervekit_types::Digest;
use serde::{Deserialize, Serialize};

use crate::canonical::{CanonicalTarget, Mark};
use crate::decision::Decision;
use crate::descriptor::Risk;
use crate::document::DocumentScope;
use crate::grant::SuggestedRule;
use crate::rule::{Enforcement, Rule};

/// Where a rule comes from.
///
/// ```
/// use nervekit_permissions::RuleSource;
/// assert_eq!(RuleSource::Conversation.scope(), 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RuleSource {
    /// The rules that are always there.
    Baseline,
    /// The selected rule set.
    RuleSet,
    /// The user's document.
    User,
    /// The project's document.
    Project,
    /// The conversation's document.
    Conversation,
    /// A built-in mark, which counts as a guardrail of the user.
    Mark,
}

impl RuleSource {
    /// Returns how specific it is: the second part of a rule's precedence.
    #[must_use]
    pub const fn scope(self) -> u8 {
        match self {
            Self::Baseline => 0,
            Self::RuleSet => 1,
            Self::User | Self::Mark => 2,
            Self::Project => 3,
            Self::Conversation => 4,
        }
    }
}

/// What decides between matching rules: the greatest wins. Parts are compared in the order of the fields.
///
/// ```
/// use nervekit_permissions::{Decision, Enforcement, Precedence, RuleSource};
/// let guardrail = Precedence::new(Enforcement::Guardrail, Decision::Deny, RuleSource::User, -1000);
/// let allow = Precedence::new(Enforcement::Overridable, Decision::Allow, RuleSource::Conversation, 1000);
/// assert!(guardrail > allow);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Precedence {
    /// 0 for an overridable rule, 1 for a guardrail that prompts, 2 for one that denies.
    pub enforcement: u8,
    /// How specific the source is; see [`RuleSource::scope`].
    pub scope: u8,
    /// The rule's priority.
    pub priority: i16,
}

impl Precedence {
    /// Computes the precedence of a rule.
    #[must_use]
    pub const fn new(
        enforcement: Enforcement,
        decision: Decision,
        source: RuleSource,
        priority: i16,
    ) -> Self {
        let enforcement = match (enforcement, decision) {
            (Enforcement::Overridable, _) => 0,
            (Enforcement::Guardrail, Decision::Deny) => 2,
            (Enforcement::Guardrail, _) => 1,
        };
        Self { enforcement, scope: source.scope(), priority }
    }
}

/// A rule that matched, whole, with its origin.
///
/// ```
/// use nervekit_permissions::{Decision, Enforcement, Precedence, Rule, RuleEvidence, RuleSource};
/// let rule = Rule::new("a", Decision::Deny);
/// let precedence = Precedence::new(Enforcement::Overridable, Decision::Deny, RuleSource::User, 0);
/// let evidence = RuleEvidence::new(rule, RuleSource::User, "supervised", precedence);
/// assert_eq!(evidence.rule.id, "a");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RuleEvidence {
    /// The rule.
    pub rule: Rule,
    /// Where it comes from.
    pub source: RuleSource,
    /// The rule set that it belongs or is bound to.
    pub rule_set_id: String,
    /// What it weighs.
    pub precedence: Precedence,
}

impl RuleEvidence {
    /// Puts a record together.
    #[must_use]
    pub fn new(
        rule: Rule,
        source: RuleSource,
        rule_set_id: impl Into<String>,
        precedence: Precedence,
    ) -> Self {
        Self { rule, source, rule_set_id: rule_set_id.into(), precedence }
    }
}

/// A document that did not count, and why.
///
/// ```
/// use nervekit_permissions::{DocumentScope, IgnoredDocument};
/// let ignored = IgnoredDocument::new(DocumentScope::Project, "permissions", "its digest is not trusted");
/// assert_eq!(ignored.scope, DocumentScope::Project);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IgnoredDocument {
    /// To whom it belongs.
    pub scope: DocumentScope,
    /// Its name or file.
    pub name: String,
    /// What is wrong, in words: file, position and problem.
    pub reason: String,
}

impl IgnoredDocument {
    /// Puts a record together.
    #[must_use]
    pub fn new(scope: DocumentScope, name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { scope, name: name.into(), reason: reason.into() }
    }
}

/// A mark on one of the targets.
///
/// ```
/// use nervekit_permissions::{Mark, MarkEvidence};
/// let mark: MarkEvidence = serde_json::from_str(r#"{"mark": "control_file", "target": 0, "satisfied": false}"#)?;
/// assert_eq!(mark.mark, Mark::ControlFile);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MarkEvidence {
    /// The mark.
    pub mark: Mark,
    /// The target that bears it, as an index into [`Evidence::targets`].
    pub target: usize,
    /// Whether a person granted exactly this target before.
    pub satisfied: bool,
}

/// A target that the winning rule does not cover, and how it was decided without that rule.
///
/// ```
/// use nervekit_permissions::{Decision, Uncovered};
/// let uncovered: Uncovered = serde_json::from_str(r#"{"target": 1, "decision": "deny", "rule": null}"#)?;
/// assert_eq!(uncovered.decision, Decision::Deny);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Uncovered {
    /// The target, as an index into [`Evidence::targets`].
    pub target: usize,
    /// `Deny`, otherwise `Prompt`.
    pub decision: Decision,
    /// The rule that decides it without the winner.
    pub rule: Option<Box<RuleEvidence>>,
}

/// That the selected rule set could not be used, and the baseline decided alone. Such a prompt is for a person: a
/// program that approves in their stead treats it as a deny.
///
/// ```
/// use nervekit_permissions::Fallback;
/// let fallback: Fallback = serde_json::from_str(r#"{"reason": "no rule set has that id", "would_deny": []}"#)?;
/// assert!(fallback.would_deny.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fallback {
    /// Why, in words.
    pub reason: String,
    /// The guardrails of the user that would have denied the call, by id.
    pub would_deny: Vec<String>,
}

/// Everything that led to a decision. It is stored with the call and explains it when the documents are gone.
///
/// The same call under the same policy gives the same evidence, byte for byte.
///
/// ```
/// use nervekit_permissions::{Decision, Evidence, Risk};
/// use nervekit_types::Digest;
/// let evidence = Evidence::new(Decision::Deny, "no approver", Risk::Unknown, Digest::of("{}"), "supervised", Digest::of(""));
/// let stored = serde_json::to_string(&evidence)?;
/// assert_eq!(serde_json::from_str::<Evidence>(&stored)?, evidence);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evidence {
    /// The decision.
    pub decision: Decision,
    /// The reason in words, safe to show.
    pub reason: String,
    /// The name of the tool.
    pub tool: String,
    /// The risk of the call.
    pub base_risk: Risk,
    /// The SHA-256 of the effective arguments.
    pub arguments: Digest,
    /// What the call affects.
    pub targets: Vec<CanonicalTarget>,
    /// The rule that decided; `None` when no rule was asked, because the call could not be judged.
    pub winner: Option<RuleEvidence>,
    /// The rule set that was in force.
    pub active_rule_set: String,
    /// The rule set that the conversation had selected.
    pub selected_rule_set: String,
    /// Set when both differ.
    pub fallback: Option<Fallback>,
    /// Documents that did not count.
    pub ignored_documents: Vec<IgnoredDocument>,
    /// The marks that the targets bear.
    pub marks: Vec<MarkEvidence>,
    /// The targets that the winning rule does not cover.
    pub uncovered: Vec<Uncovered>,
    /// Rules that withhold entries of a searched tree, by id.
    pub withholding: Vec<String>,
    /// The SHA-256 of the policy that was in force.
    pub policy: Digest,
    /// What a person may remember, shown before it is saved.
    pub suggestions: Vec<SuggestedRule>,
    /// The evidence of the coding rule set, while planning is not confirmed and that set is the stricter one.
    pub until_confirmed: Option<Box<Evidence>>,
}

impl Evidence {
    /// Starts a record with what is always known.
    #[must_use]
    pub fn new(
        decision: Decision,
        reason: impl Into<String>,
        base_risk: Risk,
        arguments: Digest,
        rule_set: impl Into<String>,
        policy: Digest,
    ) -> Self {
        let rule_set = rule_set.into();
        Self {
            decision,
            reason: reason.into(),
            tool: String::new(),
            base_risk,
            arguments,
            targets: Vec::new(),
            winner: None,
            active_rule_set: rule_set.clone(),
            selected_rule_set: rule_set,
            fallback: None,
            ignored_documents: Vec::new(),
            marks: Vec::new(),
            uncovered: Vec::new(),
            withholding: Vec::new(),
            policy,
            suggestions: Vec::new(),
            until_confirmed: None,
        }
    }

    /// Sets the name of the tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<String>) -> Self {
        self.tool = tool.into();
        self
    }

    /// Sets what the call affects.
    #[must_use]
    pub fn targets(mut self, targets: Vec<CanonicalTarget>) -> Self {
        self.targets = targets;
        self
    }

    /// Sets the rule that decided.
    #[must_use]
    pub fn winner(mut self, winner: RuleEvidence) -> Self {
        self.winner = Some(winner);
        self
    }

    /// Sets what a person may remember.
    #[must_use]
    pub fn suggestions(mut self, suggestions: Vec<SuggestedRule>) -> Self {
        self.suggestions = suggestions;
        self
    }

    /// Returns whether an answer to the prompt may be remembered.
    #[must_use]
    pub fn rememberable(&self) -> bool {
        self.fallback.is_none() && self.until_confirmed.is_none()
    }
}
