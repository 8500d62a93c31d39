//! Requests to a person, as data.

use nervekit_permissions::{GrantScope, SuggestedRule, display};
use nervekit_types::{ConversationId, Digest, InteractionId, Principal, Timestamp, ToolCallId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An open request to a person. It is stored with the call that waits, survives restarts, and never times
/// out by itself.
///
/// ```
/// use nervekit_conversation_core::{Interaction, Resolution};
/// /// An approval carries the digest of what was shown.
/// fn approve(shown: &Interaction) -> Resolution {
///     Resolution::approve(shown.digest)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interaction {
    /// The id.
    pub id: InteractionId,
    /// The conversation that waits.
    pub conversation_id: ConversationId,
    /// Its lead, if it is a delegated one.
    pub lead: Option<ConversationId>,
    /// The call that waits.
    pub call_id: ToolCallId,
    /// SHA-256 over tool, arguments, targets and settings: what an approval is bound to.
    pub digest: Digest,
    /// The tool.
    pub tool_name: String,
    /// The effective arguments.
    pub arguments: Value,
    /// What the call would affect, in words safe to print.
    pub targets: Vec<String>,
    /// Why a person is asked, in words.
    pub reason: String,
    /// What is asked.
    pub kind: InteractionKind,
    /// When it was opened.
    pub opened_at: Timestamp,
}

impl Interaction {
    /// A rendering that is safe to print: control, bidirectional and invisible characters are shown, length
    /// and tail stay visible.
    ///
    /// ```
    /// use nervekit_conversation_core::Interaction;
    /// fn ask(interaction: &Interaction) {
    ///     println!("{}", interaction.display());
    /// }
    /// ```
    #[must_use]
    pub fn display(&self) -> String {
        let mut lines = vec![format!("{} · {}", display(&self.tool_name), display(&self.reason))];
        match &self.kind {
            InteractionKind::Approval { .. } => {
                lines.extend(self.targets.iter().map(|target| format!("  target: {}", display(target))));
                lines.extend(argument_lines(&self.arguments));
            }
            InteractionKind::Question(question) => {
                lines.push(format!("  {}", display(&question.question)));
                lines.extend(question.context.iter().map(|text| format!("  {}", display(text))));
                lines.extend(
                    question.recommendation.iter().map(|text| format!("  recommended: {}", display(text))),
                );
                lines.extend(
                    question
                        .options
                        .iter()
                        .enumerate()
                        .map(|(at, option)| format!("  {}. {}", at + 1, display(option))),
                );
            }
        }
        lines.join("\n")
    }
}

fn argument_lines(arguments: &Value) -> Vec<String> {
    let Some(object) = arguments.as_object() else { return Vec::new() };
    object
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) => format!("  {}: {}", display(name), display(text)),
            other => format!("  {}: {}", display(name), display(&other.to_string())),
        })
        .collect()
}

/// What a person is asked.
///
/// ```
/// use nervekit_conversation_core::InteractionKind;
/// assert_eq!(InteractionKind::Approval { suggested: vec![], rememberable: true }.kind(), "approval");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum InteractionKind {
    /// May this call run?
    Approval {
        /// Rules that could be remembered with the answer, narrow and canonical.
        suggested: Vec<SuggestedRule>,
        /// Whether the answer may be remembered at all.
        rememberable: bool,
    },
    /// A question of the model or of a tool.
    Question(Question),
}

impl InteractionKind {
    /// The kind's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Approval { .. } => "approval",
            Self::Question(_) => "question",
        }
    }
}

/// A question to a person.
///
/// ```
/// use nervekit_conversation_core::Question;
/// let question = Question::new("Which port?").options(["80", "8080"]).recommendation("8080");
/// assert_eq!(question.options.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Question {
    /// The question.
    pub question: String,
    /// What one needs to know to answer it.
    pub context: Option<String>,
    /// What the asker would answer.
    pub recommendation: Option<String>,
    /// Answers to choose from; any other text is an answer too.
    pub options: Vec<String>,
}

impl Question {
    /// A question in words.
    #[must_use]
    pub fn new(question: impl Into<String>) -> Self {
        Self { question: question.into(), context: None, recommendation: None, options: Vec::new() }
    }

    /// Adds what one needs to know.
    #[must_use]
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// Adds what the asker would answer.
    #[must_use]
    pub fn recommendation(mut self, recommendation: impl Into<String>) -> Self {
        self.recommendation = Some(recommendation.into());
        self
    }

    /// Sets the answers to choose from.
    #[must_use]
    pub fn options<T: Into<String>>(mut self, options: impl IntoIterator<Item = T>) -> Self {
        self.options = options.into_iter().map(Into::into).collect();
        self
    }
}

