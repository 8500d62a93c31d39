//! A bot in CI: nobody is there, rules decide, the outcome is JSON on standard output and an exit code.
//!
//! Shows: an unattended host with limits; a policy file that says what the bot may do beyond reading; a job that is named
//! by a key, so that a run that is repeated, or killed and started again, does its work once and reports one outcome.
//!
//! Exit codes: 0 completed, 1 failed, 2 wrong use, 3 something was denied for want of a person, 75 try again later.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nervekit::conversation::NewConversation;
use nervekit::permissions::{DocumentScope, PolicyDocument, Roots, RuleEngine};
use nervekit::types::{ConversationId, InputId, Retry};
use nervekit::{Ending, Error, Host, HostBuilder, Limits, NewInput, Outcome, RecoveryPolicy};

const USAGE: &str = "\
usage: ci_bot --key KEY [OPTIONS] TASK

  --key KEY       names the job: one key is one conversation, however often it is run
  --project DIR   the checkout to work on (default: the current folder)
  --home DIR      what is kept between runs, such as a cached folder (default: nothing is)
  --policy FILE   what the bot may do; by default it may only read
";

#[derive(Default)]
struct Job {
    key: String,
    project: PathBuf,
    home: Option<PathBuf>,
    policy: PolicyDocument,
    task: String,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Job, String> {
    let mut job = Job { project: ".".into(), ..Job::default() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--key" => job.key = value()?,
            "--project" => job.project = value()?.into(),
            "--home" => job.home = Some(value()?.into()),
            "--policy" => job.policy = policy(&value()?)?,
            _ if argument.starts_with("--") => return Err(format!("`{argument}` is not an option")),
            _ => job.task = argument,
        }
    }
    if job.key.is_empty() || job.task.is_empty() {
        return Err("a key and a task are needed".to_owned());
    }
    job.project = job.project.canonicalize().map_err(|error| format!("`--project`: {error}"))?;
    Ok(job)
}

/// The policy belongs to the job. It is never read from the checkout: what is checked out may be anybody's.
fn policy(file: &str) -> Result<PolicyDocument, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("`{file}`: {error}"))?;
    PolicyDocument::parse(DocumentScope::User, &bytes).map_err(|error| format!("`{file}`: {error}"))
}

fn host(job: &Job) -> HostBuilder {
    let mut roots = Roots::new().project(&job.project).temp(std::env::temp_dir());
    let mut host = match &job.home {
        Some(home) => {
            roots = roots.nerve_home(home).nerve_data(home.join("data"));
            // Two runs of one job at once: the second waits for the first.
            Host::local().home(home).lock_wait(Duration::from_secs(60))
        }
        None => Host::in_memory(),
    };
    host = host.permissions(RuleEngine::new(roots).user_document(job.policy.clone()));
    host.project(&job.project)
        .model("demo")
        .unattended()
        .limits(Limits::new().turns(40).time(Duration::from_secs(600)).tokens(2_000_000))
        .recovery(RecoveryPolicy::Continue { at_most: 3 })
}

/// Does the job, or finds that it was done: the conversation and the input have the key's id.
async fn work(host: &Host, job: &Job) -> Result<Outcome, Error> {
    let new = NewConversation::new(host.project().id(), host.config().clone());
    let new = new.id(ConversationId::from_key(&job.key)).title(&job.key);
    let conversation = host.project().create_conversation(new).await?;
    let task = NewInput::new(&job.task).id(InputId::from_key(&job.key));
    Ok(conversation.ask(task).await?)
}

fn code(outcome: &Outcome) -> u8 {
    match outcome.ending {
        Ending::Completed { .. } if outcome.denied.is_empty() => 0,
        Ending::Completed { .. } => 3,
        _ => 1,
    }
}

fn failed(error: &Error) -> u8 {
    eprintln!("{error}");
    if error.retry() == Retry::Never { 1 } else { 75 }
}

#[tokio::main]
async fn main() -> ExitCode {
    let job = match parse(std::env::args().skip(1)) {
        Ok(job) => job,
        Err(problem) => {
            eprintln!("{problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let host = match host(&job).open().await {
        Ok(host) => host,
        Err(error) => return ExitCode::from(failed(&error.into())),
    };
    let outcome = work(&host, &job).await;
    host.shutdown(Duration::from_secs(10)).await;
    ExitCode::from(match outcome {
        Ok(outcome) => {
            println!("{}", serde_json::json!(outcome));
            code(&outcome)
        }
        Err(error) => failed(&error),
    })
}
