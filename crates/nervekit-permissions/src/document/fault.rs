//! What is wrong with a document that can be read, and where in its text that stands.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Overlay;
use crate::error::DocumentProblem;
use crate::rule::Rule;

/// A fault of a document, and the part that has it.
#[derive(Debug)]
pub(super) struct Fault<'d> {
    message: String,
    part: Part<'d>,
}

#[derive(Debug)]
enum Part<'d> {
    Whole,
    Overlay(&'d Overlay),
    Rule(&'d Rule),
}

impl<'d> Fault<'d> {
    pub(super) fn whole(message: impl Into<String>) -> Self {
        Self { message: message.into(), part: Part::Whole }
    }

    pub(super) fn overlay(overlay: &'d Overlay, message: impl Into<String>) -> Self {
        Self { message: message.into(), part: Part::Overlay(overlay) }
    }

    pub(super) fn rule(rule: &'d Rule, message: impl Into<String>) -> Self {
        Self { message: message.into(), part: Part::Rule(rule) }
    }
}

impl From<Fault<'_>> for DocumentProblem {
    fn from(fault: Fault<'_>) -> Self {
        let problem = Self::new(fault.message);
        match fault.part {
            Part::Rule(rule) => problem.rule(&rule.id),
            Part::Whole | Part::Overlay(_) => problem,
        }
    }
}

/// The text of a document, cut into its parts.
#[derive(Deserialize)]
struct Parts<'t> {
    #[serde(borrow, default)]
    guardrails: Vec<&'t RawValue>,
    #[serde(borrow, default)]
    overlays: Vec<&'t RawValue>,
    #[serde(borrow, default)]
    rules: Vec<&'t RawValue>,
}

/// States a fault with its place in the text from which the rules and overlays were read.
pub(super) fn locate<'d>(
    fault: Fault<'d>,
    text: &str,
    mut rules: impl Iterator<Item = &'d Rule>,
    overlays: &[Overlay],
) -> DocumentProblem {
    let offset = match fault.part {
        Part::Whole => None,
        Part::Rule(rule) => {
            rules.position(|other| std::ptr::eq(rule, other)).and_then(|at| rule_at(text, at))
        }
        Part::Overlay(overlay) => overlays
            .iter()
            .position(|other| std::ptr::eq(overlay, other))
            .and_then(|at| parts(text)?.overlays.get(at).map(|part| offset(text, part))),
    };
    let (line, column) = position(text.as_bytes(), offset.unwrap_or(0));
    DocumentProblem::from(fault).at(line, column)
}

/// Where the rule with this number begins: guardrails first, then overlay by overlay.
fn rule_at(text: &str, number: usize) -> Option<usize> {
    let top = parts(text)?;
    let below = top.overlays.iter().filter_map(|overlay| parts(overlay.get())).flat_map(|parts| parts.rules);
    let rule = top.guardrails.into_iter().chain(top.rules).chain(below).nth(number)?;
    Some(offset(text, rule))
}

/// The text was read before, so it can be cut.
fn parts(text: &str) -> Option<Parts<'_>> {
    serde_json::from_str(text).ok()
}

fn offset(text: &str, part: &RawValue) -> usize {
    part.get().as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

/// Line and column of a byte, both counted from 1.
pub(super) fn position(bytes: &[u8], offset: usize) -> (usize, usize) {
    let before = bytes.get(..offset).unwrap_or(bytes);
    let mut lines = before.split(|byte| *byte == b'\n');
    (lines.clone().count(), lines.next_back().map_or(0, <[u8]>::len) + 1)
}
