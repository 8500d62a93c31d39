//! The adapter against servers that do not do what they should: the right outcome, in bounded time and memory.
#![cfg(all(feature = "openai-compatible", feature = "tls-none"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use nervekit_harness::{
    AssistantMessage, Credentials, Harness, HttpClient, Messages, Model, ModelEvent, ModelInfo, ModelRequest,
    OpenAiChat, ProviderError, ProviderErrorKind, StandardHarness, StopReason, UserMessage,
};
use nervekit_types::Secret;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// The silence after which the client gives up in these tests.
const IDLE: Duration = Duration::from_millis(400);

/// The time in which every outcome must be there, with room for a loaded machine.
const BOUND: Duration = Duration::from_secs(20);

enum Step {
    Send(Vec<u8>),
    Every(Duration, Vec<u8>),
    Repeat(Vec<u8>),
    Hang,
    Reset,
}

use Step::{Every, Hang, Repeat, Reset, Send};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

fn send(text: impl AsRef<str>) -> Step {
    Send(text.as_ref().as_bytes().to_vec())
}

fn chunk(delta: &serde_json::Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"id": "r", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    )
}

fn finish(reason: &str) -> String {
    format!(
        "data: {}\n\n",
        json!({"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    )
}

fn text(text: &str) -> String {
    chunk(&json!({ "content": text }))
}

const DONE: &str = "data: [DONE]\n\n";

/// Reads one request and answers it by these steps. The receiver gets the request, and, when the client closes
/// the connection before the server does, the sender of `closed` fires.
async fn serve(steps: Vec<Step>) -> (String, oneshot::Receiver<String>, oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let (request_sender, request) = oneshot::channel();
    let (closed_sender, closed) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = request_sender.send(read_request(&mut stream).await);
        for step in steps {
            let sent = match step {
                Send(bytes) => stream.write_all(&bytes).await,
                Every(pause, bytes) => trickle(&mut stream, pause, &bytes).await,
                Repeat(bytes) => loop {
                    if let Err(error) = stream.write_all(&bytes).await {
                        break Err(error);
                    }
                },
                Hang => {
                    // Nothing more is read from a client that goes away but the end.
                    let _ = stream.read(&mut [0; 16]).await;
                    Err(std::io::ErrorKind::BrokenPipe.into())
                }
                Reset => {
                    stream.set_zero_linger().unwrap();
                    return;
                }
            };
            if sent.is_err() {
                let _ = closed_sender.send(());
                return;
            }
        }
        let _ = stream.shutdown().await;
    });
    (address, request, closed)
}

async fn trickle(stream: &mut TcpStream, pause: Duration, bytes: &[u8]) -> std::io::Result<()> {
    for byte in bytes {
        stream.write_all(&[*byte]).await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the client went away before it asked");
        request.extend_from_slice(buffer.get(..read).unwrap());
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap() {
                return text;
            }
        }
    }
}

fn model(address: &str) -> OpenAiChat {
    let client = HttpClient::builder()
        .connect_timeout(IDLE)
        .idle_timeout(IDLE)
        .total_timeout(IDLE * 8)
        .build()
        .unwrap();
    OpenAiChat::new(ModelInfo::new("local", "devstral"), address, client)
}

fn request() -> Arc<ModelRequest> {
    Arc::new(ModelRequest::new(Messages::from_iter([UserMessage::text("hi")])))
}

/// Runs one turn and gives its end, which must be the only one.
async fn turn(model: OpenAiChat) -> Result<AssistantMessage, ProviderError> {
    let start = Instant::now();
    let mut events = StandardHarness::new().turn(Arc::new(model), request());
    let mut end = None;
    while let Some(event) = events.next().await {
        assert!(end.is_none(), "an event came after the end");
        match event {
            Ok(ModelEvent::Finished(message)) => end = Some(Ok(message)),
            Err(error) => end = Some(Err(error)),
            Ok(_) => {}
        }
    }
    assert!(start.elapsed() < BOUND, "it took {:?}", start.elapsed());
    end.unwrap()
}

async fn answer(steps: Vec<Step>) -> Result<AssistantMessage, ProviderError> {
    let (address, _request, _closed) = serve(steps).await;
    turn(model(&address)).await
}

async fn error(steps: Vec<Step>) -> ProviderError {
    answer(steps).await.unwrap_err()
}

