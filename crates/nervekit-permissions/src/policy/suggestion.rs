//! What a person may remember of a prompt.

use serde_json::Value;

use crate::arguments::digest_of;
use crate::canonical::{CanonicalSubject, CanonicalTarget, PathTarget};
use crate::command::runs_what_it_is_given;
use crate::decision::{CallOrigin, Decision};
use crate::descriptor::Risk;
use crate::grant::{GrantScope, SuggestedRule, SuggestionKind};
use crate::path::ResolvedCall;
use crate::policy::compile;
use crate::root::Root;
use crate::rule::{Filter, Matcher, Operator, Rule, TargetKind};
use crate::target::{Access, TargetScope};
use crate::url::UrlTarget;

/// The longest value that a rule holds in clear, in bytes.
const MAXIMUM_CLEAR: usize = 1024;

/// The suggestions of a call, the narrowest first.
pub(super) fn suggest(call: &ResolvedCall) -> Vec<SuggestedRule> {
    let mut suggestions = Vec::new();
    // What would run, or be sent, is not known: a rule about this call would be about any content.
    if call.means.iter().any(|means| means.unbound) {
        return suggestions;
    }
    // Of these, one call says nothing about the next.
    let only_exact =
        matches!(call.risk, Risk::Destructive | Risk::Secret) || call.descriptor.actions.is_some();
    if !only_exact && let [target] = call.targets.as_slice() {
        match target.subject() {
            CanonicalSubject::Path(path) => suggest_path(call, path, &mut suggestions),
            CanonicalSubject::Url(url) => suggest_url(call, url, &mut suggestions),
            CanonicalSubject::Agent(agent) => {
                let mut matcher = Matcher::new().kind(TargetKind::Agent).profile(&agent.profile);
                matcher.content = agent.digest;
                let label = format!("{} for the sub-agent `{}`", tool(call), crate::display(&agent.profile));
                suggestions
                    .push(suggestion(call, SuggestionKind::Exact, label, |when| when.every_target(matcher)));
            }
            CanonicalSubject::WholeTool => {}
        }
    }
    let narrow = suggestions.len();
    // A name may hold what no rule does, such as a line break.
    suggestions.retain(|suggested| is_clear(&suggested.rule.when) && compile(&suggested.rule).is_ok());
    if suggestions.len() < narrow {
        suggestions.splice(0..0, whole_call(call, true));
    }
    if narrow == 0 {
        suggestions.extend(whole_call(call, false));
        // A prefix covers no folder in which the command is to run.
        let prefixed = !only_exact && call.targets.iter().all(|target| target.path().is_none());
        let words = call.command.as_ref().and_then(|command| command.simple.as_deref()).filter(|_| prefixed);
        let prefix = words.and_then(prefix).filter(|prefix| !looks_secret(&Value::from(prefix.clone())));
        if let Some(prefix) = prefix {
            let label = format!(
                "{} for commands that begin with `{}`",
                tool(call),
                crate::display(&prefix.join(" "))
            );
            suggestions.push(suggestion(call, SuggestionKind::CommandPrefix, label, |when| {
                when.command_prefix(prefix)
            }));
        }
    }
    suggestions
}

/// The program and its subcommand, when the second word looks like one.
fn prefix(words: &[String]) -> Option<Vec<String>> {
    let first = words.first()?;
    let subcommand = words.get(1).filter(|word| {
        word.len() <= 32
            && word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    });
    // A program that runs what it is given is never granted by its name alone.
    let second = subcommand.filter(|_| !runs_what_it_is_given(first))?;
    Some(vec![first.clone(), second.clone()])
}

fn tool(call: &ResolvedCall) -> String {
    format!("`{}`", crate::display(&call.descriptor.name))
}

