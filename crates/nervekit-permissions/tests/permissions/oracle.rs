//! The evaluator against a naive one, over random policies and calls.
//!
//! The naive one knows nothing of indexes, compiled rules and canonical forms: it looks at every rule of every
//! document, in the words of `permissions.md`, at facts about a small world that are written by hand.

mod generate;
mod naive;
mod universe;

use std::collections::BTreeMap;
use std::sync::Mutex;

use nervekit_permissions::*;

use crate::random::Random;
use generate::Generator;
use naive::{Naive, Outcome, Source};
use universe::{Call, Universe, What};

/// The documents of one random policy.
#[derive(Clone)]
struct Documents {
    set: RuleSet,
    planning: RuleSet,
    user: PolicyDocument,
    project: PolicyDocument,
    conversation: PolicyDocument,
}

impl Documents {
    fn random(generator: &Generator, random: &mut Random) -> Self {
        let set = |random: &mut Random, name: &str| {
            let mut set = RuleSet::new(name);
            set.rules = generator.rules(random, name, 5, false);
            set
        };
        let document = |random: &mut Random, name: &str| {
            let mut overlays = ["set", "plan-set", "other"].map(Overlay::new);
            for overlay in &mut overlays {
                overlay.rules = generator.rules(random, &format!("{name}-{}", overlay.rule_set_id), 4, false);
            }
            let mut document = PolicyDocument::new();
            document.overlays = overlays.into();
            document
        };
        let mut user = document(random, "user");
        user.guardrails = generator.rules(random, "guard", 2, true);
        // Some guardrails are bound to one rule set; priorities are unique among all of them.
        if let Some(rule) = user.guardrails.pop().filter(|_| random.chance(50)) {
            user.overlays[0].rules.push(rule);
        }
        Self {
            set: set(random, "set"),
            planning: set(random, "plan-set"),
            project: document(random, "project"),
            conversation: document(random, "conversation"),
            user,
        }
    }

    fn policy(&self) -> Policy {
        let builder = PolicyBuilder::new(&self.set).user(&self.user).project(&self.project);
        builder.conversation(&self.conversation).build().unwrap()
    }

    /// Every rule in force under a rule set.
    fn sources(&self, set: &RuleSet) -> Vec<Source> {
        let mut sources = Vec::new();
        let mut add = |scope: u8, rules: &[Rule]| {
            sources.extend(rules.iter().map(|rule| Source { scope, rule: rule.clone() }));
        };
        add(0, &builtin_rule_sets()[0].rules);
        add(1, &set.rules);
        add(2, &self.user.guardrails);
        for (scope, document) in [(2, &self.user), (3, &self.project), (4, &self.conversation)] {
            for overlay in document.overlays.iter().filter(|overlay| overlay.rule_set_id == set.id) {
                add(scope, &overlay.rules);
            }
        }
        sources
    }

    fn lists(&mut self) -> Vec<&mut Vec<Rule>> {
        let mut lists = vec![&mut self.set.rules, &mut self.planning.rules];
        for document in [&mut self.user, &mut self.project, &mut self.conversation] {
            lists.push(&mut document.guardrails);
            lists.extend(document.overlays.iter_mut().map(|overlay| &mut overlay.rules));
        }
        lists
    }

    /// Leaves out rule after rule as long as what is wrong stays wrong.
    fn shrink(mut self, wrong: impl Fn(&Self) -> bool) -> Self {
        for list in 0..self.lists().len() {
            for at in (0..self.lists()[list].len()).rev() {
                let mut smaller = self.clone();
                smaller.lists()[list].remove(at);
                if wrong(&smaller) {
                    self = smaller;
                }
            }
        }
        self
    }

    fn show(&self) -> String {
        let mut lines = Vec::new();
        for source in self.sources(&self.set).iter().chain(&self.sources(&self.planning)) {
            lines.push(format!("{} {}", source.scope, serde_json::to_string(&source.rule).unwrap()));
        }
        lines.sort();
        lines.dedup();
        lines.join("\n")
    }
}

