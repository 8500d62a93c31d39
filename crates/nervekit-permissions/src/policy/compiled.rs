//! A rule that is ready to be compared with calls.

use std::mem::discriminant;

use nervekit_types::Digest;
use serde::Serialize;
use serde_json::{Map, Value};

use super::matcher::{CompiledMatcher, Reach};
use super::{Reading, View};
use crate::arguments::digest_of;
use crate::canonical::{CanonicalSubject, CanonicalTarget, RootedPath};
use crate::evidence::{Precedence, RuleEvidence, RuleSource};
use crate::path::ResolvedCall;
use crate::pattern::TextPattern;
use crate::rule::{Operator, Quantifier, Rule};
use crate::target::{Access, TargetScope};

/// The longest text that an allow matches, in bytes; a deny or prompt matches every longer one.
pub(super) const MAXIMUM_VALUE: usize = 64 << 10;

/// Written out it is what a [`RuleEvidence`] of it is.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CompiledRule {
    pub(super) rule: Rule,
    pub(super) source: RuleSource,
    pub(super) rule_set_id: String,
    pub(super) precedence: Precedence,
    #[serde(skip)]
    reading: Reading,
    #[serde(skip)]
    conditions: Vec<Condition>,
    #[serde(skip)]
    primary_target: Option<CompiledMatcher>,
    #[serde(skip)]
    targets: Option<(Quantifier, CompiledMatcher)>,
}

#[derive(Clone, Debug)]
struct Condition {
    place: Place,
    test: Test,
}

#[derive(Clone, Debug)]
enum Place {
    /// The object of all arguments.
    Whole,
    Path(Vec<String>),
    /// Every primary argument that is present.
    Primary,
}

#[derive(Clone, Debug)]
enum Test {
    Equals(Value),
    NotEquals(Value),
    In(Vec<Value>),
    Glob(TextPattern),
    Exists(bool),
    Digest(Digest),
}

impl CompiledRule {
    pub(super) fn compile(rule: &Rule, source: RuleSource, rule_set_id: &str) -> Result<Self, String> {
        let mut conditions = Vec::new();
        for filter in &rule.when.arguments {
            let place = place(&filter.path)?;
            conditions.push(Condition { place, test: test(filter.operator, &filter.value)? });
        }
        if let Some(filter) = &rule.when.primary_argument {
            conditions.push(Condition { place: Place::Primary, test: test(filter.operator, &filter.value)? });
        }
        if rule.when.command_prefix.iter().any(|word| word.is_empty() || word.contains(char::is_control)) {
            return Err("the words of `commandPrefix` are not empty".to_owned());
        }
        let targets = &rule.when.targets;
        Ok(Self {
            source,
            rule_set_id: rule_set_id.to_owned(),
            precedence: Precedence::new(rule.enforcement, rule.decision, source, rule.priority),
            reading: Reading::of(rule.decision),
            conditions,
            primary_target: rule
                .when
                .primary_target
                .as_ref()
                .map(|m| CompiledMatcher::compile(m, rule))
                .transpose()?,
            targets: match targets {
                Some(filter) => Some((filter.quantifier, CompiledMatcher::compile(&filter.matcher, rule)?)),
                None => None,
            },
            rule: rule.clone(),
        })
    }

