use nervekit_types::AssetId;
use serde_json::json;

use super::*;

/// Pins the stored form. It only ever grows: a change of a line that is here breaks stored conversations.
#[test]
fn the_json_of_messages_is_pinned() {
    let messages = Messages::from(vec![
        UserMessage::new([
            Text::new("what is this?").into(),
            Image::asset("image/png", AssetId::from_key("a picture")).into(),
        ])
        .into(),
        AssistantMessage::new([
            Thinking::new("anthropic", "look first").signature("c2ln").into(),
            Thinking::redacted("anthropic", "ZGF0YQ==").into(),
            Text::new("one moment").into(),
            ToolCall::new("call_1", "read", json!({"path": "a.txt"})).signature("bWFyaw==").into(),
            ToolCall::parse("call_2", "write", "{\"path\":").into(),
        ])
        .usage(Usage::new(10, 5).cache_read(90).cache_write(7).thinking(3))
        .provider_stop_reason("tool_use")
        .reported_usage(json!({"input_tokens": 10}))
        .from_model("anthropic", "claude")
        .response_id("msg_1")
        .into(),
        ToolResultMessage::text("call_1", "read", "hello").into(),
        ToolResultMessage::text("call_2", "write", "cut by the output limit").failed().into(),
        AssistantMessage::text("done").into(),
    ]);
    let pinned = json!([
        {"role": "user", "content": [
            {"type": "text", "text": "what is this?"},
            {"type": "image", "media_type": "image/png", "source": {"asset": AssetId::from_key("a picture")}},
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "text": "look first", "signature": "c2ln", "provider": "anthropic"},
            {"type": "thinking", "text": "", "signature": "ZGF0YQ==", "redacted": true, "provider": "anthropic"},
            {"type": "text", "text": "one moment"},
            {"type": "tool_call", "id": "call_1", "name": "read", "arguments": {"path": "a.txt"}, "signature": "bWFyaw=="},
            {"type": "tool_call", "id": "call_2", "name": "write", "arguments": {}, "raw_arguments": "{\"path\":"},
        ],
            "stop_reason": "tool_use",
            "usage": {"input": 10, "output": 5, "cache_read": 90, "cache_write": 7, "thinking": 3},
            "provider_stop_reason": "tool_use",
            "reported_usage": {"input_tokens": 10},
            "provider": "anthropic", "model": "claude", "response_id": "msg_1",
        },
        {"role": "tool_result", "tool_call_id": "call_1", "tool_name": "read", "content": [{"type": "text", "text": "hello"}]},
        {"role": "tool_result", "tool_call_id": "call_2", "tool_name": "write",
            "content": [{"type": "text", "text": "cut by the output limit"}], "is_error": true},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn",
            "usage": {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "thinking": 0}},
    ]);
    assert_eq!(serde_json::to_value(&messages).unwrap(), pinned);
    assert_eq!(serde_json::from_value::<Messages>(pinned).unwrap(), messages);
}

#[test]
fn fields_of_a_later_version_are_passed_over_and_missing_ones_have_defaults() {
    let message: AssistantMessage = serde_json::from_value(json!({
        "content": [{"type": "text", "text": "hi", "colour": "red"}],
        "stop_reason": "a_later_reason",
        "usage": {"input": 1, "rented": 4},
        "mood": "good",
    }))
    .unwrap();
    assert_eq!(message.stop_reason, StopReason::Other);
    assert_eq!(message.usage, Usage::new(1, 0));
}

#[test]
fn an_unknown_block_is_an_error_and_not_lost() {
    let block = serde_json::from_value::<ContentBlock>(json!({"type": "hologram", "text": "hi"}));
    assert!(block.unwrap_err().to_string().contains("hologram"));
}

#[test]
fn names_are_those_of_serde() {
    for (reason, runs_tools) in [
        (StopReason::EndTurn, true),
        (StopReason::ToolUse, true),
        (StopReason::MaxTokens, true),
        (StopReason::StopSequence, true),
        (StopReason::Refusal, false),
        (StopReason::ContentFilter, false),
        (StopReason::Paused, false),
        (StopReason::Other, false),
    ] {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        assert_eq!(reason.runs_tools(), runs_tools, "{reason:?}");
    }
    for block in [
        ContentBlock::from(Text::new("x")),
        Thinking::new("p", "x").into(),
        ToolCall::new("1", "x", json!({})).into(),
        Image::inline("image/png", "x").into(),
    ] {
        assert_eq!(serde_json::to_value(&block).unwrap()["type"], block.kind());
    }
}

#[test]
fn case_52_a_call_without_argument_text_has_no_arguments() {
    for text in ["", " \n", "{}", "null"] {
        let call = ToolCall::parse("1", "now", text);
        assert!(call.is_valid(), "{text:?}");
        assert_eq!(call.arguments, json!({}));
    }
    for text in ["[]", "12", "\"x\"", "{\"a\":", "{} {}", "true"] {
        let call = ToolCall::parse("1", "now", text);
        assert_eq!(call.raw_arguments.as_deref(), Some(text));
        assert_eq!(call.arguments, json!({}));
    }
}

#[test]
fn case_58_a_lone_surrogate_makes_the_call_invalid_and_stays_sendable() {
    for text in [r#"{"a":"\ud99c"}"#, r#"{"a":"\ud99c\ud99c"}"#] {
        let call = ToolCall::parse("1", "write", text);
        assert!(!call.is_valid());
        let json = serde_json::to_string(&call).unwrap();
        assert_eq!(serde_json::from_str::<ToolCall>(&json).unwrap(), call);
    }
}

#[test]
fn case_44_blank_text_is_an_empty_answer() {
    for text in ["", "  \n\t", "\u{200B}", "\u{FEFF}"] {
        assert!(AssistantMessage::text(text).is_empty(), "{text:?}");
    }
    assert!(AssistantMessage::new([Thinking::new("p", "hm").into()]).is_empty());
    assert!(!AssistantMessage::text("\u{200B}x").is_empty());
}
