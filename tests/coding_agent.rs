//! The example `coding_agent`, run as a person runs it: to the end, without a person, and killed at any moment.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nervekit::conversation::store::{EventRange, Store};
use nervekit::conversation::{EventPayload, InputFate};
use nervekit::store::RedbBackend;
use nervekit::types::{ConversationId, SystemIds};
use serde_json::Value;

#[path = "support/example.rs"]
mod example;

use example::{DEADLINE, ended, read_all, run};

const REPORT: &str = "NERVE_REPORT.md";

/// A project, a home, and a `wc` that leaves a trace each time it begins.
struct Ground {
    base: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        let ground = Self { base: tempfile::tempdir().unwrap() };
        for (name, content) in [
            ("README.md", "# A project\n\nTODO: say what it is\n"),
            ("src/main.rs", "fn main() {} // TODO: do something\n"),
            ("notes/two words.txt", "nothing\n"),
            ("target/built.txt", "TODO: not counted\n"),
            (".gitignore", "target/\n"),
        ] {
            let path = ground.project().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let wc = ground.path("bin/wc");
        std::fs::create_dir_all(wc.parent().unwrap()).unwrap();
        let script = format!(
            "#!/bin/sh\necho begun >>'{}'\nsleep 0.1\nwhile [ -e '{}' ]; do sleep 0.05; done\nPATH=/usr/bin:/bin exec wc \"$@\"\n",
            ground.path("trace").display(),
            ground.path("hold").display()
        );
        std::fs::write(&wc, script).unwrap();
        std::fs::set_permissions(&wc, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(ground.path("answers"), "1\n".repeat(20)).unwrap();
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn project(&self) -> PathBuf {
        self.path("project")
    }

    fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The example over this home, with nobody at its input.
    fn agent(&self, arguments: &[&str]) -> Command {
        let mut command = example::command("coding_agent");
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        command
            .arg("--home")
            .arg(self.home())
            .args(arguments)
            .current_dir(self.project())
            .env("PATH", path)
            .env_remove("NERVE_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The same with somebody who answers `1` to every question.
    fn answered(&self, arguments: &[&str]) -> Command {
        let mut command = self.agent(arguments);
        command.stdin(File::open(self.path("answers")).unwrap());
        command
    }

    fn report(&self) -> String {
        std::fs::read_to_string(self.project().join(REPORT)).unwrap_or_default()
    }

    /// How often the demo's command began.
    fn begun(&self) -> usize {
        std::fs::read_to_string(self.path("trace")).unwrap_or_default().lines().count()
    }

    /// Every file of the project with its content.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>, base: &Path) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    collect(&path, found, base);
                } else {
                    found.insert(path.strip_prefix(base).unwrap().to_owned(), std::fs::read(&path).unwrap());
                }
            }
        }
        let mut found = BTreeMap::new();
        collect(&self.project(), &mut found, &self.project());
        found
    }
}

/// Reads until a text was printed.
fn read_until(out: &mut ChildStdout, wanted: &str) -> String {
    let (begun, mut seen) = (Instant::now(), Vec::new());
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        let mut byte = [0];
        let length = out.read(&mut byte).unwrap();
        assert!(length == 1 && begun.elapsed() < DEADLINE, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&byte);
    }
    String::from_utf8_lossy(&seen).into_owned()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn conversation_of(printed: &str) -> String {
    let line = printed.lines().find_map(|line| line.strip_prefix("conversation "));
    line.unwrap_or_else(|| panic!("no conversation is named: {printed}")).to_owned()
}