#[tokio::test]
async fn a_good_server_is_asked_and_answers() {
    #[derive(Debug)]
    struct Key;
    #[async_trait::async_trait]
    impl Credentials for Key {
        async fn secret(&self, name: &str) -> Result<Option<Secret>, ProviderError> {
            Ok((name == "LOCAL_KEY").then(|| Secret::new("sk-1")))
        }
    }
    let (address, request, _) =
        serve(vec![send(HEAD), send(text("hello")), send(finish("stop")), send(DONE)]).await;
    let message = turn(model(&address).credentials(Key).credential("LOCAL_KEY").header("X-Title", "test"))
        .await
        .unwrap();
    assert_eq!(message.plain_text(), "hello");
    let request = request.await.unwrap();
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"));
    for line in ["authorization: Bearer sk-1", "content-type: application/json", "x-title: test"] {
        assert!(request.lines().any(|other| other == line), "{line} in {request}");
    }
    assert!(!request.to_ascii_lowercase().contains("accept-encoding"));

    let missing = turn(model(&address).credentials(Key).credential("OTHER_KEY")).await.unwrap_err();
    assert_eq!(missing.kind(), ProviderErrorKind::Authentication);
    assert!(missing.message().contains("OTHER_KEY"));
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(turn(model(&address)).await.unwrap_err().kind(), ProviderErrorKind::Network);
    assert_eq!(turn(model("not an address")).await.unwrap_err().kind(), ProviderErrorKind::InvalidRequest);
}

#[tokio::test]
async fn case_50_a_connection_that_breaks_is_an_error_wherever_it_breaks() {
    let call = chunk(
        &json!({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "write", "arguments": "{\"pa"}}]}),
    );
    for (sent, after_content) in [
        (String::new(), false),
        (chunk(&json!({"role": "assistant", "content": ""})), false),
        (text("half"), true),
        (text("half").replace("\n\n", ""), true),
        (call, true),
        (format!("{}data: {{\"choices\":[{{\"fini", text("half")), true),
    ] {
        for end in [vec![], vec![Reset]] {
            let resets = !end.is_empty();
            let mut steps = vec![send(HEAD), send(&sent)];
            steps.extend(end);
            let error = error(steps).await;
            assert_eq!(error.kind(), ProviderErrorKind::Network, "{sent:?} {error}");
            // A reset may overtake what was sent before it.
            assert!(resets || error.after_content() == after_content, "{sent:?} {error}");
            assert_ne!(error.retry(), nervekit_types::Retry::Never);
        }
    }
    assert_eq!(error(vec![Reset]).await.kind(), ProviderErrorKind::Network);
}

#[tokio::test]
async fn case_50_done_without_a_reason_is_an_error_and_a_reason_without_done_is_complete() {
    let error = error(vec![send(HEAD), send(text("half")), send(DONE)]).await;
    assert_eq!(error.kind(), ProviderErrorKind::Protocol);
    for end in [vec![], vec![Reset], vec![Hang]] {
        let mut steps = vec![send(HEAD), send(text("whole")), send(finish("stop"))];
        let resets = matches!(end.first(), Some(Reset));
        steps.extend(end);
        match answer(steps).await {
            Ok(message) => assert_eq!(message.plain_text(), "whole"),
            // The reset may overtake the answer itself.
            Err(error) => assert!(resets && error.kind() == ProviderErrorKind::Network, "{error}"),
        }
    }
}

#[tokio::test]
async fn silence_before_the_head_and_in_mid_stream() {
    assert_eq!(error(vec![Hang]).await.kind(), ProviderErrorKind::Timeout);
    assert_eq!(error(vec![send("HTTP/1.1 200 O"), Hang]).await.kind(), ProviderErrorKind::Timeout);
    let error = error(vec![send(HEAD), send(text("half")), Hang]).await;
    assert_eq!(error.kind(), ProviderErrorKind::Timeout);
    assert!(error.after_content());
}

#[tokio::test]
async fn one_byte_at_a_time() {
    let slow = |text: String| Every(Duration::from_millis(2), text.into_bytes());
    let message = answer(vec![send(HEAD), slow(text("hé")), slow(finish("stop"))]).await.unwrap();
    assert_eq!(message.plain_text(), "hé");
    // Never silent for long, and never done: the total time ends it.
    let endless = Every(Duration::from_millis(50), vec![b' '; 10_000]);
    assert_eq!(error(vec![send(HEAD), endless]).await.kind(), ProviderErrorKind::Timeout);
}

#[tokio::test]
async fn the_content_type_does_not_matter_but_the_content_does() {
    let head = |kind: &str| send(HEAD.replace("text/event-stream", kind));
    for kind in ["application/json", "application/octet-stream", "text/plain"] {
        let message = answer(vec![head(kind), send(text("hello")), send(finish("stop"))]).await.unwrap();
        assert_eq!(message.plain_text(), "hello");
    }
    let document = json!({"id": "r", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "all at once"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}});
    let message = answer(vec![head("application/json"), send(document.to_string())]).await.unwrap();
    assert_eq!((message.plain_text().as_str(), message.usage.input), ("all at once", 3));
    let page = error(vec![head("text/html"), send("<!doctype html><p>log in first")]).await;
    assert_eq!(page.kind(), ProviderErrorKind::Protocol);
    assert!(page.message().contains("web page"));
}

