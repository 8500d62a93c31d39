//! A thousand rules over four sources, and calls against them, in no engine's words.
//!
//! The engines decide conflicts differently: by precedence, by "forbid wins". So no two rules with different effects
//! are about one call, but for one allow below all others and the denies and prompts that narrow it; there the three
//! agree. Asking a person is "not allowed" for engines that know two answers.

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Allow,
    Prompt,
    Deny,
}

/// Which calls a rule is about.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// Reads.
    Reads,
    /// `extensions` below `folder`, for a tool.
    Files { tool: &'static str, folder: String, extensions: [&'static str; 2] },
    /// One path and everything below, for a tool.
    Folder { tool: &'static str, folder: String },
    /// One file, for a tool.
    File { tool: String, file: String },
    /// Commands that begin with two words.
    Prefix([String; 2]),
    /// Commands that begin with a text.
    Command(String),
    /// Hosts below a domain, over https.
    Domain(String),
    /// A group of tools.
    Group(String),
    /// One tool.
    Tool(String),
    /// One value of the argument `key`, for a tool.
    Key { tool: String, value: i64 },
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) id: String,
    pub(crate) effect: Effect,
    pub(crate) priority: i16,
    pub(crate) shape: Shape,
}

/// The rules of one source.
pub(crate) struct Source {
    pub(crate) name: &'static str,
    pub(crate) rules: Vec<Rule>,
}

/// 250 rules each in the rule set and in the user's, the project's and the conversation's document.
pub(crate) fn sources() -> Vec<Source> {
    ["set", "user", "project", "conversation"]
        .map(|name| {
            let mut rules: Vec<Rule> = (0..250).map(|number| rule(name, number)).collect();
            if name == "set" {
                rules[0] = Rule {
                    id: "set-reads".into(),
                    effect: Effect::Allow,
                    priority: -1000,
                    shape: Shape::Reads,
                };
            }
            Source { name, rules }
        })
        .into()
}

fn rule(name: &str, number: i16) -> Rule {
    let numbered = |what: &str| format!("{what}-{name}-{number}");
    let folder = format!("{name}/{number}");
    let shape = match number % 10 {
        0 => Shape::Files {
            tool: ["read", "write"][usize::from(number % 20 == 0)],
            folder,
            extensions: ["rs", "toml"],
        },
        1 => Shape::Prefix([numbered("tool"), "run".into()]),
        2 => Shape::Domain(format!("{}.test", numbered("host"))),
        3 => Shape::Group(numbered("group")),
        4 => Shape::Command(format!("make {name}-{number} ")),
        5 => Shape::Key { tool: numbered("keyed"), value: i64::from(number) },
        6 => Shape::Folder { tool: "edit", folder },
        7 | 8 => Shape::Tool(numbered("plain")),
        _ => Shape::File { tool: numbered("other"), file: folder },
    };
    let effect = [Effect::Allow, Effect::Prompt, Effect::Deny][usize::try_from(number % 3).unwrap_or(0)];
    Rule { id: format!("{name}-{number}"), effect, priority: number - 125, shape }
}

/// The resolved facts of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) group: String,
    pub(crate) risk: &'static str,
    pub(crate) path: String,
    pub(crate) command: String,
    pub(crate) host: String,
    pub(crate) key: Option<i64>,
}

/// Calls that a rule of each shape in each source is about, and calls that none is about but the widest.
pub(crate) fn calls() -> Vec<Call> {
    let mut calls = Vec::new();
    let file = |tool: &str, path: &str| {
        let (risk, group) = if tool == "read" { ("read", "inspection") } else { ("write", "editing") };
        Call { tool: tool.into(), group: group.into(), risk, path: path.into(), ..Call::default() }
    };
    let bash = |command: String| Call {
        tool: "bash".into(),
        group: "shell".into(),
        risk: "unknown",
        command,
        ..Call::default()
    };
    let fetch = |host: String| Call {
        tool: "fetch".into(),
        group: "web".into(),
        risk: "network",
        host,
        ..Call::default()
    };
    let other =
        |tool: String, group: &str| Call { tool, group: group.into(), risk: "unknown", ..Call::default() };
    for name in ["set", "user", "project", "conversation"] {
        for tens in [3_i64, 7, 11, 20] {
            let number = |digit: i64| tens * 10 + digit;
            let tool = if number(0) % 20 == 0 { "write" } else { "read" };
            calls.push(file(tool, &format!("{name}/{}/a/b.rs", number(0))));
            calls.push(file(tool, &format!("{name}/{}/c.toml", number(0))));
            calls.push(file(tool, &format!("{name}/{}/c.md", number(0))));
            calls.push(bash(format!("tool-{name}-{} run all", number(1))));
            calls.push(bash(format!("tool-{name}-{} stop", number(1))));
            calls.push(fetch(format!("docs.host-{name}-{}.test", number(2))));
            calls.push(other("grouped".into(), &format!("group-{name}-{}", number(3))));
            calls.push(bash(format!("make {name}-{} all", number(4))));
            for value in [number(5), 1] {
                let tool = format!("keyed-{name}-{}", number(5));
                calls.push(Call { key: Some(value), ..other(tool, "none") });
            }
            calls.push(file("edit", &format!("{name}/{}/deep/file", number(6))));
            calls.push(file("edit", &format!("{name}/{}x/file", number(6))));
            calls.push(other(format!("plain-{name}-{}", number(7)), "none"));
            calls.push(file(&format!("other-{name}-{}", number(9)), &format!("{name}/{}", number(9))));
        }
    }
    calls.push(file("read", "crates/core/src/turn.rs"));
    calls.push(file("write", "crates/core/src/turn.rs"));
    calls.push(bash("cargo test --workspace --all-features".into()));
    calls.push(fetch("docs.example".into()));
    calls
}
