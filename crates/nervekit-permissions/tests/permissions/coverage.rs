//! What an allow covers, and what a mark asks: faults that the naive evaluator found.

use nervekit_permissions::*;
use serde_json::json;

use crate::world::*;

use Decision::{Allow, Deny, Prompt};

#[test]
fn an_allow_that_differs_rests_on_a_value_of_the_same_type() {
    let filter = || Filter::new().tool("jira_update_issue").argument("args.level", Operator::NotEquals, 1);
    let world = World::new("supervised").user(allow(filter()));
    for (level, expected) in
        [(json!(2), Allow), (json!(1), Prompt), (json!("1"), Prompt), (json!(null), Prompt)]
    {
        assert_eq!(world.decide(&issue(), json!({ "level": level })), expected, "{level}");
    }
    assert_eq!(world.decide(&issue(), json!({})), Prompt);
    // What restricts takes everything that is not the value.
    let world = World::new("autonomous").user(deny(filter()));
    for (level, expected) in [(json!(2), Deny), (json!(1), Allow), (json!("1"), Deny), (json!(null), Deny)] {
        assert_eq!(world.decide(&issue(), json!({ "level": level })), expected, "{level}");
    }
    assert_eq!(world.decide(&issue(), json!({})), Deny);
}

#[test]
fn a_mark_is_satisfied_by_the_exact_grant_of_this_target_only() {
    let both = json!({"a": "notes", "b": "AGENTS.md"});
    // The exact part is about the first target; the second is covered by a subtree.
    let wide = Filter::new()
        .tool("write")
        .primary_target(Matcher::new().exact("notes"))
        .every_target(Matcher::new().subtree(""));
    let world = World::new("supervised").conversation(allow(wide));
    assert_eq!(world.decide(&write_two(), both.clone()), Prompt);
    // Equality of all arguments covers the call, and still names no target.
    let pinned = Filter::new()
        .tool("write")
        .argument("args", Operator::Equals, both.clone())
        .any_target(Matcher::new().exact("notes"));
    let world = World::new("supervised").conversation(allow(pinned));
    assert_eq!(world.decide(&write_two(), both), Prompt);
    let exact = Filter::new().tool("write").every_target(Matcher::new().exact("AGENTS.md"));
    let world = World::new("supervised").conversation(allow(exact.clone()));
    assert_eq!(world.write_call("AGENTS.md"), Allow);
    let world = World::new("supervised").project(allow(exact));
    assert_eq!(world.write_call("AGENTS.md"), Prompt);
}

#[test]
fn a_mark_does_not_turn_the_deny_of_an_uncovered_target_into_a_question() {
    let world = World::new("read_only")
        .conversation(allow(Filter::new().tool("write").primary_target(Matcher::new().exact("AGENTS.md"))));
    assert_eq!(world.decide(&write_two(), json!({"a": "AGENTS.md", "b": "src/x"})), Deny);
    assert_eq!(world.decide(&write_two(), json!({"a": "src/x", "b": "AGENTS.md"})), Deny);
    let world = World::new("read_only")
        .conversation(allow(Filter::new().tool("write").primary_target(Matcher::new().exact("src/y"))));
    assert_eq!(world.decide(&write_two(), json!({"a": "src/y", "b": "AGENTS.md"})), Deny);
}

#[test]
fn an_allow_never_makes_a_persons_own_call_stricter() {
    let world = World::new("read_only");
    let call = |world: &World| {
        let mut call = world.call(&write_two(), json!({"a": "src/a", "b": "src/b"}));
        call.origin = CallOrigin::User;
        world.engine().evaluate(call)
    };
    // Without the allow the rule set's deny becomes one confirmation; with it for one target, too.
    assert_eq!(call(&world).decision(), Prompt);
    let world = world.user(allow(Filter::new().tool("write").primary_target(Matcher::new().exact("src/a"))));
    let evaluation = call(&world);
    assert_eq!(evaluation.decision(), Prompt);
    assert_eq!(evaluation.evidence.uncovered[0].decision, Prompt);
    // What a person's own documents deny stays denied.
    let world = world.guardrail(deny(Filter::new().any_target(Matcher::new().exact("src/b"))));
    assert_eq!(call(&world).decision(), Deny);
}

