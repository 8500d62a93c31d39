//! The fuzz targets on a stable compiler: random bytes, and examples that are mutated.

use std::time::{Duration, Instant};

use crate::random::Random;

#[path = "../support/fuzz.rs"]
mod target;

/// How long one target is driven at most, and how often.
const LONGEST: Duration = Duration::from_secs(4);
const MOST: u64 = 20_000;

/// Pieces that the targets give a meaning to.
const PIECES: [&str; 44] = [
    "*",
    "**",
    "?",
    "{",
    "}",
    ",",
    "/",
    "//",
    "..",
    ".",
    "\\",
    "%2e",
    "%2F",
    "%00",
    "%25",
    "@",
    ":",
    ":443",
    "#",
    "?a=b",
    "http://",
    "https://",
    "HTTPS:",
    "xn--",
    "[::1]",
    "127.1",
    "0x7f.1",
    "\u{202e}",
    "\u{e9}",
    "e\u{301}",
    "\u{3002}",
    "\0",
    "\n",
    "\t",
    " ",
    "~",
    "$HOME",
    "\"",
    "[",
    "]",
    "null",
    "1e999",
    "\"decision\":",
    "a/b",
];

fn mutated(random: &mut Random, examples: &[&str]) -> Vec<u8> {
    let mut bytes = if random.chance(5) { Vec::new() } else { random.pick(examples).as_bytes().to_vec() };
    for _ in 0..random.below(6) {
        let at = random.below(bytes.len() + 1);
        let end = (at + random.below(8)).min(bytes.len());
        match random.below(6) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            2 => bytes.insert(at, u8::try_from(random.below(256)).unwrap()),
            3 => bytes.truncate(at),
            _ => drop(bytes.splice(at..at, random.pick(&PIECES).bytes())),
        }
    }
    bytes
}

fn drive(name: &str, examples: &[&str], target: fn(&[u8])) {
    let started = Instant::now();
    let mut done = 0;
    while done < MOST && started.elapsed() < LONGEST {
        let bytes = mutated(&mut Random::new(done), examples);
        let caught = std::panic::catch_unwind(|| target(&bytes));
        assert!(caught.is_ok(), "{name} seed {done}: {:?}", String::from_utf8_lossy(&bytes));
        done += 1;
    }
    println!("{name}: seeds 0..{done}");
    assert!(done >= 200, "{name}: only {done} inputs in {LONGEST:?}");
}

#[test]
fn documents_of_any_bytes_are_refused_or_valid() {
    let documents = [
        r#"{"schemaVersion": 2, "overlays": []}"#,
        r#"{"schemaVersion":2,"guardrails":[{"id":"g","enforcement":"guardrail","decision":"deny","when":{"targets":{"quantifier":"any","matcher":{"pattern":"**/.env*"}}}}]}"#,
        r#"{"schemaVersion":2,"overlays":[{"ruleSetId":"fuzzed","rules":[{"id":"a","priority":3,"decision":"allow","when":{"toolNames":["bash"],"commandPrefix":["cargo","test"]}},{"id":"b","decision":"prompt","when":{"primaryArgument":{"operator":"glob","value":"make {a,b} *"},"origins":["model"]}}]}]}"#,
        r#"{"schemaVersion":2,"overlays":[{"ruleSetId":"fuzzed","rules":[{"id":"a","decision":"deny","when":{"arguments":[{"path":"args.a.*.b","operator":"in","value":[1,"x",null]}],"primaryTarget":{"kind":"url","pattern":"https://*.a.test/**","query":"any"}}}]}]}"#,
        r#"{"schemaVersion":2,"id":"fuzzed","rules":[{"id":"a","decision":"allow","when":{"targets":{"quantifier":"all","matcher":{"root":"host:x","subtree":"a/b","access":"read","scope":"tree"}}}}]}"#,
    ];
    drive("document", &documents, target::document);
}

#[test]
fn patterns_of_any_bytes_are_refused_or_hold_what_they_say() {
    let patterns = [
        "a/**\na/b",
        "**/*.{rs,toml}\nsrc/a.rs",
        "a/?/c\na/b/c",
        "src/lib.rs\nsrc/lib.rs",
        "{a,b}/**/c\na/x/y/c",
        "*\n",
    ];
    drive("pattern", &patterns, target::pattern);
}

#[test]
fn urls_of_any_bytes_are_refused_or_one_value() {
    let urls = [
        "https://docs.test/a?b#c\nhttps://docs.test/d",
        "HTTP://Docs.Test.:80/%2e%2e/\n//evil.test/",
        "http://[::1]:8080/\n/x",
        "http://a@b.test/\nhttp://b.test",
        "https://b\u{fc}cher.test/\u{e9}\n?q",
        "http://0x7f.1/\nhttps://127.0.0.1/",
    ];
    drive("url", &urls, target::url);
}

#[test]
fn paths_of_any_bytes_are_refused_or_resolved() {
    let paths = [
        "a/file",
        "./a/../c",
        "out/x/../..",
        "in/b/c",
        "loop/a",
        "dangling/x",
        "/etc/passwd",
        "a//b/",
        "../../..",
    ];
    drive("path", &paths, target::path);
}
