//! A decision, and what it can say about itself.

use std::fmt;

use super::active::ActiveRule;
use super::{Policy, View, suggestion};
use crate::canonical::{CanonicalTarget, Mark};
use crate::decision::Decision;
use crate::evidence::{Evidence, MarkEvidence, RuleEvidence, RuleSource, Uncovered};
use crate::path::ResolvedCall;
use crate::rule::{Filter, Rule};

/// Why a decision differs from that of the strongest rule, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// It is that of the strongest rule.
    Rule,
    /// A target bears a mark.
    Mark(usize, Mark),
    /// The strongest rule allows, but does not cover every target.
    Uncovered,
    /// A person's own command is confirmed instead of denied.
    Confirmation,
}

/// What a policy decides about a call. It borrows both; the [`evidence`](Self::evidence) does not.
///
/// ```
/// # use nervekit_permissions::*;
/// fn may_run(policy: &Policy, call: &ResolvedCall) -> bool {
///     match policy.decide(call).decision() {
///         Decision::Allow => true,
///         Decision::Prompt | Decision::Deny => false,
///     }
/// }
/// ```
#[derive(Clone, Copy)]
#[must_use = "a verdict that nobody looks at protects nothing"]
pub struct Verdict<'a> {
    pub(super) policy: &'a Policy,
    pub(super) call: &'a ResolvedCall,
    pub(super) winner: Option<usize>,
    pub(super) decision: Decision,
    pub(super) cause: Cause,
}

impl Verdict<'_> {
    /// Returns the decision.
    pub const fn decision(&self) -> Decision {
        self.decision
    }

    fn rule(&self) -> Option<&ActiveRule> {
        self.policy.rules.get(self.winner?)
    }

    /// Returns every rule that matched, the strongest first.
    #[must_use]
    pub fn explain(&self) -> Vec<RuleEvidence> {
        let call = self.call;
        self.policy
            .index
            .candidates(call)
            .filter_map(|index| self.policy.rules.get(index))
            .filter(|rule| rule.matches_call(call) && rule.matches_targets(call, View::All))
            .map(ActiveRule::evidence)
            .collect()
    }

    /// Returns everything that led to the decision.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        let call = self.call;
        let mut evidence = Evidence::new(
            self.decision,
            self.reason(),
            call.risk,
            call.arguments.digest(),
            &*self.policy.rule_set,
            self.policy.digest,
        )
        .tool(&*call.descriptor.name)
        .targets(call.targets.clone());
        evidence.winner = match self.cause {
            Cause::Mark(_, mark) => Some(mark_rule(mark, &self.policy.rule_set)),
            _ => self.rule().map(ActiveRule::evidence),
        };
        for target in 0..call.targets.len() {
            let marks = self.policy.marks(call, target);
            evidence.marks.extend(marks.map(|(mark, satisfied)| MarkEvidence { mark, target, satisfied }));
        }
        if self.cause == Cause::Uncovered {
            evidence.uncovered = self.uncovered();
        }
        evidence.withholding = self.policy.withholding(call);
        if self.decision == Decision::Prompt {
            evidence.suggestions = suggestion::suggest(call);
        }
        evidence
    }

    fn uncovered(&self) -> Vec<Uncovered> {
        let Some(rule) = self.rule() else { return Vec::new() };
        (0..self.call.targets.len())
            .filter(|target| !rule.covers(self.call, *target))
            .map(|target| Uncovered {
                target,
                decision: self.policy.without(self.call, target, self.winner),
                rule: self
                    .policy
                    .first(self.call, View::One(target), self.winner)
                    .and_then(|index| self.policy.rules.get(index))
                    .map(|rule| Box::new(rule.evidence())),
            })
            .collect()
    }

    fn reason(&self) -> String {
        let named = self.rule().map_or_else(
            || "no rule matches".to_owned(),
            |rule| format!("the rule `{}` of {} {}", rule.rule.id, origin(rule), verb(rule.rule.decision)),
        );
        match self.cause {
            Cause::Rule => named,
            Cause::Mark(target, mark) => {
                let target = self.call.targets.get(target).map(CanonicalTarget::display).unwrap_or_default();
                match mark {
                    Mark::ControlFile => {
                        format!("`{target}` steers agents or the repository, so writing it asks")
                    }
                    Mark::ProtectedRead => format!("`{target}` may hold credentials, so reading it asks"),
                }
            }
            Cause::Uncovered => {
                let uncovered = self.uncovered();
                let strictest = uncovered.iter().find(|found| found.decision == self.decision);
                let target = strictest.and_then(|found| self.call.targets.get(found.target));
                let target = target.map(CanonicalTarget::display).unwrap_or_default();
                let without = match strictest.and_then(|found| found.rule.as_deref()) {
                    Some(rule) if self.decision == Decision::Deny => {
                        format!("the rule `{}` denies that", rule.rule.id)
                    }
                    _ => "so it asks".to_owned(),
                };
                format!("{named}, but does not cover `{target}`; {without}")
            }
            Cause::Confirmation => format!("{named}; a person's own command is confirmed instead"),
        }
    }
}

fn verb(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allows",
        Decision::Prompt => "asks",
        Decision::Deny => "denies",
    }
}

fn origin(rule: &ActiveRule) -> String {
    match rule.source {
        RuleSource::Baseline => "the baseline".to_owned(),
        RuleSource::RuleSet => format!("the rule set `{}`", rule.rule_set_id),
        RuleSource::User => "the user".to_owned(),
        RuleSource::Project => "the project".to_owned(),
        RuleSource::Conversation => "the conversation".to_owned(),
        RuleSource::Mark => "the built-in marks".to_owned(),
    }
}

/// A mark, written as the rule that it amounts to.
fn mark_rule(mark: Mark, rule_set: &str) -> RuleEvidence {
    let description = match mark {
        Mark::ControlFile => "Writing what steers agents, repositories or this program asks.",
        Mark::ProtectedRead => "Reading credentials and stores asks.",
    };
    let rule = Rule::new(format!("mark.{mark}"), Decision::Prompt)
        .guardrail()
        .priority(1000)
        .description(description)
        .when(Filter::new());
    RuleEvidence::new(rule, RuleSource::Mark, rule_set, Policy::mark_precedence())
}

impl fmt::Debug for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdict").field("decision", &self.decision).field("cause", &self.cause).finish()
    }
}
