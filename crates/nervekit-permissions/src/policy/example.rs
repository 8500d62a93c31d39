//! Trying a rule on the calls that its author gives as examples.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use super::active::ActiveRule;
use super::compiled::CompiledRule;
use super::{Policy, View};
use crate::arguments::EffectiveArguments;
use crate::call::ProposedCall;
use crate::decision::CallOrigin;
use crate::descriptor::{Risk, TargetSelector, ToolDescriptor, ToolKind};
use crate::evidence::RuleSource;
use crate::path::{TargetResolver, unguessable};
use crate::root::{Root, Roots};
use crate::rule::{Example, Matcher, Rule, TargetKind};
use crate::target::{Access, TargetScope};

/// A folder that does not exist: examples are about names, not about what lies on this machine.
static NOWHERE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("nervekit-{}", unguessable())));

/// Tries the examples of a rule.
pub(super) fn check(compiled: &Arc<CompiledRule>) -> Result<(), String> {
    let rule = &compiled.rule;
    if rule.examples.is_empty() {
        return Ok(());
    }
    let active = ActiveRule::new(Arc::clone(compiled), RuleSource::RuleSet, "example".into());
    let policy = Policy::new("example", vec![active]);
    let wanted = rule.examples.matching.iter().map(|example| (example, true));
    let unwanted = rule.examples.not_match.iter().map(|example| (example, false));
    for (example, expected) in wanted.chain(unwanted) {
        let found = match matches(&policy, rule, example) {
            // What is no call, such as a URL with a user name, matches nothing.
            Err(_) if !expected => false,
            found => found.map_err(|error| format!("its example {} is no call: {error}", shown(example)))?,
        };
        if found != expected {
            let verb = if expected {
                "does not match its example"
            } else {
                "matches what it should not, its example"
            };
            return Err(format!("it {verb} {}", shown(example)));
        }
    }
    Ok(())
}

fn shown(example: &Example) -> String {
    let text = match example {
        Example::Text(text) => text.clone(),
        // Examples are plain data; turning one into text does not fail.
        call @ Example::Call { .. } => serde_json::to_string(call).unwrap_or_default(),
    };
    format!("`{}`", crate::display(&text))
}

fn matches(policy: &Policy, rule: &Rule, example: &Example) -> Result<bool, String> {
    let root = matcher(rule).and_then(|matcher| matcher.root.clone()).unwrap_or(Root::Project);
    let roots = Roots::new().project(NOWHERE.join("project")).root(root.clone(), folder(&root));
    let call = call(rule, &root, example)?;
    let resolved = TargetResolver::new(roots).resolve(&call).map_err(|error| error.to_string())?;
    Ok(policy.first(&resolved, View::All, None).is_some())
}

fn folder(root: &Root) -> PathBuf {
    match root {
        Root::Project => NOWHERE.join("project"),
        other => NOWHERE.join("roots").join(other.to_string().replace(':', "-")),
    }
}

fn matcher(rule: &Rule) -> Option<&Matcher> {
    let targets = rule.when.targets.as_ref().map(|filter| &filter.matcher);
    rule.when.primary_target.as_ref().or(targets)
}

/// A call that meets what the rule asks of tools, unless the example names another tool.
fn call(rule: &Rule, root: &Root, example: &Example) -> Result<ProposedCall, String> {
    let when = &rule.when;
    let arguments = match example {
        Example::Call { arguments, .. } => arguments.clone(),
        Example::Text(text) => Map::from_iter([(subject(rule, text).to_owned(), Value::from(&**text))]),
    };
    let of_rule = when.tool_names.first().map_or("example", String::as_str);
    let name = match example {
        Example::Call { tool: Some(tool), .. } => tool,
        _ => of_rule,
    };
    let runs = arguments.contains_key("command");
    let kind = when.tool_kinds.first().copied();
    let kind = kind.unwrap_or(if runs { ToolKind::Command } else { ToolKind::Other });
    let risk = when.base_risks.first().copied().unwrap_or(Risk::Unknown);
    let mut descriptor = ToolDescriptor::new(name, kind, risk);
    for group in &when.tool_groups {
        descriptor = descriptor.group(group);
    }
    for argument in arguments.keys() {
        descriptor = descriptor.primary_argument(argument);
    }
    let wanted = matcher(rule);
    let writes = wanted.is_some_and(|matcher| matcher.access == Some(Access::Write));
    let tree = wanted.is_some_and(|matcher| matcher.scope == Some(TargetScope::Tree));
    let mut any = false;
    for (argument, selector) in [("path", TargetSelector::path("path")), ("url", TargetSelector::url("url"))]
    {
        if arguments.get(argument).is_some_and(Value::is_string) {
            let selector = if writes { selector.write() } else { selector };
            descriptor =
                descriptor.target(if tree && argument == "path" { selector.tree() } else { selector });
            any = true;
        }
    }
    if arguments.get("profile").is_some_and(Value::is_string) {
        descriptor = descriptor.target(TargetSelector::agent("profile"));
        any = true;
    }
    if !any {
        descriptor = descriptor.whole_tool();
    }
    let arguments = EffectiveArguments::new(Value::Object(arguments)).map_err(|error| error.to_string())?;
    let origin = when.origins.first().copied().unwrap_or(CallOrigin::Model);
    Ok(ProposedCall::new(descriptor, arguments, origin, "example").working_directory(folder(root)))
}

/// The argument for which a text stands.
fn subject(rule: &Rule, text: &str) -> &'static str {
    let when = &rule.when;
    let runs = when.tool_kinds.contains(&ToolKind::Command)
        || when.tool_names.iter().any(|name| name == "bash")
        || when.tool_groups.iter().any(|group| group == "shell");
    match matcher(rule) {
        Some(matcher) if matcher.profile.is_some() || matcher.kind == Some(TargetKind::Agent) => "profile",
        Some(matcher) if matcher.kind == Some(TargetKind::Url) || text.contains("://") => "url",
        Some(matcher) if matcher.kind != Some(TargetKind::WholeTool) => "path",
        _ if runs || !when.command_prefix.is_empty() => "command",
        _ => "value",
    }
}