    /// What some primary argument must begin with for it to match, in at most so many bytes; any of several.
    /// Empty when nothing of the kind is known.
    pub(super) fn beginnings(&self, most: usize) -> Vec<String> {
        let cut = |text: &str| {
            let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at))?;
            text.get(..end).map(str::to_owned)
        };
        let known = self.conditions.iter().filter(|condition| matches!(condition.place, Place::Primary));
        let mut known = known.filter_map(|condition| match &condition.test {
            Test::Equals(value) => Some(vec![cut(value.as_str()?)?]),
            Test::In(values) => values.iter().map(|value| cut(value.as_str()?)).collect(),
            Test::Glob(pattern) => Some(vec![cut(pattern.literal())?]),
            Test::NotEquals(_) | Test::Exists(_) | Test::Digest(_) => None,
        });
        known.next().filter(|texts| texts.iter().all(|text| !text.is_empty())).unwrap_or_default()
    }

    pub(super) fn evidence(&self) -> RuleEvidence {
        RuleEvidence::new(self.rule.clone(), self.source, &*self.rule_set_id, self.precedence)
    }

    /// Whether everything but the targets matches. The index has looked at name, kind, risk and origin.
    pub(super) fn matches_call(&self, call: &ResolvedCall) -> bool {
        let when = &self.rule.when;
        (when.tool_groups.is_empty()
            || when.tool_groups.iter().any(|group| call.descriptor.groups.contains(group)))
            && self.matches_prefix(call)
            && self.conditions.iter().all(|condition| condition.holds(call, self.reading))
    }

    fn matches_prefix(&self, call: &ResolvedCall) -> bool {
        let prefix = &self.rule.when.command_prefix;
        if prefix.is_empty() {
            return true;
        }
        let Some(command) = &call.command else { return false };
        match self.reading {
            Reading::Allow => command.simple.as_ref().is_some_and(|words| words.starts_with(prefix)),
            Reading::Restrict => {
                command.exhausted || command.inner.iter().any(|words| words.starts_with(prefix))
            }
        }
    }

    /// Whether the targets match. A deny that reaches only part of a searched tree does not: it withholds.
    pub(super) fn matches_targets(&self, call: &ResolvedCall, view: View) -> bool {
        let is_met = |matcher: &CompiledMatcher, target: &CanonicalTarget| match reach(matcher, call, target)
        {
            Reach::Whole => true,
            Reach::Part => !(self.rule.decision == crate::Decision::Deny && is_search(target)),
            Reach::None => false,
        };
        if let Some(matcher) = &self.primary_target {
            let primary = view.primary(call);
            if !primary.is_some_and(|target| is_met(matcher, target)) {
                return false;
            }
        }
        match &self.targets {
            None => true,
            Some((Quantifier::Any, matcher)) => {
                view.targets(call).iter().any(|target| is_met(matcher, target))
            }
            Some((Quantifier::All, matcher)) => {
                let seen = view.targets(call);
                !seen.is_empty() && seen.iter().all(|target| is_met(matcher, target))
            }
        }
    }

    /// Whether it is a deny that reaches part of this tree.
    pub(super) fn withholds(&self, call: &ResolvedCall, index: usize) -> bool {
        let Some(target) = call.targets.get(index) else { return false };
        self.rule.decision == crate::Decision::Deny
            && is_search(target)
            && (index == 0
                && self
                    .primary_target
                    .as_ref()
                    .is_some_and(|matcher| reach(matcher, call, target) == Reach::Part)
                || self
                    .targets
                    .as_ref()
                    .is_some_and(|(_, matcher)| reach(matcher, call, target) == Reach::Part))
    }

    /// Whether it matches one entry of a tree.
    pub(super) fn matches_entry(&self, entry: &CanonicalTarget, primary: bool, reads_back: bool) -> bool {
        let matches = |matcher: &CompiledMatcher| matcher.reach(entry, reads_back) == Reach::Whole;
        self.primary_target.as_ref().is_none_or(|matcher| primary && matches(matcher))
            && self.targets.as_ref().is_none_or(|(_, matcher)| matches(matcher))
    }

    /// Whether a winning allow covers this target.
    pub(super) fn covers(&self, call: &ResolvedCall, index: usize) -> bool {
        let Some(target) = call.targets.get(index) else { return false };
        if self.source == RuleSource::Project
            && let Some(path) = target.path()
            && !path.resolved.for_allow().is_some_and(RootedPath::is_for_project)
        {
            return false;
        }
        // Equality of all arguments leaves nothing open.
        if self.conditions.iter().any(Condition::pins_the_call) {
            return true;
        }
        let covers = |matcher: &CompiledMatcher| reach(matcher, call, target) == Reach::Whole;
        match (&self.primary_target, &self.targets) {
            (None, None) => {
                let overlay = self.source.scope() >= RuleSource::User.scope();
                !(overlay && self.filters_arguments()) || self.derives(call, target)
            }
            (primary, targets) => {
                let by_primary = index == 0 && primary.as_ref().is_some_and(covers);
                let by_all = targets
                    .as_ref()
                    .is_some_and(|(quantifier, matcher)| *quantifier == Quantifier::All && covers(matcher));
                by_primary || by_all
            }
        }
    }

    /// Whether it names exactly this target, as a grant of a person does.
    pub(super) fn grants_exactly(&self, call: &ResolvedCall, index: usize) -> bool {
        let by_person = matches!(self.source, RuleSource::User | RuleSource::Conversation);
        let Some(target) = call.targets.get(index) else { return false };
        let names =
            |matcher: &CompiledMatcher| matcher.is_exact() && reach(matcher, call, target) == Reach::Whole;
        let primary = index == 0 && self.primary_target.as_ref().is_some_and(names);
        let every = |(quantifier, matcher): &(Quantifier, CompiledMatcher)| {
            *quantifier == Quantifier::All && names(matcher)
        };
        by_person
            && self.rule.decision == crate::Decision::Allow
            && (primary || self.targets.as_ref().is_some_and(every))
    }

    fn filters_arguments(&self) -> bool {
        !self.conditions.is_empty() || !self.rule.when.command_prefix.is_empty()
    }

    /// Whether the target comes from an argument that the rule looks at.
    fn derives(&self, call: &ResolvedCall, target: &CanonicalTarget) -> bool {
        if matches!(target.subject(), CanonicalSubject::WholeTool) {
            return true;
        }
        let argument = target.argument();
        self.conditions.iter().any(|condition| match &condition.place {
            Place::Whole => true,
            Place::Primary => argument.is_some_and(|argument| {
                call.descriptor.primary_arguments.iter().any(|primary| holds(primary.split('.'), argument))
            }),
            Place::Path(parts) => {
                argument.is_some_and(|argument| holds(parts.iter().map(String::as_str), argument))
            }
        })
    }
}