fn suggestion(
    call: &ResolvedCall,
    kind: SuggestionKind,
    label: String,
    narrow: impl FnOnce(Filter) -> Filter,
) -> SuggestedRule {
    let mut when = Filter::new().tool(&*call.descriptor.name);
    if call.origin == CallOrigin::User {
        when = when.origin(CallOrigin::User);
    }
    let when = narrow(when);
    // Filters are plain data; turning them into a value does not fail.
    let digest = digest_of(&serde_json::to_value(&when).unwrap_or_default()).to_string();
    let id = format!("grant-{}", digest.get(7..23).unwrap_or_default());
    let suggested = SuggestedRule::new(kind, label, Rule::new(id, Decision::Allow).when(when));
    let mut scopes = vec![GrantScope::Once, GrantScope::Conversation];
    // What would not let the same call run the next time is not offered.
    let reaches = |target: &CanonicalTarget| {
        target.path().is_none_or(|path| path.is_of_project() && path.marks.is_empty())
    };
    if !suggested.holds_digest() && call.targets.iter().all(reaches) {
        scopes.push(GrantScope::Project);
    }
    if !call.descriptor.kind.runs_programs() {
        scopes.push(GrantScope::User);
    }
    suggested.scopes(scopes)
}

fn suggest_path(call: &ResolvedCall, path: &PathTarget, suggestions: &mut Vec<SuggestedRule>) {
    let mut base = Matcher::new().kind(TargetKind::Path).access(path.access);
    base.content = path.content;
    let word = if path.access == Access::Write { "write" } else { "read" };
    let longest = path.resolved.for_allow();
    let place = |name: &str| match longest {
        Some(rooted) if rooted.root == Root::Project => crate::display(name),
        Some(rooted) => format!("{}:{}", rooted.root, crate::display(name)),
        None => crate::display(name),
    };
    if path.scope == TargetScope::Tree {
        if let Some(rooted) = longest.filter(|rooted| is_narrow(&rooted.path, path)) {
            let label = format!("{} may {word} `{}` and everything below", tool(call), place(&rooted.path));
            let matcher = base.root(rooted.root.clone()).subtree(&rooted.path);
            suggestions
                .push(suggestion(call, SuggestionKind::Subtree, label, |when| when.every_target(matcher)));
        }
        return;
    }
    let Some(rooted) = longest else {
        let label = format!("{} may {word} `{}`", tool(call), place(&path.resolved.absolute));
        let matcher = base.absolute().exact(&path.resolved.absolute);
        suggestions.push(suggestion(call, SuggestionKind::Exact, label, |when| when.every_target(matcher)));
        return;
    };
    let base = base.root(rooted.root.clone());
    let label = format!("{} may {word} `{}`", tool(call), place(&rooted.path));
    let exact = base.clone().exact(&rooted.path);
    suggestions.push(suggestion(call, SuggestionKind::Exact, label, |when| when.every_target(exact)));
    let folder = rooted.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    if is_narrow(folder, path) && path.content.is_none() {
        let label = format!("{} may {word} everything below `{}`", tool(call), place(folder));
        let subtree = base.subtree(folder);
        suggestions.push(suggestion(call, SuggestionKind::Subtree, label, |when| when.every_target(subtree)));
    }
}

/// Whether a folder may be granted: not a root itself, nothing that a mark is on, no root below.
fn is_narrow(folder: &str, path: &PathTarget) -> bool {
    !folder.is_empty() && path.marks.is_empty() && path.contains.is_empty()
}

fn suggest_url(call: &ResolvedCall, url: &UrlTarget, suggestions: &mut Vec<SuggestedRule>) {
    if url.ambiguous_path() {
        return;
    }
    let base = Matcher::new().kind(TargetKind::Url).access(url.access);
    let label = format!("{} for `{}`", tool(call), crate::display(url.as_str()));
    let exact = base.clone().exact(url.as_str());
    suggestions.push(suggestion(call, SuggestionKind::Exact, label, |when| when.every_target(exact)));
    let origin = url.origin();
    let label = format!("{} for everything at `{}`", tool(call), crate::display(&origin));
    let origin = base.subtree(origin).any_query();
    suggestions.push(suggestion(call, SuggestionKind::Subtree, label, |when| when.every_target(origin)));
}

