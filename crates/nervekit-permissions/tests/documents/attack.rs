//! What somebody tries who wants more allowed than a person accepted, or an edit to be lost.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use nervekit_permissions::*;
use nervekit_types::Digest;

use crate::bed::{Bed, document, rule, user_id};

use Decision::{Allow, Deny, Prompt};

fn rule_set_id() -> DocumentId {
    DocumentId::new(DocumentOwner::User(None), "rule-sets/mine")
}

/// A rule set `mine`, under which every call is decided so.
fn mine(decision: Decision) -> Vec<u8> {
    serde_json::to_vec(&RuleSet::new("mine").rule(Rule::new("all", decision))).unwrap()
}

#[tokio::test]
async fn what_a_person_refuses_allows_nothing_even_if_it_was_accepted_last() {
    let rules = document(&[rule("make", Allow, &["make"], 0), rule("no-rm", Deny, &["rm"], 1)]);
    for project in [false, true] {
        let bed = Bed::new();
        bed.documents.adopt().await.unwrap();
        let (id, file) = if project { (bed.project_id(), bed.project()) } else { (user_id(), bed.user()) };
        fs::write(&file, &rules).unwrap();
        bed.trust(&id).await;
        assert_eq!(bed.bash("supervised", "make"), Allow);
        let policies = PolicyDocuments::new(bed.documents.clone());
        policies.reject(&id.owner, Digest::of(&rules)).await.unwrap();
        assert_eq!(policies.status(&id.owner).await.unwrap().standing, Standing::Rejected);
        assert_eq!(bed.bash("supervised", "make"), Prompt, "{:?}", id.owner.scope());
        assert_eq!(bed.bash("autonomous", "rm x"), Deny, "what it restricts stays");
        assert!(bed.notices()[0].reason.contains("rejected"), "{:?}", bed.notices());
        // Neither does it when it is gone, nor for a program that starts later.
        fs::remove_file(&file).unwrap();
        assert_eq!(bed.bash("supervised", "make"), Prompt);
        fs::write(&file, &rules).unwrap();
        bed.documents.read(&id).await.unwrap();
        assert_eq!(bed.bash("supervised", "make"), Prompt);
        // Accepting it lifts that.
        bed.trust(&id).await;
        assert_eq!(bed.bash("supervised", "make"), Allow);
    }
}

#[tokio::test]
async fn a_rule_set_that_a_person_refuses_decides_nothing() {
    let bed = Bed::new();
    fs::create_dir(bed.path("home/config/rule-sets")).unwrap();
    fs::write(bed.path("home/config/rule-sets/mine.json"), mine(Allow)).unwrap();
    bed.documents.adopt().await.unwrap();
    assert_eq!(bed.bash("mine", "make"), Allow);
    bed.documents.reject(&rule_set_id(), Digest::of(mine(Allow))).await.unwrap();
    let evidence = bed.evidence("mine", "make");
    assert_eq!(evidence.decision, Prompt);
    assert!(evidence.reason.contains("rejected"), "{}", evidence.reason);
}

#[tokio::test]
async fn a_save_that_fails_leaves_what_is_accepted_as_it_is() {
    let bed = Bed::new();
    bed.documents.adopt().await.unwrap();
    for (id, file) in [(user_id(), bed.user()), (bed.project_id(), bed.project())] {
        let first = bed.documents.replace(&id, None, b"one").await.unwrap();
        bed.documents.reject(&id, Digest::of("refused")).await.unwrap();
        for (bytes, trust) in [("two", Trust::Undecided), ("refused", Trust::Rejected)] {
            // An editor saves after the comparison, when the new bytes are already announced.
            let editor = Interposed { inner: Arc::clone(&bed.trust), file: file.clone(), text: "edited" };
            let slow = FileDocuments::new(bed.path("home"), editor);
            let refused = slow.replace(&id, Some(first), bytes.as_bytes()).await;
            assert!(matches!(refused, Err(DocumentError::Changed { .. })), "{refused:?}");
            assert_eq!(fs::read(&file).unwrap(), b"edited");
            let record = bed.trust.read(&id).await.unwrap().unwrap();
            assert_eq!(record.trust(&Digest::of(bytes)), trust);
            assert_eq!(record.trust(&first), Trust::Trusted);
            fs::write(&file, "one").unwrap();
        }
        // What was known before stays known.
        let editor = Interposed { inner: Arc::clone(&bed.trust), file: file.clone(), text: "edited" };
        let slow = FileDocuments::new(bed.path("home"), editor);
        slow.replace(&id, Some(first), b"one").await.unwrap_err();
        assert_eq!(bed.trust.read(&id).await.unwrap().unwrap().trust(&first), Trust::Trusted);
    }
}

