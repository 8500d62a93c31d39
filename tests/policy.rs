//! The example `policy`, run from a shell over homes and projects as people have them.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nervekit::conversation::ToolCallView;
use nervekit::{Host, Remember, Resolution, Update};
use serde_json::{Value, json};

#[path = "support/example.rs"]
mod example;

use example::{DEADLINE, ended};

/// A home and a project of a person, and a shell that stands in the project.
struct Bed {
    base: tempfile::TempDir,
}

/// How a command ended.
#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Bed {
    fn new() -> Self {
        let bed = Self { base: tempfile::tempdir().unwrap() };
        for folder in ["person", "project/src"] {
            fs::create_dir_all(bed.base.path().join(folder)).unwrap();
        }
        bed
    }

    fn home(&self) -> PathBuf {
        self.base.path().join("home")
    }

    fn project(&self) -> PathBuf {
        self.base.path().join("project")
    }

    fn user_document(&self) -> PathBuf {
        self.home().join("config/permissions.json")
    }

    fn project_document(&self) -> PathBuf {
        self.project().join(".nerve/config/permissions.json")
    }

    fn store(&self) -> PathBuf {
        self.home().join("data/conversations.redb")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = example::command("policy");
        command
            .args(arguments)
            .current_dir(self.project())
            .env("HOME", self.base.path().join("person"))
            .env("NERVE_HOME", self.home());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments))
    }

    /// The same of a command that must succeed.
    fn done(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{arguments:?}: {ended:?}");
        ended.out
    }

    /// The same of a command that must be refused.
    fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!((ended.code, ended.out.as_str()), (code, ""), "{arguments:?}: {ended:?}");
        ended.err
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(arguments)).unwrap()
    }

    fn explain(&self, tool: &str, arguments: &Value, more: &[&str]) -> Value {
        let arguments = arguments.to_string();
        self.json(&[&["explain", "--tool", tool, "--args", &arguments], more].concat())
    }

    fn decision(&self, tool: &str, arguments: &Value, more: &[&str]) -> String {
        self.explain(tool, arguments, more)["decision"].as_str().unwrap().to_owned()
    }

    /// What is decided about this command under Supervised.
    fn bash(&self, command: &str) -> String {
        self.decision("bash", &json!({ "command": command }), &[])
    }

    fn status(&self, more: &[&str]) -> Value {
        self.json(&[&["trust", "status", "--json"], more].concat())
    }

    fn digest(&self, more: &[&str]) -> String {
        self.status(more)["digest"].as_str().unwrap().to_owned()
    }

    fn grant(&self, tool: &str, arguments: &Value, more: &[&str]) -> Ended {
        let arguments = arguments.to_string();
        self.run(&[&["grant", "--tool", tool, "--args", &arguments], more].concat())
    }

    /// The ids of the rules of a scope.
    fn rules(&self, scope: &str) -> Vec<String> {
        let listed = self.json(&["list", "--scope", scope, "--json"]);
        let rules = listed[0]["rules"].as_array().unwrap();
        rules.iter().map(|rule| rule["rule"]["id"].as_str().unwrap().to_owned()).collect()
    }
}

