//! Remembering an answer.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::document::{DocumentScope, Overlay, PolicyDocument};
use crate::error::GrantError;
use crate::evidence::Evidence;
use crate::rule::{Enforcement, Operator, Rule};

/// For how long an answer counts.
///
/// ```
/// use nervekit_permissions::{DocumentScope, GrantScope};
/// assert_eq!(GrantScope::Project.document(), Some(DocumentScope::Project));
/// assert_eq!(GrantScope::Once.document(), None);
/// assert_eq!(GrantScope::User.to_string(), "user");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GrantScope {
    /// For this call.
    Once,
    /// For the conversation.
    Conversation,
    /// For the project.
    Project,
    /// For the user, in every project.
    User,
}

impl GrantScope {
    /// Returns the document into which it is written.
    #[must_use]
    pub const fn document(self) -> Option<DocumentScope> {
        match self {
            Self::Once => None,
            Self::Conversation => Some(DocumentScope::Conversation),
            Self::Project => Some(DocumentScope::Project),
            Self::User => Some(DocumentScope::User),
        }
    }
}

impl fmt::Display for GrantScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Once => "once",
            Self::Conversation => "conversation",
            Self::Project => "project",
            Self::User => "user",
        })
    }
}

/// How narrow a suggestion is.
///
/// ```
/// use nervekit_permissions::SuggestionKind;
/// assert_eq!(serde_json::to_string(&SuggestionKind::CommandPrefix)?, "\"command_prefix\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SuggestionKind {
    /// This file or URL.
    Exact,
    /// The folder and everything below, or the origin of the URL.
    Subtree,
    /// Commands that begin with these words.
    CommandPrefix,
    /// This call with the same arguments.
    WholeCall,
}

/// A rule that a person may keep, shown before it is saved.
///
/// ```
/// use nervekit_permissions::{Decision, GrantScope, Rule, SuggestedRule, SuggestionKind};
/// let suggestion = SuggestedRule::new(SuggestionKind::Exact, "read `src/a`", Rule::new("grant", Decision::Allow))
///     .scopes([GrantScope::Conversation]);
/// assert_eq!(suggestion.scopes, [GrantScope::Conversation]);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SuggestedRule {
    /// How narrow it is.
    pub kind: SuggestionKind,
    /// What it is about, safe to show.
    pub label: String,
    /// The rule; its decision is the one that the person gives.
    pub rule: Rule,
    /// Where it may be kept.
    pub scopes: Vec<GrantScope>,
}

impl SuggestedRule {
    /// Suggests a rule that may be kept nowhere yet.
    #[must_use]
    pub fn new(kind: SuggestionKind, label: impl Into<String>, rule: Rule) -> Self {
        Self { kind, label: label.into(), rule, scopes: Vec::new() }
    }

    /// Sets where it may be kept.
    #[must_use]
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = GrantScope>) -> Self {
        self.scopes = scopes.into_iter().collect();
        self
    }

    /// Whether it holds the digest of a value that looks like a secret or is long.
    pub(crate) fn holds_digest(&self) -> bool {
        self.rule.when.arguments.iter().any(|argument| argument.operator == Operator::Digest)
    }
}

/// An answer that a person wants remembered.
///
/// ```
/// use nervekit_permissions::{Decision, Evidence, Grant, GrantScope, Risk, Rule, SuggestedRule, SuggestionKind};
/// use nervekit_types::Digest;
/// let suggestion = SuggestedRule::new(SuggestionKind::Exact, "read `a`", Rule::new("grant", Decision::Allow));
/// let evidence = Evidence::new(Decision::Prompt, "asks", Risk::Read, Digest::of("{}"), "supervised", Digest::of(""))
///     .suggestions(vec![suggestion.clone()]);
/// let grant = Grant::new(evidence, suggestion, Decision::Allow, GrantScope::Conversation);
/// assert!(!grant.guardrail);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Grant {
    /// The evidence of the prompt: it names the rule set that was in force then.
    pub evidence: Arc<Evidence>,
    /// The suggestion that was chosen.
    pub suggestion: SuggestedRule,
    /// `Allow` or `Deny`; `Prompt` for a guardrail that asks every time.
    pub decision: Decision,
    /// For how long it counts.
    pub scope: GrantScope,
    /// Whether no other layer may override it. Only at the user's scope.
    pub guardrail: bool,
    /// The document as it is now, when there is one.
    pub document: Option<PolicyDocument>,
}

impl Grant {
    /// Asks to remember an answer, in a document that does not exist yet.
    #[must_use]
    pub fn new(
        evidence: impl Into<Arc<Evidence>>,
        suggestion: SuggestedRule,
        decision: Decision,
        scope: GrantScope,
    ) -> Self {
        Self { evidence: evidence.into(), suggestion, decision, scope, guardrail: false, document: None }
    }

    /// Makes it a guardrail of the user: "never", or "always ask".
    #[must_use]
    pub fn guardrail(mut self) -> Self {
        self.guardrail = true;
        self
    }

    /// Sets the document as it is now.
    #[must_use]
    pub fn document(mut self, document: PolicyDocument) -> Self {
        self.document = Some(document);
        self
    }
}

