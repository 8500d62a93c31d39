//! What is read, what is written, and what a person accepted.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;

use nervekit_permissions::*;
use nervekit_types::Digest;

use crate::bed::{Bed, user_id};

fn bytes(state: &DocumentState) -> Option<&[u8]> {
    state.current.as_ref().map(|document| &*document.bytes)
}

#[tokio::test]
async fn an_unchanged_file_is_not_read_again_and_every_edit_is_noticed() {
    let bed = Bed::new();
    let id = user_id();
    for content in ["one", "two", "six", "longer"] {
        // The same inode, at times the same size, all within one tick of the clock.
        fs::write(bed.user(), content).unwrap();
        assert_eq!(bytes(&bed.documents.look(&id)), Some(content.as_bytes()));
    }
    let old = fs::File::options().write(true).open(bed.user()).unwrap();
    old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let before = bed.documents.look(&id);
    assert!(Arc::ptr_eq(&before, &bed.documents.look(&id)));
    fs::remove_file(bed.user()).unwrap();
    assert!(bed.documents.look(&id).current.is_none());
}

#[tokio::test]
async fn a_project_named_by_a_link_is_told_its_canonical_folder() {
    let bed = Bed::new();
    fs::write(bed.project(), r#"{"schemaVersion": 2}"#).unwrap();
    symlink(bed.path("project"), bed.path("link")).unwrap();
    let problem = bed.problem(&DocumentId::permissions(DocumentOwner::Project(bed.path("link"))));
    let canonical = format!("canonical folder is `{}`", bed.path("project").display());
    assert!(problem.ends_with(&canonical), "{problem}");
}

#[tokio::test]
async fn what_is_written_through_the_port_is_private_and_accepted() {
    let bed = Bed::new();
    for id in [user_id(), bed.project_id(), DocumentId::new(DocumentOwner::User(None), "rule-sets/careful")] {
        let first = bed.documents.replace(&id, None, b"one").await.unwrap();
        assert_eq!(first, Digest::of(b"one"));
        let second = bed.documents.replace(&id, Some(first), b"two").await.unwrap();
        let state = bed.documents.look(&id);
        assert_eq!(state.current.as_ref().unwrap().trust, Trust::Trusted);
        assert_eq!(state.last_accepted.as_ref().unwrap().digest, second);
        assert_eq!(
            fs::metadata(&state.place).unwrap().permissions().mode() & 0o777,
            0o600,
            "{}",
            state.place
        );
        for expected in [None, Some(first)] {
            let refused = bed.documents.replace(&id, expected, b"three").await;
            assert!(matches!(refused, Err(DocumentError::Changed { current: Some(_) })), "{refused:?}");
        }
        assert_eq!(fs::read(&state.place).unwrap(), b"two");
    }
    let made = bed.path("home/config/rule-sets");
    assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700);
    let names: Vec<_> = fs::read_dir(bed.path("project/.nerve/config")).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing else is left in a project: {names:?}");
}

#[tokio::test]
async fn an_edit_between_reading_and_saving_is_never_lost() {
    let bed = Bed::new();
    let first = bed.documents.replace(&user_id(), None, b"one").await.unwrap();
    fs::write(bed.user(), "edited").unwrap();
    let refused = bed.documents.replace(&user_id(), Some(first), b"two").await;
    assert!(matches!(refused, Err(DocumentError::Changed { .. })), "{refused:?}");
    assert_eq!(fs::read(bed.user()).unwrap(), b"edited");
    let state = bed.documents.read(&user_id()).await.unwrap();
    assert_eq!(state.current.as_ref().unwrap().trust, Trust::Undecided);
    assert_eq!(&*state.last_accepted.as_ref().unwrap().bytes, b"one");
}

#[tokio::test]
async fn trust_outlives_the_process_and_binds_the_bytes_that_were_shown() {
    let bed = Bed::new();
    let id = bed.project_id();
    fs::write(bed.project(), "one").unwrap();
    let shown = bed.documents.read(&id).await.unwrap().current.as_ref().unwrap().digest;
    fs::write(bed.project(), "two").unwrap();
    assert!(matches!(
        bed.documents.trust(&id, shown).await,
        Err(DocumentError::Changed { current: Some(_) })
    ));
    fs::write(bed.project(), "one").unwrap();
    bed.documents.trust(&id, shown).await.unwrap();
    // Another process over the same store. Before it has asked the store it trusts nothing.
    let other = FileDocuments::new(bed.path("home"), Arc::clone(&bed.trust));
    assert_eq!(other.look(&id).current.as_ref().unwrap().trust, Trust::Undecided);
    assert_eq!(other.read(&id).await.unwrap().current.as_ref().unwrap().trust, Trust::Trusted);
    // A second version; the first one stays known, and counts as the last one when it is back.
    fs::write(bed.project(), "two").unwrap();
    other.trust(&id, Digest::of("two")).await.unwrap();
    fs::write(bed.project(), "one").unwrap();
    let state = other.read(&id).await.unwrap();
    assert_eq!(state.current.as_ref().unwrap().trust, Trust::Trusted);
    assert_eq!(&*state.last_accepted.as_ref().unwrap().bytes, b"one");
    other.reject(&id, shown).await.unwrap();
    assert_eq!(other.look(&id).current.as_ref().unwrap().trust, Trust::Rejected);
    // A copied project decides anew.
    fs::create_dir_all(bed.path("copy/.nerve/config")).unwrap();
    fs::write(bed.path("copy/.nerve/config/permissions.json"), "two").unwrap();
    let copy = DocumentId::permissions(DocumentOwner::Project(bed.path("copy")));
    assert_eq!(other.read(&copy).await.unwrap().current.as_ref().unwrap().trust, Trust::Undecided);
}

