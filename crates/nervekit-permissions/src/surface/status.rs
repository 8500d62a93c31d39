//! What a person has to know before deciding.

use nervekit_types::Digest;
use serde::{Deserialize, Serialize};

use super::Surface;
use crate::documents::{DocumentOwner, DocumentState};
use crate::policy_documents::Standing;

/// What a person has to know of a surface before deciding about it. It holds names of entries and files, safe to
/// show, and nothing of what they say.
///
/// See [`SurfaceDocuments::status`](super::SurfaceDocuments::status) for one that is read.
///
/// ```
/// use nervekit_permissions::SurfaceStatus;
/// fn line(status: &SurfaceStatus) -> String {
///     format!("{} is {}; new in it: {}", status.place, status.standing, status.added.join(", "))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SurfaceStatus {
    /// Which surface.
    pub surface: Surface,
    /// Whose.
    pub owner: DocumentOwner,
    /// Where it is kept.
    pub place: String,
    /// Whether it counts.
    pub standing: Standing,
    /// The digest of what is there: what is passed to `trust`.
    pub digest: Option<Digest>,
    /// What is wrong with it, with the position.
    pub problem: Option<String>,
    /// The entries of the document, or the files of the folder, that the version accepted last does not have.
    pub added: Vec<String>,
    /// Those of the version accepted last that this one does not have.
    pub removed: Vec<String>,
    /// Those that both have, and that differ.
    pub changed: Vec<String>,
}

impl SurfaceStatus {
    pub(super) fn of(surface: &Surface, owner: &DocumentOwner, state: &DocumentState) -> Self {
        let mut status = Self::new(surface, owner, &state.place);
        let last = state.last_accepted.as_ref().map(|document| &*document.bytes);
        let mut now = state.current.as_ref().map(|document| &*document.bytes);
        match (&state.current, &state.problem) {
            (Some(document), _) => {
                status.digest = Some(document.digest);
                match surface.check(owner.scope(), &document.bytes) {
                    Ok(()) => status.standing = surface.standing(owner.scope(), document.trust),
                    Err(error) => {
                        status = status.malformed(error.to_string());
                        now = last;
                    }
                }
            }
            (None, Some(problem)) => {
                status = status.malformed(problem.to_string());
                now = last;
            }
            (None, None) if last.is_some() => status.standing = Standing::Gone,
            (None, None) => {}
        }
        status.compare(last, now);
        status
    }

    /// Describes what lies among the skills and cannot be one.
    pub(crate) fn refused(surface: &Surface, owner: &DocumentOwner, problem: String) -> Self {
        Self::new(surface, owner, &surface.to_string()).malformed(problem)
    }

    fn new(surface: &Surface, owner: &DocumentOwner, place: &str) -> Self {
        Self {
            surface: surface.clone(),
            owner: owner.clone(),
            place: place.to_owned(),
            standing: Standing::Absent,
            digest: None,
            problem: None,
            added: Vec::new(),
            removed: Vec::new(),
            changed: Vec::new(),
        }
    }

    pub(crate) fn malformed(mut self, problem: String) -> Self {
        self.standing = Standing::Malformed;
        self.problem = Some(problem);
        self
    }
}
