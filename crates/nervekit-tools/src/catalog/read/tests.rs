use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::output::SettledOutput;
use crate::sample::numbered;
use crate::testing::TestBed;

async fn settled(bed: &TestBed, arguments: Value) -> SettledOutput {
    let run = bed.run(read(), arguments).await;
    run.settled().unwrap_or_else(|| panic!("{:?}", run.problem())).clone()
}

async fn problem(bed: &TestBed, arguments: Value) -> String {
    bed.run(read(), arguments).await.problem().unwrap()
}

#[tokio::test]
async fn windows_go_on_where_they_say() {
    let bed = TestBed::temporary();
    let text = numbered("line", 4_500);
    std::fs::write(bed.folder().join("long"), &text).unwrap();
    let mut offset = 1;
    let mut seen = String::new();
    loop {
        let shown = settled(&bed, json!({"path": "long", "offset": offset})).await.agent;
        let lines = shown.lines().filter(|line| !line.starts_with('['));
        for line in lines {
            let (number, line) = line.split_once('\t').unwrap();
            assert_eq!(number.trim().parse::<u64>().unwrap(), offset);
            offset += 1;
            seen.push_str(line);
            seen.push('\n');
        }
        let Some((_, next)) = shown.rsplit_once("go on with offset ") else { break };
        assert_eq!(next.trim_end_matches(']'), offset.to_string());
    }
    assert_eq!(seen, text);
    assert!(problem(&bed, json!({"path": "long", "offset": 4_501})).await.contains("has 4500 lines"));
}

#[tokio::test]
async fn the_digest_of_the_whole_file_is_noted_whatever_was_shown() {
    let bed = TestBed::temporary();
    std::fs::write(bed.folder().join("a"), "one\ntwo\n").unwrap();
    let settled = settled(&bed, json!({"path": "a", "limit": 1})).await;
    assert_eq!(settled.files.len(), 1);
    assert_eq!(
        (settled.files[0].access, settled.files[0].digest),
        (FileAccess::Read, Digest::of("one\ntwo\n"))
    );
}

#[tokio::test]
async fn bytes_of_a_minified_file_are_read_in_windows() {
    let bed = TestBed::temporary();
    let text = "中x".repeat(50_000);
    std::fs::write(bed.folder().join("min.js"), &text).unwrap();
    let lines = settled(&bed, json!({"path": "min.js"})).await.agent;
    assert!(
        lines.contains("[… line of 200000 bytes]") && lines.contains("`byte_offset` shows them whole"),
        "{lines}"
    );
    let bytes = settled(&bed, json!({"path": "min.js", "byte_offset": 4, "byte_limit": 8})).await.agent;
    assert_eq!(bytes, "中x中x\n[bytes 4 to 12 of 200000; go on with byte_offset 12]");
    let end = settled(&bed, json!({"path": "min.js", "byte_offset": 199_996})).await.agent;
    assert_eq!(end, "中x\n[bytes 199996 to 200000 of 200000]");
}

#[tokio::test]
async fn an_asset_of_the_conversation_is_read_and_no_other() {
    let bed = TestBed::temporary();
    let bytes = bytes::Bytes::from_static(b"first\nsecond\n");
    let asset = bed.stored().write(AssetCategory::Payload, "x", bytes).await.unwrap().asset.to_string();
    assert!(
        settled(&bed, json!({"asset": asset})).await.agent.starts_with("     1\tfirst\n     2\tsecond\n")
    );
    let window = settled(&bed, json!({"asset": asset, "byte_offset": 6, "byte_limit": 3})).await.agent;
    assert!(window.starts_with("sec\n[bytes 6 to 9 of "), "{window}");
    let other = AssetId::from_key("another").to_string();
    assert!(problem(&bed, json!({"asset": other})).await.contains("does not exist"));
    assert!(problem(&bed, json!({"asset": "../../etc"})).await.contains("is not an id"));
    for (sent, wanted) in [
        (json!({}), "give one of `path`, `asset`"),
        (json!({"asset": asset, "path": "a"}), "give only one of `path`, `asset`"),
    ] {
        assert!(problem(&bed, sent).await.contains(wanted));
    }
    let mixed = json!({"asset": asset, "offset": 1, "byte_offset": 1});
    assert!(problem(&bed, mixed).await.contains("not both"));
}

