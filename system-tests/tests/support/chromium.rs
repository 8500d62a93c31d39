//! Headless Chromium, spoken to over a pipe in its own protocol: JSON messages that end with a zero byte.
//! Source: <https://chromedevtools.github.io/devtools-protocol/>.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything may take before a test gives up.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A browser with a profile of its own, which ends with the test.
pub(crate) struct Browser {
    process: Child,
    pipe: ChildStdin,
    messages: Receiver<Value>,
    number: u64,
    /// What the browser told without being asked.
    pub(crate) events: Vec<Value>,
    _profile: tempfile::TempDir,
}

/// A tab, by the id of the session with it.
#[derive(Clone, Debug)]
pub(crate) struct Tab(String);

impl Browser {
    /// Starts it; names below `.test` lead to this machine.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // It reads from descriptor 3 and writes to 4. It ends when they are closed, however the test ends.
        let script = "exec chromium-headless-shell \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut process = Command::new("sh")
            .args(["-c", script, "chromium", "--remote-debugging-pipe"])
            // The sandbox does not run as root, and these tests do. What is shown here is our own.
            .arg("--no-sandbox")
            .args(["--disable-gpu", "--no-first-run", "--disable-background-networking"])
            .arg("--host-resolver-rules=MAP *.test 127.0.0.1")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = process.stdin.take().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let (send, messages) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while output.read_until(0, &mut bytes).is_ok() && bytes.pop() == Some(0) {
                let _ = send.send(serde_json::from_slice(&bytes).unwrap());
                bytes.clear();
            }
        });
        Self { process, pipe, messages, number: 0, events: Vec::new(), _profile: profile }
    }

    fn call(&mut self, tab: Option<&Tab>, method: &str, parameters: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(Tab(session)) = tab {
            message["sessionId"] = json!(session);
        }
        self.pipe.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut answer = self.messages.recv_timeout(DEADLINE).unwrap_or_else(|error| {
                panic!("no answer to `{method}` (is `chromium-headless-shell` there?): {error}")
            });
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            // It would hold everything up, and is what must not happen.
            assert!(answer["method"] != "Page.javascriptDialogOpening", "a page opened a dialog: {answer}");
            self.events.push(answer);
        }
    }

    /// Opens an address in a new tab.
    pub(crate) fn open(&mut self, url: &str) -> Tab {
        let target = self.call(None, "Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call(None, "Target.attachToTarget", &attach);
        let tab = Tab(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.call(Some(&tab), domain, &json!({}));
        }
        self.visit(&tab, url);
        tab
    }

    /// What pages complained of: exceptions, and what their policy held.
    pub(crate) fn faults(&self) -> Vec<&Value> {
        let is_fault = |event: &&Value| {
            event["method"] == "Runtime.exceptionThrown"
                || (event["method"] == "Log.entryAdded" && event["params"]["entry"]["source"] == "security")
        };
        self.events.iter().filter(is_fault).collect()
    }

    /// Goes to an address.
    pub(crate) fn visit(&mut self, tab: &Tab, url: &str) {
        self.call(Some(tab), "Page.navigate", &json!({ "url": url }));
        self.until(tab, "document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// Loads the page anew.
    pub(crate) fn reload(&mut self, tab: &Tab) {
        self.evaluate(tab, "window.isOld = true");
        self.call(Some(tab), "Page.reload", &json!({}));
        self.until(tab, "!window.isOld && document.readyState === 'complete'");
    }

    /// The value of an expression in the page; a promise is waited for.
    pub(crate) fn evaluate(&mut self, tab: &Tab, expression: &str) -> Value {
        let evaluated = self.try_evaluate(tab, expression);
        assert!(evaluated["exceptionDetails"].is_null(), "`{expression}`: {}", evaluated["exceptionDetails"]);
        evaluated["result"]["value"].clone()
    }

    fn try_evaluate(&mut self, tab: &Tab, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        self.call(Some(tab), "Runtime.evaluate", &parameters)
    }

    /// Waits until an expression holds. While a page changes it may make no sense yet.
    pub(crate) fn until(&mut self, tab: &Tab, condition: &str) {
        let begun = Instant::now();
        while self.try_evaluate(tab, &format!("!!({condition})"))["result"]["value"] != true {
            if begun.elapsed() > DEADLINE {
                let page = self.evaluate(tab, "document.documentElement.outerHTML");
                panic!("`{condition}` does not come true: {page}\n{:#?}", self.events.last());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
