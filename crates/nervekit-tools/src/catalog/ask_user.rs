//! `ask_user`: a question to the person; the conversation core suspends the call until it is answered.

use nervekit_permissions::{Risk, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::definition::{HandledBy, ToolDefinition};
use crate::outcome::InputRequest;
use crate::tool::Tool;

/// The arguments of `ask_user`.
///
/// ```
/// use nervekit_tools::catalog::AskUser;
/// use nervekit_tools::InputRequest;
/// let ask: AskUser = serde_json::from_str(r#"{"question": "Which one?", "options": ["a", "b"]}"#)?;
/// assert_eq!(InputRequest::from(ask).options, ["a", "b"]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct AskUser {
    /// The question, complete in itself.
    pub question: String,
    /// What the person needs to know to answer.
    pub context: Option<String>,
    /// The answer you would choose, and why.
    pub recommendation: Option<String>,
    /// Answers to choose from. The person may give another one.
    #[serde(default)]
    pub options: Vec<String>,
}

impl From<AskUser> for InputRequest {
    fn from(ask: AskUser) -> Self {
        let mut request = Self::new(ask.question);
        request.context = ask.context;
        request.recommendation = ask.recommendation;
        request.options = ask.options;
        request
    }
}

/// The tool `ask_user`: asks the person and waits for the answer; carried out by the conversation core.
///
/// ```
/// let tool = nervekit_tools::catalog::ask_user();
/// assert!(tool.definition().replay_safe);
/// ```
#[must_use]
pub fn ask_user() -> Tool {
    let arguments = ArgumentType::of::<AskUser>();
    let descriptor = ToolDescriptor::new("ask_user", ToolKind::Interaction, Risk::Interaction)
        .group("input")
        .primary_argument("question")
        .whole_tool();
    let definition = ToolDefinition::new(
        descriptor,
        "Asks the person a question and waits for the answer. Use it when a decision is theirs to make or \
         something you cannot find out is missing; do not ask for permission to use a tool.",
        arguments.schema().clone(),
    )
    .label("Ask")
    .replay_safe()
    .handled_by(HandledBy::Core);
    Tool::handled_elsewhere(definition, arguments)
}
