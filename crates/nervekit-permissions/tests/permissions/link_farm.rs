//! The resolver and decided paths against the system, over random folders full of links.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use nervekit_permissions::*;
use serde_json::json;

use crate::random::Random;
use crate::world::*;

/// Plain names, two spellings of one, one that differs in case, and names that look like something else.
const NAMES: [&str; 18] = [
    "a",
    "b",
    "c",
    "a",
    "b",
    "c",
    "A",
    "\u{e9}",
    "e\u{301}",
    "x y",
    "-rf",
    "...",
    "a.",
    "l\nine",
    "\u{1f980}",
    "%2e%2e",
    "~",
    "$HOME",
];
const FARMS: u64 = 40;
const USES: usize = 60;

/// Where links and calls may lead: below the project, below the outside, up and down.
fn somewhere(random: &mut Random, dots: bool) -> PathBuf {
    let mut path = PathBuf::new();
    for _ in 0..=random.below(3) {
        match random.below(if dots { 5 } else { 4 }) {
            4 => path.push(*random.pick(&["..", ".", "..", "../.."])),
            _ => path.push(random.pick(&NAMES)),
        }
    }
    path
}

fn plant(world: &World, random: &mut Random) {
    let top = world.folder.path().canonicalize().unwrap();
    for number in 0..45 {
        let base = world.path(random.pick::<&str>(&["project", "project", "project", "outside"]));
        let place = base.join(somewhere(random, false));
        // What cannot be made here, because a file is in the way, is left out; so is what a link leads out of
        // the folder of this test.
        let stays = place.ancestors().find_map(|above| above.canonicalize().ok());
        if stays.is_none_or(|above| !above.starts_with(&top)) {
            continue;
        }
        let _ = fs::create_dir_all(place.parent().unwrap());
        match random.below(7) {
            0 => drop(fs::create_dir(&place)),
            1 | 2 => {
                if place.symlink_metadata().is_err() {
                    let _ = fs::write(&place, format!("file {number}"));
                }
            }
            3 => drop(symlink(world.path("outside").join(somewhere(random, true)), &place)),
            4 => drop(symlink(world.path("project").join(somewhere(random, false)), &place)),
            5 => drop(symlink(place.file_name().unwrap(), &place)),
            _ => drop(symlink(somewhere(random, true), &place)),
        }
    }
}

/// Removes dots by name.
fn lexical(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut path, component| {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
        path
    })
}

/// Where the system would come to; what does not exist is appended to what does. `None`: it would not get there.
fn system(path: &Path, links: usize) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(found) => return Some(found),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => return None,
        Err(_) if links > 40 => return None,
        Err(_) => {}
    }
    let parent = system(path.parent()?, links)?;
    let name = path.file_name()?;
    let here = parent.join(name);
    // A link that dangles leads where it points.
    let Ok(content) = here.read_link() else { return Some(here) };
    let mut at = if content.is_absolute() { PathBuf::from("/") } else { parent };
    for component in content.components() {
        match component {
            // Above what does not exist there is nothing for the system either.
            Component::ParentDir if at.is_dir() => drop(at.pop()),
            Component::ParentDir => return None,
            Component::Normal(name) => at = system(&at.join(name), links + 1)?,
            _ => {}
        }
    }
    Some(at)
}

fn below(folder: &Path, path: &Path) -> Option<String> {
    let mut path = path.components();
    for component in folder.components() {
        if path.next() != Some(component) {
            return None;
        }
    }
    Some(path.as_path().to_str().unwrap().to_owned())
}

/// Everything under the world: what is there, and what it holds or where it points.
fn snapshot(world: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![world.folder.path().to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let facts = path.symlink_metadata().unwrap();
            if facts.is_symlink() {
                let content = path.read_link().unwrap();
                found.insert(path, content.into_os_string().into_encoded_bytes());
            } else if facts.is_dir() {
                folders.push(path);
            } else {
                let content = fs::read(&path).unwrap();
                found.insert(path, content);
            }
        }
    }
    found
}

#[test]
fn random_link_farms_are_resolved_and_used_as_the_system_does() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for seed in 0..FARMS {
        let mut random = Random::new(seed);
        let world = World::new("autonomous");
        let base = world.folder.path().canonicalize().unwrap();
        plant(&world, &mut random);
        let engine = world.engine();
        for number in 0..USES {
            let path = match random.below(6) {
                0 => world.path("outside").join(somewhere(&mut random, true)),
                1 => world.path("project").join(somewhere(&mut random, true)),
                _ => somewhere(&mut random, true),
            };
            let said = path.to_str().unwrap();
            let place = format!("seed {seed} use {number} {said:?}");
            let expected = system(&lexical(&world.path("project").join(&path)), 0);
            let writes = number % 3 == 0;
            let tool = if writes { write() } else { read() };
            let evaluation = engine.evaluate(world.call(&tool, json!({ "path": said })));
            let Some(target) = evaluation.target("path") else {
                assert_eq!(expected, None, "{place}: {}", evaluation.evidence.reason);
                *seen.entry("refused").or_default() += 1;
                continue;
            };
            let CanonicalSubject::Path(subject) = target.target.subject() else { panic!("{place}: no path") };
            let Some(expected) = expected else { panic!("{place}: leads to {}", subject.resolved.absolute) };
            assert_eq!(Path::new(&subject.resolved.absolute), expected, "{place}");
            // Containment, component by component.
            let contained = below(&base.join("project"), &expected);
            let named = subject.resolved.rooted.iter().find(|rooted| rooted.root == Root::Project);
            assert_eq!(named.map(|rooted| rooted.path.clone()), contained, "{place}");
            *seen.entry(if contained.is_some() { "inside" } else { "outside" }).or_default() += 1;

            let decided = target.path.as_ref().unwrap();
            if writes && !expected.starts_with(&base) {
                continue; // dots may lead out of the folder of this test
            }
            if writes {
                let mut before = snapshot(&world);
                let content = format!("written {number}").into_bytes();
                let file_or_new = !expected.is_dir() && expected.ancestors().skip(1).all(|a| !a.is_file());
                let wrote = decided.replace(&content);
                assert_eq!(wrote.is_ok(), file_or_new, "{place}: {wrote:?}");
                if wrote.is_ok() {
                    *seen.entry("written").or_default() += 1;
                    let at = world.folder.path().join(expected.strip_prefix(&base).unwrap());
                    before.insert(at, content);
                }
                assert_eq!(snapshot(&world), before, "{place}");
            } else {
                match decided.open() {
                    Ok(mut file) => {
                        let mut content = Vec::new();
                        file.read_to_end(&mut content).unwrap();
                        assert_eq!(content, fs::read(&expected).unwrap(), "{place}");
                        *seen.entry("read").or_default() += 1;
                    }
                    Err(error) => assert!(!expected.is_file(), "{place}: {error}"),
                }
                let exists = decided.exists().unwrap_or(false);
                assert_eq!(exists, expected.symlink_metadata().is_ok(), "{place}");
            }
        }
    }
    println!("seeds 0..{FARMS}: {seen:?}");
    for (what, least) in
        [("refused", 20), ("inside", 1_000), ("outside", 200), ("written", 200), ("read", 40)]
    {
        assert!(seen.get(what).is_some_and(|count| *count >= least), "{what}: {seen:?}");
    }
}
