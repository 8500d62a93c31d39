//! The scenarios of the documents, and what a change of one may do.

use std::fs;

use nervekit_permissions::*;

use crate::bed::{Bed, document, rule, user_id};

use Decision::{Allow, Deny, Prompt};

#[tokio::test]
async fn scenario_09_a_cloned_repository_with_a_permissive_document() {
    let bed = Bed::new();
    let id = bed.project_id();
    let permissive =
        document(&[rule("all", Allow, &["make"], 0), rule("no-push", Deny, &["git", "push"], 1)]);
    fs::write(bed.project(), &permissive).unwrap();
    // Inactive until trusted, its denies too: nothing of it has an effect.
    assert_eq!(bed.bash("supervised", "make all"), Prompt);
    assert_eq!(bed.bash("autonomous", "git push"), Allow);
    let notice = &bed.notices()[0];
    assert_eq!((notice.scope, &*notice.name), (DocumentScope::Project, bed.project().to_str().unwrap()));
    assert!(notice.reason.contains("not trusted"), "{}", notice.reason);

    bed.trust(&id).await;
    assert_eq!(bed.bash("supervised", "make all"), Allow);
    assert_eq!(bed.bash("autonomous", "git push"), Deny);
    assert_eq!(bed.notices(), []);

    // One changed byte, noticed by the next call: its allows end, its denies stay.
    let mut changed = permissive.clone();
    changed.push(b'\n');
    fs::write(bed.project(), &changed).unwrap();
    assert_eq!(bed.bash("supervised", "make all"), Prompt);
    assert_eq!(bed.bash("autonomous", "git push"), Deny);
    assert_eq!(bed.bash("autonomous", "ls"), Allow);
    assert!(bed.notices()[0].reason.contains("not trusted"));

    // A new version adds no rule of its own, neither that which allows nor that which denies.
    fs::write(bed.project(), document(&[rule("ls", Deny, &["ls"], 0)])).unwrap();
    assert_eq!(bed.bash("autonomous", "ls"), Allow);
    assert_eq!(bed.bash("autonomous", "git push"), Deny);

    // The same when it vanished.
    fs::remove_file(bed.project()).unwrap();
    assert_eq!(bed.bash("supervised", "make all"), Prompt);
    assert_eq!(bed.bash("autonomous", "git push"), Deny);
    assert!(bed.notices()[0].reason.contains("gone"));

    // The bytes that were trusted are back, and count at once.
    fs::write(bed.project(), &permissive).unwrap();
    assert_eq!(bed.bash("supervised", "make all"), Allow);
    assert_eq!(bed.notices(), []);
    bed.documents.reject(&id, nervekit_types::Digest::of(&permissive)).await.unwrap();
    assert_eq!(bed.bash("supervised", "make all"), Prompt);
    assert_eq!(bed.bash("autonomous", "git push"), Deny);
    assert!(bed.notices()[0].reason.contains("rejected"));
}

#[tokio::test]
async fn scenario_10_one_bad_rule() {
    let bed = Bed::new();
    let rules = [
        rule("tests", Allow, &["cargo", "test"], 0),
        rule("no-rm", Deny, &["rm"], 1),
        rule("ask-push", Prompt, &["git", "push"], 2),
    ];
    let good = document(&rules);
    fs::write(bed.user(), &good).unwrap();
    bed.documents.adopt().await.unwrap();
    assert_eq!(bed.bash("supervised", "cargo test"), Allow);
    assert_eq!(bed.bash("autonomous", "rm x"), Deny);

    // One bad rule: the last accepted restrictions bind, and allows end, for nothing can have them now.
    let text = String::from_utf8(good.clone()).unwrap();
    let bad = text.replacen("\"priority\": 1", "\"priority\": 2000", 1);
    assert_ne!(bad, text);
    fs::write(bed.user(), &bad).unwrap();
    assert_eq!(bed.bash("supervised", "cargo test"), Prompt);
    assert_eq!(bed.bash("autonomous", "rm x"), Deny);
    assert_eq!(bed.bash("autonomous", "git push"), Prompt);
    assert_eq!(bed.bash("autonomous", "ls"), Allow);
    let notice = &bed.notices()[0];
    let line = bad[..bad.find("s-no-rm").unwrap()].lines().count() - 1;
    assert_eq!(notice.name, bed.user().to_str().unwrap());
    assert!(
        notice.reason.contains("rule `s-no-rm`: a priority lies between -1000 and 1000")
            && notice.reason.contains(&format!("line {line}, column")),
        "{}",
        notice.reason
    );

    // A readable version that nobody accepted: its restrictions count at once, its allows only where both agree.
    let mut edited = rules.to_vec();
    edited.remove(1);
    edited.push(rule("no-curl", Deny, &["curl"], 5));
    edited.push(rule("push", Allow, &["git", "push"], 6));
    fs::write(bed.user(), document(&edited)).unwrap();
    assert_eq!(bed.bash("supervised", "cargo test"), Allow);
    assert_eq!(bed.bash("autonomous", "curl x"), Deny);
    assert_eq!(bed.bash("autonomous", "rm x"), Deny);
    assert_eq!(bed.bash("supervised", "git push"), Prompt);
    bed.trust(&user_id()).await;
    assert_eq!(bed.bash("autonomous", "rm x"), Allow);
    assert_eq!(bed.bash("supervised", "git push"), Allow);
    assert_eq!(bed.notices(), []);

    // Gone: the same as malformed.
    fs::remove_file(bed.user()).unwrap();
    assert_eq!(bed.bash("autonomous", "curl x"), Deny);
    assert_eq!(bed.bash("supervised", "git push"), Prompt);

    // A bad rule in the project: its allows end, its last trusted denies stay.
    fs::write(bed.project(), &good).unwrap();
    bed.trust(&bed.project_id()).await;
    assert_eq!(bed.bash("supervised", "cargo test"), Allow);
    fs::write(bed.project(), &bad).unwrap();
    assert_eq!(bed.bash("supervised", "cargo test"), Prompt);
    assert_eq!(bed.bash("autonomous", "rm x"), Deny);
    let notices = bed.notices();
    let notice = notices.iter().find(|notice| notice.scope == DocumentScope::Project).unwrap();
    assert!(notice.reason.contains("rule `s-no-rm`"), "{}", notice.reason);
}

