//! casbin: one line for each rule; what a rule does not ask is `*`, which the matcher passes over first.

use casbin::{CoreApi, DefaultModel, Enforcer, MemoryAdapter, MgmtApi};

use crate::policy::{Call, Effect, Rule, Shape, Source};

const MODEL: &str = r#"
[request_definition]
r = tool, group, risk, path, command, host, key

[policy_definition]
p = tool, group, risk, path, command, host, key, eft

[policy_effect]
e = some(where (p.eft == allow)) && !some(where (p.eft == deny))

[matchers]
m = (p.tool == "*" || p.tool == r.tool) && (p.group == "*" || p.group == r.group) && (p.risk == "*" || p.risk == r.risk) && (p.key == "*" || p.key == r.key) && (p.path == "*" || regexMatch(r.path, p.path)) && (p.command == "*" || regexMatch(r.command, p.command)) && (p.host == "*" || regexMatch(r.host, p.host))
"#;

pub(crate) fn lines(sources: &[Source]) -> Vec<Vec<String>> {
    sources.iter().flat_map(|source| &source.rules).map(line).collect()
}

fn line(rule: &Rule) -> Vec<String> {
    let mut line = ["*"; 7].map(str::to_owned);
    let plain = |text: &str| text.replace('.', "\\.");
    match &rule.shape {
        Shape::Reads => line[2] = "read".into(),
        Shape::Files { tool, folder, extensions: [a, b] } => {
            line[0] = (*tool).into();
            line[3] = format!("^{}/.*\\.({a}|{b})$", plain(folder));
        }
        Shape::Folder { tool, folder } => {
            line[0] = (*tool).into();
            line[3] = format!("^{}(/.*)?$", plain(folder));
        }
        Shape::File { tool, file } => {
            line[0].clone_from(tool);
            line[3] = format!("^{}$", plain(file));
        }
        Shape::Prefix([first, second]) => {
            line[0] = "bash".into();
            line[4] = format!("^{first} {second}( .*)?$");
        }
        Shape::Command(begin) => {
            line[0] = "bash".into();
            line[4] = format!("^{begin}.*$");
        }
        Shape::Domain(domain) => {
            line[0] = "fetch".into();
            line[5] = format!("^.+\\.{}$", plain(domain));
        }
        Shape::Group(group) => line[1].clone_from(group),
        Shape::Tool(tool) => line[0].clone_from(tool),
        Shape::Key { tool, value } => {
            line[0].clone_from(tool);
            line[6] = value.to_string();
        }
    }
    let effect = if rule.effect == Effect::Allow { "allow" } else { "deny" };
    line.into_iter().chain([effect.to_owned()]).collect()
}

pub(crate) async fn compile(lines: Vec<Vec<String>>) -> Enforcer {
    let model = DefaultModel::from_str(MODEL).await.expect("the model is valid");
    let mut enforcer = Enforcer::new(model, MemoryAdapter::default()).await.expect("the model is valid");
    assert!(enforcer.add_policies(lines).await.expect("the lines fit the model"), "two lines are equal");
    enforcer
}

pub(crate) fn request(call: &Call) -> Vec<String> {
    let key = call.key.map(|key| key.to_string()).unwrap_or_default();
    let texts = [&call.tool, &call.group, call.risk, &call.path, &call.command, &call.host, &key];
    texts.map(str::to_owned).into()
}

pub(crate) fn decide(enforcer: &Enforcer, request: &[String]) -> bool {
    enforcer.enforce(request.to_vec()).expect("the request fits the model")
}
