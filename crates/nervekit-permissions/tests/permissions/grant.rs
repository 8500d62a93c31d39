//! Suggestions and what becomes of them.

use nervekit_permissions::*;
use serde_json::{Value, json};

use crate::world::*;

use Decision::{Allow, Deny, Prompt};

fn suggestion(evidence: &Evidence, kind: SuggestionKind) -> SuggestedRule {
    evidence
        .suggestions
        .iter()
        .find(|known| known.kind == kind)
        .unwrap_or_else(|| panic!("{evidence:#?}"))
        .clone()
}

fn saved(change: DocumentChange) -> PolicyDocument {
    let DocumentChange::Replace { document, .. } = change else { panic!("{change:?}") };
    *document
}

/// Asks, keeps the suggestion of this kind for the conversation, and returns the world with it.
fn granted(mut world: World, tool: &ToolDescriptor, arguments: Value, kind: SuggestionKind) -> World {
    let evaluation = world.evaluate(tool, arguments);
    assert_eq!(evaluation.decision(), Prompt, "{}", evaluation.evidence.reason);
    let chosen = suggestion(&evaluation.evidence, kind);
    let grant = Grant::new(evaluation.evidence, chosen, Allow, GrantScope::Conversation)
        .document(world.conversation.clone());
    world.conversation = saved(world.engine().plan_grant(grant).unwrap());
    world
}

#[test]
fn a_file_or_its_folder() {
    let world = World::new("supervised");
    let call = json!({"path": "src/deep/a"});
    let exact = granted(world, &write(), call.clone(), SuggestionKind::Exact);
    assert_eq!(exact.write_call("src/deep/a"), Allow);
    assert_eq!(exact.write_call("./src/../src/deep/a"), Allow);
    assert_eq!(exact.write_call("src/deep/b"), Prompt);
    let folder = granted(World::new("supervised"), &write(), call, SuggestionKind::Subtree);
    assert_eq!(folder.write_call("src/deep/b/c"), Allow);
    assert_eq!(folder.write_call("src/a"), Prompt);
    // Never a root, and no folder around a marked file.
    for path in ["a", ".git/hooks/x", "AGENTS.md"] {
        let evidence = World::new("supervised").evaluate(&write(), json!({"path": path})).evidence;
        assert!(evidence.suggestions.iter().all(|s| s.kind == SuggestionKind::Exact), "{path}");
    }
    // Outside all roots: this very path.
    let world = World::new("supervised");
    let evidence = world.evaluate(&write(), json!({"path": "../outside/a"})).evidence;
    assert_eq!(evidence.suggestions.len(), 1);
    let outside = granted(world, &write(), json!({"path": "../outside/a"}), SuggestionKind::Exact);
    assert_eq!(outside.write_call("../outside/a"), Allow);
    assert_eq!(outside.write_call("../outside/b"), Prompt);
}

#[test]
fn the_project_is_offered_where_a_rule_of_it_would_let_the_call_run() {
    let world = World::new("supervised");
    let offers = |tool: &ToolDescriptor, arguments: Value| {
        let evidence = world.evaluate(tool, arguments).evidence;
        assert_eq!(evidence.decision, Prompt);
        assert!(!evidence.suggestions.is_empty());
        let of_project = |suggested: &SuggestedRule| suggested.scopes.contains(&GrantScope::Project);
        evidence.suggestions.iter().any(of_project)
    };
    assert!(offers(&write(), json!({"path": "src/a"})));
    assert!(offers(&write(), json!({"path": world.path("plans/a.md")})));
    assert!(offers(&fetch(), json!({"url": "https://a.test/"})));
    assert!(offers(&bash(), json!({"command": "make", "cwd": "src"})));
    // No allow of a project reaches these: it would be asked again and again.
    assert!(!offers(&write(), json!({"path": "AGENTS.md"})));
    assert!(!offers(&write(), json!({"path": "../outside/a"})));
    assert!(!offers(&write_two(), json!({"a": "src/a", "b": "../outside/a"})));
    assert!(!offers(&bash(), json!({"command": "make", "cwd": "../outside"})));
    let evidence = world.evaluate(&write(), json!({"path": "AGENTS.md"})).evidence;
    let chosen = evidence.suggestions[0].clone();
    let refused = world.engine().plan_grant(Grant::new(evidence, chosen, Allow, GrantScope::Project));
    assert!(matches!(refused, Err(GrantError::BeyondProject)), "{refused:?}");
}

