//! Skills: a folder that is trusted as a whole.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nervekit_permissions::*;
use nervekit_types::Digest;

use crate::bed::Bed;

const TEXT: &str = "---\nname: release\ndescription: How to release\n---\nTag it.\n";

struct Shelf {
    bed: Bed,
    skills: Skills,
    decisions: SurfaceDocuments,
    project: DocumentOwner,
    release: Surface,
}

impl Shelf {
    /// With one skill of the project, about which nobody decided.
    fn new() -> Self {
        let bed = Bed::new();
        let shelf = Self {
            skills: Skills::new(bed.documents.clone()),
            decisions: SurfaceDocuments::new(bed.documents.clone()),
            project: bed.project_id().owner,
            release: Surface::Skill { name: "release".to_owned() },
            bed,
        };
        shelf.write("SKILL.md", TEXT);
        shelf.write("scripts/tag.sh", "git tag");
        shelf
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bed.path("project/.nerve/skills/release").join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    async fn status(&self) -> SurfaceStatus {
        self.decisions.status(&self.release, &self.project).await.unwrap()
    }

    async fn trust(&self) {
        let digest = self.status().await.digest.unwrap();
        self.decisions.trust(&self.release, &self.project, digest).await.unwrap();
    }

    async fn read(&self) -> Result<Skill, DocumentError> {
        self.skills.read(&self.project, "release").await
    }

    /// The names of the skills that count, and what is said about the others.
    async fn offered(&self) -> (Vec<String>, Vec<String>) {
        let owners = [self.project.clone(), DocumentOwner::User(None)];
        let layered = self.skills.layers(&owners).await.unwrap();
        let notices = layered.notices.iter().map(|notice| format!("{}: {}", notice.name, notice.reason));
        (layered.iter().map(|skill| skill.name.clone()).collect(), notices.collect())
    }

    /// Why the skill as it is now is refused.
    async fn problem(&self) -> String {
        let status = self.status().await;
        assert_eq!(status.standing, Standing::Malformed, "{status:?}");
        assert!(matches!(self.read().await, Err(DocumentError::Malformed(_))));
        let (offered, notices) = self.offered().await;
        assert_eq!((offered.len(), notices.len()), (0, 1));
        assert!(notices[0].starts_with("skills/release: "), "{notices:?}");
        status.problem.unwrap()
    }
}

#[tokio::test]
async fn a_skill_that_is_not_trusted_gives_nothing_but_the_name_of_its_folder() {
    let shelf = Shelf::new();
    assert_eq!(shelf.offered().await.0, Vec::<String>::new());
    let read = shelf.read().await;
    assert!(matches!(read, Err(DocumentError::Untrusted { .. })), "{read:?}");
    let listed = shelf.skills.list(&shelf.project).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].surface, listed[0].standing), (&shelf.release, Standing::Untrusted));
    assert_eq!(listed[0].added, ["SKILL.md", "scripts/tag.sh"]);
    let (_, notices) = shelf.offered().await;
    for word in ["How to", "Tag it", "git tag"] {
        assert!(!format!("{listed:?}{notices:?}{read:?}").contains(word));
    }
    shelf.trust().await;
    let skill = shelf.read().await.unwrap();
    assert_eq!((&*skill.description, &*skill.body), ("How to release", "Tag it.\n"));
    assert_eq!(&*skill.files["scripts/tag.sh"], b"git tag");
    assert_eq!(Some(skill.digest), shelf.status().await.digest);
    assert_eq!(shelf.offered().await, (vec!["release".to_owned()], vec![]));
    // Its own decision says that it was refused.
    shelf.decisions.reject(&shelf.release, &shelf.project, skill.digest).await.unwrap();
    assert!(shelf.offered().await.1[0].contains("it was rejected"));
    assert!(matches!(shelf.read().await, Err(DocumentError::Untrusted { .. })));
}

