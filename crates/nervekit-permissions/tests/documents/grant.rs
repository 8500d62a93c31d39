//! What a person saw, accepted, remembered and revoked.

use std::fs;

use nervekit_permissions::*;

use crate::bed::{Bed, document, rule, user_id};

use Decision::{Allow, Deny, Prompt};

/// The narrowest answer to a command that asks, for a scope.
pub(crate) fn grant(bed: &Bed, scope: DocumentScope, command: &str, decision: Decision) -> Grant {
    let scope = match scope {
        DocumentScope::User => GrantScope::User,
        DocumentScope::Project => GrantScope::Project,
        DocumentScope::Conversation => GrantScope::Conversation,
    };
    if scope == GrantScope::User {
        // Rules about commands are not saved for the user; a URL is.
        let fetch = ToolDescriptor::new("web_fetch", ToolKind::Network, Risk::Network)
            .primary_argument("url")
            .target(TargetSelector::url("url"));
        let url = format!("https://{}.test/", command.replace(' ', "-"));
        let arguments = EffectiveArguments::new(serde_json::json!({ "url": url })).unwrap();
        let call = ProposedCall::new(fetch, arguments, CallOrigin::Model, "supervised");
        let evidence = bed.engine.evaluate(call).evidence;
        let suggestion = evidence.suggestions[0].clone();
        return Grant::new(evidence, suggestion, decision, scope);
    }
    let evidence = bed.evidence("supervised", command);
    let suggestion = evidence.suggestions.iter().find(|known| known.kind == SuggestionKind::CommandPrefix);
    let suggestion = suggestion.unwrap().clone();
    Grant::new(evidence, suggestion, decision, scope)
}

#[tokio::test]
async fn a_grant_for_the_project_counts_at_once_and_can_be_revoked() {
    let bed = Bed::new();
    let owner = bed.project_id().owner;
    let policies = PolicyDocuments::new(bed.documents.clone());
    assert_eq!(policies.status(&owner).await.unwrap().standing, Standing::Absent);
    let push = grant(&bed, DocumentScope::Project, "git push", Allow);
    let saved = policies.save(&bed.engine, &owner, &push).await.unwrap().unwrap();
    assert_eq!(bed.bash("supervised", "git push origin"), Allow);
    let pull = grant(&bed, DocumentScope::Project, "git pull", Allow);
    policies.save(&bed.engine, &owner, &pull).await.unwrap().unwrap();
    let rules = policies.rules(&owner).await.unwrap();
    assert_eq!(rules.len(), 2);
    assert_eq!(rules[1].rule.priority, rules[0].rule.priority + 1);
    assert_eq!(rules[0].summary, "every `bash` command that begins with `git push`");
    assert_eq!(rules[0].rule_set_id.as_deref(), Some("supervised"));
    // The same matcher again: updated in place.
    let mut never = push.clone();
    never.decision = Deny;
    let updated = policies.save(&bed.engine, &owner, &never).await.unwrap().unwrap();
    assert_eq!(updated.rule, saved.rule);
    assert_eq!(bed.bash("autonomous", "git push"), Allow); // bound to `supervised`
    assert_eq!(bed.bash("supervised", "git push"), Deny);
    let revoked = policies.revoke(&owner, &saved.rule).await.unwrap().unwrap();
    assert_eq!(revoked.rule.id, saved.rule);
    assert_eq!(bed.bash("supervised", "git push"), Prompt);
    assert_eq!(policies.revoke(&owner, &saved.rule).await.unwrap(), None);
    assert_eq!(policies.rules(&owner).await.unwrap().len(), 1);
    let mut once = push;
    once.scope = GrantScope::Once;
    let before = fs::read(bed.project()).unwrap();
    assert_eq!(policies.save(&bed.engine, &owner, &once).await.unwrap(), None);
    assert_eq!(fs::read(bed.project()).unwrap(), before);
}

#[tokio::test]
async fn a_project_document_that_is_not_trusted_is_not_written() {
    let bed = Bed::new();
    let id = bed.project_id();
    let policies = PolicyDocuments::new(bed.documents.clone());
    let cloned = document(&[rule("all", Allow, &["make"], 0)]);
    fs::write(bed.project(), &cloned).unwrap();
    let push = grant(&bed, DocumentScope::Project, "git push", Allow);
    for reject in [false, true] {
        if reject {
            policies.reject(&id.owner, nervekit_types::Digest::of(&cloned)).await.unwrap();
        }
        let before = bed.trust.read(&id).await.unwrap();
        let refused = policies.save(&bed.engine, &id.owner, &push).await;
        assert!(matches!(refused, Err(GrantError::ProjectDocumentUntrusted)), "{refused:?}");
        assert_eq!(fs::read(bed.project()).unwrap(), cloned);
        assert_eq!(bed.trust.read(&id).await.unwrap(), before);
    }
    policies.trust(&id.owner, nervekit_types::Digest::of(&cloned)).await.unwrap();
    policies.save(&bed.engine, &id.owner, &push).await.unwrap().unwrap();
    assert_eq!((bed.bash("supervised", "make"), bed.bash("supervised", "git push")), (Allow, Allow));
}