#[tokio::test]
async fn a_picture_becomes_an_asset_with_its_dimensions() {
    let bed = TestBed::temporary();
    // The header of a PNG of 3 × 2 pixels (ISO/IEC 15948, 11.2.2).
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0".to_vec();
    png.extend([0; 100]);
    std::fs::write(bed.folder().join("p.png"), &png).unwrap();
    let settled = settled(&bed, json!({"path": "p.png"})).await;
    assert!(
        settled.agent.contains("image/png") && settled.agent.contains("3 × 2 pixels"),
        "{}",
        settled.agent
    );
    let picture = &settled.attachments[0];
    assert_eq!((picture.category, picture.dimensions), (AssetCategory::Image, Some((3, 2))));
    assert_eq!(bed.stored().read(picture.asset, 0..999).await.unwrap(), png);
}

#[tokio::test]
async fn other_binary_is_described() {
    let bed = TestBed::temporary();
    std::fs::write(bed.folder().join("b"), b"ELF\0\0\x01").unwrap();
    std::fs::write(bed.folder().join("empty"), "").unwrap();
    assert!(settled(&bed, json!({"path": "b"})).await.agent.contains("binary file of 6 bytes"));
    assert_eq!(settled(&bed, json!({"path": "empty"})).await.agent, "`empty` is empty");
}

#[cfg(unix)]
#[tokio::test]
async fn case_76_what_is_no_regular_file_gives_a_clear_error_at_once() {
    let bed = TestBed::temporary();
    let at = |name: &str| bed.folder().join(name);
    assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    let long = "x".repeat(5_000);
    for (path, wanted) in [
        ("fifo", "pipe, socket or device"),
        ("socket", "pipe, socket or device"),
        ("/dev/zero", "pipe, socket or device"),
        ("folder", "is a folder; `ls` lists it"),
        ("missing", "`missing` does not exist"),
        ("none/missing", "does not exist"),
        (&*long, ""),
        ("with\nnewline", "does not exist"),
    ] {
        let started = Instant::now();
        let problem = problem(&bed, json!({"path": path})).await;
        assert!(problem.contains(wanted), "{path}: {problem}");
        assert!(started.elapsed() < Duration::from_secs(1), "{path}");
    }
    for (tool, arguments) in [
        (super::super::edit(), json!({"path": "fifo", "edits": [{"old_text": "a", "new_text": "b"}]})),
        (super::super::write(), json!({"path": "fifo", "content": "x"})),
        (super::super::write(), json!({"path": "folder", "content": "x"})),
        (super::super::ls(), json!({"path": "fifo"})),
        (super::super::find(), json!({"path": "missing", "pattern": "*"})),
        (super::super::grep(), json!({"path": "fifo", "pattern": "x"})),
    ] {
        let started = Instant::now();
        let run = bed.run(&tool, arguments).await;
        assert!(run.problem().is_some(), "{tool:?}");
        assert!(started.elapsed() < Duration::from_secs(1), "{tool:?}");
    }
    // A search goes on past them, also when one lies where `.gitignore` would.
    assert!(std::process::Command::new("mkfifo").arg(at("folder/.gitignore")).status().unwrap().success());
    std::fs::write(at("folder/file"), "needle\n").unwrap();
    let run = bed.run(super::super::grep(), json!({"pattern": "needle"})).await;
    assert!(run.settled().unwrap().agent.contains("folder/file\n1:needle\n"));
    let run = bed.run(super::super::find(), json!({"pattern": "f*"})).await;
    assert!(run.settled().unwrap().agent.starts_with("fifo\nfolder/\nfolder/file\n"));
}
