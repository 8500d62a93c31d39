//! What repositories supply: nothing of it counts before a person trusts exactly that.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nervekit_permissions::*;
use nervekit_types::Digest;
use serde::Deserialize;

use crate::bed::{Bed, user_id};

/// Those whose type a host knows.
const SURFACES: [Surface; 3] = [Surface::Subagents, Surface::Harness, Surface::Launches];

/// Puts something that is no document where one is expected.
type Put = fn(&Path);

/// What is read where nothing counts.
const NOTHING: [u8; 0] = [];

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    value: u8,
}

impl Bed {
    fn surfaces(&self) -> SurfaceDocuments {
        SurfaceDocuments::new(self.documents.clone())
    }

    /// The file of a surface.
    fn file(&self, surface: &Surface, owner: &DocumentOwner) -> PathBuf {
        let file = PathBuf::from(&self.documents.look(&surface.id(owner.clone())).place);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        file
    }

    async fn values(&self, surface: &Surface, owners: &[DocumentOwner]) -> (Vec<u8>, Vec<String>) {
        let layered = self.surfaces().layers::<Content>(surface, owners).await.unwrap();
        let notices = layered.notices.iter().map(|notice| format!("{}: {}", notice.name, notice.reason));
        (layered.iter().map(|content| content.value).collect(), notices.collect())
    }

    async fn standing(&self, surface: &Surface, owner: &DocumentOwner) -> Standing {
        self.surfaces().status(surface, owner).await.unwrap().standing
    }
}

fn person() -> DocumentOwner {
    DocumentOwner::User(None)
}

