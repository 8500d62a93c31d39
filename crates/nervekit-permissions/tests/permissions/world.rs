//! A project, a home and the tools of the catalog, for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nervekit_permissions::*;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Folders on a real file system, and what one evaluates against them.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) rule_set: String,
    pub(crate) mode: Mode,
    pub(crate) user: PolicyDocument,
    pub(crate) project: PolicyDocument,
    pub(crate) conversation: PolicyDocument,
    pub(crate) sets: Vec<RuleSet>,
}

impl World {
    pub(crate) fn new(rule_set: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["project/src", "outside", "home/.ssh", "home/.nerve/config", "home/.nerve/data", "plans"]
        {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self {
            folder,
            rule_set: rule_set.into(),
            mode: if rule_set == "planning" { Mode::Planning } else { Mode::Coding },
            user: PolicyDocument::new(),
            project: PolicyDocument::new(),
            conversation: PolicyDocument::new(),
            sets: Vec::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::new()
            .project(self.path("project"))
            .home(self.path("home"))
            .nerve_home(self.path("home/.nerve"))
            .nerve_data(self.path("home/.nerve/data"))
            .plans(self.path("plans"))
    }

    pub(crate) fn user(mut self, rule: Rule) -> Self {
        self.user = add(self.user, &self.rule_set, rule);
        self
    }

    pub(crate) fn project(mut self, rule: Rule) -> Self {
        self.project = add(self.project, &self.rule_set, rule);
        self
    }

    pub(crate) fn conversation(mut self, rule: Rule) -> Self {
        self.conversation = add(self.conversation, &self.rule_set, rule);
        self
    }

    pub(crate) fn guardrail(mut self, rule: Rule) -> Self {
        self.user = self.user.guardrail(rule);
        self
    }

    pub(crate) fn engine(&self) -> RuleEngine {
        let engine = RuleEngine::new(self.roots())
            .user_document(self.user.clone())
            .project_document(self.project.clone());
        self.sets.iter().cloned().fold(engine, RuleEngine::rule_set)
    }

    pub(crate) fn call(&self, tool: &ToolDescriptor, arguments: Value) -> ProposedCall {
        ProposedCall::new(
            tool.clone(),
            EffectiveArguments::new(arguments).unwrap(),
            CallOrigin::Model,
            &*self.rule_set,
        )
        .mode(self.mode)
        .working_directory(self.path("project"))
        .conversation_document(Arc::new(self.conversation.clone()))
    }

    pub(crate) fn evaluate(&self, tool: &ToolDescriptor, arguments: Value) -> Evaluation {
        self.engine().evaluate(self.call(tool, arguments))
    }

    pub(crate) fn decide(&self, tool: &ToolDescriptor, arguments: Value) -> Decision {
        self.evaluate(tool, arguments).decision()
    }

    pub(crate) fn bash(&self, command: &str) -> Decision {
        self.decide(&bash(), json!({ "command": command }))
    }

    pub(crate) fn read(&self, path: &str) -> Decision {
        self.decide(&read(), json!({ "path": path }))
    }

    pub(crate) fn write_call(&self, path: &str) -> Decision {
        self.decide(&write(), json!({ "path": path, "content": "x" }))
    }

    pub(crate) fn fetch(&self, url: &str) -> Decision {
        self.decide(&fetch(), json!({ "url": url }))
    }

    /// The decided path of a call.
    pub(crate) fn decided(&self, tool: &ToolDescriptor, path: &str) -> DecidedPath {
        let evaluation = self.evaluate(tool, json!({ "path": path }));
        evaluation.target("path").and_then(|target| target.path.clone()).unwrap_or_else(|| {
            panic!("{path}: {}", evaluation.evidence.reason);
        })
    }
}

fn add(mut document: PolicyDocument, rule_set: &str, mut rule: Rule) -> PolicyDocument {
    if document.overlays.is_empty() {
        document = document.overlay(Overlay::new(rule_set));
    }
    let rules = &mut document.overlays[0].rules;
    if rule.priority == 0 {
        rule.priority = i16::try_from(rules.len()).unwrap();
    }
    rules.push(rule);
    document
}

pub(crate) fn allow(when: Filter) -> Rule {
    rule(Decision::Allow, when)
}

pub(crate) fn deny(when: Filter) -> Rule {
    rule(Decision::Deny, when)
}

pub(crate) fn prompt(when: Filter) -> Rule {
    rule(Decision::Prompt, when)
}

fn rule(decision: Decision, when: Filter) -> Rule {
    let digest = nervekit_types::Digest::of(serde_json::to_vec(&when).unwrap()).to_string();
    Rule::new(format!("{decision}-{}", &digest[7..15]), decision).when(when)
}

pub(crate) fn read() -> ToolDescriptor {
    ToolDescriptor::new("read", ToolKind::Filesystem, Risk::Read)
        .group("file_inspection")
        .primary_argument("path")
        .target(TargetSelector::path("path"))
}

pub(crate) fn grep() -> ToolDescriptor {
    ToolDescriptor::new("grep", ToolKind::Filesystem, Risk::Read)
        .group("file_inspection")
        .primary_argument("path")
        .target(TargetSelector::path("paths").or("path").tree().or_working_directory())
}

pub(crate) fn write() -> ToolDescriptor {
    ToolDescriptor::new("write", ToolKind::Filesystem, Risk::Write)
        .group("file_editing")
        .primary_argument("path")
        .target(TargetSelector::path("path").write())
}

pub(crate) fn write_two() -> ToolDescriptor {
    ToolDescriptor::new("write", ToolKind::Filesystem, Risk::Write)
        .group("file_editing")
        .target(TargetSelector::path("a").write())
        .target(TargetSelector::path("b").write())
}

pub(crate) fn bash() -> ToolDescriptor {
    ToolDescriptor::new("bash", ToolKind::Command, Risk::Unknown)
        .group("shell")
        .primary_argument("command")
        .whole_tool()
        .target(TargetSelector::path("cwd").write().tree().optional())
        .cosmetic("timeout")
}

pub(crate) fn fetch() -> ToolDescriptor {
    ToolDescriptor::new("web_fetch", ToolKind::Network, Risk::Network)
        .group("web")
        .primary_argument("url")
        .target(TargetSelector::url("url"))
}

pub(crate) fn ask_user() -> ToolDescriptor {
    ToolDescriptor::new("ask_user", ToolKind::Interaction, Risk::Interaction).group("input")
}

pub(crate) fn subagent() -> ToolDescriptor {
    ToolDescriptor::new("subagent_prompt", ToolKind::Orchestration, Risk::AgentSpawn)
        .group("subagents")
        .target(TargetSelector::agent("tasks.*.profile"))
}

pub(crate) fn issue() -> ToolDescriptor {
    ToolDescriptor::new("jira_update_issue", ToolKind::Integration, Risk::Write)
        .group("jira")
        .primary_argument("issue_key")
}

/// Every file below a folder, with its content.
pub(crate) fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let facts = path.symlink_metadata().unwrap();
            if facts.is_dir() {
                folders.push(path);
            } else if facts.is_file() {
                found.push((path.clone(), std::fs::read(&path).unwrap()));
            } else {
                found.push((path, Vec::new()));
            }
        }
    }
    found.sort();
    found
}
