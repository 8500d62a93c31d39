use std::fmt::Write as _;
use std::path::Path;

use nervekit_permissions::{Decision, Filter, Matcher, PolicyDocument, Roots, Rule, RuleEngine};
use serde_json::{Value, json};

use super::*;
use crate::Cancellation;
use crate::catalog::{find, ls};
use crate::output::SettledOutput;
use crate::testing::TestBed;

async fn settled(bed: &TestBed, tool: Tool, arguments: Value) -> SettledOutput {
    let run = bed.run(tool, arguments).await;
    run.settled().unwrap_or_else(|| panic!("{:?}", run.problem())).clone()
}

fn put(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn tree() -> TestBed {
    let bed = TestBed::temporary();
    for name in ["b/two.rs", "a/one.rs", "a/deep/er/three.txt", "top.rs", ".hidden/four.rs", ".git/config"] {
        put(bed.folder(), name, format!("needle in {name}\nother\n"));
    }
    bed
}

#[tokio::test]
async fn results_come_in_the_order_of_the_paths() {
    let bed = tree();
    let found = settled(&bed, grep(), json!({"pattern": "needle"})).await;
    let wanted = "a/deep/er/three.txt\n1:needle in a/deep/er/three.txt\n\na/one.rs\n1:needle in a/one.rs\n\n\
                  b/two.rs\n1:needle in b/two.rs\n\ntop.rs\n1:needle in top.rs\n";
    assert_eq!(found.agent, wanted);
    assert_eq!(settled(&bed, find(), json!({"pattern": "*.rs"})).await.agent, "a/one.rs\nb/two.rs\ntop.rs\n");
    assert_eq!(
        settled(&bed, find(), json!({"pattern": "a/**"})).await.agent,
        "a/deep/\na/deep/er/\na/deep/er/three.txt\na/one.rs\n"
    );
    assert_eq!(
        settled(&bed, find(), json!({"pattern": "**/*e*", "path": "a"})).await.agent,
        "a/deep/\na/deep/er/\na/deep/er/three.txt\na/one.rs\n"
    );
    let listed = settled(&bed, ls(), json!({})).await.agent;
    assert_eq!(listed, "a/\nb/\ntop.rs\n[not shown: 2 hidden]");
    let hidden = settled(&bed, find(), json!({"pattern": "*.rs", "hidden": true})).await.agent;
    assert_eq!(hidden, ".hidden/four.rs\na/one.rs\nb/two.rs\ntop.rs\n");
    assert!(
        !settled(&bed, grep(), json!({"pattern": "needle", "hidden": true})).await.agent.contains(".git/")
    );
}

#[tokio::test]
async fn globs_paths_and_options_narrow_the_search() {
    let bed = tree();
    let found = settled(
        &bed,
        grep(),
        json!({"pattern": "NEEDLE", "ignore_case": true, "glob": "*.rs", "paths": ["a", "b"]}),
    )
    .await;
    assert_eq!(found.agent, "a/one.rs\n1:needle in a/one.rs\n\nb/two.rs\n1:needle in b/two.rs\n");
    let found =
        settled(&bed, grep(), json!({"pattern": "a/one.rs", "literal": true, "path": "a/one.rs"})).await;
    assert_eq!(found.agent, "a/one.rs\n1:needle in a/one.rs\n");
    assert_eq!(
        settled(&bed, grep(), json!({"pattern": "a.one,rs", "literal": true})).await.agent,
        "no matches\n"
    );
    assert_eq!(settled(&bed, grep(), json!({"pattern": "-dash"})).await.agent, "no matches\n");
    for pattern in ["../*", "/etc/*", "a/../../*", ""] {
        assert!(
            bed.run(find(), json!({"pattern": pattern}))
                .await
                .problem()
                .unwrap()
                .contains("filters names below")
        );
        assert!(
            bed.run(grep(), json!({"pattern": "x", "glob": pattern}))
                .await
                .problem()
                .unwrap()
                .contains("`glob`")
        );
    }
    assert!(bed.run(find(), json!({"pattern": "a[b"})).await.problem().unwrap().contains("is not a glob"));
    assert!(bed.run(ls(), json!({"path": "top.rs"})).await.problem().unwrap().contains("`read` reads it"));
}

#[tokio::test]
async fn gitignore_counts_without_a_repository_and_the_innermost_decides() {
    let bed = TestBed::temporary();
    put(bed.folder(), ".gitignore", "*.log\ntarget/\n/only-here\n");
    put(bed.folder(), "sub/.gitignore", "!keep.log\n");
    for name in [
        "a.log",
        "a.txt",
        "target/x.txt",
        "only-here",
        "sub/only-here",
        "sub/b.log",
        "sub/keep.log",
        "sub/target/y",
    ] {
        put(bed.folder(), name, "needle\n");
    }
    let found = settled(&bed, find(), json!({"pattern": "*"})).await.agent;
    assert_eq!(found, "a.txt\nsub/\nsub/keep.log\nsub/only-here\n");
    assert_eq!(
        settled(&bed, ls(), json!({})).await.agent,
        "a.txt\nsub/\n[not shown: 1 hidden, 3 ignored by .gitignore]"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_never_followed() {
    let bed = tree();
    let outside = tempfile::tempdir().unwrap();
    put(outside.path(), "secret", "needle outside\n");
    std::os::unix::fs::symlink(outside.path(), bed.folder().join("out")).unwrap();
    std::os::unix::fs::symlink(bed.folder(), bed.folder().join("loop")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), bed.folder().join("file")).unwrap();
    let found = settled(&bed, grep(), json!({"pattern": "needle"})).await.agent;
    assert!(!found.contains("outside") && !found.contains("loop"), "{found}");
    assert_eq!(
        settled(&bed, ls(), json!({})).await.agent,
        "a/\nb/\nfile@\nloop@\nout@\ntop.rs\n[not shown: 2 hidden]"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn case_58_a_name_that_is_no_text_is_listed_as_text() {
    use std::os::unix::ffi::OsStrExt;
    let bed = TestBed::temporary();
    for name in [&b"bad\xff"[..], b"esc\x1b[2K\r", b"line\nend"] {
        std::fs::write(bed.folder().join(std::ffi::OsStr::from_bytes(name)), "needle\n").unwrap();
    }
    let listed = settled(&bed, ls(), json!({})).await.agent;
    assert_eq!(listed, "bad\u{fffd}\nesc\u{fffd}[2K\u{fffd}\nline\u{fffd}end\n");
    let found = settled(&bed, grep(), json!({"pattern": "needle"})).await.agent;
    assert_eq!(found.matches("1:needle\n").count(), 3, "{found}");
    assert!(!found.contains('\u{1b}') && serde_json::to_string(&found).is_ok());
}

#[tokio::test]
async fn what_a_rule_withholds_is_counted_and_never_opened() {
    let bed = tree();
    put(bed.folder(), "a/key.pem", "needle in a key\n");
    let no_keys = Rule::new("no-keys", Decision::Deny)
        .when(Filter::new().any_target(Matcher::new().pattern("**/*.pem")));
    let engine = RuleEngine::new(Roots::new().project(bed.folder()))
        .user_document(PolicyDocument::new().guardrail(no_keys));
    let bed = bed.engine(engine, "supervised");
    let found = settled(&bed, grep(), json!({"pattern": "needle"})).await.agent;
    assert!(
        !found.contains("key") && found.ends_with("[not shown: 1 withheld by permission rules]"),
        "{found}"
    );
    assert!(settled(&bed, find(), json!({"pattern": "*.pem"})).await.agent.starts_with("nothing found\n"));
    assert!(bed.run(grep(), json!({"pattern": "needle", "path": "a/key.pem"})).await.problem().is_some());
}

#[tokio::test]
async fn case_77_long_lines_and_many_matches_are_bounded_and_marked() {
    let bed = TestBed::temporary();
    put(bed.folder(), "min.js", format!("{}needle{}", "中".repeat(1_700_000), "y".repeat(100_000)));
    let found = settled(&bed, grep(), json!({"pattern": "needle"})).await.agent;
    assert!(
        found.len() < 1_000 && found.contains("[… ") && found.ends_with("[1 long lines are clipped]"),
        "{found}"
    );
    assert!(!found.contains('\u{fffd}'));

    let mut log = String::new();
    (0..3_000).for_each(|n| writeln!(log, "match {n} {}", "z".repeat(n % 50 * 100)).unwrap());
    put(bed.folder(), "log", &log);
    let found = settled(&bed, grep(), json!({"pattern": "^match", "limit": 1_000})).await.agent;
    assert!(found.len() <= 24_000 && found.contains("because the result is full"), "{}", found.len());
    let found = settled(&bed, grep(), json!({"pattern": "^match", "limit": 3, "context": 1})).await.agent;
    assert_eq!(found.matches(":match").count(), 3, "{found}");
    assert!(found.contains("stopped at the limit of 3 matches"));
}

#[tokio::test]
async fn case_77_binary_utf16_and_bad_patterns() {
    let bed = TestBed::temporary();
    put(bed.folder(), "binary", b"needle\n\0needle\n");
    put(bed.folder(), "nul-first", b"\0needle\n");
    let utf16: Vec<u8> = "\u{feff}the needle\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    put(bed.folder(), "utf16", utf16);
    put(bed.folder(), "latin", b"caf\xe9 needle\n");
    let found = settled(&bed, grep(), json!({"pattern": "needle"})).await.agent;
    assert!(
        found.contains("utf16\n1:the needle\n") && found.contains("latin\n1:caf\u{fffd} needle\n"),
        "{found}"
    );
    assert!(found.contains("2 binary files") && !found.contains('\0'), "{found}");
    for pattern in ["(", "[a", "a{999999999}", "(?<x"] {
        let problem = bed.run(grep(), json!({"pattern": pattern})).await.problem().unwrap();
        assert!(
            problem.contains("is not a regular expression") && problem.contains("`literal`"),
            "{problem}"
        );
    }
    // It would take exponential time in an engine that goes back.
    put(bed.folder(), "a", "a".repeat(100_000));
    settled(&bed, grep(), json!({"pattern": "(a*)*(a*)*b"})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_left_in_the_middle_when_the_call_is_cancelled() {
    let cancellation = Cancellation::default();
    let bed = TestBed::temporary().cancellation(cancellation.clone());
    // A sparse file behind enough text to count as text: hours of bytes for nobody to read.
    let file = std::fs::File::create(bed.folder().join("endless")).unwrap();
    std::io::Write::write_all(&mut &file, "text\n".repeat(20_000).as_bytes()).unwrap();
    file.set_len(1 << 42).unwrap();
    let started = std::time::Instant::now();
    let running = {
        let bed = bed.clone();
        tokio::spawn(async move { bed.run(crate::catalog::read(), json!({"path": "endless"})).await })
    };
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    cancellation.cancel();
    let outcome = running.await.unwrap().into_outcome();
    assert!(matches!(outcome, Some(ToolOutcome::Cancelled)), "{outcome:?}");
    // The searches read through the same reader, and look before each entry.
    for (tool, arguments) in
        [(grep(), json!({"pattern": "text"})), (find(), json!({"pattern": "*"})), (ls(), json!({}))]
    {
        let outcome = bed.run(tool, arguments).await.into_outcome();
        assert!(matches!(outcome, Some(ToolOutcome::Cancelled)), "{outcome:?}");
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
}
