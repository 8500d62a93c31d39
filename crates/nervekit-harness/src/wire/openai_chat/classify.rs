//! What an error answer means.

use std::time::{Duration, SystemTime};

use nervekit_types::Timestamp;
use serde_json::Value;

use crate::error::{ProviderError, ProviderErrorKind};
use crate::wire::openai_chat::surrogate::mend;

/// The most characters of a provider's message that are kept.
const LONGEST_MESSAGE: usize = 2_000;

/// What servers say when a request is larger than the context window. Sources: OpenAI, `DeepSeek`, OpenRouter and
/// vLLM ("maximum context length"), Groq ("reduce the length of the messages"), llama.cpp ("exceeds the
/// available context size"), xAI ("maximum prompt length"), Anthropic behind gateways ("prompt is too long",
/// "exceed context limit"), Gemini behind gateways ("input token count … exceeds the maximum"), LM Studio
/// ("context the overflows", "context length of only"), Ollama and others ("context window").
const OVERFLOW: [&str; 10] = [
    "maximum context length",
    "reduce the length of the messages",
    "available context size",
    "maximum prompt length",
    "prompt is too long",
    "exceed context limit",
    "context the overflows",
    "context length of only",
    "exceeds the context window",
    "exceeds the maximum number of tokens allowed",
];

/// Makes an error of a response whose status is not 200.
///
/// `headers` have lower-case names; `now` is what a `Retry-After` date is compared with. A body that is too
/// large (413) and a rate limit (429) are never taken for a context overflow, whatever they say about tokens.
///
/// ```
/// use nervekit_harness::ProviderErrorKind;
/// use nervekit_harness::wire::openai_chat::classify;
/// use nervekit_types::Timestamp;
///
/// let body = r#"{"error": {"code": "context_length_exceeded", "message": "too long"}}"#;
/// let error = classify(400, &[], body, Timestamp::from_millis(0));
/// assert_eq!(error.kind(), ProviderErrorKind::ContextOverflow);
/// assert_eq!(error.to_string(), "context_overflow (status 400): too long");
/// ```
#[must_use]
pub fn classify(status: u16, headers: &[(String, String)], body: &str, now: Timestamp) -> ProviderError {
    let document = serde_json::from_str(body).or_else(|_| serde_json::from_str(&mend(body)));
    let mut error = if let Ok(value @ Value::Object(_)) = document {
        reported(&value, Some(status))
    } else {
        let text = if body.trim().is_empty() { "(no text)" } else { body.trim() };
        ProviderError::new(kind(Some(status), "", text), short(text)).with_status(status)
    };
    let values = |name: &'static str| {
        headers.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    };
    if let Some(id) = ["x-request-id", "request-id", "mistral-correlation-id"]
        .into_iter()
        .find_map(|name| values(name).next())
    {
        error = error.with_request_id(id);
    }
    let millis = values("retry-after-ms").filter_map(seconds).map(|wait| wait / 1_000).max();
    // Of two answers the longer one is the safe one.
    let wait = millis.or_else(|| values("retry-after").filter_map(|value| retry_after(value, now)).max());
    if let Some(wait) = wait {
        error = error.with_retry_after(wait);
    }
    error
}

/// A `Retry-After` value (RFC 9110, section 10.2.3; fractions of a second are taken too). A date that is past is
/// no wait; what is neither is none.
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    seconds(value).or_else(|| {
        let millis = u64::try_from(now.as_millis()).ok()?;
        let now = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis))?;
        let date = httpdate::parse_http_date(value.trim()).ok()?;
        Some(date.duration_since(now).unwrap_or_default())
    })
}

/// A plain decimal number. Rust would read `inf`, `1e9` and `+1` too.
fn seconds(value: &str) -> Option<Duration> {
    let value = value.trim();
    let plain = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !plain {
        return None;
    }
    Duration::try_from_secs_f64(value.parse().ok()?).ok()
}

/// Whether a document or a chunk reports an error.
pub(super) fn is_error(value: &Value) -> bool {
    value.get("error").is_some_and(|error| !error.is_null())
        || value.get("object").is_some_and(|object| object == "error")
}

