//! Bytes that are not what was written: each is an error that says so, and none ends the process.

use super::*;

/// A record as bytes, with what reads it.
struct Sample {
    kind: &'static str,
    bytes: Vec<u8>,
    read: fn(&[u8]) -> Result<(), RecordError>,
}

fn sample<T: Record>(value: &T) -> Sample {
    Sample { kind: T::KIND, bytes: value.encode().unwrap(), read: |bytes| T::decode(bytes).map(drop) }
}

fn samples(seed: u64) -> Vec<Sample> {
    let dice = &mut Dice::new(seed);
    let samples = vec![
        sample(&dice.project()),
        sample(&dice.core()),
        sample(&dice.mailbox()),
        sample(&dice.config()),
        sample(&dice.lease()),
        sample(&dice.call()),
        sample(&dice.input()),
        sample(&dice.fate()),
        sample(&dice.outcome()),
        sample(&dice.todos()),
        sample(&dice.file_read()),
        sample(&dice.trust()),
        sample(&dice.index()),
        sample(&dice.event()),
    ];
    assert_eq!(samples.iter().map(|sample| sample.kind).collect::<Vec<_>>(), KINDS);
    samples
}

#[test]
fn a_truncated_record_is_refused_at_every_length() {
    for Sample { kind, bytes, read } in samples(1) {
        for length in 0..bytes.len() {
            let error = read(&bytes[..length]).unwrap_err();
            let header = format!(r#"{{"v":1,"{kind}":"#).len();
            match error {
                RecordError::Foreign { record } => assert!(record == kind && length < header),
                RecordError::Damaged { record, offset, .. } => {
                    assert!(
                        record == kind && length >= header && offset <= length,
                        "{kind} {length} {offset}"
                    );
                }
                other => panic!("{kind} cut at {length}: {other}"),
            }
        }
    }
}

#[test]
fn a_flipped_bit_never_panics_and_never_passes_in_an_event() {
    let dice = &mut Dice::new(2);
    for Sample { bytes, read, .. } in samples(2) {
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // A row has no hash: what is JSON of the right form is taken for what was written.
            let _ = read(&flipped);
        }
    }
    for _ in 0..6 {
        let value = encode_event(&mut dice.event(), CHAIN_START).unwrap();
        for bit in 0..value.len() * 8 {
            let mut flipped = value.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check_event(&flipped, CHAIN_START), Err(RecordError::Chain));
            let _ = decode_event(&flipped);
        }
        assert_eq!(check_event(&value, Digest::of("another")), Err(RecordError::Chain));
    }
}

#[test]
fn a_record_of_another_kind_is_foreign() {
    for Sample { kind, read, .. } in samples(3) {
        for other in samples(3) {
            let expected =
                if other.kind == kind { Ok(()) } else { Err(RecordError::Foreign { record: kind }) };
            assert_eq!(read(&other.bytes), expected, "a `{}` read as `{kind}`", other.kind);
        }
        for foreign in
            [&b""[..], b"{}", b"null", b"\xff\xfe", b"{\"v\":", br#"{"v":1}"#, br#"{"v":0,"x":{}}"#]
        {
            assert_eq!(read(foreign), Err(RecordError::Foreign { record: kind }));
        }
    }
    for short in [&b""[..], &[7; 31]] {
        assert_eq!(decode_event(short), Err(RecordError::Foreign { record: "event" }));
        assert_eq!(check_event(short, CHAIN_START), Err(RecordError::Foreign { record: "event" }));
    }
}

#[test]
fn another_version_is_refused_by_name_whatever_follows() {
    for Sample { kind, bytes, read } in samples(4) {
        let rest = &bytes[br#"{"v":1"#.len()..];
        for found in [2, 10, u32::MAX] {
            let newer = Err(RecordError::Newer { record: kind, found, newest: 1 });
            assert_eq!(read(&[format!(r#"{{"v":{found}"#).as_bytes(), rest].concat()), newer);
            assert_eq!(read(format!(r#"{{"v":{found},"renamed":"#).as_bytes()), newer);
        }
        // Neither was ever written.
        for version in ["0", "", "-1", "4294967296", "1.5"] {
            let bytes = [format!(r#"{{"v":{version}"#).as_bytes(), rest].concat();
            assert_eq!(read(&bytes), Err(RecordError::Foreign { record: kind }), "version {version}");
        }
    }
    let newer = RecordError::Newer { record: "lease", found: 2, newest: 1 };
    assert_eq!(
        newer.to_string(),
        "the `lease` record has version 2; this build reads up to version 1: use a newer one"
    );
}

#[test]
fn nothing_may_be_added_to_a_version() {
    for Sample { kind, bytes, read } in samples(5) {
        let more = [&bytes[..], b" "].concat();
        assert!(read(&more).is_err(), "{kind}");
        let more = [&bytes[..bytes.len() - 1], b",\"more\":1}"].concat();
        assert!(read(&more).is_err(), "{kind}");
        if kind != "todos" {
            let more = [&bytes[..bytes.len() - 2], b",\"more\":1}}"].concat();
            let error = read(&more).unwrap_err();
            let problem = "a field is missing, unknown or of another type";
            assert!(
                matches!(error, RecordError::Damaged { problem: found, .. } if found == problem),
                "{error}"
            );
        }
    }
}

#[test]
fn bottomless_json_is_refused_before_it_is_read() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[", ""), ("\"[", "")] {
        let depth = 200_000;
        let json = format!(r#"{{"v":1,"call":{}{}}}"#, open.repeat(depth), close.repeat(depth));
        assert!(matches!(ToolCall::decode(json.as_bytes()), Err(RecordError::Damaged { .. })));
    }
}

#[test]
fn an_error_does_not_repeat_what_was_stored() {
    let record = br#"{"v":1,"lease":{"incarnation":"sk-secret","epoch":"sk-secret","sk-secret":1}}"#;
    let error = Lease::decode(record).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("sk-secret"), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the `lease` record is damaged at byte 41: a field is missing, unknown or of another type"
    );
}
