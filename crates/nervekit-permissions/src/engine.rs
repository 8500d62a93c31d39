//! The port through which calls are judged.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::call::ProposedCall;
use crate::canonical::CanonicalTarget;
use crate::decision::Decision;
use crate::document::PolicyDocument;
use crate::error::GrantError;
use crate::evidence::{Evidence, RuleEvidence, RuleSource};
use crate::grant::{DocumentChange, Grant};
use crate::path::DecidedPath;
use crate::policy::{EntryFilter, Policy};
use crate::url::DecidedUrl;

/// A target that was decided, with the means to use it.
///
/// ```
/// use nervekit_permissions::{CanonicalTarget, DecidedTarget};
/// let target: CanonicalTarget = serde_json::from_str(r#"{"argument": null, "subject": "whole_tool"}"#)?;
/// assert!(DecidedTarget::new(target).path.is_none());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DecidedTarget {
    /// The target.
    pub target: CanonicalTarget,
    /// The file or folder, for a path target. Nothing is opened before it is used.
    pub path: Option<DecidedPath>,
    /// The URL, for a URL target.
    pub url: Option<DecidedUrl>,
    /// Which entries of a tree may be opened; `None` when all may.
    pub entries: Option<EntryFilter>,
    /// The bytes whose SHA-256 was judged, when an approval binds the content.
    pub content: Option<Arc<[u8]>>,
}

impl DecidedTarget {
    /// Wraps a target without any means.
    #[must_use]
    pub fn new(target: CanonicalTarget) -> Self {
        Self { target, path: None, url: None, entries: None, content: None }
    }

    /// Sets the file or folder.
    #[must_use]
    pub fn path(mut self, path: DecidedPath) -> Self {
        self.path = Some(path);
        self
    }

    /// Sets the URL.
    #[must_use]
    pub fn url(mut self, url: DecidedUrl) -> Self {
        self.url = Some(url);
        self
    }

    /// Sets which entries of a tree may be opened.
    #[must_use]
    pub fn entries(mut self, filter: EntryFilter) -> Self {
        self.entries = Some(filter);
        self
    }

    /// Sets the bytes that were judged.
    #[must_use]
    pub fn content(mut self, content: impl Into<Arc<[u8]>>) -> Self {
        self.content = Some(content.into());
        self
    }
}

/// The answer to a call.
///
/// ```
/// use nervekit_permissions::{Decision, Evaluation, Evidence, Risk};
/// use nervekit_types::Digest;
/// let evidence = Evidence::new(Decision::Deny, "never", Risk::Read, Digest::of("{}"), "none", Digest::of(""));
/// let evaluation = Evaluation::new(evidence);
/// assert_eq!(evaluation.decision(), Decision::Deny);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Evaluation {
    /// Why; it holds the decision.
    pub evidence: Arc<Evidence>,
    /// What the call affects, with the means to use it.
    pub targets: Vec<DecidedTarget>,
    /// The policy that decided: the one whose digest [`Evidence::policy`] is. A host that wants to explain the call
    /// when the documents are gone stores its [bytes](Policy::to_bytes) once for each digest. `None` from an
    /// engine that has no such policy.
    pub policy: Option<Arc<Policy>>,
    /// The same for [`Evidence::until_confirmed`].
    pub policy_until_confirmed: Option<Arc<Policy>>,
}

impl Evaluation {
    /// Answers without targets.
    #[must_use]
    pub fn new(evidence: impl Into<Arc<Evidence>>) -> Self {
        Self { evidence: evidence.into(), targets: Vec::new(), policy: None, policy_until_confirmed: None }
    }

    /// Sets the targets.
    #[must_use]
    pub fn targets(mut self, targets: Vec<DecidedTarget>) -> Self {
        self.targets = targets;
        self
    }

    /// Sets the policy that decided.
    #[must_use]
    pub fn policy(mut self, policy: impl Into<Arc<Policy>>) -> Self {
        self.policy = Some(policy.into());
        self
    }

    /// Sets the policy of the coding rule set, when its evidence stands in [`Evidence::until_confirmed`].
    #[must_use]
    pub fn policy_until_confirmed(mut self, policy: impl Into<Arc<Policy>>) -> Self {
        self.policy_until_confirmed = Some(policy.into());
        self
    }

    /// Returns the decision.
    pub fn decision(&self) -> Decision {
        self.evidence.decision
    }

