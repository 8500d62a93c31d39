//! Explaining an old call from the bytes of the policy that decided it.

use nervekit_permissions::*;
use nervekit_types::Digest;
use serde_json::{Value, json};

use crate::world::*;

fn calls() -> Vec<(ToolDescriptor, Value)> {
    vec![
        (bash(), json!({"command": "ls"})),
        (bash(), json!({"command": "cargo test --all", "cwd": "src"})),
        (read(), json!({"path": "src/a"})),
        (read(), json!({"path": ".env"})),
        (write(), json!({"path": ".git/config"})),
        (write_two(), json!({"a": "src/a", "b": "src/b"})),
        (grep(), json!({})),
        (fetch(), json!({"url": "https://a.test/"})),
        (issue(), json!({"issue_key": "A-1", "fields": {"b": 1, "a": [{"d": 2.5, "c": null}]}})),
    ]
}

#[test]
fn scenario_15_an_old_call_is_explained_from_the_bytes_of_its_policy() {
    let whole = json!({"issue_key": "A-1", "fields": {"b": 1, "a": [{"d": 2.5, "c": null}]}});
    let world = World::new("supervised")
        .guardrail(deny(Filter::new().any_target(Matcher::new().pattern("**/.env*"))))
        .user(deny(Filter::new().tool("bash").command_prefix(["ls"])))
        .user(allow(Filter::new().tool("jira_update_issue").argument("args", Operator::Equals, whole)))
        .project(prompt(Filter::new().tool("web_fetch")).matching("https://b.test/"))
        .conversation(allow(Filter::new().tool("write").primary_target(Matcher::new().exact("src/a"))));
    let engine = world.engine();
    let mut decisions = Vec::new();
    for (tool, arguments) in calls() {
        let call = world.call(&tool, arguments);
        engine.replace_document(DocumentScope::User, Some(world.user.clone()));
        let before = engine.evaluate(call.clone());
        // What a host stores: the evidence with the call, the bytes once for each digest.
        let stored = serde_json::to_vec(&*before.evidence).unwrap();
        let bytes = before.policy.as_ref().unwrap().to_bytes();
        assert_eq!(Digest::of(&bytes), before.evidence.policy);

        engine.replace_document(DocumentScope::User, None);
        assert_ne!(engine.evaluate(call.clone()).evidence.policy, before.evidence.policy);

        let policy = Policy::from_bytes(&bytes).unwrap();
        assert_eq!((policy.digest(), policy.to_bytes()), (before.evidence.policy, bytes));
        let resolved = TargetResolver::new(world.roots()).resolve(&call).unwrap();
        let verdict = policy.decide(&resolved);
        assert_eq!(serde_json::to_vec(&verdict.evidence()).unwrap(), stored, "{tool:?}");
        assert_eq!(verdict.explain(), before.policy.unwrap().decide(&resolved).explain());
        decisions.push(verdict.decision());
    }
    for decision in [Decision::Allow, Decision::Prompt, Decision::Deny] {
        assert!(decisions.contains(&decision), "{decision} was not met");
    }
}

#[test]
fn every_evidence_that_names_a_policy_comes_with_it() {
    let world = World::new("planning");
    let engine = world.engine();
    let planned = engine
        .evaluate(world.call(&fetch(), json!({"url": "https://a.test/"})).until_confirmed("supervised"));
    assert_eq!(planned.policy.unwrap().digest(), planned.evidence.policy);
    let coding = planned.evidence.until_confirmed.as_deref().unwrap();
    let policy = planned.policy_until_confirmed.unwrap();
    assert_eq!((policy.digest(), policy.rule_set()), (coding.policy, "supervised"));
    assert_ne!(coding.policy, planned.evidence.policy);

    // What cannot be judged, and what is judged without the rule set that was selected.
    for call in [world.call(&read(), json!({})), World::new("gone").call(&bash(), json!({"command": "ls"}))] {
        let evaluation = engine.evaluate(call);
        assert_eq!(evaluation.policy.unwrap().digest(), evaluation.evidence.policy);
        assert!(evaluation.policy_until_confirmed.is_none());
    }
}

#[test]
fn bytes_that_no_policy_wrote_are_refused() {
    let supervised = builtin_rule_sets().iter().find(|set| set.id == "supervised").unwrap();
    let policy = PolicyBuilder::new(supervised).build().unwrap();
    let text = String::from_utf8(policy.to_bytes()).unwrap();
    let first = text.find(r#"{"rule":"#).unwrap();
    let changed = [
        text.replace(r#""schemaVersion":2"#, r#""schemaVersion":3"#),
        text.replace(r#""enforcement":0"#, r#""enforcement":2"#),
        text.replace("},", "}, "),
        text.replace(r#""ruleSet":"#, r#""other":0,"ruleSet":"#),
        text[..first].to_owned(),
    ];
    for changed in changed {
        assert_ne!(changed, text);
        assert!(
            matches!(Policy::from_bytes(changed.as_bytes()), Err(DocumentError::Malformed(_))),
            "{changed}"
        );
    }
    // The strongest rule comes first, whatever order they were read in.
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["rules"].as_array_mut().unwrap().reverse();
    assert!(Policy::from_bytes(&serde_json::to_vec(&value).unwrap()).is_err());
}
