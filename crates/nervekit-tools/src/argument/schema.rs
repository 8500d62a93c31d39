//! Walking a JSON Schema beside a value. Only what schemars writes for Rust types is understood; where a schema
//! says something else nothing is coerced and decoding decides.

use serde_json::{Map, Value};

use super::ArgumentError;

/// Says `additionalProperties: false` of every object with known properties, and leaves out what no model needs.
pub(super) fn close(schema: &mut Value) {
    if let Value::Object(root) = schema {
        root.remove("$schema");
        // The tool has a description of its own.
        root.remove("description");
        // Arguments are an object even where the type has no fields.
        root.entry("type").or_insert_with(|| "object".into());
        root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    close_below(schema);
}

fn close_below(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            // A property may be called `title` too: a title is a text.
            if map.get("title").is_some_and(Value::is_string) {
                map.remove("title");
            }
            // Number formats of Rust (`uint64`): the bounds say it, and not every service knows them.
            if map.get("format").and_then(Value::as_str).is_some_and(|format| format.contains("int")) {
                map.remove("format");
            }
            if let Some(Value::String(text)) = map.get_mut("description") {
                // The first paragraph of a doc comment is for every reader, what follows for those of Rust.
                *text = text.split("\n\n").next().unwrap_or_default().replace('\n', " ");
            }
            if map.get("properties").is_some_and(Value::is_object) {
                map.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            map.values_mut().for_each(close_below);
        }
        Value::Array(items) => items.iter_mut().for_each(close_below),
        _ => {}
    }
}

/// Coerces unambiguous slips and refuses unknown fields.
pub(super) fn coerce(root: &Value, value: &mut Value, notes: &mut Vec<String>) -> Result<(), ArgumentError> {
    Walk { root, notes }.coerce(root, value, "")
}

/// Leaves out members that are null because they are absent: those that need not be there.
pub(super) fn drop_absent(root: &Value, value: &mut Value) {
    drop_absent_below(root, root, value);
}

fn drop_absent_below(root: &Value, schema: &Value, value: &mut Value) {
    let schema = resolve(root, schema);
    match value {
        Value::Object(members) => {
            members.retain(|name, member| !member.is_null() || is_required(schema, name));
            for (name, member) in members {
                if let Some(schema) = property(schema, name) {
                    drop_absent_below(root, schema, member);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    drop_absent_below(root, schema, item);
                }
            }
        }
        _ => {}
    }
}

struct Walk<'a> {
    root: &'a Value,
    notes: &'a mut Vec<String>,
}

impl Walk<'_> {
    fn coerce(&mut self, schema: &Value, value: &mut Value, path: &str) -> Result<(), ArgumentError> {
        let schema = resolve(self.root, schema);
        if let Some((read, note)) = slip(schema, value) {
            self.notes.push(format!("`{path}` {note}"));
            *value = read;
        }
        match value {
            Value::Object(members) => {
                let Some(known) = schema.get("properties").and_then(Value::as_object) else { return Ok(()) };
                let open = schema.get("additionalProperties") != Some(&Value::Bool(false));
                for (name, member) in members {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    match known.get(name) {
                        Some(schema) => self.coerce(schema, member, &path)?,
                        None if open => {}
                        None => return Err(unknown(&path, known)),
                    }
                }
            }
            Value::Array(items) => {
                let Some(schema) = schema.get("items") else { return Ok(()) };
                for (index, item) in items.iter_mut().enumerate() {
                    self.coerce(schema, item, &format!("{path}[{index}]"))?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn unknown(path: &str, known: &Map<String, Value>) -> ArgumentError {
    let mut names: Vec<String> = known.keys().map(|name| format!("`{name}`")).collect();
    names.sort();
    let problem = if names.is_empty() {
        "is unknown; this tool takes no arguments".to_owned()
    } else {
        format!("is unknown; known are {}", names.join(", "))
    };
    ArgumentError::new(nervekit_permissions::display(path), problem)
}

/// What a value of the wrong type was meant to be, when there is only one reading.
fn slip(schema: &Value, value: &Value) -> Option<(Value, &'static str)> {
    match value {
        Value::Number(number) if !allows(schema, "number") && allows(schema, "integer") => {
            // 5.0 is the integer 5; some models write every number so.
            let float = number.as_f64().filter(|_| number.is_f64())?;
            let whole = format!("{float:.0}").parse::<i64>().ok()?;
            #[expect(
                clippy::cast_precision_loss,
                clippy::float_cmp,
                reason = "that it is exact is what is asked"
            )]
            let exact = whole as f64 == float;
            exact.then(|| (whole.into(), "was sent as a decimal number and read as an integer"))
        }
        Value::String(_) if allows(schema, "string") => None,
        Value::String(text) => {
            let read: Option<Value> = serde_json::from_str(text.trim()).ok();
            match read {
                Some(read @ Value::Number(_)) if allows(schema, "number") => {
                    Some((read, "was sent as text and read as a number"))
                }
                Some(Value::Number(number)) if allows(schema, "integer") && !number.is_f64() => {
                    Some((Value::Number(number), "was sent as text and read as a number"))
                }
                Some(read @ Value::Bool(_)) if allows(schema, "boolean") => {
                    Some((read, "was sent as text and read as true or false"))
                }
                Some(read @ Value::Array(_)) if allows(schema, "array") => {
                    Some((read, "was sent as JSON text and read as an array"))
                }
                Some(read @ Value::Object(_)) if allows(schema, "object") => {
                    Some((read, "was sent as JSON text and read as an object"))
                }
                _ if allows(schema, "array") && item_allows(schema, "string") => Some((
                    Value::Array(vec![value.clone()]),
                    "was sent as one text and read as an array of it",
                )),
                _ => None,
            }
        }
        Value::Object(_) if allows(schema, "array") && !allows(schema, "object") => {
            Some((Value::Array(vec![value.clone()]), "was sent as one object and read as an array of it"))
        }
        _ => None,
    }
}

fn item_allows(schema: &Value, wanted: &str) -> bool {
    schema.get("items").is_some_and(|items| allows(items, wanted))
}

/// Whether a schema allows a JSON type; one that does not say allows every type.
fn allows(schema: &Value, wanted: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == wanted,
        Some(Value::Array(some)) => some.iter().any(|one| one == wanted),
        _ => match schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            Some(alternatives) => alternatives.iter().any(|one| allows(one, wanted)),
            None => true,
        },
    }
}

/// Whether a property has to be present, so that its null means something.
fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|required| required == name))
}

fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(name)
}

/// Follows a reference within the document, and an alternative to null, to the schema that describes.
fn resolve<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    // A document cannot hold more references in a row than this without being a loop.
    for _ in 0..32 {
        let referenced =
            schema.get("$ref").and_then(Value::as_str).and_then(|name| root.pointer(name.strip_prefix('#')?));
        let only = schema.get("anyOf").and_then(Value::as_array).and_then(|alternatives| {
            let mut described = alternatives.iter().filter(|one| one.get("type") != Some(&"null".into()));
            described.next().filter(|_| described.next().is_none())
        });
        match referenced.or(only) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}
