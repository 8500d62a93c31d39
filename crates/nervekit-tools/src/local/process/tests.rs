use super::*;
use crate::assets::CallAssets;
use crate::capture::Capture;
use crate::progress::Progress;

async fn start(command: &str, folder: &Path) -> (Box<dyn Process>, Capture) {
    let (sender, capture) = Capture::start(CallAssets::in_memory(), Progress::default());
    let process =
        LocalProcesses::default().start(ProcessCommand::shell(command, folder), sender).await.unwrap();
    (process, capture)
}

#[tokio::test]
async fn nothing_runs_before_the_gate_opens_or_when_it_never_does() {
    let folder = tempfile::tempdir().unwrap();
    let (process, capture) = start("touch ran", folder.path()).await;
    assert_eq!(identity::verify(process.reference()), identity::Verdict::Same);
    assert!(!folder.path().join("ran").exists());
    let reference = process.reference().clone();
    drop(process);
    assert_eq!(capture.finished().await.byte_length, 0);
    let deadline = Instant::now() + Duration::from_secs(10);
    while identity::verify(&reference) != identity::Verdict::Gone {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!folder.path().join("ran").exists());
}

#[test]
fn a_host_that_dies_before_the_release_leaves_nothing_running() {
    // The gate alone, as a host would leave it: its input ends without the line.
    let folder = tempfile::tempdir().unwrap();
    let mut gate = Command::new("/bin/sh")
        .args(["-c", GATE, "gate", "touch", "ran"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    drop(gate.stdin.take());
    assert_eq!(gate.wait().unwrap().code(), Some(125));
    assert!(!folder.path().join("ran").exists());
}

#[tokio::test]
async fn the_end_is_the_same_for_everyone_who_asks() {
    let folder = tempfile::tempdir().unwrap();
    let (process, _capture) = start("exit 7", folder.path()).await;
    process.release().await.unwrap();
    process.release().await.unwrap();
    let end = process.wait().await;
    assert_eq!((end.exit, end.cause), (ProcessExit::Code(7), EndCause::Exited));
    assert_eq!(process.wait().await, end);
    assert_eq!(process.stop().await, end);
}

#[tokio::test]
async fn a_process_of_a_dead_host_is_ended_only_when_it_is_proven_to_be_the_one() {
    let folder = tempfile::tempdir().unwrap();
    let (process, _capture) = start("sleep 60 & wait", folder.path()).await;
    process.release().await.unwrap();
    let reference = process.reference().clone();
    let (sender, _receiver) = OutputSender::channel();
    let mut other = reference.clone();
    other.start_time += 1;
    let processes = LocalProcesses::default();
    assert!(matches!(processes.reattach(&other, sender.clone()).await.unwrap(), Reattached::Gone));
    let Reattached::Lost(lost) = processes.reattach(&reference, sender).await.unwrap() else { panic!() };
    assert_eq!(identity::verify(&reference), identity::Verdict::Same);
    assert_eq!(lost.stop().await.cause, EndCause::Stopped);
    assert!(matches!(process.wait().await.exit, ProcessExit::Signal(15)));
    assert_eq!(identity::verify(&reference), identity::Verdict::Gone);
}

#[test]
fn a_runtime_that_is_dropped_ends_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (process, _capture) = runtime.block_on(start("trap '' TERM; sleep 60", folder.path()));
    runtime.block_on(process.release()).unwrap();
    let started = Instant::now();
    drop(runtime);
    assert!(started.elapsed() < Duration::from_secs(5));
    let deadline = Instant::now() + Duration::from_secs(10);
    while identity::verify(process.reference()) != identity::Verdict::Gone {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}
