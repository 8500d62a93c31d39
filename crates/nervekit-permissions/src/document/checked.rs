//! What a check makes of documents: rules that are compiled once, for every policy that they become part of.

use std::sync::Arc;

use super::RuleSet;
use crate::decision::Mode;
use crate::policy::CompiledRule;

/// A document that was checked: its rules that count.
#[derive(Clone, Debug)]
pub(crate) struct CheckedDocument {
    pub(crate) guardrails: Vec<Arc<CompiledRule>>,
    /// By rule set, each once.
    pub(super) overlays: Vec<(Arc<str>, Vec<Arc<CompiledRule>>)>,
}

impl CheckedDocument {
    pub(super) const fn new(guardrails: Vec<Arc<CompiledRule>>) -> Self {
        Self { guardrails, overlays: Vec::new() }
    }

    pub(super) fn add(&mut self, rule_set_id: &str, rules: Vec<Arc<CompiledRule>>) {
        self.overlays.push((rule_set_id.into(), rules));
    }

    /// The rules that are bound to a rule set.
    pub(crate) fn overlay(&self, rule_set_id: &str) -> &[Arc<CompiledRule>] {
        let bound = self.overlays.iter().find(|(id, _)| &**id == rule_set_id);
        bound.map_or(&[], |(_, rules)| rules)
    }
}

/// A rule set that was checked: its rules that count, and what says whether it may be selected.
#[derive(Clone, Debug)]
pub(crate) struct CheckedRuleSet {
    pub(crate) id: Arc<str>,
    pub(crate) compatible_modes: Option<Vec<Mode>>,
    pub(crate) enabled: bool,
    pub(crate) rules: Vec<Arc<CompiledRule>>,
}

impl CheckedRuleSet {
    pub(super) fn new(set: &RuleSet, rules: Vec<Arc<CompiledRule>>) -> Self {
        Self {
            id: set.id.as_str().into(),
            compatible_modes: set.compatible_modes.clone(),
            enabled: set.enabled,
            rules,
        }
    }
}