/// What the engine says, in the words of the naive evaluator.
fn outcome(policy: &Policy, call: &ResolvedCall, thorough: bool) -> Outcome {
    let verdict = policy.decide(call);
    let mut outcome = Outcome {
        decision: verdict.decision(),
        matching: verdict.explain().into_iter().map(|rule| rule.rule.id).collect(),
        marks: Vec::new(),
        withholding: Vec::new(),
    };
    if thorough {
        let evidence = verdict.evidence();
        outcome.marks = evidence.marks.iter().map(|mark| (mark.mark, mark.target, mark.satisfied)).collect();
        outcome.withholding = evidence.withholding;
    }
    outcome
}

fn show(call: &Call) -> String {
    let targets = call.targets.iter().map(|target| match &target.what {
        What::Path(place) => format!(
            "{:?} {:?} tree: {} {place}",
            target.argument,
            place.access,
            place.tree,
            place = place.lexical.display()
        ),
        What::Url(access, url) => format!("{:?} {access:?} {}", target.argument, url.typed),
        What::Agent(profile) => format!("{:?} agent {profile}", target.argument),
        What::WholeTool => "whole tool".to_owned(),
    });
    let targets: Vec<String> = targets.collect();
    format!(
        "{} {} {:?} {:?}\n{}",
        call.descriptor.name,
        call.arguments,
        call.origin,
        call.risk,
        targets.join("\n")
    )
}

/// How often what was seen: a generator that never reaches a branch proves nothing about it.
type Tally = BTreeMap<String, usize>;

const CALLS: usize = 250;
const POLICIES: usize = 250;
const CALLS_PER_POLICY: usize = 50;

/// One world with its calls, and policies against them: 12,500 decisions.
fn round(seed: u64, tally: &mut Tally) {
    let mut random = Random::new(seed);
    let universe = Universe::new(seed % 4 == 3);
    let resolver = TargetResolver::new(universe.registered());
    let calls: Vec<Call> = (0..CALLS).map(|_| universe.call(&mut random)).collect();
    let canonical: Vec<ResolvedCall> = calls
        .iter()
        .map(|call| {
            resolver.resolve(&call.proposed("set")).unwrap_or_else(|error| panic!("{error}\n{}", show(call)))
        })
        .collect();
    let naive = Naive::new(&universe);
    for number in 0..POLICIES {
        let granted = random.below(CALLS);
        let generator = Generator { universe: &universe, calls: &calls, granted: &calls[granted] };
        let documents = Documents::random(&generator, &mut random);
        let policy = documents.policy();
        let sources = documents.sources(&documents.set);
        for turn in 0..CALLS_PER_POLICY {
            let at = if turn % 5 == 0 { granted } else { random.below(CALLS) };
            // Evidence is costly, and says little more.
            let thorough = turn % 10 < 2;
            let expect = |sources: &[Source]| {
                let mut expected = naive.decide(sources, &calls[at]);
                if !thorough {
                    (expected.marks, expected.withholding) = (Vec::new(), Vec::new());
                }
                expected
            };
            let expected = expect(&sources);
            let found = outcome(&policy, &canonical[at], thorough);
            if found != expected {
                let wrong = |documents: &Documents| {
                    expect(&documents.sources(&documents.set))
                        != outcome(&documents.policy(), &canonical[at], thorough)
                };
                let smallest = documents.shrink(wrong);
                panic!(
                    "seed {seed} policy {number} call {at}: {}\n{}\nexpected {:?}\nfound    {:?}",
                    show(&calls[at]),
                    smallest.show(),
                    expect(&smallest.sources(&smallest.set)),
                    outcome(&smallest.policy(), &canonical[at], thorough),
                );
            }
            *tally.entry(expected.decision.to_string()).or_default() += 1;
            for (mark, _, satisfied) in expected.marks {
                *tally.entry(format!("{mark} satisfied: {satisfied}")).or_default() += 1;
            }
            if !expected.withholding.is_empty() {
                *tally.entry("withholding".to_owned()).or_default() += 1;
            }
        }
    }
}

