//! What one document adds to the rules, while its file is or is not the one that was accepted.

use std::sync::Arc;

use crate::document::{DocumentScope, PolicyDocument, strictest};
use crate::documents::{DocumentState, Trust};
use crate::evidence::IgnoredDocument;

/// A document as versions that all have to agree: a call is decided under each, and the strictest decision
/// counts. So a change, whatever it is, never widens anything, and what restricts in any version binds.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// Never empty; `None` is the absence of the document.
    pub(super) versions: Vec<Option<Arc<PolicyDocument>>>,
    /// Set when it is not known what restricts, because what was accepted last, or the first that a person wrote,
    /// cannot be read: then every call asks.
    pub(super) unknown: bool,
    pub(crate) notices: Vec<IgnoredDocument>,
}

impl Layer {
    /// A document in force.
    pub(super) fn of(document: Option<PolicyDocument>) -> Self {
        Self { versions: vec![document.map(Arc::new)], unknown: false, notices: Vec::new() }
    }

    /// A document that does not count, and why.
    pub(super) fn ignored(notice: IgnoredDocument) -> Self {
        Self { notices: vec![notice], ..Self::of(None) }
    }

    /// What a document adds while it is in this state.
    ///
    /// What is there counts when it is trusted. Otherwise the versions are: what was accepted last; what is there
    /// (of a user's document, nothing of an untrusted project's one); and the restrictions of both with the
    /// allows that both have. The third one keeps a restriction in force that an allow of its own document lifts,
    /// when the other version does not know that allow.
    pub(crate) fn read(scope: DocumentScope, state: &DocumentState) -> Self {
        let mut layer = Self { versions: Vec::new(), unknown: false, notices: Vec::new() };
        let mut notice = |what: String| {
            layer.notices.push(IgnoredDocument::new(scope, &*state.place, what));
        };
        let kept = match (&state.last_accepted, scope) {
            (Some(_), _) => "; what was accepted last still restricts",
            (None, DocumentScope::User) => "; until it can be read, every call asks",
            (None, _) => "",
        };
        let (mut now, mut is_unreadable) = (None, state.problem.is_some());
        match (&state.current, &state.problem) {
            (Some(document), _) => match PolicyDocument::parse(scope, &document.bytes) {
                Ok(read) if document.trust == Trust::Trusted => {
                    return Self { notices: Vec::new(), ..Self::of(Some(read)) };
                }
                Ok(read) if scope == DocumentScope::User && document.trust == Trust::Rejected => {
                    notice("it was rejected; what it restricts still counts".to_owned());
                    now = Some(Arc::new(read));
                }
                Ok(read) if scope == DocumentScope::User => {
                    notice("it was changed by something else than this program: until it is accepted, allows count \
                            only where the version before has them, too".to_owned());
                    now = Some(Arc::new(read));
                }
                Ok(_) if document.trust == Trust::Rejected => notice("it was rejected".to_owned()),
                Ok(_) => {
                    notice("it is not trusted; nothing of it counts until somebody trusts it".to_owned());
                }
                Err(error) => {
                    is_unreadable = true;
                    notice(format!("{error}{kept}"));
                }
            },
            (None, Some(problem)) => notice(format!("the document cannot be used: {problem}{kept}")),
            (None, None) if state.last_accepted.is_some() => notice(format!("it is gone{kept}")),
            (None, None) => {}
        }
        let last = state.last_accepted.as_ref().map(|last| match last.trust {
            Trust::Undecided => Err("other bytes are stored than were accepted".to_owned()),
            trust => match PolicyDocument::parse(scope, &last.bytes) {
                // What a person refused since allows nothing any more.
                Ok(last) if trust == Trust::Rejected => Ok(strictest(None, Some(&last))),
                last => last.map_err(|error| error.to_string()),
            },
        });
        let last = match last {
            Some(Ok(last)) => Some(Arc::new(last)),
            Some(Err(error)) => {
                notice(format!("what was accepted last cannot be read, so every call asks: {error}"));
                layer.unknown = true;
                None
            }
            None => {
                // It may hold restrictions, and nothing else is known of them.
                layer.unknown = scope == DocumentScope::User && is_unreadable;
                None
            }
        };
        if now.is_some() || last.is_some() {
            let both = strictest(now.as_deref(), last.as_deref());
            layer.versions = vec![now, last, Some(Arc::new(both))];
        } else {
            layer.versions = vec![None];
        }
        layer
    }
}