/// Where, and as which rule, an answer is remembered: one of the rules that
/// [`InteractionKind::Approval`] suggests.
///
/// ```
/// use nervekit_conversation_core::Remember;
/// use nervekit_permissions::GrantScope;
/// assert_eq!(Remember::conversation(0).scope, GrantScope::Conversation);
/// // "Never again", whatever another rule says.
/// assert!(Remember::new(GrantScope::User, 0).guardrail().guardrail);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Remember {
    /// Which document keeps it: one of the suggestion's scopes, or [`GrantScope::Once`] for no rule at all. The
    /// documents of the project and the user are kept where the core was given
    /// [`documents`](crate::CoreBuilder::documents).
    pub scope: GrantScope,
    /// Which of the suggested rules, by its index in the interaction, from 0.
    pub suggestion: usize,
    /// Whether it becomes a guardrail of the user, which no other rule overrides: a denial is "never", an approval
    /// "ask me every time". At the user's scope only.
    #[serde(default)]
    pub guardrail: bool,
}

impl Remember {
    /// Remembers a suggested rule in a document of this scope.
    #[must_use]
    pub const fn new(scope: GrantScope, suggestion: usize) -> Self {
        Self { scope, suggestion, guardrail: false }
    }

    /// Remembers a suggested rule for the conversation.
    #[must_use]
    pub const fn conversation(suggestion: usize) -> Self {
        Self::new(GrantScope::Conversation, suggestion)
    }

    /// Makes it a guardrail: "never", or "ask me every time".
    #[must_use]
    pub const fn guardrail(mut self) -> Self {
        self.guardrail = true;
        self
    }
}

/// What became of an answer that is to be remembered. The answer itself counts in any case.
///
/// ```
/// use nervekit_conversation_core::Remembered;
/// fn words(remembered: &Remembered) -> String {
///     match remembered {
///         Remembered::Pending { rule } => format!("{} is being saved", rule.label),
///         Remembered::Saved { rule } => format!("saved as `{rule}`"),
///         Remembered::Failed { problem } => format!("not saved: {problem}"),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Remembered {
    /// It is durable that this rule is to be saved; a crash does not lose it.
    Pending {
        /// The suggestion that was chosen.
        rule: Box<SuggestedRule>,
    },
    /// A rule holds it.
    Saved {
        /// The id of the rule in its document.
        rule: String,
    },
    /// It could not be saved; the answer counted once.
    Failed {
        /// Why, in words.
        problem: String,
    },
}

/// A person's answer to an [`Interaction`]. An approval is resolved by `Approve`, `Deny` or `Cancel`, a question by
/// `Answer`, `Deny` or `Cancel`; anything else is answered [`CommandError::Invalid`](crate::CommandError::Invalid).
///
/// ```
/// use nervekit_conversation_core::Resolution;
/// assert_eq!(Resolution::deny().kind(), "deny");
/// assert_eq!(Resolution::answer("8080").kind(), "answer");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "resolution", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Resolution {
    /// The call may run, as it was shown.
    Approve {
        /// The digest that was shown; another one is [`Stale`](crate::CommandError::Stale).
        digest: Digest,
        /// Whether to remember it.
        remember: Option<Remember>,
    },
    /// The call may not run, or the question is not answered: the call settles as denied.
    Deny {
        /// Words for the model.
        message: Option<String>,
        /// Whether to remember it.
        remember: Option<Remember>,
    },
    /// The answer to a question.
    Answer {
        /// The answer.
        text: String,
    },
    /// The request is withdrawn: the call settles as cancelled.
    Cancel,
}

impl Resolution {
    /// Approves what has this digest, once.
    #[must_use]
    pub const fn approve(digest: Digest) -> Self {
        Self::Approve { digest, remember: None }
    }

    /// Denies, once and without words.
    #[must_use]
    pub const fn deny() -> Self {
        Self::Deny { message: None, remember: None }
    }

    /// Answers a question.
    #[must_use]
    pub fn answer(text: impl Into<String>) -> Self {
        Self::Answer { text: text.into() }
    }

    /// Adds that an approval or denial is to be remembered; changes nothing else.
    ///
    /// ```
    /// use nervekit_conversation_core::{Remember, Resolution};
    /// let resolution = Resolution::deny().remember(Remember::conversation(0));
    /// assert!(matches!(resolution, Resolution::Deny { remember: Some(_), .. }));
    /// ```
    #[must_use]
    pub fn remember(mut self, how: Remember) -> Self {
        match &mut self {
            Self::Approve { remember, .. } | Self::Deny { remember, .. } => *remember = Some(how),
            Self::Answer { .. } | Self::Cancel => {}
        }
        self
    }

    /// The resolution's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Approve { .. } => "approve",
            Self::Deny { .. } => "deny",
            Self::Answer { .. } => "answer",
            Self::Cancel => "cancel",
        }
    }
}

/// Who resolved an interaction, how and when; kept with the call for ever.
///
/// ```
/// use nervekit_conversation_core::Resolved;
/// fn words(resolved: &Resolved) -> String {
///     format!("{} by {}", resolved.resolution.kind(), resolved.by)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resolved {
    /// Which interaction.
    pub interaction_id: InteractionId,
    /// The answer.
    pub resolution: Resolution,
    /// Who gave it.
    pub by: Principal,
    /// When.
    pub at: Timestamp,
    /// What became of it if it is to be remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remembered: Option<Remembered>,
}
