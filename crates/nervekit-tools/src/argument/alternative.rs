//! Arguments of which one excludes another: `oneOf` at the root of a schema.
//!
//! schemars writes a flattened or tagged enum as `oneOf`, with the properties inside. Not every service accepts
//! that, and none of this crate's walks looks there. So all properties are moved up to the root, and `oneOf` keeps
//! what is left to say: which of them belong together.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::ArgumentError;

/// Alternatives of which a call takes exactly one: the variants of one enum.
#[derive(Debug)]
pub(super) struct Choice {
    /// The property whose value names the alternative, such as `action`.
    tag: Option<String>,
    alternatives: Vec<Alternative>,
}

#[derive(Debug)]
struct Alternative {
    /// The value of the tag.
    value: Option<String>,
    /// The properties that belong to it.
    properties: Vec<String>,
    /// Those that have to be there.
    required: Vec<String>,
    /// What it is for.
    description: Option<String>,
}

/// Moves the properties of alternatives up to the root of a closed schema. One that says something else stays as it is.
pub(super) fn hoist(schema: &mut Value) -> Vec<Choice> {
    let Value::Object(root) = schema else { return Vec::new() };
    let groups = groups(root);
    let choices: Option<Vec<Choice>> = groups.iter().map(|group| Choice::read(group)).collect();
    let Some(choices) = choices.filter(|choices| !choices.is_empty()) else { return Vec::new() };
    root.remove("oneOf");
    root.remove("allOf");
    root.remove("unevaluatedProperties");
    let mut said: Vec<Value> = Vec::new();
    for (choice, group) in choices.iter().zip(&groups) {
        choice.move_properties(root, group);
        said.push(choice.said());
    }
    if said.len() == 1 {
        root.extend(said.pop().and_then(|said| said.as_object().cloned()).unwrap_or_default());
    } else {
        root.insert("allOf".to_owned(), said.into());
    }
    choices
}

/// The lists of alternatives: one as `oneOf`, several as `allOf` of such.
fn groups(root: &Map<String, Value>) -> Vec<Vec<Value>> {
    let list = |value: &Value| value.get("oneOf").and_then(Value::as_array).cloned();
    match root.get("allOf").and_then(Value::as_array) {
        Some(all) if !root.contains_key("oneOf") => {
            all.iter().map(list).collect::<Option<_>>().unwrap_or_default()
        }
        _ => root.get("oneOf").and_then(Value::as_array).cloned().into_iter().collect(),
    }
}

impl Choice {
    fn read(group: &[Value]) -> Option<Self> {
        // A tag has another value in each alternative.
        let names = |name: &String| {
            let values: BTreeSet<&str> =
                group.iter().filter_map(|one| constant(one.get("properties")?.get(name)?)).collect();
            values.len() == group.len()
        };
        let tag = group.first()?.get("properties")?.as_object()?.keys().find(|name| names(name)).cloned();
        let alternatives = group.iter().map(|one| Alternative::read(one, tag.as_deref()));
        Some(Self { alternatives: alternatives.collect::<Option<_>>()?, tag })
    }

