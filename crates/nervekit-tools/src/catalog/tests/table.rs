//! What was reviewed of each tool, row by row, and calls to try it with.

use std::collections::BTreeSet;

use nervekit_permissions::Risk::{self, AgentSpawn, Destructive, Interaction, Network, Read, Unknown, Write};
use nervekit_permissions::ToolKind::{self, Code, Command, Filesystem, Integration, Orchestration};
use nervekit_permissions::{Access, SelectorKind, TargetScope, ToolDescriptor};

use super::super::known_tools;
use crate::definition::Availability;
use crate::definition::Execution::{self, Parallel, Sequential};
use crate::definition::HandledBy::{self, Core, Host, Local};

type Row = (
    &'static str,
    &'static str,
    ToolKind,
    Risk,
    /* primary arguments, in order */ &'static str,
    /* targets */ &'static str,
    Execution,
    /* replay-safe */ bool,
    HandledBy,
    /* capability */ &'static str,
);

const TALK: ToolKind = ToolKind::Interaction;
const WEB: ToolKind = ToolKind::Network;
const WHOLE: &str = "whole_tool";
const UPLOAD: &str = "whole_tool; path?: path read exact, content";
const PAGE_FILE: &str = "whole_tool; page_file?: path read exact, content";

#[rustfmt::skip]
const TABLE: [Row; 49] = [
    ("read", "file_inspection", Filesystem, Read, "path", "path?: path read exact", Parallel, true, Local, ""),
    ("grep", "file_inspection", Filesystem, Read, "paths path", "paths|path|.: path read tree", Parallel, true, Local, ""),
    ("find", "file_inspection", Filesystem, Read, "path", "path|.: path read tree", Parallel, true, Local, ""),
    ("ls", "file_inspection", Filesystem, Read, "path", "path|.: path read tree", Parallel, true, Local, ""),
    ("edit", "file_editing", Filesystem, Write, "path", "path: path write exact", Sequential, false, Local, ""),
    ("write", "file_editing", Filesystem, Write, "path", "path: path write exact", Sequential, false, Local, ""),
    ("bash", "shell", Command, Unknown, "command", "whole_tool; cwd?: path write tree", Sequential, false, Local, ""),
    ("python_exec", "python", Code, Unknown, "code path", "whole_tool; path?: path read exact, content; cwd?: path write tree", Sequential, false, Local, "python"),
    ("web_search", "web", WEB, Network, "query", WHOLE, Parallel, true, Local, "web"),
    ("web_fetch", "web", WEB, Network, "url", "url: url read", Parallel, true, Local, "web"),
    ("jira_search_users", "jira", Integration, Network, "query", WHOLE, Parallel, true, Local, "jira"),
    ("jira_search_issues", "jira", Integration, Network, "jql", WHOLE, Parallel, true, Local, "jira"),
    ("jira_get_issue", "jira", Integration, Network, "issue_key", WHOLE, Parallel, true, Local, "jira"),
    ("jira_get_project", "jira", Integration, Network, "project_key", WHOLE, Parallel, true, Local, "jira"),
    ("jira_search_boards", "jira", Integration, Network, "project_key name", WHOLE, Parallel, true, Local, "jira"),
    ("jira_get_board", "jira", Integration, Network, "board_id", WHOLE, Parallel, true, Local, "jira"),
    ("jira_get_sprint", "jira", Integration, Network, "sprint_id", WHOLE, Parallel, true, Local, "jira"),
    ("jira_download_attachment", "jira", Integration, Network, "attachment_id", WHOLE, Parallel, true, Local, "jira"),
    ("jira_create_issue", "jira", Integration, Write, "project_key", WHOLE, Sequential, false, Local, "jira"),
    ("jira_update_issue", "jira", Integration, Write, "issue_key", WHOLE, Sequential, false, Local, "jira"),
    ("jira_transition_issue", "jira", Integration, Write, "issue_key", WHOLE, Sequential, false, Local, "jira"),
    ("jira_manage_backlog", "jira", Integration, Write, "issue_key", WHOLE, Sequential, false, Local, "jira"),
    ("jira_manage_comment", "jira", Integration, Destructive, "comment_id issue_key", WHOLE, Sequential, false, Local, "jira"),
    ("jira_manage_worklog", "jira", Integration, Destructive, "worklog_id issue_key", WHOLE, Sequential, false, Local, "jira"),
    ("jira_manage_issue_link", "jira", Integration, Destructive, "link_id issue_key", WHOLE, Sequential, false, Local, "jira"),
    ("jira_manage_attachment", "jira", Integration, Destructive, "attachment_id issue_key", UPLOAD, Sequential, false, Local, "jira"),
    ("jira_manage_sprint", "jira", Integration, Destructive, "sprint_id board_id", WHOLE, Sequential, false, Local, "jira"),
    ("confluence_search_spaces", "confluence", Integration, Network, "keys ids", WHOLE, Parallel, true, Local, "confluence"),
    ("confluence_search_pages", "confluence", Integration, Network, "cql query space_key space_id title", WHOLE, Parallel, true, Local, "confluence"),
    ("confluence_get_page", "confluence", Integration, Network, "page_id", WHOLE, Parallel, true, Local, "confluence"),
    ("confluence_download_page", "confluence", Integration, Network, "page_id", WHOLE, Parallel, true, Local, "confluence"),
    ("confluence_create_page", "confluence", Integration, Write, "space_id space_key parent_id page_file", PAGE_FILE, Sequential, false, Local, "confluence"),
    ("confluence_update_page", "confluence", Integration, Write, "page_id page_file", PAGE_FILE, Sequential, false, Local, "confluence"),
    ("confluence_manage_label", "confluence", Integration, Write, "page_id", WHOLE, Sequential, false, Local, "confluence"),
    ("confluence_manage_comment", "confluence", Integration, Destructive, "comment_id page_id", WHOLE, Sequential, false, Local, "confluence"),
    ("confluence_manage_page", "confluence", Integration, Destructive, "page_id", WHOLE, Sequential, false, Local, "confluence"),
    ("confluence_manage_restriction", "confluence", Integration, Destructive, "page_id", WHOLE, Sequential, false, Local, "confluence"),
    ("confluence_manage_attachment", "confluence", Integration, Destructive, "attachment_id page_id", UPLOAD, Sequential, false, Local, "confluence"),
    ("ask_user", "input", TALK, Interaction, "question", WHOLE, Sequential, true, Core, ""),
    ("todos_set", "todos", TALK, Interaction, "", WHOLE, Sequential, true, Core, ""),
    ("todos_get", "todos", TALK, Read, "", WHOLE, Parallel, true, Core, ""),
    ("plan_mode_enter", "plan_mode", Orchestration, Interaction, "reason", WHOLE, Sequential, true, Core, "plan_mode"),
    ("plan_mode_present", "plan_mode", Orchestration, Interaction, "file_path", "whole_tool; file_path: path read exact, content", Sequential, true, Core, "plan_mode"),
    ("plan_mode_force_exit", "plan_mode", Orchestration, Interaction, "reason", WHOLE, Sequential, true, Core, "plan_mode"),
    ("subagent_prompt", "subagents", Orchestration, AgentSpawn, "", "assignments.*.profile?: agent", Sequential, false, Core, "subagents"),
    ("subagent_status", "subagents", Orchestration, Read, "names", WHOLE, Parallel, true, Core, "subagents"),
    ("subagent_stop", "subagents", Orchestration, AgentSpawn, "names", WHOLE, Sequential, true, Core, "subagents"),
    ("async_bash", "shell", Orchestration, Read, "id", WHOLE, Parallel, false, Core, "background_commands"),
    ("launch", "launches", Orchestration, Unknown, "name", WHOLE, Sequential, false, Host, "launches"),
];

