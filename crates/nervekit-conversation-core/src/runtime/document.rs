//! The documents outside of the store that hold permission rules: the user's, and those of projects.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nervekit_permissions::{
    DocumentError, DocumentId, DocumentOwner, DocumentState, DocumentStatus, Documents, GrantError,
    GrantScope, IgnoredDocument, PolicyDocuments, StoredDocument, Trust, builtin_rule_sets,
};
use nervekit_types::ConversationId;

use super::core::Inner;
use super::plan::{self, Keeps, PERMISSIONS};
use crate::command::{Command, CommandOutcome, PolicyOwner};
use crate::error::{CommandError, QueryError, Subject};
use crate::interaction::{Remembered, Resolution};
use crate::tool_call::ToolCall;

/// The documents of a user and of projects, as a host gave them.
#[derive(Debug)]
pub(crate) struct OutsideDocuments {
    documents: Arc<dyn Documents>,
    policy: PolicyDocuments,
    user: DocumentOwner,
    /// Whether nothing is kept of the user, as turned out when their document was read.
    userless: AtomicBool,
    /// What was there when a document was read last.
    read: Mutex<HashMap<DocumentId, Arc<DocumentState>>>,
}

impl OutsideDocuments {
    pub(crate) fn new(documents: Arc<dyn Documents>, user: DocumentOwner) -> Self {
        let policy = PolicyDocuments::new(documents.clone());
        Self { documents, policy, user, userless: AtomicBool::new(false), read: Mutex::default() }
    }

