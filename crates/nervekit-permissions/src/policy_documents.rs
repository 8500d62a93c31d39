//! The documents with permission rules: whether they count, and how a person changes them.

mod absence;
mod status;
mod words;

use std::sync::Arc;

use nervekit_types::Digest;
use serde::{Deserialize, Serialize};

pub use status::{BoundRule, DocumentStatus, Standing};

use crate::document::{DocumentScope, PolicyDocument, restrictions};
use crate::documents::{DocumentId, DocumentOwner, DocumentState, Documents, Trust};
use crate::engine::PermissionEngine;
use crate::error::{DocumentError, GrantError};
use crate::evidence::IgnoredDocument;
use crate::grant::{DocumentChange, Grant};
use crate::rule::Rule;
use crate::rule_engine::Layer;

/// How often a change is made anew because someone else was faster.
const MAXIMUM_ATTEMPTS: usize = 32;

/// A rule that was saved.
///
/// ```
/// use nervekit_permissions::SavedRule;
/// use nervekit_types::Digest;
/// assert_eq!(SavedRule::new("grant-1", Digest::of("{}")).rule, "grant-1");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SavedRule {
    /// Its id in the document.
    pub rule: String,
    /// The digest of the document that holds it.
    pub digest: Digest,
}

impl SavedRule {
    /// Names a rule.
    #[must_use]
    pub fn new(rule: impl Into<String>, digest: Digest) -> Self {
        Self { rule: rule.into(), digest }
    }
}

/// What a person sees of the documents with permission rules, and does with them.
///
/// Every change starts from what is there now, and is made anew when someone else was faster: nothing is lost. A
/// document that nobody accepted is never written, because writing it would accept the rest of it, too.
///
/// ```
/// use nervekit_permissions::{
///     Decision, DocumentOwner, MemoryDocuments, Overlay, PolicyDocument, PolicyDocuments, DocumentId, Rule, Standing, Filter,
/// };
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let project = DocumentOwner::Project("/work/project".into());
/// let cloned = PolicyDocument::new()
///     .overlay(Overlay::new("supervised").rule(Rule::new("a", Decision::Allow).when(Filter::new().tool("bash"))));
/// let files = MemoryDocuments::new();
/// files.edit(&DocumentId::permissions(project.clone()), Some(&serde_json::to_vec(&cloned)?));
/// let documents = PolicyDocuments::new(files);
///
/// let status = documents.status(&project).await?;
/// assert_eq!(status.standing, Standing::Untrusted);
/// assert_eq!(status.automatic[0].summary, "every `bash` command");
/// // A person saw this, and accepts exactly these bytes.
/// documents.trust(&project, status.digest.unwrap()).await?;
/// assert_eq!(documents.status(&project).await?.standing, Standing::Active);
/// assert_eq!(documents.revoke(&project, "a").await?.map(|rule| rule.rule.id).as_deref(), Some("a"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PolicyDocuments {
    documents: Arc<dyn Documents>,
}

impl PolicyDocuments {
    /// Works on these documents.
    #[must_use]
    pub fn new(documents: impl Documents) -> Self {
        Self { documents: Arc::new(documents) }
    }

    /// Says whether a document counts, what of it is or would be automatic, and what changed.
    pub async fn status(&self, owner: &DocumentOwner) -> Result<DocumentStatus, DocumentError> {
        let id = DocumentId::permissions(owner.clone());
        let state = self.documents.read(&id).await?;
        Ok(DocumentStatus::of(id, &state))
    }

