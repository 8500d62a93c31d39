//! A call before it is judged.

use std::path::PathBuf;
use std::sync::Arc;

use nervekit_types::ConversationId;
use serde::{Deserialize, Serialize};

use crate::arguments::EffectiveArguments;
use crate::decision::{CallOrigin, Mode};
use crate::descriptor::ToolDescriptor;
use crate::document::PolicyDocument;
use crate::target::Target;

/// A call that a model or a person asks for, with everything that its judgement depends on.
///
/// ```
/// use nervekit_permissions::{CallOrigin, EffectiveArguments, ProposedCall, Risk, TargetSelector, ToolDescriptor, ToolKind};
/// let read = ToolDescriptor::new("read", ToolKind::Filesystem, Risk::Read)
///     .target(TargetSelector::path("path"));
/// let call = ProposedCall::new(read, EffectiveArguments::parse(r#"{"path": "src/a"}"#)?, CallOrigin::Model, "supervised")
///     .working_directory("/work/project");
/// assert_eq!(call.rule_set, "supervised");
/// # Ok::<(), nervekit_permissions::ArgumentsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProposedCall {
    /// What the tool says about itself.
    pub descriptor: Arc<ToolDescriptor>,
    /// The arguments that would be executed.
    pub arguments: EffectiveArguments,
    /// Who asked for it.
    pub origin: CallOrigin,
    /// The rule set that the conversation selected for its mode.
    pub rule_set: String,
    /// The mode of the conversation.
    pub mode: Mode,
    /// The rule set of the coding mode, while planning was entered by the model and no person confirmed it:
    /// until then a call is decided by the stricter of both.
    pub until_confirmed: Option<String>,
    /// Where relative paths start. Without it a relative path fails closed.
    pub working_directory: Option<PathBuf>,
    /// The folder of the conversation's project, in place of the one that the engine knows.
    pub project: Option<PathBuf>,
    /// What the call affects, when the tool works that out itself; otherwise the engine derives it by the
    /// descriptor's selectors.
    pub targets: Option<Vec<Target>>,
    /// The conversation.
    pub conversation: Option<ConversationId>,
    /// The rules of the conversation.
    pub conversation_document: Option<Arc<PolicyDocument>>,
}

impl ProposedCall {
    /// Proposes a call in coding mode, without a working directory and rules of the conversation.
    #[must_use]
    pub fn new(
        descriptor: impl Into<Arc<ToolDescriptor>>,
        arguments: EffectiveArguments,
        origin: CallOrigin,
        rule_set: impl Into<String>,
    ) -> Self {
        Self {
            descriptor: descriptor.into(),
            arguments,
            origin,
            rule_set: rule_set.into(),
            mode: Mode::Coding,
            until_confirmed: None,
            working_directory: None,
            project: None,
            targets: None,
            conversation: None,
            conversation_document: None,
        }
    }

    /// Sets the mode of the conversation.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Says that the model entered planning and nobody confirmed it: this coding rule set binds as well.
    #[must_use]
    pub fn until_confirmed(mut self, coding_rule_set: impl Into<String>) -> Self {
        self.until_confirmed = Some(coding_rule_set.into());
        self
    }

    /// Sets where relative paths start.
    #[must_use]
    pub fn working_directory(mut self, folder: impl Into<PathBuf>) -> Self {
        self.working_directory = Some(folder.into());
        self
    }

    /// Sets the folder of the conversation's project.
    #[must_use]
    pub fn project(mut self, folder: impl Into<PathBuf>) -> Self {
        self.project = Some(folder.into());
        self
    }

    /// Sets what the call affects, in place of what the selectors find.
    #[must_use]
    pub fn targets(mut self, targets: impl IntoIterator<Item = Target>) -> Self {
        self.targets = Some(targets.into_iter().collect());
        self
    }

    /// Sets the conversation.
    #[must_use]
    pub fn conversation(mut self, conversation: ConversationId) -> Self {
        self.conversation = Some(conversation);
        self
    }

    /// Sets the rules of the conversation.
    #[must_use]
    pub fn conversation_document(mut self, document: impl Into<Arc<PolicyDocument>>) -> Self {
        self.conversation_document = Some(document.into());
        self
    }
}
