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

    fn offers(&self, tool: &str) -> bool {
        self.request.tools.iter().any(|spec| spec.name == tool)
    }

    fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        if let Some(step) = self.last("find").filter(|step| !step.result.is_error) {
            survey.read_files(&step.text());
        }
        if let Some(step) = self.last("grep").filter(|step| !step.result.is_error) {
            survey.read_todos(&step.text());
        }
        survey
    }
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
    match survey.todos.len() {
        0 => say("There are no TODOs left in this folder."),
        count => say(format!("{count} TODOs are left:\n{}", survey.todo_lines())),
    }
}

fn about_files(task: &Task<'_>) -> AssistantMessage {
    if task.last("find").is_none() {
        return act(task, "I look at the files. ", [find()]);
    }
    let survey = task.survey();
    say(format!("There are {}. The largest is {}.", survey.count(), survey.largest_words()))
}

/// The whole job: survey, read, write a report, ask, edit it, check it, sum up.
fn report(task: &Task<'_>) -> AssistantMessage {
    if task.last("find").is_none() {
        let todos = json!({"todos": plan_entries(0)});
        return act(task, "I survey the folder first. ", [("todos_set", todos), find(), grep()]);
    }
    let survey = task.survey();
    let important = survey.important();
    if !important.is_empty() && task.last("read").is_none() {
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
    let content = report_text(survey, None);
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

fn report_text(survey: &Survey, owner: Option<&str>) -> String {
    format!(
        "# Report\n\n- Files: {}\n- Largest: {}\n- TODOs: {}\n\n## TODOs\n\n{}\n\nOwner of the next step: {}\n",
        survey.count(),
        survey.largest_words(),
        survey.todos.len(),
        survey.todo_lines(),
        owner.unwrap_or("open"),
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
        "The folder has {}. The largest is {}. {} TODOs are left:\n{}\n\n",
        survey.count(),
        survey.largest_words(),
        survey.todos.len(),
        survey.todo_lines(),
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