#[tokio::test]
async fn an_edited_document_of_the_user_is_not_accepted_by_saving_into_it() {
    let bed = Bed::new();
    bed.documents.adopt().await.unwrap();
    let policies = PolicyDocuments::new(bed.documents.clone());
    let edited = document(&[rule("all", Allow, &["evil"], 0)]);
    fs::write(bed.user(), &edited).unwrap();
    let answer = grant(&bed, DocumentScope::User, "a", Allow);
    let owner = user_id().owner;
    let refused = policies.save(&bed.engine, &owner, &answer).await;
    assert!(matches!(refused, Err(GrantError::Document(DocumentError::Untrusted { .. }))), "{refused:?}");
    assert_eq!(fs::read(bed.user()).unwrap(), edited);
    assert_eq!(bed.bash("supervised", "evil"), Prompt);
    let status = policies.status(&owner).await.unwrap();
    assert_eq!((status.standing, status.automatic.len(), status.added.len()), (Standing::Changed, 2, 2));
    policies.trust(&owner, status.digest.unwrap()).await.unwrap();
    policies.save(&bed.engine, &owner, &answer).await.unwrap().unwrap();
    assert_eq!(bed.bash("supervised", "evil"), Allow);
}

#[tokio::test]
async fn never_and_always_ask_become_guardrails_of_the_user() {
    let bed = Bed::new();
    bed.documents.adopt().await.unwrap();
    let policies = PolicyDocuments::new(bed.documents.clone());
    let owner = user_id().owner;
    for (name, decision) in [("never", Deny), ("ask", Prompt)] {
        let answer = grant(&bed, DocumentScope::User, name, decision).guardrail();
        policies.save(&bed.engine, &owner, &answer).await.unwrap().unwrap();
    }
    let rules = policies.rules(&owner).await.unwrap();
    assert!(rules.iter().all(|bound| bound.rule.enforcement == Enforcement::Guardrail));
    assert_eq!(rules.iter().map(|bound| bound.rule.decision).collect::<Vec<_>>(), [Deny, Prompt]);
}

#[tokio::test]
async fn a_document_that_is_gone_is_made_anew_from_what_still_restricts() {
    let bed = Bed::new();
    let rules = [rule("tests", Allow, &["cargo", "test"], 0), rule("no-rm", Deny, &["rm"], 1)];
    fs::write(bed.project(), document(&rules)).unwrap();
    bed.trust(&bed.project_id()).await;
    fs::remove_file(bed.project()).unwrap();
    let policies = PolicyDocuments::new(bed.documents.clone());
    let push = grant(&bed, DocumentScope::Project, "git push", Allow);
    policies.save(&bed.engine, &bed.project_id().owner, &push).await.unwrap().unwrap();
    assert_eq!(bed.bash("supervised", "git push"), Allow);
    assert_eq!(bed.bash("autonomous", "rm x"), Deny);
    assert_eq!(bed.bash("supervised", "cargo test"), Prompt);
}

#[tokio::test]
async fn the_trust_view_says_what_becomes_automatic_and_what_changed() {
    let bed = Bed::new();
    let owner = bed.project_id().owner;
    let policies = PolicyDocuments::new(bed.documents.clone());
    let write = |rules: &[(&str, &str)]| {
        let rules: Vec<String> = rules
            .iter()
            .enumerate()
            .map(|(at, (decision, when))| {
                format!(r#"{{"id": "r{at}", "priority": {at}, "decision": "{decision}", "when": {when}}}"#)
            })
            .collect();
        let rules = rules.join(",");
        let text =
            format!(r#"{{"schemaVersion": 2, "overlays": [{{"ruleSetId": "s", "rules": [{rules}]}}]}}"#);
        fs::write(bed.project(), text).unwrap();
    };
    let wide = [
        ("allow", r#"{"toolNames": ["bash"]}"#),
        ("allow", "{}"),
        ("deny", r#"{"toolNames": ["rm"]}"#),
        ("allow", r#"{"toolGroups": ["web"], "origins": ["user"]}"#),
        (
            "allow",
            r#"{"toolNames": ["write"], "targets": {"quantifier": "all", "matcher": {"root": "project", "pattern": "src/**"}}}"#,
        ),
        ("allow", r#"{"arguments": [{"path": "args.a", "operator": "equals", "value": "x\u202ey"}]}"#),
    ];
    write(&wide);
    let status = policies.status(&owner).await.unwrap();
    assert_eq!(status.standing, Standing::Untrusted);
    let words: Vec<&str> = status.automatic.iter().map(|bound| &*bound.summary).collect();
    assert_eq!(
        words,
        [
            "every `bash` command",
            "every call",
            "every call of a tool of the group `web`, and asked for by the user",
            "every `write` call all of whose targets are anything that matches `src/**` in the project",
            "every call whose `args.a` is `\"x\\u{202e}y\"`",
        ]
    );
    assert_eq!((status.added.len(), status.removed.len()), (6, 0));
    let shown = status.digest.unwrap();
    write(&wide[1..]);
    assert!(matches!(policies.trust(&owner, shown).await, Err(DocumentError::Changed { .. })));
    write(&wide);
    policies.trust(&owner, shown).await.unwrap();
    // Compared with what was trusted last.
    write(&wide[..1]);
    let status = policies.status(&owner).await.unwrap();
    assert_eq!((status.added.len(), status.removed.len()), (0, 5));
    policies.trust(&owner, status.digest.unwrap()).await.unwrap();
    write(&wide);
    assert_eq!(policies.status(&owner).await.unwrap().standing, Standing::Active);
}

#[tokio::test]
async fn two_that_save_at_once_lose_nothing() {
    let bed = Bed::new();
    let owner = bed.project_id().owner;
    let policies = PolicyDocuments::new(bed.documents.clone());
    let words = ["push", "pull", "fetch", "log"];
    let grants = words.map(|word| grant(&bed, DocumentScope::Project, &format!("git {word}"), Allow));
    let [a, b, c, d] = &grants;
    let save = |grant| policies.save(&bed.engine, &owner, grant);
    let (a, b, c, d) = tokio::join!(save(a), save(b), save(c), save(d));
    for saved in [a, b, c, d] {
        saved.unwrap().unwrap();
    }
    for word in words {
        assert_eq!(bed.bash("supervised", &format!("git {word}")), Allow, "{word}");
    }
}
