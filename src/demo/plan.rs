//! What the demo says next: a pure function of the request. Nothing is remembered between requests, so it goes on
//! after a restart as if nothing had happened.

use nervekit_harness::{
    AssistantMessage, ContentBlock, Message, ModelRequest, Origin, Text, ToolCall, ToolResultMessage,
};
use serde_json::{Value, json};

use super::survey::{REPORT, Survey};

/// A call of this task and its result.
struct Step<'a> {
    call: &'a ToolCall,
    result: &'a ToolResultMessage,
}

impl Step<'_> {
    fn text(&self) -> String {
        let texts = self.result.content.iter().filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Whether contact with the call was lost, so that it is not known what it did.
    fn is_uncertain(&self) -> bool {
        self.result.is_error && self.text().contains("may or may not have had its effect")
    }
}

/// What was asked last, and what was done about it since.
struct Task<'a> {
    prompt: String,
    steps: Vec<Step<'a>>,
    request: &'a ModelRequest,
}

impl<'a> Task<'a> {
    fn of(request: &'a ModelRequest) -> Self {
        let messages: Vec<&Message> = request.messages.iter().collect();
        let asked =
            |message: &&Message| matches!(message, Message::User(user) if user.origin == Origin::User);
        let start = messages.iter().rposition(asked).unwrap_or(0);
        let since = messages.get(start..).unwrap_or_default();
        let prompt = since.first().map(|message| text_of(message)).unwrap_or_default();
        let calls = since.iter().flat_map(|message| message.content()).filter_map(|block| match block {
            ContentBlock::ToolCall(call) => Some(call),
            _ => None,
        });
        let result_of = |id: &str| {
            since.iter().find_map(|message| match message {
                Message::ToolResult(result) if result.tool_call_id == id => Some(result),
                _ => None,
            })
        };
        let steps = calls.filter_map(|call| Some(Step { call, result: result_of(&call.id)? })).collect();
        Self { prompt, steps, request }
    }

    /// The last call of a tool.
    fn last(&self, tool: &str) -> Option<&Step<'a>> {
        self.steps.iter().rev().find(|step| step.call.name == tool)
    }

    /// The last call of a tool on this path.
    fn last_on(&self, tool: &str, path: &str) -> Option<&Step<'a>> {
        let on = |step: &&Step<'_>| step.call.arguments.get("path").and_then(Value::as_str) == Some(path);
        self.steps.iter().rev().filter(|step| step.call.name == tool).find(on)
    }

    /// What was read of the complete result of `find`.
    fn windows(&self) -> impl Iterator<Item = String> {
        let of_asset = |step: &&Step<'_>| {
            step.call.name == "read"
                && step.call.arguments.get("asset").is_some_and(Value::is_string)
                && !step.result.is_error
        };
        self.steps.iter().filter(of_asset).map(Step::text)
    }

    /// Looks at the files: what is still to do for that.
    fn look(&self) -> Option<AssistantMessage> {
        let Some(found) = self.last("find") else {
            return Some(act(self, "I look at the files. ", [find()]));
        };
        self.rest_of(found)
    }

    /// A long list of files does not fit one result: the rest of it is read, window by window.
    fn rest_of(&self, found: &Step<'_>) -> Option<AssistantMessage> {
        let text = found.text();
        let (_, asset) = text.rsplit_once("\nComplete output: ")?;
        let asset = asset.split('`').nth(1)?;
        let offset = match self.windows().last() {
            None => 1,
            Some(window) => next_offset(&window)?,
        };
        let tried = json!({"asset": asset, "offset": offset});
        if self.steps.iter().any(|step| step.call.arguments == tried) {
            return None;
        }
        Some(act(self, "The list is long; I read all of it. ", [("read", tried)]))
    }

    fn offers(&self, tool: &str) -> bool {
        self.request.tools.iter().any(|spec| spec.name == tool)
    }

    fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        if let Some(step) = self.last("find").filter(|step| !step.result.is_error) {
            let windows: Vec<String> = self.windows().collect();
            survey.read_files(&step.text());
            // What was too long for one result is read in windows; then the head that was shown is not needed.
            if windows.last().is_some_and(|last| next_offset(last).is_none()) {
                survey.files.clear();
                survey.more_files = step.text().contains("\n[stopped at the limit of ");
                for window in &windows {
                    survey.read_numbered_files(window);
                }
            }
        }
        if let Some(step) = self.last("grep").filter(|step| !step.result.is_error) {
            survey.read_todos(&step.text());
        }
        survey
    }
}

