//! Secret-looking and long values: from the suggestion to the bytes of the file.

use std::fs;

use nervekit_permissions::*;
use serde_json::{Value, json};

use crate::bed::Bed;

use Decision::{Allow, Prompt};

fn fetch() -> ToolDescriptor {
    ToolDescriptor::new("web_fetch", ToolKind::Network, Risk::Network)
        .primary_argument("url")
        .target(TargetSelector::url("url"))
}

fn write() -> ToolDescriptor {
    ToolDescriptor::new("write", ToolKind::Filesystem, Risk::Write)
        .primary_argument("path")
        .target(TargetSelector::path("path").write())
}

fn bash() -> ToolDescriptor {
    ToolDescriptor::new("bash", ToolKind::Command, Risk::Unknown)
        .group("shell")
        .primary_argument("command")
        .whole_tool()
}

fn note() -> ToolDescriptor {
    ToolDescriptor::new("note", ToolKind::Other, Risk::Unknown).whole_tool()
}

/// Calls, each with the text that must not be written.
fn calls() -> Vec<(ToolDescriptor, Value, String)> {
    let long = "x".repeat(1500);
    vec![
        (bash(), json!({"command": "login --with sk-0123456789"}), "sk-0123456789".to_owned()),
        (bash(), json!({"command": "login sk-0123456789"}), "sk-0123456789".to_owned()),
        (
            bash(),
            json!({"command": "curl -H 'Authorization: Bearer abcdef' https://a.test"}),
            "abcdef".to_owned(),
        ),
        (bash(), json!({"command": format!("echo {long}")}), long.clone()),
        (fetch(), json!({"url": "https://a.test/x?access_token=hunter2"}), "hunter2".to_owned()),
        (fetch(), json!({"url": "https://a.test/x?key=AIzaSyhunter2"}), "hunter2".to_owned()),
        (fetch(), json!({"url": "https://a.test/?q=%22sk-hunter2%22"}), "hunter2".to_owned()),
        (fetch(), json!({"url": format!("https://a.test/{long}")}), long.clone()),
        (write(), json!({"path": "keys/sk-0123456789"}), "sk-0123456789".to_owned()),
        // A link, so that only the canonical form shows it.
        (write(), json!({"path": "alias"}), "sk-0123456789".to_owned()),
        (write(), json!({"path": format!("{0}/{0}/{0}/{0}/{0}/{0}/{0}", "y".repeat(200))}), "y".repeat(200)),
        (note(), json!({"password": "hunter2"}), "hunter2".to_owned()),
        (note(), json!({"deep": [{"apiKey": "hunter2"}]}), "hunter2".to_owned()),
        (note(), json!({"headers": {"X-Api-Key": "hunter2"}}), "hunter2".to_owned()),
        (note(), json!({"headers": [{"name": "Cookie", "value": "hunter2"}]}), "hunter2".to_owned()),
        (note(), json!({"args": ["login", "--password", "hunter2"]}), "hunter2".to_owned()),
        (fetch(), json!({"url": "https://a.test/?X-Api-Key=hunter2"}), "hunter2".to_owned()),
        (bash(), json!({"command": "login --password hunter2"}), "hunter2".to_owned()),
        (bash(), json!({"command": "curl -H 'X-Api-Key: hunter2' https://a.test"}), "hunter2".to_owned()),
        (
            bash(),
            json!({"command": "curl -d '{\"password\": \"hunter2\"}' https://a.test"}),
            "hunter2".to_owned(),
        ),
        (bash(), json!({"command": "AWS_SECRET_ACCESS_KEY=hunter2 aws s3 ls"}), "hunter2".to_owned()),
        (bash(), json!({"command": "git clone https://me:hunter2@a.test/x"}), "hunter2".to_owned()),
        (note(), json!({"text": long.clone()}), long),
    ]
}

fn evaluate(
    bed: &Bed,
    tool: &ToolDescriptor,
    arguments: &Value,
    conversation: &PolicyDocument,
) -> Evaluation {
    let call = ProposedCall::new(
        tool.clone(),
        EffectiveArguments::new(arguments.clone()).unwrap(),
        CallOrigin::Model,
        "supervised",
    );
    let call = call.working_directory(bed.path("project")).conversation_document(conversation.clone());
    bed.engine.evaluate(call)
}

