//! The local tools beside what a shell does, as ratios of one run: `cargo bench -p nervekit-tools`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and ends when something fails"
)]

use std::process::Command;
use std::time::{Duration, Instant};

use nervekit_tools::testing::TestBed;
use nervekit_tools::{CallAssets, FileAssetStore, catalog};
use serde_json::json;

/// The shortest of three.
fn best(mut work: impl FnMut()) -> Duration {
    let times = (0..3).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed()
    });
    times.min().unwrap()
}

fn shell(bed: &TestBed, command: &str) -> Duration {
    best(|| {
        Command::new("bash").args(["-c", command]).current_dir(bed.folder()).output().unwrap();
    })
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let store = tempfile::tempdir().unwrap();
    let bed = TestBed::temporary().assets(CallAssets::new(FileAssetStore::new(store.path())));
    let tool = |tool: nervekit_tools::Tool, arguments: serde_json::Value| {
        best(|| assert!(runtime.block_on(bed.run(&tool, arguments.clone())).settled().is_some()))
    };
    let report = |what: &str, ours: Duration, theirs: Duration, peer: &str| {
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        println!("{what:<28} {ours:>10.1?}  {ratio:>5.2} × {peer} ({theirs:.1?})");
    };

    let flood = "head -c 500000000 /dev/zero | tr '\\0' x";
    let ours = tool(catalog::bash(), json!({"command": flood}));
    report(
        "500 MB of output",
        ours,
        shell(&bed, &format!("{flood} > out; sync out; rm out")),
        "cmd > file; sync",
    );
    report(
        "a short command",
        tool(catalog::bash(), json!({"command": "true"})),
        shell(&bed, "true"),
        "bash -c",
    );

    for folder in 0..100 {
        let folder = bed.folder().join(format!("d{folder:02}/src"));
        std::fs::create_dir_all(&folder).unwrap();
        for file in 0..100 {
            let text = format!("line of file {file} with some words in it\n").repeat(200) + "needle\n";
            std::fs::write(folder.join(format!("f{file:02}.rs")), text).unwrap();
        }
    }
    let ours = tool(catalog::grep(), json!({"pattern": "absent[0-9]+"}));
    report("grep, 10,000 files, 80 MB", ours, shell(&bed, "grep -rnE 'absent[0-9]+' ."), "grep -rnE");
    let ours = tool(catalog::find(), json!({"pattern": "*.absent"}));
    report("find, 10,000 files", ours, shell(&bed, "find . -name '*.absent'"), "find");
}
