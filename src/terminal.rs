//! Questions and approvals in a terminal.

use std::io::{BufRead as _, Write as _};

use nervekit_conversation_core::{
    CommandError, Conversation, Interaction, InteractionKind, PolicyHandle, QueryError, Remember, Resolution,
};
use nervekit_permissions::{
    BoundRule, Decision, DocumentError, DocumentStatus, GrantScope, Standing, SuggestedRule,
};
use nervekit_types::{Digest, Principal};

use crate::error::Error;

/// What a person answered at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Line(String),
    /// Standard input has ended: nobody answers.
    Ended,
}

/// Shows an interaction, reads the person's answer from standard input, and resolves it. The async runtime is not
/// blocked meanwhile.
///
/// Everything is shown in a form that is safe to print. When standard input has ended nobody can answer: the request
/// is denied, in words and by a principal that say so. If somebody else resolves it first, that is said and nothing is done.
///
/// ```no_run
/// use nervekit::{Conversation, Error, Update};
/// async fn ask(conversation: &Conversation, update: Update) -> Result<(), Error> {
///     if let Update::Interaction(request) = update {
///         nervekit::terminal::answer(conversation, &request).await?;
///     }
///     Ok(())
/// }
/// ```
pub async fn answer(conversation: &Conversation, interaction: &Interaction) -> Result<(), Error> {
    let _ = writeln!(std::io::stdout(), "\n{}", interaction.display());
    let answered = match &interaction.kind {
        InteractionKind::Approval { suggested, rememberable } => {
            approval(interaction, if *rememberable { suggested } else { &[] }).await?
        }
        InteractionKind::Question(question) => question_answer(question.options.clone()).await?,
        _ => Some(Resolution::Cancel),
    };
    if let Some(resolution) = answered {
        return resolve(conversation, interaction, resolution).await;
    }
    // It is on record that no person said this.
    let nobody = conversation.by(Principal::automatic("end of input"));
    let message = Some("nobody was there to answer".to_owned());
    resolve(&nobody, interaction, Resolution::Deny { message, remember: None }).await
}