/// A store of decisions; while one is written somebody saves a file.
#[derive(Debug)]
struct Interposed {
    inner: Arc<MemoryTrustStore>,
    file: std::path::PathBuf,
    text: &'static str,
}

#[async_trait]
impl TrustStore for Interposed {
    async fn read(&self, id: &DocumentId) -> Result<Option<TrustRecord>, DocumentError> {
        self.inner.read(id).await
    }

    async fn replace(&self, id: &DocumentId, record: TrustRecord) -> Result<(), DocumentError> {
        save(&self.file, self.text.as_bytes());
        self.inner.replace(id, record).await
    }
}

/// Saves as editors do.
fn save(file: &Path, bytes: &[u8]) {
    let beside = file.with_extension("editor");
    fs::write(&beside, bytes).unwrap();
    fs::rename(&beside, file).unwrap();
}

/// A rule set that changes each time it is looked at.
#[derive(Debug)]
struct Flipping {
    inner: MemoryDocuments,
    looks: AtomicUsize,
    /// At which look of the rule set it is exchanged by which bytes.
    exchange: Mutex<Option<(usize, Vec<u8>)>>,
}

#[async_trait]
impl Documents for Flipping {
    async fn read(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
        self.inner.read(id).await
    }

    fn look(&self, id: &DocumentId) -> Arc<DocumentState> {
        let state = self.inner.look(id);
        if *id == rule_set_id() {
            let at = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
            let mut exchange = self.exchange.lock().unwrap();
            if let Some((_, bytes)) = exchange.take_if(|(when, _)| *when <= at) {
                let expected = state.current.as_ref().map(|document| document.digest);
                let replace = || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    runtime.block_on(self.inner.replace(id, expected, &bytes)).unwrap();
                };
                // Nobody waits for a future in a task of another runtime.
                std::thread::scope(|scope| scope.spawn(replace).join().unwrap());
            }
        }
        state
    }

    async fn replace(
        &self,
        id: &DocumentId,
        expected: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Digest, DocumentError> {
        self.inner.replace(id, expected, bytes).await
    }

    async fn trust(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        self.inner.trust(id, digest).await
    }

    async fn reject(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        self.inner.reject(id, digest).await
    }

    async fn forget(&self, id: &DocumentId) -> Result<(), DocumentError> {
        self.inner.forget(id).await
    }
}

#[tokio::test]
async fn a_rule_set_that_changes_while_it_is_looked_at_is_never_taken_for_the_one_before() {
    let bed = Bed::new();
    let inner = MemoryDocuments::new();
    let strict = inner.replace(&rule_set_id(), None, &mine(Deny)).await.unwrap();
    // The person saves a permissive one right after it was looked at.
    let exchange = Mutex::new(Some((1, mine(Allow))));
    let documents = Arc::new(Flipping { inner, looks: AtomicUsize::new(0), exchange });
    let engine = RuleEngine::new(Roots::new().project(bed.path("project")))
        .documents(Arc::clone(&documents), DocumentOwner::User(None));
    let decide = || engine.evaluate(bed.call("mine", "make")).decision();
    let _ = decide();
    assert_eq!(decide(), Allow, "it was saved by now");
    // Then the person takes that back.
    let permissive = Digest::of(mine(Allow));
    assert_eq!(documents.replace(&rule_set_id(), Some(permissive), &mine(Deny)).await.unwrap(), strict);
    assert_eq!(decide(), Deny);
}