/// Whether the argument is what these parts name, or lies in it.
fn holds<'p>(parts: impl Iterator<Item = &'p str>, argument: &str) -> bool {
    let mut found = argument.split('.');
    parts.into_iter().all(|part| found.next().is_some_and(|found| part == "*" || part == found))
}

fn reach(matcher: &CompiledMatcher, call: &ResolvedCall, target: &CanonicalTarget) -> Reach {
    matcher.reach(target, super::reads_back(call, target))
}

/// Whether a target is a tree that is searched entry by entry.
pub(super) fn is_search(target: &CanonicalTarget) -> bool {
    target.path().is_some_and(|path| path.access == Access::Read && path.scope == TargetScope::Tree)
}

fn place(path: &str) -> Result<Place, String> {
    if path == "args" {
        return Ok(Place::Whole);
    }
    let parts: Option<Vec<String>> =
        path.strip_prefix("args.").map(|path| path.split('.').map(str::to_owned).collect());
    parts
        .filter(|parts| parts.iter().all(|part| !part.is_empty()))
        .map(Place::Path)
        .ok_or_else(|| format!("`{}` is not `args` or `args.` and a dotted path", crate::display(path)))
}

fn test(operator: Operator, value: &Value) -> Result<Test, String> {
    Ok(match (operator, value) {
        (Operator::Equals, value) => Test::Equals(value.clone()),
        (Operator::NotEquals, value) => Test::NotEquals(value.clone()),
        (Operator::In, Value::Array(values)) if !values.is_empty() => Test::In(values.clone()),
        (Operator::In, _) => return Err("the value of `in` is a list".to_owned()),
        (Operator::Glob, Value::String(text)) => {
            Test::Glob(TextPattern::parse(text).map_err(|error| error.to_string())?)
        }
        (Operator::Glob, _) => return Err("the value of `glob` is a text".to_owned()),
        (Operator::Exists, Value::Bool(present)) => Test::Exists(*present),
        (Operator::Exists, _) => return Err("the value of `exists` is `true` or `false`".to_owned()),
        (Operator::Digest, Value::String(text)) => {
            Test::Digest(text.parse().map_err(|error: nervekit_types::DigestParseError| error.to_string())?)
        }
        (Operator::Digest, _) => return Err("the value of `digest` is a text".to_owned()),
    })
}

impl Condition {
    fn pins_the_call(&self) -> bool {
        matches!((&self.place, &self.test), (Place::Whole, Test::Equals(_) | Test::Digest(_)))
    }

