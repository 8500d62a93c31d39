use std::collections::HashSet;

use nervekit_types::AssetId;
use serde_json::json;

use super::*;
use crate::message::{Message, Messages, Origin, StopReason, Text, Thinking};
use crate::request::{ResponseSchema, ToolSpec};

fn info() -> ModelInfo {
    ModelInfo::new("openai", "gpt-5").images(true)
}

fn messages_of(messages: impl Into<Messages>) -> Value {
    let body = encode(&ModelRequest::new(messages.into()), &info(), &ChatOptions::default());
    check(&body);
    body["messages"].clone()
}

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "read", json!({"path": "a"}))
}

fn assistant(calls: &[ToolCall]) -> Message {
    AssistantMessage::new(calls.iter().cloned().map(Into::into).collect::<Vec<_>>()).into()
}

/// What a strict server checks of the order and form of messages.
fn check(body: &Value) {
    let mut open: Vec<&str> = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        let role = message["role"].as_str().unwrap();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            let place =
                open.iter().position(|other| *other == id).unwrap_or_else(|| panic!("orphan {id} in {body}"));
            open.remove(place);
        } else {
            assert!(open.is_empty(), "{open:?} unanswered before {message}");
        }
        match &message["content"] {
            Value::Null => assert!(message["tool_calls"].is_array(), "{message}"),
            Value::String(text) => assert!(!is_blank(text), "{message}"),
            Value::Array(parts) => assert!(!parts.is_empty()),
            other => panic!("{other}"),
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let arguments = call["function"]["arguments"].as_str().unwrap();
            assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
            let id = call["id"].as_str().unwrap();
            assert!(
                (1..=40).contains(&id.len())
                    && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
            );
            open.push(id);
        }
    }
    assert!(open.is_empty(), "{open:?} unanswered");
}

#[test]
fn the_whole_body_is_pinned() {
    let request = ModelRequest::new(Messages::from(vec![
        UserMessage::text("hi").into(),
        AssistantMessage::new([
            Thinking::new("openai", "hm").into(),
            Text::new("a").into(),
            call("c1").into(),
        ])
        .into(),
        ToolResultMessage::text("c1", "read", "b").into(),
    ]))
    .system("be brief")
    .tools([
        ToolSpec::new("write", "w", json!({"type": "object"})),
        ToolSpec::new("read", "r", json!({"type": "object"})),
    ])
    .thinking(ThinkingLevel::High)
    .max_output(100)
    .response_schema(ResponseSchema::new(
        "out",
        json!({"type": "object", "properties": {}, "additionalProperties": false}),
    ));
    let body = encode(
        &request,
        &info().thinking([ThinkingLevel::Low, ThinkingLevel::High]),
        &ChatOptions::default(),
    );
    assert_eq!(
        body,
        json!({
            "model": "gpt-5",
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "a", "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "b"},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "tools": [
                {"type": "function", "function": {"name": "read", "description": "r", "parameters": {"type": "object"}}},
                {"type": "function", "function": {"name": "write", "description": "w", "parameters": {"type": "object"}}},
            ],
            "max_completion_tokens": 100,
            "reasoning_effort": "high",
            "response_format": {"type": "json_schema", "json_schema": {"name": "out", "strict": true,
                "schema": {"type": "object", "properties": {}, "additionalProperties": false}}},
        })
    );
    check(&body);
}

#[test]
fn what_the_service_refuses_at_the_root_of_a_schema_is_left_out() {
    let sent = |schema: Value| {
        let tools = [ToolSpec::new("python_exec", "p", schema)];
        let request = ModelRequest::new(Messages::from_iter([UserMessage::text("hi")])).tools(tools);
        let body = encode(&request, &info(), &ChatOptions::default());
        check(&body);
        body["tools"][0]["function"]["parameters"].clone()
    };
    let nested = json!({"oneOf": [{"type": "string"}, {"type": "integer"}]});
    let properties = json!({"code": nested, "path": {"type": "string", "enum": ["a", "b"]}});
    let wanted = json!({"type": "object", "properties": properties, "additionalProperties": false});
    for word in ["oneOf", "anyOf", "allOf", "enum", "not"] {
        let mut schema = wanted.clone();
        schema[word] = json!([{"required": ["code"]}, {"required": ["path"]}]);
        assert_eq!(sent(schema), wanted);
    }
    // Without it nothing would be left of this one.
    let whole = json!({"oneOf": [{"type": "object", "properties": properties}]});
    assert_eq!(sent(whole.clone()), whole);
}

