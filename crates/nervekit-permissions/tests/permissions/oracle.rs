//! The evaluator against a naive one, over random policies and calls.
//!
//! The naive one knows nothing of indexes, orders and forms: it looks at every rule of every document, in
//! the words of `permissions.md`, over files of one project.

use std::collections::BTreeMap;

use nervekit_permissions::*;
use serde_json::{Value, json};

use crate::world::World;

/// A small generator, so that a seed that fails is all one needs.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // xorshift64*; source: Vigna, "An experimental exploration of Marsaglia's xorshift generators".
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let value = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(value).unwrap() % bound
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }
}

const TOOLS: [&str; 3] = ["alpha", "beta", "gamma"];
const GROUPS: [&str; 3] = ["one", "two", "three"];
const PATTERNS: [&str; 8] = ["**", "a/**", "a/*", "*/b", "**/b", "b", "{a,c}/**", "?/c"];
const PATHS: [&str; 9] = ["a", "b", "c", "a/b", "a/c", "b/c", "a/b/c", "c/b/b", "x/y"];

fn filter(random: &mut Random) -> Filter {
    let mut filter = Filter::new();
    if random.chance(40) {
        filter = filter.tool(*random.pick(&TOOLS));
        if random.chance(30) {
            filter = filter.tool(*random.pick(&TOOLS));
        }
    }
    if random.chance(25) {
        filter = filter.tool_group(*random.pick(&GROUPS));
    }
    if random.chance(20) {
        filter = filter.base_risk(*random.pick(&[Risk::Read, Risk::Write, Risk::Network]));
    }
    if random.chance(15) {
        filter = filter.tool_kind(*random.pick(&[ToolKind::Filesystem, ToolKind::Other]));
    }
    if random.chance(15) {
        filter = filter.origin(*random.pick(&[CallOrigin::Model, CallOrigin::User]));
    }
    if random.chance(30) {
        let operator = *random.pick(&[Operator::Equals, Operator::NotEquals, Operator::In, Operator::Exists]);
        let value = match operator {
            Operator::In => json!(["x", "y"]),
            Operator::Exists => json!(random.chance(50)),
            _ => json!(*random.pick(&["x", "y"])),
        };
        filter = filter.argument("args.mode", operator, value);
    }
    let matcher = |random: &mut Random| {
        let mut matcher = Matcher::new();
        if random.chance(30) {
            matcher = matcher.access(*random.pick(&[Access::Read, Access::Write]));
        }
        match random.below(4) {
            0 => matcher.exact(*random.pick(&PATHS)),
            1 => matcher.subtree(*random.pick(&PATHS)),
            2 => matcher.pattern(*random.pick(&PATTERNS)),
            _ => matcher,
        }
    };
    if random.chance(20) {
        filter = filter.primary_target(matcher(random));
    }
    if random.chance(40) {
        let matcher = matcher(random);
        filter = if random.chance(50) { filter.any_target(matcher) } else { filter.every_target(matcher) };
    }
    filter
}

fn rules(random: &mut Random, name: &str, guardrails: bool) -> Vec<Rule> {
    let mut priorities: Vec<i16> = (-10..10).collect();
    let decisions: &[Decision] = if guardrails {
        &[Decision::Prompt, Decision::Deny]
    } else {
        &[Decision::Allow, Decision::Prompt, Decision::Deny]
    };
    (0..random.below(5))
        .map(|number| {
            let priority = priorities.swap_remove(random.below(priorities.len()));
            let rule = Rule::new(format!("{name}-{number}"), *random.pick(decisions))
                .priority(priority)
                .enabled(!random.chance(10))
                .when(filter(random));
            if guardrails { rule.guardrail() } else { rule }
        })
        .collect()
}

/// What the naive evaluator knows of a call.
struct Call {
    tool: String,
    groups: Vec<String>,
    kind: ToolKind,
    risk: Risk,
    origin: CallOrigin,
    mode: Option<String>,
    /// Path below the project, access, whether it is a tree.
    targets: Vec<(String, Access, bool)>,
}

fn call(random: &mut Random) -> (Call, ToolDescriptor, Value, Vec<Target>) {
    let tool = *random.pick(&TOOLS);
    let kind = *random.pick(&[ToolKind::Filesystem, ToolKind::Other]);
    let risk = *random.pick(&[Risk::Read, Risk::Write, Risk::Network]);
    let mut descriptor = ToolDescriptor::new(tool, kind, risk);
    for group in GROUPS {
        if random.chance(40) {
            descriptor = descriptor.group(group);
        }
    }
    let mode = random.chance(70).then(|| (*random.pick(&["x", "y", "z"])).to_owned());
    let targets: Vec<_> = (0..=random.below(3))
        .map(|_| {
            let access = *random.pick(&[Access::Read, Access::Write]);
            ((*random.pick(&PATHS)).to_owned(), access, random.chance(30))
        })
        .collect();
    let raw = targets
        .iter()
        .map(|(path, access, tree)| {
            let mut target = Target::path(path);
            target.access = *access;
            if *tree { target.tree() } else { target }
        })
        .collect();
    let arguments = mode.as_ref().map_or_else(|| json!({}), |mode| json!({ "mode": mode }));
    let call = Call {
        tool: tool.to_owned(),
        groups: descriptor.groups.clone(),
        kind,
        risk,
        origin: *random.pick(&[CallOrigin::Model, CallOrigin::User]),
        mode,
        targets,
    };
    (call, descriptor, arguments, raw)
}