    fn holds(&self, call: &ResolvedCall, reading: Reading) -> bool {
        let mut found = Found::default();
        match &self.place {
            Place::Whole => found.add(self.holds_whole(call)),
            Place::Primary => {
                for name in &call.descriptor.primary_arguments {
                    let program = call.descriptor.kind.runs_programs();
                    visit(call.arguments.as_value(), name.split('.'), &mut |value| {
                        found.add(self.holds_value(value, call, reading, program));
                    });
                }
            }
            Place::Path(parts) => {
                let parts = parts.iter().map(String::as_str);
                let program = call.descriptor.kind.runs_programs()
                    && call.descriptor.primary_arguments.iter().any(|name| name.split('.').eq(parts.clone()));
                visit(call.arguments.as_value(), parts, &mut |value| {
                    found.add(self.holds_value(value, call, reading, program));
                });
            }
        }
        match (&self.test, reading) {
            (Test::Exists(present), _) => found.any == *present,
            (Test::NotEquals(_), Reading::Restrict) => !found.any || found.holds_once,
            (_, Reading::Allow) => found.any && found.holds_always,
            (_, Reading::Restrict) => found.holds_once,
        }
    }

    fn holds_whole(&self, call: &ResolvedCall) -> bool {
        let cosmetic = &call.descriptor.cosmetic_arguments;
        let equal = |value: &Value| match (value, call.arguments.as_value()) {
            (Value::Object(wanted), Value::Object(found)) => same_but(wanted, found, cosmetic),
            _ => false,
        };
        match &self.test {
            Test::Equals(value) => equal(value),
            Test::NotEquals(value) => !equal(value),
            Test::In(values) => values.iter().any(equal),
            Test::Digest(digest) => digest_of(&call.arguments.without(cosmetic)) == *digest,
            Test::Exists(_) => true,
            Test::Glob(_) => false,
        }
    }

    /// `program`: the value is what a shell or an interpreter runs.
    fn holds_value(&self, value: &Value, call: &ResolvedCall, reading: Reading, program: bool) -> bool {
        let restrict = reading == Reading::Restrict;
        if let Value::String(text) = value
            && text.len() > MAXIMUM_VALUE
            && !matches!(self.test, Test::Exists(_) | Test::Digest(_))
        {
            return restrict;
        }
        // What restricts commands also looks at every command inside.
        let inner = call.command.as_ref().filter(|_| restrict && program);
        let inside = |test: &dyn Fn(&str) -> bool| {
            inner.is_some_and(|command| command.exhausted || command.texts.iter().any(|text| test(text)))
        };
        let equal = |wanted: &Value| {
            value == wanted || wanted.as_str().is_some_and(|wanted| inside(&|text| text == wanted))
        };
        match &self.test {
            Test::Equals(wanted) => equal(wanted),
            // A value of another type says nothing, so no allow rests on it.
            Test::NotEquals(wanted) => {
                value != wanted && (restrict || discriminant(value) == discriminant(wanted))
            }
            Test::In(values) => values.iter().any(equal),
            Test::Glob(pattern) => value.as_str().is_some_and(|text| {
                pattern.matches(text, program && !restrict) || inside(&|text| pattern.matches(text, false))
            }),
            Test::Exists(_) => true,
            Test::Digest(digest) => digest_of(value) == *digest,
        }
    }
}

struct Found {
    any: bool,
    holds_once: bool,
    holds_always: bool,
}

impl Default for Found {
    fn default() -> Self {
        Self { any: false, holds_once: false, holds_always: true }
    }
}

impl Found {
    fn add(&mut self, holds: bool) {
        self.any = true;
        self.holds_once |= holds;
        self.holds_always &= holds;
    }
}

/// Calls back with every value at a path; `*` stands for every item of an array.
pub(super) fn visit<'v, 'p>(
    value: &'v Value,
    mut parts: impl Iterator<Item = &'p str> + Clone,
    found: &mut dyn FnMut(&'v Value),
) {
    let Some(part) = parts.next() else { return found(value) };
    match value {
        Value::Object(map) => {
            if let Some(value) = map.get(part) {
                visit(value, parts, found);
            }
        }
        Value::Array(items) if part == "*" => {
            for item in items {
                visit(item, parts.clone(), found);
            }
        }
        Value::Array(items) => {
            if let Some(item) = part.parse().ok().and_then(|index: usize| items.get(index)) {
                visit(item, parts.clone(), found);
            }
        }
        _ => {}
    }
}

fn same_but(wanted: &Map<String, Value>, found: &Map<String, Value>, cosmetic: &[String]) -> bool {
    let kept = |map: &Map<String, Value>| map.keys().filter(|key| !cosmetic.contains(key)).count();
    kept(wanted) == kept(found)
        && wanted
            .iter()
            .filter(|(key, _)| !cosmetic.contains(key))
            .all(|(key, value)| found.get(key) == Some(value))
}