#[test]
fn the_prefix_is_the_same_bytes_from_turn_to_turn() {
    let tools = [ToolSpec::new("b", "", json!({"z": 1, "a": 2})), ToolSpec::new("a", "", json!({}))];
    let mut messages = Messages::new();
    let mut before: Option<Value> = None;
    for turn in 0..20 {
        messages.push(UserMessage::text(format!("question {turn}")));
        messages.push(assistant(&[call(&format!("a.b.{turn}"))]));
        messages.push(ToolResultMessage::text(format!("a.b.{turn}"), "read", "x"));
        let mut tools = tools.to_vec();
        // The host may list its tools in any order.
        tools.rotate_left(turn % 2);
        let request = ModelRequest::new(messages.clone()).system("s").tools(tools);
        let body = encode(&request, &info(), &ChatOptions::default());
        if let Some(before) = &before {
            let old = before["messages"].to_string();
            let new = body["messages"].to_string();
            assert!(new.starts_with(old.strip_suffix(']').unwrap()));
            assert_eq!(body["tools"].to_string(), before["tools"].to_string());
        }
        before = Some(body);
    }
}

#[test]
fn case_40_every_call_has_exactly_one_result() {
    let messages = Messages::from(vec![
        ToolResultMessage::text("ghost", "read", "orphan").into(),
        assistant(&[call("1"), call("2"), call("3")]),
        ToolResultMessage::text("3", "read", "third").into(),
        ToolResultMessage::text("1", "read", "first").into(),
        ToolResultMessage::text("1", "read", "first again").into(),
    ]);
    let sent = messages_of(messages);
    let contents: Vec<_> =
        sent.as_array().unwrap().iter().skip(1).map(|m| m["content"].as_str().unwrap()).collect();
    assert_eq!(contents, ["first", NO_RESULT, "third"]);
}

#[test]
fn case_41_what_the_user_says_meanwhile_follows_the_results() {
    let sent = messages_of(vec![
        assistant(&[call("1"), call("2")]),
        UserMessage::text("one").into(),
        ToolResultMessage::text("1", "read", "a").into(),
        UserMessage::text("two").into(),
        ToolResultMessage::text("2", "read", "b").into(),
    ]);
    let roles: Vec<_> = sent.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["assistant", "tool", "tool", "user", "user"]);
    assert_eq!((&sent[3]["content"], &sent[4]["content"]), (&json!("one"), &json!("two")));
}

#[test]
fn case_43_foreign_ids_fit_and_never_meet() {
    let long = "x".repeat(94);
    let ids = [
        "functions.Bash:0",
        "call_x|fc_y",
        &long,
        "",
        "toolu_1",
        "ü",
        "a.b",
        "a_b",
        "a:b",
        "123456789",
        "abc",
        "call_00000000000000000000000000000000",
        " ",
    ];
    for options in [ChatOptions::default(), ChatOptions::default().short_call_ids(true)] {
        let mapped: Vec<_> = ids.iter().map(|id| call_id(id, &options).into_owned()).collect();
        assert_eq!(mapped.iter().collect::<HashSet<_>>().len(), ids.len(), "{mapped:?}");
        for (id, mapped) in ids.iter().zip(&mapped) {
            if options.short_call_ids {
                assert!(mapped.len() == 9 && mapped.bytes().all(|b| b.is_ascii_alphanumeric()), "{mapped}");
            } else {
                assert!((1..=40).contains(&mapped.len()), "{mapped}");
            }
            assert_eq!(call_id(mapped, &options), &**mapped, "an id that fits stays: {id}");
        }
    }
    assert_eq!(call_id("toolu_1", &ChatOptions::default()), "toolu_1");
    // Pinned: the mapping must be the same in every process and version.
    assert_eq!(call_id("a.b", &ChatOptions::default()), "call_a7i4y6rnz9twfcmrqflfdichi7zyielg");
    messages_of(vec![
        assistant(&[call("a.b"), call("a_b")]),
        ToolResultMessage::text("a.b", "read", "x").into(),
    ]);
}

