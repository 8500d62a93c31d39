//! Recorded responses through the wire codecs, whole and cut at every boundary.
//!
//! `NERVEKIT_WIRE_DIR` names a folder with one `<api>.jsonl` per wire format, one recording a line. Without it
//! the same checks run on the fixtures below, which were written from the providers' documentation.
#![cfg(feature = "openai-compatible")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "tests")]

use std::path::Path;

use nervekit_harness::wire::openai_chat::{Decoder, classify};
use nervekit_harness::{
    AssistantMessage, ContentBlock, MessageAssembler, ModelEvent, ModelInfo, ProviderError, Thinking,
};
use nervekit_types::Timestamp;
use serde_json::{Value, json};

type Outcome = Result<ModelEvent, ProviderError>;

/// The wire formats that recordings exist for, and how a recording of each is tried.
const APIS: [(&str, Option<Try>); 4] = [
    ("openai-chat", Some(try_recording::<Decoder>)),
    ("openai-responses", None),
    ("anthropic-messages", None),
    ("gemini-generate", None),
];

type Try = fn(&Value) -> Result<(), String>;

/// What the decoders of all wire formats have in common.
trait Wire: Clone + PartialEq {
    fn begin() -> Self;
    fn push(&mut self, bytes: &[u8]) -> Vec<Outcome>;
    fn finish(&mut self) -> Vec<Outcome>;
    fn classify(status: u16, body: &str) -> ProviderError;
}

impl Wire for Decoder {
    fn begin() -> Self {
        Self::new(&ModelInfo::new("recorded", "model"))
    }

    fn push(&mut self, bytes: &[u8]) -> Vec<Outcome> {
        self.push(bytes)
    }

    fn finish(&mut self) -> Vec<Outcome> {
        self.finish()
    }

    fn classify(status: u16, body: &str) -> ProviderError {
        classify(status, &[], body, Timestamp::from_millis(0))
    }
}

