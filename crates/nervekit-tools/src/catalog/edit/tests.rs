use serde_json::{Value, json};

use super::*;
use crate::output::SettledOutput;
use crate::sample::numbered;
use crate::testing::TestBed;

async fn settled(bed: &TestBed, arguments: Value) -> SettledOutput {
    let run = bed.run(edit(), arguments).await;
    run.settled().unwrap_or_else(|| panic!("{:?}", run.problem())).clone()
}

fn replace(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "edits": [{"old_text": old, "new_text": new}]})
}

#[tokio::test]
async fn the_result_is_a_diff_and_the_file_is_changed_as_it_says() {
    let bed = TestBed::temporary();
    let file = bed.folder().join("a.txt");
    std::fs::write(&file, "one\ntwo\nthree\n").unwrap();
    let mut dry = replace("a.txt", "two\n", "2\nzwei\n");
    dry["dry_run"] = json!(true);
    let shown = settled(&bed, dry).await;
    assert!(
        shown.agent.starts_with("`a.txt` would change (+2 -1 lines); nothing was written\n"),
        "{}",
        shown.agent
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\nthree\n");
    assert!(shown.files.is_empty());
    let shown = settled(&bed, replace("a.txt", "two\n", "2\nzwei\n")).await;
    let wanted = "edited `a.txt` (+2 -1 lines)\n--- a.txt\n+++ a.txt\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+zwei\n three\n";
    assert_eq!(shown.agent, wanted);
    assert_eq!(shown.user.kind(), "diff");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n2\nzwei\nthree\n");
}

#[cfg(unix)]
#[tokio::test]
async fn mode_and_line_ends_stay() {
    use std::os::unix::fs::PermissionsExt;
    let bed = TestBed::temporary();
    let file = bed.folder().join("run.sh");
    std::fs::write(&file, "a\r\nb\r\nc").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    settled(&bed, replace("run.sh", "b\nc", "b\nB\nc")).await;
    assert_eq!(std::fs::read(&file).unwrap(), b"a\r\nb\r\nB\r\nc");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o755);
}

#[tokio::test]
async fn case_73_a_failed_edit_does_not_touch_the_file() {
    let bed = TestBed::temporary();
    let file = bed.folder().join("a");
    std::fs::write(&file, "k=1\nk=1\n").unwrap();
    let before = std::fs::metadata(&file).unwrap().modified().unwrap();
    for old in ["k=1", "missing", ""] {
        assert!(bed.run(edit(), replace("a", old, "x")).await.problem().is_some());
    }
    assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), before);
    let problem = bed.run(edit(), json!({"path": "a", "edits": []})).await.problem().unwrap();
    assert_eq!(problem, "no edit was given");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_70_parallel_edits_of_one_file_all_survive() {
    let bed = TestBed::temporary();
    let file = bed.folder().join("f");
    std::fs::create_dir(bed.folder().join("d")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("f", bed.folder().join("link")).unwrap();
    std::fs::write(&file, numbered("line", 100)).unwrap();
    let spellings = ["f", "./f", "d/../f", if cfg!(unix) { "link" } else { "f" }];
    let edits = (0..20).map(|n| {
        let bed = bed.clone();
        let arguments = replace(spellings[n % 4], &format!("line {}\n", n * 5 + 1), &format!("edited {n}\n"));
        tokio::spawn(async move {
            let run = bed.run(edit(), arguments).await;
            assert!(run.settled().is_some(), "{:?}", run.problem());
        })
    });
    for edit in edits.collect::<Vec<_>>() {
        edit.await.unwrap();
    }
    let text = std::fs::read_to_string(&file).unwrap();
    for n in 0..20 {
        assert!(text.contains(&format!("edited {n}\n")), "{n}");
    }
    assert_eq!(text.lines().count(), 100);
}

#[tokio::test]
async fn case_70_a_change_by_someone_else_is_never_lost() {
    let bed = TestBed::temporary();
    let file = bed.folder().join("f");
    std::fs::write(&file, "a\nb\n").unwrap();
    bed.run(super::super::read(), json!({"path": "f"})).await;
    std::fs::write(&file, "a\nsomeone else\n").unwrap();
    let write = json!({"path": "f", "content": "mine\n"});
    for (tool, arguments) in [(edit(), replace("f", "a", "A")), (super::super::write(), write.clone())] {
        let problem = bed.run(tool, arguments).await.problem().unwrap();
        assert!(problem.contains("changed since it was read"), "{problem}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\nsomeone else\n");
    // Having read it again, or having changed it itself, the conversation goes on.
    bed.run(super::super::read(), json!({"path": "f"})).await;
    settled(&bed, replace("f", "a", "A")).await;
    assert!(bed.run(super::super::write(), write).await.settled().is_some());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine\n");
    // Another conversation never read it: it may replace it.
    let other = TestBed::new(bed.folder());
    let run = other.run(super::super::write(), json!({"path": "f", "content": "other\n"})).await;
    assert_eq!(run.settled().unwrap().agent, "replaced `f`: 6 bytes, 1 line");
}

#[cfg(unix)]
#[tokio::test]
async fn case_11_a_link_that_leads_out_is_followed_to_what_was_decided_only() {
    let bed = TestBed::temporary();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("victim"), "safe\n").unwrap();
    // Decided while it is a plain file, then replaced by a link.
    std::fs::write(bed.folder().join("notes"), "mine\n").unwrap();
    let swap = Tool::function("swap", "Swaps.", async |args: Swap, context: ToolContext| {
        let path = context.path("path")?.clone();
        std::fs::remove_file(path.as_racy_path())?;
        std::os::unix::fs::symlink(&args.victim, path.as_racy_path())?;
        let read = path.open().map(|_| ());
        path.replace(b"overwritten")?;
        Ok(format!("{read:?}"))
    })
    .targets(|args| vec![nervekit_permissions::Target::path(&args.path).write()]);
    let victim = outside.path().join("victim");
    let run = bed.run(&swap, json!({"path": "notes", "victim": victim.to_str().unwrap()})).await;
    assert!(run.settled().is_none_or(|settled| settled.agent.starts_with("Err")), "{run:?}");
    assert_eq!(std::fs::read_to_string(victim).unwrap(), "safe\n");
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Swap {
    path: String,
    victim: String,
}