#[tokio::test]
async fn a_rule_about_a_secret_or_long_value_holds_a_digest_and_counts_for_this_very_call() {
    for (tool, arguments, secret) in calls() {
        let bed = Bed::new();
        bed.documents.adopt().await.unwrap();
        std::os::unix::fs::symlink("sk-0123456789", bed.path("project/alias")).unwrap();
        let evaluation = evaluate(&bed, &tool, &arguments, &PolicyDocument::new());
        assert_eq!(evaluation.decision(), Prompt, "{arguments}");
        let suggestions = evaluation.evidence.suggestions.clone();
        assert!(!suggestions.is_empty(), "{arguments}");
        let policies = PolicyDocuments::new(bed.documents.clone());
        let mut user = 0;
        for suggestion in &suggestions {
            let rule = serde_json::to_string(&suggestion.rule).unwrap();
            assert!(!rule.contains(&secret), "{arguments}: {rule}");
            let whole = suggestion.kind == SuggestionKind::WholeCall;
            if whole {
                assert!(rule.contains(r#""operator":"digest""#), "{arguments}: {rule}");
            }
            let grant = |scope| Grant::new(evaluation.evidence.clone(), suggestion.clone(), Allow, scope);
            // The project's file is read by others.
            let project = bed.project_id().owner;
            let saved = policies.save(&bed.engine, &project, &grant(GrantScope::Project)).await;
            if whole {
                assert!(matches!(saved, Err(GrantError::SecretInProject)), "{arguments}: {saved:?}");
            }
            let planned = bed.engine.plan_grant(grant(GrantScope::Conversation)).unwrap();
            let DocumentChange::Replace { document, .. } = planned else { panic!("{planned:?}") };
            assert!(!serde_json::to_string(&document).unwrap().contains(&secret), "{arguments}");
            assert_eq!(evaluate(&bed, &tool, &arguments, &document).decision(), Allow, "{arguments}");
            let person = DocumentOwner::User(None);
            match policies.save(&bed.engine, &person, &grant(GrantScope::User)).await {
                Ok(saved) => user += usize::from(saved.is_some()),
                // Rules about commands are not kept for the user.
                Err(error) => assert_eq!(error.kind(), "command_at_user_scope", "{arguments}"),
            }
        }
        assert!(suggestions.iter().any(|known| known.kind == SuggestionKind::WholeCall), "{arguments}");
        assert_eq!(user > 0, tool.name != "bash", "{arguments}");
        for file in [bed.user(), bed.project()] {
            let text = fs::read_to_string(&file).unwrap_or_default();
            assert!(!text.contains(&secret), "{arguments}: {text}");
        }
        // What was saved counts for this call, and for no other.
        if tool.name == "note" {
            let nothing = PolicyDocument::new();
            assert_eq!(evaluate(&bed, &tool, &arguments, &nothing).decision(), Allow, "{arguments}");
            assert_eq!(evaluate(&bed, &tool, &json!({"password": "other"}), &nothing).decision(), Prompt);
        }
    }
}

#[tokio::test]
async fn a_rule_that_was_made_up_is_not_saved() {
    let bed = Bed::new();
    let (tool, arguments, secret) = calls().remove(0);
    let evidence = evaluate(&bed, &tool, &arguments, &PolicyDocument::new()).evidence;
    let when = Filter::new().tool("bash").argument("args.command", Operator::Equals, json!(secret));
    let mine = SuggestedRule::new(SuggestionKind::WholeCall, "mine", Rule::new("mine", Allow).when(when))
        .scopes([GrantScope::Project]);
    let grant = Grant::new(evidence, mine, Allow, GrantScope::Project);
    let policies = PolicyDocuments::new(bed.documents.clone());
    let refused = policies.save(&bed.engine, &bed.project_id().owner, &grant).await;
    assert!(matches!(refused, Err(GrantError::NotSuggested(_))), "{refused:?}");
    assert!(!bed.project().exists());
}

#[tokio::test]
async fn words_that_only_resemble_a_key_are_kept_in_clear() {
    let bed = Bed::new();
    for path in [
        "docs/task-list.md",
        "src/disk-usage.rs",
        "risk-register/open",
        "src/token.rs",
        "docs/secret-key.md",
        "docs/a@b.md",
    ] {
        let evaluation = evaluate(&bed, &write(), &json!({ "path": path }), &PolicyDocument::new());
        let kinds: Vec<_> = evaluation.evidence.suggestions.iter().map(|known| known.kind).collect();
        assert_eq!(kinds, [SuggestionKind::Exact, SuggestionKind::Subtree], "{path}");
    }
}