fn decode<W: Wire>(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<Outcome> {
    let mut decoder = W::begin();
    let mut outcomes: Vec<_> = pieces.into_iter().flat_map(|piece| decoder.push(piece.as_ref())).collect();
    outcomes.extend(decoder.finish());
    assert!(decoder.push(b"data: {}\n\n").is_empty() && decoder.finish().is_empty(), "events after the end");
    outcomes
}

/// The end of the outcomes, checked against everything before it; and the texts as streamed.
fn assemble(outcomes: Vec<Outcome>) -> (Result<AssistantMessage, ProviderError>, String, String) {
    let (mut text, mut thinking) = (String::new(), String::new());
    let mut assembler = MessageAssembler::new();
    for outcome in outcomes {
        let event = match outcome {
            Ok(event) => event,
            Err(error) => return (Err(error), text, thinking),
        };
        match &event {
            ModelEvent::TextDelta { delta, .. } => text.push_str(delta),
            ModelEvent::ThinkingDelta { delta, .. } => thinking.push_str(delta),
            _ => {}
        }
        if let Err(error) = assembler.push(&event) {
            return (Err(error), text, thinking);
        }
    }
    (assembler.finish(), text, thinking)
}

fn thinking_of(message: &AssistantMessage) -> String {
    let blocks = message.content.iter().filter_map(|block| match block {
        ContentBlock::Thinking(Thinking { text, .. }) => Some(text.as_str()),
        _ => None,
    });
    blocks.collect()
}

/// What differs from the expectation, if anything.
fn differs(recording: &Value, outcomes: Vec<Outcome>) -> Option<String> {
    let expect = &recording["expect"];
    let (end, text, thinking) = assemble(outcomes);
    let message = match end {
        Ok(message) => message,
        Err(error) => return expect["error"].is_null().then(|| error.to_string()),
    };
    let calls: Vec<_> = message
        .tool_calls()
        .map(|call| {
            let arguments = call
                .raw_arguments
                .as_ref()
                .map_or(call.arguments.clone(), |raw| json!({"$invalid_json": raw}));
            json!({"id": call.id, "name": call.name, "arguments": arguments})
        })
        .collect();
    // A model that calls a tool without parameters may write `null`: no arguments, as `{}`.
    let mut expected_calls = expect["tool_calls"].clone();
    for call in expected_calls.as_array_mut().into_iter().flatten().filter(|call| call["arguments"].is_null())
    {
        call["arguments"] = json!({});
    }
    let reported = message.reported_usage.clone().unwrap_or_default();
    let usage = message.usage;
    let checks = [
        ("text", json!(message.plain_text()), expect["text"].clone()),
        ("streamed text", json!(text), expect["text"].clone()),
        ("thinking", json!(thinking_of(&message)), expect["thinking"].clone()),
        ("streamed thinking", json!(thinking), expect["thinking"].clone()),
        ("tool calls", json!(calls), expected_calls),
        ("stop reason", json!(message.provider_stop_reason), expect["stop_reason"].clone()),
        ("input tokens", reported["prompt_tokens"].clone(), expect["input_tokens"].clone()),
        ("output tokens", reported["completion_tokens"].clone(), expect["output_tokens"].clone()),
        (
            "disjoint input tokens",
            json!(usage.input + usage.cache_read + usage.cache_write),
            expect["input_tokens"].as_u64().unwrap_or_default().into(),
        ),
        ("error", Value::Null, expect["error"].clone()),
    ];
    checks
        .into_iter()
        .find(|(_, got, wanted)| got != wanted)
        .map(|(what, got, wanted)| format!("{what}: {got} for {wanted}"))
}

/// Feeds a recording whole, in pieces of several sizes, and cut at every boundary; all must agree.
fn try_recording<W: Wire>(recording: &Value) -> Result<(), String> {
    let body = recording["body"].as_str().unwrap();
    let status = u16::try_from(recording["status"].as_u64().unwrap()).unwrap();
    if status != 200 {
        let error = W::classify(status, body);
        let expected = recording["expect"]["http_error"].as_u64();
        let fits = error.status() == Some(status) && expected == Some(status.into());
        return if fits { Ok(()) } else { Err(format!("{error} for {}", recording["expect"])) };
    }
    let whole = decode::<W>([body]);
    for size in [1, 2, 7, 64, 1_000] {
        if decode::<W>(body.as_bytes().chunks(size)) != whole {
            return Err(format!("in pieces of {size} bytes it reads differently"));
        }
    }
    // A cut of the whole body in two costs its square; a cut of each event, with the decoder's state compared
    // behind it, tries the same boundaries.
    let mut decoder = W::begin();
    for event in body.split_inclusive("\n\n").map(str::as_bytes) {
        let before = decoder.clone();
        let outcomes = decoder.push(event);
        let ended = outcomes.iter().any(|outcome| outcome.as_ref().map_or(true, ModelEvent::is_last));
        for cut in 0..event.len() {
            let mut other = before.clone();
            let mut pieces = other.push(&event[..cut]);
            pieces.extend(other.push(&event[cut..]));
            if pieces != outcomes || (other != decoder && !ended) {
                return Err(format!(
                    "cut at byte {cut} this reads differently: {}",
                    String::from_utf8_lossy(event)
                ));
            }
        }
    }
    differs(recording, whole).map_or(Ok(()), Err)
}

fn try_all(api: &str, attempt: Try, recordings: &[Value]) -> Vec<String> {
    let failed: Vec<_> = recordings
        .iter()
        .filter_map(|recording| {
            let reason = attempt(recording).err()?;
            Some(format!("{}: {reason}", recording["name"].as_str().unwrap_or("(no name)")))
        })
        .collect();
    println!("{api}: {} passed, {} failed", recordings.len() - failed.len(), failed.len());
    for failure in &failed {
        println!("  failed {failure}");
    }
    failed
}

fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn recordings_read_as_expected() {
    let Some(folder) = std::env::var_os("NERVEKIT_WIRE_DIR") else {
        println!("NERVEKIT_WIRE_DIR is not set: our own fixtures are tried alone");
        return;
    };
    let mut failed = Vec::new();
    let mut tried = 0;
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")) {
        let api = path.file_stem().unwrap().to_str().unwrap();
        let recordings = read(path);
        match APIS.iter().find(|(name, _)| *name == api) {
            Some((_, Some(attempt))) => {
                tried += recordings.len();
                failed.extend(try_all(api, *attempt, &recordings));
            }
            Some((_, None)) => {
                println!("{api}: {} recordings not tried, there is no adapter yet", recordings.len());
            }
            None => failed.push(format!("{}: an unknown wire format", path.display())),
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(tried > 0, "the folder holds no recording that could be tried");
}

fn chunk(choices: &Value, more: &Value) -> String {
    let mut chunk =
        json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": choices});
    chunk.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("data: {chunk}\n\n")
}

fn delta(delta: &Value) -> String {
    chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}]), &json!({}))
}

