//! From bytes to events.

use serde_json::Value;

use crate::error::{ProviderError, ProviderErrorKind};
use crate::event::ModelEvent;
use crate::message::{AssistantMessage, ContentBlock, StopReason, Text, Thinking, ToolCall, Usage};
use crate::model::ModelInfo;
use crate::wire::openai_chat::call::{CallDrafts, CallPiece};
use crate::wire::openai_chat::classify::{is_error, reported};
use crate::wire::openai_chat::surrogate::mend;
use crate::wire::sse::{SseDecoder, SseEvent};

/// The most bytes of one answer: 64 MiB.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

type Outcome = Result<ModelEvent, ProviderError>;

/// Reads the body of a response with status 200, in any pieces.
///
/// It gives events, then one [`ModelEvent::Finished`] or one error, and then nothing more, whatever it is fed.
///
/// ```
/// use nervekit_harness::wire::openai_chat::Decoder;
/// use nervekit_harness::{ModelEvent, ModelInfo};
///
/// let mut decoder = Decoder::new(&ModelInfo::new("local", "devstral"));
/// let first = decoder.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"hel");
/// assert!(first.is_empty());
/// let events = decoder.push(b"lo\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
/// assert_eq!(events[0], Ok(ModelEvent::TextDelta { block: 0, delta: "hello".into() }));
/// assert!(matches!(&events[2], Ok(ModelEvent::Finished(message)) if message.plain_text() == "hello"));
/// assert!(decoder.finish().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    provider: String,
    model: String,
    body: Body,
    read: usize,
    answer: Answer,
    ended: bool,
}

/// What the body turned out to be.
#[derive(Clone, Debug, PartialEq)]
enum Body {
    /// Nothing but white space so far.
    Unknown,
    /// Server-sent events.
    Events(SseDecoder),
    /// One JSON document.
    Document(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Default)]
struct Answer {
    blocks: Vec<Block>,
    calls: CallDrafts,
    refusal: String,
    finish: Option<Value>,
    usage: Option<Value>,
    id: String,
    model: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Block {
    Text(String),
    Thinking(String),
    /// The place among the calls.
    Call {
        place: usize,
        id: String,
    },
}

impl Decoder {
    /// A decoder for the answer of this model.
    #[must_use]
    pub fn new(info: &ModelInfo) -> Self {
        Self {
            provider: info.provider.clone(),
            model: info.id.clone(),
            body: Body::Unknown,
            read: 0,
            answer: Answer::default(),
            ended: false,
        }
    }

    /// Takes the next bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        if !self.ended
            && let Err(error) = self.read(bytes, &mut outcomes)
        {
            self.fail(error, &mut outcomes);
        }
        outcomes
    }

    /// Takes the end of the body.
    pub fn finish(&mut self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        if !self.ended
            && let Err(error) = self.close(&mut outcomes)
        {
            self.fail(error, &mut outcomes);
        }
        outcomes
    }

    /// Whether the answer is complete, though more about it (the usage) may follow.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.answer.finish.is_some()
    }

    fn fail(&mut self, error: ProviderError, outcomes: &mut Vec<Outcome>) {
        self.ended = true;
        outcomes.push(Err(error.with_after_content(!self.answer.blocks.is_empty())));
    }

    fn read(&mut self, bytes: &[u8], outcomes: &mut Vec<Outcome>) -> Result<(), ProviderError> {
        self.read = self.read.saturating_add(bytes.len());
        if self.read > LARGEST_ANSWER {
            return Err(ProviderError::protocol(format!("the answer is larger than {LARGEST_ANSWER} bytes")));
        }
        let mut bytes = bytes;
        if let Body::Unknown = self.body {
            bytes = bytes.trim_ascii_start();
            match bytes.first() {
                None => return Ok(()),
                Some(b'{' | b'[') => self.body = Body::Document(Vec::new()),
                Some(b'<') => {
                    let message =
                        "the answer is a web page; check the base URL and what stands before the server";
                    return Err(ProviderError::protocol(message));
                }
                Some(_) => self.body = Body::Events(SseDecoder::new()),
            }
        }
        match &mut self.body {
            Body::Unknown => {}
            Body::Document(document) => document.extend_from_slice(bytes),
            Body::Events(decoder) => {
                for event in decoder.push(bytes)? {
                    self.event(&event, outcomes)?;
                }
            }
        }
        Ok(())
    }

    fn close(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), ProviderError> {
        match &mut self.body {
            Body::Unknown => {}
            Body::Document(document) => {
                let document = std::mem::take(document);
                let value = parse(&String::from_utf8_lossy(&document))?;
                self.answer.read(&value, outcomes)?;
            }
            Body::Events(decoder) => {
                if let Some(event) = decoder.finish()
                    // Half an event says that the connection broke, which is told below.
                    && (event.data.trim() == "[DONE]" || parse(&event.data).is_ok())
                {
                    self.event(&event, outcomes)?;
                }
            }
        }
        if self.ended {
            return Ok(());
        }
        if self.answer.finish.is_none() {
            return Err(ProviderError::new(
                ProviderErrorKind::Network,
                "the connection closed before the answer was complete",
            ));
        }
        self.end(outcomes)
    }

    fn event(&mut self, event: &SseEvent, outcomes: &mut Vec<Outcome>) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if self.ended || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            return self.end(outcomes);
        }
        let value = parse(data)?;
        if event.name.as_deref() == Some("error") {
            return Err(reported(&value, None));
        }
        self.answer.read(&value, outcomes)
    }

    fn end(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), ProviderError> {
        let message = self.answer.message(&self.provider, &self.model)?;
        for (block, content) in message.content.iter().enumerate() {
            if let ContentBlock::ToolCall(call) = content {
                outcomes.push(Ok(ModelEvent::ToolCallFinished { block, call: call.clone() }));
            }
        }
        outcomes.push(Ok(ModelEvent::Usage(message.usage)));
        outcomes.push(Ok(ModelEvent::Finished(message)));
        self.ended = true;
        Ok(())
    }
}

