//! Between the decision and the use: the path changes, and nothing outside is read or written.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nervekit_permissions::*;
use serde_json::json;

use crate::world::*;

/// What only files outside hold.
const OUTSIDE: &str = "sentinel 5b0e7f: nobody may read this";

/// A project with a file at `d/e/file`, and an outside with the same names and other content.
fn world() -> (World, Vec<(PathBuf, Vec<u8>)>) {
    let world = World::new("autonomous");
    world.write("project/d/e/file", "inside");
    world.write("project/d/e/other", "inside");
    for name in ["outside/e/file", "outside/file", "outside/other", "outside/e/other"] {
        world.write(name, OUTSIDE);
    }
    let before = tree(&world.path("outside"));
    (world, before)
}

/// One way to put something else in the place of a component.
#[derive(Clone, Copy, Debug)]
enum Flip {
    /// A link to the folder or file outside.
    Link,
    /// A link with a relative content.
    RelativeLink,
    /// A hard link to the file outside, which is a file like any other: only for the last component.
    Away,
    /// Another folder of that name, moved in from outside.
    Moved,
}

const FLIPS: [Flip; 4] = [Flip::Link, Flip::RelativeLink, Flip::Away, Flip::Moved];

/// The components that are flipped, with what is outside of the same name.
const COMPONENTS: [(&str, &str); 3] =
    [("project/d", "outside"), ("project/d/e", "outside/e"), ("project/d/e/file", "outside/e/file")];

fn flip(world: &World, (inside, outside): (&str, &str), flip: Flip) {
    let place = world.path(inside);
    fs::rename(&place, world.path("project/away")).unwrap();
    match flip {
        Flip::Link => symlink(world.path(outside), place).unwrap(),
        Flip::RelativeLink => {
            let up = "../".repeat(inside.matches('/').count());
            symlink(format!("{up}{outside}"), place).unwrap();
        }
        Flip::Away => {}
        Flip::Moved => {
            let copy = world.path("outside/copy");
            if world.path(outside).is_dir() {
                fs::create_dir_all(copy.join("e")).unwrap();
                for name in ["file", "other", "e/file", "e/other"] {
                    fs::write(copy.join(name), "moved").unwrap();
                }
            } else {
                fs::write(&copy, "moved").unwrap();
            }
            fs::rename(copy, place).unwrap();
        }
    }
}

/// Every way in which a tool uses a path; returns everything that it read.
fn uses(path: &DecidedPath) -> Vec<u8> {
    let mut seen = Vec::new();
    if let Ok(mut file) = path.open() {
        file.read_to_end(&mut seen).unwrap();
    }
    let _ = path.metadata();
    if let Ok(entries) = path.entries() {
        for entry in entries.flatten() {
            if let Ok(mut file) = path.child(&entry.name).and_then(|child| child.open()) {
                file.read_to_end(&mut seen).unwrap();
            }
        }
    }
    let _ = path.replace(b"written");
    seen
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_component_that_is_flipped_after_the_decision_leads_nowhere() {
    let mut refused = 0;
    for component in COMPONENTS {
        for kind in FLIPS {
            for (tool, path) in
                [(read(), "d/e/file"), (write(), "d/e/file"), (grep(), "d/e"), (write(), "d/e/new")]
            {
                let (world, before) = world();
                let evaluation = world.evaluate(&tool, json!({ "path": path }));
                assert_eq!(evaluation.decision(), Decision::Allow);
                let decided = evaluation.targets[0].path.clone().unwrap();
                // The hook between the decision and the use.
                flip(&world, component, kind);
                let seen = uses(&decided);
                assert!(!holds(&seen, OUTSIDE), "{component:?} {kind:?} {path}: read outside");
                assert_eq!(
                    tree(&world.path("outside")),
                    before,
                    "{component:?} {kind:?} {path}: wrote outside"
                );
                // Of what was decided itself, whatever is there under its name is used, if it is no link.
                let above = format!("project/{path}").starts_with(&format!("{}/", component.0));
                if above {
                    // A folder that took the place of the decided one is not used either.
                    assert!(
                        !holds(&seen, "moved"),
                        "{component:?} {kind:?} {path}: read a folder that was moved in"
                    );
                    refused += usize::from(decided.metadata().is_err());
                }
            }
        }
    }
    println!("{refused} uses refused");
    assert!(refused >= 20, "{refused}");
}

#[test]
fn a_component_that_is_flipped_after_the_folder_was_opened_changes_nothing() {
    for component in [COMPONENTS[0], COMPONENTS[1]] {
        for kind in FLIPS {
            let (world, before) = world();
            let decided = world.decided(&write(), "d/e/file");
            drop(decided.open().unwrap());
            flip(&world, component, kind);
            // The folder is held: its name has moved, the file in it is still the decided one.
            let mut text = String::new();
            decided.open().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "inside");
            decided.replace(b"held").unwrap();
            let rest = Path::new("project/d/e/file").strip_prefix(component.0).unwrap();
            assert_eq!(fs::read(world.path("project/away").join(rest)).unwrap(), b"held");
            assert_eq!(tree(&world.path("outside")), before);
        }
    }
}

