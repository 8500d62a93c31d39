//! The hosts among the examples that are programs without a person: run, and asked what they are there to show.
//!
//! The quickstart is in `readme.rs`; the web service, the desktop app and the terminal have tests of their own.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

#[path = "support/example.rs"]
mod example;

/// A folder with a project, a home, and the policy that is shown beside the example.
struct Job(tempfile::TempDir);

impl Job {
    fn new() -> Self {
        let job = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(job.project()).unwrap();
        std::fs::write(job.project().join("NOTES.md"), "TODO: water the plants\n").unwrap();
        job
    }

    fn project(&self) -> PathBuf {
        self.0.path().join("project")
    }

    fn home(&self) -> PathBuf {
        self.0.path().join("home")
    }

    fn bot(&self, arguments: &[&str]) -> Command {
        let mut command = example::command("ci_bot");
        command.arg("--project").arg(self.project()).args(arguments).current_dir(self.0.path());
        command
    }

    /// A run that keeps what it did, under the policy.
    fn kept(&self, key: &str) -> Command {
        let policy = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/ci_policy.json");
        let mut command = self.bot(&["--key", key, "Survey this folder and write a report."]);
        command.arg("--home").arg(self.home()).arg("--policy").arg(policy);
        command
    }
}

fn outcome(printed: &str) -> Value {
    assert_eq!(printed.lines().count(), 1, "{printed}");
    serde_json::from_str(printed).unwrap()
}

#[test]
fn the_ci_bot_answers_with_json_and_leaves_nothing_behind() {
    let job = Job::new();
    let (code, out, err) = example::run(job.bot(&["--key", "a", "Which TODOs are left?"]));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let outcome = outcome(&out);
    assert_eq!(outcome["ending"]["text"], "1 TODO is left:\n- NOTES.md:1: TODO: water the plants");
    assert_eq!(std::fs::read_dir(job.0.path()).unwrap().count(), 1, "there is more than the project");
}

#[test]
fn what_the_policy_does_not_name_is_denied_and_the_exit_code_says_so() {
    let job = Job::new();
    let (code, out, err) = example::run(job.bot(&["--key", "a", "Survey and write a report."]));
    assert_eq!((code, err.as_str()), (3, ""), "{out}");
    let outcome = outcome(&out);
    assert_eq!(outcome["denied"][0]["tool_name"], "write");
    assert!(outcome["denied"][0]["reason"].as_str().unwrap().contains("`supervised.rest`"), "{outcome}");
    assert!(!job.project().join("NERVE_REPORT.md").exists());
}

#[test]
fn a_job_under_one_key_is_done_once_however_often_it_is_run() {
    let job = Job::new();
    let (code, first, err) = example::run(job.kept("build 17"));
    assert_eq!((code, err.as_str()), (0, ""), "{first}");
    let report = job.project().join("NERVE_REPORT.md");
    assert!(std::fs::read_to_string(&report).unwrap().contains("- TODOs: 1 TODO"));
    std::fs::remove_file(&report).unwrap();
    // The same run again: the same outcome, and nothing is written.
    let (code, again, _) = example::run(job.kept("build 17"));
    assert_eq!((code, again), (0, first));
    assert!(!report.exists());
    // Another key is another job.
    assert_eq!(example::run(job.kept("build 18")).0, 0);
    assert!(report.exists());
}

#[test]
fn a_job_that_is_killed_at_any_time_is_finished_by_the_next_run() {
    let job = Job::new();
    for (round, milliseconds) in [0, 10, 20, 40, 80].into_iter().enumerate() {
        let key = format!("build {round}");
        let mut child = job.kept(&key).spawn().unwrap();
        // Not to wait for something: the moment is arbitrary on purpose.
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
        let (code, out, err) = example::run(job.kept(&key));
        assert_eq!((code, err.as_str()), (0, ""), "after {milliseconds} ms: {out}");
        let text = outcome(&out)["ending"]["text"].as_str().unwrap().to_owned();
        assert!(text.contains("The report is in `NERVE_REPORT.md`."), "after {milliseconds} ms: {text}");
        std::fs::remove_file(job.project().join("NERVE_REPORT.md")).unwrap();
    }
}

