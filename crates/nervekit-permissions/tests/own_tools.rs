//! The example `own_tools`, run with the answers that it gives itself.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::process::{Command, Stdio};

/// Cargo builds the examples beside the tests.
fn example() -> std::path::PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap().join("examples/own_tools");
    let built = built.with_extension(std::env::consts::EXE_EXTENSION);
    let shown = built.display();
    assert!(built.exists(), "`cargo build -p nervekit-permissions --example own_tools` makes {shown}");
    built
}

/// What is printed about each call: its line, and what follows until the next.
fn calls(out: &str) -> Vec<(&str, &str)> {
    out.split("\n\n").filter_map(|part| part.trim().split_once('\n')).collect()
}

#[test]
fn it_asks_where_no_rule_decides_keeps_the_answers_and_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(example());
        command.args(arguments).env("TMPDIR", temporary.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success() && err.is_empty(), "{out}{err}");
        out
    };
    let out = run(&["--demo"]);
    assert!(
        out.starts_with("The project's rules are untrusted; they would make automatic:\n  echo: every `run`")
    );
    let decisions: Vec<_> = calls(&out)
        .into_iter()
        .filter(|(call, _)| call.contains('{'))
        .map(|(call, rest)| (call.split(' ').next().unwrap(), rest.trim().split(':').next().unwrap()))
        .collect();
    let expected = [
        ("peek", "allow"), // a read
        ("put", "allow"),  // the project's rule, accepted
        ("put", "prompt"),
        ("put", "allow"),  // what was kept
        ("put", "allow"),  // the rule set, in the host's folder
        ("put", "prompt"), // a mark
        ("run", "allow"),
        ("run", "prompt"),
        ("get", "prompt"),
        ("get", "prompt"), // revoked
    ];
    assert_eq!(decisions, expected, "{out}");
    assert!(
        out.contains("\"hello\"") && out.contains("tests passed") && out.contains("revoked: every `get`")
    );
    // With nobody at the terminal it needs no word.
    assert_eq!(calls(&run(&[])).len(), calls(&out).len());
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "it cleans up");
}
