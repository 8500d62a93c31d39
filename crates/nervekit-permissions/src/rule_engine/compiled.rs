//! The policies under which a call is judged.

use std::sync::Arc;

use super::conversation::Conversation;
use super::layers::Layers;
use crate::call::ProposedCall;
use crate::decision::Decision;
use crate::document::{CheckedDocument, CheckedRuleSet, RuleSet};
use crate::evidence::{Evidence, Fallback, IgnoredDocument, RuleEvidence};
use crate::path::ResolvedCall;
use crate::policy::Policy;

/// The policies of all versions of the documents: one in the common case that all are accepted.
pub(super) struct Compiled {
    /// Never empty.
    pub(super) policies: Vec<Arc<Policy>>,
    pub(super) ignored: Vec<IgnoredDocument>,
    /// Why the selected rule set is not the one in force, with the guardrails that then only warn.
    fallback: Option<(String, Vec<Policy>)>,
    /// Whether the last policy stands for rules that cannot be read.
    unknown: bool,
}

impl Compiled {
    pub(super) fn new(
        layers: &Layers,
        id: &str,
        selected: Result<Vec<Arc<CheckedRuleSet>>, String>,
        conversation: Option<&Conversation>,
    ) -> Self {
        let mut ignored = layers.user.notices.clone();
        ignored.extend_from_slice(&layers.project.notices);
        let mut unknown = layers.user.unknown || layers.project.unknown;
        let conversation = match conversation.map(|conversation| &conversation.checked) {
            Some(Ok(document)) => Some(document),
            Some(Err(notice)) => {
                ignored.push(notice.clone());
                unknown = true;
                None
            }
            None => None,
        };
        let (mut policies, fallback) = match selected {
            Ok(sets) => (policies(layers, &sets, conversation), None),
            Err(reason) => {
                (vec![Arc::new(Policy::of(None, [None; 3]))], Some((reason, guardrails(layers, id))))
            }
        };
        if unknown {
            policies.push(Arc::new(Policy::empty()));
        }
        Self { policies, ignored, fallback, unknown }
    }

    /// The policy that stands for all where one is enough.
    pub(super) fn first(&self) -> Option<&Arc<Policy>> {
        self.policies.first()
    }

    /// Every rule in force, the strongest first.
    pub(super) fn rules(&self) -> Vec<RuleEvidence> {
        let mut rules: Vec<RuleEvidence> = Vec::new();
        for policy in &self.policies {
            for rule in policy.rules() {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.precedence));
        rules
    }

    /// Judges a call under every policy; the first of the strictest decisions is the one that is explained. Returns
    /// the policy that gave it, too.
    pub(super) fn evidence(
        &self,
        call: &ProposedCall,
        resolved: &ResolvedCall,
    ) -> (Evidence, Option<&Arc<Policy>>) {
        let verdicts = self.policies.iter().map(|policy| (policy, policy.decide(resolved)));
        let strictest = verdicts.reduce(|strictest, other| {
            let decision = strictest.1.decision();
            if decision.stricter(other.1.decision()) == decision { strictest } else { other }
        });
        let mut evidence = match &strictest {
            Some((_, verdict)) => verdict.evidence(),
            None => super::closed(call, None, "there is no policy".to_owned()),
        };
        for policy in self.policies.iter().skip(1) {
            evidence.withholding.extend(policy.withholding(resolved));
        }
        if self.policies.len() > 1 {
            let mut known = std::collections::BTreeSet::new();
            evidence.withholding.retain(|rule| known.insert(rule.clone()));
        }
        if self.unknown && evidence.decision == Decision::Prompt && evidence.winner.is_none() {
            "the rules that bind cannot be read, so every call asks".clone_into(&mut evidence.reason);
        }
        evidence.selected_rule_set.clone_from(&call.rule_set);
        evidence.ignored_documents.clone_from(&self.ignored);
        if let Some((reason, guardrails)) = &self.fallback {
            let mut would_deny: Vec<String> = Vec::new();
            for rule in guardrails.iter().flat_map(|policy| policy.denying_guardrails(resolved)) {
                if !would_deny.contains(&rule) {
                    would_deny.push(rule);
                }
            }
            evidence.reason = format!("{reason}, so the baseline decides alone: {}", evidence.reason);
            if !would_deny.is_empty() {
                let named: Vec<String> = would_deny.iter().map(|rule| format!("`{rule}`")).collect();
                evidence.reason = format!(
                    "{}; guardrails of the user would have denied it: {}",
                    evidence.reason,
                    named.join(", ")
                );
            }
            evidence.suggestions = Vec::new();
            evidence.fallback = Some(Fallback { reason: reason.clone(), would_deny });
        }
        (evidence, strictest.map(|(policy, _)| policy))
    }
}

/// Makes the policy of every combination of versions, each policy once.
fn policies(
    layers: &Layers,
    sets: &[Arc<CheckedRuleSet>],
    conversation: Option<&CheckedDocument>,
) -> Vec<Arc<Policy>> {
    let mut policies: Vec<Arc<Policy>> = Vec::new();
    for set in sets {
        for user in &layers.user.versions {
            for project in &layers.project.versions {
                let policy =
                    Policy::of(Some(set.as_ref()), [user.as_deref(), project.as_deref(), conversation]);
                if !policies.iter().any(|known| known.digest() == policy.digest()) {
                    policies.push(Arc::new(policy));
                }
            }
        }
    }
    policies
}

/// The guardrails of the user that would bind under a rule set, were it there: those for all and its own.
fn guardrails(layers: &Layers, id: &str) -> Vec<Policy> {
    // What is no id of a rule set has no guardrails of its own.
    let absent = RuleSet::new(id).checked().ok();
    let users = layers.user.versions.iter().flatten();
    users.map(|user| Policy::of(absent.as_ref(), [Some(user.as_ref()), None, None])).collect()
}
