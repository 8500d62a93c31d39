//! Memory stays bounded, measured in a process of its own.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::Write;

use nervekit_tools::testing::TestBed;
use nervekit_tools::{CallAssets, FileAssetStore, SettledOutput, Tool, catalog};
use serde_json::{Value, json};

/// Resident memory of this process in KiB (`VmRSS` of `proc_pid_status(5)`).
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn settled(bed: &TestBed, tool: Tool, arguments: Value) -> SettledOutput {
    bed.run(tool, arguments).await.settled().unwrap().clone()
}

/// One test, because two at a time would measure each other.
#[tokio::test]
async fn floods_and_large_files_need_little_memory() {
    let store = tempfile::tempdir().unwrap();
    let bed = TestBed::temporary().assets(CallAssets::new(FileAssetStore::new(store.path())));
    settled(&bed, catalog::bash(), json!({"command": "echo warm"})).await;
    case_67_a_flood_is_bounded_and_whole_in_its_asset(&bed).await;
    case_77_a_large_file_with_context(&bed).await;
}

async fn case_67_a_flood_is_bounded_and_whole_in_its_asset(bed: &TestBed) {
    let before = resident();
    let command = "echo first; head -c 100000000 /dev/zero; echo; echo last";
    let output = settled(bed, catalog::bash(), json!({"command": command})).await;
    let growth = resident().saturating_sub(before);
    assert!(growth < 64 * 1024, "{growth} KiB");
    assert!(output.agent.len() <= 24_000);
    assert!(output.agent.contains("\nfirst\n") && output.agent.contains("last\n"));
    assert!(output.agent.contains("Complete output: 100000012 bytes in asset"), "{}", output.agent);
    let attachment = output.attachments.first().unwrap();
    assert_eq!((attachment.byte_length, Some(attachment.asset)), (100_000_012, output.complete));
    let end = bed.stored().read(attachment.asset, 100_000_006..100_000_099).await.unwrap();
    assert_eq!(end, "\nlast\n");
}

async fn case_77_a_large_file_with_context(bed: &TestBed) {
    let block = "nothing to see in this line of a log\n".repeat(28_000);
    let mut file = std::fs::File::create(bed.folder().join("log")).unwrap();
    (0..100).for_each(|_| file.write_all(block.as_bytes()).unwrap());
    file.write_all(b"before\nneedle\n").unwrap();
    let before = resident();
    let found = settled(bed, catalog::grep(), json!({"pattern": "needle", "context": 2})).await.agent;
    let growth = resident().saturating_sub(before);
    assert!(found.contains("2800002:needle") && found.contains("2800001-before"), "{found}");
    assert!(growth < 32 * 1024, "{growth} KiB");
}
