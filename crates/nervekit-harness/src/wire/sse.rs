//! Server-sent events, as the HTML standard describes them
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>).

use crate::error::ProviderError;

/// The largest event: 16 MiB. A whole answer of any model is smaller.
const LARGEST_EVENT: usize = 16 * 1024 * 1024;

/// One event.
///
/// ```
/// use nervekit_harness::wire::sse::SseDecoder;
/// let events = SseDecoder::new().push(b"event: ping\ndata: {}\n\n").unwrap();
/// assert_eq!((events[0].name.as_deref(), &*events[0].data), (Some("ping"), "{}"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent {
    /// The `event` field.
    pub name: Option<String>,
    /// The `data` fields, with a line feed between two of them.
    pub data: String,
}

/// Splits bytes into events: pure, total, and the same for every way in which the bytes are cut.
///
/// An event is given as soon as the blank line behind it begins; a line may end with LF, CRLF or CR. `id` and
/// `retry` fields and comments are passed over; bytes that are not UTF-8 become U+FFFD. An event of more than
/// 16 MiB is an error.
///
/// One departure from the standard: what the body ends with counts as an event, even without its blank line
/// (see [`SseDecoder::finish`]). The data of model providers is JSON, which shows by itself when it was cut.
///
/// ```
/// use nervekit_harness::wire::sse::SseDecoder;
/// let mut decoder = SseDecoder::new();
/// assert!(decoder.push(b"data: one\r\n\r").unwrap().len() == 1);
/// assert!(decoder.push(b"\n: a comment\ndata:two").unwrap().is_empty());
/// assert_eq!(decoder.finish().unwrap().data, "two");
/// ```
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SseDecoder {
    begun: bool,
    after_return: bool,
    line: Vec<u8>,
    name: Option<String>,
    data: String,
    has_data: bool,
}

impl SseDecoder {
    /// A decoder that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and gives the events that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, ProviderError> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, next) = rest.split_at(end.unwrap_or(rest.len()));
            if self.line.len() + self.data.len() + part.len() > LARGEST_EVENT {
                return Err(ProviderError::protocol(format!(
                    "an event of the stream is larger than {LARGEST_EVENT} bytes"
                )));
            }
            self.line.extend_from_slice(part);
            let Some((terminator, next)) = next.split_first() else { break };
            self.after_return = *terminator == b'\r';
            events.extend(self.end_line());
            rest = next;
        }
        Ok(events)
    }

    /// Takes the end of the bytes and gives the event that lacks its blank line.
    pub fn finish(&mut self) -> Option<SseEvent> {
        let event = self.end_line();
        event.or_else(|| self.dispatch())
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = if self.begun { &*line } else { line.strip_prefix('\u{FEFF}').unwrap_or(&line) };
        self.begun = true;
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            "event" => self.name = Some(value.to_owned()),
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = SseEvent { name: self.name.take(), data: std::mem::take(&mut self.data) };
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::new();
        let mut events: Vec<_> = pieces.iter().flat_map(|piece| decoder.push(piece).unwrap()).collect();
        events.extend(decoder.finish());
        events
    }

    fn data(events: &[SseEvent]) -> Vec<&str> {
        events.iter().map(|event| &*event.data).collect()
    }

    const STREAM: &str = "data: {\"a\":1}\n\n: comment\ndata:two\ndata: lines\nevent: late\nid: 7\nretry: 10\n\n\n\n\
                          event: no data\n\ndata\n\ndata:  spaced é中\u{1F600} \n\ndata: last\n\n";

    #[test]
    fn case_49_line_ends_and_cuts_make_no_difference() {
        let expected = decode(&[STREAM.as_bytes()]);
        assert_eq!(data(&expected), ["{\"a\":1}", "two\nlines", "", " spaced é中\u{1F600} ", "last"]);
        assert_eq!(expected[1].name.as_deref(), Some("late"));
        assert_eq!(expected[2].name, None);
        let ends = ["\n", "\r\n", "\r"].into_iter().cycle();
        let mixed = STREAM.split('\n').zip(ends).fold(String::new(), |text, (line, end)| text + line + end);
        for text in [
            STREAM.to_owned(),
            STREAM.replace('\n', "\r\n"),
            STREAM.replace('\n', "\r"),
            format!("\u{FEFF}{STREAM}"),
        ] {
            let bytes = text.as_bytes();
            for cut in 0..=bytes.len() {
                assert_eq!(decode(&[&bytes[..cut], &bytes[cut..]]), expected, "cut at {cut} of {text:?}");
            }
            let single: Vec<_> = bytes.chunks(1).collect();
            assert_eq!(decode(&single), expected);
        }
        // "\r" + "\n" across two line ends of a mix reads as one, so only the data that is there must survive.
        assert!(data(&decode(&[mixed.as_bytes()])).contains(&"last"));
    }

    #[test]
    fn case_49_an_event_is_given_as_soon_as_it_is_complete() {
        for end in ["\n\n", "\r\n\r", "\r\r", "\n\r"] {
            let mut decoder = SseDecoder::new();
            assert_eq!(decoder.push(format!("data: now{end}").as_bytes()).unwrap().len(), 1, "{end:?}");
            assert_eq!(decoder.push(b"\ndata: x\n\n").unwrap().len(), 1, "{end:?}");
        }
    }

    #[test]
    fn case_49_a_large_event_passes_and_an_endless_one_is_refused() {
        let large = format!("data: {}\n\n", "x".repeat(1 << 20));
        assert_eq!(decode(&[large.as_bytes()])[0].data.len(), 1 << 20);
        for endless in ["data: xxxxxxxxxxxx", "data: xxxxxxxxxxxx\n"] {
            let piece = endless.repeat(1 << 12);
            let mut decoder = SseDecoder::new();
            let pieces = (0..1_000).take_while(|_| decoder.push(piece.as_bytes()).is_ok()).count();
            assert!((200..400).contains(&pieces), "{pieces}");
        }
    }

    #[test]
    fn an_event_without_its_blank_line_counts_at_the_end() {
        assert_eq!(data(&decode(&[b"data: [DONE]"])), ["[DONE]"]);
        assert_eq!(data(&decode(&[b"data: a\n\ndata: [DONE]\n"])), ["a", "[DONE]"]);
        assert!(decode(&[b": only a comment"]).is_empty());
        assert!(decode(&[]).is_empty());
    }

    #[test]
    fn bytes_that_are_no_text_are_no_panic() {
        let events = decode(&[b"data: a\xff\xfe", b"\x80b\n\n\x00\x01:\n\n"]);
        assert_eq!(data(&events), ["a\u{FFFD}\u{FFFD}\u{FFFD}b"]);
    }
}