#[test]
fn with_yes_and_no_input_the_work_is_done_and_the_question_is_left_open() {
    let ground = Ground::new();
    let (code, out, err) = run(ground.agent(&["--yes"]));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for line in
        ["✓ find (completed)", "✓ write (completed)", "⊘ ask_user (denied)", "✓ bash (completed)", "done"]
    {
        assert!(out.lines().any(|found| found == line), "{line} is missing:\n{out}");
    }
    assert!(out.contains("Denied: nobody was there to answer"), "{out}");
    assert!(!out.contains("by a person"), "{out}");
    assert!(out.contains("The folder has 3 files."), "{out}");
    assert!(ground.report().contains("- TODOs: 2 TODOs\n") && ground.report().contains("step: open\n"));
    assert_eq!(ground.begun(), 1);

    let (code, out, _) = run(ground.agent(&["--list"]));
    assert_eq!((code, out.lines().count()), (0, 1), "{out}");
    assert!(out.starts_with("conv_") && out.contains("  idle  "), "{out}");

    // Nothing is unfinished: nothing is done again.
    let id = out.split_whitespace().next().unwrap();
    let (code, out, err) = run(ground.agent(&["--yes", "--resume", id]));
    assert_eq!((code, out.as_str()), (0, "done\n"));
    assert!(err.contains("nothing is unfinished"), "{err}");
    let (code, out, _) = run(ground.agent(&["--resume", id, "How many files are there?"]));
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("There are 3 files. The largest is `src/main.rs` with 35 bytes."), "{out}");
}

#[test]
fn an_answer_reaches_the_report() {
    let ground = Ground::new();
    let (code, out, _) = run(ground.answered(&["--yes"]));
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("+Owner of the next step: the team"), "the difference is not shown: {out}");
    assert!(ground.report().ends_with("Owner of the next step: the team\n"));
}

#[test]
fn the_rules_of_a_project_count_when_a_person_accepts_them() {
    let ground = Ground::new();
    let file = ground.project().join(".nerve/config/permissions.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let rules = r#"{"schemaVersion": 2, "overlays": [{"ruleSetId": "supervised", "rules": [
        {"id": "reports", "decision": "allow", "when": {"toolNames": ["write", "edit"]}},
        {"id": "shell", "decision": "deny", "priority": 1, "when": {"toolNames": ["bash"]}}]}]}"#;
    std::fs::write(&file, rules).unwrap();
    let asked = "rules in ";
    let told = |out: &str, answer: &str| {
        assert!(out.contains("permissions.json: untrusted"), "{out}");
        assert!(
            out.contains("would run without asking: every `write` or `edit` call (under `supervised`)"),
            "{out}"
        );
        assert!(out.contains("would be asked about or denied: every `bash` command"), "{answer}: {out}");
    };
    let run_with = |answers: &str| {
        let given = ground.path("given");
        std::fs::write(&given, answers).unwrap();
        let mut command = ground.agent(&[]);
        command.stdin(File::open(given).unwrap());
        run(command)
    };
    // Left for later: nothing of them counts, and nobody answers what is asked.
    let (code, out, _) = run_with("later\n");
    told(&out, "later");
    assert_eq!((code, ground.report().as_str()), (3, ""), "{out}");
    // Accepted: the report is written without a question, the command is not run.
    let (code, out, err) = run_with("y\n1\n1\n1\n");
    told(&out, "y");
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(!out.contains("write · "), "it was asked about: {out}");
    assert!(ground.report().contains("TODOs"), "{out}");
    assert_eq!(ground.begun(), 0, "{out}");
    // Known: nobody is asked about them again, until one byte changes.
    let (_, out, _) = run_with("1\n1\n");
    assert!(!out.contains(asked), "{out}");
    std::fs::write(&file, rules.replace("edit", "bash")).unwrap();
    let (_, out, _) = run_with("n\n1\n1\n");
    assert!(out.contains(asked), "{out}");
    let (_, out, _) = run_with("1\n1\n");
    assert!(!out.contains(asked), "a refused version is not asked about again: {out}");
}

#[test]
fn without_a_person_what_needs_one_is_denied() {
    let ground = Ground::new();
    let before = ground.files();
    for arguments in [&["--no-input"][..], &["--no-input", "--json"], &["--json"], &[]] {
        let (code, out, _) = run(ground.agent(arguments));
        assert_eq!(code, 3, "{arguments:?}: {out}");
        assert_eq!(ground.files(), before, "{arguments:?}");
    }
    assert_eq!(ground.begun(), 0);
}

#[test]
fn wrong_use_is_told() {
    let ground = Ground::new();
    for (arguments, word) in [
        (&["--bogus"][..], "`--bogus` is not an option"),
        (&["-y"], "`-y` is not an option"),
        (&["--home"], "`--home` needs a value"),
        (&["--resume", "nonsense"], "nonsense"),
        (&["--pace", "fast"], "--pace"),
    ] {
        let mut command = example::command("coding_agent");
        command.args(arguments).current_dir(ground.project());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (code, out, err) = run(command);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(word) && err.contains("usage: "), "{err}");
    }
    let (code, out, _) = run(ground.agent(&["--help"]));
    assert!(code == 0 && out.contains("--pace MILLISECONDS"), "{out}");
    let unknown = ConversationId::from_key("unknown").to_string();
    let (code, _, err) = run(ground.agent(&["--resume", &unknown]));
    assert!(code == 1 && err.contains(&unknown) && err.contains("does not exist"), "{err}");
    let (code, _, err) = run(ground.agent(&["--model", "nobody/nothing"]));
    assert!(code == 1 && err.contains("no provider `nobody`"), "{err}");
}

