//! The examples, which cargo builds beside the tests.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn binary(name: &str) -> PathBuf {
    let target = std::env::current_exe().unwrap();
    let built = target.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(
        built.exists(),
        "`{}` is missing: `cargo build --examples --features demo,terminal` makes it, and so does a run of all tests",
        built.display()
    );
    built
}

/// An example with nobody at its input, which finds no home of a person.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(binary(name));
    command.env_remove("NERVE_HOME").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs to the end: exit code, what was printed, what went wrong.
pub(crate) fn run(mut command: Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}