#[tokio::test]
async fn a_fresh_home_is_adopted_once() {
    let bed = Bed::new();
    fs::write(bed.user(), r#"{"schemaVersion": 2}"#).unwrap();
    fs::create_dir(bed.path("home/config/rule-sets")).unwrap();
    let careful = serde_json::to_vec(&RuleSet::new("careful")).unwrap();
    fs::write(bed.path("home/config/rule-sets/careful.json"), careful).unwrap();
    // What says nothing that this program reads is not accepted unseen.
    fs::write(bed.path("home/config/rule-sets/broken.json"), "{").unwrap();
    bed.documents.adopt().await.unwrap();
    let broken = DocumentId::new(DocumentOwner::User(None), "rule-sets/broken");
    assert_eq!(bed.documents.look(&broken).current.as_ref().unwrap().trust, Trust::Undecided);
    assert!(bed.documents.look(&broken).last_accepted.is_none());
    let set = DocumentId::new(DocumentOwner::User(None), "rule-sets/careful");
    for id in [user_id(), set] {
        assert_eq!(bed.documents.look(&id).current.as_ref().unwrap().trust, Trust::Trusted);
    }
    fs::write(bed.user(), "theirs").unwrap();
    FileDocuments::new(bed.path("home"), Arc::clone(&bed.trust)).adopt().await.unwrap();
    assert_eq!(bed.documents.look(&user_id()).current.as_ref().unwrap().trust, Trust::Undecided);
    // A home without a document has accepted that there is none.
    let bare = Bed::new();
    bare.documents.adopt().await.unwrap();
    fs::write(bare.user(), "theirs").unwrap();
    bare.documents.adopt().await.unwrap();
    assert_eq!(bare.documents.look(&user_id()).current.as_ref().unwrap().trust, Trust::Undecided);
}

#[tokio::test]
async fn a_project_around_the_home_has_no_documents() {
    let bed = Bed::new();
    let around = DocumentId::permissions(DocumentOwner::Project(bed.path("")));
    fs::create_dir_all(bed.path(".nerve/config")).unwrap();
    fs::write(bed.path(".nerve/config/permissions.json"), r#"{"schemaVersion": 2}"#).unwrap();
    let state = bed.documents.read(&around).await.unwrap();
    assert!(state.current.is_none());
    assert!(state.problem.as_ref().unwrap().message().contains("home lies inside"), "{state:?}");
    let refused = bed.documents.replace(&around, None, b"{}").await;
    assert!(matches!(refused, Err(DocumentError::Malformed(_))), "{refused:?}");
}

#[tokio::test]
async fn where_only_projects_have_documents_a_user_has_none() {
    let bed = Bed::new();
    let documents = FileDocuments::of_projects(MemoryTrustStore::new());
    documents.adopt().await.unwrap();
    fs::write(bed.user(), r#"{"schemaVersion": 2}"#).unwrap();
    assert!(documents.look(&user_id()).current.is_none());
    let read = documents.read(&user_id()).await;
    assert!(matches!(read, Err(DocumentError::Unsupported)), "{read:?}");
    let written = documents.replace(&user_id(), None, b"{}").await;
    assert!(matches!(written, Err(DocumentError::Unsupported)), "{written:?}");
    let id = bed.project_id();
    documents.replace(&id, None, br#"{"schemaVersion": 2}"#).await.unwrap();
    assert_eq!(documents.look(&id).current.as_ref().unwrap().trust, Trust::Trusted);
}

#[tokio::test]
async fn only_regular_files_of_a_bounded_size_are_read() {
    let bed = Bed::new();
    let id = bed.project_id();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bed.project(),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    assert!(bed.problem(&id).contains("pipe"), "{}", bed.problem(&id));
    let refused = bed.documents.replace(&id, None, b"{}").await;
    assert!(matches!(refused, Err(DocumentError::Malformed(_))), "{refused:?}");
    fs::remove_file(bed.project()).unwrap();
    fs::create_dir(bed.project()).unwrap();
    assert!(bed.problem(&id).contains("folder"), "{}", bed.problem(&id));
    fs::remove_dir(bed.project()).unwrap();
    fs::File::create(bed.project()).unwrap().set_len(10 << 20).unwrap();
    assert!(bed.problem(&id).contains("10485760 bytes"), "{}", bed.problem(&id));
    fs::remove_file(bed.project()).unwrap();
    assert!(bed.documents.look(&id).problem.is_none());
}

#[tokio::test]
async fn links_are_followed_in_the_home_only() {
    let bed = Bed::new();
    fs::write(bed.path("real.json"), "one").unwrap();
    symlink(bed.path("real.json"), bed.project()).unwrap();
    assert!(bed.problem(&bed.project_id()).contains("link"), "{}", bed.problem(&bed.project_id()));
    fs::remove_dir_all(bed.path("project/.nerve")).unwrap();
    fs::create_dir_all(bed.path("elsewhere/config")).unwrap();
    fs::write(bed.path("elsewhere/config/permissions.json"), "{}").unwrap();
    symlink(bed.path("elsewhere"), bed.path("project/.nerve")).unwrap();
    assert!(bed.problem(&bed.project_id()).contains("link"), "{}", bed.problem(&bed.project_id()));
    // One's own file behind one's own link, as those have who keep their settings in a repository.
    symlink(bed.path("real.json"), bed.user()).unwrap();
    let found = bed.documents.look(&user_id());
    assert_eq!(bytes(&found), Some(&b"one"[..]));
    bed.documents.replace(&user_id(), Some(Digest::of("one")), b"two").await.unwrap();
    assert!(fs::symlink_metadata(bed.user()).unwrap().is_symlink());
    assert_eq!(fs::read(bed.path("real.json")).unwrap(), b"two");
    if fs::metadata("/etc/passwd").unwrap().uid() != rustix::process::geteuid().as_raw() {
        fs::remove_file(bed.user()).unwrap();
        symlink("/etc/passwd", bed.user()).unwrap();
        assert!(bed.problem(&user_id()).contains("belongs to someone else"), "{}", bed.problem(&user_id()));
    }
}

#[tokio::test]
async fn no_two_scopes_read_one_file() {
    let bed = Bed::new();
    fs::write(bed.user(), "{}").unwrap();
    fs::hard_link(bed.user(), bed.project()).unwrap();
    assert!(bed.problem(&bed.project_id()).contains("the file of the user"));
    assert!(bed.documents.look(&user_id()).current.is_some());
}

#[tokio::test]
async fn names_stay_below_their_folder() {
    let bed = Bed::new();
    let launches = DocumentId::new(bed.project_id().owner, "launches/definitions");
    assert!(bed.documents.look(&launches).place.ends_with(".nerve/launches/definitions.json"));
    for name in ["../x", "a/../b", "/etc/x", "", "a//b", ".hidden", "a\0b"] {
        let id = DocumentId::new(DocumentOwner::User(None), name);
        let refused = bed.documents.replace(&id, None, b"{}").await;
        assert!(matches!(refused, Err(DocumentError::Unsupported)), "{name}: {refused:?}");
        assert!(bed.documents.look(&id).problem.is_some());
    }
    let conversation = DocumentOwner::User(Some("u1".to_owned()));
    let refused = bed.documents.replace(&DocumentId::permissions(conversation), None, b"{}").await;
    assert!(matches!(refused, Err(DocumentError::Unsupported)));
}

#[tokio::test]
async fn dropping_a_save_leaves_the_old_document_or_the_new_one() {
    use std::future::Future as _;
    use std::task::{Context, Waker};
    for polls in 0..4 {
        let bed = Bed::new();
        let id = user_id();
        let first = bed.documents.replace(&id, None, b"one").await.unwrap();
        {
            let documents = bed.documents.clone();
            let mut saving = Box::pin(async move { documents.replace(&id, Some(first), b"two").await });
            for _ in 0..polls {
                let _ = saving.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            }
        }
        // Whoever is still at work holds the lock, so a next save shows the end of it.
        loop {
            let state = bed.documents.read(&user_id()).await.unwrap();
            let current = state.current.as_ref().unwrap();
            assert!(["one", "two"].map(str::as_bytes).contains(&&*current.bytes));
            assert_eq!(current.trust, Trust::Trusted);
            if bed.documents.replace(&user_id(), Some(current.digest), b"three").await.is_ok() {
                break;
            }
        }
        let left: Vec<_> = fs::read_dir(bed.path("home/config")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
