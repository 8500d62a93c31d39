//! The default engine: rules over canonical targets.

mod compiled;
mod conversation;
mod layer;
mod layers;
mod recent;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nervekit_types::Digest;

use crate::call::ProposedCall;
use crate::canonical::CanonicalSubject;
use crate::decision::{Decision, Mode};
use crate::descriptor::Risk;
use crate::document::{CheckedRuleSet, DocumentScope, PolicyDocument, RuleSet};
use crate::documents::{DocumentOwner, DocumentState, Documents, Trust};
use crate::engine::{DecidedTarget, Evaluation, PermissionEngine, RuleQuery};
use crate::error::GrantError;
use crate::evidence::{Evidence, IgnoredDocument, RuleEvidence};
use crate::grant::{DocumentChange, Grant};
use crate::path::{ResolvedCall, TargetResolver};
use crate::policy::{EntryFilter, Policy};
use crate::root::{Root, Roots};
use crate::target::Access;
use compiled::Compiled;
use conversation::Conversations;
pub(crate) use layer::Layer;
use layers::{Layers, Source, locked};
use recent::Recent;

/// The most policies that are kept compiled.
const MAXIMUM_COMPILED: usize = 256;

/// An engine over rule sets and documents.
///
/// It is given documents as data, or looks at them itself before each call when it has
/// [`documents`](Self::documents): then a change of a file counts from the next call on, and never widens anything
/// before somebody accepted it. A call is judged under the version that was accepted last and under the one that
/// is there, and the strictest decision counts.
///
/// ```
/// use nervekit_permissions::*;
/// let folder = tempfile::tempdir()?;
/// let engine = RuleEngine::new(Roots::new().project(folder.path()));
/// let bash = ToolDescriptor::new("bash", ToolKind::Command, Risk::Unknown).group("shell").primary_argument("command");
/// let call = ProposedCall::new(bash, EffectiveArguments::parse(r#"{"command": "cargo test --all"}"#)?, CallOrigin::Model, "supervised");
///
/// let asked = engine.evaluate(call.clone());
/// assert_eq!(asked.decision(), Decision::Prompt);
///
/// // A person keeps the narrow rule for the conversation; the next call runs.
/// let prefix = asked.evidence.suggestions.iter().find(|s| s.kind == SuggestionKind::CommandPrefix).unwrap().clone();
/// let grant = Grant::new(asked.evidence, prefix, Decision::Allow, GrantScope::Conversation);
/// let DocumentChange::Replace { document, .. } = engine.plan_grant(grant)? else { panic!() };
/// let again = engine.evaluate(call.conversation_document(*document));
/// assert_eq!(again.decision(), Decision::Allow);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RuleEngine {
    resolver: TargetResolver,
    /// Those that the host gave, or what is wrong with them.
    rule_sets: BTreeMap<String, Result<Arc<CheckedRuleSet>, String>>,
    given: RwLock<Arc<Layers>>,
    source: Option<Source>,
    conversations: Conversations,
    compiled: Mutex<Recent<PolicyKey, Arc<Compiled>>>,
}

/// What policies are made of. Of everything that changes it holds the SHA-256, so that what was compiled is found
/// again when a document becomes what it was.
#[derive(Clone, PartialEq, Eq, Hash)]
struct PolicyKey {
    layers: Digest,
    rule_set: String,
    mode: Mode,
    /// Of a rule set that is looked at.
    rule_set_state: Option<RuleSetState>,
    conversation: Option<Digest>,
}

/// What tells one state of a rule set from another.
#[derive(Clone, PartialEq, Eq, Hash)]
struct RuleSetState {
    current: Option<(Digest, Trust)>,
    last_accepted: Option<(Digest, Trust)>,
    problem: Option<String>,
}

impl RuleSetState {
    fn of(state: &DocumentState) -> Self {
        Self {
            current: state.current.as_ref().map(|document| (document.digest, document.trust)),
            last_accepted: state.last_accepted.as_ref().map(|document| (document.digest, document.trust)),
            problem: state.problem.as_ref().map(ToString::to_string),
        }
    }
}

