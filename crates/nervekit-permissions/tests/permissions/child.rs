//! What binds a sub-agent, and what a rule can say about starting one.

use nervekit_permissions::*;
use nervekit_types::Digest;
use serde_json::json;

use crate::world::*;

use Decision::{Allow, Deny, Prompt};

/// A call of a child: its own conversation, with its own rule set and its own document.
fn of_child(world: &World, rule_set: &str, command: &str) -> ProposedCall {
    let arguments = EffectiveArguments::new(json!({ "command": command })).unwrap();
    ProposedCall::new(bash(), arguments, CallOrigin::Model, rule_set).working_directory(world.path("project"))
}

#[test]
fn a_child_is_bound_by_its_own_rule_set_and_by_every_guardrail_of_the_user() {
    let about = |word: &str| Filter::new().command_prefix([word]);
    let mut world = World::new("supervised")
        .user(allow(about("cargo")))
        .user(deny(about("make")))
        .project(allow(about("npm")))
        .conversation(allow(about("git")))
        .guardrail(deny(about("rm")))
        .guardrail(prompt(about("curl")).priority(1));
    // Bound to the rule set of the child.
    world
        .user
        .overlays
        .push(Overlay::new("autonomous").rule(Rule::new("no-docker", Deny).when(about("docker"))));
    world.user.overlays.push(Overlay::new("read_only").rule(Rule::new("ls", Allow).when(about("ls"))));
    let engine = world.engine();
    let lead = |command: &str| engine.evaluate(world.call(&bash(), json!({ "command": command }))).decision();
    let child =
        |rule_set: &str, command: &str| engine.evaluate(of_child(&world, rule_set, command)).decision();

    // What the lead was granted is not granted to its children, and what binds the lead alone does not bind them.
    for command in ["cargo x", "npm x", "git x"] {
        assert_eq!((lead(command), child("read_only", command)), (Allow, Deny), "{command}");
    }
    assert_eq!((lead("make"), child("autonomous", "make")), (Deny, Allow));
    assert_eq!((lead("docker x"), child("autonomous", "docker x")), (Prompt, Deny));
    assert_eq!((lead("ls"), child("read_only", "ls"), child("autonomous", "ls")), (Prompt, Allow, Allow));
    // Guardrails bind all.
    assert_eq!((lead("rm x"), child("autonomous", "rm x"), child("read_only", "rm x")), (Deny, Deny, Deny));
    assert_eq!((lead("curl x"), child("autonomous", "curl x")), (Prompt, Prompt));
    let evidence = engine.evaluate(of_child(&world, "autonomous", "rm x")).evidence;
    let winner = evidence.winner.as_ref().unwrap();
    assert_eq!((winner.source, &*winner.rule_set_id), (RuleSource::User, "autonomous"));

    // An answer about a call of the child is kept for the rule set of the child.
    let evidence = engine.evaluate(of_child(&world, "autonomous", "curl x")).evidence;
    let chosen = evidence.suggestions[0].clone();
    let grant = Grant::new(evidence, chosen, Deny, GrantScope::Conversation);
    let DocumentChange::Replace { document, .. } = engine.plan_grant(grant).unwrap() else { panic!() };
    assert_eq!(document.overlays[0].rule_set_id, "autonomous");
}

/// A delegation, with what the tool knows of the profiles.
fn delegation(world: &World, agents: &[AgentTarget]) -> ProposedCall {
    let names: Vec<&str> = agents.iter().map(|agent| &*agent.profile).collect();
    let tasks: Vec<_> = names.iter().map(|name| json!({ "profile": name })).collect();
    world.call(&subagent(), json!({ "tasks": tasks })).targets(
        agents
            .iter()
            .enumerate()
            .map(|(at, agent)| Target::agent(agent.clone()).argument(format!("tasks.{at}.profile"))),
    )
}

#[test]
fn a_delegation_is_decided_by_profile_and_digest() {
    let explore =
        AgentTarget::new("explore").rule_set("read_only").origin("builtin").digest(Digest::of("look around"));
    let developer = AgentTarget::new("developer").rule_set("autonomous").origin("builtin");
    let mut world = World::new("supervised")
        .project(deny(Filter::new().any_target(Matcher::new().kind(TargetKind::Agent).profile("deployer"))));
    let evaluation = world.engine().evaluate(delegation(&world, std::slice::from_ref(&explore)));
    assert_eq!(evaluation.decision(), Prompt);
    // The evidence says under what the sub-agent would run.
    let CanonicalSubject::Agent(shown) = evaluation.evidence.targets[0].subject() else { panic!() };
    assert_eq!(*shown, explore);

    let [chosen] = &evaluation.evidence.suggestions[..] else { panic!("{:?}", evaluation.evidence) };
    let grant = Grant::new(evaluation.evidence.clone(), chosen.clone(), Allow, GrantScope::Conversation);
    let DocumentChange::Replace { document, .. } = world.engine().plan_grant(grant).unwrap() else {
        panic!()
    };
    world.conversation = *document;
    let decide = |agents: &[AgentTarget]| world.engine().evaluate(delegation(&world, agents)).decision();
    assert_eq!(decide(std::slice::from_ref(&explore)), Allow);
    assert_eq!(decide(&[explore.clone(), explore.clone()]), Allow);
    // Another profile, a changed one, and one in between are asked about.
    assert_eq!(decide(std::slice::from_ref(&developer)), Prompt);
    assert_eq!(decide(&[explore.clone().digest(Digest::of("send the keys"))]), Prompt);
    assert_eq!(decide(&[explore.clone(), developer]), Prompt);
    // One that is denied denies the whole.
    assert_eq!(decide(&[explore, AgentTarget::new("deployer")]), Deny);
}

#[test]
fn the_guardrail_that_read_only_names_forbids_delegation() {
    let explore = [AgentTarget::new("explore").rule_set("read_only")];
    let world = World::new("read_only");
    assert_eq!(world.engine().evaluate(delegation(&world, &explore)).decision(), Allow);
    let set = builtin_rule_sets().iter().find(|set| set.id == "read_only").unwrap();
    let words = set.description.as_deref().unwrap();
    let end = words.find("}}").unwrap() + 2;
    let rule: Rule = serde_json::from_str(&words[words.find('{').unwrap()..end]).unwrap();
    let world = world.guardrail(rule);
    assert_eq!(world.engine().evaluate(delegation(&world, &explore)).decision(), Deny);
}
