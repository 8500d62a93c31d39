//! The rule sets that come with the crate.

use std::sync::{Arc, LazyLock};

use crate::document::{CheckedRuleSet, RuleSet};

static RULE_SETS: LazyLock<(Vec<RuleSet>, Vec<Arc<CheckedRuleSet>>)> = LazyLock::new(|| {
    let texts = [
        include_str!("builtin/baseline.json"),
        include_str!("builtin/read_only.json"),
        include_str!("builtin/supervised.json"),
        include_str!("builtin/autonomous.json"),
        include_str!("builtin/planning.json"),
    ];
    // A test reads all five. Should one be unreadable, it does not exist and its users fall back to asking.
    let sets = texts.iter().filter_map(|text| RuleSet::read(text.as_bytes()).ok());
    sets.map(|(set, checked)| (set, Arc::new(checked))).unzip()
});

/// Returns the built-in rule sets: `baseline`, `read_only`, `supervised`, `autonomous`, `planning`.
///
/// `baseline` lies below every other one and is never selected by itself. Delegation can write under
/// `read_only`; its description gives the guardrail that forbids it.
///
/// ```
/// use nervekit_permissions::builtin_rule_sets;
/// let ids: Vec<_> = builtin_rule_sets().iter().map(|set| set.id.as_str()).collect();
/// assert_eq!(ids, ["baseline", "read_only", "supervised", "autonomous", "planning"]);
/// ```
#[must_use]
pub fn builtin_rule_sets() -> &'static [RuleSet] {
    &RULE_SETS.0
}

/// Finds a built-in rule set, ready to be put in force.
pub(crate) fn checked(id: &str) -> Option<&'static Arc<CheckedRuleSet>> {
    RULE_SETS.1.iter().find(|set| &*set.id == id)
}