#[tokio::test]
async fn every_change_in_the_folder_asks_anew_and_is_named() {
    let shelf = Shelf::new();
    shelf.trust().await;
    let first = shelf.status().await.digest;
    shelf.write("scripts/tag.sh", "git push --force");
    shelf.write("notes/new.md", "x");
    let status = shelf.status().await;
    assert_eq!(status.standing, Standing::Untrusted);
    assert_eq!(
        (&*status.added[0], &*status.changed[0], status.removed.len()),
        ("notes/new.md", "scripts/tag.sh", 0)
    );
    assert_eq!(shelf.offered().await.0, Vec::<String>::new());
    let shown = status.digest.unwrap();
    fs::rename(shelf.path("notes/new.md"), shelf.path("notes/old.md")).unwrap();
    let refused = shelf.decisions.trust(&shelf.release, &shelf.project, shown).await;
    assert!(matches!(refused, Err(DocumentError::Changed { .. })), "{refused:?}");
    fs::remove_dir_all(shelf.path("notes")).unwrap();
    fs::remove_file(shelf.path("scripts/tag.sh")).unwrap();
    assert_eq!(shelf.status().await.removed, ["scripts/tag.sh"]);
    // A version that was accepted is known when it comes back.
    shelf.write("scripts/tag.sh", "git tag");
    assert_eq!(shelf.status().await.digest, first);
    assert_eq!(shelf.offered().await.0, ["release"]);
    fs::remove_dir_all(shelf.path("")).unwrap();
    assert_eq!(shelf.status().await.standing, Standing::Gone);
    assert!(matches!(shelf.read().await, Err(DocumentError::Changed { current: None })));
    shelf.decisions.accept_absence(&shelf.release, &shelf.project).await.unwrap();
    assert_eq!(shelf.status().await.standing, Standing::Absent);
    // A skill is written by no port.
    let id = shelf.release.id(shelf.project.clone());
    let written = shelf.bed.documents.replace(&id, None, b"{}").await;
    assert!(matches!(written, Err(DocumentError::Unsupported)), "{written:?}");
}

#[tokio::test]
async fn no_two_folders_have_one_digest() {
    let folders: [&[(&str, &str)]; 9] = [
        &[("a", "b")],
        &[("a", "c")],
        &[("b", "b")],
        &[("a", "b"), ("c", "")],
        &[("a", ""), ("c", "b")],
        &[("a/c", "b")],
        &[("ac", "b")],
        &[("a", "b\n"), ("c", "")],
        &[("a\": \"sha256:0", "b")],
    ];
    let mut known: Vec<Digest> = Vec::new();
    for files in folders {
        let shelf = Shelf::new();
        fs::remove_dir_all(shelf.path("")).unwrap();
        for (name, text) in files {
            shelf.write(name, text);
        }
        let digest = shelf.status().await.digest.unwrap();
        assert!(!known.contains(&digest), "{files:?}");
        known.push(digest);
    }
}

#[tokio::test]
async fn one_thing_that_cannot_be_trusted_refuses_the_whole() {
    type Put = fn(&Path);
    let obstacles: [(Put, &str); 8] = [
        (
            |folder| symlink("/etc/passwd", folder.join("scripts/link")).unwrap(),
            "`scripts/link`: it is a link",
        ),
        (|folder| symlink("..", folder.join("up")).unwrap(), "`up`: it is a link"),
        (|folder| crate::bed::pipe(&folder.join("pipe")), "`pipe`: it is a pipe"),
        (
            |folder| fs::write(folder.join(OsStr::from_bytes(b"a\xffb")), "").unwrap(),
            "the name of `a\u{fffd}b` is not UTF-8",
        ),
        (|folder| fs::create_dir_all(folder.join("1/2/3/4/5/6/7/8")).unwrap(), "more than 8 folders deep"),
        (
            |folder| (0..256).for_each(|number| fs::write(folder.join(format!("{number}")), "").unwrap()),
            "more than 256 files",
        ),
        (
            |folder| (0..64).for_each(|number| fs::create_dir(folder.join(format!("{number}"))).unwrap()),
            "64 folders",
        ),
        (
            |folder| fs::File::create(folder.join("large")).unwrap().set_len(1 << 40).unwrap(),
            "more than 4194304 bytes",
        ),
    ];
    for (put, words) in obstacles {
        let shelf = Shelf::new();
        // A skill that was trusted is none any more either.
        shelf.trust().await;
        put(&shelf.path(""));
        let problem = shelf.problem().await;
        assert!(problem.contains(words), "{words}: {problem}");
    }
    let shelf = Shelf::new();
    fs::set_permissions(shelf.path("SKILL.md"), fs::Permissions::from_mode(0o000)).unwrap();
    // Root reads it all the same.
    if fs::read(shelf.path("SKILL.md")).is_err() {
        assert!(shelf.problem().await.contains("`SKILL.md`: "));
    }
}

