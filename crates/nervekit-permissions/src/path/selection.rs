//! From arguments to raw targets.

use serde_json::Value;

use super::resolver::ResolveError;
use crate::arguments::EffectiveArguments;
use crate::descriptor::{SelectorKind, TargetSelector, ToolDescriptor};
use crate::target::{AgentTarget, Target};

/// Derives what a call affects from its arguments, by the descriptor's selectors. Pure: nothing is resolved.
///
/// A call without any other target affects the tool as a whole.
///
/// ```
/// use nervekit_permissions::{derive_targets, EffectiveArguments, Risk, Target, TargetSelector, ToolDescriptor, ToolKind};
/// let grep = ToolDescriptor::new("grep", ToolKind::Filesystem, Risk::Read)
///     .target(TargetSelector::path("paths").or("path").tree().or_working_directory());
/// let targets = derive_targets(&grep, &EffectiveArguments::parse(r#"{"paths": ["a", "b"]}"#)?)?;
/// assert_eq!(targets, [Target::path("a").tree().argument("paths.0"), Target::path("b").tree().argument("paths.1")]);
/// let targets = derive_targets(&grep, &EffectiveArguments::parse("{}")?)?;
/// assert_eq!(targets, [Target::path(".").tree().argument("paths")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn derive_targets(
    descriptor: &ToolDescriptor,
    arguments: &EffectiveArguments,
) -> Result<Vec<Target>, ResolveError> {
    let mut targets = Vec::new();
    if descriptor.whole_tool {
        targets.push(Target::whole_tool());
    }
    for selector in &descriptor.targets {
        select(selector, arguments, &mut targets)?;
    }
    if targets.is_empty() {
        targets.push(Target::whole_tool());
    }
    Ok(targets)
}

fn select(
    selector: &TargetSelector,
    arguments: &EffectiveArguments,
    targets: &mut Vec<Target>,
) -> Result<(), ResolveError> {
    let first = selector.arguments.first().map(String::as_str).unwrap_or_default();
    for argument in &selector.arguments {
        let mut found = Vec::new();
        collect(arguments.as_value(), argument, String::new(), &mut found);
        if found.is_empty() {
            continue;
        }
        for (argument, value) in found {
            let Value::String(text) = value else {
                return Err(ResolveError::NotAText(crate::display(&argument)));
            };
            targets.push(raw(selector, text).argument(argument));
        }
        return Ok(());
    }
    if selector.or_working_directory {
        targets.push(raw(selector, ".").argument(first));
        return Ok(());
    }
    if selector.optional { Ok(()) } else { Err(ResolveError::MissingArgument(crate::display(first))) }
}

/// Finds the values at a dotted path, with the exact path of each; `null` counts as absent, and an array
/// stands for its items.
fn collect<'v>(value: &'v Value, rest: &str, at: String, found: &mut Vec<(String, &'v Value)>) {
    let join = |part: &str| if at.is_empty() { part.to_owned() } else { format!("{at}.{part}") };
    if rest.is_empty() {
        match value {
            Value::Null => {}
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    found.push((join(&index.to_string()), item));
                }
            }
            other => found.push((at, other)),
        }
        return;
    }
    let (part, rest) = rest.split_once('.').unwrap_or((rest, ""));
    match value {
        Value::Array(items) if part == "*" => {
            for (index, item) in items.iter().enumerate() {
                collect(item, rest, join(&index.to_string()), found);
            }
        }
        Value::Object(map) => {
            if let Some(value) = map.get(part) {
                collect(value, rest, join(part), found);
            }
        }
        _ => {}
    }
}

fn raw(selector: &TargetSelector, text: &str) -> Target {
    let mut target = match selector.kind {
        SelectorKind::Path { access, scope } => {
            let mut target = Target::path(text);
            (target.access, target.scope) = (access, scope);
            target
        }
        SelectorKind::Url { access } => {
            let mut target = Target::url(text);
            target.access = access;
            target
        }
        SelectorKind::Agent => Target::agent(AgentTarget::new(text)),
    };
    target.binds_content = selector.binds_content;
    target
}
