//! Two versions of one document.

use super::{Overlay, PolicyDocument};
use crate::decision::Decision;
use crate::rule::Rule;

/// The restrictions of two versions, and the allows that both have.
pub(crate) fn strictest(one: Option<&PolicyDocument>, other: Option<&PolicyDocument>) -> PolicyDocument {
    let mut document = PolicyDocument::new();
    for (version, against) in [(one, other), (other, one)] {
        let Some(version) = version else { continue };
        for rule in &version.guardrails {
            join(&mut document.guardrails, rule);
        }
        for overlay in &version.overlays {
            let known = against.and_then(|against| group(&against.overlays, &overlay.rule_set_id));
            let known = known.map_or(&[][..], |overlay| &overlay.rules);
            let at = document.overlays.iter().position(|group| group.rule_set_id == overlay.rule_set_id);
            let at = at.unwrap_or_else(|| {
                document.overlays.push(Overlay::new(&*overlay.rule_set_id));
                document.overlays.len() - 1
            });
            let Some(joined) = document.overlays.get_mut(at) else { continue };
            for rule in &overlay.rules {
                if rule.decision != Decision::Allow || known.iter().any(|other| is_same(rule, other)) {
                    join(&mut joined.rules, rule);
                }
            }
        }
    }
    document
}

fn group<'d>(overlays: &'d [Overlay], rule_set: &str) -> Option<&'d Overlay> {
    overlays.iter().find(|overlay| overlay.rule_set_id == rule_set)
}

fn join(rules: &mut Vec<Rule>, rule: &Rule) {
    if !rules.iter().any(|known| is_same(known, rule)) {
        rules.push(rule.clone());
    }
}

/// Whether two rules do the same, however they are named and described.
pub(crate) fn is_same(one: &Rule, other: &Rule) -> bool {
    (one.enabled, one.priority, one.enforcement, one.decision)
        == (other.enabled, other.priority, other.enforcement, other.decision)
        && one.when == other.when
}
