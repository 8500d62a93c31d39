//! The naive evaluator: it collects all rules that match, sorts them, picks the first and asks what it covers.
//!
//! Written from the words of `permissions.md`, without any of the code under test.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Component, Path};

use nervekit_permissions::*;
use nervekit_types::Digest;
use serde_json::Value;

use super::generate::{UrlRule, url_rule};
use super::universe::{Call, Fact, Place, Universe, UrlFact, What};

/// A rule and the scope that it comes from.
pub(crate) struct Source {
    pub(crate) scope: u8,
    pub(crate) rule: Rule,
}

/// What the naive evaluator says of a call.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) decision: Decision,
    /// The ids of all rules that match, the strongest first.
    pub(crate) matching: Vec<String>,
    pub(crate) marks: Vec<(Mark, usize, bool)>,
    /// Denies that run as a filter.
    pub(crate) withholding: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Reach {
    None,
    Part,
    Whole,
}

/// What a pattern says of a path and of what can lie below it.
#[derive(Clone, Copy)]
struct Extent {
    itself: bool,
    some_below: bool,
    all_below: bool,
}

pub(crate) struct Naive<'u> {
    pub(crate) universe: &'u Universe,
    known: RefCell<HashMap<(String, String), Extent>>,
}

const RANKS: [&str; 5] = ["nerve_home", "nerve_data", "plans", "host", "project"];

impl<'u> Naive<'u> {
    pub(crate) fn new(universe: &'u Universe) -> Self {
        Self { universe, known: RefCell::default() }
    }

    pub(crate) fn decide(&self, sources: &[Source], call: &Call) -> Outcome {
        let everything: Vec<usize> = (0..call.targets.len()).collect();
        let matching = self.matching(sources, call, &everything, None);
        let marks = self.marks(sources, call);
        let withholding = sorted(sources).into_iter().filter(|source| {
            applies(&source.rule, call)
                && everything.iter().any(|index| self.withholds(&source.rule, call, *index))
        });
        Outcome {
            decision: self.decision(sources, call, &matching, &marks),
            matching: matching.iter().map(|source| source.rule.id.clone()).collect(),
            withholding: withholding.map(|source| source.rule.id.clone()).collect(),
            marks,
        }
    }

    fn decision(
        &self,
        sources: &[Source],
        call: &Call,
        matching: &[&Source],
        marks: &[(Mark, usize, bool)],
    ) -> Decision {
        let judged = |source: Option<&&Source>| {
            let Some(source) = source else { return Decision::Prompt };
            // A person's own command that a rule set denies is confirmed.
            match source.rule.decision {
                Decision::Deny if source.scope == 1 && call.origin == CallOrigin::User => Decision::Prompt,
                other => other,
            }
        };
        let mut decision = judged(matching.first());
        if let Some(winner) = matching.first().filter(|_| decision == Decision::Allow) {
            for index in 0..call.targets.len() {
                if !self.covers(winner, call, index) {
                    let without = self.matching(sources, call, &[index], Some(&winner.rule.id));
                    let without = judged(without.first()).stricter(Decision::Prompt);
                    decision = decision.stricter(without);
                }
            }
        }
        // A mark asks; it makes nothing more lenient.
        if marks.iter().any(|(_, _, satisfied)| !satisfied) {
            decision.stricter(Decision::Prompt)
        } else {
            decision
        }
    }

