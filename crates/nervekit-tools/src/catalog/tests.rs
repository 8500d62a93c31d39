use serde_json::Value;

use super::*;
use crate::definition::{Execution, HandledBy};
use nervekit_permissions::{Risk, ToolKind};

fn all() -> Vec<crate::Tool> {
    core_tools().iter().chain(local_tools().iter()).cloned().collect()
}

/// Every property, nested ones too, with its path.
fn properties(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    if let Some(members) = schema.get("properties").and_then(Value::as_object) {
        assert_eq!(schema["additionalProperties"], false, "{path}");
        for (name, member) in members {
            let path = format!("{path}.{name}");
            properties(member, &path, found);
            found.push((path, member.clone()));
        }
    }
    if let Some(items) = schema.get("items") {
        properties(items, &format!("{path}[]"), found);
    }
}

#[test]
fn what_the_model_reads_is_complete_and_short() {
    for tool in all() {
        let definition = tool.definition();
        println!("{}: {}\n{:#}\n", definition.name(), definition.description, definition.parameters);
        let name = definition.name();
        assert!((20..=400).contains(&definition.description.len()), "{name}");
        let mut found = Vec::new();
        properties(&definition.parameters, name, &mut found);
        for (path, property) in found {
            let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
            assert!((5..=220).contains(&description.len()), "{path}: {description:?}");
            assert!(!description.contains('\n'), "{path}: {description:?}");
        }
        let text = definition.parameters.to_string();
        assert!(!text.contains("$ref") && !text.contains("\"title\""), "{name}: {text}");
        assert!(text.len() < 2_000, "{name}: {}", text.len());
    }
}

/// The table of `tools.md`.
#[test]
fn the_catalog_says_of_each_tool_what_was_reviewed() {
    use Execution::{Parallel, Sequential};
    use HandledBy::{Core, Local};
    for (name, group, kind, risk, execution, replay_safe, handled_by) in [
        ("read", "file_inspection", ToolKind::Filesystem, Risk::Read, Parallel, true, Local),
        ("grep", "file_inspection", ToolKind::Filesystem, Risk::Read, Parallel, true, Local),
        ("find", "file_inspection", ToolKind::Filesystem, Risk::Read, Parallel, true, Local),
        ("ls", "file_inspection", ToolKind::Filesystem, Risk::Read, Parallel, true, Local),
        ("edit", "file_editing", ToolKind::Filesystem, Risk::Write, Sequential, false, Local),
        ("write", "file_editing", ToolKind::Filesystem, Risk::Write, Sequential, false, Local),
        ("bash", "shell", ToolKind::Command, Risk::Unknown, Sequential, false, Local),
        ("ask_user", "input", ToolKind::Interaction, Risk::Interaction, Sequential, true, Core),
        ("todos_set", "todos", ToolKind::Interaction, Risk::Interaction, Sequential, true, Core),
        ("todos_get", "todos", ToolKind::Interaction, Risk::Read, Parallel, true, Core),
    ] {
        let tools = all();
        let tool = tools.iter().find(|tool| tool.definition().name() == name).unwrap();
        let definition = tool.definition();
        assert_eq!(definition.descriptor.groups, [group], "{name}");
        assert_eq!((definition.descriptor.kind, definition.descriptor.base_risk), (kind, risk), "{name}");
        assert_eq!((definition.execution, definition.replay_safe), (execution, replay_safe), "{name}");
        assert_eq!(definition.handled_by, handled_by, "{name}");
        assert_eq!(tool.executor().is_some(), handled_by == Local, "{name}");
    }
    assert_eq!(all().len(), 10);
}
