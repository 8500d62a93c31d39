//! Whether a document counts, and what it would do.

use std::fmt;

use nervekit_types::Digest;
use serde::{Deserialize, Serialize};

use crate::decision::Decision;
use crate::document::DocumentScope;
use crate::document::{PolicyDocument, is_same};
use crate::documents::{DocumentId, DocumentState, Trust};
use crate::rule::Rule;

/// Whether a document counts.
///
/// ```
/// use nervekit_permissions::Standing;
/// assert_eq!(Standing::Untrusted.to_string(), "untrusted");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// There is none, and there was none.
    Absent,
    /// It counts.
    Active,
    /// It is the project's, and nobody accepted it.
    Untrusted,
    /// A person refused it.
    Rejected,
    /// It is the user's, and was changed by something else than this program: its restrictions count, its allows
    /// only where the version before has them, too.
    Changed,
    /// It is gone; if it held rules, what was accepted last still restricts.
    Gone,
    /// It cannot be read; if it held rules, what was accepted last still restricts. Where nothing of the user was
    /// accepted before, every call asks.
    Malformed,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "absent",
            Self::Active => "active",
            Self::Untrusted => "untrusted",
            Self::Rejected => "rejected",
            Self::Changed => "changed",
            Self::Gone => "gone",
            Self::Malformed => "malformed",
        })
    }
}

/// A rule, and under which rule set it counts.
///
/// ```
/// use nervekit_permissions::BoundRule;
/// let bound: BoundRule = serde_json::from_str(
///     r#"{"rule": {"id": "a", "decision": "allow"}, "rule_set_id": "supervised", "summary": "every call"}"#,
/// )?;
/// assert_eq!(bound.rule.id, "a");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BoundRule {
    /// The rule.
    pub rule: Rule,
    /// The rule set that it is bound to; `None` for a guardrail of all.
    pub rule_set_id: Option<String>,
    /// Which calls it is about, in words, safe to show.
    pub summary: String,
}

/// What a person has to know of a document before deciding about it.
///
/// See [`PolicyDocuments::status`](crate::PolicyDocuments::status) for one that is read.
///
/// ```
/// use nervekit_permissions::{DocumentStatus, Standing};
/// fn line(status: &DocumentStatus) -> String {
///     let automatic: Vec<&str> = status.automatic.iter().map(|rule| &*rule.summary).collect();
///     format!("{} is {}; automatic: {}", status.place, status.standing, automatic.join(", "))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DocumentStatus {
    /// Which document.
    pub id: DocumentId,
    /// Where it is kept.
    pub place: String,
    /// Whether it counts.
    pub standing: Standing,
    /// The digest of what is there: what is passed to `trust`.
    pub digest: Option<Digest>,
    /// What is wrong with it, with the position.
    pub problem: Option<String>,
    /// What runs without asking when it counts.
    pub automatic: Vec<BoundRule>,
    /// The rules that the version accepted last does not have.
    pub added: Vec<BoundRule>,
    /// The rules of the version accepted last that this one does not have.
    pub removed: Vec<BoundRule>,
}

impl DocumentStatus {
    /// Describes a document in this state.
    ///
    /// ```
    /// use nervekit_permissions::{DocumentId, DocumentOwner, DocumentState, DocumentStatus, Standing};
    /// let id = DocumentId::permissions(DocumentOwner::User(None));
    /// let status = DocumentStatus::of(id, &DocumentState::new("permissions.json"));
    /// assert_eq!(status.standing, Standing::Absent);
    /// ```
    #[must_use]
    pub fn of(id: DocumentId, state: &DocumentState) -> Self {
        let scope = id.owner.scope();
        let parse = |bytes: &[u8]| PolicyDocument::parse(scope, bytes);
        let (standing, problem, now) = match (&state.current, &state.problem) {
            (Some(document), _) => match parse(&document.bytes) {
                Ok(now) => {
                    let standing = match (document.trust, scope) {
                        (Trust::Trusted, _) => Standing::Active,
                        (Trust::Rejected, _) => Standing::Rejected,
                        (Trust::Undecided, DocumentScope::User) => Standing::Changed,
                        (Trust::Undecided, _) => Standing::Untrusted,
                    };
                    (standing, None, Some(now))
                }
                Err(error) => (Standing::Malformed, Some(error.to_string()), None),
            },
            (None, Some(problem)) => (Standing::Malformed, Some(problem.to_string()), None),
            (None, None) if state.last_accepted.is_some() => (Standing::Gone, None, None),
            (None, None) => (Standing::Absent, None, None),
        };
        let last = state.last_accepted.as_ref().and_then(|last| parse(&last.bytes).ok());
        let now: Vec<BoundRule> = now.iter().flat_map(bound).collect();
        let last: Vec<BoundRule> = last.iter().flat_map(bound).collect();
        let automatic =
            now.iter().filter(|bound| bound.rule.enabled && bound.rule.decision == Decision::Allow);
        Self {
            place: state.place.clone(),
            standing,
            digest: state.current.as_ref().map(|document| document.digest),
            problem,
            automatic: automatic.cloned().collect(),
            added: without(&now, &last),
            removed: without(&last, &now),
            id,
        }
    }
}

/// The rules that are in the one list and not in the other.
fn without(rules: &[BoundRule], others: &[BoundRule]) -> Vec<BoundRule> {
    let known = |rule: &BoundRule| {
        others.iter().any(|other| other.rule_set_id == rule.rule_set_id && is_same(&other.rule, &rule.rule))
    };
    rules.iter().filter(|rule| !known(rule)).cloned().collect()
}

/// The rules of a document, each with its rule set.
pub(super) fn bound(document: &PolicyDocument) -> impl Iterator<Item = BoundRule> {
    let guardrails = document.guardrails.iter().map(|rule| BoundRule::new(rule, None));
    let overlays = document.overlays.iter().flat_map(|overlay| {
        overlay.rules.iter().map(|rule| BoundRule::new(rule, Some(&overlay.rule_set_id)))
    });
    guardrails.chain(overlays)
}
