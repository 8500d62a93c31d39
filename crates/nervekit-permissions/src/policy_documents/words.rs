//! Which calls a rule is about, in words.

use std::fmt::Display;

use serde_json::Value;

use crate::descriptor::ToolKind;
use crate::root::Root;
use crate::rule::{Filter, Matcher, Operator, Quantifier, QueryMatch, TargetKind};
use crate::target::Access;

/// Says which calls a filter matches. What a filter does not narrow is not mentioned, so that a wide rule reads as
/// the wide rule that it is.
pub(super) fn summary(filter: &Filter) -> String {
    let mut words = String::from("every ");
    if !filter.tool_names.is_empty() {
        words.push_str(&listed(&filter.tool_names));
        words.push(' ');
    }
    words.push_str(if is_command(filter) { "command" } else { "call" });
    let mut conditions = Vec::new();
    if !filter.tool_kinds.is_empty() && filter.tool_kinds != [ToolKind::Command] {
        conditions.push(format!("of a tool of the kind {}", tags(&filter.tool_kinds)));
    }
    if !filter.tool_groups.is_empty() {
        conditions.push(format!("of a tool of the group {}", listed(&filter.tool_groups)));
    }
    if !filter.base_risks.is_empty() {
        conditions.push(format!("with the risk {}", tags(&filter.base_risks)));
    }
    if !filter.origins.is_empty() {
        conditions.push(format!("asked for by the {}", tags(&filter.origins)));
    }
    if !filter.command_prefix.is_empty() {
        conditions.push(format!("that begins with {}", quoted(filter.command_prefix.join(" "))));
    }
    if let Some(primary) = &filter.primary_argument {
        conditions.push(format!("whose primary argument {}", test(primary.operator, &primary.value)));
    }
    for argument in &filter.arguments {
        let path = quoted(&argument.path);
        conditions.push(format!("whose {path} {}", test(argument.operator, &argument.value)));
    }
    if let Some(matcher) = &filter.primary_target {
        conditions.push(format!("whose first target is {}", target(matcher)));
    }
    if let Some(targets) = &filter.targets {
        let quantifier = match targets.quantifier {
            Quantifier::Any => "one of whose targets is",
            Quantifier::All => "all of whose targets are",
        };
        conditions.push(format!("{quantifier} {}", target(&targets.matcher)));
    }
    for (index, condition) in conditions.iter().enumerate() {
        words.push_str(if index == 0 { " " } else { ", and " });
        words.push_str(condition);
    }
    words
}

/// `bash` and the group `shell` are reserved for what runs commands.
fn is_command(filter: &Filter) -> bool {
    let only = |list: &[String], name: &str| matches!(list, [one] if one == name);
    !filter.command_prefix.is_empty()
        || only(&filter.tool_names, "bash")
        || only(&filter.tool_groups, "shell")
        || filter.tool_kinds == [ToolKind::Command]
}

fn test(operator: Operator, value: &Value) -> String {
    let value = quoted(value);
    match operator {
        Operator::Equals => format!("is {value}"),
        Operator::NotEquals => format!("is not {value}"),
        Operator::In => format!("is one of {value}"),
        Operator::Glob => format!("matches {value}"),
        Operator::Exists => format!("is present: {value}"),
        Operator::Digest => format!("has the digest {value}"),
    }
}

fn target(matcher: &Matcher) -> String {
    let mut words = vec![match matcher.kind {
        Some(TargetKind::Path) => "a path".to_owned(),
        Some(TargetKind::Url) => "a URL".to_owned(),
        Some(TargetKind::Agent) => "a sub-agent".to_owned(),
        Some(TargetKind::WholeTool) => "the tool as a whole".to_owned(),
        None => "anything".to_owned(),
    }];
    match matcher.access {
        Some(Access::Read) => words.push("for reading".to_owned()),
        Some(Access::Write) => words.push("for writing".to_owned()),
        None => {}
    }
    let place =
        [("exactly", &matcher.exact), ("below", &matcher.subtree), ("that matches", &matcher.pattern)];
    for (word, text) in place {
        if let Some(text) = text {
            words.push(format!("{word} {}", quoted(text)));
        }
    }
    if matcher.query == Some(QueryMatch::Any) {
        words.push("with any query".to_owned());
    }
    match &matcher.root {
        Some(Root::Project) => words.push("in the project".to_owned()),
        Some(root) => words.push(format!("in the root `{root}`")),
        None => {}
    }
    if let Some(profile) = &matcher.profile {
        words.push(format!("of the profile {}", quoted(profile)));
    }
    if matcher.content.is_some() {
        words.push("with one content".to_owned());
    }
    words.join(" ")
}

fn listed(names: &[String]) -> String {
    names.iter().map(quoted).collect::<Vec<_>>().join(" or ")
}

fn quoted(text: impl Display) -> String {
    format!("`{}`", crate::display(&text.to_string()))
}

fn tags<T: serde::Serialize>(values: &[T]) -> String {
    values.iter().map(tag).collect::<Vec<_>>().join(" or ")
}

/// The word that stands in documents.
fn tag<T: serde::Serialize>(value: &T) -> String {
    // These are plain words; turning one into a value does not fail.
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