/// Resolves an interaction; one that somebody else resolved first is told, and is no error.
///
/// ```no_run
/// use nervekit::{Conversation, Error, Interaction, Resolution};
/// async fn deny(conversation: &Conversation, shown: &Interaction) -> Result<(), Error> {
///     nervekit::terminal::resolve(conversation, shown, Resolution::deny()).await
/// }
/// ```
pub async fn resolve(
    conversation: &Conversation,
    interaction: &Interaction,
    resolution: Resolution,
) -> Result<(), Error> {
    match conversation.resolve(interaction.id, resolution).await {
        Ok(_) => Ok(()),
        Err(error @ (CommandError::Resolved { .. } | CommandError::Stale { .. })) => {
            eprintln!("{error}");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Shows a document with permission rules of which nobody decided whether it counts, and asks a person: `y` accepts
/// exactly the version that was shown, `n` refuses it, anything else leaves it for later. What is wrong with a document
/// is shown without a question; one that counts, or that does not exist, is not mentioned.
///
/// ```no_run
/// use nervekit::{Error, Host};
/// async fn begin(host: &Host) -> Result<(), Error> {
///     nervekit::terminal::review(&host.policy()).await?;
///     nervekit::terminal::review(&host.project().policy()).await
/// }
/// ```
pub async fn review(policy: &PolicyHandle) -> Result<(), Error> {
    let status = match policy.status().await {
        Ok(status) => status,
        // This host keeps no such document.
        Err(QueryError::Invalid(_)) => return Ok(()),
        Err(QueryError::Document(error)) if matches!(*error, DocumentError::Unsupported) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let lines = review_lines(&status);
    if lines.is_empty() {
        return Ok(());
    }
    let _ = writeln!(std::io::stdout(), "\n{}", lines.join("\n"));
    let (Standing::Untrusted | Standing::Changed, Some(digest)) = (status.standing, status.digest) else {
        return Ok(());
    };
    let Said::Line(line) = read("Accept these rules? [y/n/later] ".to_owned()).await? else { return Ok(()) };
    let decided = match line.trim().to_lowercase().as_str() {
        "y" | "yes" => policy.trust(digest).await,
        "n" | "no" => policy.reject(digest).await,
        _ => return Ok(()),
    };
    match decided {
        // Somebody wrote another version meanwhile: nothing of it counts either.
        Err(error @ CommandError::Policy(_)) => {
            eprintln!("{error}");
            Ok(())
        }
        decided => Ok(decided?),
    }
}

/// What a person has to know of a document, safe to print.
fn review_lines(status: &DocumentStatus) -> Vec<String> {
    let safe = nervekit_permissions::display;
    let mut lines = match status.standing {
        Standing::Absent | Standing::Active | Standing::Rejected => return Vec::new(),
        standing => vec![format!("rules in {}: {standing}", safe(&status.place))],
    };
    lines.extend(status.problem.iter().map(|problem| format!("  {}", safe(problem))));
    let under = |rule: &BoundRule| {
        rule.rule_set_id.as_deref().map_or_else(String::new, |set| format!(" (under `{}`)", safe(set)))
    };
    let mut list = |what: &str, rules: &mut dyn Iterator<Item = &BoundRule>| {
        lines.extend(rules.map(|rule| format!("  {what}: {}{}", safe(&rule.summary), under(rule))));
    };
    let restricts = |rule: &&BoundRule| rule.rule.enabled && rule.rule.decision != Decision::Allow;
    list("would run without asking", &mut status.automatic.iter());
    list("would be asked about or denied", &mut status.added.iter().filter(restricts));
    list("would no longer be asked about or denied", &mut status.removed.iter().filter(restricts));
    lines
}

/// What a person decides; none when nobody is there.
async fn approval(
    interaction: &Interaction,
    suggested: &[SuggestedRule],
) -> Result<Option<Resolution>, Error> {
    let kept = keepable(suggested);
    for (at, (remember, label)) in kept.iter().enumerate() {
        let place = place(remember.scope);
        let _ = writeln!(std::io::stdout(), "  {}: yes, and {place} always: {label}", at + 1);
    }
    let choices = if kept.is_empty() { "[y/n]" } else { "[y/n/number]" };
    loop {
        let line = match read(format!("Allow? {choices} ")).await? {
            Said::Line(line) => line,
            Said::Ended => return Ok(None),
        };
        if let Some(resolution) = decision(&line, interaction.digest, &kept) {
            return Ok(Some(resolution));
        }
        let help = "`y` allows it once, `n` denies it (`n because …` tells the model why)";
        let more =
            if kept.is_empty() { "" } else { "; `1` allows what the line says, `-1` denies it, from now on" };
        let _ = writeln!(std::io::stdout(), "{help}{more}");
    }
}

/// What a line says about an approval; `None` when it says nothing that is known. The model reads a reason as it was
/// typed.
fn decision(line: &str, digest: Digest, kept: &[(Remember, String)]) -> Option<Resolution> {
    let line = line.trim();
    let (word, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (word.to_lowercase().as_str(), reason.trim()) {
        ("y" | "yes", "") => return Some(Resolution::approve(digest)),
        ("n" | "no", "") => return Some(Resolution::deny()),
        ("n" | "no", reason) => {
            return Some(Resolution::Deny { message: Some(reason.to_owned()), remember: None });
        }
        _ => {}
    }
    let (never, number) = line.strip_prefix('-').map_or((false, line), |number| (true, number));
    let (remember, _) = kept.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
    let answer = if never { Resolution::deny() } else { Resolution::approve(digest) };
    Some(answer.remember(remember.clone()))
}

/// Where each suggested rule may be kept, with what it is about, safe to print.
fn keepable(suggested: &[SuggestedRule]) -> Vec<(Remember, String)> {
    let each = suggested.iter().enumerate().flat_map(|(at, rule)| {
        let kept = rule.scopes.iter().filter(|scope| **scope != GrantScope::Once);
        kept.map(move |scope| (Remember::new(*scope, at), nervekit_permissions::display(&rule.label)))
    });
    each.collect()
}

const fn place(scope: GrantScope) -> &'static str {
    match scope {
        GrantScope::Once => "this once",
        GrantScope::Conversation => "in this conversation",
        GrantScope::Project => "in this project",
        _ => "everywhere",
    }
}

/// What a person answers; none when nobody is there.
async fn question_answer(options: Vec<String>) -> Result<Option<Resolution>, Error> {
    loop {
        let line = match read("Answer: ".to_owned()).await? {
            Said::Line(line) => line.trim().to_owned(),
            Said::Ended => return Ok(None),
        };
        let number = line.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        if let Some(option) = number.and_then(|at| options.get(at)) {
            return Ok(Some(Resolution::answer(option.clone())));
        }
        if !line.is_empty() {
            return Ok(Some(Resolution::answer(line)));
        }
    }
}

/// Reads a line without blocking the runtime. Whoever stops waiting leaves the thread at the read; the line it then
/// gets answers the next question.
async fn read(prompt: String) -> Result<Said, Error> {
    let reading = tokio::task::spawn_blocking(move || -> std::io::Result<Said> {
        let mut out = std::io::stdout().lock();
        // Who closed the output may still answer.
        let _ = write!(out, "{prompt}").and_then(|()| out.flush());
        drop(out);
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line)? {
            0 => Ok(Said::Ended),
            _ => Ok(Said::Line(line)),
        }
    });
    match reading.await {
        Ok(said) => Ok(said?),
        Err(_) => Ok(Said::Ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_a_decision_and_a_reason_as_it_was_typed() {
        let digest = Digest::of("shown");
        let kept = [
            (Remember::conversation(0), "a".to_owned()),
            (Remember::new(GrantScope::User, 1), "b".to_owned()),
        ];
        let deny = |reason: &str| Resolution::Deny { message: Some(reason.to_owned()), remember: None };
        for (line, expected) in [
            ("y", Some(Resolution::approve(digest))),
            (" YES\n", Some(Resolution::approve(digest))),
            ("n", Some(Resolution::deny())),
            ("No, ", None),
            ("n Use `Cargo.toml`, not README.md ", Some(deny("Use `Cargo.toml`, not README.md"))),
            ("NO  ask Ada", Some(deny("ask Ada"))),
            ("1", Some(Resolution::approve(digest).remember(kept[0].0.clone()))),
            ("-2", Some(Resolution::deny().remember(kept[1].0.clone()))),
            ("y please", None),
            ("0", None),
            ("3", None),
            ("--1", None),
            ("", None),
        ] {
            assert_eq!(decision(line, digest, &kept), expected, "{line:?}");
        }
    }
}
