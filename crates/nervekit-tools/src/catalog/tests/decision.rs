//! What the built-in rule sets decide about each tool.

use std::collections::BTreeSet;

use nervekit_permissions::Decision::{self, Allow, Deny, Prompt};
use nervekit_permissions::{
    Access, CallOrigin, CanonicalSubject, EffectiveArguments, Mode, PermissionEngine, ProposedCall, Risk,
    Roots, RuleEngine, TargetScope,
};
use serde_json::{Value, json};

use super::super::known_tools;
use crate::tool::Tool;

/// Calls of every tool, each action among them, with what they affect besides the tool as a whole.
fn calls() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("read", json!({"path": "a"}), "read a"),
        ("read", json!({"asset": "asset_1"}), ""),
        ("grep", json!({"pattern": "x"}), "read ./**"),
        ("grep", json!({"pattern": "x", "paths": ["a", "src"]}), "read a/** read src/**"),
        ("find", json!({"pattern": "*.rs", "path": "src"}), "read src/**"),
        ("ls", json!({}), "read ./**"),
        ("edit", json!({"path": "a", "edits": [{"old_text": "x", "new_text": "y"}]}), "write a"),
        ("write", json!({"path": "a", "content": ""}), "write a"),
        ("bash", json!({"command": "make"}), ""),
        ("bash", json!({"command": "make", "cwd": "src"}), "write src/**"),
        ("python_exec", json!({"code": "print(1)"}), ""),
        ("python_exec", json!({"path": "a", "cwd": "src", "env": {"A": "1"}}), "read a write src/**"),
        ("web_search", json!({"query": "x"}), ""),
        ("web_fetch", json!({"url": "https://EXAMPLE.com"}), "https://example.com/"),
        ("jira_search_users", json!({"query": "ann"}), ""),
        ("jira_search_issues", json!({"jql": "project = NK"}), ""),
        ("jira_get_issue", json!({"issue_key": "NK-7", "include": "comments"}), ""),
        ("jira_get_project", json!({"project_key": "NK"}), ""),
        ("jira_search_boards", json!({"name": "week"}), ""),
        ("jira_get_board", json!({"board_id": "12"}), ""),
        ("jira_get_sprint", json!({"sprint_id": 40}), ""),
        ("jira_download_attachment", json!({"attachment_id": "1"}), ""),
        (
            "jira_create_issue",
            json!({"project_key": "NK", "issue_type": "Bug", "summary": "s", "fields": {"x": 1}}),
            "",
        ),
        ("jira_update_issue", json!({"issue_key": "NK-7", "labels": []}), ""),
        ("jira_transition_issue", json!({"issue_key": "NK-7", "transition": "Done"}), ""),
        ("jira_manage_backlog", json!({"action": "move_to_backlog", "issue_key": "NK-7"}), ""),
        (
            "jira_manage_backlog",
            json!({"action": "move_to_sprint", "issue_key": "NK-7", "sprint_id": "40"}),
            "",
        ),
        (
            "jira_manage_backlog",
            json!({"action": "rank_before", "issue_key": "NK-7", "other_key": "NK-9"}),
            "",
        ),
        (
            "jira_manage_backlog",
            json!({"action": "rank_after", "issue_key": "NK-7", "other_key": "NK-9"}),
            "",
        ),
        ("jira_manage_comment", json!({"action": "create", "issue_key": "NK-7", "body": "Seen."}), ""),
        (
            "jira_manage_comment",
            json!({"action": "update", "issue_key": "NK-7", "comment_id": "1", "body": "x"}),
            "",
        ),
        ("jira_manage_comment", json!({"action": "delete", "issue_key": "NK-7", "comment_id": "1"}), ""),
        ("jira_manage_worklog", json!({"action": "create", "issue_key": "NK-7", "time_spent": "1h"}), ""),
        (
            "jira_manage_worklog",
            json!({"action": "update", "issue_key": "NK-7", "worklog_id": "1", "comment": "x"}),
            "",
        ),
        ("jira_manage_worklog", json!({"action": "delete", "issue_key": "NK-7", "worklog_id": "1"}), ""),
        (
            "jira_manage_issue_link",
            json!({"action": "create", "issue_key": "NK-7", "link_type": "blocks", "other_key": "NK-9"}),
            "",
        ),
        ("jira_manage_issue_link", json!({"action": "delete", "link_id": "1"}), ""),
        ("jira_manage_attachment", json!({"action": "upload", "issue_key": "NK-7", "path": "a"}), "read a"),
        ("jira_manage_attachment", json!({"action": "delete", "attachment_id": "1"}), ""),
        ("jira_manage_sprint", json!({"action": "create", "board_id": 12, "name": "Week 5"}), ""),
        ("jira_manage_sprint", json!({"action": "update", "sprint_id": 40, "goal": "Less."}), ""),
        ("jira_manage_sprint", json!({"action": "start", "sprint_id": 40}), ""),
        ("jira_manage_sprint", json!({"action": "close", "sprint_id": 40}), ""),
        ("jira_manage_sprint", json!({"action": "delete", "sprint_id": 40}), ""),
        ("confluence_search_spaces", json!({"keys": ["DOC"]}), ""),
        ("confluence_search_pages", json!({"query": "release", "space_key": "DOC"}), ""),
        ("confluence_get_page", json!({"page_id": "1"}), ""),
        ("confluence_download_page", json!({"page_id": "1", "attachments": true}), ""),
        ("confluence_create_page", json!({"space_id": "1", "title": "t", "body": "x"}), ""),
        ("confluence_create_page", json!({"space_key": "DOC", "title": "t", "page_file": "a"}), "read a"),
        ("confluence_create_page", json!({"parent_id": "1", "title": "t", "page_file": "a"}), "read a"),
        ("confluence_update_page", json!({"page_id": "1", "version": 3, "body": "x"}), ""),
        ("confluence_update_page", json!({"page_id": "1", "version": 3, "page_file": "a"}), "read a"),
        ("confluence_manage_label", json!({"action": "add", "page_id": "1", "labels": "plan"}), ""),
        ("confluence_manage_label", json!({"action": "remove", "page_id": "1", "labels": ["plan"]}), ""),
        ("confluence_manage_comment", json!({"action": "create", "page_id": "1", "body": "x"}), ""),
        (
            "confluence_manage_comment",
            json!({"action": "update", "comment_id": "1", "version": 1, "body": "x"}),
            "",
        ),
        ("confluence_manage_comment", json!({"action": "delete", "comment_id": "1"}), ""),
        ("confluence_manage_page", json!({"action": "move", "page_id": "1", "parent_id": "2"}), ""),
        ("confluence_manage_page", json!({"action": "trash", "page_id": "1"}), ""),
        ("confluence_manage_page", json!({"action": "restore", "page_id": "1"}), ""),
        ("confluence_manage_page", json!({"action": "purge", "page_id": "1"}), ""),
        (
            "confluence_manage_restriction",
            json!({"action": "add", "page_id": "1", "operation": "read", "subject": "user", "subject_id": "2"}),
            "",
        ),
        (
            "confluence_manage_restriction",
            json!({"action": "remove", "page_id": "1", "operation": "update", "subject": "group", "subject_id": "x"}),
            "",
        ),
        ("confluence_manage_restriction", json!({"action": "clear", "page_id": "1"}), ""),
        ("confluence_manage_attachment", json!({"action": "upload", "page_id": "1", "path": "a"}), "read a"),
        ("confluence_manage_attachment", json!({"action": "delete", "attachment_id": "1"}), ""),
        ("ask_user", json!({"question": "Which?"}), ""),
        ("todos_set", json!({"todos": []}), ""),
        ("todos_get", json!({}), ""),
        ("plan_mode_enter", json!({"reason": "large"}), ""),
        ("plan_mode_present", json!({"file_path": "../plans/plan.md"}), "read ../plans/plan.md"),
        ("plan_mode_force_exit", json!({"reason": "small"}), ""),
        (
            "subagent_prompt",
            json!({"assignments": [
                {"name": "a", "prompt": "x", "profile": "explore"}, {"name": "b", "prompt": "x", "profile": "developer"},
            ]}),
            "agent explore agent developer",
        ),
        ("subagent_prompt", json!({"assignments": {"name": "a", "prompt": "x", "resume": true}}), ""),
        ("subagent_status", json!({}), ""),
        ("subagent_stop", json!({"names": ["a"]}), ""),
        ("async_bash", json!({"action": "list"}), ""),
        ("async_bash", json!({"action": "logs", "id": "1", "after": 0}), ""),
        ("async_bash", json!({"action": "stop", "id": "1"}), ""),
        ("launch", json!({"action": "list"}), ""),
        ("launch", json!({"action": "status"}), ""),
        ("launch", json!({"action": "logs", "name": "server"}), ""),
        ("launch", json!({"action": "start", "name": "server"}), ""),
        ("launch", json!({"action": "restart", "name": "server"}), ""),
        ("launch", json!({"action": "stop", "name": "server"}), ""),
    ]
}