fn finish(reason: &str) -> String {
    chunk(&json!([{"index": 0, "delta": {}, "finish_reason": reason}]), &json!({}))
}

fn fixture(name: &str, body: &str, expect: &Value) -> Value {
    let mut all = json!({"text": "", "thinking": "", "tool_calls": [], "stop_reason": "stop", "input_tokens": null,
        "output_tokens": null, "error": null});
    all.as_object_mut().unwrap().extend(expect.as_object().unwrap().clone());
    json!({"name": name, "api": "openai-chat", "status": 200, "body": body, "expect": all})
}

/// Small streams after <https://platform.openai.com/docs/api-reference/chat-streaming>.
fn fixtures() -> Vec<Value> {
    let done = "data: [DONE]\n\n";
    let text = [
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"content": "Hé"})),
        delta(&json!({"content": "llo \u{1F600}"})),
    ]
    .concat();
    let usage = chunk(
        &json!([]),
        &json!({"usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens_details": {"reasoning_tokens": 5}}}),
    );
    let call = |index: u64, id: &str, name: &str| {
        delta(
            &json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}),
        )
    };
    let arguments = |index: u64, text: &str| {
        delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}))
    };
    let calls = json!([
        {"id": "a", "name": "read", "arguments": {"path": "x"}},
        {"id": "b", "name": "now", "arguments": {}},
    ]);
    vec![
        fixture(
            "text with usage",
            &[&*text, &finish("stop"), &usage, done].concat(),
            &json!({"text": "Héllo \u{1F600}", "input_tokens": 100, "output_tokens": 20}),
        ),
        fixture(
            "text with CRLF",
            &[&*text, &finish("stop"), done].concat().replace('\n', "\r\n"),
            &json!({"text": "Héllo \u{1F600}"}),
        ),
        fixture(
            "no [DONE]",
            &[&*text, &finish("length")].concat(),
            &json!({"text": "Héllo \u{1F600}", "stop_reason": "length"}),
        ),
        fixture(
            "thinking",
            &[&*delta(&json!({"reasoning_content": "hm"})), &text, &finish("stop"), done].concat(),
            &json!({"thinking": "hm", "text": "Héllo \u{1F600}"}),
        ),
        fixture(
            "two calls",
            &[
                &*call(0, "a", "read"),
                &arguments(0, "{\"pa"),
                &arguments(0, "th\":\"x\"}"),
                &call(1, "b", "now"),
                &finish("tool_calls"),
                done,
            ]
            .concat(),
            &json!({"tool_calls": calls, "stop_reason": "tool_calls"}),
        ),
        fixture(
            "cut arguments",
            &[&*call(0, "a", "write"), &arguments(0, "{\"pa"), &finish("length"), done].concat(),
            &json!({"tool_calls": [{"id": "a", "name": "write", "arguments": {"$invalid_json": "{\"pa"}}], "stop_reason": "length"}),
        ),
        fixture("broken connection", &text, &json!({"error": "cut"})),
        fixture(
            "error in the stream",
            &[&*text, "data: {\"error\":{\"code\":502,\"message\":\"upstream\"}}\n\n"].concat(),
            &json!({"error": "502"}),
        ),
    ]
}

#[test]
fn own_fixtures_read_as_expected() {
    assert_eq!(try_all("openai-chat fixtures", try_recording::<Decoder>, &fixtures()), Vec::<String>::new());
}

/// The checks themselves must be able to fail.
#[test]
fn a_wrong_expectation_is_noticed() {
    for (field, wrong) in [
        ("text", json!("other")),
        ("thinking", json!("other")),
        ("tool_calls", json!([{"id": "x"}])),
        ("stop_reason", json!("length")),
        ("input_tokens", json!(99)),
        ("output_tokens", json!(99)),
        ("error", json!("an error")),
    ] {
        let mut recording = fixtures().swap_remove(0);
        recording["expect"][field] = wrong;
        let result = try_recording::<Decoder>(&recording);
        assert!(result.is_err(), "{field}");
    }
}