#[tokio::test]
async fn what_lies_among_the_skills_and_is_none_is_named() {
    let shelf = Shelf::new();
    shelf.trust().await;
    let folder = shelf.bed.path("project/.nerve/skills");
    fs::write(folder.join("README.md"), "no skill").unwrap();
    fs::create_dir(folder.join("empty")).unwrap();
    fs::create_dir(folder.join("two words")).unwrap();
    symlink(shelf.path(""), folder.join("linked")).unwrap();
    fs::create_dir(folder.join(OsStr::from_bytes(b"\xff"))).unwrap();
    let listed = shelf.skills.list(&shelf.project).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|status| (status.surface.to_string(), status.standing)).collect();
    let expected = [
        ("skills/empty", Standing::Untrusted),
        ("skills/linked", Standing::Malformed),
        ("skills/release", Standing::Active),
        ("skills/two words", Standing::Malformed),
        ("skills/\u{fffd}", Standing::Malformed),
    ];
    assert_eq!(listed, expected.map(|(name, standing)| (name.to_owned(), standing)));
    let (offered, notices) = shelf.offered().await;
    assert_eq!((offered.len(), notices.len()), (1, 4), "{notices:?}");
    // The folder of all skills, too, lies in the project.
    fs::rename(&folder, shelf.bed.path("aside")).unwrap();
    symlink(shelf.bed.path("aside"), &folder).unwrap();
    let listed = shelf.skills.list(&shelf.project).await;
    assert!(matches!(listed, Err(DocumentError::Malformed(_))), "{listed:?}");
    let (offered, notices) = shelf.offered().await;
    assert!(offered.is_empty() && notices[0].contains("links are not followed"), "{notices:?}");
}

#[tokio::test]
async fn a_skill_with_a_faulty_front_matter_is_trusted_and_still_gives_nothing() {
    let shelf = Shelf::new();
    shelf.write("SKILL.md", "---\nname: other\ndescription: x\n---\n");
    shelf.trust().await;
    let (offered, notices) = shelf.offered().await;
    assert!(offered.is_empty());
    assert!(notices[0].contains("`name` is `other`; it is that of the folder, `release`"), "{notices:?}");
    let listed = shelf.skills.list(&shelf.project).await.unwrap();
    assert_eq!(listed[0].standing, Standing::Malformed);
    fs::remove_file(shelf.path("SKILL.md")).unwrap();
    shelf.trust().await;
    assert!(shelf.offered().await.1[0].contains("it holds no file `SKILL.md`"));
}

#[tokio::test]
async fn the_skills_of_the_person_count_as_they_are_found() {
    let shelf = Shelf::new();
    let mine = shelf.bed.path("home/agent/skills/mine");
    fs::create_dir_all(&mine).unwrap();
    fs::write(mine.join("SKILL.md"), TEXT.replace("release", "mine")).unwrap();
    // One that is kept elsewhere, behind the person's own link.
    let kept = shelf.bed.path("dotfiles/kept");
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join("SKILL.md"), TEXT.replace("release", "kept")).unwrap();
    symlink(&kept, shelf.bed.path("home/agent/skills/kept")).unwrap();
    shelf.trust().await;
    assert_eq!(
        shelf.offered().await,
        (vec!["kept".to_owned(), "mine".to_owned(), "release".to_owned()], vec![])
    );
    // The same name in a project is another skill, with a decision of its own.
    let owner = DocumentOwner::User(None);
    let digest = shelf.skills.read(&owner, "mine").await.unwrap().digest;
    let surface = Surface::Skill { name: "mine".to_owned() };
    shelf.decisions.reject(&surface, &owner, digest).await.unwrap();
    assert_eq!(shelf.offered().await.0, ["kept", "release"]);
}

#[tokio::test]
async fn what_is_read_is_what_was_hashed_while_another_program_writes() {
    let shelf = Arc::new(Shelf::new());
    shelf.trust().await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (shelf, stop) = (Arc::clone(&shelf), Arc::clone(&stop));
        move || {
            let mut number = 0_u32;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                number += 1;
                let text = if number.is_multiple_of(2) { "git tag" } else { "rm -rf ." };
                let _ = fs::write(shelf.path("scripts/tag.sh"), text);
            }
        }
    });
    let mut read = 0;
    for _ in 0..200 {
        if let Ok(skill) = shelf.read().await {
            read += 1;
            assert_eq!(&*skill.files["scripts/tag.sh"], b"git tag");
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writer.join().unwrap();
    shelf.write("scripts/tag.sh", "git tag");
    assert!(shelf.read().await.is_ok(), "{read} readings before");
}

#[tokio::test]
async fn an_edit_deep_in_a_folder_that_has_been_quiet_is_noticed() {
    let shelf = Shelf::new();
    shelf.trust().await;
    // A file would now be taken from memory, as its stamp is old enough to tell.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let quiet = || {
        let changed = fs::metadata(shelf.path("")).unwrap().modified().unwrap();
        changed.elapsed().is_ok_and(|age| age > std::time::Duration::from_millis(2_100))
    };
    while !quiet() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
    let id = shelf.release.id(shelf.project.clone());
    let before = shelf.bed.documents.look(&id);
    assert_eq!(before.current.as_ref().unwrap().trust, Trust::Trusted);
    assert!(Arc::ptr_eq(&before, &shelf.bed.documents.look(&id)));
    fs::write(shelf.path("scripts/tag.sh"), "git rm").unwrap();
    assert_eq!(shelf.bed.documents.look(&id).current.as_ref().unwrap().trust, Trust::Undecided);
}
