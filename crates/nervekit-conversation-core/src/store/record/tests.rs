mod damage;
mod fixture;

use std::fmt::Debug;

use nervekit_types::Digest;
use serde_json::json;

use super::*;
use crate::store::tests::Dice;

/// How many values of each kind are tried; each has a seed of its own, which a failure names.
const SEEDS: u64 = 400;

fn encode_event(event: &mut Event, previous: Digest) -> Result<Vec<u8>, RecordError> {
    let mut bytes = b"what was there before".to_vec();
    write_event(event, previous, &mut bytes)?;
    Ok(bytes)
}

fn round_trips<T: Record + PartialEq + Debug>(value: impl Fn(&mut Dice) -> T) {
    for seed in 0..SEEDS {
        let value = value(&mut Dice::new(seed));
        let bytes = value.encode().unwrap_or_else(|error| panic!("seed {seed}: {error}: {value:?}"));
        let read = T::decode(&bytes).unwrap_or_else(|error| panic!("seed {seed}: {error}: {value:?}"));
        assert_eq!(read, value, "seed {seed}");
        assert_eq!(read.encode().unwrap(), bytes, "seed {seed}: it is written the same again");
        assert!(!bytes.contains(&b'\n'), "seed {seed}: a record is one line");
        serde_json::from_slice::<serde_json::Value>(&bytes).unwrap();
    }
}

#[test]
fn rows_are_read_as_they_were_written() {
    round_trips(Dice::project);
    round_trips(Dice::core);
    round_trips(Dice::mailbox);
    round_trips(Dice::config);
    round_trips(Dice::lease);
    round_trips(Dice::call);
    round_trips(Dice::input);
    round_trips(Dice::fate);
    round_trips(Dice::outcome);
    round_trips(Dice::todos);
    round_trips(Dice::file_read);
    round_trips(Dice::trust);
    round_trips(Dice::index);
    round_trips(Dice::event);
}

#[test]
fn events_are_read_as_they_were_written_and_chain() {
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let mut previous = CHAIN_START;
        for _ in 0..4 {
            let mut event = dice.event();
            let value = encode_event(&mut event, previous).unwrap();
            assert_eq!(decode_event(&value).unwrap(), event, "seed {seed}");
            assert_eq!(check_event(&value, previous).unwrap(), (event.id, event.chain_hash), "seed {seed}");
            assert_ne!(event.chain_hash, previous, "seed {seed}");
            previous = event.chain_hash;
        }
    }
}

#[test]
fn a_chain_hash_is_the_sha_256_of_the_hash_before_it_and_the_record() {
    let previous = Digest::of("before");
    let mut event = Dice::new(1).event();
    let value = encode_event(&mut event, previous).unwrap();
    let record = event.encode().unwrap();
    assert_eq!(value[32..], record);
    assert_eq!(event.chain_hash, Digest::of([previous.as_bytes().as_slice(), &record].concat()));
    assert_eq!(value[..32], *event.chain_hash.as_bytes());
}

#[test]
fn what_json_can_be_parsed_can_be_stored_and_read() {
    // `serde_json` reads 127 levels of what a model sends. Around them, an event has up to eight of its own.
    let text = Dice::nested(127).to_string();
    let arguments: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut call = Dice::new(3).call();
    call.arguments = arguments.clone();
    assert_eq!(ToolCall::decode(&call.encode().unwrap()).unwrap(), call);

    let message = nervekit_harness::AssistantMessage::new([nervekit_harness::ContentBlock::from(
        nervekit_harness::ToolCall::new("1", "deep", json!({ "deep": Dice::nested(126) })),
    )]);
    let mut event = Dice::new(4).event();
    event.payload = crate::event::EventPayload::AssistantMessage(crate::event::AssistantMessageEvent {
        message: message.into(),
        calls: Vec::new(),
        attempt: 1,
    });
    let value = encode_event(&mut event, CHAIN_START).unwrap();
    assert_eq!(decode_event(&value).unwrap(), event);
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    // The deepest that is written is read, and one level more is refused: there is nothing in between.
    let mut call = Dice::new(3).call();
    let deepest = (127..400)
        .take_while(|levels| {
            call.arguments = Dice::nested(*levels);
            call.encode().is_ok_and(|bytes| ToolCall::decode(&bytes).unwrap() == call)
        })
        .last()
        .unwrap();
    call.arguments = Dice::nested(deepest + 1);
    let error = call.encode().unwrap_err();
    assert_eq!(error.to_string(), "the `call` record cannot be stored: its JSON is nested too deeply");

    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt as _;
        let mut project = Dice::new(5).project();
        project.directory = Some(std::ffi::OsString::from_vec(vec![b'/', 0xff]).into());
        let error = project.encode().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the `project` record cannot be stored: path contains invalid UTF-8 characters"
        );
    }
}

#[test]
fn the_format_marker_is_read_by_every_build() {
    assert_eq!(read_format_marker(&format_marker(1, 1)).unwrap(), (1, 1));
    assert_eq!(read_format_marker(&format_marker(2, u32::MAX)).unwrap(), (2, u32::MAX));
    // A later build may have more to say.
    assert_eq!(read_format_marker(br#"{"oldest":3,"newest":4,"compressed":true}"#).unwrap(), (3, 4));
    for bytes in [&b""[..], b"1", b"{}", br#"{"oldest":1}"#, br#"{"oldest":-1,"newest":1}"#] {
        assert_eq!(read_format_marker(bytes), Err(RecordError::Foreign { record: "format" }));
    }
}

#[test]
fn errors_are_small() {
    assert!(size_of::<RecordError>() <= 64);
}