#[tokio::test]
async fn a_compressed_answer_is_refused() {
    let head = HEAD.replace("\r\n\r\n", "\r\ncontent-encoding: gzip\r\n\r\n");
    let error = error(vec![send(head), Repeat(vec![0x1f; 1 << 16])]).await;
    assert_eq!(error.kind(), ProviderErrorKind::Protocol);
    assert!(error.message().contains("gzip"));
}

#[tokio::test]
async fn giant_frames_and_endless_answers_end() {
    for flood in [
        vec![send("data: "), Repeat(vec![b'x'; 1 << 16])],
        vec![Repeat(text(&"x".repeat(1 << 16)).into_bytes())],
        vec![send("{"), Repeat(vec![b' '; 1 << 16])],
    ] {
        let mut steps = vec![send(HEAD)];
        steps.extend(flood);
        let error = error(steps).await;
        // On a slow machine the total time may come before the size.
        assert!(matches!(error.kind(), ProviderErrorKind::Protocol | ProviderErrorKind::Timeout), "{error}");
    }
}

#[tokio::test]
async fn an_error_object_in_a_good_stream() {
    let report = "data: {\"error\":{\"code\":429,\"message\":\"slow down\"}}\n\n";
    let error = error(vec![send(HEAD), send(text("half")), send(report), send(DONE)]).await;
    assert_eq!(error.kind(), ProviderErrorKind::RateLimited);
    assert_eq!(error.message(), "slow down");
}

#[tokio::test]
async fn calls_without_index_or_id_and_at_once() {
    let piece = |index: Option<u64>, id: Option<&str>, name: &str, arguments: serde_json::Value| {
        let mut call = json!({"function": {"name": name, "arguments": arguments}});
        if let Some(index) = index {
            call["index"] = index.into();
        }
        if let Some(id) = id {
            call["id"] = id.into();
        }
        chunk(&json!({ "tool_calls": [call] }))
    };
    for (index, id) in [(None, None), (Some(0), None), (None, Some("x"))] {
        let steps = vec![
            send(HEAD),
            send(piece(index, id, "read", json!("{\"path\":\"a\"}"))),
            send(piece(index, id.map(|_| "y"), "read", json!({"path": "b"}))),
            send(finish("stop")),
        ];
        let message = answer(steps).await.unwrap();
        let calls: Vec<_> = message.tool_calls().collect();
        assert_eq!(
            calls.iter().map(|call| &call.arguments).collect::<Vec<_>>(),
            [&json!({"path": "a"}), &json!({"path": "b"})]
        );
        assert!(calls.iter().all(|call| !call.id.is_empty() && call.is_valid()));
        assert!(calls.first().unwrap().id != calls.last().unwrap().id);
        assert_eq!(message.stop_reason, StopReason::ToolUse);
    }
}

#[tokio::test]
async fn an_error_answer_is_classified_and_never_repeats_the_key() {
    #[derive(Debug)]
    struct Key;
    #[async_trait::async_trait]
    impl Credentials for Key {
        async fn secret(&self, _: &str) -> Result<Option<Secret>, ProviderError> {
            Ok(Some(Secret::new("sk-very-secret")))
        }
    }
    let body = r#"{"error":{"message":"bad key sk-very-secret","type":"authentication_error"}}"#;
    let head =
        "HTTP/1.1 401 Unauthorized\r\nretry-after: 2\r\nx-request-id: req_7\r\nconnection: close\r\n\r\n";
    let (address, _, _) = serve(vec![send(head), send(body)]).await;
    let error = turn(model(&address).credentials(Key).credential("K")).await.unwrap_err();
    assert_eq!(error.kind(), ProviderErrorKind::Authentication);
    assert_eq!((error.status(), error.request_id()), (Some(401), Some("req_7")));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    assert!(!format!("{error:?} {error}").contains("sk-very-secret"));

    let (address, _, _) = serve(vec![send("HTTP/1.1 503 Busy\r\n\r\n"), Repeat(vec![b'x'; 1 << 16])]).await;
    let error = turn(model(&address)).await.unwrap_err();
    assert_eq!(error.kind(), ProviderErrorKind::Overloaded);
    assert!(error.message().len() < 10_000);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let error =
        error(vec![send("HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")])
            .await;
    assert_eq!((error.kind(), error.status()), (ProviderErrorKind::Protocol, Some(307)));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let (address, _, closed) = serve(vec![send(HEAD), send(text("half")), Hang]).await;
    let client = HttpClient::new().unwrap();
    let mut events = OpenAiChat::new(ModelInfo::new("local", "m"), &address, client).stream(request());
    match events.next().await {
        Some(Ok(ModelEvent::TextDelta { delta, .. })) => assert_eq!(delta, "half"),
        other => panic!("{other:?}"),
    }
    drop(events);
    tokio::time::timeout(BOUND, closed).await.unwrap().unwrap();
}
