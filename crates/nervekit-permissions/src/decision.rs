//! The three answers, and who asked.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What happens to a call: it runs, a person is asked, or it is refused.
///
/// The sum is exhaustive on purpose, has no `Default` and no conversion from `bool`: a program that decides by
/// it states all three cases.
///
/// ```
/// use nervekit_permissions::Decision;
/// fn word(decision: Decision) -> &'static str {
///     match decision {
///         Decision::Allow => "runs",
///         Decision::Prompt => "asks",
///         Decision::Deny => "is refused",
///     }
/// }
/// assert_eq!(word(Decision::Allow.stricter(Decision::Prompt)), "asks");
/// ```
///
/// ```compile_fail,E0277
/// let permitted: nervekit_permissions::Decision = true.into();
/// ```
///
/// ```compile_fail,E0277
/// let unspecified: nervekit_permissions::Decision = Default::default();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[must_use = "a decision that nobody looks at protects nothing"]
pub enum Decision {
    /// The call runs without asking.
    Allow,
    /// A person is asked.
    Prompt,
    /// The call is refused.
    Deny,
}

impl Decision {
    /// Returns the stricter of two decisions: `Deny` over `Prompt` over `Allow`.
    pub const fn stricter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Deny, _) | (_, Self::Deny) => Self::Deny,
            (Self::Prompt, _) | (_, Self::Prompt) => Self::Prompt,
            (Self::Allow, Self::Allow) => Self::Allow,
        }
    }

    /// Returns the word used in documents: `allow`, `prompt` or `deny`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Prompt => "prompt",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who asked for a call: the model, or a person by a direct command.
///
/// ```
/// use nervekit_permissions::CallOrigin;
/// assert_eq!(serde_json::to_string(&CallOrigin::User)?, "\"user\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallOrigin {
    /// The model's message holds the call.
    Model,
    /// A person gave the command.
    User,
}

/// The mode in which a conversation is when a call is made.
///
/// ```
/// use nervekit_permissions::Mode;
/// assert_eq!(serde_json::to_string(&Mode::Planning)?, "\"planning\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The ordinary mode.
    Coding,
    /// A plan is being written; nothing else changes.
    Planning,
}
