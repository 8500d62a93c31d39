//! A rule in force.

use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;

use super::compiled::CompiledRule;
use crate::evidence::{Precedence, RuleEvidence, RuleSource};
use crate::path::ResolvedCall;

/// A compiled rule, which all policies share, with its place in one of them. Written out it is what the
/// [`RuleEvidence`] of it is.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ActiveRule {
    #[serde(rename = "rule")]
    compiled: Arc<CompiledRule>,
    pub(super) source: RuleSource,
    pub(super) rule_set_id: Arc<str>,
    pub(super) precedence: Precedence,
}

impl ActiveRule {
    pub(super) fn new(compiled: Arc<CompiledRule>, source: RuleSource, rule_set_id: Arc<str>) -> Self {
        let rule = &compiled.rule;
        let precedence = Precedence::new(rule.enforcement, rule.decision, source, rule.priority);
        Self { compiled, source, rule_set_id, precedence }
    }

    pub(super) fn evidence(&self) -> RuleEvidence {
        RuleEvidence::new(self.rule.clone(), self.source, &*self.rule_set_id, self.precedence)
    }

    /// Whether a winning allow covers this target.
    pub(super) fn covers(&self, call: &ResolvedCall, index: usize) -> bool {
        self.compiled.covers(self.source, call, index)
    }

    /// Whether it names exactly this target, as a grant of a person does.
    pub(super) fn grants_exactly(&self, call: &ResolvedCall, index: usize) -> bool {
        let by_person = matches!(self.source, RuleSource::User | RuleSource::Conversation);
        by_person && self.compiled.grants_exactly(call, index)
    }
}

/// Whatever does not depend on the place is asked of the compiled rule.
impl Deref for ActiveRule {
    type Target = CompiledRule;

    fn deref(&self) -> &CompiledRule {
        &self.compiled
    }
}