#[test]
fn case_44_nothing_blank_is_sent() {
    for blank in ["", " \n", "\u{200B}"] {
        let request = ModelRequest::new(Messages::from(vec![
            UserMessage::text("hi").into(),
            AssistantMessage::text(blank).into(),
            UserMessage::text(blank).into(),
            UserMessage::text(blank).origin(Origin::Summary).into(),
            AssistantMessage::new([Thinking::new("openai", "only").into(), Text::new(blank).into()]).into(),
            AssistantMessage::new([Text::new(blank).into(), call("1").into()]).into(),
            ToolResultMessage::text("1", "read", blank).into(),
            AssistantMessage::new([]).into(),
        ]))
        .system(blank);
        let body = encode(&request, &info(), &ChatOptions::default());
        check(&body);
        let roles: Vec<_> =
            body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "tool"], "{blank:?}");
        assert_eq!(body["messages"][2]["content"], NO_OUTPUT);
    }
}

#[test]
fn case_53_a_broken_call_goes_back_as_valid_json() {
    let cut = ToolCall::parse("1", "write", "{\"path\":\"a");
    let message = AssistantMessage::new([cut.into()]).stop_reason(StopReason::MaxTokens);
    let sent =
        messages_of(vec![message.into(), ToolResultMessage::text("1", "write", "cut").failed().into()]);
    assert_eq!(sent[0]["tool_calls"][0]["function"]["arguments"], "{}");
}

#[test]
fn case_58_any_text_makes_valid_json() {
    let odd = "nul \0, half \u{FFFD}, line \u{2028}, quote \"";
    let body = encode(
        &ModelRequest::new([UserMessage::text(odd)].into_iter().collect()),
        &info(),
        &ChatOptions::default(),
    );
    let back: Value = serde_json::from_str(&body.to_string()).unwrap();
    assert_eq!(back["messages"][0]["content"], odd);
}

#[test]
fn images_go_where_they_may() {
    let id = AssetId::from_key("a");
    let messages = Messages::from(vec![
        UserMessage::text("look")
            .image(Image::inline("image/png", "hi"))
            .image(Image::asset("image/gif", id))
            .into(),
        assistant(&[call("1"), call("2")]),
        ToolResultMessage::new("1", "read", [Image::asset("image/gif", id).into()]).into(),
        ToolResultMessage::text("2", "read", "x").into(),
    ]);
    let with_bytes = ModelRequest::new(messages.clone()).asset(id, "gif");
    let body = encode(&with_bytes, &info(), &ChatOptions::default());
    check(&body);
    let urls = |message: &Value| -> Vec<String> {
        let parts = message["content"].as_array().unwrap().iter();
        parts.filter_map(|part| part["image_url"]["url"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(urls(&body["messages"][0]), ["data:image/png;base64,aGk=", "data:image/gif;base64,Z2lm"]);
    assert_eq!(body["messages"][2]["content"], IMAGES_BELOW);
    assert_eq!(body["messages"][4]["role"], "user");
    assert_eq!(urls(&body["messages"][4]), ["data:image/gif;base64,Z2lm"]);

    for (request, info) in [(ModelRequest::new(messages), info()), (with_bytes, info().images(false))] {
        let body = encode(&request, &info, &ChatOptions::default());
        check(&body);
        assert!(body["messages"][0].to_string().contains("cannot be shown"));
        assert!(body["messages"][2].to_string().contains("cannot be shown"));
    }
}

#[test]
fn thinking_goes_back_only_to_who_made_it_and_takes_it() {
    let message = AssistantMessage::new([
        Thinking::new("openai", "mine").into(),
        Thinking::new("other", "foreign").signature("c2ln").into(),
        Text::new("x").into(),
    ]);
    let request = ModelRequest::new([message].into_iter().collect());
    let plain = encode(&request, &info(), &ChatOptions::default()).to_string();
    assert!(!plain.contains("mine") && !plain.contains("foreign") && !plain.contains("c2ln"));
    let options = ChatOptions::for_base_url("https://api.deepseek.com").max_completion_tokens(true);
    let body = encode(&request, &info(), &options);
    assert_eq!(body["messages"][0]["reasoning_content"], "mine");
}

#[test]
fn a_schema_is_strict_only_where_strict_mode_can_express_it() {
    for (schema, strict) in [
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}),
            true,
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
            false,
        ),
        (json!({"type": "object", "properties": {"a": {}}, "required": ["a"]}), false),
        (
            json!({"type": "object", "additionalProperties": false, "properties": {"a": {"items": {"type": "object"}}}, "required": ["a"]}),
            false,
        ),
        (json!({"type": "object"}), false),
    ] {
        assert_eq!(is_strict(&schema), strict, "{schema}");
    }
}

