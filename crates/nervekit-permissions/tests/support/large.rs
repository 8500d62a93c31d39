//! A policy of a thousand rules over four sources, and calls against it.

use std::path::Path;

use nervekit_permissions::{
    CallOrigin, Decision, EffectiveArguments, Filter, Matcher, Operator, Overlay, Policy, PolicyBuilder,
    PolicyDocument, ProposedCall, ResolvedCall, Risk, Roots, Rule, RuleSet, TargetResolver, TargetSelector,
    ToolDescriptor, ToolKind,
};
use serde_json::json;

/// 250 rules each in the rule set, the user's, the project's and the conversation's document: names of tools,
/// groups, patterns, prefixes, URLs and arguments, as documents grow in practice.
pub(crate) fn policy() -> Policy {
    let mut set = RuleSet::new("large")
        .rule(Rule::new("reads", Decision::Allow).priority(1000).when(Filter::new().base_risk(Risk::Read)));
    set.rules.extend((1..249).map(|number| rule("set", number)));
    set = set.rule(Rule::new("rest", Decision::Prompt).priority(-1000));
    let document = |name: &str| {
        let mut overlay = Overlay::new("large");
        overlay.rules.extend((0..250).map(|number| rule(name, number)));
        PolicyDocument::new().overlay(overlay)
    };
    let (user, project, conversation) = (document("user"), document("project"), document("conversation"));
    let policy =
        PolicyBuilder::new(&set).user(&user).project(&project).conversation(&conversation).build().unwrap();
    assert_eq!(policy.rules().len(), 1002); // with the two of the baseline
    policy
}

fn rule(name: &str, number: i16) -> Rule {
    let decision = [Decision::Allow, Decision::Prompt, Decision::Deny][usize::try_from(number).unwrap() % 3];
    let filter = match number % 10 {
        0 => Filter::new()
            .tool(["read", "write"][usize::try_from(number / 10).unwrap() % 2])
            .every_target(Matcher::new().pattern(format!("{name}/{number}/**/*.{{rs,toml}}"))),
        1 => Filter::new().tool("bash").command_prefix([format!("tool{number}"), "run".to_owned()]),
        2 => Filter::new()
            .tool("web_fetch")
            .every_target(Matcher::new().pattern(format!("https://*.host{number}.test/**"))),
        3 => Filter::new().tool_group(format!("group{number}")),
        4 => Filter::new().tool("bash").primary_argument(Operator::Glob, format!("make {name}-{number} *")),
        5 => Filter::new().tool(format!("tool_{number}")).argument("args.key", Operator::Equals, number),
        6 => Filter::new().tool("edit").any_target(Matcher::new().subtree(format!("{name}/{number}"))),
        7 => Filter::new().tool(format!("jira_{number}")),
        8 => Filter::new().tool_kind(ToolKind::Deployment).base_risk(Risk::Deployment),
        _ => Filter::new()
            .tool(format!("other_{number}"))
            .every_target(Matcher::new().exact(format!("{name}/{number}"))),
    };
    Rule::new(format!("{name}-{number}"), decision).priority(number - 125).when(filter)
}

/// A call that no rule but the last ones is about, so that everything before is looked at.
pub(crate) fn calls(project: &Path) -> Vec<(&'static str, ResolvedCall)> {
    let resolver = TargetResolver::new(Roots::new().project(project));
    let resolve = |tool: ToolDescriptor, arguments| {
        let arguments = EffectiveArguments::new(arguments).unwrap();
        let call = ProposedCall::new(tool, arguments, CallOrigin::Model, "large").working_directory(project);
        resolver.resolve(&call).unwrap()
    };
    let read = ToolDescriptor::new("read", ToolKind::Filesystem, Risk::Read)
        .group("file_inspection")
        .primary_argument("path")
        .target(TargetSelector::path("path"));
    let write = ToolDescriptor::new("write", ToolKind::Filesystem, Risk::Write)
        .group("file_editing")
        .primary_argument("path")
        .target(TargetSelector::path("path").write());
    let bash = ToolDescriptor::new("bash", ToolKind::Command, Risk::Unknown)
        .group("shell")
        .primary_argument("command")
        .whole_tool();
    let fetch = ToolDescriptor::new("web_fetch", ToolKind::Network, Risk::Network)
        .group("web")
        .target(TargetSelector::url("url"));
    vec![
        ("read", resolve(read, json!({"path": "crates/core/src/runtime/turn.rs"}))),
        ("write", resolve(write, json!({"path": "crates/core/src/runtime/turn.rs"}))),
        ("bash", resolve(bash, json!({"command": "cargo test --workspace --all-features"}))),
        ("web_fetch", resolve(fetch, json!({"url": "https://docs.example/guide/start"}))),
    ]
}