    /// Adds the properties to those of the root; the tag becomes the list of its values.
    fn move_properties(&self, root: &mut Map<String, Value>, group: &[Value]) {
        root.insert("type".to_owned(), "object".into());
        if let Some(tag) = &self.tag {
            let required = root.entry("required").or_insert_with(|| json!([]));
            if let Value::Array(names) = required {
                names.insert(0, tag.as_str().into());
            }
        }
        let properties = root.entry("properties").or_insert_with(|| json!({}));
        let Value::Object(properties) = properties else { return };
        for (one, schema) in self.alternatives.iter().zip(group) {
            for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if self.tag.as_ref() == Some(name) {
                    continue;
                }
                let mut schema = schema.clone();
                // A variant that holds one value is described in the place of the value.
                if let (Value::Object(schema), Some(text)) = (&mut schema, one.description.as_deref())
                    && self.tag.is_none()
                {
                    schema.entry("description").or_insert_with(|| text.into());
                }
                match properties.get_mut(name) {
                    Some(known) => also(known, schema),
                    None => {
                        properties.insert(name.clone(), schema);
                    }
                }
            }
        }
        if let Some(tag) = &self.tag {
            let values: Vec<_> = self.alternatives.iter().filter_map(|one| one.value.as_deref()).collect();
            let described = self.alternatives.iter().filter_map(|one| {
                Some(format!("`{}`: {}", one.value.as_deref()?, one.description.as_deref()?))
            });
            let description = described.collect::<Vec<_>>().join(" ");
            let schema = if description.is_empty() {
                json!({"type": "string", "enum": values})
            } else {
                json!({"type": "string", "enum": values, "description": description})
            };
            properties.insert(tag.clone(), schema);
        }
    }

    /// What `oneOf` still says.
    fn said(&self) -> Value {
        let alternatives: Vec<Value> = self
            .alternatives
            .iter()
            .map(|one| {
                let mut said = Map::new();
                if let (Some(tag), Some(value)) = (&self.tag, &one.value) {
                    said.insert("properties".to_owned(), json!({tag: {"const": value}}));
                }
                if !one.required.is_empty() {
                    said.insert("required".to_owned(), one.required.clone().into());
                }
                Value::Object(said)
            })
            .collect();
        json!({"oneOf": alternatives})
    }

    /// Refuses a call that takes none of the alternatives, several, or a part of one. What is null is not there, and
    /// is left out.
    pub(super) fn check(&self, value: &mut Value) -> Result<(), ArgumentError> {
        let Value::Object(members) = value else { return Ok(()) };
        members.retain(|name, member| !member.is_null() || !self.names(name));
        let (chosen, words) = match &self.tag {
            Some(tag) => self.by_tag(tag, members)?,
            None => self.by_presence(members)?,
        };
        for name in &chosen.required {
            if !members.contains_key(name) {
                return Err(ArgumentError::new(name.as_str(), format!("is missing; {words} needs it")));
            }
        }
        let foreign = members.keys().find(|name| self.names(name) && !chosen.properties.contains(name));
        match foreign {
            Some(name) => {
                let problem = format!("does not go with {words}; leave it out");
                Err(ArgumentError::new(name.as_str(), problem))
            }
            None => Ok(()),
        }
    }

    /// Whether a property belongs to an alternative.
    fn names(&self, name: &str) -> bool {
        self.alternatives.iter().any(|one| one.properties.iter().any(|known| known == name))
    }

    fn by_tag(
        &self,
        tag: &str,
        members: &Map<String, Value>,
    ) -> Result<(&Alternative, String), ArgumentError> {
        let sent = members.get(tag);
        let known = |sent: &Value| self.alternatives.iter().find(|one| one.value.as_deref() == sent.as_str());
        match (sent, sent.and_then(known)) {
            (Some(_), Some(chosen)) => {
                let value = chosen.value.as_deref().unwrap_or_default();
                Ok((chosen, format!("the {tag} `{value}`")))
            }
            (sent, _) => {
                let values = self.alternatives.iter().filter_map(|one| one.value.as_deref());
                let problem = if sent.is_some() { "is unknown" } else { "is missing" };
                Err(ArgumentError::new(tag, format!("{problem}; it is one of {}", quoted(values))))
            }
        }
    }

    fn by_presence(&self, members: &Map<String, Value>) -> Result<(&Alternative, String), ArgumentError> {
        let mut present =
            self.alternatives.iter().filter(|one| one.required.iter().any(|name| members.contains_key(name)));
        let needed = || quoted(self.alternatives.iter().flat_map(|one| &one.required).map(String::as_str));
        match (present.next(), present.next()) {
            (Some(chosen), None) => Ok((chosen, quoted(chosen.required.iter().map(String::as_str)))),
            (None, _) => Err(ArgumentError::new("", format!("give one of {}", needed()))),
            (Some(_), Some(_)) => Err(ArgumentError::new("", format!("give only one of {}", needed()))),
        }
    }
}

impl Alternative {
    fn read(schema: &Value, tag: Option<&str>) -> Option<Self> {
        let properties = schema.get("properties")?.as_object()?;
        let value = tag.and_then(|tag| constant(properties.get(tag)?));
        let names = |names: &mut dyn Iterator<Item = &str>| -> Vec<String> {
            names.filter(|name| Some(*name) != tag).map(str::to_owned).collect()
        };
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let description = schema.get("description").and_then(Value::as_str);
        Some(Self {
            value: value.map(str::to_owned),
            properties: names(&mut properties.keys().map(String::as_str)),
            required: names(&mut required.filter_map(Value::as_str)),
            description: description.map(str::to_owned),
        })
    }
}

/// Adds what another alternative says of the same property, unless it says the same: then the first words stay.
fn also(known: &mut Value, other: Value) {
    if bare(known) == bare(&other) {
        return;
    }
    match known.get_mut("anyOf").and_then(Value::as_array_mut) {
        Some(alternatives) if alternatives.iter().any(|one| bare(one) == bare(&other)) => {}
        Some(alternatives) => alternatives.push(other),
        None => *known = json!({"anyOf": [known.take(), other]}),
    }
}

/// A schema without its words, and without null: what is null is absent.
fn bare(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(members) = &mut schema {
        members.remove("description");
        members.remove("default");
        if let Some(Value::Array(types)) = members.get_mut("type") {
            types.retain(|one| one != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                members.insert("type".to_owned(), only);
            }
        }
    }
    schema
}

fn constant(schema: &Value) -> Option<&str> {
    schema.get("const")?.as_str()
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
