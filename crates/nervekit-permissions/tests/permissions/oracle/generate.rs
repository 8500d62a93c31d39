//! Random rules over the small world.

use nervekit_permissions::*;
use nervekit_types::Digest;
use serde_json::{Value, json};

use super::universe::{COMMANDS, Call, URLS, Universe, What};
use crate::random::Random;

const TOOLS: [&str; 9] = ["read", "grep", "write", "copy", "bash", "fetch", "upload", "delegate", "note"];
const GROUPS: [&str; 6] = ["inspection", "editing", "bulk", "shell", "web", "agents"];
const PATTERNS: [&str; 24] = [
    "**",
    "a/**",
    "a/*",
    "a/**/c",
    "*/b",
    "**/b",
    "b",
    "{a,c}/**",
    "?/x",
    "**/.env",
    "**/.ENV",
    "**/*",
    "*",
    "${projectDir}/a/**",
    "AGENTS.md",
    "**/agents.md",
    "caf\u{e9}",
    "Cafe\u{301}",
    "x",
    "a/b/?",
    "**/{x,c}",
    "p.md",
    ".*",
    "z",
];
const NAMES: [&str; 16] = [
    "a",
    "a/b",
    "a/b/c",
    "b",
    "c",
    "AGENTS.md",
    "agents2",
    ".env",
    ".git/config",
    "caf\u{e9}",
    "p.md",
    "id",
    "z",
    "t",
    "config/permissions.json",
    ".ssh/id",
];
const ABSOLUTE: [&str; 8] =
    ["outside/secret", "outside/a", "outside", "home/.ssh/id", "project/a", "other/z", "alias/z", "temp/t"];
const ABSOLUTE_PATTERNS: [&str; 5] = ["**/secret", "**/outside/**", "**/alias/*", "**/z", "**"];
const GLOBS: [&str; 12] = [
    "*",
    "cargo *",
    "rm *",
    "git push",
    "cargo test*",
    "*push",
    "cargo {test,build} *",
    "fast",
    "?ast",
    "print*",
    "N-{1,22}",
    "https://docs.test/*",
];
const PREFIXES: [&[&str]; 5] = [&["cargo", "test"], &["rm"], &["git", "push"], &["cargo"], &["nohup"]];

/// A pattern or the top of a subtree over URLs, taken apart by hand.
pub(crate) struct UrlRule {
    text: &'static str,
    pub(crate) scheme: &'static str,
    /// `*`, or `*.` and a suffix, or a host.
    pub(crate) host: &'static str,
    /// Empty for that of the scheme.
    pub(crate) port: &'static str,
    pub(crate) path: &'static str,
}

#[rustfmt::skip]
const URL_RULES: [UrlRule; 12] = [
    UrlRule { text: "https://docs.test/**", scheme: "https", host: "docs.test", port: "", path: "**" },
    UrlRule { text: "https://docs.test/a/*", scheme: "https", host: "docs.test", port: "", path: "a/*" },
    UrlRule { text: "https://docs.test/a", scheme: "https", host: "docs.test", port: "", path: "a" },
    UrlRule { text: "https://docs.test", scheme: "https", host: "docs.test", port: "", path: "" },
    UrlRule { text: "https://*.docs.test/**", scheme: "https", host: "*.docs.test", port: "", path: "**" },
    UrlRule { text: "*://docs.test:*/**", scheme: "*", host: "docs.test", port: "*", path: "**" },
    UrlRule { text: "*://*/**", scheme: "*", host: "*", port: "", path: "**" },
    UrlRule { text: "https://docs.test:8443/**", scheme: "https", host: "docs.test", port: "8443", path: "**" },
    UrlRule { text: "http://127.0.0.1:8080/**", scheme: "http", host: "127.0.0.1", port: "8080", path: "**" },
    UrlRule { text: "https://b\u{fc}cher.test/**", scheme: "https", host: "xn--bcher-kva.test", port: "", path: "**" },
    UrlRule { text: "*://*:*/docs.test", scheme: "*", host: "*", port: "*", path: "docs.test" },
    UrlRule { text: "HTTPS://DOCS.test/a/**", scheme: "https", host: "docs.test", port: "", path: "a/**" },
];

#[rustfmt::skip]
const SUBTREES: [UrlRule; 4] = [
    UrlRule { text: "https://docs.test/", scheme: "https", host: "docs.test", port: "443", path: "" },
    UrlRule { text: "https://docs.test/a/", scheme: "https", host: "docs.test", port: "443", path: "a" },
    UrlRule { text: "https://x.docs.test/a", scheme: "https", host: "x.docs.test", port: "443", path: "a" },
    UrlRule { text: "http://Docs.test:8080/", scheme: "http", host: "docs.test", port: "8080", path: "" },
];