    /// The rules that match a call of which only these targets are looked at.
    fn matching<'s>(
        &self,
        sources: &'s [Source],
        call: &Call,
        targets: &[usize],
        but: Option<&str>,
    ) -> Vec<&'s Source> {
        let sorted = sorted(sources).into_iter();
        sorted
            .filter(|source| Some(source.rule.id.as_str()) != but)
            .filter(|source| applies(&source.rule, call) && self.targets(&source.rule, call, targets))
            .collect()
    }

    fn targets(&self, rule: &Rule, call: &Call, targets: &[usize]) -> bool {
        let meets = |matcher: &Matcher, index: usize| match self.reach(rule, matcher, call, index) {
            Reach::Whole => true,
            Reach::Part => rule.decision != Decision::Deny || !searched(&call.targets[index]),
            Reach::None => false,
        };
        let when = &rule.when;
        when.primary_target.as_ref().is_none_or(|matcher| targets.contains(&0) && meets(matcher, 0))
            && when.targets.as_ref().is_none_or(|filter| match filter.quantifier {
                Quantifier::Any => targets.iter().any(|index| meets(&filter.matcher, *index)),
                Quantifier::All => {
                    !targets.is_empty() && targets.iter().all(|index| meets(&filter.matcher, *index))
                }
            })
    }

    fn covers(&self, source: &Source, call: &Call, index: usize) -> bool {
        let (rule, when, target) = (&source.rule, &source.rule.when, &call.targets[index]);
        if let What::Path(place) = &target.what
            && source.scope == 3
            && (!matches!(self.longest(&place.resolved), Some((Root::Project | Root::Plans, _)))
                || place.tree
                    && self.universe.roots.iter().any(|known| {
                        known.canonical != place.resolved
                            && below(&place.resolved, &known.canonical).is_some()
                            && !matches!(known.root, Root::Home | Root::Temp | Root::Project | Root::Plans)
                    }))
        {
            return false;
        }
        // Equality of the whole argument object leaves nothing open.
        let pinned = |filter: &ArgumentFilter| {
            filter.path == "args" && matches!(filter.operator, Operator::Equals | Operator::Digest)
        };
        if when.arguments.iter().any(pinned) {
            return true;
        }
        if when.primary_target.is_none() && when.targets.is_none() {
            let asks = !when.arguments.is_empty()
                || when.primary_argument.is_some()
                || !when.command_prefix.is_empty();
            if source.scope < 2 || !asks || matches!(target.what, What::WholeTool) {
                return true;
            }
            let Some(argument) = &target.argument else { return false };
            let begins = |path: &str| {
                let found: Vec<&str> = argument.split('.').collect();
                let asked: Vec<&str> = path.split('.').collect();
                asked.len() <= found.len() && asked.iter().zip(found).all(|(a, f)| *a == "*" || *a == f)
            };
            return when.arguments.iter().any(|filter| {
                filter.path == "args" || filter.path.strip_prefix("args.").is_some_and(begins)
            }) || when.primary_argument.is_some()
                && call.descriptor.primary_arguments.iter().any(|name| begins(name));
        }
        let whole = |matcher: &Matcher| self.reach(rule, matcher, call, index) == Reach::Whole;
        index == 0 && when.primary_target.as_ref().is_some_and(whole)
            || when
                .targets
                .as_ref()
                .is_some_and(|filter| filter.quantifier == Quantifier::All && whole(&filter.matcher))
    }

    fn marks(&self, sources: &[Source], call: &Call) -> Vec<(Mark, usize, bool)> {
        let mut marks = Vec::new();
        for (index, target) in call.targets.iter().enumerate() {
            let What::Path(place) = &target.what else { continue };
            let shows = call.descriptor.kind == ToolKind::Filesystem && !place.tree;
            let write = place.access == Access::Write;
            let forms = [&place.resolved, &place.lexical];
            if write
                && (forms.iter().any(|form| self.steers(form))
                    || self.universe.aliased.contains(&place.resolved))
            {
                marks.push((Mark::ControlFile, index));
            }
            if (!write || shows) && forms.iter().any(|form| self.protected(form)) {
                marks.push((Mark::ProtectedRead, index));
            }
        }
        let granted = |index: usize| {
            sources.iter().any(|source| {
                let (rule, when) = (&source.rule, &source.rule.when);
                let exactly = |matcher: &Matcher| {
                    matcher.exact.is_some() && self.reach(rule, matcher, call, index) == Reach::Whole
                };
                let names = index == 0 && when.primary_target.as_ref().is_some_and(exactly)
                    || when.targets.as_ref().is_some_and(|filter| {
                        filter.quantifier == Quantifier::All && exactly(&filter.matcher)
                    });
                rule.enabled
                    && rule.decision == Decision::Allow
                    && matches!(source.scope, 2 | 4)
                    && names
                    && applies(rule, call)
                    && self.targets(rule, call, &[index])
            })
        };
        marks.into_iter().map(|(mark, index)| (mark, index, granted(index))).collect()
    }

    fn steers(&self, form: &Path) -> bool {
        let (folder, plans) = match self.longest(form) {
            Some((Root::Plans, below)) => (below, true),
            _ => (text(form), false),
        };
        let names: Vec<String> = folder.split('/').map(fold).collect();
        names.iter().any(|name| name == ".git" || name == ".nerve")
            || names.last().is_some_and(|name| name == "agents.md" || name == "system.md")
            || !plans
                && self
                    .names(form, true)
                    .iter()
                    .any(|(root, _)| matches!(root, Root::NerveHome | Root::NerveData))
    }

    fn protected(&self, form: &Path) -> bool {
        let plans = matches!(self.longest(form), Some((Root::Plans, _)));
        let stores = [".ssh", ".aws", ".gnupg", ".netrc", ".git-credentials"];
        text(form).split('/').any(|name| stores.contains(&fold(name).as_str()))
            || self.names(form, true).iter().any(|(root, below)| match root {
                Root::NerveData => !plans,
                Root::Home => fold(below) == ".npmrc",
                _ => false,
            })
    }

    fn withholds(&self, rule: &Rule, call: &Call, index: usize) -> bool {
        let part = |matcher: &Matcher| self.reach(rule, matcher, call, index) == Reach::Part;
        rule.decision == Decision::Deny
            && searched(&call.targets[index])
            && (index == 0 && rule.when.primary_target.as_ref().is_some_and(part)
                || rule.when.targets.as_ref().is_some_and(|filter| part(&filter.matcher)))
    }

    /// Whether a search may see an entry below one of its trees.
    pub(crate) fn sees(&self, sources: &[Source], call: &Call, index: usize, below: &str) -> bool {
        let What::Path(tree) = &call.targets[index].what else { return true };
        let forms = [&tree.resolved, &tree.lexical];
        let entry = Place {
            tree: false,
            resolved: tree.resolved.join(below),
            lexical: tree.lexical.join(below),
            ..tree.clone()
        };
        let guarded = !forms.iter().any(|form| self.protected(form))
            && [&entry.resolved, &entry.lexical].iter().any(|form| self.protected(form));
        let mut one = Call {
            descriptor: call.descriptor.clone(),
            arguments: call.arguments.clone(),
            working_directory: call.working_directory.clone(),
            targets: call.targets.clone(),
            ..*call
        };
        one.targets[index].what = What::Path(entry);
        let filters = sources.iter().any(|source| {
            source.rule.enabled && applies(&source.rule, call) && self.withholds(&source.rule, call, index)
        });
        let denied = filters
            && self
                .matching(sources, &one, &[index], None)
                .first()
                .is_some_and(|source| source.rule.decision == Decision::Deny);
        !guarded && !denied
    }

    pub(crate) fn is_plan(&self, path: &Path) -> bool {
        matches!(self.longest(path), Some((Root::Plans, _)))
    }

    /// The longest root that an allow knows, and the path below it.
    fn longest(&self, path: &Path) -> Option<(Root, String)> {
        let rank = |root: &Root| {
            let text = root.to_string();
            RANKS.iter().position(|name| text.starts_with(name))
        };
        self.universe
            .roots
            .iter()
            .filter_map(|known| Some((rank(&known.root)?, known, below(&known.canonical, path)?)))
            .min_by_key(|(rank, known, _)| (std::cmp::Reverse(known.canonical.components().count()), *rank))
            .map(|(_, known, below)| (known.root.clone(), below))
    }

    /// The path under every root that contains it; under roots as they were registered only when `typed`.
    fn names(&self, path: &Path, typed: bool) -> Vec<(Root, String)> {
        let mut names = Vec::new();
        for known in &self.universe.roots {
            let folders = [Some(&known.canonical), Some(&known.typed).filter(|_| typed)];
            for folder in folders.into_iter().flatten() {
                names.extend(below(folder, path).map(|below| (known.root.clone(), below)));
            }
        }
        names
    }

    fn reach(&self, rule: &Rule, matcher: &Matcher, call: &Call, index: usize) -> Reach {
        let target = &call.targets[index];
        let kind = match &target.what {
            What::Path(_) => TargetKind::Path,
            What::Url(..) => TargetKind::Url,
            What::Agent(_) => TargetKind::Agent,
            What::WholeTool => TargetKind::WholeTool,
        };
        if matcher.kind.is_some_and(|wanted| wanted != kind) {
            return Reach::None;
        }
        if let Some(wanted) = matcher.access
            && target.access() != Some(wanted)
        {
            // Read denies also bind `edit` and `write`.
            let binds = rule.decision == Decision::Deny
                && wanted == Access::Read
                && kind == TargetKind::Path
                && call.descriptor.kind == ToolKind::Filesystem;
            if !binds {
                return Reach::None;
            }
        }
        let selects = matcher.exact.is_some() || matcher.subtree.is_some() || matcher.pattern.is_some();
        let path_only = matcher.root.is_some() || matcher.absolute || matcher.scope.is_some();
        let whole = |holds: bool| if holds { Reach::Whole } else { Reach::None };
        match &target.what {
            What::Path(place) => self.reach_path(rule, matcher, place),
            What::Url(_, url) => whole(
                !path_only
                    && matcher.profile.is_none()
                    && matcher.content.is_none()
                    && reach_url(rule, matcher, url),
            ),
            What::Agent(profile) => whole(
                !selects
                    && !path_only
                    && matcher.content.is_none()
                    && matcher.profile.as_ref().is_none_or(|wanted| wanted == profile),
            ),
            What::WholeTool => {
                whole(!selects && !path_only && matcher.content.is_none() && matcher.profile.is_none())
            }
        }
    }

    fn reach_path(&self, rule: &Rule, matcher: &Matcher, place: &Place) -> Reach {
        let tree = matches!(matcher.scope, Some(TargetScope::Tree));
        let url = [&matcher.exact, &matcher.subtree, &matcher.pattern]
            .iter()
            .any(|text| text.as_ref().is_some_and(|text| text.contains("://")));
        if url
            || matcher.profile.is_some()
            || matcher.scope.is_some() && tree != place.tree
            || matcher.content.is_some() && matcher.content != place.content
        {
            return Reach::None;
        }
        let folded =
            rule.enforcement == Enforcement::Guardrail || cfg!(any(target_vendor = "apple", windows));
        let extent = |name: &str| self.extent(matcher, name, folded);
        if rule.decision == Decision::Allow {
            if matcher.absolute {
                let same = matcher.exact.as_deref() == Some(&*text(&place.resolved)) && !place.tree;
                return if same { Reach::Whole } else { Reach::None };
            }
            let wanted = matcher.root.clone().unwrap_or(Root::Project);
            let Some((root, name)) = self.longest(&place.resolved) else { return Reach::None };
            let extent = extent(&name);
            // What lies below in another root is not looked at under this one.
            let mixed = place.tree
                && self.universe.roots.iter().any(|known| {
                    known.canonical != place.resolved
                        && below(&place.resolved, &known.canonical).is_some()
                        && !matches!(known.root, Root::Home | Root::Temp)
                });
            let covered = extent.itself && (!place.tree || extent.all_below && !mixed);
            return if root == wanted && covered { Reach::Whole } else { Reach::None };
        }
        let mut most = Reach::None;
        let mut look = |name: &str| {
            let extent = extent(name);
            let found = match (extent.itself, extent.some_below && place.tree) {
                (true, _) => Reach::Whole,
                (false, true) => Reach::Part,
                (false, false) => Reach::None,
            };
            if found > most {
                most = found;
            }
        };
        for (form, typed) in [(&place.resolved, false), (&place.lexical, true)] {
            let names = self.names(form, typed);
            if matcher.absolute {
                look(text(form).trim_start_matches('/'));
                continue;
            }
            let external = names.iter().all(|(root, _)| matches!(root, Root::Home | Root::Temp));
            for (root, name) in names {
                if matcher.root.as_ref().is_none_or(|wanted| *wanted == root) {
                    look(&name);
                }
            }
            if external && matcher.root.is_none() {
                look(text(form).trim_start_matches('/'));
            }
        }
        // A root that lies in the tree: whatever the rule selects there may exist.
        let inside = place.tree
            && !matcher.absolute
            && self.universe.roots.iter().any(|known| {
                known.canonical != place.resolved
                    && below(&place.resolved, &known.canonical).is_some()
                    && matcher.root.as_ref().is_none_or(|wanted| *wanted == known.root)
            });
        if inside && most == Reach::None { Reach::Part } else { most }
    }

    /// What a matcher selects of a name and below it.
    fn extent(&self, matcher: &Matcher, name: &str, folded: bool) -> Extent {
        let normal = |text: &str| if folded { fold(text) } else { text.to_owned() };
        let name = normal(name);
        let select = |text: &str| {
            let text = if matcher.absolute { text.trim_start_matches('/') } else { text };
            normal(text.strip_prefix("${projectDir}/").unwrap_or(text))
        };
        let inside = |path: &str, folder: &str| {
            folder.is_empty() || path == folder || path.starts_with(&format!("{folder}/"))
        };
        if let Some(exact) = &matcher.exact {
            let exact = select(exact);
            let itself = name == exact;
            return Extent { itself, some_below: !itself && inside(&exact, &name), all_below: false };
        }
        if let Some(subtree) = &matcher.subtree {
            let subtree = select(subtree);
            let itself = inside(&name, &subtree);
            return Extent { itself, some_below: itself || inside(&subtree, &name), all_below: itself };
        }
        let Some(pattern) = &matcher.pattern else {
            return Extent { itself: true, some_below: true, all_below: true };
        };
        let pattern = select(pattern);
        let key = (pattern, name);
        if let Some(found) = self.known.borrow().get(&key) {
            return *found;
        }
        let found = probe(&key.0, &key.1);
        self.known.borrow_mut().insert(key, found);
        found
    }
}

