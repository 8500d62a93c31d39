//! Edits that were made elsewhere and are accepted, and documents that are gone.

use std::fs;
use std::sync::Arc;

use nervekit_permissions::*;
use nervekit_types::Digest;

use crate::bed::{Bed, document, rule, user_id};

use Decision::{Allow, Deny, Prompt};

#[tokio::test]
async fn a_host_may_accept_edits_of_the_persons_rules_and_of_nothing_else() {
    let bed = Bed::new();
    let trusting = FileDocuments::new(bed.path("home"), Arc::clone(&bed.trust)).trust_external_edits(true);
    let engine = RuleEngine::new(Roots::new().project(bed.path("project")))
        .documents(trusting.clone(), DocumentOwner::User(None));
    let bash = |command: &str| engine.evaluate(bed.call("supervised", command)).decision();
    trusting.adopt().await.unwrap();
    let (make, tests) = (rule("make", Allow, &["make"], 0), rule("tests", Allow, &["cargo", "test"], 1));
    fs::write(bed.user(), document(std::slice::from_ref(&make))).unwrap();
    // Looking at it accepts nothing.
    assert_eq!(bash("make"), Prompt);
    trusting.read(&user_id()).await.unwrap();
    assert_eq!(bash("make"), Allow);
    // What cannot be read is not accepted, and restrictions stay.
    let sound = fs::read(bed.user()).unwrap();
    fs::write(bed.user(), "{").unwrap();
    let state = trusting.read(&user_id()).await.unwrap();
    assert_eq!(state.current.as_ref().unwrap().trust, Trust::Undecided);
    assert_eq!(&*state.last_accepted.as_ref().unwrap().bytes, sound);
    assert_eq!(bash("make"), Prompt);
    // Neither is what a person refused, nor that it is gone, nor what a project says.
    let refused = document(&[make.clone(), tests]);
    fs::write(bed.user(), &refused).unwrap();
    trusting.reject(&user_id(), Digest::of(&refused)).await.unwrap();
    trusting.read(&user_id()).await.unwrap();
    assert_eq!(bash("cargo test"), Prompt);
    fs::remove_file(bed.user()).unwrap();
    let state = trusting.read(&user_id()).await.unwrap();
    assert!(state.last_accepted.is_some());
    fs::write(bed.project(), document(&[make])).unwrap();
    let state = trusting.read(&bed.project_id()).await.unwrap();
    assert_eq!(state.current.as_ref().unwrap().trust, Trust::Undecided);
    assert_eq!(bash("make"), Prompt);
    // A rule set of the person is one of the rules, too.
    let set = DocumentId::new(DocumentOwner::User(None), "rule-sets/careful");
    fs::create_dir(bed.path("home/config/rule-sets")).unwrap();
    let file = bed.path("home/config/rule-sets/careful.json");
    fs::write(&file, serde_json::to_vec(&RuleSet::new("careful")).unwrap()).unwrap();
    assert_eq!(bed.documents.read(&set).await.unwrap().current.as_ref().unwrap().trust, Trust::Undecided);
    assert_eq!(trusting.read(&set).await.unwrap().current.as_ref().unwrap().trust, Trust::Trusted);
}

#[tokio::test]
async fn without_the_setting_reading_accepts_nothing() {
    let bed = Bed::new();
    bed.documents.adopt().await.unwrap();
    fs::write(bed.user(), document(&[rule("make", Allow, &["make"], 0)])).unwrap();
    bed.documents.read(&user_id()).await.unwrap();
    assert_eq!(bed.bash("supervised", "make"), Prompt);
    bed.documents.clone().trust_external_edits(true).read(&user_id()).await.unwrap();
    assert_eq!(bed.bash("supervised", "make"), Allow);
}

#[tokio::test]
async fn nothing_restricts_any_more_once_a_document_is_accepted_as_gone() {
    let rules = document(&[rule("make", Allow, &["make"], 0), rule("no-rm", Deny, &["rm"], 1)]);
    for project in [false, true] {
        let bed = Bed::new();
        bed.documents.adopt().await.unwrap();
        let policies = PolicyDocuments::new(bed.documents.clone());
        let (id, file) = if project { (bed.project_id(), bed.project()) } else { (user_id(), bed.user()) };
        fs::write(&file, &rules).unwrap();
        bed.trust(&id).await;
        let there = policies.accept_absence(&id.owner).await;
        assert!(matches!(there, Err(DocumentError::Changed { current: Some(_) })), "{there:?}");
        fs::remove_file(&file).unwrap();
        assert_eq!(bed.bash("autonomous", "rm x"), Deny);
        fs::create_dir(&file).unwrap();
        let unreadable = policies.accept_absence(&id.owner).await;
        assert!(matches!(unreadable, Err(DocumentError::Malformed(_))), "{unreadable:?}");
        assert_eq!(bed.bash("autonomous", "rm x"), Deny);
        fs::remove_dir(&file).unwrap();
        policies.accept_absence(&id.owner).await.unwrap();
        assert_eq!(bed.bash("autonomous", "rm x"), Allow);
        assert_eq!(policies.status(&id.owner).await.unwrap().standing, Standing::Absent);
        assert_eq!(bed.notices(), []);
        // Another process knows it, too.
        let other = FileDocuments::new(bed.path("home"), Arc::clone(&bed.trust));
        assert!(other.read(&id).await.unwrap().last_accepted.is_none());
        // The old version comes back: a project's is known, the user's is an edit.
        fs::write(&file, &rules).unwrap();
        assert_eq!(bed.bash("autonomous", "rm x"), Deny);
        assert_eq!(bed.bash("supervised", "make"), if project { Allow } else { Prompt });
    }
}