#[test]
fn every_suggestion_lets_the_same_call_run() {
    let calls = [
        (write(), json!({"path": "src/deep/a"})),
        (write(), json!({"path": ".git/config"})),
        (write(), json!({"path": "../outside/a"})),
        (write_two(), json!({"a": "src/a", "b": "src/b"})),
        (fetch(), json!({"url": "https://a.test/x?y=1"})),
        (bash(), json!({"command": "git push origin"})),
        (bash(), json!({"command": "git push origin", "cwd": "src"})),
        (subagent(), json!({"tasks": [{"profile": "explore"}]})),
        (issue(), json!({"issue_key": "A-1"})),
    ];
    for (tool, arguments) in calls {
        let world = World::new("supervised");
        let evidence = world.evaluate(&tool, arguments.clone()).evidence;
        assert!(!evidence.suggestions.is_empty(), "{arguments}");
        for chosen in &evidence.suggestions {
            for scope in chosen.scopes.iter().filter(|scope| **scope != GrantScope::Once) {
                let grant = Grant::new(evidence.clone(), chosen.clone(), Allow, *scope);
                let document = saved(world.engine().plan_grant(grant).unwrap());
                let engine = match scope {
                    GrantScope::User => world.engine().user_document(document.clone()),
                    GrantScope::Project => world.engine().project_document(document.clone()),
                    _ => world.engine(),
                };
                let mut call = world.call(&tool, arguments.clone());
                if *scope == GrantScope::Conversation {
                    call = call.conversation_document(document);
                }
                assert_eq!(engine.evaluate(call).decision(), Allow, "{arguments} {scope:?} {}", chosen.label);
            }
        }
    }
}

#[test]
fn an_exact_grant_satisfies_a_mark() {
    let world =
        granted(World::new("autonomous"), &write(), json!({"path": "AGENTS.md"}), SuggestionKind::Exact);
    assert_eq!(world.write_call("AGENTS.md"), Allow);
    assert_eq!(world.write_call("src/AGENTS.md"), Prompt);
}

#[test]
fn a_url_or_its_origin() {
    let call = json!({"url": "https://a.test/x?y=1"});
    let exact = granted(World::new("supervised"), &fetch(), call.clone(), SuggestionKind::Exact);
    assert_eq!(exact.fetch("https://a.test/x?y=1"), Allow);
    assert_eq!(exact.fetch("https://a.test/x?y=2"), Prompt);
    let origin = granted(World::new("supervised"), &fetch(), call, SuggestionKind::Subtree);
    assert_eq!(origin.fetch("https://a.test/z?q=2"), Allow);
    assert_eq!(origin.fetch("http://a.test/z"), Prompt);
    assert_eq!(origin.fetch("https://a.test.evil.example/z"), Prompt);
}

#[test]
fn a_command_or_its_prefix() {
    let call = json!({"command": "git push origin main", "timeout": 5});
    let whole = granted(World::new("supervised"), &bash(), call.clone(), SuggestionKind::WholeCall);
    assert_eq!(whole.bash("git push origin main"), Allow); // the timeout is cosmetic
    assert_eq!(whole.bash("git push origin main --force"), Prompt);
    assert_eq!(whole.decide(&bash(), json!({"command": "git push origin main", "cwd": "src"})), Prompt);
    let prefix = granted(World::new("supervised"), &bash(), call, SuggestionKind::CommandPrefix);
    assert_eq!(prefix.bash("git push --force"), Allow);
    assert_eq!(prefix.bash("git pull"), Prompt);
    assert_eq!(prefix.bash("git push; id"), Prompt);
    for command in [
        "echo a; id",
        "python3 x.py",
        "python3.11 run",
        "bash x",
        "sudo rm",
        "A=1 git push",
        "./run --all",
        "nohup sh",
        "ssh host",
        "/usr/bin/env python",
        "/bin/bash x",
        "php script",
        "doas make",
        "find src",
    ] {
        let evidence = World::new("supervised").evaluate(&bash(), json!({"command": command})).evidence;
        assert!(evidence.suggestions.iter().all(|s| s.kind == SuggestionKind::WholeCall), "{command}");
    }
    // A rule about commands is not kept for the user.
    let evidence = World::new("supervised").evaluate(&bash(), json!({"command": "git push"})).evidence;
    let chosen = suggestion(&evidence, SuggestionKind::CommandPrefix);
    let engine = World::new("supervised").engine();
    let refused = engine.plan_grant(Grant::new(evidence, chosen, Allow, GrantScope::User));
    assert!(matches!(refused, Err(GrantError::CommandAtUserScope)));
}