#[test]
fn a_home_inside_the_project_is_refused() {
    let ground = Ground::new();
    let before = ground.files();
    let mut command = example::command("coding_agent");
    command.args(["--home", "inside", "--project"]).arg(ground.project()).current_dir(ground.project());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (code, _, err) = run(command);
    assert_eq!(code, 1);
    assert!(err.contains("lies inside the project"), "{err}");
    assert_eq!(ground.files(), before);
}

#[test]
fn every_line_of_json_is_json() {
    let ground = Ground::new();
    let (code, out, err) = run(ground.agent(&["--json", "--yes"]));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kind = |line: &Value| line.get("update").and_then(Value::as_str).unwrap().to_owned();
    assert!(lines.iter().any(|line| kind(line) == "text"));
    let last = lines.last().unwrap();
    assert_eq!(kind(last), "finished");
    assert_eq!(last.pointer("/ending/ending"), Some(&Value::from("completed")));
    let cursors: Vec<u64> = lines.iter().filter_map(|line| line.get("cursor")?.as_u64()).collect();
    assert_eq!(cursors, (1..=cursors.len() as u64).collect::<Vec<_>>(), "an event is missing or comes twice");
}

#[test]
fn a_second_process_on_the_same_home_is_told_that_it_is_in_use() {
    let ground = Ground::new();
    // It waits at an approval for as long as its input is open.
    let mut first = ground.agent(&[]).stdin(Stdio::piped()).spawn().unwrap();
    let mut out = first.stdout.take().unwrap();
    read_until(&mut out, "Allow?");
    let (code, _, err) = run(ground.agent(&["--list"]));
    assert_eq!(code, 75, "{err}");
    assert!(err.contains("conversations.redb") && err.contains("in use"), "{err}");
    drop(first.stdin.take());
    drop(out);
    assert_eq!(ended(first).status.code(), Some(3));
    assert_eq!(run(ground.agent(&["--list"])).0, 0);
}

#[test]
fn a_closed_output_does_not_stop_the_work() {
    let ground = Ground::new();
    let mut child = ground.agent(&["--yes"]).spawn().unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("conversation "), "{line}");
    let output = ended(child);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(ground.report().starts_with("# Report"));
}

