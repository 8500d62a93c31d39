use serde_json::json;

use super::*;

fn decode(body: &str) -> Vec<Outcome> {
    let mut decoder = Decoder::new(&ModelInfo::new("local", "m"));
    let mut outcomes = decoder.push(body.as_bytes());
    outcomes.extend(decoder.finish());
    outcomes
}

fn message(body: &str) -> AssistantMessage {
    match decode(body).pop() {
        Some(Ok(ModelEvent::Finished(message))) => message,
        other => panic!("{other:?} for {body}"),
    }
}

fn error(body: &str) -> ProviderError {
    decode(body).pop().unwrap().unwrap_err()
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn delta(delta: &Value) -> String {
    data(&json!({"id": "r", "choices": [{"index": 0, "delta": delta}]}))
}

fn finish(reason: &Value) -> String {
    data(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

fn stop(deltas: &[Value]) -> String {
    deltas.iter().map(delta).chain([finish(&json!("stop"))]).collect()
}

fn piece(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: Option<&Value>) -> Value {
    let mut call = serde_json::Map::new();
    let mut function = serde_json::Map::new();
    if let Some(index) = index {
        call.insert("index".into(), index.into());
    }
    if let Some(id) = id {
        call.insert("id".into(), id.into());
    }
    if let Some(name) = name {
        function.insert("name".into(), name.into());
    }
    if let Some(text) = arguments {
        function.insert("arguments".into(), text.clone());
    }
    call.insert("function".into(), function.into());
    json!({ "tool_calls": [call] })
}

/// Name and arguments of every call.
fn calls(deltas: &[Value]) -> Vec<(String, Value)> {
    let message = message(&stop(deltas));
    let mut ids: Vec<_> = message.tool_calls().map(|call| call.id.clone()).collect();
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert!(ids.len() == count && ids.iter().all(|id| !id.is_empty()), "{ids:?}");
    message
        .tool_calls()
        .map(|call| {
            (call.name.clone(), call.raw_arguments.clone().map_or(call.arguments.clone(), Value::from))
        })
        .collect()
}

#[test]
fn calls_are_told_apart_however_a_server_marks_them() {
    let (a, b) = (json!("{\"n\":1}"), json!("{\"n\":2}"));
    let (head, tail) = (json!("{\"n\""), json!(":1}"));
    let two = vec![("t".to_owned(), json!({"n": 1})), ("t".to_owned(), json!({"n": 2}))];
    // As documented: the index, with id and name in the first piece only, interleaved.
    let documented = [
        piece(Some(0), Some("x"), Some("t"), Some(&json!(""))),
        piece(Some(1), Some("y"), Some("t"), Some(&b)),
        piece(Some(0), None, None, Some(&head)),
        piece(Some(0), None, None, Some(&tail)),
    ];
    assert_eq!(calls(&documented), two);
    // Whole calls at once: no index, no id; all index 0; all the same id; ids alone.
    for (first, second) in [
        (piece(None, None, Some("t"), Some(&a)), piece(None, None, Some("t"), Some(&b))),
        (piece(Some(0), None, Some("t"), Some(&a)), piece(Some(0), None, Some("t"), Some(&b))),
        (piece(Some(0), Some("x"), Some("t"), Some(&a)), piece(Some(0), Some("y"), Some("t"), Some(&b))),
        (piece(None, Some("x"), Some("t"), Some(&a)), piece(None, Some("y"), Some("t"), Some(&b))),
        (piece(Some(0), Some("x"), Some("t"), Some(&a)), piece(Some(1), Some("x"), Some("t"), Some(&b))),
        (
            piece(None, None, Some("t"), Some(&json!({"n": 1}))),
            piece(None, None, Some("t"), Some(&json!({"n": 2}))),
        ),
    ] {
        assert_eq!(calls(&[first.clone(), second.clone()]), two, "{first} {second}");
    }
    // One call whose name, id and index are repeated with every piece, or whose id changes with every piece.
    let one = vec![("t".to_owned(), json!({"n": 1}))];
    for (first, second) in [
        (
            piece(Some(0), Some("x"), Some("t"), Some(&head)),
            piece(Some(0), Some("x"), Some("t"), Some(&tail)),
        ),
        (piece(None, None, Some("t"), Some(&head)), piece(None, None, Some("t"), Some(&tail))),
        (piece(None, None, Some("t"), Some(&head)), piece(None, None, None, Some(&tail))),
        (piece(None, Some("x"), Some("t"), Some(&head)), piece(None, None, None, Some(&tail))),
        (piece(Some(0), Some("x"), Some("t"), Some(&head)), piece(Some(0), Some("y"), None, Some(&tail))),
        (piece(Some(0), Some("x"), None, Some(&head)), piece(Some(0), None, Some("t"), Some(&tail))),
        (
            piece(Some(0), Some("x"), Some("t"), Some(&a)),
            piece(Some(0), Some("x"), Some("t"), Some(&json!(""))),
        ),
    ] {
        assert_eq!(calls(&[first.clone(), second.clone()]), one, "{first} {second}");
    }
}

#[test]
fn case_52_a_call_without_arguments() {
    for arguments in
        [None, Some(json!("")), Some(json!(" \n")), Some(json!("{}")), Some(Value::Null), Some(json!("null"))]
    {
        let found = calls(&[piece(Some(0), Some("x"), Some("now"), arguments.as_ref())]);
        assert_eq!(found, [("now".to_owned(), json!({}))], "{arguments:?}");
    }
    for arguments in [json!("[]"), json!("12"), json!("\"x\""), json!([1]), json!(12)] {
        let message = message(&stop(&[piece(Some(0), Some("x"), Some("now"), Some(&arguments))]));
        assert!(message.tool_calls().all(|call| !call.is_valid()), "{arguments}");
    }
}

#[test]
fn case_53_cut_arguments_are_kept_raw_and_are_not_valid() {
    let cut = piece(Some(0), Some("x"), Some("write"), Some(&json!("{\"path\":\"a.txt\",\"content\":\"abc")));
    for reason in ["length", "stop", "tool_calls"] {
        let message = message(&[delta(&cut), finish(&json!(reason))].concat());
        let call = message.tool_calls().next().unwrap();
        assert!(!call.is_valid());
        assert_eq!(call.arguments, json!({}));
    }
    let whole = piece(Some(0), Some("x"), Some("write"), Some(&json!("{\"path\":\"a.txt\"}")));
    let message = message(&[delta(&whole), finish(&json!("length"))].concat());
    assert!(message.stop_reason.runs_tools() && message.tool_calls().all(ToolCall::is_valid));
}

#[test]
fn case_55_what_is_unknown_is_passed_over() {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 2, "tier": "gold", "details": [{"new": 1}]});
    let body = [
        ": keepalive\n\n".to_owned(),
        data(&json!({"type": "ping"})),
        data(&json!({"choices": null})),
        data(&json!({"choices": [{"delta": null}, {}, 7]})),
        data(&json!(["odd"])),
        delta(&json!({"role": "assistant", "content": null, "novel": {"a": 1}})),
        delta(&json!({"content": "hel", "tool_calls": null})),
        delta(&json!({"content": [{"type": "text", "text": "lo"}, {"type": "hologram"}], "tool_calls": []})),
        "event: keepalive\ndata:\n\n".to_owned(),
        finish(&json!("stop")),
        data(&json!({"choices": [], "usage": usage})),
        "data: [DONE]  \n\n".to_owned(),
    ]
    .concat();
    let message = message(&body);
    assert_eq!(message.plain_text(), "hello");
    assert_eq!(message.stop_reason, StopReason::EndTurn);
    assert_eq!(message.usage, Usage::new(5, 2));
    assert_eq!(message.reported_usage, Some(usage));
}

#[test]
fn case_55_an_unknown_reason_is_other_and_runs_nothing() {
    let call = delta(&piece(Some(0), Some("x"), Some("t"), None));
    for (reason, word) in [(json!("banana"), "banana"), (json!(7), "7"), (json!({"a": 1}), "{\"a\":1}")] {
        let message = message(&[&*call, &finish(&reason)].concat());
        assert_eq!(message.stop_reason, StopReason::Other);
        assert_eq!(message.provider_stop_reason.as_deref(), Some(word));
        assert!(!message.stop_reason.runs_tools());
    }
}

#[test]
fn reasons_have_their_meaning() {
    let text = delta(&json!({"content": "x"}));
    let call = delta(&piece(Some(0), Some("x"), Some("t"), None));
    for (reason, alone, with_call) in [
        ("stop", StopReason::EndTurn, StopReason::ToolUse),
        ("tool_calls", StopReason::EndTurn, StopReason::ToolUse),
        ("length", StopReason::MaxTokens, StopReason::MaxTokens),
        ("model_length", StopReason::MaxTokens, StopReason::MaxTokens),
        ("content_filter", StopReason::ContentFilter, StopReason::ContentFilter),
    ] {
        let finish = finish(&json!(reason));
        assert_eq!(message(&[&*text, &finish].concat()).stop_reason, alone);
        assert_eq!(message(&[&*call, &finish].concat()).stop_reason, with_call);
    }
    let refused = message(&stop(&[json!({"refusal": "I can"}), json!({"refusal": "not"})]));
    assert_eq!((refused.stop_reason, refused.refusal.as_deref()), (StopReason::Refusal, Some("I cannot")));
    for (reason, kind) in [
        ("error", ProviderErrorKind::Server),
        ("insufficient_system_resource", ProviderErrorKind::Overloaded),
    ] {
        assert_eq!(error(&[&*text, &finish(&json!(reason))].concat()).kind(), kind);
    }
}

#[test]
fn case_50_the_end_must_be_told() {
    let text = delta(&json!({"content": "x"}));
    assert_eq!(error("").kind(), ProviderErrorKind::Network);
    assert_eq!(error(&text).kind(), ProviderErrorKind::Network);
    assert!(error(&text).after_content());
    assert_eq!(error(&format!("{text}data: {{\"choices\":[{{\"fin")).kind(), ProviderErrorKind::Network);
    assert_eq!(error(&format!("{text}data: [DONE]\n\n")).kind(), ProviderErrorKind::Protocol);
    assert_eq!(message(&format!("{text}{}", finish(&json!("stop")).trim_end())).plain_text(), "x");
    assert_eq!(error("data: {nonsense}\n\n").kind(), ProviderErrorKind::Protocol);
    assert_eq!(
        error(&stop(&[piece(Some(0), Some("x"), None, Some(&json!("{}")))])).kind(),
        ProviderErrorKind::Protocol
    );
}

#[test]
fn case_58_half_a_character_does_not_end_the_stream() {
    let body = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\\ud99c\"}}}}]}}\n\n{}",
        finish(&json!("stop"))
    );
    assert_eq!(message(&body).plain_text(), "a\u{FFFD}");
    let arguments = json!("{\"a\":\"\\ud99c\"}");
    let message = message(&stop(&[piece(Some(0), Some("x"), Some("t"), Some(&arguments))]));
    assert!(message.tool_calls().all(|call| !call.is_valid()));
}