/// A project, a folder for plans, and rules over them.
struct World {
    folder: tempfile::TempDir,
    engine: RuleEngine,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["project/src", "plans"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        for file in ["project/a", "plans/plan.md"] {
            std::fs::write(folder.path().join(file), "x").unwrap();
        }
        let roots = Roots::new().project(folder.path().join("project")).plans(folder.path().join("plans"));
        Self { engine: RuleEngine::new(roots), folder }
    }

    fn call(&self, tool: &Tool, sent: &Value, rule_set: &str) -> ProposedCall {
        let sent = EffectiveArguments::new(sent.clone()).unwrap();
        let name = tool.definition().name();
        let arguments = tool.effective(&sent).unwrap_or_else(|error| panic!("{name}: {error}")).arguments;
        let mode = if rule_set == "planning" { Mode::Planning } else { Mode::Coding };
        ProposedCall::new(tool.descriptor().clone(), arguments, CallOrigin::Model, rule_set)
            .mode(mode)
            .working_directory(self.folder.path().join("project"))
    }

    fn decide(&self, tool: &Tool, sent: &Value, rule_set: &str) -> Decision {
        self.engine.evaluate(self.call(tool, sent, rule_set)).decision()
    }

    /// What a call affects besides the tool as a whole, as resolved, in words.
    fn affected(&self, tool: &Tool, sent: &Value) -> String {
        let evaluation = self.engine.evaluate(self.call(tool, sent, "autonomous"));
        let project = self.folder.path().canonicalize().unwrap().join("project");
        let targets = evaluation.evidence.targets.iter().filter_map(|target| match target.subject() {
            CanonicalSubject::Path(path) => {
                let access = if path.access == Access::Read { "read" } else { "write" };
                let tree = if path.scope == TargetScope::Tree { "/**" } else { "" };
                let absolute = std::path::Path::new(&path.resolved.absolute);
                let shown = match absolute.strip_prefix(&project) {
                    Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
                    Ok(inside) => inside.display().to_string(),
                    Err(_) => {
                        format!("../{}", absolute.strip_prefix(project.parent().unwrap()).unwrap().display())
                    }
                };
                Some(format!("{access} {shown}{tree}"))
            }
            CanonicalSubject::Url(url) => Some(url.as_str().to_owned()),
            CanonicalSubject::Agent(agent) => Some(format!("agent {}", agent.profile)),
            CanonicalSubject::WholeTool => None,
            other => panic!("{other:?}"),
        });
        targets.collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn every_tool_says_what_its_calls_affect() {
    let (world, tools) = (World::new(), known_tools());
    let mut tried = BTreeSet::new();
    for (name, sent, affected) in calls() {
        let tool = tools.get(name).unwrap();
        assert_eq!(world.affected(tool, &sent), affected, "{name} {sent}");
        tried.insert((name.to_owned(), sent.get("action").cloned().unwrap_or_default().to_string()));
    }
    for tool in tools.iter() {
        let (name, properties) = (tool.definition().name(), &tool.definition().parameters["properties"]);
        let actions = properties["action"].get("enum").cloned().unwrap_or_else(|| json!([null]));
        for action in actions.as_array().unwrap() {
            assert!(tried.contains(&(name.to_owned(), action.to_string())), "no call of `{name}` {action}");
        }
    }
}

/// The columns of the rule sets.
#[derive(Clone, Copy, Debug)]
enum Column {
    Interaction,
    Read,
    Network,
    SubAgents,
    Programs,
    Other,
}

fn column(tool: &Tool, sent: &Value) -> Column {
    let descriptor = tool.descriptor();
    let risk = descriptor.risk_of(&EffectiveArguments::new(sent.clone()).unwrap());
    match risk {
        Risk::Interaction => Column::Interaction,
        Risk::Read => Column::Read,
        Risk::Network => Column::Network,
        _ if descriptor.groups == ["subagents"] => Column::SubAgents,
        _ if ["bash", "python_exec"].contains(&&*descriptor.name) => Column::Programs,
        _ => Column::Other,
    }
}

/// By rule set: interaction, read, network, sub-agents, programs, any other.
const RULE_SETS: [(&str, [Decision; 6]); 5] = [
    ("baseline", [Allow, Prompt, Prompt, Prompt, Prompt, Prompt]),
    ("read_only", [Allow, Allow, Deny, Allow, Deny, Deny]),
    ("supervised", [Allow, Allow, Prompt, Prompt, Prompt, Prompt]),
    ("autonomous", [Allow, Allow, Allow, Allow, Allow, Allow]),
    ("planning", [Allow, Allow, Allow, Allow, Prompt, Deny]),
];

#[test]
fn every_rule_set_decides_about_every_tool_as_reviewed() {
    let (world, tools) = (World::new(), known_tools());
    for (name, sent, _) in calls() {
        let tool = tools.get(name).unwrap();
        let column = column(tool, &sent);
        for (rule_set, decisions) in RULE_SETS {
            let wanted = decisions[column as usize];
            assert_eq!(world.decide(tool, &sent, rule_set), wanted, "{rule_set}: {name} {sent} ({column:?})");
        }
    }
}

#[test]
fn a_launch_is_read_only_where_it_only_looks() {
    let (world, tools) = (World::new(), known_tools());
    let launch = tools.get("launch").unwrap();
    for (action, wanted) in [
        ("list", Allow),
        ("status", Allow),
        ("logs", Allow),
        ("start", Deny),
        ("restart", Deny),
        ("stop", Deny),
    ] {
        let mut sent = json!({"action": action});
        if action != "list" {
            sent["name"] = "server".into();
        }
        assert_eq!(world.decide(launch, &sent, "read_only"), wanted, "{action}");
    }
}

#[test]
fn planning_writes_plans_and_nothing_else() {
    let (world, tools) = (World::new(), known_tools());
    for (rule_set, inside, outside) in [
        ("baseline", Prompt, Prompt),
        ("read_only", Deny, Deny),
        ("supervised", Prompt, Prompt),
        ("autonomous", Allow, Allow),
        ("planning", Allow, Deny),
    ] {
        for (name, rest) in [
            ("write", json!({"content": ""})),
            ("edit", json!({"edits": [{"old_text": "x", "new_text": "y"}]})),
        ] {
            for (path, wanted) in [("../plans/plan.md", inside), ("a", outside), ("../plans/../a", outside)] {
                let mut sent = rest.clone();
                sent["path"] = path.into();
                assert_eq!(
                    world.decide(tools.get(name).unwrap(), &sent, rule_set),
                    wanted,
                    "{rule_set}: {name} {path}"
                );
            }
        }
    }
}

/// A grant for one profile does not cover a follow-up in the same call, whose profile the call does not name.
#[test]
fn a_follow_up_is_not_covered_by_what_was_allowed_for_a_profile() {
    let tools = known_tools();
    let tool = tools.get("subagent_prompt").unwrap();
    let targets = |assignments: Value| {
        let sent = EffectiveArguments::new(json!({"assignments": assignments})).unwrap();
        let targets = tool.targets(&tool.effective(&sent).unwrap().arguments);
        targets.into_iter().map(|target| target.argument.unwrap_or_default()).collect::<Vec<_>>()
    };
    let new = json!({"name": "a", "prompt": "x", "profile": "explore"});
    let known = json!({"name": "b", "prompt": "x"});
    assert_eq!(targets(json!([new.clone()])), ["assignments.0.profile"]);
    assert_eq!(targets(json!([known.clone(), new])), ["", "assignments.1.profile"]);
    assert_eq!(targets(json!([known])), [""]);
}
