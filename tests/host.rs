//! The host: what opening says, what is stored, and the shapes of hosts that need no folder.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use nervekit::conversation::{BackendError, CallOutcome, EventPayload, Page, StoreError, ToolCallResponse};
use nervekit::harness::{
    Adapter, Credentials, Message, ProviderError, ScriptedModel, ScriptedReply, StopReason,
};
use nervekit::permissions::{Risk, Standing};
use nervekit::store::RedbBackend;
use nervekit::tools::FileAssetStore;
use nervekit::types::{InputId, Retry, Secret};
use nervekit::{
    Attendance, BuildError, BuildProblem, Conversation, Ending, Host, HostBuilder, Limits, NewInput, Tool,
    ToolContext,
};
use serde_json::json;

fn silent() -> ScriptedModel {
    ScriptedModel::from_fn(|_| ScriptedReply::text("hello"))
}

async fn problems(builder: HostBuilder) -> Vec<BuildProblem> {
    builder.open().await.unwrap_err().problems
}

/// Keys that are not in the environment.
#[derive(Debug)]
struct Keys(Option<Secret>);

#[async_trait::async_trait]
impl Credentials for Keys {
    async fn secret(&self, _name: &str) -> Result<Option<Secret>, ProviderError> {
        Ok(self.0.clone())
    }
}

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Line {
    text: String,
}

fn shout() -> Tool {
    Tool::function("shout", "Says it loudly.", |line: Line, _: ToolContext| async move {
        Ok(line.text.to_uppercase())
    })
    .reviewed(Risk::Read)
    .into()
}

#[tokio::test]
async fn everything_that_is_wrong_is_said_at_once() {
    let home = tempfile::tempdir().unwrap();
    let builder =
        Host::local().home(home.path()).project(home.path().join("missing")).tool(shout()).tool(shout());
    let error = builder.open().await.unwrap_err();
    assert!(
        matches!(
            &error.problems[..],
            [BuildProblem::NoSuchFolder { .. }, BuildProblem::NoModel, BuildProblem::DuplicateTool { .. }]
        ),
        "{error:?}"
    );
    let words = error.to_string();
    for word in ["missing` is not a folder", "no model", "`shout`"] {
        assert!(words.contains(word), "{words}");
    }
    assert_eq!(error.retry(), Retry::Never);
}

#[tokio::test]
async fn a_missing_credential_and_an_unknown_provider_are_named() {
    let found = problems(Host::in_memory().model("openai/gpt-5").credentials(Keys(None))).await;
    assert!(
        matches!(&found[..], [BuildProblem::MissingCredential { variable }] if variable == "OPENAI_API_KEY"),
        "{found:?}"
    );
    let found = problems(Host::in_memory().model("opnai/gpt-5")).await;
    let [BuildProblem::UnknownProvider { name, known }] = &found[..] else { panic!("{found:?}") };
    assert_eq!(name, "opnai");
    assert!(known.iter().any(|known| known == "openai"), "{known:?}");
    // A server on this machine needs no key, and is not asked whether it is there.
    Host::in_memory().model("ollama/qwen3").credentials(Keys(None)).open().await.unwrap();
}