pub(crate) fn url_rule(text: &str) -> Option<&'static UrlRule> {
    URL_RULES.iter().chain(&SUBTREES).find(|rule| rule.text == text)
}

pub(crate) struct Generator<'u> {
    pub(crate) universe: &'u Universe,
    /// Calls whose arguments rules name.
    pub(crate) calls: &'u [Call],
    /// The call that a person answered before.
    pub(crate) granted: &'u Call,
}

impl Generator<'_> {
    /// Up to `most` rules of one group.
    pub(crate) fn rules(&self, random: &mut Random, name: &str, most: usize, guardrails: bool) -> Vec<Rule> {
        let mut priorities: Vec<i16> = (-10..10).collect();
        let decisions: &[Decision] = if guardrails {
            &[Decision::Prompt, Decision::Deny]
        } else {
            &[Decision::Allow, Decision::Allow, Decision::Prompt, Decision::Deny]
        };
        (0..random.below(most + 1))
            .map(|number| {
                let decision = *random.pick(decisions);
                let rule = Rule::new(format!("{name}-{number}"), decision)
                    .priority(priorities.swap_remove(random.below(priorities.len())))
                    .enabled(!random.chance(5))
                    .when(self.filter(random, decision));
                if guardrails { rule.guardrail() } else { rule }
            })
            .collect()
    }

    fn filter(&self, random: &mut Random, decision: Decision) -> Filter {
        if decision == Decision::Allow && random.chance(15) {
            return self.grant(random);
        }
        let mut filter = Filter::new();
        if random.chance(45) {
            for _ in 0..=random.below(3) {
                filter = filter.tool(*random.pick(&TOOLS));
            }
        }
        if random.chance(15) {
            filter = filter.tool_group(*random.pick(&GROUPS));
        }
        if random.chance(15) {
            filter = filter.base_risk(*random.pick(&[Risk::Read, Risk::Write, Risk::Network, Risk::Unknown]));
        }
        if random.chance(10) {
            let kinds = [ToolKind::Filesystem, ToolKind::Command, ToolKind::Other];
            filter = filter.tool_kind(*random.pick(&kinds));
        }
        if random.chance(10) {
            filter = filter.origin(*random.pick(&[CallOrigin::Model, CallOrigin::User]));
        }
        if random.chance(12) {
            let (operator, value) = Self::condition(random, None);
            filter = filter.primary_argument(operator, value);
        }
        if random.chance(25) {
            for _ in 0..=random.below(2) {
                filter = self.argument(random, filter);
            }
        }
        if random.chance(10) {
            filter = filter.command_prefix(random.pick(&PREFIXES).iter().copied());
        }
        if random.chance(15) {
            filter = filter.primary_target(self.matcher(random, decision));
        }
        if random.chance(45) {
            let matcher = self.matcher(random, decision);
            filter =
                if random.chance(40) { filter.any_target(matcher) } else { filter.every_target(matcher) };
        }
        filter
    }

    /// What a person remembers: one target and no other.
    fn grant(&self, random: &mut Random) -> Filter {
        let call = self.granted;
        let filter = Filter::new().tool(&*call.descriptor.name);
        let What::Path(place) = &random.pick(&call.targets).what else { return filter };
        let matcher = Matcher::new().absolute().exact(place.resolved.to_str().unwrap());
        if random.chance(60) { filter.every_target(matcher) } else { filter.primary_target(matcher) }
    }

    fn argument(&self, random: &mut Random, filter: Filter) -> Filter {
        if random.chance(15) {
            let call = random.pick(self.calls);
            let mut value = call.arguments.clone();
            if random.chance(30) {
                value["note"] = json!("changed");
            }
            let digest = |mut value: Value| {
                let map = value.as_object_mut().unwrap();
                map.retain(|key, _| !call.descriptor.cosmetic_arguments.contains(key));
                json!(Digest::of(value.to_string()).to_string())
            };
            let (operator, value) = match random.below(5) {
                0 => (Operator::NotEquals, value),
                1 => (Operator::In, json!([value, {}])),
                2 => (Operator::Digest, digest(value)),
                3 => (Operator::Exists, json!(random.chance(50))),
                _ => (Operator::Equals, value),
            };
            return filter.argument("args", operator, value);
        }
        let paths = [
            "mode",
            "mode",
            "level",
            "labels.*",
            "labels.0",
            "labels",
            "key",
            "path",
            "command",
            "code",
            "cwd",
            "url",
            "from",
            "more.*",
            "more",
            "tasks.*.profile",
            "paths.0",
        ];
        let path = *random.pick(&paths);
        let (operator, value) = Self::condition(random, Some(path));
        filter.argument(format!("args.{path}"), operator, value)
    }

    fn condition(random: &mut Random, path: Option<&str>) -> (Operator, Value) {
        let near = match path {
            Some("level") => random.pick(&[json!(1), json!("1"), json!(true), Value::Null]).clone(),
            Some("mode") => json!(*random.pick(&["fast", "slow", "look"])),
            Some("command") => json!(random.pick(&COMMANDS).text),
            Some("url") => json!(random.pick(&URLS).typed),
            Some("labels") => random.pick(&[json!(["x"]), json!([])]).clone(),
            Some(path) if path.starts_with("labels") => random.pick(&[json!("x"), json!(1)]).clone(),
            Some(path) if path.starts_with("tasks") => json!("scout"),
            None => random
                .pick(&[json!("git push"), json!("rm -rf d"), json!("N-1"), json!("a"), json!(7)])
                .clone(),
            Some(_) => json!(*random.pick(&["a", "a/b", "b", "N-1", "exit", "."])),
        };
        match random.below(8) {
            0 | 1 => (Operator::Equals, near),
            2 => (Operator::NotEquals, near),
            3 => (Operator::In, json!([near, "fast"])),
            4 => (Operator::Exists, json!(random.chance(60))),
            5 => (Operator::Digest, json!(Digest::of(near.to_string()).to_string())),
            _ => (Operator::Glob, json!(*random.pick(&GLOBS))),
        }
    }

    fn matcher(&self, random: &mut Random, decision: Decision) -> Matcher {
        let allow = decision == Decision::Allow;
        let mut matcher = Matcher::new();
        if random.chance(30) {
            matcher = matcher.access(*random.pick(&[Access::Read, Access::Write]));
        }
        match random.below(20) {
            0 => matcher,
            1 => matcher.kind(*random.pick(&[TargetKind::Path, TargetKind::Url, TargetKind::WholeTool])),
            2 => matcher.profile("scout"),
            3..=5 => {
                let fact = random.pick(&URLS);
                let query = |matcher: Matcher| matcher.any_query();
                let any = random.chance(40);
                match random.below(4) {
                    0 => matcher.exact(fact.canonical),
                    1 if any => query(matcher.subtree(random.pick(&SUBTREES).text)),
                    1 => matcher.subtree(random.pick(&SUBTREES).text),
                    _ if any => query(matcher.pattern(random.pick(&URL_RULES).text)),
                    _ => matcher.pattern(random.pick(&URL_RULES).text),
                }
            }
            6 => {
                let bound =
                    self.calls.iter().flat_map(|call| &call.targets).filter_map(|target| {
                        match &target.what {
                            What::Path(place) => place.content,
                            _ => None,
                        }
                    });
                let bound: Vec<Digest> = bound.collect();
                let content = if bound.is_empty() { Digest::of("") } else { *random.pick(&bound) };
                matcher.kind(TargetKind::Path).content(content)
            }
            7 | 8 => {
                let name = random.pick(&ABSOLUTE);
                let path = self.universe.base.join(name);
                let path = path.to_str().unwrap();
                match random.below(3) {
                    1 if !allow => matcher.absolute().subtree(path),
                    2 if !allow => matcher.absolute().pattern(*random.pick(&ABSOLUTE_PATTERNS)),
                    _ => matcher.absolute().exact(path),
                }
            }
            _ => {
                if random.chance(15) {
                    matcher = matcher.scope(*random.pick(&[TargetScope::Exact, TargetScope::Tree]));
                }
                let mut shorthand = true;
                if random.chance(45) {
                    let known = random.pick(&self.universe.roots);
                    if !(allow && matches!(known.root, Root::Home | Root::Temp)) {
                        matcher = matcher.root(known.root.clone());
                        shorthand = false;
                    }
                }
                match random.below(7) {
                    0 => matcher,
                    1 | 2 => matcher.exact(*random.pick(&NAMES)),
                    3 => matcher.subtree(if random.chance(20) { "" } else { *random.pick(&NAMES) }),
                    _ => {
                        let pattern = *random.pick(&PATTERNS);
                        // The shorthand names a root, so it stands beside no other.
                        let pattern =
                            pattern.strip_prefix("${projectDir}/").filter(|_| !shorthand).unwrap_or(pattern);
                        if pattern.starts_with("${") {
                            matcher.root(Root::Project).pattern("a/**")
                        } else {
                            matcher.pattern(pattern)
                        }
                    }
                }
            }
        }
    }
}
