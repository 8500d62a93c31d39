//! The app, used as a person uses it: clicked at, closed, and killed.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

struct App {
    child: Child,
    out: ChildStdout,
}

impl App {
    fn start(base: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_desktop-backend"))
            .args([base.join("project"), base.join("data")])
            .env_remove("NERVE_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        Self { child, out }
    }

    /// Reads until a text is shown.
    fn until(&mut self, wanted: &str) -> String {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(wanted) {
            let mut byte = [0];
            let length = self.out.read(&mut byte).unwrap();
            assert_eq!(length, 1, "`{wanted}` was not shown: {}", String::from_utf8_lossy(&seen));
            seen.push(byte[0]);
        }
        String::from_utf8(seen).unwrap()
    }

    fn click(&mut self, what: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{what}").unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn ended(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn what_waits_when_the_window_is_lost_is_there_when_it_opens_again() {
    let base = tempfile::tempdir().unwrap();
    std::fs::create_dir(base.path().join("project")).unwrap();
    std::fs::write(base.path().join("project/NOTES.md"), "TODO: water the plants\n").unwrap();

    let mut app = App::start(base.path());
    let shown = app.until("[allow] [deny]");
    assert!(shown.contains("write · "), "{shown}");
    app.kill();

    // The badge, and the same dialog.
    let mut app = App::start(base.path());
    let again = app.until("[allow] [deny]");
    assert!(again.contains("  waits for you\n"), "{again}");
    let dialog = |shown: &str| shown.split("write · ").nth(1).unwrap().to_owned();
    assert_eq!(dialog(&again), dialog(&shown));
    app.click("allow");
    app.until("[answer]");
    app.ended();

    // Closed while a question waits.
    let mut app = App::start(base.path());
    let question = app.until("[answer]");
    assert!(question.contains("  waits for you\n") && !question.contains("write · "), "{question}");
    app.click("the team");
    app.until("[allow] [deny]");
    app.click("allow");
    app.until("[allow] [deny]");
    app.click("deny");
    let end = app.until("[done]");
    assert!(end.contains("The report is in `NERVE_REPORT.md`. The check did not run."), "{end}");
    app.ended();
    let report = std::fs::read_to_string(base.path().join("project/NERVE_REPORT.md")).unwrap();
    assert!(report.ends_with("Owner of the next step: the team\n"), "{report}");

    // Nothing is unfinished any more: the list has no badge, and a new conversation begins.
    let mut app = App::start(base.path());
    let list = app.until("[allow] [deny]");
    assert!(list.contains("  done\n") && !list.contains("waits for you"), "{list}");
    app.kill();
}
