use super::*;
use serde_json::json;

/// One replacement,
/// in one place.
///
/// What follows is for readers of Rust.
#[derive(Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
struct Edit {
    old_text: String,
    new_text: String,
}

fn yes() -> bool {
    true
}

/// One of everything, without `deny_unknown_fields`.
#[derive(Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
struct All {
    path: String,
    #[serde(default)]
    edits: Vec<Edit>,
    names: Option<Vec<String>>,
    limit: Option<u32>,
    ratio: Option<f64>,
    #[serde(default = "yes")]
    deep: bool,
    mode: Option<Mode>,
    nested: Option<Nested>,
    any: Option<Value>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Fast,
    Slow,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
struct Nested {
    count: u64,
    title: Option<String>,
}

fn effective(sent: Value) -> Result<Effective, ArgumentError> {
    let all = ArgumentType::of::<All>();
    let first = all.effective(&EffectiveArguments::new(sent).unwrap())?;
    let again = all.effective(&first.arguments).unwrap();
    assert_eq!(again.arguments, first.arguments, "a fixed point");
    assert!(again.notes.is_empty(), "{:?}", again.notes);
    Ok(first)
}

#[test]
fn defaults_are_filled_and_absent_options_stay_absent() {
    let wanted = json!({"path": "a", "edits": [], "deep": true});
    assert_eq!(effective(json!({"path": "a"})).unwrap().arguments.as_value(), &wanted);
    let nulls = json!({"path": "a", "limit": null, "names": null, "mode": null, "nested": null});
    assert_eq!(effective(nulls).unwrap().arguments.as_value(), &wanted);
}

#[test]
fn unambiguous_slips_are_coerced_and_noted() {
    for (sent, wanted, note) in [
        (
            json!({"path": "a", "limit": "20"}),
            json!({"limit": 20}),
            "`limit` was sent as text and read as a number",
        ),
        (
            json!({"path": "a", "limit": 20.0}),
            json!({"limit": 20}),
            "`limit` was sent as a decimal number and read as an integer",
        ),
        (
            json!({"path": "a", "ratio": " 0.5 "}),
            json!({"ratio": 0.5}),
            "`ratio` was sent as text and read as a number",
        ),
        (
            json!({"path": "a", "deep": "false"}),
            json!({"deep": false}),
            "`deep` was sent as text and read as true or false",
        ),
        (
            json!({"path": "a", "edits": "[{\"old_text\": \"a\", \"new_text\": \"b\"}]"}),
            json!({"edits": [{"old_text": "a", "new_text": "b"}]}),
            "`edits` was sent as JSON text and read as an array",
        ),
        (
            json!({"path": "a", "edits": {"old_text": "a", "new_text": "b"}}),
            json!({"edits": [{"old_text": "a", "new_text": "b"}]}),
            "`edits` was sent as one object and read as an array of it",
        ),
        (
            json!({"path": "a", "names": "src"}),
            json!({"names": ["src"]}),
            "`names` was sent as one text and read as an array of it",
        ),
        (
            json!({"path": "a", "names": "[\"x\"]"}),
            json!({"names": ["x"]}),
            "`names` was sent as JSON text and read as an array",
        ),
        (
            json!({"path": "a", "nested": "{\"count\": \"3\"}"}),
            json!({"nested": {"count": 3}}),
            "`nested` was sent as JSON text and read as an object",
        ),
    ] {
        let effective = effective(sent.clone()).unwrap_or_else(|error| panic!("{sent}: {error}"));
        for (name, value) in wanted.as_object().unwrap() {
            assert_eq!(&effective.arguments.as_value()[name], value, "{sent}");
        }
        assert_eq!(effective.notes.first().map(String::as_str), Some(note), "{sent}");
    }
}

#[test]
fn a_text_that_is_wanted_is_never_read_as_something_else() {
    for text in ["5", "true", "[1]", "{}", "null"] {
        let effective = effective(json!({"path": text, "nested": {"count": 1, "title": text}})).unwrap();
        assert_eq!(effective.arguments.get("path").unwrap(), text);
        assert_eq!(effective.arguments.get("nested.title").unwrap(), text);
        assert!(effective.notes.is_empty());
    }
}

#[test]
fn what_is_ambiguous_or_wrong_is_refused_with_its_place() {
    for (sent, wanted) in [
        (json!({}), "missing field `path`"),
        (json!({"path": 5}), "argument `path` is not valid"),
        (json!({"path": "a", "limit": "many"}), "argument `limit` is not valid"),
        (json!({"path": "a", "limit": 1.5}), "argument `limit` is not valid"),
        (json!({"path": "a", "limit": -1}), "argument `limit` is not valid"),
        (json!({"path": "a", "limit": "1.5"}), "argument `limit` is not valid"),
        (json!({"path": "a", "mode": "quick"}), "argument `mode` is not valid"),
        (
            json!({"path": "a", "edits": [{"old_text": "x"}]}),
            "argument `edits[0]` is not valid: missing field `new_text`",
        ),
        (
            json!({"path": "a", "edits": [{"old_text": 1, "new_text": ""}]}),
            "argument `edits[0].old_text` is not valid",
        ),
        (json!({"path": "a", "pathh": "b"}), "argument `pathh` is unknown; known are `any`, "),
        (
            json!({"path": "a", "nested": {"count": 1, "more": 2}}),
            "argument `nested.more` is unknown; known are `count`, `title`",
        ),
        (
            json!({"path": "a", "edits": [{"old_text": "", "new_text": "", "all": true}]}),
            "argument `edits[0].all` is unknown",
        ),
    ] {
        let error = effective(sent.clone()).expect_err(&sent.to_string()).to_string();
        assert!(error.contains(wanted), "{sent}: {error}");
    }
}

#[test]
fn the_schema_is_closed_and_has_no_titles() {
    let schema = ArgumentType::of::<All>().schema().clone();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["properties"]["edits"]["items"]["additionalProperties"], false);
    assert_eq!(schema["properties"]["edits"]["items"]["description"], "One replacement, in one place.");
    for gone in ["title", "$schema", "description"] {
        assert!(schema.get(gone).is_none(), "{gone}");
    }
    assert!(schema["properties"]["limit"].get("format").is_none());
    // A property of that name is not a title.
    let text = schema.to_string();
    assert!(text.contains(r#""title":{"#), "{text}");
    assert!(!text.contains("$ref"), "{text}");
}

#[test]
fn a_type_without_fields_accepts_the_empty_object_only() {
    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Nothing {}
    let nothing = ArgumentType::of::<Nothing>();
    assert!(nothing.effective(&EffectiveArguments::parse("").unwrap()).is_ok());
    let error = nothing.effective(&EffectiveArguments::parse("{\"a\":1}").unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "argument `a` is unknown; this tool takes no arguments");
}

/// A note, to be made or changed.
#[derive(Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
struct Note {
    /// Where it is kept.
    place: Option<String>,
    #[serde(flatten)]
    source: Source,
    #[serde(flatten)]
    action: Action,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Source {
    /// The text itself.
    Text(String),
    /// A file with the text.
    File(String),
}

#[derive(Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(tag = "action", rename_all = "snake_case")]
enum Action {
    /// Makes it.
    ///
    /// More for readers of Rust.
    Make {},
    /// Changes it.
    Change {
        /// Which one.
        number: u32,
        /// Its colour.
        colour: Option<String>,
    },
}

#[test]
fn alternatives_are_hoisted_and_what_they_exclude_is_kept() {
    assert_eq!(
        ArgumentType::of::<Note>().schema(),
        &json!({
            "type": "object",
            "properties": {
                "place": {"type": ["string", "null"], "description": "Where it is kept."},
                "text": {"type": "string", "description": "The text itself."},
                "file": {"type": "string", "description": "A file with the text."},
                "action": {
                    "type": "string", "enum": ["make", "change"],
                    "description": "`make`: Makes it. `change`: Changes it.",
                },
                "number": {"type": "integer", "minimum": 0, "description": "Which one."},
                "colour": {"type": ["string", "null"], "description": "Its colour."},
            },
            "required": ["action"],
            "allOf": [
                {"oneOf": [{"required": ["text"]}, {"required": ["file"]}]},
                {"oneOf": [
                    {"properties": {"action": {"const": "make"}}},
                    {"properties": {"action": {"const": "change"}}, "required": ["number"]},
                ]},
            ],
            "additionalProperties": false,
        })
    );
    // One choice alone needs no `allOf`.
    assert_eq!(
        ArgumentType::of::<Source>().schema()["oneOf"],
        json!([{"required": ["text"]}, {"required": ["file"]}])
    );
}

#[test]
fn a_call_takes_exactly_one_alternative() {
    let note = ArgumentType::of::<Note>();
    let effective = |sent: &Value| note.effective(&EffectiveArguments::new(sent.clone()).unwrap());
    for (sent, wanted) in [
        (json!({"action": "make", "text": "a"}), json!({"action": "make", "text": "a"})),
        // Null is absent, also where it belongs to the other alternative.
        (
            json!({"action": "make", "file": "a", "text": null, "number": null, "place": null}),
            json!({"action": "make", "file": "a"}),
        ),
        (
            json!({"action": "change", "number": "3", "file": "a", "colour": "red"}),
            json!({"action": "change", "number": 3, "file": "a", "colour": "red"}),
        ),
    ] {
        let first = effective(&sent).unwrap();
        assert_eq!(first.arguments.as_value(), &wanted);
        assert_eq!(effective(&wanted).unwrap().arguments, first.arguments, "a fixed point");
    }
    for (sent, wanted) in [
        (json!({"action": "make"}), "the arguments are not valid: give one of `text`, `file`"),
        (
            json!({"action": "make", "text": "a", "file": "b"}),
            "the arguments are not valid: give only one of `text`, `file`",
        ),
        (json!({"text": "a"}), "argument `action` is missing; it is one of `make`, `change`"),
        (
            json!({"action": "burn", "text": "a"}),
            "argument `action` is unknown; it is one of `make`, `change`",
        ),
        (json!({"action": 1, "text": "a"}), "argument `action` is unknown; it is one of `make`, `change`"),
        (
            json!({"action": "change", "text": "a"}),
            "argument `number` is missing; the action `change` needs it",
        ),
        (
            json!({"action": "make", "text": "a", "colour": "red"}),
            "argument `colour` does not go with the action `make`; leave it out",
        ),
        (
            json!({"action": "make", "text": "a", "size": 1}),
            "argument `size` is unknown; known are `action`, ",
        ),
    ] {
        let error = effective(&sent).expect_err(&sent.to_string()).to_string();
        assert!(error.starts_with(wanted), "{sent}: {error}");
    }
}

/// What two alternatives say of one property stays apart where it differs.
#[test]
fn alternatives_may_mean_different_things_by_one_name() {
    #[derive(Debug, Deserialize, Serialize, JsonSchema)]
    #[serde(tag = "kind", content = "value", rename_all = "snake_case")]
    enum Setting {
        Name(String),
        Alias(String),
        Size(u32),
        Place(Nested),
    }
    let setting = ArgumentType::of::<Setting>();
    assert_eq!(
        setting.schema()["properties"]["value"]["anyOf"].as_array().unwrap().len(),
        3,
        "{:#}",
        setting.schema()
    );
    assert_eq!(setting.schema()["properties"]["kind"].get("description"), None);
    for sent in [
        json!({"kind": "name", "value": "5"}),
        json!({"kind": "size", "value": 5}),
        json!({"kind": "place", "value": {"count": 1}}),
    ] {
        let effective = setting.effective(&EffectiveArguments::new(sent.clone()).unwrap()).unwrap();
        assert_eq!(
            (effective.arguments.as_value()["kind"].clone(), effective.notes.len()),
            (sent["kind"].clone(), 0)
        );
    }
    let wrong = EffectiveArguments::new(json!({"kind": "size", "value": "many"})).unwrap();
    assert!(setting.effective(&wrong).is_err());
}

#[test]
fn errors_are_small() {
    assert!(size_of::<ArgumentError>() <= 64);
}