#[tokio::test]
async fn an_editor_that_saves_at_the_same_moment_loses_nothing() {
    const ROUNDS: usize = 100;
    let bed = Bed::new();
    let (documents, file, id) = (bed.documents.clone(), bed.user(), user_id());
    fs::write(&file, "edit 0").unwrap();
    // The versions that a program replaced, knowing them.
    let replaced: Mutex<HashSet<Vec<u8>>> = Mutex::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                for number in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let Some(seen) = documents.look(&id).current.clone() else { continue };
                    let bytes = format!("program {number}");
                    // Known before it is there, so that the editor never finds it unexplained.
                    if documents.replace(&id, Some(seen.digest), bytes.as_bytes()).await.is_ok() {
                        replaced.lock().unwrap().insert(seen.bytes.to_vec());
                    }
                }
            });
        });
        for number in 1..=ROUNDS {
            let edit = format!("edit {number}").into_bytes();
            save(&file, &edit);
            // Until the program has seen this edit and replaced it.
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
            loop {
                let now = fs::read(&file).unwrap();
                if replaced.lock().unwrap().contains(&edit) {
                    break;
                }
                if now != edit && std::time::Instant::now() > deadline {
                    done.store(true, Ordering::Relaxed);
                    panic!("edit {number} is lost; {:?} is there", String::from_utf8_lossy(&now));
                }
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let left: Vec<_> = fs::read_dir(bed.path("home/config")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn rules_of_the_person_that_cannot_be_read_at_the_first_start_ask_about_everything() {
    for text in ["{", r#"{"schemaVersion": 3}"#] {
        let bed = Bed::new();
        fs::write(bed.user(), text).unwrap();
        bed.documents.adopt().await.unwrap();
        // Nothing is known of what it would forbid.
        assert_eq!(bed.bash("autonomous", "rm x"), Prompt, "{text}");
        assert_eq!(bed.notices().len(), 1);
        // One of a project counts for nothing, so it forbids nothing either.
        fs::write(bed.user(), document(&[])).unwrap();
        bed.trust(&user_id()).await;
        fs::write(bed.project(), text).unwrap();
        assert_eq!(bed.bash("autonomous", "rm x"), Allow, "{text}");
    }
}

#[tokio::test]
async fn whatever_a_file_is_called_what_is_suggested_can_be_saved_and_is_about_that_file() {
    let write = ToolDescriptor::new("write", ToolKind::Filesystem, Risk::Write)
        .primary_argument("path")
        .target(TargetSelector::path("path").write());
    for name in [
        "a\nb",
        "\u{1b}[2J",
        "a\u{202e}b",
        "${projectDir}/x",
        "*",
        "**/x",
        "{a,b}",
        "a\\b",
        "~/x",
        "d/../e",
        "é",
    ] {
        for scope in [DocumentScope::User, DocumentScope::Project] {
            let bed = Bed::new();
            bed.documents.adopt().await.unwrap();
            let call = |path: &str| {
                let arguments = EffectiveArguments::new(serde_json::json!({ "path": path })).unwrap();
                ProposedCall::new(write.clone(), arguments, CallOrigin::Model, "supervised")
                    .working_directory(bed.path("project"))
            };
            let evidence = bed.engine.evaluate(call(name)).evidence;
            assert_eq!(evidence.decision, Prompt, "{name:?}");
            let (owner, kept) = match scope {
                DocumentScope::User => (user_id().owner, GrantScope::User),
                _ => (bed.project_id().owner, GrantScope::Project),
            };
            let suggestion = evidence.suggestions.iter().find(|known| known.scopes.contains(&kept));
            // A digest is not kept in a project.
            let Some(suggestion) = suggestion else { continue };
            let grant = Grant::new(evidence.clone(), suggestion.clone(), Allow, kept);
            let policies = PolicyDocuments::new(bed.documents.clone());
            policies
                .save(&bed.engine, &owner, &grant)
                .await
                .unwrap_or_else(|error| panic!("{name:?}: {error}"));
            assert_eq!(bed.engine.evaluate(call(name)).decision(), Allow, "{name:?}");
            for other in ["other", "x", "a", "b", "ab", "d/x"] {
                assert_eq!(bed.engine.evaluate(call(other)).decision(), Prompt, "{name:?} {other}");
            }
        }
    }
}

#[tokio::test]
async fn what_was_accepted_last_is_not_believed_when_it_is_not_what_was_accepted() {
    let bed = Bed::new();
    bed.documents.adopt().await.unwrap();
    fs::write(bed.user(), document(&[rule("no-rm", Deny, &["rm"], 0)])).unwrap();
    bed.trust(&user_id()).await;
    // The store is damaged: other bytes than those of the digest.
    let mut record = bed.trust.read(&user_id()).await.unwrap().unwrap();
    record.revision += 1;
    record.last_accepted = Some(document(&[rule("no-ls", Deny, &["ls"], 0)]).into());
    bed.trust.replace(&user_id(), record).await.unwrap();
    fs::remove_file(bed.user()).unwrap();
    bed.documents.read(&user_id()).await.unwrap();
    // Nobody knows what it restricted.
    assert_eq!(bed.bash("autonomous", "rm x"), Prompt);
    assert!(bed.notices().iter().any(|notice| notice.reason.contains("other bytes")), "{:?}", bed.notices());
    let policies = PolicyDocuments::new(bed.documents.clone());
    let grant = crate::grant::grant(&bed, DocumentScope::User, "git push", Deny);
    assert!(policies.save(&bed.engine, &user_id().owner, &grant).await.is_err());
    // A person who writes the rules again lifts that.
    fs::write(bed.user(), document(&[rule("no-rm", Deny, &["rm"], 0)])).unwrap();
    bed.trust(&user_id()).await;
    assert_eq!(bed.bash("autonomous", "rm x"), Deny);
    assert_eq!(bed.bash("autonomous", "make"), Allow);
}
