//! Resolution and decided paths over real file systems.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use nervekit_permissions::*;
use serde_json::json;

use crate::world::*;

/// Where a path of a call leads, by the resolver.
fn resolved(world: &World, path: &str) -> Result<PathBuf, String> {
    let call = world.call(&read(), json!({ "path": path }));
    let resolved = TargetResolver::new(world.roots()).resolve(&call).map_err(|error| error.to_string())?;
    let CanonicalSubject::Path(target) = resolved.targets()[0].subject() else { panic!("no path") };
    Ok(PathBuf::from(&target.resolved.absolute))
}

#[test]
fn dots_are_removed_before_links_are_followed() {
    let world = World::new("supervised");
    symlink(world.path("outside"), world.path("project/link")).unwrap();
    let project = world.path("project").canonicalize().unwrap();
    assert_eq!(resolved(&world, "link/../x").unwrap(), project.join("x"));
    assert_eq!(resolved(&world, "./src//../y/").unwrap(), project.join("y"));
    assert_eq!(resolved(&world, "../../../../../../../../../../..").unwrap(), Path::new("/"));
    assert!(resolved(&world, "").unwrap_err().contains("empty"));
    // A dangling link leads where it points, and `..` behind something that does not exist is refused.
    symlink("../outside/new/deep", world.path("project/dangling")).unwrap();
    assert_eq!(
        resolved(&world, "dangling").unwrap(),
        world.path("outside").canonicalize().unwrap().join("new/deep")
    );
    symlink("nowhere/../../outside", world.path("project/odd")).unwrap();
    assert!(resolved(&world, "odd").is_err());
}

#[test]
fn a_name_that_is_not_utf_8_fails_closed() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::new("autonomous");
    let strange = world.path("project").join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    if fs::create_dir(&strange).is_err() {
        return; // some file systems refuse the name, and that is as good
    }
    symlink(&strange, world.path("project/link")).unwrap();
    assert!(resolved(&world, "link/x").unwrap_err().contains("not UTF-8"));
    assert_eq!(world.read("link/x"), Decision::Deny);
}

#[test]
fn a_control_file_is_found_under_another_name() {
    let world = World::new("autonomous");
    world.write("project/AGENTS.md", "be good");
    fs::hard_link(world.path("project/AGENTS.md"), world.path("project/notes.txt")).unwrap();
    assert_eq!(world.write_call("notes.txt"), Decision::Prompt);
    for (number, control) in [
        "project/.nerve/config/permissions.json",
        "project/.nerve/config/subagents.json",
        "project/.nerve/launches/definitions.json",
        "project/.git/config",
        "home/.nerve/config/permissions.json",
        "home/.nerve/config/harness.json",
    ]
    .into_iter()
    .enumerate()
    {
        world.write(control, "{}");
        let name = format!("innocent-{number}");
        fs::hard_link(world.path(control), world.path(&format!("project/{name}"))).unwrap();
        assert_eq!(world.write_call(&name), Decision::Prompt, "{control}");
    }
    world.write("home/.ssh/id", "secret");
    symlink(world.path("home/.ssh"), world.path("project/keys")).unwrap();
    assert_eq!(world.read("keys/id"), Decision::Prompt);
    symlink(world.path("project/AGENTS.md"), world.path("project/alias")).unwrap();
    assert_eq!(world.write_call("alias"), Decision::Prompt);
}

#[test]
fn replacing_is_whole_keeps_the_mode_and_makes_parents() {
    let world = World::new("autonomous");
    let file = world.write("project/run.sh", "old");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
    let decided = world.decided(&write(), "run.sh");
    let inode = file.metadata().unwrap().ino();
    let mut before = decided.open().unwrap();
    decided.replace(b"new").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"new");
    assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o750);
    assert_ne!(file.metadata().unwrap().ino(), inode);
    // Who read before still reads the old file, whole.
    let mut text = String::new();
    std::io::Read::read_to_string(&mut before, &mut text).unwrap();
    assert_eq!(text, "old");
    // Parents come into being, and nothing is left beside.
    let deep = world.decided(&write(), "x/y/z");
    assert!(!deep.exists().unwrap());
    deep.replace(b"deep").unwrap();
    assert_eq!(deep.metadata().unwrap().length, 4);
    assert_eq!(fs::read_dir(world.path("project/x/y")).unwrap().count(), 1);
    deep.remove().unwrap();
    assert!(!deep.exists().unwrap());
    // A folder in its place is refused, and nothing is left beside it.
    fs::create_dir(world.path("project/x/y/z")).unwrap();
    assert!(world.decided(&write(), "x/y/z").replace(b"no").is_err());
    assert_eq!(fs::read_dir(world.path("project/x/y")).unwrap().count(), 1);
    // What was decided for reading is not written.
    let error = world.decided(&read(), "run.sh").replace(b"no").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn a_folder_that_was_swapped_is_not_used() {
    let world = World::new("autonomous");
    let victim = world.write("outside/file", "untouched");
    for swap in ["link", "folder"] {
        world.write("project/d/file", "inside");
        let decided = world.decided(&write(), "d/file");
        fs::rename(world.path("project/d"), world.path(&format!("project/old-{swap}"))).unwrap();
        if swap == "link" {
            symlink(world.path("outside"), world.path("project/d")).unwrap();
        } else {
            fs::create_dir(world.path("project/d")).unwrap();
        }
        assert!(decided.open().is_err() && decided.replace(b"x").is_err(), "{swap}");
        let _ =
            fs::remove_file(world.path("project/d")).or_else(|_| fs::remove_dir_all(world.path("project/d")));
    }
    // Once opened, the folder is held wherever its name goes.
    world.write("project/d/file", "inside");
    let decided = world.decided(&write(), "d/file");
    drop(decided.open().unwrap());
    fs::rename(world.path("project/d"), world.path("project/moved")).unwrap();
    symlink(world.path("outside"), world.path("project/d")).unwrap();
    decided.replace(b"held").unwrap();
    assert_eq!(fs::read(world.path("project/moved/file")).unwrap(), b"held");
    assert_eq!(fs::read(victim).unwrap(), b"untouched");
}

