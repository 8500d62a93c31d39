//! Two versions of one document.

use std::sync::Arc;

use super::{CheckedDocument, PolicyDocument};
use crate::decision::Decision;
use crate::policy::CompiledRule;
use crate::rule::Rule;

/// What of a document still restricts when it is gone.
pub(crate) fn restrictions(mut document: PolicyDocument) -> PolicyDocument {
    for overlay in &mut document.overlays {
        overlay.rules.retain(|rule| rule.decision != Decision::Allow);
    }
    document
}

/// The restrictions of two versions, and the allows that both have. It uses ids and priorities twice.
pub(crate) fn strictest(one: Option<&CheckedDocument>, other: Option<&CheckedDocument>) -> CheckedDocument {
    let mut document = CheckedDocument::new(Vec::new());
    for (version, against) in [(one, other), (other, one)] {
        let Some(version) = version else { continue };
        for rule in &version.guardrails {
            join(&mut document.guardrails, rule);
        }
        for (id, rules) in &version.overlays {
            let known = against.map_or(&[][..], |against| against.overlay(id));
            let at = document.overlays.iter().position(|(joined, _)| joined == id);
            let at = at.unwrap_or_else(|| {
                document.add(id, Vec::new());
                document.overlays.len() - 1
            });
            let Some((_, joined)) = document.overlays.get_mut(at) else { continue };
            for rule in rules {
                let shared = || known.iter().any(|other| is_same(&rule.rule, &other.rule));
                if rule.rule.decision != Decision::Allow || shared() {
                    join(joined, rule);
                }
            }
        }
    }
    document
}

fn join(rules: &mut Vec<Arc<CompiledRule>>, rule: &Arc<CompiledRule>) {
    if !rules.iter().any(|known| is_same(&known.rule, &rule.rule)) {
        rules.push(Arc::clone(rule));
    }
}

/// Whether two rules do the same, however they are named and described.
pub(crate) fn is_same(one: &Rule, other: &Rule) -> bool {
    (one.enabled, one.priority, one.enforcement, one.decision)
        == (other.enabled, other.priority, other.enforcement, other.decision)
        && one.when == other.when
}