#[test]
fn content_that_runs_is_bound_by_its_digest() {
    let python = ToolDescriptor::new("python_exec", ToolKind::Code, Risk::Unknown)
        .group("python")
        .primary_argument("code")
        .primary_argument("path")
        .whole_tool()
        .target(TargetSelector::path("path").optional().binding_content());
    let world = World::new("supervised");
    let script = world.write("project/run.py", "print(1)");
    let call = json!({"path": "run.py"});
    let world = granted(world, &python, call.clone(), SuggestionKind::WholeCall);
    let evaluation = world.evaluate(&python, call.clone());
    assert_eq!(evaluation.decision(), Allow);
    assert_eq!(evaluation.target("path").unwrap().content.as_deref(), Some(&b"print(1)"[..]));
    std::fs::write(script, "print(2)").unwrap();
    assert_eq!(world.decide(&python, call), Prompt);
    // What is not there yet may be anything when it is: nothing is kept of such a call.
    let evidence = world.evaluate(&python, json!({"path": "later.py"})).evidence;
    assert_eq!((evidence.decision, evidence.suggestions.len()), (Prompt, 0));
}

#[test]
fn destructive_and_multi_action_tools_offer_the_exact_call_only() {
    let manage = ToolDescriptor::new("manage", ToolKind::Integration, Risk::Destructive)
        .target(TargetSelector::url("url"));
    let evidence = World::new("supervised").evaluate(&manage, json!({"url": "https://a.test/"})).evidence;
    assert_eq!(evidence.suggestions.len(), 1);
    assert_eq!(evidence.suggestions[0].kind, SuggestionKind::WholeCall);
}

#[test]
fn secrets_are_kept_as_digests_and_not_in_a_project() {
    let tool = ToolDescriptor::new("login", ToolKind::Integration, Risk::Network);
    let call = json!({"password": "hunter2"});
    let world = World::new("supervised");
    let evidence = world.evaluate(&tool, call.clone()).evidence;
    assert!(!serde_json::to_string(&evidence).unwrap().contains("hunter2"));
    let chosen = evidence.suggestions[0].clone();
    let refused = world.engine().plan_grant(Grant::new(evidence, chosen, Allow, GrantScope::Project));
    assert!(matches!(refused, Err(GrantError::SecretInProject)));
    let world = granted(world, &tool, call.clone(), SuggestionKind::WholeCall);
    assert_eq!(world.decide(&tool, call), Allow);
    assert_eq!(world.decide(&tool, json!({"password": "hunter3"})), Prompt);
}

/// What is kept for the project must end the asking, so it is offered only where a project's rules reach.
#[test]
fn a_rule_is_offered_for_the_project_only_where_the_project_can_allow() {
    use GrantScope::{Conversation, Once, Project, User};
    let two = ToolDescriptor::new("copy", ToolKind::Filesystem, Risk::Write)
        .target(TargetSelector::path("from"))
        .target(TargetSelector::path("to").write());
    for (tool, call, inside) in [
        (write(), json!({"path": "src/a"}), true),
        (write(), json!({"path": "../plans/a"}), true),
        (write(), json!({"path": "../outside/a"}), false),
        (write(), json!({"path": ".git/config"}), false),
        (two.clone(), json!({"from": "src/a", "to": "src/b"}), true),
        (two, json!({"from": "../outside/a", "to": "src/b"}), false),
    ] {
        let mut world = World::new("supervised");
        let evidence = world.evaluate(&tool, call.clone()).evidence;
        let chosen = evidence.suggestions[0].clone();
        let scopes: &[_] =
            if inside { &[Once, Conversation, Project, User] } else { &[Once, Conversation, User] };
        assert_eq!(chosen.scopes, scopes, "{call}");
        let planned = world.engine().plan_grant(Grant::new(evidence, chosen.clone(), Allow, Project));
        if inside {
            world.project = saved(planned.unwrap());
            assert_eq!(world.decide(&tool, call.clone()), Allow, "{call}");
        } else {
            assert!(matches!(planned, Err(GrantError::BeyondProject)), "{call}: {planned:?}");
            // Written by hand it would change nothing: that is why it is not offered.
            let by_hand = World::new("supervised").project(chosen.rule);
            assert_eq!(by_hand.decide(&tool, call.clone()), Prompt, "{call}");
        }
    }
}

#[test]
fn scenario_07_a_grant_lands_in_the_group_that_was_captured() {
    let world = World::new("supervised");
    let evidence = world.evaluate(&bash(), json!({"command": "git push"})).evidence;
    let chosen = suggestion(&evidence, SuggestionKind::CommandPrefix);
    // The conversation is in `autonomous` by now; its document knows that set only.
    let now = PolicyDocument::new().overlay(Overlay::new("autonomous").rule(Rule::new("x", Prompt)));
    let grant = Grant::new(evidence, chosen, Deny, GrantScope::Conversation).document(now);
    let document = saved(world.engine().plan_grant(grant).unwrap());
    let group = document.overlays.iter().find(|overlay| overlay.rule_set_id == "supervised").unwrap();
    assert_eq!((group.rules.len(), group.rules[0].decision), (1, Deny));
    assert_eq!(document.overlays[0].rules.len(), 1);
}

