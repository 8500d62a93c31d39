//! Examples in documents, tried when one is read.

use nervekit_permissions::*;
use serde_json::{Value, json};

fn check(rule: Value) -> Result<(), String> {
    let mut rule = rule;
    rule["id"] = "r".into();
    let document = json!({"schemaVersion": 2, "overlays": [{"ruleSetId": "supervised", "rules": [rule]}]});
    let text = serde_json::to_vec_pretty(&document).unwrap();
    PolicyDocument::parse(DocumentScope::User, &text).map(drop).map_err(|error| error.to_string())
}

#[test]
fn examples_of_commands_paths_urls_and_arguments() {
    for rule in [
        json!({
            "decision": "allow",
            "when": {"toolNames": ["bash"], "commandPrefix": ["cargo", "test"]},
            "examples": {
                "match": ["cargo test", "cargo test --all"],
                "notMatch": ["cargo build", "cargo test; id", "A=1 cargo test", {"tool": "read", "arguments": {"command": "cargo test"}}],
            },
        }),
        // The same words read the other way: what denies looks further.
        json!({
            "decision": "deny",
            "when": {"toolNames": ["bash"], "commandPrefix": ["rm"]},
            "examples": {"match": ["rm x", "sudo rm x", "true; rm x"], "notMatch": ["echo rm"]},
        }),
        json!({
            "decision": "allow",
            "when": {"toolNames": ["write"], "targets": {"quantifier": "all", "matcher": {"access": "write", "pattern": "src/**"}}},
            "examples": {
                "match": ["src/a/b", "./src/../src/a", {"arguments": {"path": "src/a"}}],
                "notMatch": ["SRCX/a", "src/../a", "../src/a", "/etc/passwd"],
            },
        }),
        json!({
            "decision": "deny",
            "when": {"primaryTarget": {"pattern": "**/.env*"}},
            "examples": {"match": [".env", "a/.env.local", "../b/.env"], "notMatch": ["env", {"arguments": {"key": "x"}}]},
        }),
        json!({
            "decision": "deny",
            "when": {"primaryTarget": {"root": "home", "subtree": ".ssh"}},
            "examples": {"match": [".ssh/id", ".ssh"], "notMatch": [".sshx", "a/.ssh"]},
        }),
        json!({
            "decision": "allow",
            "when": {"targets": {"quantifier": "all", "matcher": {"kind": "url", "pattern": "https://*.good.example/**"}}},
            "examples": {"match": ["https://a.good.example/x"], "notMatch": ["https://good.example.evil.example/", "https://good.example@evil.example/"]},
        }),
        json!({
            "decision": "allow",
            "when": {"toolNames": ["jira"], "arguments": [{"path": "args.key", "operator": "glob", "value": "A-*"}]},
            "examples": {"match": [{"arguments": {"key": "A-1"}}], "notMatch": [{"arguments": {"key": "B-1"}}, {"arguments": {}}]},
        }),
    ] {
        // What is no call at all, such as a URL with user-info, is not matched either.
        let result = check(rule.clone());
        assert_eq!(result, Ok(()), "{rule}");
    }
}

#[test]
fn a_wrong_example_refuses_the_document_with_the_place() {
    let rule = |examples: Value| json!({"decision": "allow", "when": {"toolNames": ["bash"], "commandPrefix": ["git", "log"]}, "examples": examples});
    for (examples, words) in [
        (json!({"match": ["git push"]}), "it does not match its example `git push`"),
        (json!({"notMatch": ["git log -1"]}), "it matches what it should not, its example `git log -1`"),
        (json!({"matches": []}), "unknown field `matches`"),
        (json!({"match": [{"arguments": {}, "x": 1}]}), "did not match any variant"),
        (json!(["git log"]), "invalid"),
    ] {
        let error = check(rule(examples)).unwrap_err();
        assert!(error.contains(words) && error.contains("at line "), "{error}");
    }
    let error = check(rule(json!({"match": ["git push"]}))).unwrap_err();
    assert!(error.contains("rule `r`") && error.contains("at line 6, column 9"), "{error}");
}