impl RuleEngine {
    /// Starts with the built-in rule sets, without documents.
    #[must_use]
    pub fn new(roots: Roots) -> Self {
        Self::with_resolver(TargetResolver::new(roots))
    }

    /// Starts with a resolver that protects more than the built-in list.
    #[must_use]
    pub fn with_resolver(resolver: TargetResolver) -> Self {
        Self {
            resolver,
            rule_sets: BTreeMap::new(),
            given: RwLock::default(),
            source: None,
            conversations: Conversations::new(),
            compiled: Mutex::new(Recent::new(MAXIMUM_COMPILED)),
        }
    }

    /// Adds a rule set. One with the id of a built-in set is not used: those are immutable. It is used in place of one
    /// with the same id among the [documents](Self::documents).
    #[must_use]
    pub fn rule_set(mut self, rule_set: RuleSet) -> Self {
        let checked = rule_set.checked().map(Arc::new).map_err(|error| error.to_string());
        self.rule_sets.insert(rule_set.id, checked);
        self
    }

    /// Looks at these documents before each call, instead of those that it was given: the rules and the rule sets
    /// of this user, and the rules of the project of the call. Rule sets that were [given](Self::rule_set) stay.
    ///
    /// Which folder the documents are in is not known to the engine: register it as
    /// [`nerve_home`](crate::Roots::nerve_home), so that writing there asks. The project of the roots or the call is
    /// named by its canonical folder; by a link its document does not count.
    ///
    /// ```
    /// use nervekit_permissions::{DocumentOwner, FileDocuments, MemoryTrustStore, Roots, RuleEngine};
    /// # fn engine(home: &std::path::Path, project: &std::path::Path) -> RuleEngine {
    /// let documents = FileDocuments::new(home, MemoryTrustStore::new());
    /// RuleEngine::new(Roots::new().project(project).nerve_home(home)).documents(documents, DocumentOwner::User(None))
    /// # }
    /// ```
    #[must_use]
    pub fn documents(mut self, documents: impl Documents, user: DocumentOwner) -> Self {
        self.source = Some(Source::new(documents, user));
        self
    }

    /// Sets the user's document.
    #[must_use]
    pub fn user_document(self, document: PolicyDocument) -> Self {
        self.replace_document(DocumentScope::User, Some(document));
        self
    }

    /// Sets the project's document, whose bytes somebody trusted.
    #[must_use]
    pub fn project_document(self, document: PolicyDocument) -> Self {
        self.replace_document(DocumentScope::Project, Some(document));
        self
    }

    /// Puts another document of the user or the project in force. Calls that are being judged finish with the
    /// old one. A document of a conversation comes with the call and changes nothing here.
    ///
    /// Of a document that is not valid nothing is put in force. What it would restrict is not known then, so every
    /// call asks, and every evidence says why.
    pub fn replace_document(&self, scope: DocumentScope, document: Option<PolicyDocument>) {
        let layer = match document.map(|document| (document.checked(scope), document)) {
            Some((Ok(checked), document)) => {
                // Documents are plain data; turning one into text does not fail.
                let digest = Digest::of(serde_json::to_vec(&document).unwrap_or_default());
                Layer::of(Some((Arc::new(checked), digest)))
            }
            Some((Err(error), _)) => {
                Layer::invalid(IgnoredDocument::new(scope, "permissions", error.to_string()))
            }
            None => Layer::of(None),
        };
        let mut given = self.given.write().unwrap_or_else(PoisonError::into_inner);
        let (user, project) = match scope {
            DocumentScope::User => (layer, given.project.clone()),
            DocumentScope::Project => (given.user.clone(), layer),
            DocumentScope::Conversation => return,
        };
        *given = Arc::new(Layers::new(user, project));
    }

