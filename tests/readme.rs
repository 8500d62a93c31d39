//! What the README says at the beginning is so: the versions, the code, what it prints, the numbers.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

#[path = "support/example.rs"]
mod example;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// A fenced block: the words after its backticks, the number of its first line, its lines.
struct Fence {
    info: String,
    line: usize,
    text: String,
}

fn fences(document: &str) -> Vec<Fence> {
    let (mut found, mut open): (Vec<Fence>, bool) = (Vec::new(), false);
    for (at, line) in document.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(info) => {
                found.push(Fence { info: info.to_owned(), line: at + 1, text: String::new() });
                open = true;
            }
            None if open => found.last_mut().unwrap().text.extend([line, "\n"]),
            None => {}
        }
    }
    found
}

/// The section of a heading.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, rest) = document.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split("\n## ").next().unwrap()
}

/// The quickstart below what it says about itself.
fn quickstart() -> String {
    let source = read("examples/quickstart.rs");
    let code = source.lines().skip_while(|line| line.starts_with("//!") || line.is_empty());
    code.flat_map(|line| [line, "\n"]).collect()
}

/// The features that an example needs, without those that are on by default.
fn features(example: &str) -> Vec<String> {
    let manifest = read("Cargo.toml");
    let (_, rest) = manifest.split_once(&format!("\nname = \"{example}\"\nrequired-features = [")).unwrap();
    let list = rest.split(']').next().unwrap();
    let names = list.split(',').map(|name| name.trim().trim_matches('"').to_owned());
    names.filter(|name| !["redb", "local-tools"].contains(&name.as_str())).collect()
}

#[test]
fn the_first_lines_say_what_it_is_and_how_to_add_it() {
    let readme = read("README.md");
    let fences = fences(&readme);
    let add = &fences[0];
    assert_eq!((add.info.as_str(), add.line < 20), ("sh", true), "line {}", add.line);
    let expected = format!(
        "cargo add nervekit@{} --features {}\ncargo add tokio@1 --features macros,rt-multi-thread\n",
        env!("CARGO_PKG_VERSION"),
        features("quickstart").join(",")
    );
    assert_eq!(add.text, expected);
    assert!(readme.contains("\nNo sandbox, no server, no telemetry: "));
}

#[test]
fn the_first_rust_code_is_the_quickstart() {
    let readme = read("README.md");
    let fences = fences(&readme);
    let first = fences.iter().find(|fence| fence.info.starts_with("rust")).unwrap();
    assert_eq!(first.text, quickstart());
    assert!(first.text.lines().count() <= 20, "it has {} lines", first.text.lines().count());
}

#[test]
fn the_quickstart_prints_what_the_readme_shows() {
    let base = tempfile::tempdir().unwrap();
    let project = base.path().join("project");
    std::fs::create_dir_all(project.join("src")).unwrap();
    std::fs::write(project.join("src/main.rs"), quickstart()).unwrap();
    std::fs::write(project.join("NOTES.md"), "TODO: water the plants\n").unwrap();
    let home = base.path().join("home");
    let mut command = example::command("quickstart");
    command.current_dir(&project).env("NERVE_HOME", &home);
    let (code, out, err) = example::run(command);
    assert_eq!((code, err.as_str()), (0, ""));

    let readme = read("README.md");
    let shown = fences(&readme).into_iter().find(|fence| fence.info == "text").unwrap();
    assert_eq!(format!("{out}\n"), shown.text);
    assert!(readme.contains("a `NOTES.md` that says `TODO: water the plants`, it prints"));
    // It was kept where it says, and the folder is as it was.
    assert!(home.join("data/conversations.redb").exists());
    assert_eq!(std::fs::read_dir(&project).unwrap().count(), 2);
}

#[test]
fn two_commands_set_it_up() {
    let readme = read("README.md");
    let commands: Vec<String> =
        fences(section(&readme, "Try it")).into_iter().map(|fence| fence.text).collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    let needs = features("coding_agent").join(",");
    assert_eq!(commands[0], format!("cargo run --example coding_agent --features {needs}\n"));
    assert!(commands[1].starts_with("cargo test --workspace"), "{commands:?}");
}

#[test]
fn three_commands_kill_it() {
    let readme = read("README.md");
    let fences = fences(section(&readme, "Kill it, and go on"));
    let commands: Vec<&str> = fences[0].text.lines().collect();
    assert_eq!(commands.len(), 3, "{commands:?}");
    assert!(commands[1].starts_with("pkill -9 coding_agent") && commands[2].contains("-- --resume conv_"));
}

#[test]
fn the_numbers_are_those_of_the_manifest() {
    let readme = read("README.md");
    let msrv = env!("CARGO_PKG_RUST_VERSION");
    assert!(readme.contains(&format!("a Rust toolchain ({msrv} or newer)")), "{msrv}");
    assert!(readme.contains(&format!("Rust {msrv} is enough")), "{msrv}");
    let manifest = read("Cargo.toml");
    let (_, declared) = manifest.split_once("\n[features]\n").unwrap();
    let declared = declared.split("\n[").next().unwrap();
    for row in section(&readme, "Features").lines().filter(|line| line.starts_with("| `")) {
        for feature in row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2) {
            assert!(declared.contains(&format!("\n{feature} = ")), "there is no feature `{feature}`");
        }
    }
}

/// Every host is in the table, with the command that runs it, and in the cookbook.
#[test]
fn every_example_is_linked_and_its_command_has_the_features_it_needs() {
    let (readme, cookbook) = (read("README.md"), read("COOKBOOK.md"));
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let link = format!("(examples/{name}.rs)");
            assert!(readme.contains(&link), "README.md does not link {link}");
            assert!(cookbook.contains(&link), "COOKBOOK.md does not link {link}");
            let source = std::fs::read_to_string(&path).unwrap();
            assert!(source.starts_with("//! "), "{name} does not say what it shows");
        }
    }
    assert!(readme.contains("(examples/desktop_backend/src/main.rs)"));
    let hosts = section(&readme, "Six hosts, one of which is like yours");
    let commands = hosts.lines().filter_map(|line| line.split("`cargo run --example ").nth(1));
    let mut seen = 0;
    for command in commands {
        let mut words = command.split(['`', ' ']);
        let name = words.next().unwrap();
        if !read("Cargo.toml").contains(&format!("\nname = \"{name}\"\n")) {
            continue;
        }
        let needs = features(name).join(",");
        let expected = if needs.is_empty() { String::new() } else { format!("{name} --features {needs}") };
        assert!(command.starts_with(&expected), "`{command}` against `{expected}`");
        seen += 1;
    }
    assert!(seen >= 3, "{seen}");
}
