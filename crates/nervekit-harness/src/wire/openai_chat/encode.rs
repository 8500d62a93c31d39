//! From a request to JSON.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nervekit_types::Digest;
use serde_json::{Map, Value, json};

use crate::message::{
    AssistantMessage, ContentBlock, Image, ImageSource, ToolCall, ToolResultMessage, UserMessage, is_blank,
    plain_text,
};
use crate::model::{ModelInfo, ThinkingLevel};
use crate::request::{ModelRequest, ToolSpec};
use crate::wire::history::{NO_RESULT, Step, steps};
use crate::wire::openai_chat::ChatOptions;

/// What stands for the output of a tool that gave none: some servers refuse an empty text.
const NO_OUTPUT: &str = "(no output)";

/// What stands for the output of a tool that gave images alone.
const IMAGES_BELOW: &str = "(the output is shown as an image below)";

/// The body of a streaming request.
///
/// Every call has its one result directly behind its message; blank texts, unsigned leftovers and thinking of
/// other providers are left out; ids that the service would refuse are replaced, always by the same ones. An
/// image that the model cannot take, or whose bytes are missing, becomes a text that says so. From turn to turn
/// only the end of `messages` changes.
///
/// ```
/// use nervekit_harness::wire::openai_chat::{ChatOptions, encode};
/// use nervekit_harness::{Messages, ModelInfo, ModelRequest, UserMessage};
/// use serde_json::json;
///
/// let request = ModelRequest::new(Messages::from_iter([UserMessage::text("hi")])).system("be brief");
/// let body = encode(&request, &ModelInfo::new("openai", "gpt-5"), &ChatOptions::default());
/// assert_eq!(body["messages"], json!([
///     {"role": "system", "content": "be brief"},
///     {"role": "user", "content": "hi"},
/// ]));
/// assert_eq!(body["stream"], true);
/// ```
#[must_use]
pub fn encode(request: &ModelRequest, info: &ModelInfo, options: &ChatOptions) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), info.id.as_str().into());
    body.insert("messages".into(), messages(request, info, options).into());
    body.insert("stream".into(), true.into());
    if options.stream_usage {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    if info.tools && !request.tools.is_empty() {
        body.insert("tools".into(), request.tools.iter().map(tool).collect());
    }
    if let Some(tokens) = request.max_output {
        let field = if options.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        body.insert(field.into(), tokens.into());
    }
    if !info.thinking.is_empty() {
        let effort = match info.clamp(request.thinking) {
            ThinkingLevel::Off => "none",
            level => level.as_str(),
        };
        body.insert("reasoning_effort".into(), effort.into());
    }
    if let Some(response) = &request.response_schema {
        body.insert(
            "response_format".into(),
            json!({"type": "json_schema", "json_schema": {
                "name": response.name,
                "schema": response.schema,
                "strict": is_strict(&response.schema),
            }}),
        );
    }
    Value::Object(body)
}

fn tool(tool: &ToolSpec) -> Value {
    json!({"type": "function", "function": {
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters(&tool.parameters),
    }})
}

/// The schema of arguments. A request with a tool whose schema has one of these words at its root is refused as a whole
/// ("schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"). Beside
/// `properties` they only say which of these go together; whoever takes the call checks that. A schema without
/// `properties` would say nothing any more: it stays, and the service names the tool that it refuses.
fn parameters(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(root) = &mut schema
        && root.contains_key("properties")
    {
        for word in ["oneOf", "anyOf", "allOf", "enum", "not"] {
            root.remove(word);
        }
    }
    schema
}

fn messages(request: &ModelRequest, info: &ModelInfo, options: &ChatOptions) -> Vec<Value> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if let Some(system) = request.system.as_deref().filter(|text| !is_blank(text)) {
        messages.push(json!({"role": "system", "content": system}));
    }
    for step in steps(&request.messages) {
        match step {
            Step::User(message) => messages.extend(user(message, request, info)),
            Step::Assistant { message, results } => {
                messages.extend(assistant(message, info, options));
                let mut images = Vec::new();
                for (call, result) in results {
                    let (message, more) = tool_result(call, result, request, info, options);
                    messages.push(message);
                    images.extend(more);
                }
                if !images.is_empty() {
                    messages.push(json!({"role": "user", "content": images}));
                }
            }
        }
    }
    messages
}

fn user(message: &UserMessage, request: &ModelRequest, info: &ModelInfo) -> Option<Value> {
    let (images, texts) = parts(&message.content, request, info);
    let content = if images.is_empty() {
        if texts.is_empty() {
            return None;
        }
        texts.join("\n").into()
    } else {
        let texts = texts.into_iter().map(|text| json!({"type": "text", "text": text}));
        texts.chain(images).collect::<Value>()
    };
    Some(json!({"role": "user", "content": content}))
}

