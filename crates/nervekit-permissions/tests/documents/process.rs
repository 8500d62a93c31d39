//! Several processes, and processes that are killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nervekit_permissions::*;
use nervekit_types::{Digest, Entropy, SystemEntropy};

/// Says to a copy of this program that it is a writer, and where.
const FOLDER: &str = "NERVEKIT_TEST_FOLDER";
const NAME: &str = "NERVEKIT_TEST_NAME";
const SAVED_BY_EACH: usize = 40;

fn document(home: &Path) -> (FileDocuments, DocumentId) {
    let id = DocumentId::permissions(DocumentOwner::User(None));
    (FileDocuments::new(home, MemoryTrustStore::new()), id)
}

/// Starts this program again, as one that runs this test only.
fn start(test: &str, folder: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([&format!("process::{test}"), "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .env(NAME, name)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// In the copy: where to write, and under which name.
fn role() -> Option<(PathBuf, String)> {
    Some((PathBuf::from(std::env::var_os(FOLDER)?), std::env::var(NAME).ok()?))
}

/// Adds one rule to whatever is there, again until nobody was faster.
async fn add(documents: &FileDocuments, id: &DocumentId, rule: &str) {
    loop {
        let state = documents.read(id).await.unwrap();
        let current = state.current.as_ref();
        let mut document = match current {
            Some(found) => PolicyDocument::parse(DocumentScope::User, &found.bytes).unwrap(),
            None => PolicyDocument::new().overlay(Overlay::new("supervised")),
        };
        let rules = &mut document.overlays[0].rules;
        let priority = i16::try_from(rules.len()).unwrap();
        rules.push(Rule::new(rule, Decision::Deny).priority(priority));
        let bytes = serde_json::to_vec(&document).unwrap();
        match documents.replace(id, current.map(|found| found.digest), &bytes).await {
            Ok(_) => return,
            Err(DocumentError::Changed { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn two_processes_that_save_at_once_lose_nothing() {
    if let Some((home, name)) = role() {
        let (documents, id) = document(&home);
        for number in 0..SAVED_BY_EACH {
            add(&documents, &id, &format!("{name}-{number}")).await;
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let writers = ["a", "b", "c"];
    let test = "two_processes_that_save_at_once_lose_nothing";
    let children: Vec<Child> = writers.iter().map(|name| start(test, folder.path(), name)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let (documents, id) = document(folder.path());
    let state = documents.look(&id);
    let saved = PolicyDocument::parse(DocumentScope::User, &state.current.as_ref().unwrap().bytes).unwrap();
    assert_eq!(saved.rules().count(), writers.len() * SAVED_BY_EACH);
    for name in writers {
        for number in 0..SAVED_BY_EACH {
            assert!(saved.rules().any(|rule| rule.id == format!("{name}-{number}")), "{name}-{number}");
        }
    }
}

/// A document that shows whether it is whole: a number, many times over.
fn version(number: u64) -> Vec<u8> {
    format!("{number:016} ").repeat(3000).into_bytes()
}

#[tokio::test]
async fn a_kill_at_any_moment_leaves_the_old_document_or_the_new_one() {
    if let Some((home, _)) = role() {
        let (documents, id) = document(&home);
        let mut current = documents.look(&id).current.as_ref().map(|found| found.digest);
        for number in 0.. {
            current = Some(documents.replace(&id, current, &version(number)).await.unwrap());
        }
    }
    let mut seed = [0; 8];
    SystemEntropy.fill(&mut seed);
    let mut random = u64::from_le_bytes(seed);
    println!("seed {random}");
    let folder = tempfile::tempdir().unwrap();
    let (documents, id) = document(folder.path());
    let mut expected = documents.replace(&id, None, &version(0)).await.unwrap();
    let (mut left, mut swept) = (0, 0);
    for _ in 0..60 {
        let test = "a_kill_at_any_moment_leaves_the_old_document_or_the_new_one";
        let mut child = start(test, folder.path(), "killed");
        // It is at work once the document is another one; then any moment will do.
        let began = std::time::Instant::now();
        while documents.look(&id).current.as_ref().is_some_and(|found| found.digest == expected) {
            assert!(began.elapsed() < Duration::from_secs(30), "the writer does not write");
            std::thread::yield_now();
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = std::time::Instant::now() + Duration::from_micros((random >> 33) % 20_000);
        while std::time::Instant::now() < moment {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let found = documents.look(&id);
        let bytes = &found.current.as_ref().unwrap().bytes;
        let number: u64 = std::str::from_utf8(&bytes[..16]).unwrap().parse().unwrap();
        assert!(**bytes == *version(number), "a document that is neither old nor new");
        let files = || fs::read_dir(folder.path().join("config")).unwrap().count();
        left += files() - 1;
        // The lock went with the process, and what it left goes with the next save.
        expected = documents.replace(&id, Some(Digest::of(bytes)), &version(0)).await.unwrap();
        swept += usize::from(files() == 1);
    }
    println!("{left} temporary files were left by 60 killed writers");
    assert_eq!(swept, 60);
}