/// Whether everything but the targets matches.
fn applies(rule: &Rule, call: &Call) -> bool {
    let (when, tool) = (&rule.when, &call.descriptor);
    let lists = (when.tool_names.is_empty() || when.tool_names.contains(&tool.name))
        && (when.tool_kinds.is_empty() || when.tool_kinds.contains(&tool.kind))
        && (when.tool_groups.is_empty() || when.tool_groups.iter().any(|group| tool.groups.contains(group)))
        && (when.base_risks.is_empty() || when.base_risks.contains(&call.risk))
        && (when.origins.is_empty() || when.origins.contains(&call.origin));
    lists
        && prefix(rule, call)
        && when.arguments.iter().all(|filter| argument(rule, call, filter))
        && when.primary_argument.as_ref().is_none_or(|filter| primary(rule, call, filter))
}

/// The rules that count, the strongest first.
fn sorted(sources: &[Source]) -> Vec<&Source> {
    let mut sorted: Vec<&Source> = sources.iter().filter(|source| source.rule.enabled).collect();
    sorted.sort_by_key(|source| {
        let guardrail = source.rule.enforcement == Enforcement::Guardrail;
        let denies = guardrail && source.rule.decision == Decision::Deny;
        std::cmp::Reverse((guardrail, denies, source.scope, source.rule.priority))
    });
    sorted
}

