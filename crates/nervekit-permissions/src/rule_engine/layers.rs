//! The documents in force.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nervekit_types::Digest;

use super::layer::Layer;
use super::recent::Recent;
use crate::document::{CheckedDocument, CheckedRuleSet, DocumentScope, PolicyDocument, RuleSet};
use crate::documents::{DocumentId, DocumentOwner, DocumentState, Documents, StoredDocument, Trust};

/// The most projects whose documents are kept.
const MAXIMUM_PROJECTS: usize = 64;
/// The most documents that are kept as they were read.
const MAXIMUM_READ: usize = 128;

/// The layers of a user and a project.
pub(super) struct Layers {
    pub(super) user: Layer,
    pub(super) project: Layer,
    /// What tells them from all others, by what they say.
    pub(super) digest: Digest,
}

impl Layers {
    pub(super) fn new(user: Layer, project: Layer) -> Self {
        let digest = Digest::of_parts([user.identity(), project.identity()]);
        Self { user, project, digest }
    }
}

impl Default for Layers {
    fn default() -> Self {
        Self::new(Layer::of(None), Layer::of(None))
    }
}

/// Where documents are looked at.
pub(super) struct Source {
    documents: Box<dyn Documents>,
    user: DocumentId,
    /// By project, empty for none, with the states from which they were made.
    layers: Mutex<Recent<PathBuf, Kept>>,
    /// By scope and the SHA-256 of their bytes: a version that comes back is not read again.
    read: Mutex<Recent<(DocumentScope, Digest), ReadDocument>>,
    rule_sets: Mutex<Recent<Digest, Result<Arc<CheckedRuleSet>, String>>>,
}

/// A document in force, or what is wrong with it.
pub(super) type ReadDocument = Result<Arc<CheckedDocument>, String>;

#[derive(Clone)]
struct Kept {
    user: Arc<DocumentState>,
    project: Option<Arc<DocumentState>>,
    layers: Arc<Layers>,
}

impl Kept {
    fn is_of(&self, user: &Arc<DocumentState>, project: Option<&Arc<DocumentState>>) -> bool {
        is_same(&self.user, user)
            && match (&self.project, project) {
                (Some(known), Some(state)) => is_same(known, state),
                (None, None) => true,
                _ => false,
            }
    }
}

impl Source {
    pub(super) fn new(documents: impl Documents, user: DocumentOwner) -> Self {
        Self {
            documents: Box::new(documents),
            user: DocumentId::permissions(user),
            layers: Mutex::new(Recent::new(MAXIMUM_PROJECTS)),
            read: Mutex::new(Recent::new(MAXIMUM_READ)),
            rule_sets: Mutex::new(Recent::new(MAXIMUM_READ)),
        }
    }

    /// Looks at the documents; reads and compiles only what it does not know.
    pub(super) fn layers(&self, project: Option<&Path>) -> Arc<Layers> {
        let user = self.documents.look(&self.user);
        let of_project = project.map(|folder| {
            self.documents.look(&DocumentId::permissions(DocumentOwner::Project(folder.to_owned())))
        });
        let project = project.unwrap_or(Path::new(""));
        let known = locked(&self.layers).get(project);
        if let Some(known) = known.filter(|known| known.is_of(&user, of_project.as_ref())) {
            return known.layers;
        }
        let layer = |scope, state: &DocumentState| {
            Layer::read(scope, state, |document| self.read_document(scope, document))
        };
        let of_user = layer(DocumentScope::User, &user);
        let absent = || Layer::of(None);
        let layers = of_project.as_deref().map_or_else(absent, |state| layer(DocumentScope::Project, state));
        let layers = Arc::new(Layers::new(of_user, layers));
        let kept = Kept { user, project: of_project, layers: Arc::clone(&layers) };
        locked(&self.layers).insert(project.to_owned(), kept);
        layers
    }

    fn read_document(&self, scope: DocumentScope, document: &StoredDocument) -> ReadDocument {
        let key = (scope, document.digest);
        if let Some(known) = locked(&self.read).get(&key) {
            return known;
        }
        let read = PolicyDocument::read(scope, &document.bytes);
        let read = read.map(|(_, checked)| Arc::new(checked)).map_err(|error| error.to_string());
        locked(&self.read).insert(key, read.clone());
        read
    }

    /// Looks at a rule set of the user.
    pub(super) fn look_at_rule_set(&self, id: &str) -> Arc<DocumentState> {
        self.documents.look(&DocumentId::new(self.user.owner.clone(), format!("rule-sets/{id}")))
    }

    /// Reads a rule set in this state: what is there, and while nobody accepted it the one before, too.
    pub(super) fn rule_set(
        &self,
        id: &str,
        state: &DocumentState,
    ) -> Result<Vec<Arc<CheckedRuleSet>>, String> {
        let shown = crate::display(id);
        if let Some(problem) = &state.problem {
            return Err(format!("the rule set `{shown}` cannot be used: {}: {problem}", state.place));
        }
        let Some(current) = &state.current else {
            return Err(format!("no rule set has the id `{shown}`"));
        };
        let last = match (current.trust, &state.last_accepted) {
            (Trust::Trusted, _) => None,
            (_, Some(last)) if last.trust == Trust::Trusted => Some(last),
            (Trust::Rejected, _) => {
                return Err(format!("the rule set `{shown}` was rejected: {}", state.place));
            }
            (Trust::Undecided, _) => {
                return Err(format!("the rule set `{shown}` is new and not accepted: {}", state.place));
            }
        };
        let mut sets = Vec::new();
        for version in [Some(current), last].into_iter().flatten() {
            let set = self
                .read_rule_set(version)
                .map_err(|error| format!("the rule set `{shown}` is not valid: {}: {error}", state.place))?;
            if &*set.id != id {
                let found = crate::display(&set.id);
                return Err(format!("{} holds the rule set `{found}`, not `{shown}`", state.place));
            }
            sets.push(set);
        }
        Ok(sets)
    }

    fn read_rule_set(&self, document: &StoredDocument) -> Result<Arc<CheckedRuleSet>, String> {
        if let Some(known) = locked(&self.rule_sets).get(&document.digest) {
            return known;
        }
        let read = RuleSet::read(&document.bytes);
        let read = read.map(|(_, checked)| Arc::new(checked)).map_err(|error| error.to_string());
        locked(&self.rule_sets).insert(document.digest, read.clone());
        read
    }
}

/// A port that makes a state anew each time is compared by content.
fn is_same(known: &Arc<DocumentState>, state: &Arc<DocumentState>) -> bool {
    Arc::ptr_eq(known, state) || known == state
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
