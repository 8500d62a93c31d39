//! The scenarios of `permissions.md`, and what else it states about precedence and coverage.

use nervekit_permissions::*;
use serde_json::json;

use crate::world::*;

use Decision::{Allow, Deny, Prompt};

#[test]
fn scenario_01_read_only() {
    let world = World::new("read_only");
    assert_eq!(world.write_call("src/a"), Deny);
    assert_eq!(world.fetch("https://a.test/"), Deny);
    assert_eq!(world.bash("ls"), Deny);
    assert_eq!(world.read("src/a"), Allow);
    assert_eq!(world.decide(&ask_user(), json!({"question": "?"})), Allow);
    assert_eq!(world.decide(&subagent(), json!({"tasks": [{"profile": "explorer"}]})), Allow);
    // A mark asks where a rule would allow; here it does not soften the refusal.
    assert_eq!(world.write_call("AGENTS.md"), Deny);
}

#[test]
fn scenario_02_supervised() {
    let world = World::new("supervised");
    assert_eq!(world.read("src/a"), Allow);
    assert_eq!(world.decide(&ask_user(), json!({})), Allow);
    for decision in [world.write_call("src/a"), world.fetch("https://a.test/"), world.bash("ls")] {
        assert_eq!(decision, Prompt);
    }
    assert_eq!(world.decide(&subagent(), json!({"tasks": [{"profile": "explorer"}]})), Prompt);
}

#[test]
fn scenario_03_autonomous() {
    let world = World::new("autonomous");
    assert_eq!(world.bash("cargo test"), Allow);
    assert_eq!(world.write_call("src/a"), Allow);
    assert_eq!(world.write_call("../outside/a"), Allow);
    assert_eq!(world.write_call(".git/config"), Prompt);
    assert_eq!(world.decide(&bash(), json!({"command": "ls", "cwd": "src"})), Allow);
    let world = world.guardrail(deny(Filter::new().command_prefix(["git", "push"])));
    assert_eq!(world.bash("git push"), Deny);
    assert_eq!(world.bash("git pull"), Allow);
    // What cannot be judged is refused.
    assert_eq!(world.decide(&write(), json!({"content": "x"})), Deny);
    assert_eq!(world.decide(&write(), json!({"path": 1})), Deny);
    assert_eq!(world.write_call("a\0b"), Deny);
    let many: Vec<String> = (0..257).map(|number| format!("f{number}")).collect();
    assert_eq!(world.decide(&grep(), json!({"paths": many})), Deny);
    assert_eq!(world.decide(&grep(), json!({"paths": many[..256]})), Allow);
    let nowhere = ProposedCall::new(
        read(),
        EffectiveArguments::new(json!({"path": "a"})).unwrap(),
        CallOrigin::Model,
        "autonomous",
    );
    assert_eq!(world.engine().evaluate(nowhere).decision(), Deny);
}

#[test]
fn scenario_04_planning_writes_plans_only() {
    let world = World::new("planning");
    let plan = world.path("plans/a.md");
    assert_eq!(world.write_call(plan.to_str().unwrap()), Allow);
    assert_eq!(world.write_call("src/a"), Deny);
    assert_eq!(world.decide(&write_two(), json!({"a": plan, "b": "src/a"})), Deny);
    assert_eq!(world.decide(&write_two(), json!({"a": plan, "b": world.path("plans/b.md")})), Allow);
    assert_eq!(world.bash("ls"), Prompt);
    assert_eq!(world.fetch("https://a.test/"), Allow);
}

#[test]
fn scenario_05_a_guardrail_beats_any_allow() {
    let world = World::new("supervised")
        .guardrail(deny(Filter::new().any_target(Matcher::new().pattern("**/.env*"))))
        .conversation(allow(Filter::new()).priority(1000));
    assert_eq!(world.read("src/a"), Allow);
    for path in [".env", "src/.env.local", "../other/.env", "src/../.ENV", "/etc/.env"] {
        assert_eq!(world.read(path), Deny, "{path}");
    }
}

