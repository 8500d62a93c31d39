//! The documents in force, and the policies compiled from them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nervekit_types::Digest;

use super::compiled::Compiled;
use super::layer::Layer;
use crate::decision::Mode;
use crate::document::{DocumentScope, RuleSet};
use crate::documents::{DocumentId, DocumentOwner, DocumentState, Documents, Trust};

/// The most projects and compiled policies that are kept; beyond it all are dropped and made anew when asked for.
const MAXIMUM_KEPT: usize = 64;

/// The layers of a user and a project.
pub(super) struct Layers {
    pub(super) user: Layer,
    pub(super) project: Layer,
    kept: Mutex<HashMap<PolicyKey, Arc<Compiled>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PolicyKey {
    pub(super) rule_set: String,
    pub(super) mode: Mode,
    pub(super) rule_set_state: Option<RuleSetState>,
    pub(super) conversation: Option<Digest>,
}

/// What tells one state of a rule set from another: what is there, and what was accepted last.
pub(super) type RuleSetState = [Option<(Digest, Trust)>; 2];

pub(super) fn rule_set_state(state: &DocumentState) -> RuleSetState {
    [&state.current, &state.last_accepted]
        .map(|document| document.as_ref().map(|document| (document.digest, document.trust)))
}

impl Layers {
    pub(super) fn new(user: Layer, project: Layer) -> Self {
        Self { user, project, kept: Mutex::default() }
    }

    pub(super) fn compiled(&self, key: PolicyKey, compile: impl FnOnce() -> Compiled) -> Arc<Compiled> {
        if let Some(found) = locked(&self.kept).get(&key) {
            return Arc::clone(found);
        }
        let compiled = Arc::new(compile());
        let mut kept = locked(&self.kept);
        if kept.len() >= MAXIMUM_KEPT {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&compiled));
        compiled
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
    user: DocumentOwner,
    /// By project, with the states from which they were made.
    kept: Mutex<HashMap<Option<PathBuf>, Kept>>,
}

struct Kept {
    user: Arc<DocumentState>,
    project: Option<Arc<DocumentState>>,
    layers: Arc<Layers>,
}

impl Source {
    pub(super) fn new(documents: impl Documents, user: DocumentOwner) -> Self {
        Self { documents: Box::new(documents), user, kept: Mutex::default() }
    }

    /// Looks at the documents; parses and compiles only what changed.
    pub(super) fn layers(&self, project: Option<&Path>) -> Arc<Layers> {
        let user = self.documents.look(&DocumentId::permissions(self.user.clone()));
        let of_project = project.map(|folder| {
            self.documents.look(&DocumentId::permissions(DocumentOwner::Project(folder.to_owned())))
        });
        let key = project.map(Path::to_owned);
        if let Some(known) = locked(&self.kept).get(&key)
            && is_same(&known.user, &user)
            && match (&known.project, &of_project) {
                (Some(known), Some(state)) => is_same(known, state),
                (None, None) => true,
                _ => false,
            }
        {
            return Arc::clone(&known.layers);
        }
        let layer = of_project.as_deref().map(|state| Layer::read(DocumentScope::Project, state));
        let layer = layer.unwrap_or_else(|| Layer::of(None));
        let layers = Arc::new(Layers::new(Layer::read(DocumentScope::User, &user), layer));
        let mut kept = locked(&self.kept);
        if kept.len() >= MAXIMUM_KEPT {
            kept.clear();
        }
        kept.insert(key, Kept { user, project: of_project, layers: Arc::clone(&layers) });
        layers
    }

    pub(super) fn look_at_rule_set(&self, id: &str) -> Arc<DocumentState> {
        self.documents.look(&DocumentId::new(self.user.clone(), format!("rule-sets/{id}")))
    }
}

/// Reads a rule set of the user: the one that is there, and while nobody accepted it the one before, too.
pub(super) fn read_rule_set(id: &str, state: &DocumentState) -> Result<Vec<Arc<RuleSet>>, String> {
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
        (Trust::Rejected, _) => return Err(format!("the rule set `{shown}` was rejected: {}", state.place)),
        (Trust::Undecided, _) => {
            return Err(format!("the rule set `{shown}` is new and not accepted: {}", state.place));
        }
    };
    let mut sets = Vec::new();
    for version in [Some(current), last].into_iter().flatten() {
        let set = RuleSet::parse(&version.bytes)
            .map_err(|error| format!("the rule set `{shown}` is not valid: {}: {error}", state.place))?;
        if set.id != id {
            let found = crate::display(&set.id);
            return Err(format!("{} holds the rule set `{found}`, not `{shown}`", state.place));
        }
        sets.push(Arc::new(set));
    }
    Ok(sets)
}

/// A port that makes a state anew each time is compared by content.
fn is_same(known: &Arc<DocumentState>, state: &Arc<DocumentState>) -> bool {
    Arc::ptr_eq(known, state) || known == state
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
