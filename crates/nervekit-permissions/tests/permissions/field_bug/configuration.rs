//! Faults around the documents themselves: who writes them, what they may say, what "always" stores.

use nervekit_permissions::*;
use serde_json::{Value, json};

use crate::world::*;

use Decision::{Allow, Deny, Prompt};

#[test]
fn case_19_the_files_that_hold_the_rules_are_never_written_without_a_person() {
    let world = ["python3 *", "tee *", "cp *", "mv *"].into_iter().fold(
        World::new("autonomous")
            .conversation(allow(Filter::new().tool("write").every_target(Matcher::new().subtree(""))))
            .conversation(allow(Filter::new().tool("write"))),
        |world, pattern| {
            world.conversation(allow(Filter::new().tool("bash").primary_argument(Operator::Glob, pattern)))
        },
    );
    world.write("home/.nerve/config/permissions.json", "{}");
    world.write("home/.nerve/data/store.redb", "store");
    world.write("project/.nerve/config/permissions.json", "{}");
    let absolute = |name: &str| world.path(name).to_str().unwrap().to_owned();
    let rules = [
        ".nerve/config/permissions.json".to_owned(),
        ".nerve/config/other.json".to_owned(),
        "src/.NERVE/config/permissions.json".to_owned(),
        "src/../.nerve/config/permissions.json".to_owned(),
        absolute("home/.nerve/config/permissions.json"),
        absolute("home/.nerve/config/rule-sets/mine.json"),
        absolute("home/.nerve/trust.json"),
        absolute("home/.nerve/data/store.redb"),
    ];
    for _ in 0..2 {
        for path in &rules {
            assert_eq!(world.write_call(path), Prompt, "{path}");
        }
    }
    assert_eq!(world.write_call("src/plain"), Allow);
    // Under another name, by a link or by a folder that was moved.
    #[cfg(unix)]
    {
        let link = |content: &str, name: &str| {
            std::os::unix::fs::symlink(world.path(content), world.path(name)).unwrap();
        };
        link("project/.nerve/config/permissions.json", "project/notes");
        link("home/.nerve", "project/elsewhere");
        std::fs::hard_link(world.path("home/.nerve/data/store.redb"), world.path("project/copy")).unwrap();
        assert_eq!(world.write_call("notes"), Prompt);
        assert_eq!(world.write_call("elsewhere/config/permissions.json"), Prompt);
    }
    // No rule of anybody lifts it but a person's exact grant, and that for this file only.
    let world = world.user(allow(Filter::new().tool("write").any_target(Matcher::new().subtree(".nerve"))));
    assert_eq!(world.write_call(&rules[0]), Prompt);
    let world = world.conversation(
        allow(Filter::new().tool("write").every_target(Matcher::new().exact(&*rules[0]))).priority(500),
    );
    assert_eq!(world.write_call(&rules[0]), Allow);
    assert_eq!(world.write_call(&rules[1]), Prompt);
}

#[test]
fn case_19_a_changed_file_is_not_picked_up_by_a_running_engine() {
    let world = World::new("supervised").user(deny(Filter::new().command_prefix(["git", "push"])));
    let engine = world.engine();
    let decide =
        |command: &str| engine.evaluate(world.call(&bash(), json!({ "command": command }))).decision();
    assert_eq!(decide("git push"), Deny);
    let open = PolicyDocument::new().overlay(Overlay::new("supervised").rule(allow(Filter::new())));
    world.write("home/.nerve/config/permissions.json", &serde_json::to_string(&open).unwrap());
    world.write("project/.nerve/config/permissions.json", &serde_json::to_string(&open).unwrap());
    assert_eq!(decide("git push"), Deny);
    assert_eq!(decide("ls"), Prompt);
    // The host hands documents over, after it has judged them.
    engine.replace_document(DocumentScope::User, Some(open));
    assert_eq!(decide("git push"), Allow);
}

#[test]
fn case_22_a_document_says_nothing_but_rules() {
    let good = json!({"schemaVersion": SCHEMA_VERSION, "overlays": []});
    assert!(PolicyDocument::parse(DocumentScope::Project, good.to_string().as_bytes()).is_ok());
    for (field, value) in [
        ("trust", json!(true)),
        ("trusted", json!(["sha256:00"])),
        ("trustStore", json!("/tmp/elsewhere")),
        ("baseUrl", json!("http://127.0.0.1:1")),
        ("headers", json!({"authorization": "x"})),
        ("proxy", json!("http://127.0.0.1:1")),
        ("env", json!({"HTTPS_PROXY": "http://127.0.0.1:1"})),
        ("acceptUserPolicy", json!(true)),
    ] {
        let mut document = good.clone();
        document[field] = value;
        let error =
            PolicyDocument::parse(DocumentScope::Project, document.to_string().as_bytes()).unwrap_err();
        assert!(error.to_string().contains(field), "{error}");
    }
    // A project neither guards nor speaks for another scope.
    let guarding = json!({"schemaVersion": SCHEMA_VERSION, "guardrails": [
        {"id": "a", "enforcement": "guardrail", "decision": "deny"},
    ]});
    assert!(PolicyDocument::parse(DocumentScope::Project, guarding.to_string().as_bytes()).is_err());
    assert!(PolicyDocument::parse(DocumentScope::User, guarding.to_string().as_bytes()).is_ok());
}