fn parse(text: &str) -> Result<Value, ProviderError> {
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&mend(text))).map_err(|error| {
        let start: String = text.chars().take(200).collect();
        ProviderError::protocol(format!("an event is not JSON: {start}")).with_source(error)
    })
}

impl Answer {
    /// Reads a chunk, or a whole document.
    fn read(&mut self, value: &Value, outcomes: &mut Vec<Outcome>) -> Result<(), ProviderError> {
        if is_error(value) {
            return Err(reported(value, None));
        }
        for (field, known) in [("id", &mut self.id), ("model", &mut self.model)] {
            if known.is_empty()
                && let Some(text) = value.get(field).and_then(Value::as_str)
            {
                text.clone_into(known);
            }
        }
        let usage = value.get("usage").filter(|usage| usage.is_object());
        if let Some(usage) = usage.or_else(|| value.pointer("/x_groq/usage")) {
            self.usage = Some(usage.clone());
        }
        for choice in value.get("choices").and_then(Value::as_array).into_iter().flatten() {
            if is_error(choice) {
                return Err(reported(choice, None));
            }
            if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
                self.delta(delta, outcomes);
            }
            if let Some(reason) = choice.get("finish_reason").filter(|reason| !reason.is_null()) {
                self.finish = Some(reason.clone());
            }
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Value, outcomes: &mut Vec<Outcome>) {
        let text = |field| delta.get(field).and_then(Value::as_str).filter(|text: &&str| !text.is_empty());
        // Servers that send both fields send the same text in both.
        if let Some(thinking) = text("reasoning_content").or_else(|| text("reasoning")) {
            self.thinking(thinking, outcomes);
        }
        match delta.get("content") {
            Some(Value::String(content)) => self.text(content, outcomes),
            Some(Value::Array(parts)) => parts.iter().for_each(|part| self.part(part, outcomes)),
            _ => {}
        }
        if let Some(refusal) = text("refusal") {
            self.refusal.push_str(refusal);
        }
        for piece in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let place = self.calls.add(&CallPiece::read(piece));
            self.call(place, outcomes);
        }
    }

    /// A part of a content list, as Mistral sends it.
    fn part(&mut self, part: &Value, outcomes: &mut Vec<Outcome>) {
        match part.get("thinking") {
            Some(Value::String(thinking)) => self.thinking(thinking, outcomes),
            Some(Value::Array(parts)) => {
                for text in parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)) {
                    self.thinking(text, outcomes);
                }
            }
            _ => {
                if let Some(text) = part.get("text").and_then(Value::as_str) {
                    self.text(text, outcomes);
                }
            }
        }
    }

    fn text(&mut self, delta: &str, outcomes: &mut Vec<Outcome>) {
        if delta.is_empty() {
            return;
        }
        match self.blocks.last_mut() {
            Some(Block::Text(text)) => text.push_str(delta),
            _ => self.blocks.push(Block::Text(delta.to_owned())),
        }
        outcomes.push(Ok(ModelEvent::TextDelta { block: self.blocks.len() - 1, delta: delta.to_owned() }));
    }

    fn thinking(&mut self, delta: &str, outcomes: &mut Vec<Outcome>) {
        if delta.is_empty() {
            return;
        }
        match self.blocks.last_mut() {
            Some(Block::Thinking(text)) => text.push_str(delta),
            _ => self.blocks.push(Block::Thinking(delta.to_owned())),
        }
        outcomes
            .push(Ok(ModelEvent::ThinkingDelta { block: self.blocks.len() - 1, delta: delta.to_owned() }));
    }

    /// Passes on what is new about a call; nothing before it has a name.
    fn call(&mut self, place: usize, outcomes: &mut Vec<Outcome>) {
        let Some(call) = self.calls.0.get_mut(place) else { return };
        if call.name.is_empty() {
            return;
        }
        let block = *call.block.get_or_insert_with(|| {
            let block = self.blocks.len();
            let id = unique_id(&self.blocks, &self.id, &call.id, place);
            self.blocks.push(Block::Call { place, id: id.clone() });
            outcomes.push(Ok(ModelEvent::ToolCallStarted { block, id, name: call.name.clone() }));
            block
        });
        if let Some(delta) = call.arguments.get(call.given..).filter(|delta| !delta.is_empty()) {
            outcomes.push(Ok(ModelEvent::ToolArgumentsDelta { block, delta: delta.to_owned() }));
            call.given = call.arguments.len();
        }
    }

    fn message(&self, provider: &str, model: &str) -> Result<AssistantMessage, ProviderError> {
        let finish = match &self.finish {
            Some(Value::String(reason)) => reason.clone(),
            Some(other) => other.to_string(),
            None => return Err(ProviderError::protocol("`[DONE]` came before any `finish_reason`")),
        };
        match finish.as_str() {
            "error" => {
                return Err(ProviderError::new(
                    ProviderErrorKind::Server,
                    "the provider ended the answer with `error`",
                ));
            }
            "insufficient_system_resource" => {
                return Err(ProviderError::new(
                    ProviderErrorKind::Overloaded,
                    "the provider ended the answer with `insufficient_system_resource`",
                ));
            }
            _ => {}
        }
        if self.calls.0.iter().any(|call| call.name.is_empty() && !call.arguments.trim().is_empty()) {
            return Err(ProviderError::protocol("a tool call has no name"));
        }
        let content: Vec<ContentBlock> =
            self.blocks.iter().map(|block| self.block(block, provider)).collect();
        let calls = content.iter().any(|block| matches!(block, ContentBlock::ToolCall(_)));
        let reason = match finish.as_str() {
            "stop" | "tool_calls" | "function_call" | "end_turn" | "eos" | "eos_token" => {
                match (calls, self.refusal.is_empty()) {
                    (true, _) => StopReason::ToolUse,
                    (false, true) => StopReason::EndTurn,
                    (false, false) => StopReason::Refusal,
                }
            }
            "length" | "model_length" | "max_tokens" => StopReason::MaxTokens,
            "stop_sequence" => StopReason::StopSequence,
            "content_filter" => StopReason::ContentFilter,
            "refusal" => StopReason::Refusal,
            _ => StopReason::Other,
        };
        let mut message = AssistantMessage::new(content)
            .stop_reason(reason)
            .provider_stop_reason(finish)
            .from_model(provider, if self.model.is_empty() { model } else { &self.model });
        if !self.id.is_empty() {
            message = message.response_id(&*self.id);
        }
        if !self.refusal.is_empty() {
            message = message.refusal(&*self.refusal);
        }
        if let Some(reported) = &self.usage {
            message = message.usage(usage(reported)).reported_usage(reported.clone());
        }
        Ok(message)
    }

    fn block(&self, block: &Block, provider: &str) -> ContentBlock {
        match block {
            Block::Text(text) => Text::new(text).into(),
            Block::Thinking(text) => Thinking::new(provider, text).into(),
            Block::Call { place, id } => match self.calls.0.get(*place) {
                Some(call) => ToolCall::parse(id, &*call.name, &call.arguments).into(),
                None => ToolCall::parse(id, "", "").into(),
            },
        }
    }
}