#[test]
fn thinking_and_text_keep_their_order() {
    let message = message(&stop(&[
        json!({"reasoning": "one", "reasoning_content": "one"}),
        json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": " two"}]}]}),
        json!({"content": "text"}),
        json!({"reasoning": "three"}),
        json!({"content": "more"}),
    ]));
    let expected: [ContentBlock; 4] = [
        Thinking::new("local", "one two").into(),
        Text::new("text").into(),
        Thinking::new("local", "three").into(),
        Text::new("more").into(),
    ];
    assert_eq!(message.content, expected);
}

#[test]
fn usage_is_made_disjoint() {
    let of = |reported: Value| usage(&reported);
    assert_eq!(
        of(json!({"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            "completion_tokens_details": {"reasoning_tokens": 20}})),
        Usage::new(30, 10).cache_read(60).cache_write(10).thinking(20)
    );
    assert_eq!(
        of(json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 130,
            "completion_tokens_details": {"reasoning_tokens": 20}})),
        Usage::new(100, 10).thinking(20)
    );
    assert_eq!(of(json!({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4})), Usage::new(5, 0).cache_read(4));
    assert_eq!(of(json!({"prompt_tokens": "many", "completion_tokens": -1})), Usage::default());
    assert_eq!(
        of(json!({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 900}})),
        Usage::new(0, 0).cache_read(3)
    );
}

