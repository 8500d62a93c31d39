use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::Cancellation;
use crate::asset::FileAssetStore;
use crate::assets::CallAssets;
use crate::output::SettledOutput;
use crate::testing::TestBed;

async fn settled(bed: &TestBed, arguments: serde_json::Value) -> SettledOutput {
    let run = bed.run(bash(), arguments).await;
    run.settled().unwrap_or_else(|| panic!("{:?}", run.problem())).clone()
}

/// Waits until something holds.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process is alive; a zombie is not.
fn alive(pid: &str) -> bool {
    let output = std::process::Command::new("ps").args(["-o", "stat=", "-p", pid.trim()]).output().unwrap();
    let stat = String::from_utf8_lossy(&output.stdout);
    !stat.trim().is_empty() && !stat.trim().starts_with('Z')
}

fn pid_in(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[tokio::test]
async fn exit_code_and_both_streams_are_seen_in_their_order() {
    let bed = TestBed::temporary();
    let output = settled(&bed, json!({"command": "echo one; echo two >&2; echo three; exit 3"})).await;
    assert!(output.agent.starts_with("exit code 3, "), "{}", output.agent);
    assert!(output.agent.ends_with("one\ntwo\nthree\n"), "{}", output.agent);
    assert!(!output.failed && output.complete.is_none());
    let output = settled(&bed, json!({"command": "kill -9 $$"})).await;
    assert!(output.agent.starts_with("ended by signal 9 (SIGKILL)"), "{}", output.agent);
    let output = settled(&bed, json!({"command": "true"})).await;
    assert!(output.agent.ends_with(", no output"), "{}", output.agent);
}

#[tokio::test]
async fn the_command_has_no_input_and_runs_where_it_should() {
    let bed = TestBed::temporary();
    std::fs::create_dir(bed.folder().join("sub")).unwrap();
    let output = settled(&bed, json!({"command": "cat; pwd", "cwd": "sub"})).await;
    assert!(output.agent.trim_end().ends_with("/sub"), "{}", output.agent);
    let run = bed.run(bash(), json!({"command": "true", "cwd": "missing"})).await;
    assert!(run.problem().unwrap().contains("working directory"), "{:?}", run.problem());
    for blank in ["", " \n"] {
        assert_eq!(bed.run(bash(), json!({"command": blank})).await.problem().unwrap(), "`command` is empty");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_just_before_the_end_is_never_lost() {
    let bed = TestBed::temporary();
    let runs = (0..8).map(|_| {
        let bed = bed.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                let output = settled(&bed, json!({"command": "echo first; echo last >&2"})).await;
                assert!(output.agent.ends_with("first\nlast\n"), "{}", output.agent);
            }
        })
    });
    for run in runs.collect::<Vec<_>>() {
        run.await.unwrap();
    }
}

#[tokio::test]
async fn case_8_nothing_leaks_from_one_call_into_the_next() {
    let bed = TestBed::temporary();
    settled(&bed, json!({"command": "export PAGER=x; alias git=./x; f() { :; }; cd /; set -a"})).await;
    let output = settled(&bed, json!({"command": "echo $PAGER; alias; declare -f f; pwd"})).await;
    assert!(output.agent.contains("\ncat\n"), "{}", output.agent);
    assert!(output.agent.trim_end().ends_with(bed.folder().file_name().unwrap().to_str().unwrap()));
}

#[tokio::test]
async fn the_environment_is_reduced() {
    let output = settled(&TestBed::temporary(), json!({"command": "env"})).await.agent;
    assert!(output.contains("\nPATH=") && output.contains("\nTERM=dumb\n"), "{output}");
    // What the test runner sets reaches this process and goes no further.
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some() && !output.contains("CARGO_PKG_NAME"), "{output}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_host_process_is_not_dumpable_once_a_command_ran() {
    settled(&TestBed::temporary(), json!({"command": "true"})).await;
    let dumpable = rustix::process::dumpable_behavior().unwrap();
    assert_eq!(dumpable, rustix::process::DumpableBehavior::NotDumpable);
}

