//! The default engine: rules over canonical targets.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nervekit_types::Digest;

use crate::builtin::builtin;
use crate::call::ProposedCall;
use crate::canonical::CanonicalSubject;
use crate::decision::{Decision, Mode};
use crate::descriptor::Risk;
use crate::document::{DocumentScope, PolicyDocument, RuleSet};
use crate::engine::{DecidedTarget, Evaluation, PermissionEngine, RuleQuery};
use crate::error::GrantError;
use crate::evidence::{Evidence, Fallback, IgnoredDocument, RuleEvidence};
use crate::grant::{DocumentChange, Grant};
use crate::path::{ResolvedCall, TargetResolver};
use crate::policy::{EntryFilter, Policy, PolicyBuilder};
use crate::root::{Root, Roots};
use crate::target::Access;

/// The most compiled policies that are kept; beyond it all are dropped and compiled anew when asked for.
const MAXIMUM_KEPT: usize = 64;

/// An engine over rule sets and documents that it is given as data.
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
    rule_sets: BTreeMap<String, RuleSet>,
    layers: RwLock<Arc<Layers>>,
}

/// The documents in force, with the policies compiled from them.
#[derive(Default)]
struct Layers {
    user: Option<PolicyDocument>,
    project: Option<PolicyDocument>,
    ignored: Vec<IgnoredDocument>,
    compiled: Mutex<HashMap<PolicyKey, Arc<Compiled>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PolicyKey {
    rule_set: String,
    mode: Mode,
    conversation: Option<Digest>,
}

struct Compiled {
    policy: Arc<Policy>,
    ignored: Vec<IgnoredDocument>,
    /// Why the selected rule set is not the one in force, with the guardrails that then only warn.
    fallback: Option<(String, Option<Policy>)>,
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
        Self { resolver, rule_sets: BTreeMap::new(), layers: RwLock::default() }
    }