#[test]
fn wrong_use_and_a_broken_policy_are_told_before_anything_runs() {
    let job = Job::new();
    let (code, _, err) = example::run(job.bot(&["--key", "a"]));
    assert!(code == 2 && err.starts_with("a key and a task are needed\n\nusage: "), "{err}");
    let broken = job.0.path().join("policy.json");
    std::fs::write(&broken, r#"{"schemaVersion": 2, "overlay": []}"#).unwrap();
    let (code, _, err) = example::run(job.bot(&["--key", "a", "--policy", broken.to_str().unwrap(), "Go."]));
    assert!(code == 2 && err.contains("policy.json`: ") && err.contains("overlay"), "{err}");
}

/// The support desk, with its chat at both ends of a pipe.
struct Desk {
    child: Child,
    said: Option<ChildStdin>,
    posts: BufReader<ChildStdout>,
}

impl Desk {
    fn open() -> Self {
        let mut child = example::command("own_gateway").stdin(Stdio::piped()).spawn().unwrap();
        let (said, posts) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, said, posts }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.posts.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Answers a request, and returns what the desk posts next.
    fn say(&mut self, request: &Value, digest: &Value, user: &str, approve: bool) -> Value {
        let reply = json!({"interaction": request["interaction"], "digest": digest, "user": user, "approve": approve});
        self.write(&reply.to_string())
    }

    fn write(&mut self, line: &str) -> Value {
        writeln!(self.said.as_mut().unwrap(), "{line}").unwrap();
        self.next()
    }

    /// How the work ended; with it, the desk closes.
    fn ending(mut self) -> Value {
        let post = self.next();
        assert_eq!(post["post"], "outcome", "{post}");
        assert!(self.child.wait().unwrap().success());
        post["outcome"]["ending"].clone()
    }

    /// The same when the chat has ended first.
    fn ending_without_a_chat(mut self) -> Value {
        self.said = None;
        self.ending()
    }
}

#[test]
fn an_approval_in_the_chat_counts_for_what_was_shown_only() {
    let mut desk = Desk::open();
    let request = desk.next();
    assert_eq!(request["post"], "request");
    assert!(request["text"].as_str().unwrap().starts_with("cancel_order · "), "{request}");

    // The digest of something else: the request is shown as it is, and still waits.
    let other = json!(nervekit::types::Digest::of("something else"));
    assert_eq!(desk.say(&request, &other, "mallory", true), request);
    assert_eq!(desk.write("yes, please")["post"], "refused");

    let accepted = desk.say(&request, &request["digest"], "alice", true);
    assert_eq!(accepted["post"], "accepted");
    assert_eq!(desk.ending()["text"], "Order 4711 is cancelled.");
}

#[test]
fn a_denial_in_the_chat_reaches_the_model() {
    let mut desk = Desk::open();
    let request = desk.next();
    assert_eq!(desk.say(&request, &request["digest"], "alice", false)["post"], "accepted");
    assert_eq!(desk.ending()["text"], "Order 4711 could not be cancelled.");
}

#[test]
fn when_the_chat_is_gone_what_waits_is_called_off() {
    let mut desk = Desk::open();
    assert_eq!(desk.next()["post"], "request");
    assert_eq!(desk.ending_without_a_chat()["ending"], "cancelled");
}

#[test]
fn the_farm_runs_what_the_directory_allows() {
    let (code, out, err) = example::run(example::command("own_ports"));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let expected = "farm: machine 7 holds `make test`\nfarm: machine 7 runs `make test`\n\
                    The build ran, as the wiki says.\n";
    assert_eq!(out, expected);
}