#[test]
fn two_spellings_of_one_file_share_a_lock() {
    let world = World::new("autonomous");
    world.write("project/d/f", "x");
    symlink("d", world.path("project/e")).unwrap();
    symlink("d/f", world.path("project/g")).unwrap();
    let absolute = world.path("project/d/f");
    let keys: BTreeSet<LockKey> = ["d/f", "./d/../d/f", "e/f", "g", absolute.to_str().unwrap()]
        .iter()
        .map(|path| world.decided(&write(), path).lock_key().unwrap())
        .collect();
    assert_eq!(keys.len(), 1);
    let key = |path: &str| world.decided(&write(), path).lock_key().unwrap();
    assert_ne!(key("d/f"), key("d/F"));
    assert_ne!(key("d/f"), key("f"));
    // While the folder is missing the key is that of the nearest one that exists; it changes with it.
    let new = world.decided(&write(), "n/m/f");
    assert_eq!(new.lock_key().unwrap(), key("n/m/f"));
    assert_ne!(new.lock_key().unwrap(), key("n/k/f"));
    new.replace(b"x").unwrap();
    assert_eq!(new.lock_key().unwrap(), key("n/m/f"));
}

#[test]
fn a_tree_is_walked_through_descriptors_without_following_links() {
    let world =
        World::new("supervised").user(deny(Filter::new().any_target(Matcher::new().pattern("**/.env"))));
    for file in ["a/one", "a/b/two", "a/.env", "three"] {
        world.write(&format!("project/{file}"), file);
    }
    world.write("outside/secret", "secret");
    symlink(world.path("outside"), world.path("project/a/out")).unwrap();
    symlink("one", world.path("project/a/link")).unwrap();
    let evaluation = world.evaluate(&grep(), json!({}));
    let target = &evaluation.targets[0];
    let filter = target.entries.clone().unwrap();
    let (mut found, mut withheld) = (Vec::new(), 0);
    let mut folders = vec![(target.path.clone().unwrap(), PathBuf::new())];
    while let Some((folder, below)) = folders.pop() {
        for entry in folder.entries().unwrap() {
            let entry = entry.unwrap();
            let relative = below.join(&entry.name);
            if !filter.allows(&relative) {
                withheld += 1;
                continue;
            }
            let child = folder.child(&entry.name).unwrap();
            match entry.kind {
                EntryKind::Folder => folders.push((child, relative)),
                EntryKind::File => {
                    found.push((child.display(), std::io::read_to_string(child.open().unwrap()).unwrap()));
                }
                EntryKind::Link => {
                    assert!(child.open().is_err() && child.entries().is_err());
                    assert_eq!(child.metadata().unwrap().kind, EntryKind::Link);
                }
                _ => panic!("{entry:?}"),
            }
        }
    }
    found.sort();
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a/b/two", "a/one", "three"]);
    assert!(found.iter().all(|(name, content)| name == content));
    assert_eq!(withheld, 1);
    let folder = target.path.clone().unwrap();
    for name in ["..", ".", "", "a/b", "/etc", "a/"] {
        assert!(folder.child(name).is_err(), "{name:?}");
    }
}

#[test]
fn a_root_that_does_not_exist_yet_comes_into_being() {
    let world = World::new("planning");
    fs::remove_dir(world.path("plans")).unwrap();
    let plan = world.decided(&write(), world.path("plans/new/plan.md").to_str().unwrap());
    plan.lock_key().unwrap();
    plan.replace(b"1. think").unwrap();
    assert_eq!(fs::read(world.path("plans/new/plan.md")).unwrap(), b"1. think");
}