    fn layers(&self, project: Option<&Path>) -> Arc<Layers> {
        match &self.source {
            Some(source) => source.layers(project.or_else(|| self.resolver.project())),
            None => Arc::clone(&self.given.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// The state of a rule set that is looked at, because it is neither built in nor given.
    fn look_at_rule_set(&self, id: &str) -> Option<Arc<DocumentState>> {
        let known = crate::builtin::checked(id).is_some() || self.rule_sets.contains_key(id);
        self.source.as_ref().filter(|_| !known).map(|source| source.look_at_rule_set(id))
    }

    /// The versions of a rule set that a conversation selected, or why it cannot be used in this mode.
    fn select(
        &self,
        id: &str,
        mode: Mode,
        state: Option<&DocumentState>,
    ) -> Result<Vec<Arc<CheckedRuleSet>>, String> {
        let sets = self.versions(id, state)?;
        let fits = |set: &Arc<CheckedRuleSet>| {
            set.compatible_modes.as_ref().is_none_or(|modes| modes.contains(&mode))
        };
        if sets.iter().all(fits) {
            return Ok(sets);
        }
        Err(format!("the rule set `{}` is not meant for this mode", crate::display(id)))
    }

    /// The versions of a rule set, or why it cannot be used.
    fn versions(&self, id: &str, state: Option<&DocumentState>) -> Result<Vec<Arc<CheckedRuleSet>>, String> {
        let shown = crate::display(id);
        let sets = match (crate::builtin::checked(id), self.rule_sets.get(id), &self.source, state) {
            (Some(set), ..) | (None, Some(Ok(set)), ..) => vec![Arc::clone(set)],
            (None, Some(Err(error)), ..) => {
                return Err(format!("the rule set `{shown}` is not valid: {error}"));
            }
            (None, None, Some(source), Some(state)) => source.rule_set(id, state)?,
            (None, None, ..) => return Err(format!("no rule set has the id `{shown}`")),
        };
        for set in &sets {
            if !set.enabled {
                return Err(format!("the rule set `{shown}` is disabled"));
            }
        }
        Ok(sets)
    }

    fn compiled(
        &self,
        layers: &Layers,
        id: &str,
        mode: Mode,
        conversation: Option<&Arc<PolicyDocument>>,
    ) -> Arc<Compiled> {
        let state = self.look_at_rule_set(id);
        let conversation = conversation.map(|document| self.conversations.checked(document));
        let key = PolicyKey {
            layers: layers.digest,
            rule_set: id.to_owned(),
            mode,
            rule_set_state: state.as_deref().map(RuleSetState::of),
            conversation: conversation.as_ref().map(|conversation| conversation.digest),
        };
        if let Some(known) = locked(&self.compiled).get(&key) {
            return known;
        }
        let selected = self.select(id, mode, state.as_deref());
        let compiled = Arc::new(Compiled::new(layers, id, selected, conversation.as_deref()));
        locked(&self.compiled).insert(key, Arc::clone(&compiled));
        compiled
    }

    fn judge(&self, call: &ProposedCall) -> Evaluation {
        let layers = self.layers(call.project.as_deref());
        let compiled = self.compiled(&layers, &call.rule_set, call.mode, call.conversation_document.as_ref());
        let resolved = match self.resolver.resolve(call) {
            Ok(resolved) => resolved,
            Err(error) => {
                let policy = compiled.first();
                let mut evidence = closed(call, policy.map(Arc::as_ref), error.to_string());
                evidence.ignored_documents.clone_from(&compiled.ignored);
                let mut refused = Evaluation::new(evidence);
                refused.policy = policy.cloned();
                return refused;
            }
        };
        let (mut evidence, policy) = compiled.evidence(call, &resolved);
        let mut policies = compiled.policies.clone();
        let mut until_confirmed = None;
        if let Some(coding) = &call.until_confirmed
            && !is_planning(&resolved)
        {
            let coding = self.compiled(&layers, coding, Mode::Coding, call.conversation_document.as_ref());
            let (other, policy) = coding.evidence(call, &resolved);
            // What the coding rule set withholds from a search stays withheld.
            policies.extend_from_slice(&coding.policies);
            for rule in &other.withholding {
                if !evidence.withholding.contains(rule) {
                    evidence.withholding.push(rule.clone());
                }
            }
            let stricter = evidence.decision.stricter(other.decision);
            if stricter != evidence.decision {
                evidence.decision = stricter;
                evidence.reason =
                    format!("{}; planning is not confirmed, so {}", evidence.reason, other.reason);
                evidence.suggestions = Vec::new();
                evidence.until_confirmed = Some(Box::new(other));
                until_confirmed = policy.cloned();
            }
        }
        let targets =
            if evidence.decision == Decision::Deny { Vec::new() } else { decided(&policies, resolved) };
        let mut evaluation = Evaluation::new(evidence).targets(targets);
        evaluation.policy = policy.cloned();
        evaluation.policy_until_confirmed = until_confirmed;
        evaluation
    }
}

/// What planning adds by itself: talking to the person, and writing plans.
fn is_planning(call: &ResolvedCall) -> bool {
    let plan = |subject: &CanonicalSubject| match subject {
        CanonicalSubject::Path(path) => {
            path.access == Access::Write
                && path.marks.is_empty()
                && path.resolved.for_allow().is_some_and(|rooted| rooted.root == Root::Plans)
        }
        _ => false,
    };
    call.risk == Risk::Interaction || call.targets.iter().all(|target| plan(target.subject()))
}

/// The evidence of a call that could not be judged.
fn closed(call: &ProposedCall, policy: Option<&Policy>, reason: String) -> Evidence {
    let empty = Policy::empty();
    let policy = policy.unwrap_or(&empty);
    let risk = call.descriptor.risk_of(&call.arguments);
    let mut evidence = Evidence::new(
        Decision::Deny,
        reason,
        risk,
        call.arguments.digest(),
        policy.rule_set(),
        policy.digest(),
    )
    .tool(&*call.descriptor.name);
    evidence.selected_rule_set.clone_from(&call.rule_set);
    evidence
}

fn decided(policies: &[Arc<Policy>], resolved: ResolvedCall) -> Vec<DecidedTarget> {
    let filters = (0..resolved.targets.len()).map(|index| EntryFilter::new(policies, &resolved, index));
    let filters: Vec<Option<EntryFilter>> = filters.collect();
    let targets = resolved.targets.into_iter().zip(resolved.means).zip(filters);
    targets
        .map(|((target, means), entries)| {
            let mut decided = DecidedTarget::new(target);
            (decided.path, decided.url, decided.content) = (means.path, means.url, means.content);
            decided.entries = entries;
            decided
        })
        .collect()
}

impl PermissionEngine for RuleEngine {
    fn evaluate(&self, call: ProposedCall) -> Evaluation {
        catch_unwind(AssertUnwindSafe(|| self.judge(&call))).unwrap_or_else(|_| {
            let reason = "the evaluator failed, so the call is refused".to_owned();
            Evaluation::new(closed(&call, None, reason))
        })
    }

    fn plan_grant(&self, grant: Grant) -> Result<DocumentChange, GrantError> {
        let rule_set = &grant.evidence.active_rule_set;
        if grant.scope.document().is_some()
            && grant.evidence.rememberable()
            && let Err(reason) = self.versions(rule_set, self.look_at_rule_set(rule_set).as_deref())
        {
            return Err(GrantError::RuleSetGone(reason));
        }
        crate::grant::plan(grant)
    }

    fn rules(&self, query: RuleQuery) -> Vec<RuleEvidence> {
        let layers = self.layers(query.project.as_deref());
        let state = self.look_at_rule_set(&query.rule_set);
        let modes = [Mode::Coding, Mode::Planning];
        let mode =
            modes.into_iter().find(|mode| self.select(&query.rule_set, *mode, state.as_deref()).is_ok());
        let mode = mode.unwrap_or(Mode::Coding);
        let compiled = self.compiled(&layers, &query.rule_set, mode, query.conversation_document.as_ref());
        let mut rules = compiled.rules();
        rules.retain(|rule| query.source.is_none_or(|source| source == rule.source));
        rules
    }
}

impl fmt::Debug for RuleEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleEngine").field("resolver", &self.resolver).finish_non_exhaustive()
    }
}
