//! Planning that the model entered, before a person confirmed it.

use nervekit_permissions::*;
use serde_json::json;

use crate::world::*;

use Decision::{Allow, Deny, Prompt};

fn unconfirmed(world: &World, tool: &ToolDescriptor, arguments: serde_json::Value) -> Evaluation {
    world.engine().evaluate(world.call(tool, arguments).until_confirmed("supervised"))
}

fn confirmed(world: &World, tool: &ToolDescriptor, arguments: serde_json::Value) -> Evaluation {
    world.engine().evaluate(world.call(tool, arguments))
}

/// A world that plans, with rules that are bound to the coding rule set.
fn planning(coding: Overlay) -> World {
    let mut world = World::new("planning");
    world.user = PolicyDocument::new().overlay(coding);
    world
}

#[test]
fn what_the_coding_rule_set_withholds_from_a_search_stays_withheld() {
    let hidden = deny(Filter::new().any_target(Matcher::new().pattern("**/*.key")));
    let id = hidden.id.clone();
    let world = planning(Overlay::new("supervised").rule(hidden));
    let evaluation = unconfirmed(&world, &grep(), json!({}));
    assert_eq!(evaluation.decision(), Allow);
    assert_eq!(evaluation.evidence.withholding, [id]);
    let entries = evaluation.targets[0].entries.as_ref().unwrap();
    assert!(entries.allows("src/a") && !entries.allows("src/a.key"));
    // Once a person confirmed it, planning decides alone.
    let evaluation = confirmed(&world, &grep(), json!({}));
    assert!(evaluation.targets[0].entries.as_ref().unwrap().allows("src/a.key"));
    assert_eq!(evaluation.evidence.withholding.len(), 0);
}

#[test]
fn the_stricter_of_both_rule_sets_decides() {
    let url = || json!({"url": "https://a.test/"});
    let world = planning(Overlay::new("supervised").rule(deny(Filter::new().tool("web_fetch"))));
    assert_eq!(unconfirmed(&world, &fetch(), url()).decision(), Deny);
    assert_eq!(confirmed(&world, &fetch(), url()).decision(), Allow);
    // An allow of the coding rule set lifts nothing of planning, and one of planning nothing of coding.
    let mut world = planning(Overlay::new("supervised").rule(allow(Filter::new())));
    assert_eq!(unconfirmed(&world, &write(), json!({"path": "src/a"})).decision(), Deny);
    assert_eq!(unconfirmed(&world, &bash(), json!({"command": "ls"})).decision(), Prompt);
    world.user = PolicyDocument::new().overlay(Overlay::new("planning").rule(allow(Filter::new())));
    assert_eq!(unconfirmed(&world, &write(), json!({"path": "src/a"})).decision(), Prompt);
    // What is asked for that reason is not kept: the rule would be one of planning.
    let evaluation = unconfirmed(&world, &fetch(), url());
    assert!(!evaluation.evidence.rememberable() && evaluation.evidence.suggestions.is_empty());
    assert!(
        evaluation.evidence.reason.contains("planning is not confirmed"),
        "{}",
        evaluation.evidence.reason
    );
    assert!(evaluation.policy_until_confirmed.is_some());
}

#[test]
fn writing_plans_and_talking_to_the_person_are_of_planning_alone() {
    let world = planning(Overlay::new("supervised").rule(deny(Filter::new())));
    let plan = world.path("plans/a.md");
    assert_eq!(unconfirmed(&world, &write(), json!({ "path": plan })).decision(), Allow);
    assert_eq!(unconfirmed(&world, &ask_user(), json!({})).decision(), Allow);
    // One other target, or a control file among the plans, is enough for both to be asked.
    let other = json!({"a": plan, "b": "src/a"});
    assert_eq!(unconfirmed(&world, &write_two(), other).decision(), Deny);
    let steering = world.path("plans/AGENTS.md");
    assert_eq!(unconfirmed(&world, &write(), json!({ "path": steering })).decision(), Deny);
    assert_eq!(unconfirmed(&world, &read(), json!({ "path": plan })).decision(), Deny);
    // A guardrail of the user binds planning itself.
    let world = world.guardrail(deny(Filter::new().tool("write")));
    assert_eq!(unconfirmed(&world, &write(), json!({ "path": plan })).decision(), Deny);
}

#[test]
fn a_coding_rule_set_that_is_gone_asks() {
    let world = World::new("planning");
    let call = world.call(&fetch(), json!({"url": "https://a.test/"})).until_confirmed("gone");
    let evaluation = world.engine().evaluate(call);
    assert_eq!(evaluation.decision(), Prompt);
    assert!(evaluation.evidence.reason.contains("`gone`"), "{}", evaluation.evidence.reason);
    assert!(!evaluation.evidence.rememberable());
}