impl Ended {
    fn of(mut command: Command) -> Self {
        let output = ended(command.spawn().unwrap());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn write(file: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// A document with these rules under Supervised, each on a line of its own; the first is the second line.
fn supervised(rules: &[Value]) -> String {
    let rules: Vec<String> = rules.iter().map(Value::to_string).collect();
    let rules = rules.join(",\n");
    format!(
        "{{\"schemaVersion\": 2, \"overlays\": [{{\"ruleSetId\": \"supervised\", \"rules\": [\n{rules}\n]}}]}}\n"
    )
}

fn all_bash() -> Value {
    json!({"id": "all-bash", "decision": "allow", "when": {"toolNames": ["bash"]}})
}

fn no_env() -> Value {
    json!({"id": "no-env", "priority": 1, "decision": "deny", "when": {"primaryTarget": {"pattern": "**/.env*"}}})
}

const ZERO: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn how_it_is_used_is_told() {
    let bed = Bed::new();
    let help = bed.done(&["--help"]);
    assert_eq!(bed.done(&["trust", "status", "--help"]), help);
    for command in [
        "validate",
        "explain",
        "trust status",
        "trust accept",
        "trust reject",
        "accept-user",
        "grant",
        "list",
        "revoke",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
    }
    assert!(help.contains("$NERVE_HOME") && help.contains("exits 75"));
    let read: &[&str] = &["explain", "--tool", "read", "--args", "{\"path\": \"a\"}"];
    for (arguments, words) in [
        (&[][..], "a command is needed"),
        (&["grand"], "`grand` is not a command; there are: validate, explain, trust status"),
        (&["trust"], "`trust` is not a command"),
        (&["explain", "--tol", "read"], "`--tol` is not an option of `explain`"),
        (&["explain", "--tool"], "`--tool` needs a value"),
        (&["explain", "--tool", "a", "--tool=b"], "`--tool` is given twice"),
        (&["explain", "--tool", "read"], "`explain` needs `--args`"),
        (&["explain", "x"], "`explain` takes no `x`"),
        (&[read, &["--mode", "fast"]].concat(), "`--mode` is one of `coding`, `planning`, not `fast`"),
        (&["validate"], "`validate` needs a FILE"),
        (&["trust", "accept"], "`trust accept` needs `--digest`, which `trust status` shows"),
        (&["accept-user"], "`accept-user` needs `--digest`, which `trust status --scope user` shows"),
        (&["accept-user", "--digest", "abc"], "`--digest`: `abc`: "),
        (&["trust", "status", "--rule-set", "x"], "add `--scope user`"),
        (&["revoke", "x"], "`revoke` needs `--scope`"),
    ] {
        let err = bed.refused(2, arguments);
        assert!(err.contains(words), "{arguments:?}: {err}");
    }
    assert!(!bed.home().exists(), "nothing was opened for what cannot be done");
}

#[test]
fn files_are_validated_with_the_place_of_what_is_wrong() {
    let bed = Bed::new();
    let rule = |rest: &str| {
        format!(
            "{{\"schemaVersion\": 2, \"overlays\": [{{\"ruleSetId\": \"supervised\", \"rules\": [\n  {rest}\n]}}]}}"
        )
    };
    let corpus = [
        ("good.json", supervised(&[all_bash(), no_env()]), ": ok"),
        ("empty.json", String::new(), ":1:1: EOF while parsing a value"),
        ("version.json", "{\n  \"schemaVersion\": 3}".to_owned(), ":1:1: schema version 3 is not known; this program reads 2"),
        ("list.json", "[]".to_owned(), ":1:1: it is not an object"),
        ("field.json", rule(r#"{"id": "a", "decision": "allow", "priorty": 1}"#), ":2:44: unknown field `priorty`"),
        ("type.json", rule(r#"{"id": "a", "decision": "alow"}"#), ":2:32: unknown variant `alow`"),
        ("twice.json", rule(r#"{"id": "a", "id": "b", "decision": "deny"}"#), ":2:18: the key `id` appears twice"),
        (
            "pattern.json",
            rule(r#"{"id": "a", "decision": "deny", "when": {"primaryTarget": {"pattern": "/etc"}}}"#),
            ":2:3: rule `a`: ",
        ),
        (
            "guardrail.json",
            rule(r#"{"id": "a", "decision": "allow", "enforcement": "guardrail"}"#),
            ":2:3: rule `a`: a guardrail prompts or denies, it never allows",
        ),
        (
            "example.json",
            rule(r#"{"id": "a", "decision": "allow", "when": {"commandPrefix": ["ls"]}, "examples": {"match": ["rm"]}}"#),
            ":2:3: rule `a`: ",
        ),
        ("rule-sets/careful.json", r#"{"schemaVersion": 2, "id": "careful", "rules": []}"#.to_owned(), ": ok"),
        (
            "rule-sets/bad.json",
            "{\"schemaVersion\": 2, \"id\": \"bad\", \"rules\": [\n {\"id\": \"a\", \"decision\": \"deny\", \"enforcement\": \"guardrail\"}]}"
                .to_owned(),
            ":2:2: rule `a`: a rule set holds overridable rules only",
        ),
        (
            "rule-sets/other.json",
            r#"{"schemaVersion": 2, "id": "careful", "rules": []}"#.to_owned(),
            ":1:1: the rule set `careful` is looked for in `careful.json`",
        ),
        (
            "rule-sets/supervised.json",
            r#"{"schemaVersion": 2, "id": "supervised", "rules": []}"#.to_owned(),
            ":1:1: `supervised` is the id of a built-in rule set",
        ),
    ];
    for (name, text, _) in &corpus {
        write(&bed.project().join(name), text);
    }
    let names: Vec<&str> = corpus.iter().map(|(name, ..)| *name).chain(["missing.json", "src"]).collect();
    let ended = bed.run(&[&["validate"], &names[..]].concat());
    assert_eq!((ended.code, ended.err.as_str()), (1, ""));
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines.len(), names.len(), "{}", ended.out);
    for ((name, _, expected), line) in corpus.iter().zip(&lines) {
        assert!(line.starts_with(&format!("{name}{expected}")), "{line}");
    }
    assert!(lines[names.len() - 2].starts_with("missing.json: "), "{}", ended.out);
    assert!(lines[names.len() - 1].starts_with("src: "), "{}", ended.out);

    assert_eq!(bed.done(&["validate", "good.json"]), "good.json: ok\n");
    let mut standard = bed.command(&["validate", "-"]);
    let mut child = standard.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{}").unwrap();
    let output = ended_text(child);
    assert_eq!(output, (1, "-:1:2: missing field `schemaVersion`\n".to_owned()));
    assert!(!bed.home().exists(), "validating needs no home");
}

fn ended_text(child: std::process::Child) -> (i32, String) {
    let output = ended(child);
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_file_is_validated_as_what_it_is_by_its_place() {
    let bed = Bed::new();
    let guardrail = json!({
        "schemaVersion": 2,
        "guardrails": [{"id": "a", "enforcement": "guardrail", "decision": "deny", "when": {"toolNames": ["bash"]}}],
    });
    write(&bed.project_document(), guardrail.to_string());
    write(&bed.user_document(), guardrail.to_string());
    let at_home = bed.base.path().join("person/.nerve/config/permissions.json");
    write(&at_home, guardrail.to_string());
    let validate =
        |file: &Path, more: &[&str]| bed.run(&[&["validate", file.to_str().unwrap()], more].concat());

    let project = validate(&bed.project_document(), &[]);
    assert_eq!(project.code, 1);
    assert!(project.out.contains("only the user's document holds guardrails"), "{}", project.out);
    assert_eq!(validate(&bed.user_document(), &[]).code, 0);
    // What is called as a project's is one's own home where no other is named.
    let mut command = bed.command(&["validate", at_home.to_str().unwrap()]);
    command.env_remove("NERVE_HOME");
    assert_eq!(Ended::of(command).code, 0);
    assert_eq!(validate(&bed.project_document(), &["--scope", "user"]).code, 0);
    assert_eq!(validate(&bed.user_document(), &["--scope=conversation"]).code, 1);
}

#[test]
fn calls_are_explained_under_each_rule_set() {
    let bed = Bed::new();
    symlink("/etc", bed.project().join("src/link")).unwrap();
    let file = |path: &str| json!({"path": path, "content": "x"});
    let bash = json!({"command": "cargo test"});
    for (tool, arguments, decisions) in [
        ("read", json!({"path": "src/a"}), ["allow", "allow", "allow", "allow"]),
        ("grep", json!({"pattern": "x"}), ["allow", "allow", "allow", "allow"]),
        ("ask_user", json!({"question": "why?"}), ["allow", "allow", "allow", "allow"]),
        ("write", file("src/a"), ["deny", "prompt", "allow", "deny"]),
        ("write", file(".nerve/plans/a.md"), ["deny", "prompt", "allow", "allow"]),
        // What steers agents asks, whatever the rules say.
        ("write", file("AGENTS.md"), ["deny", "prompt", "prompt", "deny"]),
        ("bash", bash, ["deny", "prompt", "allow", "prompt"]),
        // Tools that a host may carry out.
        ("web_fetch", json!({"url": "https://example.com/"}), ["deny", "prompt", "allow", "allow"]),
        ("launch", json!({"action": "list"}), ["allow", "allow", "allow", "allow"]),
    ] {
        for (rule_set, expected) in
            ["read_only", "supervised", "autonomous", "planning"].iter().zip(decisions)
        {
            let mode = if *rule_set == "planning" { "planning" } else { "coding" };
            let explained = bed.explain(tool, &arguments, &["--rule-set", rule_set, "--mode", mode]);
            assert_eq!(explained["decision"], expected, "{tool} {arguments} {rule_set}: {explained}");
            assert_eq!(explained["active_rule_set"], *rule_set);
        }
    }
    // The set of the mode is the default.
    assert_eq!(bed.explain("read", &json!({"path": "a"}), &[])["active_rule_set"], "supervised");
    let planning = bed.explain("read", &json!({"path": "a"}), &["--mode=planning"]);
    assert_eq!(planning["active_rule_set"], "planning");
}

#[test]
fn an_explanation_holds_everything_that_led_to_it() {
    let bed = Bed::new();
    write(&bed.user_document(), supervised(&[no_env(), all_bash()]));
    symlink("/etc", bed.project().join("src/link")).unwrap();

    let out = bed.done(&["explain", "--tool", "read", "--args", r#"{"path": ".env", "limit": "3"}"#]);
    assert_eq!(out.matches('\n').count(), 1, "one object on one line: {out}");
    assert!(
        out.starts_with(r#"{"decision":"deny","reason":"the rule `no-env` of the user denies""#),
        "{out}"
    );
    let explained: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(explained["effective_arguments"], json!({"limit": 3, "path": ".env"}));
    assert_eq!(explained["notes"].as_array().unwrap().len(), 1, "{explained}");
    assert_eq!(explained["winner"]["rule"]["id"], "no-env");
    let rules = explained["matching_rules"].as_array().unwrap();
    let ids: Vec<&str> = rules.iter().map(|rule| rule["rule"]["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["no-env", "supervised.read", "supervised.rest", "baseline.rest"]);

    // A link that leads out of the project is followed before anything is decided.
    let out = bed.explain("write", &json!({"path": "src/link/x", "content": ""}), &[]);
    let path = &out["targets"][0]["subject"]["path"];
    assert_eq!((&path["resolved"]["absolute"], &path["resolved"]["rooted"]), (&json!("/etc/x"), &json!([])));
    assert_eq!(path["lexical"]["rooted"][0], json!({"root": "project", "path": "src/link/x"}));

    // Where a call starts, and where the project is.
    let inside = bed.explain("read", &json!({"path": "a"}), &["--cwd", "src"]);
    assert_eq!(inside["targets"][0]["subject"]["path"]["resolved"]["rooted"][0]["path"], "src/a");
    let mut elsewhere = bed.command(&["explain", "--tool", "read", "--args", r#"{"path": "a"}"#]);
    elsewhere.current_dir(bed.base.path()).arg("--project").arg(bed.project());
    let elsewhere: Value = serde_json::from_str(&Ended::of(elsewhere).out).unwrap();
    assert_eq!(elsewhere["targets"][0]["subject"]["path"]["resolved"]["rooted"][0]["path"], "a");

    // The same twice is the same, byte for byte.
    let again = ["explain", "--tool", "bash", "--args", r#"{"command": "ls"}"#];
    assert_eq!(bed.done(&again), bed.done(&again));
}

#[test]
fn a_call_that_cannot_be_made_is_wrong_use() {
    let bed = Bed::new();
    for (tool, arguments, words) in [
        ("wirte", "{}", "there is no tool `wirte` in the catalog; there are: ask_user, "),
        ("read", r#"{"path""#, "`--args`: the arguments cannot be read: EOF"),
        ("read", "[]", "`--args`: the arguments are not a JSON object"),
        ("read", r#"{"path": "a", "path": "b"}"#, "`path` appears twice"),
        ("read", r#"{"pth": "a"}"#, "argument `pth` is unknown; known are "),
        ("write", r#"{"path": "a"}"#, "`content`"),
    ] {
        let err = bed.refused(2, &["explain", "--tool", tool, "--args", arguments]);
        assert!(err.contains(words), "{tool} {arguments}: {err}");
    }
    assert!(!bed.home().exists());
    let read = ["explain", "--tool", "read", "--args", "{\"path\": \"a\"}"];
    let err = bed.refused(1, &[&read[..], &["--project", "missing"]].concat());
    assert!(err.contains("missing"), "{err}");
    let err = bed.refused(1, &[&read[..], &["--home", "home"]].concat());
    assert!(err.contains("inside"), "{err}");
    let err = bed.refused(1, &[&read[..], &["--cwd", "missing"]].concat());
    assert!(err.contains("`missing` is not a folder"), "{err}");
    assert!(!bed.home().exists() && !bed.project().join("home").exists());

    // Arguments of any size come from the standard input.
    let mut command = bed.command(&["explain", "--tool", "read", "--args", "-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"path\": \"a\"}\n").unwrap();
    let (code, out) = ended_text(child);
    assert!(code == 0 && out.starts_with(r#"{"decision":"allow""#), "{out}");
}

#[test]
fn a_rule_set_that_cannot_be_used_leaves_the_baseline() {
    let bed = Bed::new();
    write(&bed.user_document(), supervised(&[all_bash()]));
    for rule_set in ["unknown", "../config", "planning"] {
        let out = bed.explain("bash", &json!({"command": "ls"}), &["--rule-set", rule_set]);
        assert_eq!((&out["decision"], &out["active_rule_set"]), (&json!("prompt"), &json!("baseline")));
        assert_eq!(out["selected_rule_set"], rule_set);
        assert!(out["fallback"]["reason"].as_str().unwrap().contains(rule_set), "{out}");
        let ended = bed.grant("bash", &json!({"command": "ls"}), &["--rule-set", rule_set]);
        assert!(ended.code == 1 && ended.err.contains("no answer to it can be kept"), "{ended:?}");
    }
}

/// Scenario 9 of the specification.
#[test]
fn the_document_of_a_cloned_repository_counts_for_nothing_until_it_is_accepted() {
    let bed = Bed::new();
    assert_eq!(bed.status(&[])["standing"], "absent");
    write(&bed.project_document(), supervised(&[all_bash(), no_env()]));
    let read_env = || bed.decision("read", &json!({"path": ".env"}), &[]);

    let status = bed.status(&[]);
    assert_eq!((&status["standing"], &status["problem"]), (&json!("untrusted"), &Value::Null));
    assert_eq!(status["automatic"][0]["summary"], "every `bash` command");
    assert_eq!(
        (status["added"].as_array().unwrap().len(), status["removed"].as_array().unwrap().len()),
        (2, 0)
    );
    let digest = status["digest"].as_str().unwrap();
    let text = bed.done(&["trust", "status"]);
    let place = bed.project_document().canonicalize().unwrap();
    assert!(text.starts_with(&format!("{}\nit is untrusted: ", place.display())), "{text}");
    assert!(text.contains(
        "\nwould run without asking:\n  all-bash: allow every `bash` command (under supervised)\n"
    ));
    assert!(text.ends_with(&format!("\nto accept it: policy trust accept --digest {digest}\n")), "{text}");
    assert_eq!((bed.bash("rm -rf /").as_str(), read_env().as_str()), ("prompt", "allow"));
    let ignored = bed.explain("bash", &json!({"command": "ls"}), &[])["ignored_documents"][0].clone();
    assert_eq!(ignored["scope"], "project");

    // A digest that was not shown accepts nothing.
    let err = bed.refused(1, &["trust", "accept", "--digest", ZERO]);
    assert!(err.contains(digest) && err.contains("nothing was accepted"), "{err}");
    assert_eq!(bed.bash("ls"), "prompt");

    bed.done(&["trust", "accept", "--digest", digest]);
    let status = bed.status(&[]);
    assert_eq!((&status["standing"], status["added"].as_array().unwrap().len()), (&json!("active"), 0));
    assert_eq!((bed.bash("rm -rf /").as_str(), read_env().as_str()), ("allow", "deny"));

    // One byte ends what it allows, and keeps what it denies.
    let mut bytes = fs::read(bed.project_document()).unwrap();
    *bytes.last_mut().unwrap() = b' ';
    write(&bed.project_document(), &bytes);
    assert_eq!(bed.status(&[])["standing"], "untrusted");
    assert_eq!((bed.bash("ls").as_str(), read_env().as_str()), ("prompt", "deny"));
    // The rules that are listed are those that decided.
    let out = bed.explain("bash", &json!({"command": "ls"}), &[]);
    assert_eq!(out["matching_rules"][0]["rule"]["id"], out["winner"]["rule"]["id"]);

    // What was known comes back with its bytes.
    *bytes.last_mut().unwrap() = b'\n';
    write(&bed.project_document(), &bytes);
    assert_eq!(bed.bash("ls"), "allow");

    bed.done(&["trust", "reject"]);
    assert_eq!(bed.status(&[])["standing"], "rejected");
    assert_eq!((bed.bash("ls").as_str(), read_env().as_str()), ("prompt", "deny"));

    // Another project decides anew, also about the same bytes.
    let copy = bed.base.path().join("copy");
    write(&copy.join(".nerve/config/permissions.json"), &bytes);
    assert_eq!(bed.status(&["--project", copy.to_str().unwrap()])["standing"], "untrusted");
}

#[test]
fn a_document_that_is_malformed_is_not_accepted_and_says_where() {
    let bed = Bed::new();
    write(&bed.project_document(), "{\"schemaVersion\": 2,\n \"overlay\": []}");
    let status = bed.status(&[]);
    assert_eq!(status["standing"], "malformed");
    assert!(status["problem"].as_str().unwrap().contains("at line 2, column 10"), "{status}");
    let err = bed.refused(1, &["trust", "accept", "--digest", status["digest"].as_str().unwrap()]);
    assert!(err.contains("at line 2, column 10"), "{err}");
    let ended = bed.grant(
        "write",
        &json!({"path": "src/a", "content": ""}),
        &["--scope", "project", "--suggestion", "1"],
    );
    assert!(ended.code == 1 && ended.err.contains("trust status"), "{ended:?}");
    assert_eq!(fs::read_to_string(bed.project_document()).unwrap().lines().count(), 2, "it was left alone");
    let listed = bed.done(&["list"]);
    assert!(listed.contains("(malformed)\n  problem: "), "{listed}");

    fs::remove_file(bed.project_document()).unwrap();
    let err = bed.refused(1, &["trust", "accept", "--digest", ZERO]);
    assert!(err.contains("nothing was accepted"), "{err}");
    let err = bed.refused(1, &["trust", "reject"]);
    assert!(err.contains("there is nothing to reject"), "{err}");
}

#[test]
fn the_document_of_the_person_is_accepted_when_the_home_is_new_and_asked_about_when_it_was_edited() {
    let bed = Bed::new();
    write(&bed.user_document(), supervised(&[all_bash()]));
    assert_eq!(bed.bash("ls"), "allow");
    assert_eq!(bed.status(&["--scope", "user"])["standing"], "active");

    // An edit restricts at once, and allows nothing new.
    let second =
        json!({"id": "all-writes", "priority": 2, "decision": "allow", "when": {"toolNames": ["write"]}});
    write(&bed.user_document(), supervised(&[all_bash(), no_env(), second.clone()]));
    let write_file = || bed.decision("write", &json!({"path": "src/a", "content": ""}), &[]);
    let read_env = || bed.decision("read", &json!({"path": ".env"}), &[]);
    assert_eq!((bed.bash("ls"), write_file(), read_env()), ("allow".into(), "prompt".into(), "deny".into()));
    let status = bed.status(&["--scope", "user"]);
    assert_eq!((&status["standing"], status["added"].as_array().unwrap().len()), (&json!("changed"), 2));
    let digest = status["digest"].as_str().unwrap();
    let text = bed.done(&["trust", "status", "--scope", "user"]);
    assert!(text.ends_with(&format!("\nto accept it: policy accept-user --digest {digest}\n")), "{text}");
    // Writing it would accept the edit, too.
    let ended = bed.grant("bash", &json!({"command": "ls"}), &["--rule-set", "autonomous"]);
    assert!(ended.code == 1 && ended.err.contains("is allowed already"), "{ended:?}");
    let ended = bed.grant(
        "edit",
        &json!({"path": "src/a", "edits": [{"old_text": "a", "new_text": "b"}]}),
        &["--scope", "user", "--suggestion", "1"],
    );
    assert!(ended.code == 1 && ended.err.contains("trust status --scope user"), "{ended:?}");

    let err = bed.refused(1, &["accept-user", "--digest", ZERO]);
    assert!(err.contains(digest), "{err}");
    assert_eq!(write_file(), "prompt");
    bed.done(&["accept-user", "--digest", digest]);
    assert_eq!((write_file(), read_env()), ("allow".into(), "deny".into()));

    // One that appears in a home that is not new is an edit like any other.
    let bed = Bed::new();
    assert_eq!(bed.bash("ls"), "prompt");
    write(&bed.user_document(), supervised(&[all_bash()]));
    assert_eq!(bed.bash("ls"), "prompt");
    let digest = bed.digest(&["--scope", "user"]);
    bed.done(&["trust", "accept", "--scope", "user", "--digest", &digest]);
    assert_eq!(bed.bash("ls"), "allow");
}

#[test]
fn rule_sets_of_the_person_are_accepted_alike() {
    let bed = Bed::new();
    let file = bed.home().join("config/rule-sets/careful.json");
    let set = |decision: &str| {
        json!({"schemaVersion": 2, "id": "careful", "rules": [{"id": "all", "decision": decision}]})
            .to_string()
    };
    write(&file, set("allow"));
    let bash = || bed.decision("bash", &json!({"command": "ls"}), &["--rule-set", "careful"]);
    assert_eq!(bash(), "allow");

    write(&file, set("deny"));
    assert_eq!(bash(), "deny");
    let digest = bed.digest(&["--scope", "user", "--rule-set", "careful"]);
    bed.done(&["accept-user", "--rule-set", "careful", "--digest", &digest]);
    write(&file, set("allow"));
    assert_eq!(bash(), "deny", "the edit allows nothing yet");
    let status = bed.status(&["--scope", "user", "--rule-set", "careful"]);
    assert_eq!((&status["standing"], &status["rule_set"]), (&json!("changed"), &json!("careful")));
    // The status of the person's rules tells of it, too.
    let text = bed.done(&["trust", "status", "--scope", "user"]);
    assert!(text.contains("\nthe rule set `careful` is changed: "), "{text}");
    let digest = status["digest"].as_str().unwrap();
    assert!(text.contains(&format!("policy accept-user --rule-set careful --digest {digest}\n")), "{text}");
    let err = bed.refused(1, &["accept-user", "--rule-set", "careful", "--digest", ZERO]);
    assert!(err.contains("nothing was accepted"), "{err}");
    bed.done(&["accept-user", "--rule-set", "careful", "--digest", digest]);
    assert_eq!(bash(), "allow");

    // A new one, and one that cannot be read.
    write(&bed.home().join("config/rule-sets/late.json"), set("allow").replace("careful", "late"));
    let late = bed.explain("bash", &json!({"command": "ls"}), &["--rule-set", "late"]);
    assert!(late["fallback"]["reason"].as_str().unwrap().contains("not accepted"), "{late}");
    write(&file, "{}");
    let status = bed.status(&["--scope", "user", "--rule-set", "careful"]);
    assert_eq!(status["standing"], "malformed");
    let digest = status["digest"].as_str().unwrap();
    let err = bed.refused(1, &["accept-user", "--rule-set", "careful", "--digest", digest]);
    assert!(err.contains("missing field"), "{err}");
    let err = bed.refused(1, &["trust", "status", "--scope", "user", "--rule-set", "../x"]);
    assert!(err.contains("`../x`"), "{err}");
}

#[test]
fn an_answer_is_chosen_saved_listed_and_revoked() {
    let bed = Bed::new();
    let file = json!({"path": "src/deep/a.txt", "content": "x"});
    let offered = bed.grant("write", &file, &[]);
    assert_eq!(offered.code, 0);
    assert!(
        offered.out.contains("\n  1  `write` may write `src/deep/a.txt` (for project or user)\n"),
        "{offered:?}"
    );
    assert!(
        offered.out.contains("\n  2  `write` may write everything below `src/deep` (for project or user)\n")
    );
    assert!(offered.out.ends_with("nothing was saved; choose one by `--suggestion` and `--scope`\n"));
    assert!(!bed.user_document().exists() && !bed.project_document().exists());
    let as_json: Value = serde_json::from_str(&bed.grant("write", &file, &["--json"]).out).unwrap();
    assert_eq!(as_json[1]["kind"], "subtree");

    for scope in ["user", "project"] {
        let saved = bed.grant("write", &file, &["--scope", scope, "--suggestion", "2"]);
        assert_eq!(saved.code, 0, "{saved:?}");
        let [rule] = &bed.rules(scope)[..] else { panic!("{scope}: {:?}", bed.rules(scope)) };
        assert!(saved.out.contains(&format!("as the rule `{rule}` of ")), "{saved:?}");
        let other = json!({"path": "src/deep/b.txt", "content": ""});
        assert_eq!(bed.decision("write", &other, &[]), "allow", "{scope}");
        assert_eq!(bed.decision("write", &json!({"path": "src/b.txt", "content": ""}), &[]), "prompt");
        // It counts under the rule set that it was given under.
        assert_eq!(bed.decision("write", &other, &["--rule-set", "read_only"]), "deny");
        let listed = bed.done(&["list"]);
        assert!(listed.contains(&format!("\n  {rule}: allow every `write` call ")), "{listed}");
        let revoked = bed.done(&["revoke", "--scope", scope, rule]);
        assert!(revoked.starts_with(&format!("revoked: {rule}: allow ")), "{revoked}");
        assert_eq!(bed.rules(scope), Vec::<String>::new());
        assert_eq!(bed.decision("write", &other, &[]), "prompt");
        let err = bed.refused(1, &["revoke", "--scope", scope, rule]);
        assert!(err.contains(&format!("there is no rule `{rule}` in the document of the {scope}")), "{err}");
    }
    // What was saved was accepted with it.
    assert_eq!(bed.status(&[])["standing"], "active");

    for (more, code, words) in [
        (&["--scope", "project", "--suggestion", "3"][..], 2, "there is no suggestion 3, but 1 to 2"),
        (&["--scope", "project", "--suggestion", "0"], 2, "there is no suggestion 0"),
        (&["--suggestion", "1"], 2, "`grant` needs `--scope`"),
        (
            &["--scope", "project", "--suggestion", "1", "--guardrail"],
            1,
            "a guardrail lives in the user's document",
        ),
    ] {
        let ended = bed.grant("write", &file, more);
        assert!(ended.code == code && ended.err.contains(words), "{more:?}: {ended:?}");
    }
    // A rule about commands is written into the person's document by hand.
    let command = json!({"command": "cargo test --all"});
    let ended = bed.grant("bash", &command, &["--scope", "user", "--suggestion", "1"]);
    assert!(ended.code == 1 && ended.err.contains("a rule about commands"), "{ended:?}");
    assert_eq!(bed.grant("bash", &command, &["--scope", "project", "--suggestion", "2"]).code, 0);
    assert_eq!((bed.bash("cargo test x").as_str(), bed.bash("cargo testy").as_str()), ("allow", "prompt"));
}

#[test]
fn never_and_always_ask_bind_whatever_else_is_granted() {
    let bed = Bed::new();
    let (secret, plain) =
        (json!({"path": "src/keys", "content": ""}), json!({"path": "src/a", "content": ""}));
    let user = ["--scope", "user", "--suggestion", "1"];
    assert_eq!(bed.grant("write", &secret, &[&user[..], &["--deny", "--guardrail"]].concat()).code, 0);
    let asks = bed.grant("write", &plain, &[&user[..], &["--guardrail"]].concat());
    assert!(asks.code == 0 && asks.out.starts_with("saved: prompt "), "{asks:?}");
    assert!(bed.done(&["list", "--scope", "user"]).contains("(under supervised, guardrail)"));

    // A project that allows everything changes nothing about it.
    write(
        &bed.project_document(),
        supervised(&[json!({"id": "all", "decision": "allow", "when": {"toolNames": ["write"]}})]),
    );
    bed.done(&["trust", "accept", "--digest", &bed.digest(&[])]);
    let decision = |call: &Value| bed.decision("write", call, &[]);
    assert_eq!(decision(&json!({"path": "src/b", "content": ""})), "allow");
    assert_eq!((decision(&secret).as_str(), decision(&plain).as_str()), ("deny", "prompt"));
    let ended = bed.grant("write", &secret, &[]);
    assert!(ended.code == 1 && ended.err.contains("is denied, and no answer changes that"), "{ended:?}");

    // Without `--guardrail` a deny is a rule like any other.
    let other = json!({"path": "README.md", "content": ""});
    bed.done(&["trust", "reject"]);
    assert_eq!(bed.grant("write", &other, &[&user[..], &["--deny"]].concat()).code, 0);
    assert_eq!(decision(&other), "deny");
}

#[test]
fn what_looks_like_a_secret_is_not_written_into_a_project() {
    let bed = Bed::new();
    let call = json!({"command": "curl -H 'Authorization: Bearer hunter2' https://example.com"});
    let offered = bed.grant("bash", &call, &[]);
    assert!(offered.out.contains("(for this conversation only)"), "{offered:?}");
    let ended = bed.grant("bash", &call, &["--scope", "project", "--suggestion", "1"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("secret-looking") && !ended.err.contains("hunter2"), "{ended:?}");
    assert!(!bed.project_document().exists());
}

#[test]
fn a_host_that_has_the_store_open_is_named() {
    let bed = Bed::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let builder = Host::local().home(bed.home()).project(bed.project()).model("demo");
    let host = runtime.block_on(builder.open()).unwrap();
    let store = bed.store().canonicalize().unwrap();
    for arguments in [&["list"][..], &["explain", "--tool", "read", "--args", "{\"path\": \"a\"}"]] {
        let err = bed.refused(75, arguments);
        assert!(err.contains(&format!("the store `{}` is in use: a host", store.display())), "{err}");
    }
    // What needs no store does not mind.
    write(&bed.project_document(), supervised(&[]));
    assert_eq!(
        bed.done(&["validate", ".nerve/config/permissions.json"]),
        ".nerve/config/permissions.json: ok\n"
    );
    runtime.block_on(host.shutdown(Duration::from_secs(10)));
    drop(host);
    drop(runtime);
    bed.done(&["list"]);
}

/// A call of the demo, as a host judged it and as it is explained: the same evidence.
#[test]
fn an_explanation_is_the_evidence_of_the_host() {
    let bed = Bed::new();
    write(&bed.project().join("README.md"), "TODO: say what it is\n");
    write(&bed.user_document(), supervised(&[no_env()]));
    write(&bed.project_document(), supervised(&[all_bash()]));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let call = runtime.block_on(async {
        let host = Host::local().home(bed.home()).project(bed.project()).model("demo").open().await.unwrap();
        let conversation = host.start("Survey this folder and write a report.").await.unwrap();
        let mut updates = conversation.updates().await.unwrap();
        let call = loop {
            if let Update::Interaction(request) = updates.next().await.unwrap().unwrap() {
                break conversation.tool_call(request.call_id).await.unwrap();
            }
        };
        host.shutdown(Duration::from_secs(10)).await;
        call
    });
    drop(runtime);
    let ToolCallView::Unfinished(call) = call else { panic!("{call:?}") };
    let evidence = serde_json::to_value(call.supervision.as_ref().unwrap()).unwrap();
    let explained = bed.explain(&call.tool_name, &call.arguments, &[]);
    for (field, value) in evidence.as_object().unwrap() {
        assert_eq!(explained[field], *value, "{field}");
    }
    assert_eq!(explained["effective_arguments"], call.arguments);
    assert_eq!(explained["ignored_documents"][0]["scope"], "project");
}

/// The rules of a conversation, its rule set and its folder are those that its calls are judged by.
#[test]
fn a_call_of_a_conversation_is_explained_with_what_is_stored_of_it() {
    let bed = Bed::new();
    write(&bed.project().join("README.md"), "TODO: say what it is\n");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (granted, autonomous, call) = runtime.block_on(async {
        let builder = Host::local().home(bed.home()).project(bed.project()).model("demo");
        let host = builder.open().await.unwrap();
        let granted = host.start("Survey this folder and write a report.").await.unwrap();
        let mut updates = granted.updates().await.unwrap();
        let call = loop {
            if let Update::Interaction(request) = updates.next().await.unwrap().unwrap() {
                let ToolCallView::Unfinished(call) = granted.tool_call(request.call_id).await.unwrap() else {
                    panic!("{request:?}")
                };
                let answer = Resolution::approve(request.digest).remember(Remember::conversation(0));
                granted.resolve(request.id, answer).await.unwrap();
                break call;
            }
        };
        let mut config = host.config().clone();
        config.rule_set_id = "autonomous".to_owned();
        config.working_directory = Some(bed.project().join("src"));
        let autonomous = host.project().converse(config).await.unwrap();
        host.shutdown(Duration::from_secs(10)).await;
        (granted.id().to_string(), autonomous.id().to_string(), call)
    });
    drop(runtime);

    let explain = |conversation: &str, more: &[&str]| {
        bed.explain(&call.tool_name, &call.arguments, &[&["--conversation", conversation], more].concat())
    };
    let out = explain(&granted, &[]);
    assert_eq!((&out["decision"], &out["winner"]["source"]), (&json!("allow"), &json!("conversation")));
    // It brings its project along, from wherever it is asked about.
    let arguments = call.arguments.to_string();
    let mut elsewhere = bed.command(&["explain", "--tool", &call.tool_name, "--args", &arguments]);
    elsewhere.current_dir("/").args(["--conversation", &granted]);
    let elsewhere: Value = serde_json::from_str(&Ended::of(elsewhere).out).unwrap();
    assert_eq!(elsewhere, out);
    // What is given counts before what is stored.
    assert_eq!(explain(&granted, &["--mode", "planning"])["active_rule_set"], "planning");
    assert_eq!(explain(&granted, &["--rule-set", "read_only"])["decision"], "deny");
    assert_eq!(bed.decision(&call.tool_name, &call.arguments, &[]), "prompt");

    let out = explain(&autonomous, &[]);
    assert_eq!((&out["decision"], &out["active_rule_set"]), (&json!("allow"), &json!("autonomous")));
    let path = &out["targets"][0]["subject"]["path"]["resolved"]["rooted"][0];
    assert_eq!(path["path"], format!("src/{}", call.arguments["path"].as_str().unwrap()));

    let read = ["explain", "--tool", "read", "--args", "{\"path\": \"a\"}", "--conversation"];
    let err = bed.refused(1, &[&read[..], &["conv_00000000000000000000000000"]].concat());
    assert!(err.contains("there is no conversation `conv_"), "{err}");
    assert!(bed.refused(2, &[&read[..], &["x"]].concat()).contains("`--conversation`: `x`: "));
}

#[test]
fn answers_that_are_saved_at_once_are_all_kept() {
    let bed = Bed::new();
    let count = 4;
    let begun = Instant::now();
    let mut waiting: Vec<usize> = (0..count).collect();
    while !waiting.is_empty() {
        assert!(begun.elapsed() < DEADLINE, "{waiting:?}");
        let children: Vec<_> = waiting
            .iter()
            .map(|number| {
                let call = json!({"path": format!("src/{number}"), "content": ""}).to_string();
                let arguments =
                    ["grant", "--tool", "write", "--args", &call, "--scope", "project", "--suggestion", "1"];
                (*number, bed.command(&arguments).spawn().unwrap())
            })
            .collect();
        // One that had to wait too long says so, saved nothing, and is started again.
        let again = children.into_iter().filter_map(|(number, child)| {
            let (code, out) = ended_text(child);
            assert!(matches!(code, 0 | 75), "{number}: {code} {out}");
            (code == 75).then_some(number)
        });
        waiting = again.collect();
    }
    assert_eq!(bed.rules("project").len(), count);
    for number in 0..count {
        assert_eq!(
            bed.decision("write", &json!({"path": format!("src/{number}"), "content": ""}), &[]),
            "allow"
        );
    }
    assert_eq!(bed.status(&[])["standing"], "active");
}