/// Tries a pattern on a path and on every path below it that the pattern could tell from others.
fn probe(pattern: &str, name: &str) -> Extent {
    let patterns = braces(pattern);
    let split = |text: &str| -> Vec<String> {
        text.split('/').filter(|s| !s.is_empty()).map(str::to_owned).collect()
    };
    let patterns: Vec<Vec<String>> = patterns.iter().map(|text| split(text)).collect();
    let matches = |path: &[String]| patterns.iter().any(|pattern| segments(pattern, path));
    let mut alphabet = vec!["zz".to_owned(), "q".to_owned(), ".zz".to_owned()];
    for segment in patterns.iter().flatten().filter(|segment| *segment != "**") {
        alphabet.push(segment.replace('*', "zz").replace('?', "q"));
    }
    let (mut some, mut all) = (false, true);
    let mut level = vec![split(name)];
    for _ in 0..3 {
        let deeper = level.iter().flat_map(|path| {
            alphabet.iter().map(|name| path.iter().chain([name]).cloned().collect::<Vec<String>>())
        });
        level = deeper.collect();
        for path in &level {
            let found = matches(path);
            some |= found;
            all &= found;
        }
    }
    Extent { itself: matches(&split(name)), some_below: some, all_below: all }
}

fn segments(pattern: &[String], path: &[String]) -> bool {
    match (pattern.first(), path.first()) {
        (None, None) => true,
        (Some(any), _) if any == "**" => {
            segments(&pattern[1..], path) || !path.is_empty() && segments(pattern, &path[1..])
        }
        (Some(segment), Some(name)) => glob(segment, name, false) && segments(&pattern[1..], &path[1..]),
        _ => false,
    }
}

