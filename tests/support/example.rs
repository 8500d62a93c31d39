//! The examples, which cargo builds beside the tests.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

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

/// Waits for the end of a process, and gives up on one that does not end.
pub(crate) fn ended(mut child: Child) -> Output {
    let mut pipes = (child.stdout.take(), child.stderr.take());
    let errors = std::thread::spawn(move || read_all(pipes.1.take()));
    let output = std::thread::spawn(move || read_all(pipes.0.take()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > DEADLINE {
            child.kill().unwrap();
            panic!("it did not end: {}", String::from_utf8_lossy(&output.join().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Output { status, stdout: output.join().unwrap(), stderr: errors.join().unwrap() }
}

pub(crate) fn read_all(pipe: Option<impl std::io::Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).unwrap();
    }
    bytes
}

/// Runs to the end: exit code, what was printed, what went wrong.
pub(crate) fn run(mut command: Command) -> (i32, String, String) {
    let output = ended(command.spawn().unwrap());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_owned()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}