#[test]
fn scenario_06_scope_beats_priority() {
    let world = World::new("supervised")
        .user(deny(Filter::new().tool("bash")).priority(1000))
        .project(allow(Filter::new().tool("bash")).priority(-1000));
    assert_eq!(world.bash("ls"), Allow);
}

#[test]
fn scenario_08_overlays_count_under_their_rule_set_only() {
    let world = World::new("supervised").conversation(allow(Filter::new().tool("bash")));
    assert_eq!(world.bash("ls"), Allow);
    let planning = ProposedCall::new(
        bash(),
        EffectiveArguments::new(json!({"command": "ls"})).unwrap(),
        CallOrigin::Model,
        "planning",
    )
    .mode(Mode::Planning)
    .conversation_document(world.conversation.clone());
    assert_eq!(world.engine().evaluate(planning).decision(), Prompt);
}

#[test]
fn a_document_that_is_not_valid_is_ignored_as_a_whole() {
    let mut world = World::new("supervised").project(allow(Filter::new().tool("bash")));
    world.project.overlays[0].rules.push(Rule::new("bad", Allow).priority(2000));
    let evaluation = world.evaluate(&bash(), json!({"command": "ls"}));
    assert_eq!(evaluation.decision(), Prompt);
    let ignored = &evaluation.evidence.ignored_documents[0];
    assert_eq!(ignored.scope, DocumentScope::Project);
    assert!(ignored.reason.contains("`bad`") && ignored.reason.contains("1000"), "{}", ignored.reason);
}

#[test]
fn what_a_document_that_is_not_valid_would_restrict_is_not_known_so_every_call_asks() {
    let bad = || Rule::new("bad", Deny).priority(2000);
    for world in [
        World::new("autonomous").user(bad()),
        World::new("autonomous").project(bad()),
        World::new("autonomous").conversation(bad()),
    ] {
        let evaluation = world.evaluate(&read(), json!({"path": "src/a"}));
        assert_eq!(evaluation.decision(), Prompt);
        let evidence = evaluation.evidence;
        assert!(evidence.reason.contains("cannot be read"), "{}", evidence.reason);
        assert_eq!(evidence.ignored_documents.len(), 1);
        let refused = world.evaluate(&read(), json!({"path": "a\0b"})).evidence;
        assert_eq!((refused.decision, &refused.ignored_documents), (Deny, &evidence.ignored_documents));
        // What other documents deny stays denied.
        let world = world.guardrail(deny(Filter::new().tool("bash")));
        let valid = world.user.check(DocumentScope::User).is_ok();
        assert_eq!(world.bash("ls"), if valid { Deny } else { Prompt });
    }
}

#[test]
#[cfg(unix)]
fn scenario_11_a_link_out_of_the_project_is_an_external_path() {
    let world = World::new("supervised")
        .conversation(allow(Filter::new().tool("write").every_target(Matcher::new().pattern("src/**"))));
    std::os::unix::fs::symlink("/etc", world.path("project/src/link")).unwrap();
    assert_eq!(world.write_call("src/plain"), Allow);
    assert_eq!(world.write_call("src/link/passwd"), Prompt);
}

