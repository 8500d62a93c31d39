//! What one document adds to the rules, while its file is or is not the one that was accepted.

use std::sync::Arc;

use nervekit_types::Digest;

use super::layers::ReadDocument;
use crate::document::{CheckedDocument, DocumentScope, PolicyDocument, strictest};
use crate::documents::{DocumentState, StoredDocument, Trust};
use crate::evidence::IgnoredDocument;

/// A document as versions that all have to agree: a call is decided under each, and the strictest decision
/// counts. So a change, whatever it is, never widens anything, and what restricts in any version binds.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// Never empty; `None` is the absence of the document.
    pub(super) versions: Vec<Option<Arc<CheckedDocument>>>,
    /// Set when it is not known what restricts, because what was accepted last, or the first that
    /// a person wrote, cannot be read: then every call asks.
    pub(super) unknown: bool,
    pub(super) notices: Vec<IgnoredDocument>,
    /// The SHA-256 of the versions, as far as they do not follow from each other.
    digests: Vec<Option<Digest>>,
}

impl Layer {
    /// A document in force, with the SHA-256 of what was read.
    pub(super) fn of(document: Option<(Arc<CheckedDocument>, Digest)>) -> Self {
        let (version, digest) = document.unzip();
        Self { versions: vec![version], unknown: false, notices: Vec::new(), digests: vec![digest] }
    }

    /// What tells it from every other layer that says something else.
    pub(super) fn identity(&self) -> Vec<u8> {
        // Digests and texts are plain data; turning them into text does not fail.
        serde_json::to_vec(&(&self.digests, self.unknown, &self.notices)).unwrap_or_default()
    }

    /// What is wrong with a document in this state.
    pub(crate) fn problems(scope: DocumentScope, state: &DocumentState) -> Vec<IgnoredDocument> {
        let read = |document: &StoredDocument| {
            let read = PolicyDocument::read(scope, &document.bytes);
            read.map(|(_, checked)| Arc::new(checked)).map_err(|error| error.to_string())
        };
        Self::read(scope, state, read).notices
    }

    /// A document that a host put in force and that is not valid, and why.
    pub(super) fn invalid(notice: IgnoredDocument) -> Self {
        Self { notices: vec![notice], unknown: true, ..Self::of(None) }
    }

    /// What a document adds while it is in this state.
    ///
    /// What is there counts when it is trusted. Otherwise the versions are: what was accepted last; what is there
    /// (of a user's document, nothing of an untrusted project's one); and the restrictions of both with the
    /// allows that both have. The third one keeps a restriction in force that an allow of its own document lifts,
    /// when the other version does not know that allow.
    ///
    /// A user's document that cannot be read, while none was accepted before, may restrict anything.
    pub(super) fn read(
        scope: DocumentScope,
        state: &DocumentState,
        read: impl Fn(&StoredDocument) -> ReadDocument,
    ) -> Self {
        let mut notices = Vec::new();
        let mut notice = |what: String| notices.push(IgnoredDocument::new(scope, &*state.place, what));
        let kept = match (&state.last_accepted, scope) {
            (Some(_), _) => "; what was accepted last still restricts",
            (None, DocumentScope::User) => "; until it can be read, every call asks",
            (None, _) => "",
        };
        let mut now = None;
        let mut unreadable = state.current.is_none() && state.problem.is_some();
        match (&state.current, &state.problem) {
            (Some(document), _) => match read(document) {
                Ok(read) if document.trust == Trust::Trusted => {
                    return Self::of(Some((read, document.digest)));
                }
                Ok(read) if scope == DocumentScope::User => {
                    let what = if document.trust == Trust::Rejected {
                        "it was rejected"
                    } else {
                        "it was changed by something else than this program"
                    };
                    notice(format!(
                        "{what}: until it is accepted, allows count only where the version before has them, too"
                    ));
                    now = Some((read, document.digest));
                }
                Ok(_) if document.trust == Trust::Rejected => notice("it was rejected".to_owned()),
                Ok(_) => {
                    notice("it is not trusted; nothing of it counts until somebody trusts it".to_owned());
                }
                Err(error) => {
                    notice(format!("{error}{kept}"));
                    unreadable = true;
                }
            },
            (None, Some(problem)) => notice(format!("the document cannot be used: {problem}{kept}")),
            (None, None) if state.last_accepted.is_some() => notice(format!("it is gone{kept}")),
            (None, None) => {}
        }
        let mut unknown = false;
        let last = state.last_accepted.as_ref().map(|last| match last.trust {
            Trust::Undecided => Err("other bytes are stored than were accepted".to_owned()),
            Trust::Trusted => Ok((read(last)?, last.digest)),
            // What a person refused since allows nothing any more.
            Trust::Rejected => {
                let restrictions = strictest(None, Some(&*read(last)?));
                Ok((
                    Arc::new(restrictions),
                    Digest::of_parts(["restrictions of".as_bytes(), last.digest.as_bytes()]),
                ))
            }
        });
        let last = match last {
            Some(Ok(last)) => Some(last),
            Some(Err(error)) => {
                notice(format!("what was accepted last cannot be read, so every call asks: {error}"));
                unknown = true;
                None
            }
            None => {
                unknown = unreadable && scope == DocumentScope::User;
                None
            }
        };
        let (now, now_digest) = now.unzip();
        let (last, last_digest) = last.unzip();
        let digests = vec![now_digest, last_digest];
        let versions = if now.is_some() || last.is_some() {
            let both = strictest(now.as_deref(), last.as_deref());
            vec![now, last, Some(Arc::new(both))]
        } else {
            vec![None]
        };
        Self { versions, unknown, notices, digests }
    }
}
