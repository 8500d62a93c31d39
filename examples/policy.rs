//! Rules from a shell: check them, ask what they decide about a call, trust a project's, save and revoke answers.
//!
//! Shows: the documents of a person and of projects, what was decided about them in the store of the conversations, and
//! the engine of `Host` over both, without a host. It judges the tools of the catalog as `Host::local()` does: the same
//! folders, the same files, the same arguments.
//!
//! Exit codes: 0 done, whatever the decision (for `validate`: every file is good); 1 failed or refused: a file that is
//! not valid, a document that changed or that nobody accepted, a rule that is not there; 2 wrong use, an unknown tool or
//! arguments that it refuses included; 75 a host, or another `policy`, has had the store open for two seconds.

#[path = "policy/call.rs"]
mod call;
#[path = "policy/document.rs"]
mod document;
#[path = "policy/given.rs"]
mod given;
#[path = "policy/place.rs"]
mod place;
#[path = "policy/rule.rs"]
mod rule;
#[path = "policy/validate.rs"]
mod validate;

use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;

use given::Given;

const HELP: &str = "\
usage: policy COMMAND [OPTIONS]

  validate FILE…    check documents and rule sets; `-` is the standard input. A file of rules is checked as a
                    project's when it is `.nerve/config/permissions.json` of one, else as the person's
      --scope S           as what: user, project, conversation
  explain           print what is decided about a call, and why, as one JSON object with `decision`
      --tool NAME         the tool
      --args JSON         its arguments; `-` reads them from the standard input
      --rule-set ID       that of the conversation (default: supervised; with `--mode planning`: planning)
      --mode MODE         coding (default), planning
      --origin WHO        model (default), user
      --cwd DIR           where relative paths of the call start (default: the project)
      --conversation ID   as a call of this conversation: with its rules, and its project, rule set, mode and folder
                          where no other is given
  trust status      show whether a document counts, and what it makes automatic
  trust accept      accept the version that was shown: exactly the bytes with this digest
      --digest DIGEST     the digest that `trust status` shows
  trust reject      refuse a version (default: the one that is there)
  accept-user       accept the version of the person's document that was shown, like `trust accept --scope user`
      --digest DIGEST     the digest that `trust status --scope user` shows
  grant             list the rules that would answer a call that asks; with `--suggestion`, save one of them
      --tool … --cwd      the call, as for `explain`, but of no conversation
      --suggestion N      which one
      --scope S           for whom: project, user
      --deny              refuse from now on, instead of allowing
      --guardrail         no other rule may override it: always ask, or with `--deny` never; for user only
  list              list the rules of the person and of the project
  revoke RULE       take a rule out of a document
      --scope S           whose: user, project

  for all but `validate`:
      --home DIR          where the person's rules and the store are (default: $NERVE_HOME, else ~/.nerve)
      --project DIR       the project (default: the current folder)
  for `trust` and `list`:
      --scope S           whose documents: user, project (default: for `trust` project, for `list` both)
  for `trust` with `--scope user`, and for `accept-user`:
      --rule-set ID       the rule set `config/rule-sets/ID.json` of the person, instead of the rules
  for `trust status`, `grant` and `list`:
      --json              JSON instead of text

What a new home holds when it is first used is the person's, and counts. From then on a file that was edited, not
written by `policy` or a host, restricts at once and allows nothing new until it is accepted.

While a host has the store open, nothing else reads or writes it: `policy` waits two seconds, for another `policy` to
end, and then exits 75.
";

/// How a command ended.
enum Answer {
    Good(String),
    /// It did what it was asked to do, and found something bad.
    Bad(String),
}

/// Why a command was not carried out.
enum Failure {
    Use(String),
    Refused(String),
    InUse(String),
}

impl Failure {
    fn refused(error: impl fmt::Display) -> Self {
        Self::Refused(error.to_string())
    }
}

fn main() -> ExitCode {
    let given = match Given::parse(std::env::args_os().skip(1)) {
        Ok(Some(given)) => given,
        Ok(None) => {
            print(HELP);
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("{problem}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(&given) {
        Ok(Answer::Good(text)) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Ok(Answer::Bad(text)) => {
            print(&text);
            ExitCode::from(1)
        }
        Err(failure) => {
            let (code, words) = match failure {
                Failure::Use(words) => (2, format!("{words}\n`policy --help` tells how it is used")),
                Failure::Refused(words) => (1, words),
                Failure::InUse(words) => (75, words),
            };
            eprintln!("{words}");
            ExitCode::from(code)
        }
    }
}

fn run(given: &Given) -> Result<Answer, Failure> {
    if given.command == "validate" {
        return validate::validate(given);
    }
    // The threads that wait for disks are those of the store and of the documents.
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(Failure::refused)?;
    let text = runtime.block_on(async {
        match given.command {
            "explain" => call::explain(given).await,
            "grant" => call::grant(given).await,
            "trust status" => document::status(given).await,
            "trust reject" => document::reject(given).await,
            "list" => rule::list(given).await,
            "revoke" => rule::revoke(given).await,
            _ => document::accept(given).await,
        }
    })?;
    Ok(Answer::Good(text))
}

/// Prints; a reader that went away is no failure.
fn print(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