#[test]
fn scenario_12_hosts_are_parsed_not_searched_for() {
    let world = World::new("supervised")
        .conversation(allow(Filter::new().every_target(Matcher::new().pattern("https://good.example/**"))));
    assert_eq!(world.fetch("https://good.example/a/b"), Allow);
    assert_eq!(world.fetch("https://GOOD.example./a"), Allow);
    assert_eq!(world.fetch("https://good.example@evil.example/"), Deny);
    for url in [
        "https://good.example.evil.example/",
        "https://evil.example/good.example",
        "http://good.example/",
        "https://good.example:8443/",
        "https://good.example/a?b",
        "https://good.example/a/%2e%2e/b",
        "https://good.example/a%2fb",
    ] {
        assert_eq!(world.fetch(url), Prompt, "{url}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn scenario_13_spellings_that_are_other_paths() {
    let world = World::new("supervised")
        .conversation(allow(Filter::new().tool("write").every_target(Matcher::new().pattern("src/**"))));
    for path in ["src/a", "./src/a", "src/b/../a", "src", "src/%2e%2e/x"] {
        // `%2e%2e` is a name like any other: it stays below `src`.
        assert_eq!(world.write_call(path), Allow, "{path}");
    }
    for path in
        ["src/../../x", "src/../x", "SRC/x", "src\\x", "srcs/x", "~/src/x", "file:src/x", "$HOME/src/x"]
    {
        assert_eq!(world.write_call(path), Prompt, "{path}");
    }
}

#[test]
fn scenario_14_a_missing_rule_set_falls_back_to_the_baseline() {
    let mut world = World::new("mine")
        .conversation(allow(Filter::new()))
        .guardrail(deny(Filter::new().command_prefix(["git", "push"])));
    world.sets.push(RuleSet::new("mine").rule(Rule::new("all", Allow)));
    assert_eq!(world.bash("ls"), Allow);
    world.sets.clear();
    let evaluation = world.evaluate(&bash(), json!({"command": "git push"}));
    assert_eq!(evaluation.decision(), Prompt);
    let evidence = evaluation.evidence;
    assert!(evidence.reason.contains("would have denied it"), "{}", evidence.reason);
    assert_eq!(
        (evidence.active_rule_set.as_str(), evidence.selected_rule_set.as_str()),
        ("baseline", "mine")
    );
    assert!(!evidence.rememberable() && evidence.suggestions.is_empty());
    assert_eq!(evidence.fallback.as_ref().unwrap().would_deny.len(), 1);
    // Guardrails that are bound to the missing set would have denied, too; those of another set would not.
    let own = Rule::new("own", Deny).guardrail().priority(7);
    let other = Rule::new("other", Deny).guardrail().priority(8);
    world.user.overlays.push(Overlay::new("mine").rule(own));
    world.user.overlays.push(Overlay::new("autonomous").rule(other));
    let evidence = world.evaluate(&bash(), json!({"command": "ls"})).evidence;
    assert_eq!(evidence.fallback.as_ref().unwrap().would_deny, ["own"]);
    world.user.overlays.clear();
    // Disabled and of another mode: the same.
    world.sets.push(RuleSet::new("mine").rule(Rule::new("all", Allow)).enabled(false));
    assert_eq!(world.bash("ls"), Prompt);
    world.sets[0] = RuleSet::new("mine").rule(Rule::new("all", Allow)).compatible_modes([Mode::Planning]);
    assert_eq!(world.bash("ls"), Prompt);
    // A built-in set cannot be replaced.
    let mut world = World::new("supervised");
    world.sets.push(RuleSet::new("supervised").rule(Rule::new("all", Allow)));
    assert_eq!(world.bash("ls"), Prompt);
}

#[test]
fn scenario_15_evidence_explains_itself_after_the_documents_changed() {
    let world = World::new("supervised").user(deny(Filter::new().tool("bash")));
    let engine = world.engine();
    let before = engine.evaluate(world.call(&bash(), json!({"command": "ls"}))).evidence;
    let stored = serde_json::to_string(&before).unwrap();
    engine.replace_document(DocumentScope::User, None);
    let after = engine.evaluate(world.call(&bash(), json!({"command": "ls"}))).evidence;
    assert_eq!(after.decision, Prompt);
    assert_ne!(after.policy, before.policy);
    let replayed: Evidence = serde_json::from_str(&stored).unwrap();
    assert_eq!(replayed.winner.unwrap().rule, world.user.overlays[0].rules[0]);
    // Same request, same policy: byte for byte.
    engine.replace_document(DocumentScope::User, Some(world.user.clone()));
    let again = engine.evaluate(world.call(&bash(), json!({"command": "ls"}))).evidence;
    assert_eq!(serde_json::to_string(&again).unwrap(), stored);
}

#[test]
fn scenario_16_what_the_winner_does_not_cover_is_decided_without_it() {
    let covers = |path: &str| Filter::new().tool("write").primary_target(Matcher::new().exact(path));
    let any = |path: &str| Filter::new().tool("write").any_target(Matcher::new().exact(path));
    let both = json!({"a": "src/a", "b": "src/b"});
    // The conversation covers `a`, the user covers `b`: together still a question.
    let world = World::new("supervised").conversation(allow(covers("src/a"))).user(allow(any("src/b")));
    let evaluation = world.evaluate(&write_two(), both.clone());
    assert_eq!(evaluation.decision(), Prompt);
    assert_eq!(evaluation.evidence.uncovered[0].target, 1);
    assert!(evaluation.evidence.reason.contains("`src/b`"), "{}", evaluation.evidence.reason);
    // Without the winner the target is denied: so is the call.
    let world = World::new("supervised").conversation(allow(covers("src/a"))).user(deny(any("src/b")));
    assert_eq!(world.decide(&write_two(), both.clone()), Deny);
    // Under a rule set that denies the rest, too.
    let world = World::new("read_only").conversation(allow(covers("src/a")));
    assert_eq!(world.decide(&write_two(), both.clone()), Deny);
    // One rule for both.
    let world = World::new("read_only")
        .conversation(allow(Filter::new().tool("write").every_target(Matcher::new().subtree("src"))));
    assert_eq!(world.decide(&write_two(), both), Allow);
}

#[test]
fn an_overlay_about_arguments_covers_the_targets_derived_from_them() {
    let world = World::new("supervised").conversation(allow(Filter::new().command_prefix(["cargo", "test"])));
    assert_eq!(world.bash("cargo test --all"), Allow);
    assert_eq!(world.bash("cargo testing"), Prompt);
    // The rule says nothing about another working directory.
    assert_eq!(world.decide(&bash(), json!({"command": "cargo test", "cwd": "../outside"})), Prompt);
    let world = World::new("supervised")
        .conversation(allow(Filter::new().tool("write").primary_argument(Operator::Glob, "src/*.rs")));
    assert_eq!(world.write_call("src/a.rs"), Allow);
    assert_eq!(world.write_call("src/a.md"), Prompt);
}

#[test]
fn an_allow_of_the_project_covers_no_path_outside_it() {
    let everything = || allow(Filter::new());
    let world = World::new("supervised").project(everything());
    assert_eq!(world.write_call("src/a"), Allow);
    assert_eq!(world.write_call("../outside/a"), Prompt);
    assert_eq!(world.write_call(world.path("plans/a").to_str().unwrap()), Allow);
    assert_eq!(world.fetch("https://a.test/"), Allow);
    let world = World::new("supervised").user(everything());
    assert_eq!(world.write_call("../outside/a"), Allow);
}

#[test]
fn an_absent_root_means_the_project_in_an_allow_and_everywhere_in_a_deny() {
    let secret = || Filter::new().tool("read").any_target(Matcher::new().pattern("**/secret"));
    let world = World::new("autonomous").user(deny(secret()));
    for path in ["secret", "../plans/secret", "../outside/secret", "/secret", "../home/secret"] {
        assert_eq!(world.read(path), Deny, "{path}");
    }
    let every = Filter::new().tool("write").every_target(Matcher::new().pattern("**"));
    let world = World::new("supervised").user(allow(every));
    assert_eq!(world.write_call("src/secret"), Allow);
    for path in ["../plans/secret", "../outside/secret"] {
        assert_eq!(world.write_call(path), Prompt, "{path}");
    }
    let home = Filter::new().any_target(Matcher::new().pattern("${homeDir}/notes/**"));
    let world = World::new("autonomous").user(deny(home));
    assert_eq!(world.read("../home/notes/a"), Deny);
    assert_eq!(world.read("notes/a"), Allow);
}

#[test]
fn an_external_path_is_allowed_by_exact_equality_only() {
    let world = World::new("supervised");
    let outside = world
        .path("outside/a")
        .canonicalize()
        .unwrap_or_else(|_| world.path("outside").canonicalize().unwrap().join("a"));
    let exact = Matcher::new().absolute().exact(outside.to_str().unwrap());
    let world = World { conversation: PolicyDocument::new(), ..world }
        .conversation(allow(Filter::new().tool("write").every_target(exact)));
    assert_eq!(world.write_call("../outside/a"), Allow);
    assert_eq!(world.write_call("../outside/ab"), Prompt);
    assert_eq!(world.write_call("../outside/a/b"), Prompt);
    let subtree = allow(Filter::new().every_target(Matcher::new().absolute().subtree("/etc")));
    let document = PolicyDocument::new().overlay(Overlay::new("supervised").rule(subtree));
    assert!(document.check(DocumentScope::User).is_err());
}

#[test]
fn arguments_are_read_strictly_for_an_allow_and_generously_for_a_deny() {
    let cases = [
        // operator, value, argument, allow matches, deny matches
        (Operator::Equals, json!("A-1"), json!({"issue_key": "A-1"}), true, true),
        (Operator::Equals, json!("A-1"), json!({"issue_key": "a-1"}), false, false),
        (Operator::Equals, json!(1), json!({"issue_key": "1"}), false, false),
        (Operator::Equals, json!("A-1"), json!({}), false, false),
        (Operator::In, json!(["A-1", "A-2"]), json!({"issue_key": "A-2"}), true, true),
        (Operator::In, json!(["A-1", "A-2"]), json!({}), false, false),
        (Operator::NotEquals, json!("A-1"), json!({"issue_key": "A-2"}), true, true),
        (Operator::NotEquals, json!("A-1"), json!({"issue_key": "A-1"}), false, false),
        (Operator::NotEquals, json!("A-1"), json!({}), false, true),
        (Operator::Glob, json!("A-*"), json!({"issue_key": "A-2/x"}), true, true),
        (Operator::Glob, json!("A-*"), json!({"issue_key": "BA-2"}), false, false),
        (Operator::Glob, json!("*"), json!({"issue_key": 7}), false, false),
        (Operator::Exists, json!(true), json!({"issue_key": null}), true, true),
        (Operator::Exists, json!(false), json!({}), true, true),
        (Operator::Exists, json!(true), json!({}), false, false),
    ];
    for (operator, value, arguments, allows, denies) in cases {
        let filter = || Filter::new().argument("args.issue_key", operator, value.clone());
        let world = World::new("supervised").user(allow(filter()));
        assert_eq!(
            world.decide(&issue(), arguments.clone()) == Allow,
            allows,
            "allow {operator:?} {value} {arguments}"
        );
        let world = World::new("supervised").user(deny(filter()));
        assert_eq!(
            world.decide(&issue(), arguments.clone()) == Deny,
            denies,
            "deny {operator:?} {value} {arguments}"
        );
    }
    // Longer than 64 KiB: an allow does not match, a deny does.
    let long = json!({"issue_key": "A".repeat((64 << 10) + 1)});
    let any = || Filter::new().argument("args.issue_key", Operator::Glob, "A*");
    assert_eq!(World::new("supervised").user(allow(any())).decide(&issue(), long.clone()), Prompt);
    let none = || Filter::new().argument("args.issue_key", Operator::Glob, "B*");
    assert_eq!(World::new("supervised").user(deny(none())).decide(&issue(), long), Deny);
}

#[test]
fn of_several_values_an_allow_needs_all_and_a_deny_one() {
    let each = || Filter::new().argument("args.items.*.kind", Operator::Equals, "a");
    let mixed = json!({"items": [{"kind": "a"}, {"kind": "b"}]});
    let same = json!({"items": [{"kind": "a"}, {"kind": "a"}]});
    let allowing = World::new("supervised").user(allow(each()));
    assert_eq!(allowing.decide(&issue(), mixed.clone()), Prompt);
    assert_eq!(allowing.decide(&issue(), same), Allow);
    assert_eq!(allowing.decide(&issue(), json!({"items": []})), Prompt);
    assert_eq!(World::new("supervised").user(deny(each())).decide(&issue(), mixed), Deny);
}

#[test]
fn a_search_runs_and_what_is_denied_is_withheld() {
    let world = World::new("supervised")
        .user(deny(Filter::new().any_target(Matcher::new().pattern("secret/**"))))
        .guardrail(deny(Filter::new().any_target(Matcher::new().pattern("**/.env*"))));
    let evaluation = world.evaluate(&grep(), json!({}));
    assert_eq!(evaluation.decision(), Allow);
    assert_eq!(evaluation.evidence.withholding.len(), 2);
    let filter = evaluation.targets[0].entries.clone().unwrap();
    for (entry, allowed) in [
        ("src/a", true),
        ("secret", false),
        ("secret/a", false),
        ("a/secret", true),
        (".env", false),
        ("a/.ENV.local", false),
        ("home/.ssh/id", false),
        (".npmrc", true),
        (".netrc", false),
    ] {
        assert_eq!(filter.allows(entry), allowed, "{entry}");
    }
    // The tree itself is denied: so is the search.
    assert_eq!(world.decide(&grep(), json!({"path": "secret"})), Deny);
    assert_eq!(world.decide(&grep(), json!({"path": "secret/a"})), Deny);
    // Above the project: the rules about the project still withhold.
    let evaluation = world.evaluate(&grep(), json!({"path": ".."}));
    let filter = evaluation.targets[0].entries.clone().unwrap();
    assert!(!filter.allows("x/.env") && !filter.allows("home/.nerve/data/store"));
    // A later allow lifts an overridable deny for its entries.
    let world = world
        .conversation(allow(Filter::new().tool("grep").any_target(Matcher::new().subtree("secret/open"))));
    let filter = world.evaluate(&grep(), json!({})).targets[0].entries.clone().unwrap();
    assert!(
        filter.allows("secret/open/a") && !filter.allows("secret/a") && !filter.allows("secret/open/.env")
    );
    // A prompt asks about the whole search.
    let world =
        World::new("supervised").user(prompt(Filter::new().any_target(Matcher::new().pattern("secret/**"))));
    assert_eq!(world.decide(&grep(), json!({})), Prompt);
    assert_eq!(world.decide(&grep(), json!({"path": "src"})), Allow);
}

#[test]
fn an_allow_covers_a_tree_only_with_everything_below() {
    let with = |matcher: Matcher| {
        World::new("read_only").conversation(allow(Filter::new().tool("tree").every_target(matcher)))
    };
    let tool = ToolDescriptor::new("tree", ToolKind::Other, Risk::Write)
        .target(TargetSelector::path("path").write().tree());
    let call = json!({"path": "src"});
    assert_eq!(with(Matcher::new().pattern("src/**")).decide(&tool, call.clone()), Allow);
    assert_eq!(with(Matcher::new().pattern("**")).decide(&tool, call.clone()), Allow);
    assert_eq!(with(Matcher::new().subtree("src")).decide(&tool, call.clone()), Allow);
    assert_eq!(with(Matcher::new().pattern("src/*")).decide(&tool, call.clone()), Deny);
    assert_eq!(with(Matcher::new().exact("src")).decide(&tool, call.clone()), Deny);
    assert_eq!(with(Matcher::new().pattern("src/a/**")).decide(&tool, call), Deny);
}

#[test]
fn marks_ask_under_every_rule_set_and_an_exact_grant_satisfies_them() {
    let world = World::new("autonomous");
    let home = world.path("home");
    let absolute = |name: &str| home.join(name).to_str().unwrap().to_owned();
    for path in [
        "AGENTS.md",
        "src/agents.md",
        "SYSTEM.md",
        ".git/hooks/pre-commit",
        "sub/.git/config",
        ".nerve/config/permissions.json",
        "sub/.NERVE/x",
        &absolute(".nerve/config/permissions.json"),
        &absolute(".nerve/data/store.redb"),
    ] {
        let evaluation = world.evaluate(&write(), json!({"path": path}));
        assert_eq!(evaluation.decision(), Prompt, "{path}");
        assert!(evaluation.evidence.marks.iter().any(|mark| mark.mark == Mark::ControlFile), "{path}");
    }
    for path in [".gitignore", "src/AGENTS.md.txt", "nerve/x", world.path("plans/p.md").to_str().unwrap()] {
        assert_eq!(world.write_call(path), Allow, "{path}");
    }
    for path in [
        ".ssh/id",
        ".aws/credentials",
        ".netrc",
        ".cargo/credentials.toml",
        ".nerve/data/store.redb",
        ".kube/config",
    ] {
        assert_eq!(world.read(&absolute(path)), Prompt, "{path}");
    }
    assert_eq!(world.read(&absolute(".bashrc")), Allow);
    assert_eq!(world.write_call(&absolute(".ssh/authorized_keys")), Prompt);
    // No pattern lifts a mark, an exact grant of a person does, one of the project does not.
    let exact = || allow(Filter::new().tool("write").every_target(Matcher::new().exact("AGENTS.md")));
    let wide = allow(Filter::new().tool("write").every_target(Matcher::new().pattern("**")));
    assert_eq!(World::new("supervised").conversation(wide).write_call("AGENTS.md"), Prompt);
    assert_eq!(World::new("supervised").conversation(exact()).write_call("AGENTS.md"), Allow);
    assert_eq!(World::new("supervised").project(exact()).write_call("AGENTS.md"), Prompt);
}

#[test]
fn planning_that_the_model_entered_never_widens() {
    let world = World::new("planning");
    let engine = world.engine();
    let planned =
        |tool: &ToolDescriptor, arguments| world.call(tool, arguments).until_confirmed("supervised");
    let url = json!({"url": "https://a.test/"});
    assert_eq!(engine.evaluate(world.call(&fetch(), url.clone())).decision(), Allow);
    let evaluation = engine.evaluate(planned(&fetch(), url));
    assert_eq!(evaluation.decision(), Prompt);
    assert_eq!(
        evaluation.evidence.until_confirmed.as_ref().unwrap().winner.as_ref().unwrap().rule.id,
        "supervised.rest"
    );
    assert_eq!(
        engine.evaluate(planned(&write(), json!({"path": world.path("plans/a.md")}))).decision(),
        Allow
    );
    assert_eq!(engine.evaluate(planned(&ask_user(), json!({}))).decision(), Allow);
    assert_eq!(engine.evaluate(planned(&write(), json!({"path": "src/a"}))).decision(), Deny);
}

#[test]
fn a_persons_own_command_is_confirmed_instead_of_denied() {
    let world = World::new("read_only");
    let mut call = world.call(&bash(), json!({"command": "ls"}));
    call.origin = CallOrigin::User;
    assert_eq!(world.engine().evaluate(call.clone()).decision(), Prompt);
    // What the user forbade stays forbidden.
    let world = World::new("read_only").guardrail(deny(Filter::new().tool("bash")));
    assert_eq!(world.engine().evaluate(call).decision(), Deny);
}

#[test]
fn explain_lists_every_rule_that_matched_the_strongest_first() {
    let world = World::new("supervised")
        .user(prompt(Filter::new().tool("bash")))
        .conversation(allow(Filter::new().command_prefix(["ls"])))
        .project(deny(Filter::new().command_prefix(["rm"])));
    let set = builtin_rule_sets().iter().find(|set| set.id == "supervised").unwrap();
    let policy = PolicyBuilder::new(set)
        .user(&world.user)
        .project(&world.project)
        .conversation(&world.conversation)
        .build()
        .unwrap();
    let resolved = TargetResolver::new(world.roots())
        .resolve(&world.call(&bash(), json!({"command": "ls -l"})))
        .unwrap();
    let verdict = policy.decide(&resolved);
    let sources: Vec<RuleSource> = verdict.explain().iter().map(|rule| rule.source).collect();
    assert_eq!(
        sources,
        [RuleSource::Conversation, RuleSource::User, RuleSource::RuleSet, RuleSource::Baseline]
    );
    assert_eq!(verdict.decision(), Allow);
}

#[test]
fn tools_in_several_groups_and_action_risks_are_found_by_the_index() {
    let tool = ToolDescriptor::new("launch", ToolKind::Orchestration, Risk::Unknown)
        .group("a")
        .group("launches")
        .actions(ActionRisks::new("action").risk("list", Risk::Read));
    let world = World::new("supervised");
    assert_eq!(world.decide(&tool, json!({"action": "list"})), Allow);
    assert_eq!(world.decide(&tool, json!({"action": "start"})), Prompt);
    let world = world.user(deny(Filter::new().tool_group("launches")));
    assert_eq!(world.decide(&tool, json!({"action": "list"})), Deny);
    assert_eq!(world.bash("ls"), Prompt);
}

#[test]
fn the_built_in_sets_are_what_the_table_says() {
    assert_eq!(builtin_rule_sets().len(), 5);
    let web = || fetch();
    let rows = [
        ("baseline", [Allow, Prompt, Prompt, Prompt, Prompt, Prompt, Prompt]),
        ("read_only", [Allow, Allow, Deny, Allow, Deny, Deny, Deny]),
        ("supervised", [Allow, Allow, Prompt, Prompt, Prompt, Prompt, Prompt]),
        ("autonomous", [Allow, Allow, Allow, Allow, Allow, Allow, Allow]),
        ("planning", [Allow, Allow, Allow, Allow, Allow, Prompt, Deny]),
    ];
    for (set, expected) in rows {
        let world = World::new(set);
        let plan = world.path("plans/a.md");
        let found = [
            world.decide(&ask_user(), json!({})),
            world.read("src/a"),
            world.decide(&web(), json!({"url": "https://a.test/"})),
            world.decide(&subagent(), json!({"tasks": [{"profile": "p"}]})),
            world.decide(&write(), json!({"path": plan})),
            world.bash("ls"),
            world.decide(&issue(), json!({"issue_key": "A-1"})),
        ];
        assert_eq!(found, expected, "{set}");
    }
}

#[test]
fn documents_with_one_bad_rule_are_refused_with_the_place() {
    let parse =
        |text: &str| PolicyDocument::parse(DocumentScope::User, text.as_bytes()).unwrap_err().to_string();
    let rules = |rules: &str| {
        format!(r#"{{"schemaVersion": 2, "overlays": [{{"ruleSetId": "s", "rules": [{rules}]}}]}}"#)
    };
    let rule = |rest: &str| rules(&format!(r#"{{"id": "a", "decision": "allow", {rest}}}"#));
    for (text, words) in [
        (r#"{"schemaVersion": 3}"#.to_owned(), "version 3"),
        (r#"{"schemaVersion": 2, "extra": 1}"#.to_owned(), "line 1, column"),
        (r#"{"schemaVersion": 2, "schemaVersion": 2}"#.to_owned(), "appears twice"),
        (rule(r#""when": {"toolName": ["x"]}"#), "unknown field `toolName`"),
        (rule(r#""when": {"toolNames": []}"#), "empty list"),
        (rule(r#""when": {"targets": {"quantifier": "any", "matcher": {"pattern": "a/../b"}}}"#), "`..`"),
        (
            rule(r#""when": {"targets": {"quantifier": "any", "matcher": {"pattern": "a", "exact": "b"}}}"#),
            "only one of",
        ),
        (
            rule(r#""when": {"targets": {"quantifier": "any", "matcher": {"root": "home"}}}"#),
            "deny and prompt rules only",
        ),
        (
            rule(
                r#""when": {"targets": {"quantifier": "any", "matcher": {"kind": "url", "pattern": "a.test"}}}"#,
            ),
            "begins with `https://`",
        ),
        (rule(r#""when": {"arguments": [{"path": "a", "operator": "equals", "value": 1}]}"#), "`args.`"),
        (
            rule(r#""when": {"arguments": [{"path": "args.a", "operator": "like", "value": 1}]}"#),
            "unknown variant `like`",
        ),
        (rule(r#""enforcement": "guardrail""#), "never allows"),
        (
            rules(r#"{"id": "a", "decision": "deny"}, {"id": "a", "decision": "deny", "priority": 1}"#),
            "same id",
        ),
        (rules(r#"{"id": "a", "decision": "deny"}, {"id": "b", "decision": "deny"}"#), "same priority"),
        (rules(r#"{"id": "a", "decision": "maybe"}"#), "unknown variant `maybe`"),
    ] {
        let error = parse(&text);
        assert!(error.contains(words), "{text}: {error}");
    }
}
