//! `async_bash`: a definition of what a conversation core carries out.

use nervekit_permissions::{ActionRisks, Risk, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::definition::{HandledBy, ToolDefinition};
use crate::tool::Tool;

/// The arguments of `async_bash`.
///
/// ```
/// use nervekit_tools::catalog::{AsyncBash, AsyncBashAction};
/// let args: AsyncBash = serde_json::from_str(r#"{"action": "stop", "id": "run_1"}"#)?;
/// assert_eq!(args.action, AsyncBashAction::Stop { id: "run_1".to_owned() });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct AsyncBash {
    /// What to do.
    #[serde(flatten)]
    pub action: AsyncBashAction,
}

/// What `async_bash` does.
///
/// ```
/// use nervekit_tools::catalog::AsyncBashAction;
/// let action: AsyncBashAction = serde_json::from_str(r#"{"action": "logs", "id": "run_1", "after": 4096}"#)?;
/// assert!(matches!(action, AsyncBashAction::Logs { after: Some(4096), .. }));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AsyncBashAction {
    /// The commands of this conversation.
    List,
    /// What one has said.
    Logs {
        /// The id of the command.
        id: String,
        /// For `logs`: the offset in bytes to go on from, as the last answer said. Default: the end of the output.
        after: Option<u64>,
        /// For `logs`: only lines that contain this text.
        filter: Option<String>,
        /// For `logs`: how many lines at most.
        #[schemars(range(min = 1, max = 1_000))]
        limit: Option<u32>,
    },
    /// Ends one and everything it started.
    Stop {
        /// The id of the command.
        id: String,
    },
}

/// The tool `async_bash`: the background commands of the conversation. A definition; no core of this version carries
/// it out.
///
/// It reaches only what this conversation started, so that ending it adds no authority: the risk is that of reading.
///
/// ```
/// use nervekit_permissions::EffectiveArguments;
/// let tool = nervekit_tools::catalog::async_bash();
/// let error = tool.effective(&EffectiveArguments::parse(r#"{"action": "stop"}"#)?).unwrap_err();
/// assert_eq!(error.to_string(), "argument `id` is missing; the action `stop` needs it");
/// # Ok::<(), nervekit_permissions::ArgumentsError>(())
/// ```
#[must_use]
pub fn async_bash() -> Tool {
    let arguments = ArgumentType::of::<AsyncBash>();
    let descriptor = ToolDescriptor::new("async_bash", ToolKind::Orchestration, Risk::Read)
        .group("shell")
        .primary_argument("id")
        .whole_tool()
        .cosmetic("limit")
        .actions(ActionRisks::new("action"));
    let definition = ToolDefinition::new(
        descriptor,
        "Lists the background commands of this conversation, reads the output of one, or stops it. You are told \
         when a command ends, so do not poll.",
        arguments.schema().clone(),
    )
    .label("Background commands")
    .capability("background_commands")
    .parallel()
    .handled_by(HandledBy::Core);
    Tool::handled_elsewhere(definition, arguments)
}
