//! The JSON Schemas of the documents, kept beside the code.

use std::path::Path;

use serde_json::Value;

use super::{PolicyDocument, RuleSet};

#[test]
fn the_schemas_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let schemas = [
        ("permissions.schema.json", schemars::schema_for!(PolicyDocument)),
        ("rule-set.schema.json", schemars::schema_for!(RuleSet)),
    ];
    for (name, schema) in schemas {
        let mut schema = schema.to_value();
        without_code(&mut schema);
        let file = folder.join(name);
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(&file, serde_json::to_string_pretty(&schema).unwrap() + "\n").unwrap();
        }
        let kept: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(kept, schema, "run this test with UPDATE_SCHEMAS=1 to write `schemas/{name}` anew");
    }
}

/// Examples in Rust say nothing to who writes a document.
fn without_code(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut("description")
                && let Some((words, _)) = text.split_once("\n\n```")
            {
                *text = words.to_owned();
            }
            map.values_mut().for_each(without_code);
        }
        Value::Array(items) => items.iter_mut().for_each(without_code),
        _ => {}
    }
}
