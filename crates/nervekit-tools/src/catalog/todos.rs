//! `todos_set` and `todos_get`: the list of the conversation, kept by the conversation core.

use nervekit_permissions::{Risk, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::definition::{HandledBy, ToolDefinition};
use crate::tool::Tool;

/// One thing to do.
///
/// ```
/// use nervekit_tools::catalog::Todo;
/// let todo = Todo::new("write the test");
/// assert!(!todo.done);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Todo {
    /// What is to be done, in a few words.
    pub todo: String,
    /// Whether it is done.
    #[serde(default)]
    pub done: bool,
}

impl Todo {
    /// Something that is not done yet.
    #[must_use]
    pub fn new(todo: impl Into<String>) -> Self {
        Self { todo: todo.into(), done: false }
    }

    /// Says that it is done.
    #[must_use]
    pub fn done(self) -> Self {
        Self { done: true, ..self }
    }
}

/// The arguments of `todos_set`.
///
/// ```
/// use nervekit_tools::catalog::TodosSet;
/// let args: TodosSet = serde_json::from_str(r#"{"todos": [{"todo": "test", "done": true}]}"#)?;
/// assert!(args.todos[0].done);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TodosSet {
    /// The whole list, in the order of work.
    pub todos: Vec<Todo>,
}

/// The arguments of `todos_get`: none.
///
/// ```
/// use nervekit_tools::catalog::TodosGet;
/// let args: TodosGet = serde_json::from_str(r#"{}"#)?;
/// assert_eq!(args, TodosGet::default());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TodosGet {}

/// The tool `todos_set`: replaces the to-do list of the conversation; carried out by the conversation core.
///
/// ```
/// use nervekit_permissions::EffectiveArguments;
/// let tool = nervekit_tools::catalog::todos_set();
/// let sent = EffectiveArguments::parse(r#"{"todos": [{"todo": "write the test"}]}"#)?;
/// assert_eq!(tool.effective(&sent)?.arguments.as_value()["todos"][0]["done"], false);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn todos_set() -> Tool {
    let arguments = ArgumentType::of::<TodosSet>();
    let descriptor = ToolDescriptor::new("todos_set", ToolKind::Interaction, Risk::Interaction)
        .group("todos")
        .whole_tool();
    let definition = ToolDefinition::new(
        descriptor,
        "Replaces this conversation's to-do list, which the person sees. Send the whole list each time, and \
         mark a thing done as soon as it is. For work of three steps or more.",
        arguments.schema().clone(),
    )
    .label("Set to-dos")
    .replay_safe()
    .handled_by(HandledBy::Core);
    Tool::handled_elsewhere(definition, arguments)
}

/// The tool `todos_get`: the to-do list of the conversation; carried out by the conversation core.
///
/// ```
/// let tool = nervekit_tools::catalog::todos_get();
/// assert_eq!(tool.definition().name(), "todos_get");
/// ```
#[must_use]
pub fn todos_get() -> Tool {
    let arguments = ArgumentType::of::<TodosGet>();
    let descriptor =
        ToolDescriptor::new("todos_get", ToolKind::Interaction, Risk::Read).group("todos").whole_tool();
    let definition =
        ToolDefinition::new(descriptor, "Reads this conversation's to-do list.", arguments.schema().clone())
            .label("Get to-dos")
            .parallel()
            .replay_safe()
            .handled_by(HandledBy::Core);
    Tool::handled_elsewhere(definition, arguments)
}