/// The id of a call: the server's own, unless it gave none or gave it to another call of this answer too.
fn unique_id(blocks: &[Block], response: &str, given: &str, place: usize) -> String {
    let taken =
        |id: &str| blocks.iter().any(|block| matches!(block, Block::Call { id: other, .. } if other == id));
    let mut id = match (given, response) {
        ("", "") => format!("call_{place}"),
        ("", response) => format!("{response}_{place}"),
        (given, _) => given.to_owned(),
    };
    while taken(&id) {
        id = format!("{id}_{place}");
    }
    id
}

/// Makes the counts of a `usage` object disjoint.
fn usage(reported: &Value) -> Usage {
    let count = |path: &str| {
        let value = reported.pointer(path)?;
        value.as_u64().or_else(|| value.as_f64().filter(|count| *count >= 0.0).map(whole))
    };
    let input = count("/prompt_tokens").unwrap_or_default();
    let output = count("/completion_tokens").unwrap_or_default();
    let cached = count("/prompt_tokens_details/cached_tokens").or_else(|| count("/prompt_cache_hit_tokens"));
    let cached = cached.unwrap_or_default().min(input);
    let written = count("/prompt_tokens_details/cache_write_tokens").unwrap_or_default().min(input - cached);
    let thinking = count("/completion_tokens_details/reasoning_tokens").unwrap_or_default();
    // xAI counts thinking beside the completion, all others within it; the total tells which.
    let beside =
        thinking > 0 && count("/total_tokens") == Some(input.saturating_add(output).saturating_add(thinking));
    let output = if beside { output } else { output.saturating_sub(thinking) };
    Usage::new(input - cached - written, output).cache_read(cached).cache_write(written).thinking(thinking)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be positive; it saturates"
)]
fn whole(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests;