fn value(value: u8) -> String {
    format!(r#"{{"value": {value}}}"#)
}

#[tokio::test]
async fn layers_stand_from_the_least_to_the_most_specific_and_only_what_counts_is_among_them() {
    for surface in SURFACES {
        let bed = Bed::new();
        let project = bed.project_id().owner;
        // Asked for in any order; nothing of a conversation is kept in files.
        let owners =
            [DocumentOwner::Conversation(nervekit_types::ConversationId::from_key("c")), project, person()];
        let [_, project, _] = &owners;
        assert_eq!(bed.values(&surface, &owners).await, (vec![], vec![]), "{surface}");
        let (of_user, of_project) = (bed.file(&surface, &person()), bed.file(&surface, project));
        assert!(of_user.starts_with(bed.path("home")), "{surface}");
        assert!(of_project.starts_with(bed.path("project/.nerve")), "{surface}");
        // The person's own counts as it is found, however it was written.
        fs::write(&of_user, value(1)).unwrap();
        fs::write(&of_project, value(2)).unwrap();
        let (values, notices) = bed.values(&surface, &owners).await;
        assert_eq!(values, [1], "{surface}");
        assert_eq!(notices.len(), 1);
        assert!(notices[0].starts_with(of_project.to_str().unwrap()) && notices[0].contains("not trusted"));
        bed.trust(&surface.id(project.clone())).await;
        assert_eq!(bed.values(&surface, &owners).await, (vec![1, 2], vec![]));
        let built_in = bed.surfaces().layers::<Content>(&surface, &owners).await.unwrap();
        let built_in = built_in.built_in(Content { value: 0 });
        assert_eq!(built_in.iter().map(|content| content.value).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(built_in.layers[2].owner.as_ref(), Some(project));
        assert_eq!(built_in.layers[2].digest, Some(Digest::of(value(2))));
        // A user's edit counts at once, and what a person refuses does not count.
        fs::write(&of_user, value(3)).unwrap();
        assert_eq!(bed.values(&surface, &owners).await.0, [3, 2]);
        bed.surfaces().reject(&surface, &person(), Digest::of(value(3))).await.unwrap();
        let (values, notices) = bed.values(&surface, &owners).await;
        assert_eq!(values, [2]);
        assert!(notices[0].contains("it was rejected"), "{notices:?}");
        // One changed byte, and nothing of it counts; the version before is known.
        fs::write(&of_project, value(4)).unwrap();
        assert_eq!(bed.values(&surface, &owners).await.0, NOTHING);
        fs::write(&of_project, value(2)).unwrap();
        assert_eq!(bed.values(&surface, &owners).await.0, [2]);
        fs::remove_file(&of_project).unwrap();
        let (values, notices) = bed.values(&surface, &owners).await;
        assert_eq!(values, NOTHING);
        assert!(notices[1].contains("it is gone"), "{notices:?}");
        bed.surfaces().accept_absence(&surface, project).await.unwrap();
        assert_eq!(bed.values(&surface, &owners).await.1.len(), 1);
    }
}

#[tokio::test]
async fn trust_binds_what_was_shown_and_several_versions_stay_accepted() {
    for surface in SURFACES.into_iter().chain([Surface::Permissions]) {
        let bed = Bed::new();
        let (surfaces, project) = (bed.surfaces(), bed.project_id().owner);
        let file = bed.file(&surface, &project);
        let versions = [r#"{"schemaVersion": 2}"#, r#"{"schemaVersion": 2, "overlays": []}"#];
        assert_eq!(bed.standing(&surface, &project).await, Standing::Absent);
        for version in versions {
            fs::write(&file, version).unwrap();
            let shown = surfaces.status(&surface, &project).await.unwrap();
            assert_eq!(shown.standing, Standing::Untrusted);
            fs::write(&file, "{}").unwrap();
            let refused = surfaces.trust(&surface, &project, shown.digest.unwrap()).await;
            assert!(matches!(refused, Err(DocumentError::Changed { current: Some(_) })), "{refused:?}");
            fs::write(&file, version).unwrap();
            surfaces.trust(&surface, &project, shown.digest.unwrap()).await.unwrap();
            assert_eq!(bed.standing(&surface, &project).await, Standing::Active);
        }
        for version in versions {
            fs::write(&file, version).unwrap();
            assert_eq!(bed.standing(&surface, &project).await, Standing::Active);
        }
        surfaces.reject(&surface, &project, Digest::of(versions[1])).await.unwrap();
        assert_eq!(bed.standing(&surface, &project).await, Standing::Rejected);
        fs::write(&file, versions[0]).unwrap();
        assert_eq!(bed.standing(&surface, &project).await, Standing::Active);
        // What cannot be read cannot be accepted.
        fs::write(&file, "[]").unwrap();
        let refused = surfaces.trust(&surface, &project, Digest::of("[]")).await;
        assert!(matches!(refused, Err(DocumentError::Malformed(_))), "{refused:?}");
        let status = surfaces.status(&surface, &project).await.unwrap();
        assert_eq!(status.standing, Standing::Malformed);
        assert!(status.problem.unwrap().contains("it is not an object at line 1, column 1"));
    }
}

#[tokio::test]
async fn the_status_names_the_entries_that_differ_and_nothing_of_what_they_say() {
    let bed = Bed::new();
    let (surfaces, project) = (bed.surfaces(), bed.project_id().owner);
    let file = bed.file(&Surface::Subagents, &project);
    fs::write(
        &file,
        r#"{"version": 1, "profiles": [{"id": "explore", "tools": ["read"]}, {"id": "old"}], "same": {"a": 1}}"#,
    )
    .unwrap();
    let status = surfaces.status(&Surface::Subagents, &project).await.unwrap();
    assert_eq!(status.added, ["profiles.explore", "profiles.old", "same.a", "version"]);
    assert!(status.removed.is_empty() && status.changed.is_empty());
    surfaces.trust(&Surface::Subagents, &project, status.digest.unwrap()).await.unwrap();
    fs::write(
        &file,
        r#"{"same": {"a": 1}, "profiles": [{"id": "x\u202ey"}, {"tools": ["bash"], "id": "explore"}], "version": 1}"#,
    )
    .unwrap();
    let status = surfaces.status(&Surface::Subagents, &project).await.unwrap();
    assert_eq!(status.standing, Standing::Untrusted);
    assert_eq!(
        (&*status.added, &*status.removed, &*status.changed),
        (
            &["profiles.x\\u{202e}y".to_owned()][..],
            &["profiles.old".to_owned()][..],
            &["profiles.explore".to_owned()][..],
        )
    );
    assert!(!format!("{status:?}").contains("bash"));
    // Two entries of one name, or items without one, are compared as a whole.
    fs::write(&file, r#"{"profiles": [{"id": "a"}, {"id": "a"}], "version": 1, "same": [1]}"#).unwrap();
    let status = surfaces.status(&Surface::Subagents, &project).await.unwrap();
    assert_eq!(status.added, ["profiles", "same"]);
}

#[tokio::test]
async fn every_fault_is_a_notice_with_the_place_and_nothing_hangs() {
    let texts: [(&str, &[u8], &str); 8] = [
        ("empty", b"", "EOF"),
        (
            "unknown field",
            b"{\n\"value\": 1, \"trust\": true}",
            "unknown field `trust`, expected `value` at line 2",
        ),
        ("a key twice", b"{\n\"value\": 1,\n\"value\": 2}", "the key `value` appears twice at line 3"),
        ("wrong type", b"{\"value\": 300}", "invalid value: integer `300`, expected u8 at line 1, column 13"),
        ("not UTF-8", b"{\"value\": 1, \"\xff\": 2}", "it is not UTF-8 at line 1, column 15"),
        ("no object", b"[1]", "it is not an object"),
        ("more behind", b"{\"value\": 1}{}", "trailing characters"),
        ("a byte order mark", b"\xef\xbb\xbf{\"value\": 1}", "expected value"),
    ];
    let obstacles: [(&str, Put, &str); 5] = [
        ("10 MB", |file| fs::File::create(file).unwrap().set_len(10 << 20).unwrap(), "10485760 bytes"),
        ("folder", |file| fs::create_dir(file).unwrap(), "folder"),
        ("FIFO", |file| crate::bed::pipe(file), "pipe"),
        ("circle", |file| symlink(file, file).unwrap(), "link"),
        ("device", |file| symlink("/dev/zero", file).unwrap(), ""),
    ];
    for surface in SURFACES {
        let bed = Bed::new();
        for owner in [person(), bed.project_id().owner] {
            let file = bed.file(&surface, &owner);
            let owners = [owner.clone()];
            let check = async |name: &str, words: &str| {
                let (values, notices) = bed.values(&surface, &owners).await;
                assert_eq!(values, NOTHING, "{surface} {name}");
                assert_eq!(notices.len(), 1, "{surface} {name}");
                let named = notices[0].starts_with(file.to_str().unwrap()) && notices[0].contains(words);
                assert!(named, "{surface} {name}: {notices:?}");
            };
            for (name, text, words) in texts {
                fs::write(&file, text).unwrap();
                // Trusting is refused, unless only the type of the host knows better.
                if let DocumentOwner::Project(_) = owner
                    && bed.surfaces().trust(&surface, &owner, Digest::of(text)).await.is_err()
                {
                    check(name, "not trusted").await;
                    assert_eq!(bed.standing(&surface, &owner).await, Standing::Malformed, "{name}");
                } else {
                    check(name, words).await;
                }
            }
            fs::remove_file(&file).unwrap();
            for (name, put, words) in obstacles {
                put(&file);
                check(name, words).await;
                assert_eq!(bed.standing(&surface, &owner).await, Standing::Malformed, "{name}");
                if file.is_dir() { fs::remove_dir(&file).unwrap() } else { fs::remove_file(&file).unwrap() }
            }
            fs::write(&file, value(1)).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
            // Root reads it all the same.
            if fs::read(&file).is_err() {
                check("mode 000", "denied").await;
            }
        }
    }
}

#[tokio::test]
async fn no_two_scopes_read_one_file_under_whatever_name() {
    let bed = Bed::new();
    let project = bed.project_id().owner;
    for of_user in SURFACES {
        for of_project in SURFACES {
            let user = bed.file(&of_user, &person());
            let file = bed.file(&of_project, &project);
            fs::write(&user, value(1)).unwrap();
            fs::hard_link(&user, &file).unwrap();
            let id = of_project.id(project.clone());
            assert!(bed.problem(&id).contains("the file of the user"), "{of_user} {of_project}");
            let refused = bed.surfaces().trust(&of_project, &project, Digest::of(value(1))).await;
            assert!(matches!(refused, Err(DocumentError::Changed { .. })), "{refused:?}");
            assert_eq!(bed.values(&of_user, &[person()]).await.0, [1]);
            fs::remove_file(&user).unwrap();
            fs::remove_file(&file).unwrap();
        }
    }
}

#[tokio::test]
async fn another_folder_decides_anew() {
    let bed = Bed::new();
    let surface = Surface::Subagents;
    let write = |folder: &Path| {
        fs::create_dir_all(folder.join(".nerve/config")).unwrap();
        fs::write(folder.join(".nerve/config/subagents.json"), value(1)).unwrap();
        DocumentOwner::Project(folder.to_owned())
    };
    let project = write(&bed.path("project"));
    bed.trust(&surface.id(project.clone())).await;
    assert_eq!(bed.values(&surface, std::slice::from_ref(&project)).await.0, [1]);
    let nested = write(&bed.path("project/nested"));
    let copied = write(&bed.path("copy"));
    // A worktree is a folder whose `.git` is a file that leads to the repository.
    fs::create_dir_all(bed.path("project/.git/worktrees/side")).unwrap();
    let worktree = write(&bed.path("side"));
    fs::write(
        bed.path("side/.git"),
        format!("gitdir: {}", bed.path("project/.git/worktrees/side").display()),
    )
    .unwrap();
    for owner in [&nested, &copied, &worktree] {
        assert_eq!(bed.values(&surface, std::slice::from_ref(owner)).await.0, NOTHING, "{owner:?}");
        assert_eq!(bed.standing(&surface, owner).await, Standing::Untrusted, "{owner:?}");
    }
    fs::rename(bed.path("project"), bed.path("moved")).unwrap();
    let moved = DocumentOwner::Project(bed.path("moved"));
    assert_eq!(bed.values(&surface, &[moved]).await.0, NOTHING);
    assert_eq!(bed.standing(&surface, &project).await, Standing::Gone);
    // Under another name a project would be decided about twice, and a link may lead elsewhere tomorrow.
    symlink(bed.path("copy"), bed.path("project")).unwrap();
    let (values, notices) = bed.values(&surface, &[project]).await;
    assert_eq!(values, NOTHING);
    assert!(notices[0].contains("links are not followed"), "{notices:?}");
    let around = DocumentOwner::Project(bed.path("moved/../copy"));
    let refused = bed.surfaces().status(&surface, &around).await;
    assert!(matches!(refused, Err(DocumentError::Unsupported)), "{refused:?}");
}

/// A store of decisions that cannot be read.
#[derive(Debug)]
struct Broken;

#[async_trait::async_trait]
impl TrustStore for Broken {
    async fn read(&self, _: &DocumentId) -> Result<Option<TrustRecord>, DocumentError> {
        Err(DocumentError::Unavailable("the disk is gone".into()))
    }
    async fn replace(&self, _: &DocumentId, _: TrustRecord) -> Result<(), DocumentError> {
        Err(DocumentError::Unavailable("the disk is gone".into()))
    }
}

#[tokio::test]
async fn case_20_a_cloned_repository_supplies_nothing_before_it_is_trusted() {
    for surface in SURFACES {
        let bed = Bed::new();
        let project = bed.project_id().owner;
        let file = bed.file(&surface, &project);
        fs::write(&file, value(1)).unwrap();
        let owners = [project.clone()];
        assert_eq!(bed.values(&surface, &owners).await.0, NOTHING, "never asked");
        bed.surfaces().reject(&surface, &project, Digest::of(value(1))).await.unwrap();
        assert_eq!(bed.values(&surface, &owners).await.0, NOTHING, "declined");
        let broken = SurfaceDocuments::new(FileDocuments::new(bed.path("home"), Broken));
        let read = broken.layers::<Content>(&surface, &owners).await;
        assert!(matches!(read, Err(DocumentError::Unavailable(_))), "unreadable: {read:?}");
        // Without the store nothing is known, and what nobody asked the store about does not count either.
        let cold = FileDocuments::new(bed.path("home"), Arc::clone(&bed.trust));
        bed.surfaces().trust(&surface, &project, Digest::of(value(1))).await.unwrap();
        let seen = cold.look(&surface.id(project.clone()));
        assert_eq!(seen.current.as_ref().unwrap().trust, Trust::Undecided);
        assert_eq!(bed.values(&surface, &owners).await.0, [1]);
    }
}

#[tokio::test]
async fn case_22_a_project_cannot_trust_itself() {
    let bed = Bed::new();
    let project = bed.project_id().owner;
    let file = bed.file(&Surface::Harness, &project);
    let text = r#"{"value": 1}"#;
    fs::write(&file, text).unwrap();
    // Everything that a repository can write, with what a record of trust holds.
    let mut record = TrustRecord::new();
    record.revision = 1;
    record.accepted = vec![Digest::of(text)];
    let record = serde_json::to_string(&record).unwrap();
    for name in ["trust.json", "trust", "trusted.json", "harness.trust.json"] {
        fs::write(bed.path("project/.nerve").join(name), &record).unwrap();
        fs::write(bed.path("project/.nerve/config").join(name), &record).unwrap();
    }
    assert_eq!(bed.values(&Surface::Harness, std::slice::from_ref(&project)).await.0, NOTHING);
    assert!(bed.trust.read(&Surface::Harness.id(project)).await.unwrap().is_none());
}

#[tokio::test]
async fn permission_rules_are_layered_as_far_as_they_are_accepted() {
    let bed = Bed::new();
    bed.documents.adopt().await.unwrap();
    fs::write(bed.user(), r#"{"schemaVersion": 2}"#).unwrap();
    let owners = [person()];
    let read =
        async || bed.surfaces().layers::<PolicyDocument>(&Surface::Permissions, &owners).await.unwrap();
    let layered = read().await;
    assert!(layered.layers.is_empty() && layered.notices[0].reason.contains("not accepted"));
    assert_eq!(bed.standing(&Surface::Permissions, &owners[0]).await, Standing::Changed);
    bed.trust(&user_id()).await;
    assert_eq!(read().await.layers.len(), 1);
}