/// The selectors in words: `?` for one that need not be there, `.` for the working directory.
fn targets(descriptor: &ToolDescriptor) -> String {
    let mut words: Vec<String> = descriptor.whole_tool.then(|| WHOLE.to_owned()).into_iter().collect();
    for selector in &descriptor.targets {
        let or = if selector.or_working_directory { "|." } else { "" };
        let optional = if selector.optional { "?" } else { "" };
        let content = if selector.binds_content { ", content" } else { "" };
        let access = |access| if access == Access::Read { "read" } else { "write" };
        let kind = match selector.kind {
            SelectorKind::Path { access: kind, scope: TargetScope::Exact } => {
                format!("path {} exact", access(kind))
            }
            SelectorKind::Path { access: kind, scope: TargetScope::Tree } => {
                format!("path {} tree", access(kind))
            }
            SelectorKind::Url { access: kind } => format!("url {}", access(kind)),
            SelectorKind::Agent => "agent".to_owned(),
            _ => panic!("{selector:?}"),
        };
        words.push(format!("{}{or}{optional}: {kind}{content}", selector.arguments.join("|")));
    }
    words.join("; ")
}

#[test]
fn the_catalog_says_of_each_tool_what_was_reviewed() {
    let tools = known_tools();
    for row in TABLE {
        let definition = tools.get(row.0).unwrap_or_else(|| panic!("{}", row.0)).definition();
        let descriptor = &definition.descriptor;
        let (primary, targets) = (descriptor.primary_arguments.join(" "), targets(descriptor));
        let capability = match &definition.availability {
            Availability::Capability(capability) => capability.as_str(),
            Availability::Always => "",
        };
        let [group] = descriptor.groups.as_slice() else { panic!("{}: {:?}", row.0, descriptor.groups) };
        let kind_and_risk = (descriptor.kind, descriptor.base_risk);
        let runs = (definition.execution, definition.replay_safe, definition.handled_by);
        assert_eq!(
            (row.0, group.as_str(), kind_and_risk, primary.as_str(), targets.as_str(), runs, capability),
            (row.0, row.1, (row.2, row.3), row.4, row.5, (row.6, row.7, row.8), row.9),
        );
    }
    let reviewed: BTreeSet<&str> = TABLE.iter().map(|row| row.0).collect();
    let known: BTreeSet<&str> = tools.iter().map(|tool| tool.definition().name()).collect();
    assert_eq!(reviewed, known);
}