/// Runs rounds on as many threads as there are processors.
fn rounds(seeds: std::ops::Range<u64>, round: impl Fn(u64, &mut Tally) + Sync) -> Tally {
    let (left, tally) = (Mutex::new(seeds), Mutex::new(Tally::new()));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().next();
                    let Some(seed) = next else { break };
                    let mut found = Tally::new();
                    round(seed, &mut found);
                    for (what, count) in found {
                        *tally.lock().unwrap().entry(what).or_default() += count;
                    }
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

#[test]
fn a_hundred_thousand_decisions_are_those_of_the_naive_evaluator() {
    let tally = rounds(0..8, round);
    println!("seeds 0..8: {tally:?}");
    let count = |what: &str| tally.get(what).copied().unwrap_or_default();
    assert_eq!(count("allow") + count("prompt") + count("deny"), 8 * POLICIES * CALLS_PER_POLICY);
    for (what, least) in [
        ("allow", 10_000),
        ("prompt", 10_000),
        ("deny", 10_000),
        ("control_file satisfied: false", 300),
        ("control_file satisfied: true", 20),
        ("protected_read satisfied: false", 300),
        ("protected_read satisfied: true", 5),
        ("withholding", 50),
    ] {
        assert!(count(what) >= least, "{what}: {} of at least {least}; {tally:?}", count(what));
    }
}

/// The whole engine: planning that nobody confirmed yet, and what a search may see.
fn engine_round(seed: u64, tally: &mut Tally) {
    let mut random = Random::new(seed ^ 0x5eed);
    let universe = Universe::new(seed % 4 == 3);
    let calls: Vec<Call> = (0..60).map(|_| universe.call(&mut random)).collect();
    let generator = Generator { universe: &universe, calls: &calls, granted: &calls[0] };
    let naive = Naive::new(&universe);
    let entries =
        ["a", "b", "x", "a/b/c", ".env", "deep/.env", ".ssh/id", "a/x", "plans", "data/store", "vendor/a/x"];
    for number in 0..40 {
        let documents = Documents::random(&generator, &mut random);
        let engine = RuleEngine::new(universe.registered())
            .rule_set(documents.set.clone())
            .rule_set(documents.planning.clone())
            .user_document(documents.user.clone())
            .project_document(documents.project.clone());
        let (coding, planning) = (documents.sources(&documents.set), documents.sources(&documents.planning));
        for call in &calls[..20] {
            let proposed = call.proposed("plan-set").mode(Mode::Planning).until_confirmed("set");
            let evaluation = engine.evaluate(proposed.conversation_document(documents.conversation.clone()));
            let of_planning = naive.decide(&planning, call);
            let plans_only = is_planning(&naive, &of_planning, call);
            let expected = if plans_only {
                of_planning.decision
            } else {
                of_planning.decision.stricter(naive.decide(&coding, call).decision)
            };
            assert_eq!(
                evaluation.decision(),
                expected,
                "seed {seed} policy {number}: {}\n{}\n{}",
                evaluation.evidence.reason,
                show(call),
                documents.show()
            );
            *tally.entry(expected.to_string()).or_default() += 1;
            for (index, target) in evaluation.targets.iter().enumerate() {
                let Some(filter) = &target.entries else { continue };
                for entry in entries {
                    let shows = |sources| naive.sees(sources, call, index, entry);
                    let expected = shows(&planning) && (plans_only || shows(&coding));
                    assert_eq!(
                        filter.allows(entry),
                        expected,
                        "seed {seed} policy {number} entry {entry}: {}\n{}",
                        show(call),
                        documents.show()
                    );
                    *tally.entry(format!("entry seen: {expected}")).or_default() += 1;
                }
            }
        }
    }
}

/// Talking to the person, and writes below the plans.
fn is_planning(naive: &Naive, outcome: &Outcome, call: &Call) -> bool {
    let plan = |index: usize| match &call.targets[index].what {
        What::Path(place) => {
            place.access == Access::Write
                && naive.is_plan(&place.resolved)
                && outcome.marks.iter().all(|(_, target, _)| *target != index)
        }
        _ => false,
    };
    call.risk == Risk::Interaction || (0..call.targets.len()).all(plan)
}

#[test]
fn the_engine_plans_and_searches_as_the_naive_evaluator_does() {
    let tally = rounds(0..8, engine_round);
    println!("seeds 0..8: {tally:?}");
    for what in ["allow", "prompt", "deny", "entry seen: true", "entry seen: false"] {
        assert!(tally.get(what).is_some_and(|count| *count >= 100), "{what}; {tally:?}");
    }
}