    /// The documents of a call that have to be read first, so that what was decided about them is known: a permission
    /// engine only looks at them. What did not change since it was read need not be read again.
    pub(crate) fn unread<'a>(
        &self,
        project: Option<&Path>,
        rule_sets: impl IntoIterator<Item = &'a str>,
    ) -> Vec<DocumentId> {
        let own = |set: &&str| !builtin_rule_sets().iter().any(|known| known.id == *set);
        let sets = rule_sets.into_iter().filter(own);
        let sets = sets.map(|set| DocumentId::new(self.user.clone(), format!("rule-sets/{set}")));
        let project = project.map(|folder| DocumentOwner::Project(folder.to_owned()));
        let permissions =
            [Some(self.user.clone()), project].into_iter().flatten().map(DocumentId::permissions);
        let mut documents: Vec<DocumentId> = permissions.chain(sets).collect();
        documents.retain(|id| {
            let there = self.documents.look(id);
            self.known().get(id).is_none_or(|known| !Arc::ptr_eq(known, &there) && *known != there)
        });
        documents
    }

    /// Reads documents, and what was decided about them.
    pub(crate) async fn read(&self, documents: Vec<DocumentId>) -> Result<(), DocumentError> {
        for id in documents {
            let state = match self.documents.read(&id).await {
                Ok(state) => state,
                // What this port keeps nothing of is nothing to wait for.
                Err(DocumentError::Unsupported) => {
                    self.userless.fetch_or(id.owner == self.user, Ordering::Relaxed);
                    self.documents.look(&id)
                }
                Err(error) => return Err(error),
            };
            self.known().insert(id, state);
        }
        Ok(())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<DocumentId, Arc<DocumentState>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Where an answer can be remembered in a project.
    pub(crate) fn keeps(&self, project: Option<&Path>) -> Keeps {
        self.documents.as_ref().map_or_else(Keeps::default, |outside| Keeps {
            user: !outside.userless.load(Ordering::Relaxed),
            project: project.is_some(),
        })
    }

    /// What is wrong with the documents that calls of a project are judged by.
    pub(crate) async fn policy_problems(&self, project: Option<&Path>) -> Vec<IgnoredDocument> {
        let Some(outside) = &self.documents else { return Vec::new() };
        let owners =
            [Some(outside.user.clone()), project.map(|folder| DocumentOwner::Project(folder.to_owned()))];
        let mut problems = Vec::new();
        for owner in owners.into_iter().flatten() {
            match outside.policy.problems(&owner).await {
                Ok(found) => problems.extend(found),
                Err(DocumentError::Unsupported) => {}
                Err(error) => {
                    problems.push(IgnoredDocument::new(owner.scope(), PERMISSIONS, error.to_string()));
                }
            }
        }
        problems
    }

    /// Saves the rule that a person's answer asks for. Saving it twice is harmless.
    pub(crate) async fn remember(&self, call: &ToolCall, project: Option<&Path>) -> Remembered {
        let saved = tokio::time::timeout(self.limits.permission_time, self.save(call, project)).await;
        match saved {
            Ok(Ok(rule)) => Remembered::Saved { rule },
            Ok(Err(problem)) => Remembered::Failed { problem },
            Err(_) => Remembered::Failed {
                problem: "saving the rule took too long; it may be there yet".to_owned(),
            },
        }
    }

    async fn save(&self, call: &ToolCall, project: Option<&Path>) -> Result<String, String> {
        let gone = || "there is no document to keep it in any more".to_owned();
        let outside = self.documents.as_ref().ok_or_else(gone)?;
        let (resolved, rule) = call.unsaved().ok_or_else(gone)?;
        let (Resolution::Approve { remember: Some(how), .. } | Resolution::Deny { remember: Some(how), .. }) =
            &resolved.resolution
        else {
            return Err(gone());
        };
        let owner = match how.scope {
            GrantScope::User => outside.user.clone(),
            _ => DocumentOwner::Project(project.ok_or_else(gone)?.to_owned()),
        };
        let grant = plan::grant(call, rule, how, &resolved.resolution).ok_or_else(gone)?;
        match outside.policy.save(&*self.permissions, &owner, &grant).await {
            Ok(Some(saved)) => Ok(saved.rule),
            Ok(None) => Err("the permission engine has nothing to write".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Carries out a command about a document outside of the store.
    pub(crate) async fn decide_document(&self, command: &Command) -> Result<CommandOutcome, CommandError> {
        match command {
            Command::TrustPolicy { owner, digest } => {
                let (outside, owner) = self.outside(*owner).await?;
                outside.policy.trust(&owner, *digest).await.map_err(GrantError::from)?;
                Ok(CommandOutcome::PolicyTrusted)
            }
            Command::RejectPolicy { owner, digest } => {
                let (outside, owner) = self.outside(*owner).await?;
                outside.policy.reject(&owner, *digest).await.map_err(GrantError::from)?;
                Ok(CommandOutcome::PolicyRejected)
            }
            Command::AcceptAbsence { owner } => {
                let (outside, owner) = self.outside(*owner).await?;
                outside.policy.accept_absence(&owner).await.map_err(GrantError::from)?;
                Ok(CommandOutcome::AbsenceAccepted)
            }
            Command::RevokeRule { owner, rule } => {
                let (outside, owner) = self.outside(*owner).await?;
                let revoked = outside.policy.revoke(&owner, rule).await?;
                Ok(CommandOutcome::RuleRevoked { found: revoked.is_some() })
            }
            _ => Err(CommandError::invalid("this command needs a conversation")),
        }
    }

    async fn outside(&self, owner: PolicyOwner) -> Result<(&OutsideDocuments, DocumentOwner), CommandError> {
        let none = "this core keeps no documents of users and projects; set it up with `documents`";
        let outside = self.documents.as_ref().ok_or_else(|| CommandError::invalid(none))?;
        let owner = match owner {
            PolicyOwner::User => outside.user.clone(),
            PolicyOwner::Project(id) => {
                let project = self.store.project(id).await?;
                let project = project.ok_or(CommandError::NotFound(Subject::Project(id)))?.value;
                let folder = project.directory;
                DocumentOwner::Project(folder.ok_or_else(|| {
                    CommandError::invalid("the project has no folder, so it has no document with rules")
                })?)
            }
            PolicyOwner::Conversation(_) => {
                let words = "the rules of a conversation are in force as they are: revoke single ones";
                return Err(CommandError::invalid(words));
            }
        };
        Ok((outside, owner))
    }

    /// Whether a document counts, and what of it does or would do.
    pub(crate) async fn policy_status(&self, owner: PolicyOwner) -> Result<DocumentStatus, QueryError> {
        if let PolicyOwner::Conversation(id) = owner {
            return self.conversation_status(id).await;
        }
        let (outside, owner) = self.outside(owner).await.map_err(|error| match error {
            CommandError::NotFound(subject) => QueryError::NotFound(subject),
            CommandError::Store(error) => QueryError::Store(error),
            other => QueryError::Invalid(other.to_string().into()),
        })?;
        Ok(outside.policy.status(&owner).await.map_err(Box::new)?)
    }

    async fn conversation_status(&self, id: ConversationId) -> Result<DocumentStatus, QueryError> {
        let rows = self.store.load(id).await?.ok_or(QueryError::NotFound(Subject::Conversation(id)))?;
        let mut state = DocumentState::new("the conversation");
        if let Some(document) = rows.documents.get(PERMISSIONS) {
            state = state.current(StoredDocument::new(&document.value[..]).trust(Trust::Trusted));
        }
        Ok(DocumentStatus::of(DocumentId::permissions(DocumentOwner::Conversation(id)), &state))
    }
}