/// Any bytes give events and one end, the same however they are cut.
#[test]
fn the_decoder_is_total() {
    use crate::assembler::MessageAssembler;
    use nervekit_types::testing::SeededEntropy;
    let parts =
        ["data: ", "\n\n", "\r\n", "{", "}", "[DONE]", "\u{FEFF}", "event: error\n", "null", "<", "\\ud800"];
    let good = [
        delta(&json!({"content": "x"})),
        delta(&json!({"reasoning": "y"})),
        delta(&piece(Some(0), Some("x"), Some("t"), Some(&json!("{")))),
        delta(&piece(Some(1), None, Some("t"), Some(&json!("{}")))),
        delta(&piece(None, None, None, Some(&json!("}")))),
        finish(&json!("stop")),
        data(&json!({"error": {}})),
    ];
    let mut finished = 0;
    for seed in 0..3_000 {
        let random = SeededEntropy::new(seed);
        let pick = |below: usize| usize::try_from(random.next_u64()).unwrap() % below;
        let body: String = (0..pick(12))
            .map(|_| if pick(4) == 0 { parts[pick(parts.len())] } else { &good[pick(good.len())] })
            .collect();
        let outcomes = decode(&body);
        let ends =
            outcomes.iter().filter(|outcome| outcome.as_ref().map_or(true, ModelEvent::is_last)).count();
        assert_eq!(ends, 1, "seed {seed}: {body}");
        let mut assembler = MessageAssembler::new();
        for event in outcomes.iter().flatten() {
            assert_eq!(assembler.push(event), Ok(()), "seed {seed}: {body}");
        }
        finished += usize::from(outcomes.last().unwrap().is_ok());
        let mut decoder = Decoder::new(&ModelInfo::new("local", "m"));
        let mut pieces: Vec<_> =
            body.as_bytes().chunks(1 + pick(9)).flat_map(|piece| decoder.push(piece)).collect();
        pieces.extend(decoder.finish());
        assert_eq!(format!("{pieces:?}"), format!("{outcomes:?}"), "seed {seed}: {body}");
    }
    assert!(finished > 300, "only {finished} bodies were answers");
}
