//! An agent that works in a folder: survey, search, edit, run a command, ask, be killed, come back, and finish.
//!
//! Shows the whole of a terminal host: streaming text, tool cards with diffs, approvals that are remembered, rules of a
//! project that a person accepts, answers, Ctrl-C, resuming by id, JSON output for programs. With the model `demo` (the default) it needs no network.
//!
//! Exit codes: 0 completed, 1 failed (or stopped), 2 wrong use, 3 something that needs an approval was denied for want
//! of a person, 75 the store is in use, 130 left at the second Ctrl-C.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nervekit::conversation::{
    BackendError, CallOutcome, Event, EventPayload, Page, QueryError, Status, StoreError, ToolCallResponse,
    ToolCallView,
};
use nervekit::permissions::{Decision, Enforcement, display};
use nervekit::tools::UserProjection;
use nervekit::types::{ConversationId, Principal, PrincipalKind};
use nervekit::{
    BuildError, BuildProblem, Conversation, Ending, Host, Interaction, InteractionKind, Outcome, Resolution,
    Update, Updates,
};

const HELP: &str = "\
usage: coding_agent [OPTIONS] [PROMPT]

  --project DIR          the folder to work in (default: the current one; a resumed conversation knows its own)
  --home DIR             where conversations are kept (default: $NERVE_HOME, else ~/.nerve)
  --model ID             `demo` (default), or `provider/id` such as `openai/gpt-5` or `ollama/qwen3`
  --pace MILLISECONDS    how long `demo` waits between words (default: 15 in a terminal, else 0)
  --rule-set ID          read_only, supervised (default), autonomous, planning
  --resume CONVERSATION  go on with a conversation: with what is unfinished, or with a new prompt
  --list                 list conversations
  --yes                  approve what would be asked, except control files, guardrails and the fallback policy
                         (questions are still asked; without standard input they are denied)
  --no-input             nobody is there: what would be asked is denied
  --json                 one JSON object for each durable event and update
";

const DEFAULT_PROMPT: &str = "Survey this folder and write a short report about it.";