/// How often the paths are used while the thread flips.
const USES: usize = 3_000;

#[test]
fn a_path_that_is_flipped_all_the_time_is_never_used_outside() {
    let mut refused_in_all = 0;
    for (component, outside) in COMPONENTS {
        let (world, before) = world();
        let done = AtomicBool::new(false);
        let flips = AtomicUsize::new(0);
        let place = world.path(component);
        let (link, away) = (world.path("project/link"), world.path("project/away"));
        let (mut read_inside, mut written, mut refused) = (0, 0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // A step fails when a replacement took its place meanwhile; the next round tidies up.
                    let _ = symlink(world.path(outside), &link);
                    let _ = fs::rename(&place, &away).and_then(|()| fs::rename(&link, &place));
                    std::thread::yield_now();
                    let _ = fs::remove_file(&place);
                    let _ = fs::rename(&away, &place);
                    flips.fetch_add(1, Ordering::Relaxed);
                }
            });
            let engine = world.engine();
            // What is decided to lie outside is another call; under this rule set it would be allowed.
            let inside = |tool: &ToolDescriptor, path: &str| {
                let evaluation = engine.evaluate(world.call(tool, json!({ "path": path })));
                let target = evaluation.targets.first()?;
                let CanonicalSubject::Path(resolved) = target.target.subject() else { return None };
                let project =
                    resolved.resolved.rooted.first().is_some_and(|rooted| rooted.root == Root::Project);
                project.then(|| target.path.clone()).flatten()
            };
            // As long as it takes for both threads to have had their turns.
            let deadline = Instant::now() + Duration::from_secs(60);
            for number in 0.. {
                let enough =
                    number >= USES && read_inside > 50 && written > 0 && flips.load(Ordering::Relaxed) > 100;
                if enough || Instant::now() > deadline {
                    break;
                }
                let path = ["d/e/file", "d/e/other"][number % 2];
                if let Some(decided) = inside(&read(), path) {
                    match decided.open() {
                        Ok(mut file) => {
                            let mut seen = Vec::new();
                            file.read_to_end(&mut seen).unwrap();
                            assert!(!holds(&seen, OUTSIDE), "{component}: read outside");
                            read_inside += 1;
                        }
                        Err(_) => refused += 1,
                    }
                }
                if let Some(decided) = inside(&write(), path).filter(|_| number % 8 == 0) {
                    match decided.replace(b"inside") {
                        Ok(()) => written += 1,
                        Err(_) => refused += 1,
                    }
                }
                if let Some(decided) = inside(&grep(), "d/e").filter(|_| number % 8 == 4) {
                    assert!(!holds(&uses(&decided), OUTSIDE), "{component}: listed outside");
                }
                std::thread::yield_now();
            }
            done.store(true, Ordering::Relaxed);
        });
        let flips = flips.into_inner();
        println!("{component}: {flips} flips, {read_inside} read, {written} written, {refused} refused");
        assert!(flips > 100 && read_inside > 50 && written > 0, "the race was never run");
        refused_in_all += refused;
        assert_eq!(tree(&world.path("outside")), before, "{component}: wrote outside");
    }
    assert!(refused_in_all > 20, "the flips never fell between decision and use: {refused_in_all}");
}