/// Makes an error of what a server reports, with the status of the response if that is an error itself.
pub(super) fn reported(document: &Value, status: Option<u16>) -> ProviderError {
    let error = document.get("error").filter(|error| !error.is_null()).unwrap_or(document);
    let field = |name: &str| match error.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let message = match error {
        Value::String(text) => text.clone(),
        _ => [field("message"), field("detail"), field("msg")]
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_else(|| error.to_string()),
    };
    let code = field("code");
    // In a stream the status stands in the error itself, if anywhere.
    let inner = ["code", "status", "status_code"]
        .iter()
        .find_map(|name| error.get(name).and_then(Value::as_u64))
        .or_else(|| code.parse().ok())
        .and_then(|status| u16::try_from(status).ok())
        .filter(|status| (400..600).contains(status));
    let status = status.or(inner);
    let words = format!("{code} {}", field("type"));
    let error = ProviderError::new(kind(status, &words, &message), short(&message));
    match status {
        Some(status) => error.with_status(status),
        None => error,
    }
}

/// The sort of an error, by its status, its code and type, and its text.
fn kind(status: Option<u16>, words: &str, message: &str) -> ProviderErrorKind {
    let words = words.to_ascii_lowercase();
    let message = message.to_ascii_lowercase();
    let word = |wanted: &[&str]| wanted.iter().any(|wanted| words.contains(wanted));
    if !matches!(status, Some(401 | 403 | 404 | 408 | 413 | 429)) {
        let code = word(&["context_length_exceeded", "exceed_context_size", "context_window_exceeded"]);
        if code || OVERFLOW.iter().any(|text| message.contains(text)) {
            return ProviderErrorKind::ContextOverflow;
        }
    }
    match status {
        Some(401) => ProviderErrorKind::Authentication,
        Some(402 | 403) => ProviderErrorKind::Permission,
        Some(404) => ProviderErrorKind::NotFound,
        Some(408) => ProviderErrorKind::Timeout,
        // A spent quota does not come back by waiting.
        Some(429) if word(&["insufficient_quota", "billing"]) => ProviderErrorKind::Permission,
        Some(429) => ProviderErrorKind::RateLimited,
        Some(498 | 503 | 529) => ProviderErrorKind::Overloaded,
        Some(409 | 500..) => ProviderErrorKind::Server,
        Some(300..=399) => ProviderErrorKind::Protocol,
        Some(400) if word(&["model_not_found", "invalid_model"]) => ProviderErrorKind::NotFound,
        Some(_) => ProviderErrorKind::InvalidRequest,
        None if word(&["rate_limit"]) => ProviderErrorKind::RateLimited,
        None if word(&["overloaded", "capacity", "unavailable"]) => ProviderErrorKind::Overloaded,
        None if word(&["authentication", "api_key"]) => ProviderErrorKind::Authentication,
        None if word(&["insufficient_quota", "permission", "billing"]) => ProviderErrorKind::Permission,
        None if word(&["invalid_request", "invalid_prompt"]) => ProviderErrorKind::InvalidRequest,
        None if word(&["timeout"]) => ProviderErrorKind::Timeout,
        None => ProviderErrorKind::Server,
    }
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProviderErrorKind::*;

    const NOW: Timestamp = Timestamp::from_millis(784_111_777_000); // 1994-11-06T08:49:37Z

    fn of(status: u16, body: &str) -> ProviderErrorKind {
        let error = classify(status, &[], body, NOW);
        assert_eq!(error.status(), Some(status));
        assert!(!error.message().is_empty());
        error.kind()
    }

    #[test]
    fn case_61_an_overflow_is_recognised_and_nothing_else_is_taken_for_one() {
        for (status, body) in [
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","code":400}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Please reduce the length of the messages or completion.","code":"context_length_exceeded"}}"#,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}"#,
            ),
            (400, r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#),
            (
                400,
                r#"{"message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt"}"#,
            ),
            (
                400,
                r#"{"error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}"#,
            ),
            (500, r#"{"error":{"message":"the request exceeds the available context size"}}"#),
            (422, "This endpoint's maximum context length is 32768 tokens"),
        ] {
            assert_eq!(of(status, body), ContextOverflow, "{body}");
        }
        for (status, body, kind) in [
            (413, r#"{"error":{"message":"request too large: maximum context length"}}"#, InvalidRequest),
            (
                429,
                r#"{"error":{"message":"Rate limit reached for tokens per min: maximum context length","code":"rate_limit_exceeded"}}"#,
                RateLimited,
            ),
            (400, r#"{"error":{"message":"max_tokens must be at least 1 token"}}"#, InvalidRequest),
        ] {
            assert_eq!(of(status, body), kind, "{body}");
        }
    }

    #[test]
    fn statuses_and_codes_have_their_kinds() {
        for (status, body, kind) in [
            (401, r#"{"detail":"Invalid API Key"}"#, Authentication),
            (402, "pay", Permission),
            (403, "", Permission),
            (404, "<html>", NotFound),
            (
                400,
                r#"{"code":"1500","message":"Invalid model: x","object":"error","type":"invalid_model"}"#,
                NotFound,
            ),
            (408, "", Timeout),
            (429, r#"{"error":{"code":"insufficient_quota","message":"quota"}}"#, Permission),
            (429, "", RateLimited),
            (422, r#"{"detail":[{"msg":"field required"}]}"#, InvalidRequest),
            (500, "[]", Server),
            (502, "Bad Gateway", Server),
            (503, "", Overloaded),
            (529, "", Overloaded),
            (307, "", Protocol),
        ] {
            assert_eq!(of(status, body), kind, "{status} {body}");
        }
    }

    #[test]
    fn an_error_in_a_stream_is_sorted_by_what_it_says() {
        for (error, kind) in [
            (r#"{"error":{"code":429,"message":"slow down"}}"#, RateLimited),
            (r#"{"error":{"code":"502","message":"bad upstream"}}"#, Server),
            (r#"{"error":{"type":"rate_limit_error","message":"slow down"}}"#, RateLimited),
            (r#"{"error":{"type":"overloaded_error","message":"x"}}"#, Overloaded),
            (r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#, ContextOverflow),
            (r#"{"error":{"code":"invalid_request_error","message":"x"}}"#, InvalidRequest),
            (r#"{"error":"boom"}"#, Server),
            (r#"{"object":"error","message":"boom"}"#, Server),
        ] {
            let value: Value = serde_json::from_str(error).unwrap();
            assert!(is_error(&value));
            assert_eq!(reported(&value, None).kind(), kind, "{error}");
        }
    }

    #[test]
    fn case_62_retry_after_in_every_form() {
        let wait = |headers: &[(&str, &str)]| {
            let headers: Vec<_> =
                headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            classify(429, &headers, "{}", NOW).retry_after()
        };
        let seconds = |value| Some(Duration::from_secs_f64(value));
        for (value, expected) in [
            ("2", seconds(2.0)),
            ("0", seconds(0.0)),
            (" 1.5 ", seconds(1.5)),
            ("999999", seconds(999_999.0)),
            ("Sun, 06 Nov 1994 08:49:39 GMT", seconds(2.0)),
            ("Sun, 06 Nov 1994 08:49:35 GMT", seconds(0.0)),
            ("-5", None),
            ("2abc", None),
            ("", None),
            (".", None),
            ("1.2.3", None),
            ("inf", None),
            ("1e9", None),
            ("99999999999999999999999999999", None),
        ] {
            assert_eq!(wait(&[("retry-after", value)]), expected, "{value:?}");
        }
        assert_eq!(wait(&[]), None);
        assert_eq!(wait(&[("retry-after", "2"), ("retry-after", "7")]), seconds(7.0));
        assert_eq!(wait(&[("retry-after", "2abc"), ("retry-after", "3")]), seconds(3.0));
        assert_eq!(wait(&[("retry-after-ms", "1500"), ("retry-after", "2")]), seconds(1.5));
        assert_eq!(wait(&[("retry-after-ms", "soon"), ("retry-after", "2")]), seconds(2.0));
    }

    #[test]
    fn a_long_body_is_kept_in_part() {
        let error = classify(500, &[("x-request-id".into(), "req_1".into())], &"中".repeat(100_000), NOW);
        assert_eq!(error.message().chars().count(), LONGEST_MESSAGE);
        assert_eq!(error.request_id(), Some("req_1"));
    }
}