fn braces(text: &str) -> Vec<String> {
    let Some((before, rest)) = text.split_once('{') else { return vec![text.to_owned()] };
    let (inside, after) = rest.split_once('}').unwrap();
    let texts = inside.split(',').map(|choice| format!("{before}{choice}{after}"));
    texts.flat_map(|text| braces(&text)).collect()
}

/// `guarded`: no wildcard matches what a shell gives a meaning to.
fn glob(pattern: &str, text: &str, guarded: bool) -> bool {
    let active = |c: char| ";&|<>(){}$`\n\r\0".contains(c);
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => {
            let mut left = text;
            loop {
                if glob(rest.as_str(), left, guarded) {
                    return true;
                }
                let mut skipped = left.chars();
                match skipped.next() {
                    Some(c) if !(guarded && active(c)) => left = skipped.as_str(),
                    _ => return false,
                }
            }
        }
        Some(wanted) => {
            let mut found = text.chars();
            let Some(c) = found.next() else { return false };
            let one = if wanted == '?' { !(guarded && active(c)) } else { wanted == c };
            one && glob(rest.as_str(), found.as_str(), guarded)
        }
    }
}

fn prefix(rule: &Rule, call: &Call) -> bool {
    let prefix = &rule.when.command_prefix;
    let begins = |words: &[&str]| {
        words.len() >= prefix.len() && words.iter().zip(prefix).all(|(found, wanted)| found == wanted)
    };
    prefix.is_empty()
        || call.command.is_some_and(|command| match rule.decision {
            Decision::Allow => command.simple.is_some_and(begins),
            _ => command.inner.iter().any(|words| begins(words)),
        })
}

