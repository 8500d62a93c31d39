//! What the model `demo` says of a folder is true of it: the same facts, found out by other code.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use nervekit::{Host, HostBuilder};

const REPORT: &str = "NERVE_REPORT.md";

/// What is true of a folder.
struct Facts {
    files: Vec<(PathBuf, u64)>,
    todos: Vec<String>,
}

impl Facts {
    /// As the tools see it: nothing hidden, nothing that a `.gitignore` of the folder ignores, no links.
    fn of(folder: &Path) -> Self {
        let mut walk = WalkBuilder::new(folder);
        walk.parents(false).git_global(false).git_exclude(false).ignore(false).require_git(false);
        let mut files = Vec::new();
        for entry in walk.build() {
            let entry = entry.unwrap();
            if entry.file_type().is_some_and(|kind| kind.is_file()) {
                let path = entry.path().strip_prefix(folder).unwrap().to_owned();
                if path != Path::new(REPORT) {
                    files.push((path, entry.metadata().unwrap().len()));
                }
            }
        }
        files.sort();
        let mut todos = Vec::new();
        for (path, _) in &files {
            let content = std::fs::read(folder.join(path)).unwrap();
            if content.contains(&0) {
                continue;
            }
            for (at, line) in content.split(|byte| *byte == b'\n').enumerate() {
                let line = String::from_utf8_lossy(line);
                if has_word(&line, "TODO") {
                    todos.push(format!("- {}:{}: {}", shown(path), at + 1, line.trim()));
                }
            }
        }
        Self { files, todos }
    }

    fn count(&self) -> String {
        match self.files.len() {
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        }
    }

    /// The largest, of several the first.
    fn largest(&self) -> String {
        let largest = self.files.iter().fold(None::<&(PathBuf, u64)>, |largest, file| match largest {
            Some(largest) if largest.1 >= file.1 => Some(largest),
            _ => Some(file),
        });
        match largest {
            Some((path, size)) => format!("`{}` with {size} bytes", shown(path)),
            None => "none: the folder has no files".to_owned(),
        }
    }

    fn todos_left(&self) -> String {
        match self.todos.len() {
            0 => "No TODOs are left in this folder.".to_owned(),
            1 => format!("1 TODO is left:\n{}", self.todos.concat()),
            count => format!("{count} TODOs are left:\n{}", self.todos.join("\n")),
        }
    }

    fn files_there(&self) -> String {
        let are = if self.files.len() == 1 { "is" } else { "are" };
        format!("There {are} {}. The largest is {}.", self.count(), self.largest())
    }

    fn report(&self) -> String {
        let mut report = format!("# Report\n\n- Files: {}\n- Largest: {}\n", self.count(), self.largest());
        let (count, lines) = match self.todos.len() {
            0 => ("no TODOs".to_owned(), "None.".to_owned()),
            1 => ("1 TODO".to_owned(), self.todos.concat()),
            count => (format!("{count} TODOs"), self.todos.join("\n")),
        };
        write!(report, "- TODOs: {count}\n\n## TODOs\n\n{lines}\n\nOwner of the next step: open\n").unwrap();
        report
    }
}

fn has_word(line: &str, word: &str) -> bool {
    let in_word = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (line.get(..at).unwrap(), line.get(at + word.len()..).unwrap());
        !before.chars().next_back().is_some_and(in_word) && !after.chars().next().is_some_and(in_word)
    })
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().replace(char::is_control, "\u{fffd}")
}

fn demo(folder: &Path) -> HostBuilder {
    Host::in_memory().project(folder).model("demo").unattended()
}

/// Asks the demo for everything, and compares it with what is true.
async fn agrees(folder: &Path, writable: bool) -> Facts {
    let facts = Facts::of(folder);
    let host = demo(folder).open().await.unwrap();
    let answer = async |prompt: &str| host.ask(prompt).await.unwrap().into_text().unwrap();
    assert_eq!(answer("Which TODOs are left?").await, facts.todos_left());
    assert_eq!(answer("How many files are there?").await, facts.files_there());

    let rules = if writable { "autonomous" } else { "read_only" };
    let host = demo(folder).rule_set(rules).open().await.unwrap();
    let summary =
        host.ask("Survey this folder and write a short report.").await.unwrap().into_text().unwrap();
    let begin = format!(
        "The folder has {}. The largest is {}. {}\n\n",
        facts.count(),
        facts.largest(),
        facts.todos_left()
    );
    assert!(summary.starts_with(&begin), "{summary}\nis not\n{begin}");
    if writable {
        assert_eq!(std::fs::read_to_string(folder.join(REPORT)).unwrap(), facts.report());
        assert!(summary.contains("The report is in `NERVE_REPORT.md`. The check ran."), "{summary}");
        // The demo's own file is no part of what it surveys.
        assert_eq!(answer("How many files are there?").await, facts.files_there());
    } else {
        assert!(!folder.join(REPORT).exists());
        assert!(summary.contains("The report was not written: Denied"), "{summary}");
    }
    facts
}

