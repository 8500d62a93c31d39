//! What was compiled is found again, and never taken for something else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nervekit_permissions::*;
use nervekit_types::Digest;

use crate::bed::{Bed, document, rule, user_id};

use Decision::{Allow, Deny, Prompt};

/// The policy that decided, of an engine that keeps policies.
fn policy(engine: &RuleEngine, call: ProposedCall) -> Arc<Policy> {
    engine.evaluate(call).policy.unwrap()
}

#[tokio::test]
async fn a_policy_is_found_again_when_the_bytes_of_its_documents_are_back() {
    let bed = Bed::new();
    let documents = Arc::new(MemoryDocuments::new());
    let engine = RuleEngine::new(Roots::new().project(bed.path("project")))
        .documents(Arc::clone(&documents), DocumentOwner::User(None));
    let call = || bed.call("supervised", "make");
    let first = document(&[rule("make", Allow, &["make"], 0)]);
    documents.replace(&user_id(), None, &first).await.unwrap();
    let before = policy(&engine, call());
    assert!(Arc::ptr_eq(&before, &policy(&engine, call())));

    // Every one of these is compiled, more than are kept of anything.
    for number in 0..300 {
        documents.edit(&user_id(), Some(&document(&[rule(&format!("other-{number}"), Deny, &["x"], 0)])));
        assert_eq!(engine.evaluate(call()).decision(), Prompt);
        if number % 50 == 0 {
            documents.edit(&user_id(), Some(&first));
            assert!(Arc::ptr_eq(&before, &policy(&engine, call())), "after {number} other documents");
        }
    }
    documents.edit(&user_id(), Some(&first));
    let after = policy(&engine, call());
    assert_eq!(after.digest(), before.digest());

    // Another version is another policy, also when both were in force before.
    let second = document(&[rule("make", Deny, &["make"], 0)]);
    let digest = Digest::of(&first);
    documents.replace(&user_id(), Some(digest), &second).await.unwrap();
    assert_eq!(engine.evaluate(call()).decision(), Deny);
    assert_ne!(policy(&engine, call()).digest(), before.digest());
}

#[test]
fn documents_that_were_given_and_taken_back_are_found_again() {
    let bed = Bed::new();
    let engine = RuleEngine::new(Roots::new().project(bed.path("project")));
    let call = || bed.call("supervised", "make");
    let of = |decision| {
        let overlay = Overlay::new("supervised").rule(rule("make", decision, &["make"], 0));
        PolicyDocument::new().overlay(overlay)
    };
    let none = policy(&engine, call());
    engine.replace_document(DocumentScope::User, Some(of(Allow)));
    let allowing = policy(&engine, call());
    // The same rules of another owner are another policy.
    engine.replace_document(DocumentScope::User, None);
    engine.replace_document(DocumentScope::Project, Some(of(Allow)));
    assert_eq!(policy(&engine, call()).rules()[0].source, RuleSource::Project);
    engine.replace_document(DocumentScope::Project, None);
    assert!(Arc::ptr_eq(&none, &policy(&engine, call())));
    engine.replace_document(DocumentScope::User, Some(of(Allow)));
    assert!(Arc::ptr_eq(&allowing, &policy(&engine, call())));
    // A conversation's document is known by what it says, wherever it lies.
    let with = |decision| policy(&engine, call().conversation_document(of(decision)));
    assert!(Arc::ptr_eq(&with(Deny), &with(Deny)));
    assert_ne!(with(Deny).digest(), with(Prompt).digest());
}

/// A rule set that changes after each look.
#[derive(Debug)]
struct Flickering {
    states: [Arc<DocumentState>; 2],
    second: AtomicBool,
    looks: Mutex<Vec<String>>,
}

impl Flickering {
    fn new() -> Self {
        let state = |decision| {
            let set = RuleSet::new("mine").rule(Rule::new("all", decision));
            let document = StoredDocument::new(serde_json::to_vec(&set).unwrap()).trust(Trust::Trusted);
            Arc::new(DocumentState::new("mine.json").current(document))
        };
        let states = [state(Allow), state(Deny)];
        Self { states, second: AtomicBool::new(false), looks: Mutex::default() }
    }
}

#[async_trait]
impl Documents for Flickering {
    async fn read(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
        Ok(self.look(id))
    }
    fn look(&self, id: &DocumentId) -> Arc<DocumentState> {
        if !id.name.starts_with("rule-sets/") {
            return Arc::new(DocumentState::new("nothing"));
        }
        self.looks.lock().unwrap().push(id.name.clone());
        Arc::clone(&self.states[usize::from(self.second.fetch_xor(true, Ordering::SeqCst))])
    }
    async fn replace(&self, _: &DocumentId, _: Option<Digest>, _: &[u8]) -> Result<Digest, DocumentError> {
        Err(DocumentError::Unsupported)
    }
    async fn trust(&self, _: &DocumentId, _: Digest) -> Result<(), DocumentError> {
        Err(DocumentError::Unsupported)
    }
    async fn reject(&self, _: &DocumentId, _: Digest) -> Result<(), DocumentError> {
        Err(DocumentError::Unsupported)
    }
    async fn forget(&self, _: &DocumentId) -> Result<(), DocumentError> {
        Err(DocumentError::Unsupported)
    }
}

#[test]
fn what_is_compiled_is_the_state_that_was_looked_at() {
    let bed = Bed::new();
    let flickering = Arc::new(Flickering::new());
    let engine = RuleEngine::new(Roots::new().project(bed.path("project")))
        .documents(Arc::clone(&flickering), DocumentOwner::User(None));
    for decision in [Allow, Deny, Allow, Deny] {
        assert_eq!(engine.evaluate(bed.call("mine", "ls")).decision(), decision);
    }
    // Once for each call.
    assert_eq!(*flickering.looks.lock().unwrap(), ["rule-sets/mine"; 4]);
}