    /// Says what is wrong with a document: why it does not count, or not as it is. Every evidence says the same.
    ///
    /// ```
    /// use nervekit_permissions::{DocumentId, DocumentOwner, MemoryDocuments, PolicyDocuments};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let files = MemoryDocuments::new();
    /// let project = DocumentOwner::Project("/work/project".into());
    /// files.edit(&DocumentId::permissions(project.clone()), Some(b"{ schemaVersion"));
    /// let problems = PolicyDocuments::new(files).problems(&project).await?;
    /// assert!(problems[0].reason.contains("line 1, column 3"), "{}", problems[0].reason);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn problems(&self, owner: &DocumentOwner) -> Result<Vec<IgnoredDocument>, DocumentError> {
        let state = self.documents.read(&DocumentId::permissions(owner.clone())).await?;
        Ok(Layer::problems(owner.scope(), &state))
    }

    /// Accepts the version that was shown. It fails when another one is there now, and when it cannot be read:
    /// nothing would be known of what it restricts.
    pub async fn trust(&self, owner: &DocumentOwner, digest: Digest) -> Result<(), DocumentError> {
        let id = DocumentId::permissions(owner.clone());
        let state = self.documents.read(&id).await?;
        if let Some(document) = state.current.as_ref().filter(|document| document.digest == digest) {
            PolicyDocument::parse(owner.scope(), &document.bytes)?;
        }
        self.documents.trust(&id, digest).await
    }

    /// Refuses a version from now on.
    pub async fn reject(&self, owner: &DocumentOwner, digest: Digest) -> Result<(), DocumentError> {
        self.documents.reject(&DocumentId::permissions(owner.clone()), digest).await
    }

    /// Lists the rules of a document that count or would count, with the rule sets that they are bound to.
    pub async fn rules(&self, owner: &DocumentOwner) -> Result<Vec<BoundRule>, DocumentError> {
        let state = self.documents.read(&DocumentId::permissions(owner.clone())).await?;
        let Some(document) = &state.current else { return Ok(Vec::new()) };
        Ok(status::bound(&PolicyDocument::parse(owner.scope(), &document.bytes)?).collect())
    }

    /// Saves an answer into the document of this owner; `None` when it counts once.
    ///
    /// The owner is of the grant's scope, and one whose document is kept here: files hold those of a person and of
    /// projects, and a host keeps those of conversations itself, by [`PermissionEngine::plan_grant`].
    ///
    /// It fails, and changes neither the document nor what is accepted, when the document is malformed or not
    /// accepted. The approval itself then still counts once.
    pub async fn save(
        &self,
        engine: &dyn PermissionEngine,
        owner: &DocumentOwner,
        grant: &Grant,
    ) -> Result<Option<SavedRule>, GrantError> {
        if let Some(scope) = grant.scope.document()
            && scope != owner.scope()
        {
            return Err(DocumentError::Unsupported.into());
        }
        self.change(owner, |document| {
            let mut grant = grant.clone();
            grant.document = document;
            Ok(match engine.plan_grant(grant)? {
                DocumentChange::Nothing => None,
                DocumentChange::Replace { document, rule, .. } => Some((*document, rule)),
            })
        })
        .await
        .map(|saved| saved.map(|(rule, digest)| SavedRule::new(rule, digest)))
    }

    /// Takes a rule out of a document and returns it; `None` when there is no such rule.
    pub async fn revoke(&self, owner: &DocumentOwner, rule: &str) -> Result<Option<BoundRule>, GrantError> {
        let revoked = self
            .change(owner, |document| {
                let Some(mut document) = document else { return Ok(None) };
                let bound = status::bound(&document).find(|bound| bound.rule.id == rule);
                document.remove(rule);
                Ok(bound.map(|bound| (document, bound)))
            })
            .await?;
        Ok(revoked.map(|(bound, _)| bound))
    }

    /// Writes what becomes of the document that is there, until nobody was faster.
    async fn change<T>(
        &self,
        owner: &DocumentOwner,
        change: impl Fn(Option<PolicyDocument>) -> Result<Option<(PolicyDocument, T)>, GrantError> + Send + Sync,
    ) -> Result<Option<(T, Digest)>, GrantError> {
        let id = DocumentId::permissions(owner.clone());
        for _ in 0..MAXIMUM_ATTEMPTS {
            let state = self.documents.read(&id).await?;
            let document = writable(owner.scope(), &state)?;
            let Some((document, outcome)) = change(document)? else { return Ok(None) };
            let mut bytes = serde_json::to_vec_pretty(&document)
                .map_err(crate::DocumentProblem::from)
                .map_err(DocumentError::from)?;
            bytes.push(b'\n');
            // What is written is what can be read again.
            PolicyDocument::parse(owner.scope(), &bytes)?;
            let expected = state.current.as_ref().map(|document| document.digest);
            match self.documents.replace(&id, expected, &bytes).await {
                Ok(digest) => return Ok(Some((outcome, digest))),
                Err(DocumentError::Changed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(DocumentError::Changed { current: None }.into())
    }
}

/// The document that a change may start from. One that is gone starts from what of it still restricts.
fn writable(scope: DocumentScope, state: &DocumentState) -> Result<Option<PolicyDocument>, GrantError> {
    let untrusted = |error: DocumentError| match scope {
        DocumentScope::Project => GrantError::ProjectDocumentUntrusted,
        DocumentScope::User | DocumentScope::Conversation => error.into(),
    };
    if let Some(problem) = &state.problem {
        return Err(untrusted(problem.clone().into()));
    }
    match (&state.current, &state.last_accepted) {
        (Some(document), _) => {
            let parsed = PolicyDocument::parse(scope, &document.bytes).map_err(untrusted)?;
            if document.trust != Trust::Trusted {
                let current = Box::new(document.digest);
                return Err(untrusted(DocumentError::Untrusted { current }));
            }
            Ok(Some(parsed))
        }
        (None, Some(last)) if last.trust == Trust::Undecided => {
            Err(untrusted(DocumentError::Untrusted { current: Box::new(last.digest) }))
        }
        (None, Some(last)) => {
            let last = PolicyDocument::parse(scope, &last.bytes)?;
            Ok(Some(restrictions(last)))
        }
        (None, None) => Ok(None),
    }
}

impl BoundRule {
    fn new(rule: &Rule, rule_set_id: Option<&str>) -> Self {
        Self {
            rule: rule.clone(),
            rule_set_id: rule_set_id.map(str::to_owned),
            summary: words::summary(&rule.when),
        }
    }
}
