use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::definition::{Availability, HandledBy};

mod decision;
mod table;

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
    for tool in known_tools().iter() {
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
        assert!(!text.contains("$ref") && !text.contains("\"title\":\""), "{name}: {text}");
        assert!(text.len() < 2_000, "{name}: {}", text.len());
    }
}

#[test]
fn every_schema_is_a_closed_object_whose_alternatives_say_only_what_goes_together() {
    for tool in known_tools().iter() {
        let (name, schema) = (tool.definition().name(), &tool.definition().parameters);
        assert_eq!(
            (&schema["type"], &schema["additionalProperties"]),
            (&"object".into(), &false.into()),
            "{name}"
        );
        let known: BTreeSet<&String> = schema["properties"].as_object().unwrap().keys().collect();
        let required = |schema: &Value| -> Vec<String> {
            serde_json::from_value(
                schema.get("required").cloned().unwrap_or_else(|| Value::Array(Vec::new())),
            )
            .unwrap()
        };
        assert!(required(schema).iter().all(|name| known.contains(name)), "{name}");
        let one = schema.get("oneOf").map(|_| schema);
        let groups = schema.get("allOf").and_then(Value::as_array).into_iter().flatten().chain(one);
        for group in groups {
            let alternatives = group["oneOf"].as_array().unwrap();
            assert!(alternatives.len() > 1, "{name}");
            for alternative in alternatives {
                assert!(
                    required(alternative).iter().all(|name| known.contains(name)),
                    "{name}: {alternative}"
                );
                let keys = alternative.as_object().unwrap().keys().map(String::as_str);
                assert!(
                    keys.into_iter().all(|key| ["properties", "required"].contains(&key)),
                    "{name}: {alternative}"
                );
            }
        }
    }
}

/// A rule can only be about an argument that exists, and so can a selector.
#[test]
fn a_descriptor_names_arguments_that_exist() {
    for tool in known_tools().iter() {
        let (descriptor, schema) = (tool.descriptor(), &tool.definition().parameters);
        let actions = descriptor.actions.iter().map(|actions| &actions.argument);
        let selected = descriptor.targets.iter().flat_map(|selector| &selector.arguments);
        let named = descriptor.primary_arguments.iter().chain(&descriptor.cosmetic_arguments);
        for argument in named.chain(selected).chain(actions) {
            let pointer = argument.split('.').fold(String::new(), |at, part| match part {
                "*" => at + "/items",
                part => at + "/properties/" + part,
            });
            assert!(schema.pointer(&pointer).is_some(), "{}: {argument}", descriptor.name);
        }
        // What a declared action is called, the schema lists.
        if let Some(actions) = &descriptor.actions {
            let listed = schema["properties"][&actions.argument]["enum"].as_array().unwrap();
            let mut declared = actions.risks.keys();
            assert!(declared.all(|action| listed.contains(&action.as_str().into())), "{}", descriptor.name);
        }
    }
}

#[test]
fn a_tool_whose_action_decides_declares_it() {
    for tool in known_tools().iter() {
        let has_action = tool.definition().parameters["properties"].get("action").is_some();
        assert_eq!(tool.descriptor().actions.is_some(), has_action, "{}", tool.descriptor().name);
    }
}

#[test]
fn what_nobody_carries_out_needs_a_capability() {
    let core = core_tools();
    for tool in known_tools().iter() {
        let name = tool.definition().name();
        let runs = tool.executor().is_some() || core.get(name).is_some();
        assert_eq!(runs, tool.definition().availability == Availability::Always, "{name}");
        assert!(tool.executor().is_none() || tool.definition().handled_by == HandledBy::Local, "{name}");
    }
}

#[test]
fn the_readme_lists_every_tool() {
    let readme = include_str!("../../README.md");
    let section = readme.split("## The catalog").nth(1).unwrap().split("## Features").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let listed: BTreeSet<&str> =
        rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect();
    let tools = known_tools();
    assert_eq!(listed, tools.iter().map(|tool| tool.definition().name()).collect());
    assert!(section.contains(&format!("has {} tools", tools.len())));
}