#[test]
fn an_equal_rule_is_updated_and_a_new_one_gets_the_next_priority() {
    let world = World::new("supervised");
    let engine = world.engine();
    let save = |command: &str, decision, document: Option<PolicyDocument>| {
        let evidence = world.evaluate(&bash(), json!({"command": command})).evidence;
        let chosen = suggestion(&evidence, SuggestionKind::CommandPrefix);
        let mut grant = Grant::new(evidence, chosen, decision, GrantScope::Project);
        grant.document = document;
        saved(engine.plan_grant(grant).unwrap())
    };
    let document = save("git push", Allow, None);
    let document = save("git pull", Allow, Some(document));
    let rules = &document.overlays[0].rules;
    assert_eq!((rules.len(), rules[1].priority), (2, rules[0].priority + 1));
    let updated = save("git push --force", Deny, Some(document.clone()));
    assert_eq!((updated.overlays[0].rules.len(), updated.overlays[0].rules[0].decision), (2, Deny));
    assert_eq!(updated.overlays[0].rules[0].priority, rules[0].priority);
    // At the top the group is numbered anew, in its order.
    let mut full = document;
    full.overlays[0].rules[0].priority = 1000;
    let renumbered = save("git fetch", Allow, Some(full));
    let rules = &renumbered.overlays[0].rules;
    assert!(rules[1].priority < rules[0].priority && rules[0].priority < rules[2].priority);
    assert!(renumbered.check(DocumentScope::Project).is_ok());
}

#[test]
fn guardrails_are_kept_in_the_users_document_only_and_never_allow() {
    let world = World::new("supervised");
    let evidence = world.evaluate(&fetch(), json!({"url": "https://a.test/"})).evidence;
    let chosen = suggestion(&evidence, SuggestionKind::Subtree);
    let grant = |decision, scope| Grant::new(evidence.clone(), chosen.clone(), decision, scope).guardrail();
    let engine = world.engine();
    for (decision, scope) in [(Allow, GrantScope::User), (Deny, GrantScope::Conversation)] {
        let refused = engine.plan_grant(grant(decision, scope));
        assert!(matches!(refused, Err(GrantError::GuardrailNotPossible)), "{refused:?}");
    }
    let user = saved(engine.plan_grant(grant(Deny, GrantScope::User)).unwrap());
    let world = World { user, ..world }.conversation(allow(Filter::new()).priority(1000));
    assert_eq!(world.fetch("https://a.test/x"), Deny);
    // Guardrails for all rule sets are of the same group: their priorities are not used twice.
    for taken in [0, 1000] {
        let mut grant = grant(Prompt, GrantScope::User);
        let other = Rule::new("other", Deny).priority(taken).when(Filter::new().tool("x"));
        grant.document = Some(PolicyDocument::new().guardrail(other));
        let document = saved(engine.plan_grant(grant).unwrap());
        assert_ne!(document.overlays[0].rules[0].priority, taken);
    }
    let prompting = Grant::new(evidence.clone(), chosen.clone(), Prompt, GrantScope::Conversation);
    assert!(matches!(engine.plan_grant(prompting), Err(GrantError::NotAGrant)));
    let once = Grant::new(evidence.clone(), chosen.clone(), Allow, GrantScope::Once);
    assert_eq!(engine.plan_grant(once).unwrap(), DocumentChange::Nothing);
    let mut other = chosen;
    other.rule.when = Filter::new();
    let wide = Grant::new(evidence, other, Allow, GrantScope::Conversation);
    assert!(matches!(engine.plan_grant(wide), Err(GrantError::NotSuggested(_))));
}

#[test]
fn a_grant_of_a_person_applies_to_that_persons_commands_only() {
    let mut world = World::new("supervised");
    let mut call = world.call(&bash(), json!({"command": "git push"}));
    call.origin = CallOrigin::User;
    let evidence = world.engine().evaluate(call.clone()).evidence;
    let chosen = suggestion(&evidence, SuggestionKind::CommandPrefix);
    let grant = Grant::new(evidence, chosen, Allow, GrantScope::Conversation);
    world.conversation = saved(world.engine().plan_grant(grant).unwrap());
    assert_eq!(world.bash("git push"), Prompt);
    let call = call.conversation_document(world.conversation.clone());
    assert_eq!(world.engine().evaluate(call).decision(), Allow);
}