/// What has to be written so that an answer is remembered.
///
/// ```
/// use nervekit_permissions::{DocumentChange, DocumentScope, PolicyDocument};
/// let change = DocumentChange::replace(DocumentScope::Conversation, PolicyDocument::new(), "grant-1");
/// assert!(matches!(change, DocumentChange::Replace { .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DocumentChange {
    /// Nothing: the answer counts once.
    Nothing,
    /// A document in place of the one that the grant was planned against.
    Replace {
        /// To whom it belongs.
        scope: DocumentScope,
        /// The whole document.
        document: Box<PolicyDocument>,
        /// The id of the rule that holds the answer.
        rule: String,
    },
}

impl DocumentChange {
    /// Returns the name of the case, for logs and interfaces.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Replace { .. } => "replace",
        }
    }

    /// Describes a replacement.
    #[must_use]
    pub fn replace(scope: DocumentScope, document: PolicyDocument, rule: impl Into<String>) -> Self {
        Self::Replace { scope, document: Box::new(document), rule: rule.into() }
    }
}

/// The greatest and the smallest priority.
const PRIORITIES: (i16, i16) = (1000, -1000);

/// Says what to write so that an answer is remembered.
pub(crate) fn plan(grant: Grant) -> Result<DocumentChange, GrantError> {
    let Grant { evidence, suggestion, decision, scope, guardrail, document } = grant;
    if guardrail && (scope != GrantScope::User || decision == Decision::Allow) {
        return Err(GrantError::GuardrailNotPossible);
    }
    let Some(target) = scope.document() else { return Ok(DocumentChange::Nothing) };
    if !evidence.rememberable() {
        return Err(GrantError::NotRememberable);
    }
    let suggested = evidence.suggestions.iter().find(|known| known.rule.when == suggestion.rule.when);
    let Some(suggested) = suggested else {
        return Err(GrantError::NotSuggested(crate::display(&suggestion.rule.id)));
    };
    if !guardrail && decision == Decision::Prompt {
        return Err(GrantError::NotAGrant);
    }
    if !suggested.scopes.contains(&scope) {
        return Err(match target {
            DocumentScope::Project if suggested.holds_digest() => GrantError::SecretInProject,
            DocumentScope::Project => GrantError::BeyondProject,
            _ => GrantError::CommandAtUserScope,
        });
    }
    let mut document = document.unwrap_or_default();
    document.check(target)?;
    let enforcement = if guardrail { Enforcement::Guardrail } else { Enforcement::Overridable };
    let mut rule = suggested.rule.clone();
    rule.decision = decision;
    rule.enforcement = enforcement;
    let id = write(&mut document, &evidence.active_rule_set, rule);
    document.check(target)?;
    Ok(DocumentChange::replace(target, document, id))
}

/// Writes a rule into the group of its rule set and returns the id that holds the answer now.
fn write(document: &mut PolicyDocument, rule_set: &str, mut rule: Rule) -> String {
    let ids: Vec<String> = document.rules().map(|rule| rule.id.clone()).collect();
    let taken: Vec<i16> = match rule.enforcement {
        Enforcement::Guardrail => document.guardrails.iter().map(|rule| rule.priority).collect(),
        Enforcement::Overridable => Vec::new(),
    };
    let at = document.overlays.iter().position(|overlay| overlay.rule_set_id == rule_set);
    let at = at.unwrap_or_else(|| {
        document.overlays.push(Overlay::new(rule_set));
        document.overlays.len() - 1
    });
    let Some(overlay) = document.overlays.get_mut(at) else { return rule.id };
    let same =
        overlay.rules.iter_mut().find(|old| old.when == rule.when && old.enforcement == rule.enforcement);
    if let Some(old) = same {
        old.decision = rule.decision;
        old.enabled = true;
        return old.id.clone();
    }
    let wanted = rule.id.clone();
    let mut number = 2;
    while ids.contains(&rule.id) {
        rule.id = format!("{wanted}-{number}");
        number += 1;
    }
    rule.priority = next_priority(&mut overlay.rules, rule.enforcement, &taken);
    let id = rule.id.clone();
    overlay.rules.push(rule);
    id
}

/// The next greater priority of a group; where there is none the group is numbered anew, in its order.
/// `taken`: those of the guardrails for all rule sets, which join the group.
fn next_priority(rules: &mut [Rule], enforcement: Enforcement, taken: &[i16]) -> i16 {
    let (greatest, smallest) = PRIORITIES;
    let mut group: Vec<&mut Rule> = rules.iter_mut().filter(|rule| rule.enforcement == enforcement).collect();
    match group.iter().map(|rule| rule.priority).chain(taken.iter().copied()).max() {
        None => 0,
        Some(most) if most < greatest => most + 1,
        Some(_) => {
            group.sort_by_key(|rule| rule.priority);
            // A document holds at most 256 rules, so they fit below zero.
            let mut free = (smallest / 2..greatest).filter(|priority| !taken.contains(priority));
            for rule in group {
                rule.priority = free.next().unwrap_or(greatest);
            }
            free.next().unwrap_or(greatest)
        }
    }
}