    /// Returns the first target that came from this argument.
    #[must_use]
    pub fn target(&self, argument: &str) -> Option<&DecidedTarget> {
        self.targets.iter().find(|target| target.target.argument() == Some(argument))
    }
}

/// Which rules to list.
///
/// ```
/// use nervekit_permissions::{RuleQuery, RuleSource};
/// let query = RuleQuery::new("supervised").source(RuleSource::User);
/// assert_eq!(query.rule_set, "supervised");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RuleQuery {
    /// The selected rule set.
    pub rule_set: String,
    /// Only rules from here.
    pub source: Option<RuleSource>,
    /// The project whose rules count; that of the engine when absent.
    pub project: Option<PathBuf>,
    /// The rules of the conversation.
    pub conversation_document: Option<Arc<PolicyDocument>>,
}

impl RuleQuery {
    /// Asks for all rules under a rule set.
    #[must_use]
    pub fn new(rule_set: impl Into<String>) -> Self {
        Self { rule_set: rule_set.into(), source: None, project: None, conversation_document: None }
    }

    /// Asks for rules from one source.
    #[must_use]
    pub fn source(mut self, source: RuleSource) -> Self {
        self.source = Some(source);
        self
    }

    /// Sets the project.
    #[must_use]
    pub fn project(mut self, folder: impl Into<PathBuf>) -> Self {
        self.project = Some(folder.into());
        self
    }

    /// Adds the rules of a conversation.
    #[must_use]
    pub fn conversation_document(mut self, document: impl Into<Arc<PolicyDocument>>) -> Self {
        self.conversation_document = Some(document.into());
        self
    }
}

/// Judges tool calls.
///
/// **Contract.** `evaluate` always answers: what cannot be judged is denied, with the reason in the evidence.
/// It never allows because of a fault of its own, and never panics. It may touch the file system, so callers
/// run it where blocking is allowed; it does not wait for anything else. The same call under the same rules
/// gives the same evidence. `plan_grant` changes nothing: it says what to write. `rules` lists what is in
/// force, the strongest first.
///
/// ```
/// use nervekit_permissions::{
///     Decision, DocumentChange, Evaluation, Evidence, Grant, GrantError, PermissionEngine, ProposedCall,
///     RuleEvidence, RuleQuery,
/// };
/// use nervekit_types::Digest;
///
/// #[derive(Debug)]
/// struct Closed;
/// impl PermissionEngine for Closed {
///     fn evaluate(&self, call: ProposedCall) -> Evaluation {
///         Evaluation::new(Evidence::new(
///             Decision::Deny,
///             "this host runs no tools",
///             call.descriptor.base_risk,
///             call.arguments.digest(),
///             call.rule_set,
///             Digest::of("closed"),
///         ))
///     }
///     fn plan_grant(&self, _grant: Grant) -> Result<DocumentChange, GrantError> {
///         Err(GrantError::NotRememberable)
///     }
///     fn rules(&self, _query: RuleQuery) -> Vec<RuleEvidence> {
///         Vec::new()
///     }
/// }
/// let engine: Box<dyn PermissionEngine> = Box::new(Closed);
/// assert!(engine.rules(RuleQuery::new("supervised")).is_empty());
/// ```
pub trait PermissionEngine: Debug + Send + Sync + 'static {
    /// Judges a call.
    fn evaluate(&self, call: ProposedCall) -> Evaluation;

    /// Says what to write so that an answer is remembered.
    fn plan_grant(&self, grant: Grant) -> Result<DocumentChange, GrantError>;

    /// Lists the rules in force, the strongest first.
    fn rules(&self, query: RuleQuery) -> Vec<RuleEvidence>;
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[deny(clippy::missing_trait_methods)]
        impl<P: PermissionEngine + ?Sized> PermissionEngine for $pointer<P> {
            fn evaluate(&self, call: ProposedCall) -> Evaluation {
                (**self).evaluate(call)
            }
            fn plan_grant(&self, grant: Grant) -> Result<DocumentChange, GrantError> {
                (**self).plan_grant(grant)
            }
            fn rules(&self, query: RuleQuery) -> Vec<RuleEvidence> {
                (**self).rules(query)
            }
        }
    )*};
}

forward!(Arc, Box);
const _: fn(&dyn PermissionEngine) = |_| ();
