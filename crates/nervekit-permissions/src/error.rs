//! What can go wrong with documents and grants.

use std::fmt;

use nervekit_types::{Digest, Retry};

/// What is wrong with a document, and where.
///
/// ```
/// use nervekit_permissions::{DocumentError, DocumentScope, PolicyDocument};
/// let error = PolicyDocument::parse(DocumentScope::User, b"{\n  \"schemaVersion\": 3}").unwrap_err();
/// assert!(matches!(&error, DocumentError::Malformed(problem) if problem.message().contains("version 3")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentProblem {
    message: String,
    rule: Option<String>,
    position: Option<(usize, usize)>,
}

impl DocumentProblem {
    /// States a problem of the whole document.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), rule: None, position: None }
    }

    /// Says which rule has it.
    #[must_use]
    pub fn rule(mut self, id: &str) -> Self {
        self.rule = Some(crate::display(id));
        self
    }

    /// Says where in the text it is: line and column, both counted from 1.
    #[must_use]
    pub fn at(mut self, line: usize, column: usize) -> Self {
        self.position = Some((line, column));
        self
    }

    /// Returns the words, without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the id of the rule that has it.
    #[must_use]
    pub fn rule_id(&self) -> Option<&str> {
        self.rule.as_deref()
    }

    /// Returns line and column, both counted from 1; `None` when it is about the document as a whole.
    #[must_use]
    pub const fn position(&self) -> Option<(usize, usize)> {
        self.position
    }
}

impl From<serde_json::Error> for DocumentProblem {
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        // serde_json appends the position, which is kept apart here.
        let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
        Self {
            message: crate::display(message),
            rule: None,
            position: (error.line() > 0).then(|| (error.line(), error.column().max(1))),
        }
    }
}

impl fmt::Display for DocumentProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rule) = &self.rule {
            write!(f, "rule `{rule}`: ")?;
        }
        f.write_str(&self.message)?;
        if let Some((line, column)) = self.position {
            write!(f, " at line {line}, column {column}")?;
        }
        Ok(())
    }
}

impl std::error::Error for DocumentProblem {}

/// Why a document could not be read, written or trusted.
///
/// ```
/// use nervekit_permissions::{DocumentError, DocumentProblem};
/// let error = DocumentError::from(DocumentProblem::new("it is not UTF-8"));
/// assert_eq!(error.to_string(), "the document is malformed: it is not UTF-8");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The document is not what this program reads. Nothing of it applies; correct it.
    #[error("the document is malformed: {0}")]
    Malformed(#[source] Box<DocumentProblem>),
    /// The document is not the one that was read or shown. Nothing was written; read it again.
    #[error("the document changed in the meantime; read it again")]
    Changed {
        /// The digest of what is there now; `None` when it is gone.
        current: Option<Box<Digest>>,
    },
    /// The bytes are not trusted. A person has to trust this digest first.
    #[error("the document is not trusted; show it to a person and trust its digest first")]
    Untrusted {
        /// The digest of what is there now.
        current: Box<Digest>,
    },
    /// No document of this scope and name is kept here.
    #[error("no document of that scope and name is kept here")]
    Unsupported,
    /// Reading or writing failed. Whether the new bytes are in place is not known.
    #[error("the document could not be read or written: {0}")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl DocumentError {
    /// Returns the name of the case, for logs and interfaces.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Changed { .. } => "changed",
            Self::Untrusted { .. } => "untrusted",
            Self::Unsupported => "unsupported",
            Self::Unavailable(_) => "unavailable",
        }
    }

    /// Says whether to try again.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            // The caller reads first, then writes again.
            Self::Changed { .. } => Retry::Now,
            // A person has to act.
            Self::Malformed(_) | Self::Untrusted { .. } | Self::Unsupported => Retry::Never,
            // The failure may have come after the rename.
            Self::Unavailable(_) => Retry::Unknown,
        }
    }
}

impl From<DocumentProblem> for DocumentError {
    fn from(problem: DocumentProblem) -> Self {
        Self::Malformed(Box::new(problem))
    }
}

/// Why a grant cannot be saved. The approval itself still counts once.
///
/// ```
/// use nervekit_permissions::GrantError;
/// assert!(GrantError::NotRememberable.to_string().contains("approve it once"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// The prompt came from the baseline alone, because the selected rule set could not be used.
    #[error("an answer given while the selected rule set cannot be used is not remembered; approve it once")]
    NotRememberable,
    /// The rule is not one of those that were shown.
    #[error("the rule `{0}` was not suggested for this call; choose one of the suggestions")]
    NotSuggested(String),
    /// Rules about commands and code are written into the user's document by hand.
    #[error("a rule about commands or code is kept for the conversation or the project, not for the user")]
    CommandAtUserScope,
    /// A guardrail that allows, or one outside the user's document.
    #[error("a guardrail lives in the user's document and prompts or denies")]
    GuardrailNotPossible,
    /// A grant that prompts, without being a guardrail.
    #[error("a grant allows or denies; only a guardrail may ask every time")]
    NotAGrant,
    /// A value looks like a secret and would be written into a project.
    #[error("a rule that holds a long or secret-looking value is not written into a project")]
    SecretInProject,
    /// A target is outside the project or bears a mark, and a project's rules allow neither.
    #[error(
        "a project's rules allow nothing outside its folder and nothing that bears a mark; keep the rule for the conversation or the user"
    )]
    BeyondProject,
    /// The project's document is not trusted; file and trust are untouched.
    #[error("the project's document is not trusted; trust it first, or keep the rule for the conversation")]
    ProjectDocumentUntrusted,
    /// The rule set under which the call was judged is gone, disabled or malformed.
    #[error("{0}, so nothing is remembered for it")]
    RuleSetGone(String),
    /// The document as it would become is refused, or already is malformed.
    #[error(transparent)]
    Document(#[from] DocumentError),
}

impl GrantError {
    /// Returns the name of the case, for logs and interfaces.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NotRememberable => "not_rememberable",
            Self::NotSuggested(_) => "not_suggested",
            Self::CommandAtUserScope => "command_at_user_scope",
            Self::GuardrailNotPossible => "guardrail_not_possible",
            Self::NotAGrant => "not_a_grant",
            Self::SecretInProject => "secret_in_project",
            Self::BeyondProject => "beyond_project",
            Self::ProjectDocumentUntrusted => "project_document_untrusted",
            Self::RuleSetGone(_) => "rule_set_gone",
            Self::Document(_) => "document",
        }
    }

    /// Says whether to try again.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Document(error) => error.retry(),
            // The same grant has the same fault.
            _ => Retry::Never,
        }
    }

    /// Says whether the grant itself is sound, so that the answer counts once although it is not remembered: what
    /// is at fault is the document or the rule set. Any other grant is a mistake of who asked for it.
    ///
    /// ```
    /// use nervekit_permissions::GrantError;
    /// assert!(GrantError::ProjectDocumentUntrusted.stands());
    /// assert!(!GrantError::NotAGrant.stands());
    /// ```
    #[must_use]
    pub const fn stands(&self) -> bool {
        matches!(self, Self::ProjectDocumentUntrusted | Self::RuleSetGone(_) | Self::Document(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_stay_small() {
        assert!(size_of::<DocumentError>() <= 64);
        assert!(size_of::<GrantError>() <= 64);
        assert!(size_of::<crate::ArgumentsError>() <= 64);
        assert!(size_of::<crate::ResolveError>() <= 64);
    }
}