/// Every reload between random versions: no call is decided more generously than under what was accepted, and
/// no restriction of what is there is missed.
#[tokio::test]
async fn a_reload_never_widens() {
    use nervekit_types::{Entropy, SystemEntropy};
    let mut seed = [0; 8];
    SystemEntropy.fill(&mut seed);
    let mut state = u64::from_le_bytes(seed);
    println!("seed {state}");
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let words = ["a", "b", "c"];
    let bed = Bed::new();
    let decide = |set: &str| words.map(|word| bed.bash(set, word));
    for _ in 0..60 {
        let mut version = || {
            let mut rules = Vec::new();
            for priority in 0..random(5) {
                let decision = [Allow, Prompt, Deny][usize::try_from(random(3)).unwrap()];
                let word = words[usize::try_from(random(3)).unwrap()];
                let mut made =
                    rule(&format!("r{priority}"), decision, &[word], i16::try_from(priority).unwrap());
                if random(4) == 0 {
                    // One that wins without covering, which asks.
                    made.when =
                        Filter::new().tool("bash").any_target(Matcher::new().kind(TargetKind::WholeTool));
                }
                rules.push(made);
            }
            document(&rules)
        };
        let (accepted, edited) = (version(), version());
        if accepted == edited {
            continue;
        }
        for (id, file) in [(user_id(), bed.user()), (bed.project_id(), bed.project())] {
            let _ = fs::remove_file(bed.user());
            let _ = fs::remove_file(bed.project());
            fs::write(&file, &accepted).unwrap();
            // A project's version that was accepted in an earlier round would count.
            bed.documents.reject(&id, nervekit_types::Digest::of(&edited)).await.unwrap();
            bed.trust(&id).await;
            let before = ["supervised", "autonomous", "read_only"].map(&decide);
            fs::write(&file, &edited).unwrap();
            let after = ["supervised", "autonomous", "read_only"].map(&decide);
            for (before, after) in before.iter().flatten().zip(after.iter().flatten()) {
                assert_eq!(before.stricter(*after), *after, "{}", String::from_utf8_lossy(&edited));
            }
            bed.trust(&id).await;
            if file == bed.user() {
                let new = ["supervised", "autonomous", "read_only"].map(&decide);
                for (new, after) in new.iter().flatten().zip(after.iter().flatten()) {
                    assert_eq!(new.stricter(*after), *after, "{}", String::from_utf8_lossy(&edited));
                }
            }
        }
    }
}

#[tokio::test]
async fn custom_rule_sets_come_from_files_and_a_change_of_one_never_widens() {
    let bed = Bed::new();
    let file = bed.path("home/config/rule-sets/careful.json");
    fs::create_dir(file.parent().unwrap()).unwrap();
    let set = |decision| RuleSet::new("careful").rule(rule("make", decision, &["make"], 0));
    let write = |set: &RuleSet| fs::write(&file, serde_json::to_vec(set).unwrap()).unwrap();
    write(&set(Allow));
    bed.documents.adopt().await.unwrap();
    assert_eq!(bed.bash("careful", "make"), Allow);
    write(&set(Deny));
    assert_eq!(bed.bash("careful", "make"), Deny);
    write(&set(Allow).rule(rule("all", Allow, &["git"], 1)));
    assert_eq!(bed.bash("careful", "git push"), Prompt);
    assert_eq!(bed.bash("careful", "make"), Allow);
    bed.trust(&DocumentId::new(DocumentOwner::User(None), "rule-sets/careful")).await;
    assert_eq!(bed.bash("careful", "git push"), Allow);
    // One that appears later is accepted first, one under another name is none.
    fs::copy(&file, bed.path("home/config/rule-sets/other.json")).unwrap();
    let evidence = bed.evidence("other", "make");
    assert_eq!((evidence.decision, &*evidence.active_rule_set), (Prompt, "baseline"));
    bed.trust(&DocumentId::new(DocumentOwner::User(None), "rule-sets/other")).await;
    assert!(bed.evidence("other", "make").reason.contains("holds the rule set `careful`"));
    fs::write(&file, "{").unwrap();
    let evidence = bed.evidence("careful", "make");
    assert_eq!(evidence.decision, Prompt);
    assert!(evidence.reason.contains("careful.json") && evidence.reason.contains("line 1, column 1"));
    fs::remove_file(&file).unwrap();
    assert!(bed.evidence("careful", "make").reason.contains("no rule set has the id `careful`"));
}