/// How long the host is given to record what runs when it leaves.
const LEAVE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a flag of the command line each")]
struct Options {
    project: Option<PathBuf>,
    home: Option<PathBuf>,
    model: Option<String>,
    pace: Option<Duration>,
    rule_set: Option<String>,
    resume: Option<ConversationId>,
    list: bool,
    yes: bool,
    no_input: bool,
    json: bool,
    prompt: Option<String>,
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Options, String> {
    let text = |argument: OsString| {
        argument.into_string().map_err(|argument| format!("`{}` is not Unicode", argument.display()))
    };
    let mut options = Options::default();
    let mut words = Vec::new();
    while let Some(argument) = arguments.next() {
        let argument = text(argument)?;
        let mut value = || arguments.next().ok_or_else(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--project" => options.project = Some(value()?.into()),
            "--home" => options.home = Some(value()?.into()),
            "--model" => options.model = Some(text(value()?)?),
            "--pace" => {
                let pace = text(value()?)?.parse().map_err(|error| format!("`--pace`: {error}"))?;
                options.pace = Some(Duration::from_millis(pace));
            }
            "--rule-set" => options.rule_set = Some(text(value()?)?),
            "--resume" => {
                options.resume = Some(text(value()?)?.parse().map_err(|error| format!("{error}"))?);
            }
            "--list" => options.list = true,
            "--yes" => options.yes = true,
            "--no-input" => options.no_input = true,
            "--json" => options.json = true,
            "--help" | "-h" => return Err(String::new()),
            "--" => {
                for word in arguments.by_ref() {
                    words.push(text(word)?);
                }
            }
            flag if flag.starts_with('-') => return Err(format!("`{flag}` is not an option")),
            _ => words.push(argument),
        }
    }
    if !words.is_empty() {
        options.prompt = Some(words.join(" "));
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(problem) if problem.is_empty() => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("{problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(1);
        }
    };
    let code = runtime.block_on(work(&options));
    // A thread may still wait for a line of standard input that nobody needs any more.
    runtime.shutdown_background();
    ExitCode::from(code)
}

async fn work(options: &Options) -> u8 {
    let host = match open(options).await {
        Ok(host) => host,
        Err(error) => {
            eprintln!("{error}");
            return if is_in_use(&error) { 75 } else { 1 };
        }
    };
    let ended = run(&host, options).await;
    host.shutdown(LEAVE).await;
    ended.unwrap_or_else(|error| {
        eprintln!("{error}");
        1
    })
}

async fn open(options: &Options) -> Result<Host, BuildError> {
    let model = options.model.as_deref().unwrap_or("demo");
    let pace =
        options.pace.unwrap_or(Duration::from_millis(if std::io::stdout().is_terminal() { 15 } else { 0 }));
    let mut builder = match model {
        "demo" => Host::local().model(nervekit::demo::DemoModel::new().pace(pace)),
        model => Host::local().model(model),
    };
    // What exists already needs no folder named.
    let needs_folder = !options.list && options.resume.is_none();
    if let Some(folder) = options.project.clone().or_else(|| needs_folder.then(|| PathBuf::from("."))) {
        builder = builder.project(folder);
    }
    if let Some(home) = &options.home {
        builder = builder.home(home);
    }
    if let Some(rule_set) = &options.rule_set {
        builder = builder.rule_set(rule_set);
    }
    if options.no_input {
        builder = builder.unattended();
    }
    builder.open().await
}

fn is_in_use(error: &BuildError) -> bool {
    error.problems.iter().any(|problem| {
        matches!(problem, BuildProblem::Store(StoreError::Backend(BackendError::InUse { .. })))
    })
}

async fn run(host: &Host, options: &Options) -> Result<u8, nervekit::Error> {
    if options.list {
        for conversation in host.conversations(Page::new(50)).await? {
            let title = display(conversation.title.as_deref().unwrap_or(""));
            let status = format!("{:?}", conversation.status).to_lowercase();
            print_line(&format!("{}  {status:<11}  {}  {title}", conversation.id, conversation.updated_at));
        }
        return Ok(0);
    }
    // Rules of a project, or of one's own that something else edited, count when a person accepts them.
    if !(options.json || options.no_input || options.yes) {
        nervekit::terminal::review(&host.policy()).await?;
        nervekit::terminal::review(&host.project().policy()).await?;
    }
    if let Some(id) = options.resume {
        let conversation = host.conversation(id);
        if !options.json {
            show_uncertain(host, &conversation, options).await?;
        }
        if let Some(updates) = resume(&conversation, options).await? {
            return follow(&conversation, updates, options).await;
        }
        let outcome = conversation.finished().await?;
        Screen::new(options).show(&Update::Finished(outcome.clone()));
        eprintln!("nothing is unfinished; go on with a prompt");
        return Ok(code(&outcome, false));
    }
    let prompt = options.prompt.as_deref().unwrap_or(DEFAULT_PROMPT);
    let conversation = host.create(Some(prompt.chars().take(80).collect())).await?;
    if !options.json {
        print_line(&format!("conversation {}", conversation.id()));
    }
    let updates = conversation.updates().await?;
    conversation.submit(prompt).await?;
    follow(&conversation, updates, options).await
}

/// Shows the calls of a conversation of which recovery could not tell whether they had their effect.
async fn show_uncertain(
    host: &Host,
    conversation: &Conversation,
    options: &Options,
) -> Result<(), nervekit::Error> {
    for call in &host.recovery().indeterminate {
        match conversation.tool_call(*call).await {
            Ok(ToolCallView::Settled(response)) => Screen::new(options).response(&response),
            // It is one of another conversation.
            Ok(ToolCallView::Unfinished(_)) | Err(QueryError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Goes on with a conversation: with a new prompt, or with what is unfinished, if anything is.
async fn resume(conversation: &Conversation, options: &Options) -> Result<Option<Updates>, nervekit::Error> {
    let snapshot = conversation.snapshot().await?;
    let updates = conversation.follow(snapshot.cursor).await?;
    let state = snapshot.state.conversation;
    let was_never_asked = state.head_event_id.is_none() && snapshot.state.queue.is_empty();
    match (&options.prompt, state.status) {
        (Some(prompt), _) => {
            conversation.submit(prompt.as_str()).await?;
        }
        (None, _) if was_never_asked => {
            conversation.submit(DEFAULT_PROMPT).await?;
        }
        (None, status) if state.paused && (status.is_open() || !snapshot.state.queue.is_empty()) => {
            conversation.resume().await?;
        }
        // A person stopped it, or it ended before it was done.
        (None, status) if state.paused || matches!(status, Status::Failed | Status::Interrupted) => {
            conversation.continue_processing().await?;
        }
        // It goes on by itself, or waits for an answer, which is asked for again.
        (None, status) if status.is_open() || !snapshot.state.queue.is_empty() => {}
        (None, _) => return Ok(None),
    }
    Ok(Some(updates))
}

/// Shows what happens and answers what is asked, until the work ends; returns the exit code.
async fn follow(
    conversation: &Conversation,
    mut updates: Updates,
    options: &Options,
) -> Result<u8, nervekit::Error> {
    let mut screen = Screen::new(options);
    let mut interrupt = Box::pin(tokio::signal::ctrl_c());
    let (mut stopping, mut nobody) = (false, false);
    let mut goes_on = options.resume.is_some();
    let mut asked = None;
    loop {
        tokio::select! {
            biased;
            _ = &mut interrupt => {
                if stopping {
                    // The second time: leave at once. What runs is settled when the store is opened again.
                    std::process::exit(130);
                }
                (stopping, asked) = (true, None);
                interrupt = Box::pin(tokio::signal::ctrl_c());
                eprintln!("\nstopping; Ctrl-C again leaves at once");
                conversation.stop().await?;
            }
            answered = answer(conversation, asked.as_deref(), options), if asked.is_some() => {
                answered?;
                asked = None;
            }
            update = updates.next(), if asked.is_none() => {
                let Some(update) = update else {
                    return Err(QueryError::ShuttingDown.into());
                };
                let update = update?;
                // What a resumed conversation was in the middle of may end as interrupted before it goes on.
                let interrupted = matches!(&update, Update::Finished(end) if end.ending == Ending::Interrupted);
                if interrupted && goes_on && !stopping {
                    goes_on = false;
                    conversation.continue_processing().await?;
                    continue;
                }
                screen.show(&update);
                match update {
                    Update::Event { event, .. } => nobody |= was_denied_for_want_of_a_person(&event),
                    Update::Interaction(request) if !stopping => asked = Some(request),
                    Update::Finished(outcome) => return Ok(code(&outcome, nobody)),
                    _ => {}
                }
            }
        }
    }
}

/// Whether a call that needs an approval was denied by no person.
fn was_denied_for_want_of_a_person(event: &Event) -> bool {
    let EventPayload::ToolCallResponse(response) = &event.payload else { return false };
    let ToolCallResponse { supervision: Some(supervision), resolution: Some(resolution), .. } = &**response
    else {
        return false;
    };
    response.outcome == CallOutcome::Denied
        && supervision.decision == Decision::Prompt
        && resolution.by.kind() != PrincipalKind::Person
}

/// Answers by rule where the options say so, else by asking the person.
async fn answer(
    conversation: &Conversation,
    request: Option<&Interaction>,
    options: &Options,
) -> Result<(), nervekit::Error> {
    let Some(request) = request else { return Ok(()) };
    if options.yes && may_be_approved_by_rule(conversation, request).await? {
        let conversation = conversation.by(Principal::automatic("--yes"));
        return nervekit::terminal::resolve(&conversation, request, Resolution::approve(request.digest))
            .await;
    }
    if options.no_input || options.json {
        let conversation = conversation.by(Principal::automatic("--no-input"));
        let words = "nobody is there to ask; go on without";
        let deny = Resolution::Deny { message: Some(words.to_owned()), remember: None };
        return nervekit::terminal::resolve(&conversation, request, deny).await;
    }
    nervekit::terminal::answer(conversation, request).await
}

/// `--yes` never approves what is marked, what a guardrail asks for, or what the fallback policy asks for.
async fn may_be_approved_by_rule(
    conversation: &Conversation,
    request: &Interaction,
) -> Result<bool, nervekit::Error> {
    if !matches!(request.kind, InteractionKind::Approval { .. }) {
        return Ok(false);
    }
    let ToolCallView::Unfinished(call) = conversation.tool_call(request.call_id).await? else {
        return Ok(false);
    };
    let Some(evidence) = &call.supervision else { return Ok(false) };
    let marked = evidence.marks.iter().any(|mark| !mark.satisfied);
    let guarded =
        evidence.winner.as_ref().is_some_and(|winner| winner.rule.enforcement == Enforcement::Guardrail);
    Ok(!marked && !guarded && evidence.fallback.is_none())
}

/// The exit code. A host that is unattended lists what it denied; here others may have, for `nobody`.
fn code(outcome: &Outcome, nobody: bool) -> u8 {
    match outcome.ending {
        Ending::Completed { .. } if nobody || !outcome.denied.is_empty() => 3,
        Ending::Completed { .. } => 0,
        _ => 1,
    }
}

/// Prints a line. A closed pipe is no reason to stop the work.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

struct Screen {
    json: bool,
    at_line_start: bool,
}

impl Screen {
    fn new(options: &Options) -> Self {
        Self { json: options.json, at_line_start: true }
    }

    fn show(&mut self, update: &Update) {
        if self.json {
            if let Ok(line) = serde_json::to_string(update) {
                print_line(&line);
            }
            return;
        }
        match update {
            Update::Text { delta, .. } => self.text(delta),
            Update::Restarted { attempt, .. } => self.line(&format!("[attempt {attempt}]")),
            Update::Event { event, .. } => self.event(event),
            Update::Finished(outcome) => self.finished(outcome),
            _ => {}
        }
    }

    /// Prints text as it comes; control characters are shown, not obeyed.
    fn text(&mut self, delta: &str) {
        let safe: Vec<String> = delta.split('\n').map(printable).collect();
        let mut out = std::io::stdout();
        let _ = write!(out, "{}", safe.join("\n")).and_then(|()| out.flush());
        self.at_line_start = delta.ends_with('\n');
    }

    fn line(&mut self, line: &str) {
        if !self.at_line_start {
            print_line("");
        }
        print_line(line);
        self.at_line_start = true;
    }

    fn event(&mut self, event: &Event) {
        if let EventPayload::ToolCallResponse(response) = &event.payload {
            self.response(response);
        }
    }

    fn response(&mut self, response: &ToolCallResponse) {
        let mark = match response.outcome {
            CallOutcome::Completed => "✓",
            CallOutcome::Denied => "⊘",
            CallOutcome::Indeterminate => "?",
            CallOutcome::Failed | CallOutcome::Cancelled => "✗",
        };
        self.line(&format!("{mark} {} ({})", display(&response.tool_name), response.outcome));
        let card = match &response.user {
            UserProjection::Text { text } | UserProjection::Diff { text, .. } => text.as_str(),
            _ => "",
        };
        for line in card.lines().take(20) {
            self.line(&format!("  │ {}", printable(line)));
        }
        let more = card.lines().skip(20).count();
        if more > 0 {
            self.line(&format!("  │ … {more} more lines"));
        }
    }

    fn finished(&mut self, outcome: &Outcome) {
        match &outcome.ending {
            Ending::Completed { .. } => self.line("done"),
            Ending::Failed { message, .. } => self.line(&format!("failed: {}", printable(message))),
            Ending::Cancelled => self.line("stopped"),
            Ending::Interrupted => self.line("interrupted"),
        }
        for denied in &outcome.denied {
            let reason = denied.reason.strip_prefix("Denied: ").unwrap_or(&denied.reason);
            self.line(&format!("denied: {}: {}", display(&denied.tool_name), printable(reason)));
        }
        if !matches!(outcome.ending, Ending::Completed { .. }) {
            self.line(&format!("go on with `--resume {}`", outcome.conversation_id));
        }
    }
}

/// A line in which control and invisible characters are shown.
fn printable(line: &str) -> String {
    display(line)
}