    /// Adds a rule set of the user. One with the id of a built-in set is not used: those are immutable.
    #[must_use]
    pub fn rule_set(mut self, rule_set: RuleSet) -> Self {
        self.rule_sets.insert(rule_set.id.clone(), rule_set);
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
    /// A document that is not valid is put in force as nothing at all, and every evidence says so.
    pub fn replace_document(&self, scope: DocumentScope, document: Option<PolicyDocument>) {
        let mut layers = self.layers.write().unwrap_or_else(PoisonError::into_inner);
        let mut ignored: Vec<IgnoredDocument> =
            layers.ignored.iter().filter(|kept| kept.scope != scope).cloned().collect();
        let document = document.filter(|document| match document.check(scope) {
            Ok(()) => true,
            Err(error) => {
                ignored.push(IgnoredDocument::new(scope, "permissions", error.to_string()));
                false
            }
        });
        let (user, project) = match scope {
            DocumentScope::User => (document, layers.project.clone()),
            DocumentScope::Project => (layers.user.clone(), document),
            DocumentScope::Conversation => (layers.user.clone(), layers.project.clone()),
        };
        *layers = Arc::new(Layers { user, project, ignored, compiled: Mutex::default() });
    }

    fn layers(&self) -> Arc<Layers> {
        Arc::clone(&self.layers.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn find(&self, id: &str) -> Option<&RuleSet> {
        builtin(id).or_else(|| self.rule_sets.get(id))
    }

    /// The rule set that a conversation selected, or why it cannot be used.
    fn select(&self, id: &str, mode: Mode) -> Result<&RuleSet, String> {
        let shown = crate::display(id);
        let set = self.find(id).ok_or_else(|| format!("no rule set has the id `{shown}`"))?;
        if !set.enabled {
            return Err(format!("the rule set `{shown}` is disabled"));
        }
        if let Some(modes) = &set.compatible_modes
            && !modes.contains(&mode)
        {
            return Err(format!("the rule set `{shown}` is not meant for this mode"));
        }
        set.check().map_err(|error| format!("the rule set `{shown}` is not valid: {error}"))?;
        Ok(set)
    }

    fn compiled(&self, id: &str, mode: Mode, conversation: Option<&Arc<PolicyDocument>>) -> Arc<Compiled> {
        let layers = self.layers();
        let key = PolicyKey {
            rule_set: id.to_owned(),
            mode,
            // Documents are plain data; turning one into text does not fail.
            conversation: conversation
                .map(|document| Digest::of(serde_json::to_vec(document).unwrap_or_default())),
        };
        let kept = || layers.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept().get(&key) {
            return Arc::clone(found);
        }
        let compiled = Arc::new(self.compile(&layers, id, mode, conversation.map(Arc::as_ref)));
        let mut kept = kept();
        if kept.len() >= MAXIMUM_KEPT {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&compiled));
        compiled
    }

    fn compile(
        &self,
        layers: &Layers,
        id: &str,
        mode: Mode,
        conversation: Option<&PolicyDocument>,
    ) -> Compiled {
        let mut ignored = layers.ignored.clone();
        let conversation =
            conversation.filter(|document| match document.check(DocumentScope::Conversation) {
                Ok(()) => true,
                Err(error) => {
                    ignored.push(IgnoredDocument::new(
                        DocumentScope::Conversation,
                        "permissions",
                        error.to_string(),
                    ));
                    false
                }
            });
        let built = self.select(id, mode).and_then(|set| {
            let mut builder = PolicyBuilder::new(set);
            if let Some(document) = &layers.user {
                builder = builder.user(document);
            }
            if let Some(document) = &layers.project {
                builder = builder.project(document);
            }
            if let Some(document) = conversation {
                builder = builder.conversation(document);
            }
            builder.build().map_err(|error| error.to_string())
        });
        match built {
            Ok(policy) => Compiled { policy: Arc::new(policy), ignored, fallback: None },
            Err(reason) => {
                let guardrails =
                    layers.user.as_ref().and_then(|user| PolicyBuilder::baseline().user(user).build().ok());
                let policy = PolicyBuilder::baseline().build().unwrap_or_else(|_| Policy::empty());
                Compiled { policy: Arc::new(policy), ignored, fallback: Some((reason, guardrails)) }
            }
        }
    }

    fn judge(&self, call: &ProposedCall) -> Evaluation {
        let compiled = self.compiled(&call.rule_set, call.mode, call.conversation_document.as_ref());
        let resolved = match self.resolver.resolve(call) {
            Ok(resolved) => resolved,
            Err(error) => return Evaluation::new(closed(call, &compiled.policy, error.to_string())),
        };
        let mut evidence = evidence(call, &compiled, &resolved);
        if let Some(coding) = &call.until_confirmed
            && !is_planning(&resolved)
        {
            let other = self.compiled(coding, Mode::Coding, call.conversation_document.as_ref());
            let other = self::evidence(call, &other, &resolved);
            let stricter = evidence.decision.stricter(other.decision);
            if stricter != evidence.decision {
                evidence.decision = stricter;
                evidence.reason =
                    format!("{}; planning is not confirmed, so {}", evidence.reason, other.reason);
                evidence.suggestions = Vec::new();
                evidence.until_confirmed = Some(Box::new(other));
            }
        }
        let targets = if evidence.decision == Decision::Deny {
            Vec::new()
        } else {
            decided(&compiled.policy, &resolved)
        };
        Evaluation::new(evidence).targets(targets)
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

fn evidence(call: &ProposedCall, compiled: &Compiled, resolved: &ResolvedCall) -> Evidence {
    let mut evidence = compiled.policy.decide(resolved).evidence();
    evidence.selected_rule_set.clone_from(&call.rule_set);
    evidence.ignored_documents.clone_from(&compiled.ignored);
    if let Some((reason, guardrails)) = &compiled.fallback {
        let would_deny =
            guardrails.as_ref().map(|policy| policy.denying_guardrails(resolved)).unwrap_or_default();
        evidence.reason = format!("{reason}, so the baseline decides alone: {}", evidence.reason);
        evidence.suggestions = Vec::new();
        evidence.fallback = Some(Fallback { reason: reason.clone(), would_deny });
    }
    evidence
}

/// The evidence of a call that could not be judged.
fn closed(call: &ProposedCall, policy: &Policy, reason: String) -> Evidence {
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

fn decided(policy: &Arc<Policy>, resolved: &ResolvedCall) -> Vec<DecidedTarget> {
    let targets = resolved.targets.iter().zip(&resolved.means).enumerate();
    targets
        .map(|(index, (target, means))| {
            let mut decided = DecidedTarget::new(target.clone());
            decided.path.clone_from(&means.path);
            decided.url.clone_from(&means.url);
            decided.content.clone_from(&means.content);
            decided.entries = EntryFilter::new(policy, resolved, index);
            decided
        })
        .collect()
}

impl PermissionEngine for RuleEngine {
    fn evaluate(&self, call: ProposedCall) -> Evaluation {
        catch_unwind(AssertUnwindSafe(|| self.judge(&call))).unwrap_or_else(|_| {
            let reason = "the evaluator failed, so the call is refused".to_owned();
            Evaluation::new(closed(&call, &Policy::empty(), reason))
        })
    }

    fn plan_grant(&self, grant: Grant) -> Result<DocumentChange, GrantError> {
        crate::grant::plan(grant)
    }

    fn rules(&self, query: RuleQuery) -> Vec<RuleEvidence> {
        let mode = self
            .find(&query.rule_set)
            .and_then(|set| set.compatible_modes.as_ref()?.first().copied())
            .unwrap_or(Mode::Coding);
        let compiled = self.compiled(&query.rule_set, mode, query.conversation_document.as_ref());
        let mut rules = compiled.policy.rules();
        rules.retain(|rule| query.source.is_none_or(|source| source == rule.source));
        rules
    }
}

impl fmt::Debug for RuleEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleEngine").field("resolver", &self.resolver).finish_non_exhaustive()
    }
}