/// The images as parts, and the texts that are not blank, with what stands for an image that cannot be sent.
fn parts<'a>(
    content: &'a [ContentBlock],
    request: &ModelRequest,
    info: &ModelInfo,
) -> (Vec<Value>, Vec<Cow<'a, str>>) {
    let (mut images, mut texts) = (Vec::new(), Vec::new());
    for block in content {
        match block {
            ContentBlock::Text(text) if !is_blank(&text.text) => texts.push(Cow::Borrowed(&*text.text)),
            ContentBlock::Image(image) => match image_url(image, request).filter(|_| info.images) {
                Some(url) => images.push(json!({"type": "image_url", "image_url": {"url": url}})),
                None => {
                    texts.push(Cow::Owned(format!("[an image ({}) that cannot be shown]", image.media_type)));
                }
            },
            _ => {}
        }
    }
    (images, texts)
}

fn image_url(image: &Image, request: &ModelRequest) -> Option<String> {
    let bytes = match &image.source {
        ImageSource::Inline(bytes) => bytes,
        ImageSource::Asset(id) => request.assets.get(id)?,
    };
    Some(format!("data:{};base64,{}", image.media_type, STANDARD.encode(bytes)))
}

fn assistant(message: &AssistantMessage, info: &ModelInfo, options: &ChatOptions) -> Option<Value> {
    let text = plain_text(&message.content);
    let text = Some(text).filter(|text| !is_blank(text)).or_else(|| message.refusal.clone());
    let calls: Vec<_> = message
        .tool_calls()
        .map(|call| {
            json!({
                "id": call_id(&call.id, options),
                "type": "function",
                // An invalid call is shown with the empty object, so that the text is always valid JSON.
                "function": {"name": call.name, "arguments": call.arguments.to_string()},
            })
        })
        .collect();
    if text.is_none() && calls.is_empty() {
        return None;
    }
    let mut object = Map::new();
    object.insert("role".into(), "assistant".into());
    object.insert("content".into(), text.into());
    if !calls.is_empty() {
        object.insert("tool_calls".into(), calls.into());
    }
    if let Some(field) = &options.reasoning_field {
        let thinking: String = message
            .content
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Thinking(thinking) if thinking.provider == info.provider => {
                    Some(&*thinking.text)
                }
                _ => None,
            })
            .collect();
        if !thinking.is_empty() {
            object.insert(field.clone(), thinking.into());
        }
    }
    Some(Value::Object(object))
}

/// A result as a tool message, and its images, for which a tool message has no place.
fn tool_result(
    call: &ToolCall,
    result: Option<&ToolResultMessage>,
    request: &ModelRequest,
    info: &ModelInfo,
    options: &ChatOptions,
) -> (Value, Vec<Value>) {
    let (images, texts) = result.map(|result| parts(&result.content, request, info)).unwrap_or_default();
    let content = match result {
        None => NO_RESULT.to_owned(),
        Some(_) if !texts.is_empty() => texts.join("\n"),
        Some(_) if !images.is_empty() => IMAGES_BELOW.to_owned(),
        Some(_) => NO_OUTPUT.to_owned(),
    };
    (json!({"role": "tool", "tool_call_id": call_id(&call.id, options), "content": content}), images)
}

/// The id of a call as the service takes it. An id that fits stays; another one is replaced by a part of its
/// SHA-256, so that the same id always gives the same one and two ids never meet.
fn call_id<'a>(id: &'a str, options: &ChatOptions) -> Cow<'a, str> {
    let fits = if options.short_call_ids {
        id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
    } else {
        (1..=40).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    if fits {
        return Cow::Borrowed(id);
    }
    // A digit of base 36 from every byte: 9 of them are worth 46 bits, all 32 are worth 165.
    let (prefix, length) = if options.short_call_ids { ("", 9) } else { ("call_", 32) };
    let digits =
        Digest::of(id).as_bytes().map(|byte| char::from_digit(u32::from(byte % 36), 36).unwrap_or('0'));
    Cow::Owned(digits.iter().take(length).fold(prefix.to_owned(), |mut id, digit| {
        id.push(*digit);
        id
    }))
}

/// Whether strict mode can express a schema: every object lists all of its properties as required and allows
/// no others (<https://platform.openai.com/docs/guides/structured-outputs#supported-schemas>).
fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => {
            let is_object =
                object.get("type").is_some_and(|kind| kind == "object") || object.contains_key("properties");
            let closed = !is_object || {
                let required = object.get("required").and_then(Value::as_array);
                let all = object.get("properties").and_then(Value::as_object).is_some_and(|properties| {
                    let listed =
                        |name: &String| required.is_some_and(|names| names.iter().any(|other| other == name));
                    properties.keys().all(listed)
                });
                all && object.get("additionalProperties") == Some(&Value::Bool(false))
            };
            closed && object.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