#[test]
fn case_23_a_document_that_cannot_be_read_is_refused_as_a_whole_with_the_place() {
    let rule = r#"{"id": "push", "when": {"commandPrefix": ["git", "push"]}, "decision": "deny"}"#;
    let with = |rules: &str| {
        format!(r#"{{"schemaVersion": 2, "overlays": [{{"ruleSetId": "supervised", "rules": [{rules}]}}]}}"#)
    };
    let good = with(rule);
    assert!(PolicyDocument::parse(DocumentScope::User, good.as_bytes()).is_ok());
    let second = |text: &str| with(&format!("{rule}, {text}")).into_bytes();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: [(&str, Vec<u8>, &str); 13] = [
        ("trailing comma", with(&format!("{rule},")).into_bytes(), "line 1"),
        ("truncated", good.as_bytes()[..good.len() / 2].to_vec(), "line 1"),
        ("empty", Vec::new(), "EOF"),
        ("unknown field", second(r#"{"id": "b", "decision": "allow", "sudo": true}"#), "sudo"),
        ("wrong type", second(r#"{"id": "b", "decision": "allow", "priority": "high"}"#), "line 1"),
        ("unknown decision", second(r#"{"id": "b", "decision": "yes"}"#), "yes"),
        ("duplicate key", second(r#"{"id": "b", "decision": "deny", "decision": "allow"}"#), "decision"),
        ("duplicate id", second(r#"{"id": "push", "decision": "allow", "priority": 1}"#), "push"),
        ("duplicate priority", second(r#"{"id": "b", "decision": "allow"}"#), "priority"),
        (
            "bad pattern",
            second(
                r#"{"id": "b", "decision": "allow", "priority": 1, "when": {"targets": {"quantifier": "all", "matcher": {"pattern": "src/{"}}}}"#,
            ),
            "`b`",
        ),
        ("invalid UTF-8", [good.as_bytes(), b"\xff"].concat(), "UTF-8"),
        ("too large", [good.as_bytes(), &vec![b' '; 10 << 20]].concat(), "bytes"),
        ("deep", second(&deep), "deep"),
    ];
    for (name, bytes, words) in cases {
        let error = PolicyDocument::parse(DocumentScope::User, &bytes).unwrap_err().to_string();
        assert!(error.contains(words), "{name}: {error}");
    }
    // What was handed over although it is wrong counts for nothing, and evidence says so.
    let mut bad = PolicyDocument::parse(DocumentScope::User, good.as_bytes()).unwrap();
    bad.overlays[0].rules.push(Rule::new("open", Allow));
    let world = World { user: bad, ..World::new("supervised") };
    let evaluation = world.evaluate(&bash(), json!({"command": "ls"}));
    assert_eq!(evaluation.decision(), Prompt);
    assert!(evaluation.evidence.ignored_documents[0].reason.contains("open"));
}

/// Saves every suggestion of a call, one after the other, and decides other calls with each alone.
fn with_each_suggestion(tool: &ToolDescriptor, call: &Value, check: impl Fn(&World, &SuggestedRule)) {
    let mut world = World::new("supervised");
    let evaluation = world.evaluate(tool, call.clone());
    assert_eq!(evaluation.decision(), Prompt, "{call}");
    for suggestion in &evaluation.evidence.suggestions {
        let scope = GrantScope::Conversation;
        let grant = Grant::new(evaluation.evidence.clone(), suggestion.clone(), Allow, scope);
        let DocumentChange::Replace { document, .. } = world.engine().plan_grant(grant).unwrap() else {
            panic!("{call}: nothing was stored");
        };
        assert_eq!(document.rules().count(), 1);
        world.conversation = *document;
        check(&world, suggestion);
    }
}

#[test]
fn case_25_always_stores_what_was_seen_and_nothing_wider() {
    for (command, other) in [
        (json!({}), "ls"),
        (json!({"command": ""}), "ls"),
        (json!({"command": "   "}), "ls"),
        (json!({"command": "for f in *; do rm $f; done"}), "for f in *; do rm -r $f; done"),
        (json!({"command": "cd \"$x\"; make"}), "cd \"$x\"; make install"),
        (json!({"command": "sleep 1 && curl x"}), "sleep 1 && curl y"),
    ] {
        with_each_suggestion(&bash(), &command, |saved, suggestion| {
            assert_eq!(suggestion.kind, SuggestionKind::WholeCall, "{command}");
            assert_eq!(saved.decide(&bash(), command.clone()), Allow, "{command}");
            for other in [other, "ls", "rm -rf /", ""] {
                if command["command"] != json!(other) {
                    assert_eq!(saved.bash(other), Prompt, "{command}: {other}");
                }
            }
            let elsewhere = json!({"command": "ls", "cwd": ".."});
            assert_eq!(saved.decide(&bash(), elsewhere), Prompt);
        });
    }
    // A path is stored as it is matched, not as it was typed.
    with_each_suggestion(&write(), &json!({"path": "./a/../../b"}), |saved, suggestion| {
        let text = serde_json::to_string(&suggestion.rule).unwrap();
        assert!(!text.contains("..") && text.contains("\"exact\""), "{text}");
        assert_eq!(saved.write_call("../b"), Allow);
        for other in ["b", "../c", "../b/c", "a/b", ".."] {
            assert_eq!(saved.write_call(other), Prompt, "{other}");
        }
    });
    // A tool without arguments: this call, and not one with arguments.
    let tool = ToolDescriptor::new("deploy", ToolKind::Deployment, Risk::Deployment);
    with_each_suggestion(&tool, &json!({}), |saved, _| {
        assert_eq!(saved.decide(&tool, json!({})), Allow);
        assert_eq!(saved.decide(&tool, json!({"to": "production"})), Prompt);
    });
    // A URL with a user name is refused, so there is nothing to remember.
    let world = World::new("supervised");
    let evidence = world.evaluate(&fetch(), json!({"url": "https://a@b.test/"})).evidence;
    assert_eq!(evidence.decision, Deny);
    assert!(evidence.suggestions.is_empty());
}
