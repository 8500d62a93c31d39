//! cedar-policy: one policy for each rule, the tool as the action, everything else in the context.

use std::fmt::Write as _;

use cedar_policy::{Authorizer, Context, Decision, Entities, EntityUid, PolicySet, Request};
use serde_json::json;

use crate::policy::{Call, Effect, Rule, Shape, Source};

pub(crate) fn text(sources: &[Source]) -> String {
    let mut text = String::new();
    for rule in sources.iter().flat_map(|source| &source.rules) {
        let _ = writeln!(text, "@id(\"{}\")\n{}", rule.id, policy(rule));
    }
    text
}

fn policy(rule: &Rule) -> String {
    let effect = if rule.effect == Effect::Allow { "permit" } else { "forbid" };
    // Constraints on the action are what Cedar rejects the fastest.
    let (tool, condition) = match &rule.shape {
        Shape::Reads => (None, "context.risk == \"read\"".to_owned()),
        Shape::Files { tool, folder, extensions: [a, b] } => (
            Some((*tool).to_owned()),
            format!("context.path like \"{folder}/*.{a}\" || context.path like \"{folder}/*.{b}\""),
        ),
        Shape::Folder { tool, folder } => (
            Some((*tool).to_owned()),
            format!("context.path == \"{folder}\" || context.path like \"{folder}/*\""),
        ),
        Shape::File { tool, file } => (Some(tool.clone()), format!("context.path == \"{file}\"")),
        Shape::Prefix([first, second]) => (
            Some("bash".to_owned()),
            format!("context.command == \"{first} {second}\" || context.command like \"{first} {second} *\""),
        ),
        Shape::Command(begin) => (Some("bash".to_owned()), format!("context.command like \"{begin}*\"")),
        Shape::Domain(domain) => (Some("fetch".to_owned()), format!("context.host like \"*.{domain}\"")),
        Shape::Group(group) => (None, format!("context.group == \"{group}\"")),
        Shape::Tool(tool) => (Some(tool.clone()), "true".to_owned()),
        Shape::Key { tool, value } => {
            (Some(tool.clone()), format!("context has key && context.key == {value}"))
        }
    };
    let action = tool.map_or_else(|| "action".to_owned(), |tool| format!("action == Action::\"{tool}\""));
    format!("{effect} (principal, {action}, resource) when {{ {condition} }};")
}

pub(crate) fn parse(text: &str) -> PolicySet {
    text.parse().expect("the policies are valid")
}

pub(crate) fn request(call: &Call) -> Request {
    let mut context = json!({
        "risk": call.risk, "group": call.group, "path": call.path, "command": call.command, "host": call.host,
    });
    if let Some(key) = call.key {
        context["key"] = json!(key);
    }
    let context = Context::from_json_value(context, None).expect("plain data");
    let uid = |text: String| text.parse::<EntityUid>().expect("a name");
    let action = uid(format!("Action::\"{}\"", call.tool));
    Request::new(uid("Agent::\"a\"".into()), action, uid("Project::\"p\"".into()), context, None)
        .expect("no schema")
}

pub(crate) fn decide(
    authorizer: &Authorizer,
    policies: &PolicySet,
    entities: &Entities,
    request: &Request,
) -> bool {
    authorizer.is_authorized(request, policies, entities).decision() == Decision::Allow
}