mod naive {
    use super::*;

    #[derive(PartialEq)]
    enum Reach {
        None,
        Part,
        Whole,
    }

    fn glob(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern.first(), path.first()) {
            (None, None) => true,
            (Some(&"**"), _) => glob(&pattern[1..], path) || !path.is_empty() && glob(pattern, &path[1..]),
            (Some(segment), Some(name)) => {
                let one = match *segment {
                    "*" => true,
                    "?" => name.chars().count() == 1,
                    literal => literal == *name,
                };
                one && glob(&pattern[1..], &path[1..])
            }
            _ => false,
        }
    }

    fn matches(matcher: &Matcher, path: &str) -> bool {
        let below = |folder: &str| path == folder || path.starts_with(&format!("{folder}/"));
        if let Some(exact) = &matcher.exact {
            return path == exact;
        }
        if let Some(subtree) = &matcher.subtree {
            return below(subtree);
        }
        let Some(pattern) = &matcher.pattern else { return true };
        let alternatives = match pattern.as_str() {
            "{a,c}/**" => vec!["a/**", "c/**"],
            other => vec![other],
        };
        let names: Vec<&str> = path.split('/').collect();
        alternatives.iter().any(|text| glob(&text.split('/').collect::<Vec<_>>(), &names))
    }

    /// Every name that matters below a path, two levels deep: no pattern here tells deeper ones apart.
    fn below(path: &str) -> Vec<String> {
        let names = ["a", "b", "c", "x", "y", "zz"];
        let mut all = Vec::new();
        let mut level = vec![path.to_owned()];
        for _ in 0..2 {
            level = level
                .iter()
                .flat_map(|path| names.iter().map(move |name| format!("{path}/{name}")))
                .collect();
            all.extend(level.clone());
        }
        all
    }

    fn reach(rule: &Rule, call: &Call, matcher: &Matcher, target: &(String, Access, bool)) -> Reach {
        let (path, access, tree) = target;
        let back = rule.decision == Decision::Deny
            && matcher.access == Some(Access::Read)
            && *access == Access::Write
            && call.kind == ToolKind::Filesystem;
        if matcher.access.is_some_and(|wanted| wanted != *access) && !back {
            return Reach::None;
        }
        let itself = matches(matcher, path);
        if !tree {
            return if itself { Reach::Whole } else { Reach::None };
        }
        if rule.decision == Decision::Allow {
            let whole = itself && below(path).iter().all(|path| matches(matcher, path));
            return if whole { Reach::Whole } else { Reach::None };
        }
        if itself {
            Reach::Whole
        } else if below(path).iter().any(|path| matches(matcher, path)) {
            Reach::Part
        } else {
            Reach::None
        }
    }

    fn meets(rule: &Rule, call: &Call, matcher: &Matcher, target: &(String, Access, bool)) -> bool {
        match reach(rule, call, matcher, target) {
            Reach::Whole => true,
            Reach::Part => !(rule.decision == Decision::Deny && target.1 == Access::Read && target.2),
            Reach::None => false,
        }
    }

    fn argument(rule: &Rule, call: &Call) -> bool {
        let restrict = rule.decision != Decision::Allow;
        rule.when.arguments.iter().all(|filter| match (&filter.operator, &call.mode) {
            (Operator::Equals, mode) => mode.as_deref() == filter.value.as_str(),
            (Operator::NotEquals, None) => restrict,
            (Operator::NotEquals, mode) => mode.as_deref() != filter.value.as_str(),
            (Operator::In, mode) => {
                mode.as_ref().is_some_and(|mode| filter.value.as_array().unwrap().contains(&json!(mode)))
            }
            (Operator::Exists, mode) => json!(mode.is_some()) == filter.value,
            _ => unreachable!("no other operator is generated"),
        })
    }

    fn applies(rule: &Rule, call: &Call, targets: &[(usize, &(String, Access, bool))]) -> bool {
        let when = &rule.when;
        let any = |list: &[String], of: &[String]| list.is_empty() || list.iter().any(|one| of.contains(one));
        rule.enabled
            && any(&when.tool_names, std::slice::from_ref(&call.tool))
            && any(&when.tool_groups, &call.groups)
            && (when.tool_kinds.is_empty() || when.tool_kinds.contains(&call.kind))
            && (when.base_risks.is_empty() || when.base_risks.contains(&call.risk))
            && (when.origins.is_empty() || when.origins.contains(&call.origin))
            && argument(rule, call)
            && when.primary_target.as_ref().is_none_or(|matcher| {
                targets.iter().any(|(index, target)| *index == 0 && meets(rule, call, matcher, target))
            })
            && when.targets.as_ref().is_none_or(|filter| match filter.quantifier {
                Quantifier::Any => {
                    targets.iter().any(|(_, target)| meets(rule, call, &filter.matcher, target))
                }
                Quantifier::All => {
                    targets.iter().all(|(_, target)| meets(rule, call, &filter.matcher, target))
                }
            })
    }

    fn covers(scope: u8, rule: &Rule, call: &Call, index: usize) -> bool {
        let when = &rule.when;
        if when.primary_target.is_none() && when.targets.is_none() {
            // No target comes from the argument `mode`.
            return scope < 2 || when.arguments.is_empty();
        }
        let whole = |matcher: &Matcher| reach(rule, call, matcher, &call.targets[index]) == Reach::Whole;
        index == 0 && when.primary_target.as_ref().is_some_and(whole)
            || when
                .targets
                .as_ref()
                .is_some_and(|filter| filter.quantifier == Quantifier::All && whole(&filter.matcher))
    }

    /// The rules of all sources with their scope, and the decision in the words of the specification.
    pub(super) fn decide(sources: &[(u8, Rule)], call: &Call) -> Decision {
        let strength = |(scope, rule): &(u8, Rule)| {
            let enforcement = match (rule.enforcement, rule.decision) {
                (Enforcement::Overridable, _) => 0,
                (Enforcement::Guardrail, Decision::Deny) => 2,
                (Enforcement::Guardrail, _) => 1,
            };
            (enforcement, *scope, rule.priority)
        };
        let all: Vec<_> = call.targets.iter().enumerate().collect();
        let best = |targets: &[(usize, &(String, Access, bool))], but: Option<&str>| {
            sources
                .iter()
                .filter(|(_, rule)| Some(rule.id.as_str()) != but && applies(rule, call, targets))
                .max_by_key(|source| strength(source))
        };
        let Some((scope, winner)) = best(&all, None) else { return Decision::Prompt };
        match winner.decision {
            Decision::Deny if *scope == 1 && call.origin == CallOrigin::User => Decision::Prompt,
            Decision::Allow => {
                let mut decision = Decision::Allow;
                for (index, target) in &all {
                    if !covers(*scope, winner, call, *index) {
                        let without =
                            best(&[(*index, *target)], Some(&winner.id)).map(|(_, rule)| rule.decision);
                        decision = decision.stricter(match without {
                            Some(Decision::Deny) => Decision::Deny,
                            _ => Decision::Prompt,
                        });
                    }
                }
                decision
            }
            other => other,
        }
    }
}