#[test]
fn options_follow_the_address() {
    let mistral = ChatOptions::for_base_url("https://api.mistral.ai/v1");
    assert!(mistral.short_call_ids && !mistral.stream_usage && !mistral.max_completion_tokens);
    assert_eq!(ChatOptions::for_base_url("https://api.openai.com/v1"), ChatOptions::default());
    // A name that only ends alike is another host.
    assert!(!ChatOptions::for_base_url("https://notmistral.ai/v1").short_call_ids);
    assert!(!ChatOptions::for_base_url("https://evil.example/mistral.ai").short_call_ids);
}

/// With `NERVEKIT_API_DIR` set, everything above is checked against the schema of the service too.
#[test]
fn requests_satisfy_the_schema_of_the_service() {
    let Some(folder) = std::env::var_os("NERVEKIT_API_DIR") else { return };
    let path = std::path::Path::new(&folder).join("openai-chat-request.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(!validator.is_valid(&json!({"model": "m", "messages": "none"})), "the schema refuses nothing");
    let id = AssetId::from_key("a");
    let history = Messages::from(vec![
        UserMessage::text("hi").image(Image::inline("image/png", "x")).into(),
        AssistantMessage::new([
            Thinking::new("p", "t").into(),
            Text::new("a").into(),
            call("a.b").into(),
            call("").into(),
        ])
        .into(),
        ToolResultMessage::new("a.b", "read", [Image::asset("image/png", id).into()]).into(),
        UserMessage::text("meanwhile").into(),
        AssistantMessage::text("").refusal("no").into(),
        AssistantMessage::new([ToolCall::parse("c", "write", "{").into()]).into(),
        ToolResultMessage::text("c", "write", "").failed().into(),
    ]);
    for level in ThinkingLevel::ALL {
        for info in [info(), info().images(false).tools(false), info().thinking(ThinkingLevel::ALL)] {
            let request = ModelRequest::new(history.clone())
                .system("s")
                .tools([ToolSpec::new("read", "r", json!({"type": "object"}))])
                .thinking(level)
                .max_output(5)
                .asset(id, "x")
                .response_schema(ResponseSchema::new("out", json!({"type": "object"})));
            for options in [ChatOptions::default(), ChatOptions::for_base_url("https://api.mistral.ai")] {
                let body = encode(&request, &info, &options);
                let errors: Vec<_> = validator.iter_errors(&body).map(|error| error.to_string()).collect();
                assert!(errors.is_empty(), "{errors:#?}");
            }
        }
    }
    assert!(validator.is_valid(&encode(
        &ModelRequest::new([UserMessage::text("x")].into_iter().collect()),
        &info(),
        &ChatOptions::default()
    )));
}
