//! Documents with every fault that was thought of. Each is put in place of a good one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use nervekit_permissions::*;

use crate::bed::{Bed, document, rule, user_id};
use crate::grant::grant;

use Decision::{Allow, Deny, Prompt};

/// A document with these rules, which begin in the second line.
fn with(rules: &str) -> Vec<u8> {
    format!("{{\"schemaVersion\": 2, \"overlays\": [{{\"ruleSetId\": \"supervised\", \"rules\": [\n{rules}\n]}}]}}")
        .into_bytes()
}

/// A rule that would allow what nobody allowed.
fn evil(rest: &str) -> String {
    format!(r#"{{"id": "evil", "decision": "allow", "when": {{"commandPrefix": ["evil"]}}{rest}}}"#)
}

/// The texts, with the line of the fault and words of the notice.
fn texts(scope: DocumentScope) -> Vec<(&'static str, Vec<u8>, usize, &'static str)> {
    let good = with(&evil(""));
    let mut not_text = good.clone();
    not_text[30] = 0xff;
    let rule = |rest: &str| with(&evil(rest));
    let two = |second: &str| with(&format!("{},\n{second}", evil("")));
    let mut corpus = vec![
        ("empty", Vec::new(), 1, "EOF"),
        ("truncated", good[..good.len() - 4].to_vec(), 3, "EOF"),
        ("trailing comma", with(&format!("{},", evil(""))), 3, "trailing comma"),
        ("wrong type", rule(r#", "priority": "high""#), 2, "invalid type"),
        ("a number too large", rule(r#", "priority": 40000"#), 2, "invalid value"),
        ("unknown field", rule(r#", "priorty": 1"#), 2, "unknown field `priorty`"),
        ("duplicate key", rule(r#", "priority": 1, "priority": 2"#), 2, "appears twice"),
        ("duplicate id", two(r#"{"id": "evil", "decision": "deny", "priority": 1}"#), 3, "same id"),
        ("duplicate priority", two(r#"{"id": "b", "decision": "deny"}"#), 3, "same priority"),
        ("priority out of range", rule(r#", "priority": 1001"#), 2, "between -1000 and 1000"),
        (
            "unknown operator",
            two(
                r#"{"id": "b", "decision": "deny", "when": {"arguments": [{"path": "args.a", "operator": "like", "value": 1}]}}"#,
            ),
            3,
            "unknown variant `like`",
        ),
        (
            "bad pattern",
            two(
                r#"{"id": "b", "priority": 1, "decision": "deny", "when": {"primaryTarget": {"pattern": "/etc"}}}"#,
            ),
            3,
            "rule `b`",
        ),
        ("allowing guardrail", rule(r#", "enforcement": "guardrail""#), 2, "guardrail"),
        ("unknown version", br#"{"schemaVersion": 3, "overlays": []}"#.to_vec(), 1, "version 3"),
        ("no object", b"[2, [], []]".to_vec(), 1, "not an object"),
        ("text behind the end", [good.clone(), b"{}".to_vec()].concat(), 3, "trailing characters"),
        ("invalid UTF-8", not_text, 1, "not UTF-8"),
        (
            "deep nesting",
            [b"{\"schemaVersion\": ".to_vec(), b"[".repeat(100_000)].concat(),
            1,
            "nested more than 64",
        ),
        (
            "many rules",
            with(
                &(0..257)
                    .map(|n| format!(r#"{{"id": "r{n}", "decision": "allow", "priority": {n}}}"#))
                    .collect::<Vec<_>>()
                    .join(",\n"),
            ),
            1,
            "257 rules",
        ),
    ];
    let group = format!("{{\"ruleSetId\": \"supervised\", \"rules\": [{}]}}", evil(""));
    let twice = format!("{{\"schemaVersion\": 2, \"overlays\": [\n{group},\n{group}\n]}}");
    // The second group has the rule of the first one, too, but the group comes first.
    corpus.push(("duplicate group", twice.into_bytes(), 3, "two overlays for `supervised`"));
    if scope == DocumentScope::Project {
        let guardrail = r#"{"id": "g", "priority": 5, "decision": "deny", "enforcement": "guardrail"}"#;
        corpus.push(("guardrail in the wrong scope", two(guardrail), 3, "only the user's document"));
    }
    corpus
}

/// A name, what puts it in place, and words of the notice.
type Obstacle<'a> = (&'static str, Box<dyn Fn(&Path) + 'a>, &'static str);

/// What is no text at all.
fn obstacles(aside: &Path) -> Vec<Obstacle<'_>> {
    vec![
        ("10 MB", Box::new(|file| fs::write(file, b" ".repeat(10 << 20)).unwrap()), "at most 1048576"),
        (
            "FIFO",
            Box::new(|file| {
                let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
                rustix::fs::mknodat(rustix::fs::CWD, file, kind, mode, 0).unwrap();
            }),
            "pipe",
        ),
        ("folder", Box::new(|file| fs::create_dir(file).unwrap()), "folder"),
        ("link to nothing behind a file", Box::new(move |file| symlink(aside.join("x"), file).unwrap()), ""),
        ("link in a circle", Box::new(|file| symlink(file, file).unwrap()), "link"),
    ]
}

#[tokio::test]
async fn a_malformed_document_is_named_and_never_allows() {
    for scope in [DocumentScope::User, DocumentScope::Project] {
        let bed = Bed::new();
        let (id, file) = match scope {
            DocumentScope::User => (user_id(), bed.user()),
            _ => (bed.project_id(), bed.project()),
        };
        let good = document(&[rule("tests", Allow, &["cargo", "test"], 0), rule("no-rm", Deny, &["rm"], 1)]);
        fs::write(&file, &good).unwrap();
        bed.documents.adopt().await.unwrap();
        bed.trust(&id).await;
        let policies = PolicyDocuments::new(bed.documents.clone());
        let accepted = bed.trust.read(&id).await.unwrap().unwrap();

        let check = async |name: &str, line: Option<usize>, words: &str| {
            assert_eq!(bed.bash("supervised", "evil x"), Prompt, "{scope} {name}");
            assert_eq!(bed.bash("supervised", "cargo test"), Prompt, "{scope} {name}");
            assert_eq!(bed.bash("autonomous", "rm x"), Deny, "{scope} {name}");
            let notices = bed.notices();
            assert_eq!(notices.len(), 1, "{scope} {name}: {notices:?}");
            assert_eq!((notices[0].scope, &*notices[0].name), (scope, file.to_str().unwrap()));
            let reason = &notices[0].reason;
            assert!(reason.contains(words), "{scope} {name}: {reason}");
            if let Some(line) = line {
                assert!(reason.contains(&format!("at line {line}, column ")), "{scope} {name}: {reason}");
            }
            // Whatever is saved now leaves it, and what is known of it, as it is.
            let before = fs::symlink_metadata(&file).unwrap();
            let content = if before.is_file() { fs::read(&file).ok() } else { None };
            let saved = grant(&bed, scope, "git push", Allow);
            let saved = policies.save(&bed.engine, &id.owner, &saved).await;
            let expected = match scope {
                DocumentScope::Project => "project_document_untrusted",
                _ => "document",
            };
            assert_eq!(saved.unwrap_err().kind(), expected, "{scope} {name}");
            if before.is_file() {
                assert_eq!(fs::read(&file).ok(), content, "{scope} {name}");
            }
            assert_eq!(fs::symlink_metadata(&file).unwrap().file_type(), before.file_type());
            assert_eq!(bed.trust.read(&id).await.unwrap().unwrap(), accepted, "{scope} {name}");
            // What cannot be read is not accepted either.
            if let Some(content) = content {
                let digest = nervekit_types::Digest::of(content);
                let trusted = policies.trust(&id.owner, digest).await;
                assert!(trusted.is_err(), "{scope} {name}");
                assert_eq!(policies.status(&id.owner).await.unwrap().standing, Standing::Malformed);
            }
        };

        for (name, text, line, words) in texts(scope) {
            fs::write(&file, text).unwrap();
            check(name, Some(line), words).await;
        }
        for (name, put, words) in obstacles(&bed.user().join("x")) {
            let _ = fs::remove_file(&file);
            put(&file);
            check(name, None, words).await;
            if file.is_dir() {
                fs::remove_dir(&file).unwrap();
            }
        }
        let _ = fs::remove_file(&file);
        fs::write(&file, with(&evil(""))).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
        // Root reads it all the same.
        if fs::read(&file).is_err() {
            check("mode 000", None, "denied").await;
        }
        fs::remove_file(&file).unwrap();
        fs::write(&file, &good).unwrap();
        assert_eq!(bed.bash("supervised", "cargo test"), Allow);
        assert_eq!(bed.notices(), []);
    }
}