#[test]
fn interrupted_at_a_question_it_stops_and_can_be_resumed() {
    let ground = Ground::new();
    let mut child = ground.agent(&[]).stdin(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let id = conversation_of(&read_until(&mut out, "Allow?"));
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let rest = std::thread::spawn(move || read_all(Some(out)));
    // Its input stays open all the while.
    let input = child.stdin.take();
    let output = ended(child);
    drop(input);
    let rest = String::from_utf8(rest.join().unwrap()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{rest}");
    assert!(rest.contains("stopped\n") && rest.contains(&format!("--resume {id}")), "{rest}");
    assert_eq!(ground.report(), "");
    let (code, out, err) = run(ground.answered(&["--yes", "--resume", &id]));
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn an_approval_that_waited_at_a_kill_is_asked_again() {
    let ground = Ground::new();
    let mut child = ground.agent(&[]).stdin(Stdio::piped()).spawn().unwrap();
    let id = conversation_of(&read_until(child.stdout.as_mut().unwrap(), "Allow?"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(inspect(&ground.home()).unwrap().waiting, 1);
    assert_eq!(ground.report(), "");

    // From another folder: the conversation knows its own.
    let mut command = ground.agent(&["--resume", &id]);
    let mut child = command.current_dir("/").stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"y\n1\ny\ny\n").unwrap();
    drop(input);
    let output = ended(child);
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{out}");
    assert_eq!(out.matches("✓ write (completed)").count(), 1, "{out}");
    assert_eq!(out.matches("Allow?").count(), 3, "{out}");
    assert!(ground.report().ends_with("Owner of the next step: the team\n"));
    assert_eq!(ground.begun(), 1);
}

#[test]
fn a_command_that_ran_at_a_kill_is_uncertain_and_not_repeated() {
    let ground = Ground::new();
    File::create(ground.path("hold")).unwrap();
    let mut child = ground.answered(&["--yes"]).spawn().unwrap();
    let id = conversation_of(&read_until(child.stdout.as_mut().unwrap(), "✓ edit (completed)"));
    wait_until("the command begins", || ground.begun() == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let out = resumed(&ground, &id);
    assert!(out.contains("? bash (indeterminate)"), "{out}");
    assert!(out.contains("Whether the check ran is not known; I did not repeat it."), "{out}");
    assert_eq!(ground.begun(), 1, "{out}");
    std::fs::remove_file(ground.path("hold")).unwrap();
}

/// Resumes, once, to the end.
fn resumed(ground: &Ground, id: &str) -> String {
    let (code, out, err) = run(ground.answered(&["--yes", "--resume", id]));
    assert_eq!((code, out.lines().last()), (0, Some("done")), "{out}{err}");
    out
}

/// What a store holds after a kill, before anybody recovers it.
struct Found {
    id: Option<ConversationId>,
    waiting: usize,
    unfinished: usize,
    inputs: usize,
}

/// Opens a store that a killed process left, and checks what must hold of it whatever happened.
#[tokio::main(flavor = "current_thread")]
async fn inspect(home: &Path) -> Option<Found> {
    let file = home.join("data/conversations.redb");
    if !file.exists() {
        return None;
    }
    let backend = RedbBackend::options(&file).open().await.unwrap();
    let store = Store::open(Arc::new(backend), Arc::new(SystemIds::default())).await.unwrap();
    // I2 and I5: chains, dense sequences, heads, the list of unfinished conversations.
    assert_eq!(store.verify().await.unwrap().faults, Vec::<String>::new());
    let conversations = store.conversations(None, None, 10).await.unwrap();
    assert!(conversations.len() <= 1);
    let unfinished = store.unfinished().await.unwrap().len();
    let Some(record) = conversations.first() else {
        return Some(Found { id: None, waiting: 0, unfinished, inputs: 0 });
    };
    let rows = store.load(record.id).await.unwrap().unwrap();
    let events = store.events(record.id, EventRange::from(0)).await.unwrap();
    assert!(events.iter().enumerate().all(|(at, event)| event.sequence == at as u64));
    let (mut blocks, mut settled, mut inputs) = (Vec::new(), Vec::new(), rows.queue.len());
    for event in &events {
        match &event.payload {
            EventPayload::AssistantMessage(message) => {
                blocks.extend(message.calls.iter().map(|call| call.id));
            }
            EventPayload::ToolCallResponse(response) => {
                settled.push(response.call_id);
                let repeatable = ["find", "grep", "read", "ls"].contains(&response.tool_name.as_str());
                assert!(repeatable || response.attempts <= 1, "I4: {response:?}");
            }
            EventPayload::UserMessage(_) => {
                inputs += 1;
                let fate = store.fate(record.id, event.input_id.unwrap()).await.unwrap().unwrap().fate;
                assert!(
                    matches!(fate, InputFate::Delivered { event_id } if event_id == event.id),
                    "I3: {fate:?}"
                );
            }
            _ => {}
        }
    }
    for queued in rows.queue.values() {
        let fate = store.fate(record.id, queued.value.id).await.unwrap().unwrap().fate;
        assert!(matches!(fate, InputFate::Queued), "I3: {fate:?}");
    }
    // I1: every call of a message is unfinished or has one result, and there is nothing else.
    let open: Vec<_> = rows.calls.keys().copied().collect();
    for call in &blocks {
        let times = settled.iter().chain(&open).filter(|found| *found == call).count();
        assert_eq!(times, 1, "I1: the call `{call}` is there {times} times");
    }
    assert_eq!(blocks.len(), settled.len() + open.len(), "I1: a result without a call");
    let waiting = rows.calls.values().filter(|call| call.value.interaction.is_some()).count();
    Some(Found { id: Some(record.id), waiting, unfinished, inputs })
}

fn is_left_over(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name.starts_with(".nervekit-") && name.ends_with(".tmp")
}

/// Numbers that a seed repeats (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

fn seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    let given = std::env::var("NERVEKIT_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(()));
    println!("seed {seed}: NERVEKIT_SEED={seed} runs it again");
    seed
}

/// Killed at 30 moments, spread evenly at random over the time of an unkilled run, and resumed: the end is the same.
#[test]
fn killed_at_any_moment_it_ends_as_if_it_had_not_been() {
    const KILLS: usize = 30;
    const WORK: &[&str] = &["--yes", "--pace", "4"];
    let mut random = Random(seed());
    let whole = Ground::new();
    let begun = Instant::now();
    let (code, out, _) = run(whole.answered(WORK));
    let duration = begun.elapsed();
    assert_eq!((code, whole.begun()), (0, 1), "{out}");
    println!("an unkilled run takes {} ms", duration.as_millis());
    for _ in 0..KILLS {
        let ground = Ground::new();
        let moment = Duration::from_micros(random.below(duration.as_micros().try_into().unwrap()));
        let mut child = ground.answered(WORK).spawn().unwrap();
        std::thread::sleep(moment);
        child.kill().unwrap();
        let finished = child.wait().unwrap().code().is_some();
        let found = inspect(&ground.home());
        let begun = ground.begun();
        let out = if let Some(id) = found.as_ref().and_then(|found| found.id) {
            resumed(&ground, &id.to_string())
        } else {
            // Killed before there was a conversation.
            let (code, out, err) = run(ground.answered(&["--yes"]));
            assert_eq!(code, 0, "{out}{err}");
            out
        };
        let found = found.unwrap_or(Found { id: None, waiting: 0, unfinished: 0, inputs: 0 });
        println!(
            "at {:>5} ms: {} inputs, {} waiting, {} unfinished, command begun {begun}{}",
            moment.as_millis(),
            found.inputs,
            found.waiting,
            found.unfinished,
            if finished { ", had ended" } else { "" }
        );
        assert_eq!(ground.report(), whole.report(), "{out}");
        let mut files = ground.files();
        // A write takes place by a rename. Killed before it, it leaves what it had written, under a hidden name that
        // no tool shows; nothing of the project is touched by that.
        let before = files.len();
        files.retain(|path, _| !is_left_over(path));
        assert!(before - files.len() <= 1, "{before} files: {out}");
        assert!(files == whole.files(), "{:?}: {out}", files.keys());
        // A command that was let go by a dying process begins once, or never and is told to be uncertain.
        let certain = !out.contains("? bash (indeterminate)");
        assert!(ground.begun() == 1 || (ground.begun() == 0 && !certain), "{} times: {out}", ground.begun());
        let end = inspect(&ground.home()).unwrap();
        assert_eq!((end.waiting, end.unfinished, end.inputs), (0, 0, 1), "{out}");
    }
}