/// Whether a rule holds nothing that is better not written into a file.
fn is_clear(when: &Filter) -> bool {
    // Filters are plain data; turning one into a value does not fail.
    let value = serde_json::to_value(when).unwrap_or_default();
    !looks_secret(&value) && value.to_string().len() <= MAXIMUM_CLEAR
}

/// This call and no other, as a digest when it holds what looks like a secret or when that is known; `None` when
/// it binds more content than one rule can hold.
fn whole_call(call: &ResolvedCall, secret: bool) -> Option<SuggestedRule> {
    let mut contents = call.targets.iter().filter_map(|target| target.path()?.content);
    let content = contents.next();
    if contents.next().is_some() {
        return None;
    }
    let value = call.arguments.without(&call.descriptor.cosmetic_arguments);
    let label = format!("{} with exactly these arguments", tool(call));
    Some(suggestion(call, SuggestionKind::WholeCall, label, |when| {
        let when = if secret || looks_secret(&value) || value.to_string().len() > MAXIMUM_CLEAR {
            when.argument("args", Operator::Digest, digest_of(&value).to_string())
        } else {
            when.argument("args", Operator::Equals, value)
        };
        match content {
            Some(content) => when.any_target(Matcher::new().kind(TargetKind::Path).content(content)),
            None => when,
        }
    }))
}

/// Words that name what is better not written into a file, without the `-` and `_` in them.
const NAMES: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "credential",
    "authorization",
    "cookie",
    "bearer",
];

/// Whether a value is better not written into a file: common beginnings of tokens, names of fields, headers,
/// variables and options, and passwords in addresses.
pub(crate) fn looks_secret(value: &Value) -> bool {
    match value {
        Value::String(text) => is_secret(text),
        Value::Array(items) => items.iter().any(|item| {
            item.as_str().is_some_and(|text| text.starts_with('-') && names_secret(text))
                || looks_secret(item)
        }),
        Value::Object(map) => {
            // A field of the name, or one item of a list of headers or variables.
            let pair = map.contains_key("value")
                && ["name", "key"]
                    .iter()
                    .any(|key| map.get(*key).and_then(Value::as_str).is_some_and(names_secret));
            pair || map
                .iter()
                .any(|(key, value)| value.is_string() && names_secret(key) || looks_secret(value))
        }
        _ => false,
    }
}

fn is_secret(text: &str) -> bool {
    const PREFIXES: [&str; 12] = [
        "ghp_",
        "gho_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "sk_live_",
        "AKIA",
        "AIza",
        "-----BEGIN ",
        "Bearer ",
        "eyJhbGciOi",
    ];
    // Within a word, as in `task-list`, it is none.
    let key = |(at, _)| !text.get(..at).is_some_and(|before: &str| before.ends_with(char::is_lowercase));
    let plain = plain(text);
    // `name=`, `name: ` and `"name": `.
    let given = |name: &&str| {
        plain.match_indices(*name).any(|(at, _)| {
            let after = plain.get(at + name.len()..).unwrap_or_default();
            after.trim_start_matches(['"', '\'', ' ']).starts_with(['=', ':'])
        })
    };
    PREFIXES.iter().any(|prefix| text.contains(prefix))
        || text.match_indices("sk-").any(key)
        || NAMES.iter().any(given)
        || text.split_whitespace().any(|word| word.starts_with('-') && names_secret(word))
        || text.split("://").skip(1).any(|address| {
            let authority = address.split(['/', '?', '#', ' ', '"', '\'']).next().unwrap_or_default();
            authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
        })
}

fn names_secret(name: &str) -> bool {
    let plain = plain(name);
    NAMES.iter().any(|known| plain.contains(known))
}

/// As names are compared: `X-Api-Key`, `apiKey` and `API_KEY` are one.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}