fn values<'v>(value: &'v Value, path: &[&str]) -> Vec<&'v Value> {
    let Some((first, rest)) = path.split_first() else { return vec![value] };
    match value {
        Value::Array(items) if *first == "*" => items.iter().flat_map(|item| values(item, rest)).collect(),
        Value::Array(items) => first
            .parse::<usize>()
            .ok()
            .and_then(|at| items.get(at))
            .map(|item| values(item, rest))
            .unwrap_or_default(),
        Value::Object(map) => map.get(*first).map(|value| values(value, rest)).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn primary(rule: &Rule, call: &Call, filter: &PrimaryFilter) -> bool {
    let names = &call.descriptor.primary_arguments;
    let found: Vec<&Value> =
        names.iter().flat_map(|name| values(&call.arguments, &name.split('.').collect::<Vec<_>>())).collect();
    holds(rule, call, &found, filter.operator, &filter.value, runs(call))
}

fn argument(rule: &Rule, call: &Call, filter: &ArgumentFilter) -> bool {
    if filter.path == "args" {
        return whole(call, filter.operator, &filter.value);
    }
    let path = filter.path.strip_prefix("args.").unwrap();
    // One of them may lie in the other.
    let same =
        |name: &String| name.split('.').zip(path.split('.')).all(|(a, b)| a == b || a == "*" || b == "*");
    let program = runs(call) && call.descriptor.primary_arguments.iter().any(same);
    let found = values(&call.arguments, &path.split('.').collect::<Vec<_>>());
    holds(rule, call, &found, filter.operator, &filter.value, program)
}

fn runs(call: &Call) -> bool {
    matches!(call.descriptor.kind, ToolKind::Command | ToolKind::Code)
}

fn whole(call: &Call, operator: Operator, value: &Value) -> bool {
    let without = |value: &Value| {
        let mut value = value.clone();
        if let Value::Object(map) = &mut value {
            map.retain(|key, _| !call.descriptor.cosmetic_arguments.contains(key));
        }
        value
    };
    let found = without(&call.arguments);
    match operator {
        Operator::Equals => without(value) == found,
        Operator::NotEquals => without(value) != found,
        Operator::In => value.as_array().unwrap().iter().any(|value| without(value) == found),
        Operator::Digest => value.as_str() == Some(&*Digest::of(found.to_string()).to_string()),
        Operator::Exists => value == &Value::Bool(true),
        _ => false,
    }
}

/// The table of operators: of several values an allow needs all, what restricts any.
fn holds(
    rule: &Rule,
    call: &Call,
    found: &[&Value],
    operator: Operator,
    wanted: &Value,
    program: bool,
) -> bool {
    let allow = rule.decision == Decision::Allow;
    let one = |value: &&Value| {
        if operator != Operator::Digest && value.as_str().is_some_and(|text| text.len() > 64 << 10) {
            return !allow;
        }
        // What restricts a command looks at the commands inside as well.
        let inside: Vec<String> = match call.command {
            Some(command) if program && !allow => command.inner.iter().map(|words| words.join(" ")).collect(),
            _ => Vec::new(),
        };
        let equals = |wanted: &Value| {
            *value == wanted || wanted.as_str().is_some_and(|wanted| inside.iter().any(|text| text == wanted))
        };
        match operator {
            Operator::Equals => equals(wanted),
            Operator::In => wanted.as_array().unwrap().iter().any(equals),
            Operator::NotEquals => {
                let same_type = std::mem::discriminant(*value) == std::mem::discriminant(wanted);
                *value != wanted && (same_type || !allow)
            }
            Operator::Glob => value.as_str().is_some_and(|text| {
                braces(wanted.as_str().unwrap()).iter().any(|pattern| {
                    glob(pattern, text, program && allow)
                        || inside.iter().any(|text| glob(pattern, text, false))
                })
            }),
            Operator::Digest => wanted.as_str() == Some(&*Digest::of(value.to_string()).to_string()),
            _ => unreachable!("`exists` is looked at below"),
        }
    };
    match operator {
        Operator::Exists => wanted == &Value::Bool(!found.is_empty()),
        Operator::NotEquals if found.is_empty() => !allow,
        _ if allow => !found.is_empty() && found.iter().all(one),
        _ => found.iter().any(one),
    }
}

fn reach_url(rule: &Rule, matcher: &Matcher, url: &UrlFact) -> bool {
    let allow = rule.decision == Decision::Allow;
    if allow && url.ambiguous {
        return false;
    }
    let texts = [&matcher.exact, &matcher.subtree, &matcher.pattern];
    let Some(text) = texts.into_iter().flatten().next() else { return true };
    if let Some(exact) = &matcher.exact {
        return exact == url.canonical;
    }
    let Some(UrlRule { scheme, host, port, path, .. }) = url_rule(text) else { return false };
    let host = match host.strip_prefix('*') {
        Some("") => true,
        Some(suffix) => url.host.ends_with(suffix),
        None => url.host == *host,
    };
    let default = if url.scheme == "https" { 443 } else { 80 };
    let port = match *port {
        "*" => true,
        "" => url.port == default,
        port => port.parse() == Ok(url.port),
    };
    // What a server may read as another path is refused wherever the host matches.
    let path = url.ambiguous && !allow
        || if matcher.subtree.is_some() {
            path.is_empty() || url.path == *path || url.path.starts_with(&format!("{path}/"))
        } else {
            probe(path, url.path).itself
        };
    let query = !allow || !url.query || matcher.query.is_some();
    (*scheme == "*" || *scheme == url.scheme) && host && port && path && query
}

/// The path below a folder, component by component.
fn below(folder: &Path, path: &Path) -> Option<String> {
    let mut rest = path.components();
    folder.components().all(|wanted| rest.next() == Some(wanted)).then(|| text(rest.as_path()))
}

/// The names of a path, joined by slashes.
fn text(path: &Path) -> String {
    let mut text = String::new();
    for component in path.components() {
        match component {
            Component::RootDir => text.push('/'),
            Component::Normal(name) => {
                if !text.is_empty() && !text.ends_with('/') {
                    text.push('/');
                }
                text.push_str(name.to_str().unwrap());
            }
            _ => {}
        }
    }
    text
}

/// The names of this world need no more of Unicode than one letter.
fn fold(text: &str) -> String {
    text.replace("e\u{301}", "\u{e9}").to_lowercase()
}

fn searched(target: &Fact) -> bool {
    matches!(&target.what, What::Path(place) if place.tree && place.access == Access::Read)
}