#[tokio::test]
async fn case_64_a_child_left_behind_does_not_hold_the_call() {
    for command in [
        "sleep 60 & echo done",
        "(while :; do echo x; sleep 0.1; done) & echo done",
        "nohup sleep 60 >/dev/null & echo done",
        "setsid sleep 60 & echo done",
        "sh -c 'trap \"\" TERM; sleep 60' & echo done",
    ] {
        let bed = TestBed::temporary();
        let started = Instant::now();
        let output = settled(&bed, json!({"command": format!("{command}; echo $! >pid; sleep 0.05")})).await;
        assert!(started.elapsed() < Duration::from_secs(5), "{command}: {:?}", started.elapsed());
        assert!(output.agent.starts_with("exit code 0"), "{}", output.agent);
        assert!(output.agent.contains("done\n"), "{}", output.agent);
        let pid = pid_in(&bed.folder().join("pid"));
        if command.starts_with("setsid") {
            // It left the group: neither waited for nor ended, as the docs say.
            std::process::Command::new("kill").args(["-9", &pid]).status().unwrap();
        } else {
            assert!(output.agent.contains("left running"), "{command}: {}", output.agent);
            assert!(!alive(&pid), "{command}");
        }
    }
}

const STUBBORN: &str =
    "trap '' TERM; (trap '' TERM; echo $BASHPID >child; sleep 4; touch SENTINEL) & echo $$ >pid; wait";

#[tokio::test]
async fn case_65_a_timeout_ends_the_whole_group() {
    let bed = TestBed::temporary();
    let started = Instant::now();
    let output = settled(&bed, json!({"command": STUBBORN, "timeout": 1})).await;
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert!(output.failed);
    assert!(output.agent.starts_with("ended after its timeout of 1 s"), "{}", output.agent);
    for file in ["pid", "child"] {
        assert!(!alive(&pid_in(&bed.folder().join(file))), "{file}");
    }
    assert!(!bed.folder().join("SENTINEL").exists());
}

#[tokio::test]
async fn case_65_a_cancelled_call_and_a_dropped_future_end_the_whole_group() {
    for drop_future in [false, true] {
        let cancellation = Cancellation::default();
        let bed = TestBed::temporary().cancellation(cancellation.clone());
        let running = {
            let bed = bed.clone();
            tokio::spawn(async move { bed.run(bash(), json!({"command": STUBBORN})).await })
        };
        let child = bed.folder().join("child");
        eventually("it runs", || !pid_in(&child).is_empty()).await;
        if drop_future {
            running.abort();
            assert!(running.await.is_err());
        } else {
            cancellation.cancel();
            let run = running.await.unwrap();
            let output = run.settled().unwrap();
            assert!(output.failed && output.agent.starts_with("stopped after"), "{}", output.agent);
        }
        for file in ["pid", "child"] {
            let pid = pid_in(&bed.folder().join(file));
            eventually("nobody of the group is alive", || !alive(&pid)).await;
        }
        assert!(!bed.folder().join("SENTINEL").exists());
    }
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_it_began_has_no_effect() {
    let cancellation = Cancellation::default();
    cancellation.cancel();
    let bed = TestBed::temporary().cancellation(cancellation);
    let outcome = bed.run(bash(), json!({"command": "touch SENTINEL"})).await.into_outcome();
    assert!(matches!(outcome, Some(ToolOutcome::Cancelled)), "{outcome:?}");
    assert!(!bed.folder().join("SENTINEL").exists());
}

#[tokio::test]
async fn case_67_a_flood_does_not_starve_the_timer() {
    for command in ["yes", "yes >&2", "while :; do printf x; done", "cat /dev/zero"] {
        let folder = tempfile::tempdir().unwrap();
        let bed = TestBed::temporary().assets(CallAssets::new(FileAssetStore::new(folder.path())));
        let started = Instant::now();
        let output = settled(&bed, json!({"command": command, "timeout": 1})).await;
        assert!(started.elapsed() < Duration::from_secs(6), "{command}: {:?}", started.elapsed());
        assert!(output.failed && output.agent.starts_with("ended after its timeout"), "{}", output.agent);
    }
}

#[tokio::test]
async fn case_68_output_is_cut_between_characters() {
    let bed = TestBed::temporary();
    let output =
        settled(&bed, json!({"command": "printf x; for i in $(seq 30000); do printf 中; done"})).await;
    assert!(output.agent.contains("left out here") && !output.agent.contains('\u{fffd}'));
}

#[tokio::test]
async fn a_long_call_goes_on_in_the_background_undisturbed() {
    let bed = TestBed::temporary().foreground_limit(Duration::from_millis(300));
    let command = "echo $$ >pid; echo before; while [ ! -e go ]; do sleep 0.02; done; echo after";
    let run = bed.run(bash(), json!({"command": command})).await;
    let Some(ToolOutcome::Backgrounded(run)) = run.into_outcome() else { panic!() };
    eventually("the output so far is there", || &run.capture.so_far().head[..] == b"before\n").await;
    assert!(alive(&pid_in(&bed.folder().join("pid"))));
    std::fs::write(bed.folder().join("go"), "").unwrap();
    run.process.wait().await;
    assert_eq!(&run.capture.finished().await.head[..], b"before\nafter\n");
}