#[tokio::test]
async fn a_search_is_filtered_by_the_denies_of_every_version() {
    let bed = Bed::new();
    let hide = |id: &str, pattern: &str, priority| {
        Rule::new(id, Deny).priority(priority).when(Filter::new().any_target(Matcher::new().pattern(pattern)))
    };
    fs::write(bed.user(), document(&[hide("a", "**/a", 0)])).unwrap();
    bed.documents.adopt().await.unwrap();
    fs::write(bed.user(), document(&[hide("b", "**/b", 0)])).unwrap();
    let grep = ToolDescriptor::new("grep", ToolKind::Filesystem, Risk::Read)
        .target(TargetSelector::path("path").tree().or_working_directory());
    let arguments = EffectiveArguments::parse("{}").unwrap();
    let call = ProposedCall::new(grep, arguments, CallOrigin::Model, "supervised")
        .working_directory(bed.path("project"));
    let evaluation = bed.engine.evaluate(call);
    let filter = evaluation.targets[0].entries.as_ref().unwrap();
    assert!(!filter.allows("src/a") && !filter.allows("src/b") && filter.allows("src/c"));
    assert_eq!(filter.withholding().len(), 2);
    assert_eq!(evaluation.evidence.withholding.len(), 2);
}

#[tokio::test]
async fn a_last_accepted_version_that_cannot_be_read_makes_every_call_ask() {
    let bed = Bed::new();
    let mut record = TrustRecord::new();
    record.revision = 1;
    record.last_accepted = Some(br#"{"schemaVersion": 99}"#.as_slice().into());
    bed.trust.replace(&user_id(), record).await.unwrap();
    bed.documents.read(&user_id()).await.unwrap();
    assert_eq!(bed.bash("autonomous", "ls"), Prompt);
}

#[tokio::test]
async fn case_23_a_document_of_the_user_that_was_never_readable_makes_every_call_ask() {
    let bed = Bed::new();
    let deny = document(&[rule("no-rm", Deny, &["rm"], 0)]);
    std::fs::write(bed.user(), &deny[..deny.len() / 2]).unwrap();
    bed.documents.adopt().await.unwrap();
    for command in ["rm x", "ls"] {
        let evidence = bed.evidence("autonomous", command);
        assert_eq!(evidence.decision, Prompt, "{command}");
        assert!(evidence.reason.contains("cannot be read"), "{}", evidence.reason);
        assert_eq!(evidence.ignored_documents.len(), 1);
    }
    // Mended and accepted, it binds as it says.
    std::fs::write(bed.user(), &deny).unwrap();
    assert_eq!(bed.bash("autonomous", "rm x"), Deny);
    assert_eq!(bed.bash("autonomous", "ls"), Allow);
    // One of a project that nobody ever accepted counts for nothing at all.
    std::fs::write(bed.project(), "{").unwrap();
    assert_eq!(bed.bash("autonomous", "ls"), Allow);
}

#[tokio::test]
async fn a_version_of_the_user_that_was_rejected_is_named_so_and_restricts_like_any_edit() {
    let bed = Bed::new();
    let first = document(&[rule("tests", Allow, &["cargo", "test"], 0)]);
    std::fs::write(bed.user(), &first).unwrap();
    bed.documents.adopt().await.unwrap();
    let second = document(&[rule("evil", Allow, &["evil"], 0), rule("no-rm", Deny, &["rm"], 1)]);
    std::fs::write(bed.user(), &second).unwrap();
    bed.documents.reject(&user_id(), nervekit_types::Digest::of(&second)).await.unwrap();
    assert!(bed.notices()[0].reason.starts_with("it was rejected"), "{:?}", bed.notices());
    assert_eq!(bed.bash("supervised", "evil x"), Prompt);
    assert_eq!(bed.bash("supervised", "cargo test"), Prompt);
    assert_eq!(bed.bash("autonomous", "rm x"), Deny);
    // The version before comes back: it was accepted, and is so still.
    std::fs::write(bed.user(), &first).unwrap();
    assert_eq!(bed.bash("supervised", "cargo test"), Allow);
    assert_eq!(bed.bash("autonomous", "rm x"), Allow);
}