/// Where a window of lines goes on, if it is not the last one.
fn next_offset(window: &str) -> Option<u64> {
    let (_, offset) = window.rsplit_once("; go on with offset ")?;
    offset.split(']').next()?.parse().ok()
}

fn text_of(message: &Message) -> String {
    let texts = message.content().iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The next message.
pub(super) fn answer(request: &ModelRequest) -> AssistantMessage {
    let task = Task::of(request);
    if !task.offers("find") || !task.offers("grep") {
        return say(
            "I am the demo model. I work on the files of a folder, and this conversation has none that I may look at. \
             Open a host with a project folder, or use a real model.",
        );
    }
    let prompt = task.prompt.to_lowercase();
    let wants_report =
        ["report", "survey", "analyse", "analyze", "job"].iter().any(|word| prompt.contains(word));
    if !wants_report && prompt.contains("todo") {
        return about_todos(&task);
    }
    if !wants_report
        && (prompt.contains("how many") || prompt.contains("largest") || prompt.contains("files"))
    {
        return about_files(&task);
    }
    report(&task)
}

fn find() -> (&'static str, Value) {
    ("find", json!({"pattern": "**", "sizes": true, "limit": 2000}))
}

fn grep() -> (&'static str, Value) {
    ("grep", json!({"pattern": "\\bTODO\\b", "limit": 1000}))
}

fn about_todos(task: &Task<'_>) -> AssistantMessage {
    if task.last("grep").is_none() {
        return act(task, "I look for TODOs. ", [grep()]);
    }
    let survey = task.survey();
    say(todos_left(&survey))
}

fn about_files(task: &Task<'_>) -> AssistantMessage {
    if let Some(looks) = task.look() {
        return looks;
    }
    let survey = task.survey();
    let are = if survey.files.len() == 1 { "is" } else { "are" };
    say(format!("There {are} {}. The largest is {}.", survey.count(), survey.largest_words()))
}

fn todos_left(survey: &Survey) -> String {
    match survey.todos.len() {
        0 => "No TODOs are left in this folder.".to_owned(),
        1 if !survey.more_todos => format!("1 TODO is left:\n{}", survey.todo_lines()),
        _ => format!("{} are left:\n{}", survey.todo_count(), survey.todo_lines()),
    }
}

/// The whole job: survey, read, write a report, ask, edit it, check it, sum up.
fn report(task: &Task<'_>) -> AssistantMessage {
    if task.last("find").is_none() {
        let todos = json!({"todos": plan_entries(0)});
        return act(task, "I survey the folder first. ", [("todos_set", todos), find(), grep()]);
    }
    if let Some(looks) = task.look() {
        return looks;
    }
    let survey = task.survey();
    let important = survey.important();
    if let [first, ..] = &important[..]
        && task.last_on("read", first).is_none()
    {
        let reads: Vec<_> =
            important.iter().map(|path| ("read", json!({"path": path, "limit": 40}))).collect();
        return act(task, "Now I read what says most about it. ", reads);
    }
    next_of_report(task, &survey).unwrap_or_else(|| sum_up(task, &survey))
}

fn next_of_report(task: &Task<'_>, survey: &Survey) -> Option<AssistantMessage> {
    if !task.offers("write") {
        return None;
    }
    let content = report_text(survey);
    let Some(written) = task.last_on("write", REPORT) else {
        let write = ("write", json!({"path": REPORT, "content": content}));
        return Some(act(
            task,
            "I write down what I found. ",
            [("todos_set", json!({"todos": plan_entries(1)})), write],
        ));
    };
    if written.is_uncertain() && task.last_on("read", REPORT).is_none() {
        return Some(act(
            task,
            "I was interrupted while writing; I look whether the report is there. ",
            [read_report()],
        ));
    }
    if written.is_uncertain() && !seen_in_report(task, "# Report") {
        return Some(act(
            task,
            "It is not there: I write it again. ",
            [("write", json!({"path": REPORT, "content": content}))],
        ));
    }
    if written.result.is_error && !written.is_uncertain() {
        return None;
    }
    let Some(asked) = task.last("ask_user") else {
        if !task.offers("ask_user") {
            return check(task);
        }
        let ask = json!({
            "question": "Who should the report name as the owner of the next step?",
            "recommendation": "the team",
            "options": ["the team", "nobody"],
        });
        return Some(act(task, "One thing I cannot know. ", [("ask_user", ask)]));
    };
    if asked.result.is_error {
        return check(task);
    }
    let owner = asked.text().trim().to_owned();
    let edit = || {
        let edits = json!([{"old_text": "Owner of the next step: open", "new_text": format!("Owner of the next step: {owner}")}]);
        ("edit", json!({"path": REPORT, "edits": edits}))
    };
    let Some(edited) = task.last_on("edit", REPORT) else {
        return Some(act(task, "I put that into the report. ", [edit()]));
    };
    if edited.is_uncertain() {
        let looked = task
            .steps
            .iter()
            .rposition(|step| step.call.name == "read" && step.call.arguments == read_report().1);
        let tried = task.steps.iter().rposition(|step| step.call.name == "edit");
        if looked < tried {
            return Some(act(
                task,
                "I was interrupted while editing; I look whether it took. ",
                [read_report()],
            ));
        }
        if !seen_in_report(task, &format!("Owner of the next step: {owner}")) {
            return Some(act(task, "It did not: I edit again. ", [edit()]));
        }
    }
    check(task)
}

fn read_report() -> (&'static str, Value) {
    ("read", json!({"path": REPORT}))
}

fn seen_in_report(task: &Task<'_>, text: &str) -> bool {
    task.last_on("read", REPORT).is_some_and(|step| !step.result.is_error && step.text().contains(text))
}

/// Runs a command over the report, once.
fn check(task: &Task<'_>) -> Option<AssistantMessage> {
    if !task.offers("bash") || task.last("bash").is_some() {
        return None;
    }
    let command = json!({"command": format!("wc -l {REPORT}")});
    Some(act(
        task,
        "I check the result. ",
        [("todos_set", json!({"todos": plan_entries(2)})), ("bash", command)],
    ))
}

fn report_text(survey: &Survey) -> String {
    format!(
        "# Report\n\n- Files: {}\n- Largest: {}\n- TODOs: {}\n\n## TODOs\n\n{}\n\nOwner of the next step: open\n",
        survey.count(),
        survey.largest_words(),
        survey.todo_count(),
        if survey.todos.is_empty() { "None.".to_owned() } else { survey.todo_lines() },
    )
}

fn plan_entries(done: usize) -> Vec<Value> {
    ["survey the folder", "write the report", "check the report"]
        .iter()
        .enumerate()
        .map(|(at, todo)| json!({"todo": todo, "done": at < done}))
        .collect()
}

fn sum_up(task: &Task<'_>, survey: &Survey) -> AssistantMessage {
    let mut text = format!(
        "The folder has {}. The largest is {}. {}\n\n",
        survey.count(),
        survey.largest_words(),
        todos_left(survey),
    );
    let words = match task.last_on("write", REPORT) {
        Some(step) if !step.result.is_error || step.is_uncertain() => format!("The report is in `{REPORT}`."),
        Some(step) => format!("The report was not written: {}", step.text()),
        None => "No report was written: nothing that writes is offered here.".to_owned(),
    };
    text.push_str(&words);
    match task.last("bash") {
        Some(step) if step.is_uncertain() => {
            text.push_str(" Whether the check ran is not known; I did not repeat it.");
        }
        Some(step) if step.result.is_error => text.push_str(" The check did not run."),
        Some(_) => text.push_str(" The check ran."),
        None => {}
    }
    say(text)
}

fn say(text: impl Into<String>) -> AssistantMessage {
    AssistantMessage::text(text)
}

/// A message that calls tools; what is not offered is left out.
fn act<'a>(
    task: &Task<'_>,
    words: &str,
    calls: impl IntoIterator<Item = (&'a str, Value)>,
) -> AssistantMessage {
    let mut content = vec![ContentBlock::from(Text::new(words))];
    let number = task.request.messages.len();
    for (at, (name, arguments)) in calls.into_iter().enumerate() {
        if task.offers(name) {
            content.push(ToolCall::new(format!("demo_{number}_{at}"), name, arguments).into());
        }
    }
    AssistantMessage::new(content)
}