#[tokio::test(flavor = "multi_thread")]
async fn the_facts_about_this_repository_are_true() {
    let facts = agrees(Path::new(env!("CARGO_MANIFEST_DIR")), false).await;
    assert!(facts.files.len() > 20 && !facts.todos.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_facts_about_an_empty_folder_are_true() {
    let folder = tempfile::tempdir().unwrap();
    let facts = agrees(folder.path(), true).await;
    assert!(facts.files.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_facts_about_a_folder_with_odd_names_and_binary_files_are_true() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("the project");
    let put = |name: &[u8], content: &[u8]| {
        let path = folder.join(OsStr::from_bytes(name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    put(b"README.md", b"# Odd\n\nTODO: name things\n");
    put(b"a b.txt", b"one\n  TODO two words  \n");
    put(b"quote\"'s.md", b"TODO: \"quoted\" 'twice'\n");
    put("ünï-😀.rs".as_bytes(), "// TODO: ünï 😀\n".as_bytes());
    put(b"line\nend.txt", b"TODO in a name with a line end\n");
    put(b"-rf", b"TODO: a leading dash\n");
    put(b"12:30", b"x\nTODO: a name like a match\n");
    put(b"back`tick", b"nothing here\n");
    put(b"tab\tname", b"TODO after a tab\n");
    put(b"$(touch pwned)", b"TODO: a name for a shell\n");
    put(b"[stopped at the limit of", b"a name like a hint\n");
    put(b"deep/er/TODO", b"TODO\n");
    put(b"sub.txt", b"TODO beside a folder of nearly its name\n");
    put(b"sub/z.txt", b"TODO in it\n\n\nTODO again, :42: with numbers\n");
    put(b"sub/.gitignore", b"*.log\n");
    put(b"sub/ignored.log", b"TODO: not counted\n");
    put(b".hidden/note", b"TODO: not counted\n");
    put(b".env", b"TODO=not counted\n");
    put(b"empty", b"");
    put(b"crlf.txt", b"TODO: with a carriage return\r\nx\r\n");
    put(b"latin1.txt", b"TODO: caf\xe9\n");
    put(b"no-end.txt", b"TODO: without a line end");
    put(b"words.txt", b"TODOS, mTODO, todo, TODO_LATER and XTODO are none\nxTODO TODO is one\n");
    put(b"data.bin", b"\0TODO: binary\n\xff\xfe");
    put(b"large.bin", &[0; 5_000]);
    put(b"as-large.bin", &[0; 5_000]);
    std::fs::write(base.path().join("outside"), "TODO: behind a link\n").unwrap();
    std::os::unix::fs::symlink(base.path().join("outside"), folder.join("link")).unwrap();
    std::os::unix::fs::symlink(base.path(), folder.join("loop")).unwrap();

    let facts = agrees(&folder, true).await;
    assert_eq!((facts.files.len(), facts.todos.len()), (22, 17), "{:#?}", facts.todos);
    assert_eq!(facts.largest(), "`as-large.bin` with 5000 bytes");
    assert!(!folder.join("pwned").exists());
}

/// More files than one result of a tool shows: the demo reads on until it has seen all.
#[tokio::test(flavor = "multi_thread")]
async fn the_facts_about_a_large_folder_are_true() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..1_500_u32 {
        let name = format!("a-rather-long-name-so-that-the-list-of-files-is-long-{number:04}.txt");
        std::fs::write(folder.path().join(name), "x".repeat((number % 100) as usize)).unwrap();
    }
    let facts = agrees(folder.path(), true).await;
    assert_eq!(facts.files.len(), 1_500);
}