#[test]
fn an_allow_does_not_reach_through_a_tree_into_another_root() {
    let mut world = World::new("supervised");
    world.sets.push(RuleSet::new("strict"));
    world.rule_set = "strict".into();
    let world = world.user(allow(Filter::new().tool("grep").every_target(Matcher::new().pattern("**"))));
    assert_eq!(world.decide(&grep(), json!({})), Allow);
    let engine = RuleEngine::new(world.roots().host("vendor", world.path("project/src")))
        .rule_set(RuleSet::new("strict"))
        .user_document(world.user.clone());
    let decide = |arguments| engine.evaluate(world.call(&grep(), arguments)).decision();
    assert_eq!(decide(json!({})), Prompt);
    assert_eq!(decide(json!({"path": "src"})), Prompt);
    assert_eq!(decide(json!({"path": "docs"})), Allow);
}

#[test]
fn an_allow_of_the_project_does_not_reach_through_a_tree_into_a_root_of_the_host() {
    let world = World::new("supervised").project(allow(Filter::new().tool("bash")));
    let call = || world.call(&bash(), json!({"command": "ls", "cwd": "."}));
    assert_eq!(world.engine().evaluate(call()).decision(), Allow);
    let with = |roots: Roots| {
        let engine = RuleEngine::new(roots).project_document(world.project.clone());
        engine.evaluate(call()).decision()
    };
    assert_eq!(with(world.roots().host("vendor", world.path("project/src"))), Prompt);
    // Plans, and what only restricts, are no obstacle.
    assert_eq!(with(world.roots().plans(world.path("project/src")).temp(world.path("project/src"))), Allow);
}

#[test]
fn an_allow_of_one_of_several_commands_is_as_guarded_as_an_allow_of_the_only_one() {
    let tool = |primary: &str| {
        ToolDescriptor::new("run_all", ToolKind::Command, Risk::Unknown)
            .primary_argument(primary)
            .whole_tool()
    };
    let call = |text: &str| json!({"commands": [text], "label": "a; b"});
    for (primary, path) in [
        ("commands", "args.commands.*"),
        ("commands", "args.commands.0"),
        ("commands.*", "args.commands.*"),
        ("commands.*", "args.commands.0"),
        ("commands.0", "args.commands.*"),
    ] {
        let world =
            World::new("supervised").user(allow(Filter::new().argument(path, Operator::Glob, "cargo *")));
        assert_eq!(world.decide(&tool(primary), call("cargo test")), Allow, "{primary} {path}");
        assert_eq!(world.decide(&tool(primary), call("cargo test; id")), Prompt, "{primary} {path}");
    }
    // What is no program is compared as the text that it is.
    let label =
        World::new("supervised").user(allow(Filter::new().argument("args.label", Operator::Glob, "a*")));
    assert_eq!(label.decide(&tool("commands.*"), call("id")), Allow);
}

#[test]
fn a_pattern_that_accepts_every_name_covers_a_tree() {
    let world = |pattern: &str| {
        let mut world = World::new("supervised");
        world.sets.push(RuleSet::new("strict"));
        world.rule_set = "strict".into();
        world.user(allow(Filter::new().tool("grep").every_target(Matcher::new().pattern(pattern))))
    };
    for (pattern, expected) in [
        ("src/**", Allow),
        ("src/**/*", Prompt),
        ("**/*", Allow),
        ("**/*.rs", Prompt),
        ("src", Prompt),
        ("*", Prompt),
    ] {
        assert_eq!(world(pattern).decide(&grep(), json!({"path": "src"})), expected, "{pattern}");
    }
    assert_eq!(world("src/**/*").decide(&grep(), json!({"path": "src/a"})), Allow);
}

#[test]
fn evidence_names_only_rules_about_this_call_as_withholding() {
    let env = || Matcher::new().pattern("**/.env");
    let world = World::new("supervised")
        .user(deny(Filter::new().tool("write").any_target(env())))
        .user(deny(Filter::new().tool("grep").any_target(env())));
    let evidence = world.evaluate(&grep(), json!({})).evidence;
    assert_eq!(evidence.withholding, [world.user.overlays[0].rules[1].id.clone()]);
}
