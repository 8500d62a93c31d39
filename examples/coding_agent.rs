//! An agent that works in a folder: survey, search, edit, run a command, ask, be killed, come back, and finish.
//!
//! Shows the whole of a terminal host: streaming text, tool cards with diffs, approvals that are remembered, answers,
//! Ctrl-C, resuming by id, JSON output for programs. With the model `demo` (the default) it needs no network.
//!
//! Exit codes: 0 completed, 1 failed (or stopped), 2 wrong use, 3 something was denied for want of a person, 75 the
//! store is in use.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nervekit::conversation::{BackendError, CallOutcome, Event, EventPayload, Page, StoreError};
use nervekit::permissions::{Enforcement, display};
use nervekit::tools::UserProjection;
use nervekit::types::{ConversationId, Principal};
use nervekit::{
    BuildError, BuildProblem, Conversation, Ending, Host, Interaction, InteractionKind, Outcome, Resolution,
    Update, Updates,
};

const HELP: &str = "\
usage: coding_agent [OPTIONS] [PROMPT]

  --project DIR          the folder to work in (default: the current one)
  --home DIR             where conversations are kept (default: $NERVE_HOME, else ~/.nerve)
  --model ID             `demo` (default), or `provider/id` such as `openai/gpt-5` or `ollama/qwen3`
  --rule-set ID          read_only, supervised (default), autonomous, planning
  --resume CONVERSATION  go on with a conversation
  --list                 list conversations
  --yes                  approve what would be asked, except control files, guardrails and the fallback policy
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
    rule_set: Option<String>,
    resume: Option<ConversationId>,
    list: bool,
    yes: bool,
    no_input: bool,
    json: bool,
    prompt: Option<String>,
}

fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    let mut arguments = arguments.peekable();
    let mut words = Vec::new();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--project" => options.project = Some(value()?.into()),
            "--home" => options.home = Some(value()?.into()),
            "--model" => options.model = Some(value()?),
            "--rule-set" => options.rule_set = Some(value()?),
            "--resume" => options.resume = Some(value()?.parse().map_err(|error| format!("{error}"))?),
            "--list" => options.list = true,
            "--yes" => options.yes = true,
            "--no-input" => options.no_input = true,
            "--json" => options.json = true,
            "--help" | "-h" => return Err(String::new()),
            "--" => words.extend(arguments.by_ref()),
            flag if flag.starts_with("--") => return Err(format!("`{flag}` is not an option")),
            _ => words.push(argument),
        }
    }
    if !words.is_empty() {
        options.prompt = Some(words.join(" "));
    }
    Ok(options)
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
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
    let host = match open(&options).await {
        Ok(host) => host,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(if is_in_use(&error) { 75 } else { 1 });
        }
    };
    let ended = run(&host, &options).await;
    host.shutdown(LEAVE).await;
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(1)
        }
    }
}

async fn open(options: &Options) -> Result<Host, BuildError> {
    let model = options.model.as_deref().unwrap_or("demo");
    let mut builder = Host::local().project(options.project.clone().unwrap_or_else(|| PathBuf::from(".")));
    builder = if model == "demo" && std::io::stdout().is_terminal() {
        builder.model(nervekit::demo::DemoModel::new().pace(Duration::from_millis(15)))
    } else {
        builder.model(model)
    };
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
            let title = conversation.title.as_deref().unwrap_or("");
            println!(
                "{}  {:?}  {}  {}",
                conversation.id,
                conversation.status,
                conversation.updated_at,
                display(title)
            );
        }
        return Ok(0);
    }
    let (conversation, updates) = if let Some(id) = options.resume {
        resume(host, id, options).await?
    } else {
        let prompt = options.prompt.as_deref().unwrap_or(DEFAULT_PROMPT);
        let conversation = host.create(Some(prompt.chars().take(80).collect())).await?;
        if !options.json {
            println!("conversation {}", conversation.id());
        }
        let updates = conversation.updates().await?;
        conversation.submit(prompt).await?;
        (conversation, updates)
    };
    let outcome = follow(&conversation, updates, options).await?;
    Ok(code(&outcome))
}

/// Goes on with a conversation: with a new prompt, or with what is unfinished.
async fn resume(
    host: &Host,
    id: ConversationId,
    options: &Options,
) -> Result<(Conversation, Updates), nervekit::Error> {
    let conversation = host.conversation(id);
    let snapshot = conversation.snapshot().await?;
    let updates = conversation.follow(snapshot.cursor).await?;
    if let Some(prompt) = &options.prompt {
        conversation.submit(prompt.as_str()).await?;
    } else if snapshot.state.conversation.paused {
        conversation.resume().await?;
    } else if !snapshot.state.conversation.status.is_open() {
        conversation.continue_processing().await?;
    }
    Ok((conversation, updates))
}

async fn follow(
    conversation: &Conversation,
    mut updates: Updates,
    options: &Options,
) -> Result<Outcome, nervekit::Error> {
    let mut screen = Screen { json: options.json, at_line_start: true };
    let mut stopping = false;
    loop {
        let update = tokio::select! {
            update = updates.next() => update,
            _ = tokio::signal::ctrl_c() => {
                if stopping {
                    // The second time: leave at once. What runs is settled when the store is opened again.
                    std::process::exit(130);
                }
                stopping = true;
                eprintln!("\nstopping; Ctrl-C again leaves at once");
                conversation.stop().await?;
                continue;
            }
        };
        let Some(update) = update else {
            return Err(nervekit::conversation::QueryError::ShuttingDown.into());
        };
        let update = update?;
        screen.show(&update);
        match update {
            Update::Interaction(request) if !stopping => answer(conversation, &request, options).await?,
            Update::Finished(outcome) => return Ok(outcome),
            _ => {}
        }
    }
}

/// Answers by rule where the options say so, else by asking the person.
async fn answer(
    conversation: &Conversation,
    request: &Interaction,
    options: &Options,
) -> Result<(), nervekit::Error> {
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
    let nervekit::conversation::ToolCallView::Unfinished(call) =
        conversation.tool_call(request.call_id).await?
    else {
        return Ok(false);
    };
    let Some(evidence) = &call.supervision else { return Ok(false) };
    let marked = evidence.marks.iter().any(|mark| !mark.satisfied);
    let guarded =
        evidence.winner.as_ref().is_some_and(|winner| winner.rule.enforcement == Enforcement::Guardrail);
    Ok(!marked && !guarded && evidence.fallback.is_none())
}

fn code(outcome: &Outcome) -> u8 {
    match outcome.ending {
        Ending::Completed { .. } if outcome.denied.is_empty() => 0,
        Ending::Completed { .. } => 3,
        _ => 1,
    }
}

struct Screen {
    json: bool,
    at_line_start: bool,
}

impl Screen {
    fn show(&mut self, update: &Update) {
        if self.json {
            if let Ok(line) = serde_json::to_string(update) {
                println!("{line}");
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
        print!("{}", safe.join("\n"));
        // A closed pipe is no reason to stop the work.
        let _ = std::io::stdout().flush();
        self.at_line_start = delta.ends_with('\n');
    }

    fn line(&mut self, line: &str) {
        if !self.at_line_start {
            println!();
        }
        println!("{line}");
        self.at_line_start = true;
    }

    fn event(&mut self, event: &Event) {
        if let EventPayload::ToolCallResponse(response) = &event.payload {
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
            self.line(&format!("denied: {} ({})", display(&denied.tool_name), printable(&denied.reason)));
        }
    }
}

/// A line in which control and invisible characters are shown.
fn printable(line: &str) -> String {
    display(line)
}
