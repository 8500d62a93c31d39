//! What is on the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use nervekit::permissions::{DocumentScope, display};

use super::Failure;

/// What a command takes.
struct Command {
    name: &'static str,
    /// Options with a value.
    values: &'static [&'static str],
    switches: &'static [&'static str],
    /// What else it takes, if anything.
    words: Option<&'static str>,
}

const COMMANDS: [Command; 9] = [
    Command { name: "validate", values: &["--scope"], switches: &[], words: Some("FILE") },
    Command {
        name: "explain",
        values: &[
            "--home",
            "--project",
            "--conversation",
            "--tool",
            "--args",
            "--rule-set",
            "--mode",
            "--origin",
            "--cwd",
        ],
        switches: &[],
        words: None,
    },
    Command {
        name: "trust status",
        values: &["--home", "--project", "--scope", "--rule-set"],
        switches: &["--json"],
        words: None,
    },
    Command {
        name: "trust accept",
        values: &["--home", "--project", "--scope", "--rule-set", "--digest"],
        switches: &[],
        words: None,
    },
    Command {
        name: "trust reject",
        values: &["--home", "--project", "--scope", "--rule-set", "--digest"],
        switches: &[],
        words: None,
    },
    Command {
        name: "accept-user",
        values: &["--home", "--rule-set", "--digest"],
        switches: &[],
        words: None,
    },
    Command {
        name: "grant",
        values: &[
            "--home",
            "--project",
            "--tool",
            "--args",
            "--rule-set",
            "--mode",
            "--origin",
            "--cwd",
            "--scope",
            "--suggestion",
        ],
        switches: &["--deny", "--guardrail", "--json"],
        words: None,
    },
    Command { name: "list", values: &["--home", "--project", "--scope"], switches: &["--json"], words: None },
    Command {
        name: "revoke",
        values: &["--home", "--project", "--scope"],
        switches: &[],
        words: Some("RULE"),
    },
];

/// A command, and what was given with it.
pub(crate) struct Given {
    pub(crate) command: &'static str,
    pub(crate) words: Vec<OsString>,
    values: BTreeMap<&'static str, OsString>,
    switches: BTreeSet<&'static str>,
}

impl Given {
    /// `None` when help is asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut arguments = arguments.peekable();
        let Some(first) = arguments.next() else { return Err("a command is needed".to_owned()) };
        let mut name = text(first)?;
        if is_help(&name) {
            return Ok(None);
        }
        if name == "trust"
            && let Some(second) = arguments.next()
        {
            let second = text(second)?;
            if is_help(&second) {
                return Ok(None);
            }
            name = format!("{name} {second}");
        }
        let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
            let known: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
            return Err(format!("`{}` is not a command; there are: {}", display(&name), known.join(", ")));
        };
        let mut given = Self {
            command: command.name,
            words: Vec::new(),
            values: BTreeMap::new(),
            switches: BTreeSet::new(),
        };
        while let Some(argument) = arguments.next() {
            let Some(argument) = argument.to_str().filter(|argument| argument.starts_with("--")) else {
                // What is not an option may be the path of a file, and need not be Unicode.
                match (argument.to_str(), command.words) {
                    (Some("-h"), _) => return Ok(None),
                    (_, Some(_)) => given.words.push(argument),
                    (_, None) => {
                        return Err(format!(
                            "`{}` takes no `{}`",
                            command.name,
                            display(&argument.to_string_lossy())
                        ));
                    }
                }
                continue;
            };
            if argument == "--" {
                given.words.extend(arguments.by_ref());
                break;
            }
            if argument == "--help" {
                return Ok(None);
            }
            let (name, attached) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(OsString::from(value))),
                None => (argument, None),
            };
            if let Some(name) = command.values.iter().find(|known| **known == name) {
                let value = attached.or_else(|| arguments.next());
                let value = value.ok_or_else(|| format!("`{name}` needs a value"))?;
                if given.values.insert(name, value).is_some() {
                    return Err(format!("`{name}` is given twice"));
                }
            } else if let Some(name) = command.switches.iter().find(|known| **known == argument) {
                given.switches.insert(name);
            } else {
                return Err(format!("`{}` is not an option of `{}`", display(argument), command.name));
            }
        }
        if let Some(wanted) = command.words.filter(|_| given.words.is_empty()) {
            return Err(format!("`{}` needs a {wanted}", command.name));
        }
        Ok(Some(given))
    }

    pub(crate) fn has(&self, switch: &str) -> bool {
        self.switches.contains(switch)
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.values.get(name).map(PathBuf::from)
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        let value = self.values.get(name).cloned().map(text).transpose();
        value.map_err(|problem| Failure::Use(format!("`{name}`: {problem}")))
    }

    pub(crate) fn needed(&self, name: &str) -> Result<String, Failure> {
        self.text(name)?.ok_or_else(|| Failure::Use(format!("`{}` needs `{name}`", self.command)))
    }

    pub(crate) fn parsed<T: FromStr<Err: std::fmt::Display>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, Failure> {
        let parse = |text: String| {
            text.parse().map_err(|error| Failure::Use(format!("`{name}`: `{}`: {error}", display(&text))))
        };
        self.text(name)?.map(parse).transpose()
    }

    /// One of these words.
    pub(crate) fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let chosen = choices.iter().find(|(word, _)| *word == text);
        let Some((_, choice)) = chosen else {
            let words: Vec<String> = choices.iter().map(|(word, _)| format!("`{word}`")).collect();
            return Err(Failure::Use(format!(
                "`{name}` is one of {}, not `{}`",
                words.join(", "),
                display(&text)
            )));
        };
        Ok(Some(*choice))
    }

    /// Whose document: the person's or the project's.
    pub(crate) fn owner(&self) -> Result<Option<DocumentScope>, Failure> {
        self.choice("--scope", &[("user", DocumentScope::User), ("project", DocumentScope::Project)])
    }
}

fn is_help(argument: &str) -> bool {
    matches!(argument, "--help" | "-h" | "help")
}

fn text(argument: OsString) -> Result<String, String> {
    argument.into_string().map_err(|argument| format!("`{}` is not Unicode", argument.display()))
}