#[test]
fn random_policies_are_decided_as_the_naive_evaluator_decides_them() {
    let world = World::new("supervised");
    let resolver = TargetResolver::new(world.roots());
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 1..=1_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut set = RuleSet::new("random");
        set.rules = rules(&mut random, "set", false);
        let mut sources: Vec<(u8, Rule)> =
            builtin_rule_sets()[0].rules.iter().map(|rule| (0, rule.clone())).collect();
        sources.extend(set.rules.iter().map(|rule| (1, rule.clone())));
        let document = |random: &mut Random, scope: u8, sources: &mut Vec<(u8, Rule)>| {
            let mut document = PolicyDocument::new();
            if scope == 2 {
                document.guardrails = rules(random, "guard", true);
                sources.extend(document.guardrails.iter().map(|rule| (2, rule.clone())));
            }
            let mut overlay = Overlay::new("random");
            overlay.rules = rules(random, &format!("scope{scope}"), false);
            sources.extend(overlay.rules.iter().map(|rule| (scope, rule.clone())));
            let mut other = Overlay::new("other");
            other.rules = rules(random, &format!("other{scope}"), false);
            document.overlay(overlay).overlay(other)
        };
        let user = document(&mut random, 2, &mut sources);
        let project = document(&mut random, 3, &mut sources);
        let conversation = document(&mut random, 4, &mut sources);
        let policy = PolicyBuilder::new(&set)
            .user(&user)
            .project(&project)
            .conversation(&conversation)
            .build()
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for round in 0..10 {
            let (call, descriptor, arguments, targets) = call(&mut random);
            let proposed = ProposedCall::new(
                descriptor,
                EffectiveArguments::new(arguments).unwrap(),
                call.origin,
                "random",
            )
            .working_directory(world.path("project"))
            .targets(targets);
            let canonical = resolver.resolve(&proposed).unwrap();
            let verdict = policy.decide(&canonical);
            let expected = naive::decide(&sources, &call);
            assert_eq!(
                verdict.decision(),
                expected,
                "seed {seed} round {round}: {}\n{:#?}\n{:#?}",
                verdict.evidence().reason,
                verdict.explain(),
                call.targets
            );
            *seen.entry(expected.as_str()).or_default() += 1;
        }
    }
    println!("decisions over seeds 1..=1000: {seen:?}");
    // The generator must reach every decision often, or agreeing means nothing.
    assert!(seen.len() == 3 && seen.values().all(|count| *count > 700), "{seen:?}");
}