#[tokio::test]
async fn a_home_inside_the_project_is_refused_and_nothing_is_made() {
    let project = tempfile::tempdir().unwrap();
    for home in ["home", "deep/er/home", "."] {
        let home = project.path().join(home);
        let builder = Host::local().home(&home).project(project.path()).model(silent());
        let found = problems(builder).await;
        assert!(matches!(&found[..], [BuildProblem::HomeInsideProject { .. }]), "{found:?}");
    }
    assert_eq!(std::fs::read_dir(project.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_durable_store_with_assets_in_memory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let backend = RedbBackend::options(folder.path().join("store.redb")).open().await.unwrap();
    let found = problems(Host::in_memory().backend(backend).model(silent())).await;
    assert!(matches!(&found[..], [BuildProblem::NotDurable { port: "assets" }]), "{found:?}");
}

/// Runs a future without a runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

#[test]
fn without_a_runtime_that_is_said_and_with_a_handle_it_works() {
    let found = block_on(problems(Host::in_memory().model(silent())));
    assert!(matches!(&found[..], [BuildProblem::NoRuntime]), "{found:?}");

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let text = block_on(async {
        let host = Host::in_memory().model(silent()).runtime(runtime.handle().clone()).open().await.unwrap();
        host.ask("hi").await.unwrap().into_text().unwrap()
    });
    assert_eq!(text, "hello");
}

#[tokio::test]
async fn a_store_in_use_is_named_and_can_be_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let open = || Host::local().home(home.path()).model(silent());
    let first = open().open().await.unwrap();
    let error: BuildError = open().open().await.unwrap_err();
    let [BuildProblem::Store(StoreError::Backend(BackendError::InUse { store }))] = &error.problems[..]
    else {
        panic!("{error:?}");
    };
    assert_eq!(Path::new(&**store).file_name().unwrap(), "conversations.redb");
    assert!(Path::new(&**store).exists(), "{store}");
    assert_ne!(error.retry(), Retry::Never);

    let begun = Instant::now();
    let waited = open().lock_wait(Duration::from_millis(200)).open().await;
    assert!(waited.is_err() && begun.elapsed() >= Duration::from_millis(200));

    let second = tokio::spawn(open().lock_wait(Duration::from_secs(60)).open());
    tokio::task::yield_now().await;
    first.shutdown(Duration::from_secs(10)).await;
    drop(first);
    assert_eq!(second.await.unwrap().unwrap().ask("hi").await.unwrap().into_text().unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn resuming_needs_only_the_id() {
    let home = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("a.txt"), "TODO: remember\n").unwrap();
    let limits = Limits::new().turns(7).tokens(1_000_000).time(Duration::from_secs(600));
    let host = Host::local()
        .home(home.path())
        .project(project.path())
        .model("demo")
        .rule_set("read_only")
        .system_prompt("Be brief.")
        .limits(limits)
        .unattended()
        .open()
        .await
        .unwrap();
    let conversation = host.start("How many files are there?").await.unwrap();
    let counted = "There is 1 file. The largest is `a.txt` with 15 bytes.";
    assert_eq!(conversation.finished().await.unwrap().into_text().unwrap(), counted);
    let id = conversation.id();
    let config = conversation.snapshot().await.unwrap().state.config;
    host.shutdown(Duration::from_secs(10)).await;
    drop((conversation, host));

    // Another host: no project, another model, other rules and limits, attended.
    let host = Host::local().home(home.path()).model(silent()).rule_set("autonomous").open().await.unwrap();
    let conversation = host.conversation(id);
    let stored = conversation.snapshot().await.unwrap().state.config;
    assert_eq!(stored, config);
    assert_eq!(stored.rule_set_id, "read_only");
    assert_eq!(stored.attendance, Attendance::Unattended);
    assert_eq!((stored.limits, stored.model.to_string().as_str()), (limits, "demo/demo"));
    let text = conversation.ask("Which TODOs are left?").await.unwrap().into_text().unwrap();
    assert_eq!(text, "1 TODO is left:\n- a.txt:1: TODO: remember");
    let outcome = conversation.ask("Survey the folder and write the report.").await.unwrap();
    assert_eq!(std::fs::read_dir(project.path()).unwrap().count(), 1, "{outcome:?}");
}

/// A webhook that is delivered again, a job that is run again: the answer is the one of the first time, also when
/// other things were asked meanwhile, and after a restart.
#[tokio::test]
async fn what_was_asked_under_an_id_has_the_same_outcome_whenever_it_is_asked_again() {
    let home = tempfile::tempdir().unwrap();
    let model = ScriptedModel::from_fn(|request| {
        ScriptedReply::text(format!("answer to message {}", request.messages.len()))
    });
    let open = || Host::local().home(home.path()).model(model.clone()).open();
    let asked = |key: &str| NewInput::new(key).id(InputId::from_key(key));
    let host = open().await.unwrap();
    let conversation = host.create(None).await.unwrap();
    let first = conversation.ask(asked("first")).await.unwrap();
    let second = conversation.ask(asked("second")).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(conversation.ask(asked("first")).await.unwrap(), first);
    assert_eq!(conversation.ask(asked("second")).await.unwrap(), second);
    let id = conversation.id();
    host.shutdown(Duration::from_secs(10)).await;
    drop((conversation, host));

    let conversation = open().await.unwrap().conversation(id);
    assert_eq!(conversation.ask(asked("first")).await.unwrap(), first);
    assert_eq!(model.requests().len(), 2);
    // Other words under the same id are refused, not answered with what the first were told.
    let other = NewInput::new("other").id(InputId::from_key("first"));
    assert!(conversation.ask(other).await.unwrap_err().to_string().contains("other content"));
}

#[tokio::test]
async fn what_was_taken_back_has_no_outcome_to_wait_for() {
    let model = ScriptedModel::from_fn(|_| ScriptedReply::new().then_hangs());
    let host = Host::in_memory().model(model).open().await.unwrap();
    let conversation = host.start("This one is busy.").await.unwrap();
    let asked = |key: &str| NewInput::new(key).id(InputId::from_key(key));
    conversation.submit(asked("third")).await.unwrap();
    conversation.cancel_input(InputId::from_key("third")).await.unwrap();
    let error = conversation.ask(asked("third")).await.unwrap_err();
    assert!(error.to_string().contains("is cancelled; ask under another id"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bot_gets_an_outcome_it_can_print_and_exit_with() {
    let project = tempfile::tempdir().unwrap();
    std::fs::write(project.path().join("a.txt"), "TODO: one\n").unwrap();
    let bot = || Host::in_memory().project(project.path()).model("demo").unattended();

    let outcome = bot().open().await.unwrap().ask("Survey and write a report.").await.unwrap();
    let printed = serde_json::to_value(&outcome).unwrap();
    assert_eq!(printed["ending"]["ending"], "completed");
    assert_eq!(printed["denied"][0]["tool_name"], "write");
    let reason = printed["denied"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("`supervised.rest`") && reason.contains("nobody attends"), "{reason}");
    assert_eq!(reason.matches("supervised.rest").count(), 1, "{reason}");
    assert!(!project.path().join("NERVE_REPORT.md").exists());

    let host = bot().limits(Limits::new().turns(1)).open().await.unwrap();
    let outcome = host.ask("Survey and write a report.").await.unwrap();
    assert!(matches!(outcome.ending, Ending::Failed { .. }), "{outcome:?}");
    assert!(outcome.into_text().unwrap_err().to_string().contains("turn"));
}

#[tokio::test]
async fn own_tools_work_without_a_folder() {
    let model = ScriptedModel::new([
        ScriptedReply::new()
            .call("shout", json!({"text": "hey"}))
            .call("count", json!({"text": "four"}))
            .call("read", json!({"path": "/etc/hostname"}))
            .stop_reason(StopReason::ToolUse),
        ScriptedReply::text("done"),
    ]);
    let count = Tool::function("count", "Counts letters.", |line: Line, _: ToolContext| async move {
        Ok(line.text.len().to_string())
    })
    .reviewed(Risk::Read);
    let host = Host::in_memory()
        .without_local_tools()
        .tool(shout())
        .tool(count)
        .model(model.clone())
        .unattended()
        .open()
        .await
        .unwrap();
    let conversation = host.start("go").await.unwrap();
    assert_eq!(conversation.finished().await.unwrap().into_text().unwrap(), "done");
    let said: BTreeMap<_, _> = responses(&conversation)
        .await
        .into_iter()
        .map(|found| (found.tool_name, (found.outcome, found.agent)))
        .collect();
    assert_eq!(said["shout"], (CallOutcome::Completed, "HEY".to_owned()));
    assert_eq!(said["count"], (CallOutcome::Completed, "4".to_owned()));
    assert_eq!(said["read"].0, CallOutcome::Failed, "{said:?}");
    assert!(said["read"].1.contains("not available"), "{said:?}");
    let requests = model.requests();
    let offered: Vec<&str> = requests[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(offered.contains(&"shout") && offered.contains(&"count"), "{offered:?}");
    assert!(!offered.contains(&"read") && !offered.contains(&"bash"), "{offered:?}");
}

#[tokio::test]
async fn without_a_folder_no_tool_that_needs_one_is_offered() {
    let model = silent();
    let host = Host::in_memory().model(model.clone()).open().await.unwrap();
    host.ask("hi").await.unwrap().into_text().unwrap();
    let requests = model.requests();
    let offered: Vec<&str> = requests[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    for tool in ["read", "ls", "find", "grep", "edit", "write"] {
        assert!(!offered.contains(&tool), "{offered:?}");
    }
}

#[tokio::test]
async fn a_tool_that_needs_a_capability_is_offered_where_it_is_enabled() {
    let launches = || {
        let launch =
            Tool::function("launch", "Launches.", |_: Line, _: ToolContext| async { Ok("launched") });
        Tool::from(launch).redefine(|definition| definition.capability("launches"))
    };
    for enabled in [false, true] {
        let model = silent();
        let mut builder = Host::in_memory().without_local_tools().tool(launches()).model(model.clone());
        if enabled {
            builder = builder.capability("launches");
        }
        builder.open().await.unwrap().ask("hi").await.unwrap().into_text().unwrap();
        let offered = model.requests()[0].tools.iter().any(|tool| tool.name == "launch");
        assert_eq!(offered, enabled);
    }
}

#[tokio::test]
async fn no_secret_is_shown() {
    const KEY: &str = "sk-3c1d5a7e";
    let keys = Keys(Some(Secret::new(KEY)));
    let provider = nervekit::harness::Provider::new("gateway", Adapter::OpenAiChat, "http://127.0.0.1:1/v1");
    let builder = Host::in_memory()
        .provider(provider.credential("GATEWAY_KEY"))
        .model("gateway/large")
        .credentials(keys)
        .retries(nervekit::harness::RetryPolicy::new().retries(0));
    let shown = format!("{builder:?} {builder:#?}");
    let host = builder.open().await.unwrap();
    let outcome = host.ask("hi").await.unwrap();
    let shown = format!("{shown} {host:?} {host:#?} {outcome:?}");
    assert!(!shown.contains(KEY), "a key is shown");
    assert!(matches!(outcome.ending, Ending::Failed { .. }), "{outcome:?}");
}

async fn responses(conversation: &Conversation) -> Vec<ToolCallResponse> {
    let events = conversation.history(Page::new(200), None).await.unwrap().events;
    events
        .into_iter()
        .filter_map(|event| match event.payload {
            EventPayload::ToolCallResponse(response) => Some(*response),
            _ => None,
        })
        .collect()
}

/// Ten conversations edit one file at once, under four spellings of its name.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_edits_of_one_file_at_once_all_land_or_fail_loudly() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::os::unix::fs::symlink("f", folder.path().join("link")).unwrap();
    let lines = |edited: &dyn Fn(usize) -> bool| -> String {
        let line = |at| [if edited(at) { "edited" } else { "line" }, " ", &at.to_string(), ".\n"].concat();
        (0..10).map(line).collect()
    };
    let model = ScriptedModel::from_fn(|request| {
        if matches!(request.messages.last(), Some(Message::ToolResult(_))) {
            return ScriptedReply::text("done");
        }
        let Some(Message::User(prompt)) = request.messages.last() else { panic!("no prompt") };
        let text = format!("{:?}", prompt.content);
        let (_, rest) = text.split_once("edit ").unwrap();
        let (at, path) = rest.split_once(" in ").unwrap();
        let path = path.split(';').next().unwrap();
        let edits = json!([{"old_text": format!("line {at}."), "new_text": format!("edited {at}.")}]);
        ScriptedReply::call_tool("edit", json!({"path": path, "edits": edits}))
    });
    let host = Host::in_memory()
        .project(folder.path())
        .model(model)
        .rule_set("autonomous")
        .unattended()
        .open()
        .await
        .unwrap();
    for round in 0..5 {
        std::fs::write(&file, lines(&|_| false)).unwrap();
        let mut work = Vec::new();
        for at in 0..10 {
            let path = ["f", "./f", "d/../f", "link"][(at + round) % 4];
            let conversation = host.start(format!("edit {at} in {path};")).await.unwrap();
            work.push(tokio::spawn(async move {
                let outcome = conversation.finished().await.unwrap();
                (path, outcome, responses(&conversation).await)
            }));
        }
        let mut landed = Vec::new();
        for (at, work) in work.into_iter().enumerate() {
            let (path, outcome, responses) = work.await.unwrap();
            assert_eq!(outcome.into_text().unwrap(), "done");
            let [response] = &responses[..] else { panic!("{responses:?}") };
            match response.outcome {
                CallOutcome::Completed => landed.push(at),
                CallOutcome::Failed => {
                    assert!(response.agent.contains("changed"), "{path}: {}", response.agent);
                }
                other => panic!("{path}: {other}: {}", response.agent),
            }
        }
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            lines(&|at| landed.contains(&at)),
            "round {round}"
        );
        // Read, changed and written under one lock, whatever the spelling: nobody has to fail.
        assert_eq!(landed.len(), 10, "round {round}");
    }
    assert!(folder.path().join("link").is_symlink());
}

const RULES: &str = r#"{"schemaVersion": 2, "overlays": [{"ruleSetId": "supervised", "rules": [
    {"id": "notes", "decision": "allow", "when": {"toolNames": ["write"]}}]}]}"#;

/// Writes a note in each conversation.
fn writer() -> ScriptedModel {
    ScriptedModel::from_fn(|request| match request.messages.last() {
        Some(Message::ToolResult(_)) => ScriptedReply::text("done"),
        _ => ScriptedReply::call_tool("write", json!({"path": "note.txt", "content": "a note"})),
    })
}

async fn wrote(host: &Host) -> CallOutcome {
    let conversation = host.start("write").await.unwrap();
    drop(conversation.finished().await.unwrap());
    responses(&conversation).await.first().unwrap().outcome
}

fn put(file: &Path, text: &str) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

#[tokio::test]
async fn the_rules_in_a_fresh_home_count_and_edits_count_when_they_are_accepted() {
    let (home, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = home.path().join("config/permissions.json");
    put(&file, RULES);
    let open = async || {
        let builder = Host::local().home(home.path()).project(project.path()).model(writer()).unattended();
        builder.open().await.unwrap()
    };
    let host = open().await;
    assert_eq!(host.policy().status().await.unwrap().standing, Standing::Active);
    assert_eq!(wrote(&host).await, CallOutcome::Completed);

    // An edit restricts at once, and allows more only when it is accepted.
    put(&file, &RULES.replace("write", "edit"));
    assert_eq!(wrote(&host).await, CallOutcome::Denied);
    put(&file, &RULES.replace("[\"write\"]", "[\"write\", \"edit\"]"));
    assert_eq!(wrote(&host).await, CallOutcome::Denied);
    let status = host.policy().status().await.unwrap();
    assert_eq!((status.standing, status.added.len(), status.removed.len()), (Standing::Changed, 1, 1));
    host.policy().trust(status.digest.unwrap()).await.unwrap();
    assert_eq!(wrote(&host).await, CallOutcome::Completed);

    // What was decided outlives the process.
    host.shutdown(Duration::from_secs(10)).await;
    drop(host);
    let host = open().await;
    assert_eq!(host.policy().status().await.unwrap().standing, Standing::Active);
    assert_eq!(wrote(&host).await, CallOutcome::Completed);
    put(&file, "{");
    let conversation = host.start("write").await.unwrap();
    drop(conversation.finished().await.unwrap());
    assert_eq!(responses(&conversation).await[0].outcome, CallOutcome::Denied);
    let problems = conversation.snapshot().await.unwrap().state.policy_problems;
    assert!(problems[0].reason.contains("line 1, column"), "{problems:?}");
}

#[tokio::test]
async fn a_host_may_trust_what_else_edits_the_rules_of_its_user() {
    let (home, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = home.path().join("config/permissions.json");
    let builder = Host::local().home(home.path()).project(project.path()).model(writer()).unattended();
    let host = builder.trust_external_edits(true).open().await.unwrap();
    assert_eq!(wrote(&host).await, CallOutcome::Denied);
    put(&file, RULES);
    assert_eq!(wrote(&host).await, CallOutcome::Completed);
    put(&file, "{");
    assert_eq!(wrote(&host).await, CallOutcome::Denied);
    put(&file, RULES);
    assert_eq!(wrote(&host).await, CallOutcome::Completed);
}

#[tokio::test]
async fn rules_that_could_not_be_read_in_a_fresh_home_are_not_accepted_unseen() {
    let (home, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = home.path().join("config/permissions.json");
    put(&file, &RULES[1..]);
    let builder = Host::local().home(home.path()).project(project.path()).model(writer()).unattended();
    let host = builder.open().await.unwrap();
    assert_eq!(host.policy().status().await.unwrap().standing, Standing::Malformed);
    assert_eq!(wrote(&host).await, CallOutcome::Denied);
    put(&file, RULES);
    let status = host.policy().status().await.unwrap();
    assert_eq!((status.standing, wrote(&host).await), (Standing::Changed, CallOutcome::Denied));
    host.policy().trust(status.digest.unwrap()).await.unwrap();
    assert_eq!(wrote(&host).await, CallOutcome::Completed);
}

#[tokio::test]
async fn with_a_backend_of_the_hosts_projects_have_rules_and_users_have_none() {
    let (folder, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(&project.path().join(".nerve/config/permissions.json"), RULES);
    let backend = RedbBackend::options(folder.path().join("store.redb")).open().await.unwrap();
    let assets = FileAssetStore::new(folder.path().join("assets"));
    let builder = Host::in_memory().backend(backend).assets(assets).project(project.path());
    let host = builder.model(writer()).unattended().open().await.unwrap();
    let policy = host.project().policy();
    let status = policy.status().await.unwrap();
    assert_eq!((status.standing, wrote(&host).await), (Standing::Untrusted, CallOutcome::Denied));
    policy.trust(status.digest.unwrap()).await.unwrap();
    assert_eq!(wrote(&host).await, CallOutcome::Completed);
    let error = host.policy().status().await.unwrap_err();
    assert!(error.to_string().contains("no document of that scope"), "{error}");
}

#[tokio::test]
async fn every_project_of_a_host_is_trusted_by_itself() {
    let (home, here, there) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for project in [&here, &there] {
        put(&project.path().join(".nerve/config/permissions.json"), RULES);
    }
    let builder = Host::local().home(home.path()).project(here.path()).model(writer()).unattended();
    let host = builder.open().await.unwrap();
    let digest = host.project().policy().status().await.unwrap().digest.unwrap();
    host.project().policy().trust(digest).await.unwrap();
    let other = host.project_at(there.path()).await.unwrap();
    assert_eq!(other.policy().status().await.unwrap().standing, Standing::Untrusted);
    let conversation = other.converse(host.config().clone()).await.unwrap();
    drop(conversation.ask("write").await.unwrap());
    assert_eq!(responses(&conversation).await[0].outcome, CallOutcome::Denied);
    assert_eq!(wrote(&host).await, CallOutcome::Completed);
}

#[tokio::test]
async fn rules_speak_of_folders_that_the_host_registers_and_what_it_protects_is_asked_about() {
    let (home, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shared = tempfile::tempdir().unwrap();
    std::fs::write(shared.path().join("token.txt"), "secret").unwrap();
    put(
        &home.path().join("config/permissions.json"),
        r#"{"schemaVersion": 2, "overlays": [{"ruleSetId": "supervised", "rules": [{"id": "shared", "decision": "allow",
            "when": {"toolNames": ["write"], "targets": {"quantifier": "all",
                "matcher": {"kind": "path", "root": "host:shared", "pattern": "**"}}}}]}]}"#,
    );
    let model = |path: std::path::PathBuf, tool: &'static str| {
        ScriptedModel::from_fn(move |request| match request.messages.last() {
            Some(Message::ToolResult(_)) => ScriptedReply::text("done"),
            _ if tool == "write" => {
                ScriptedReply::call_tool(tool, json!({"path": path, "content": "a note"}))
            }
            _ => ScriptedReply::call_tool(tool, json!({"path": path})),
        })
    };
    let open = async |model| {
        let builder = Host::local().home(home.path()).project(project.path()).model(model).unattended();
        builder.root("shared", shared.path()).protect(shared.path().join("token.txt")).open().await.unwrap()
    };
    for (path, tool, expected) in [
        (shared.path().join("note.txt"), "write", CallOutcome::Completed),
        (home.path().join("note.txt"), "write", CallOutcome::Denied),
        (shared.path().join("note.txt"), "read", CallOutcome::Completed),
        (shared.path().join("token.txt"), "read", CallOutcome::Denied),
    ] {
        let host = open(model(path.clone(), tool)).await;
        assert_eq!(wrote(&host).await, expected, "{tool} {}", path.display());
        host.shutdown(Duration::from_secs(10)).await;
    }
    let missing = Host::local().home(home.path()).model(silent()).root("gone", shared.path().join("gone"));
    assert!(matches!(&problems(missing).await[..], [BuildProblem::NoSuchFolder { .. }]));
}
