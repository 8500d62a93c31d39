//! A document with permission rules.

use std::sync::Arc;

use nervekit_permissions::DocumentStatus;
use nervekit_types::{CommandId, Digest, IdSource, Principal, SystemIds};

use super::unexpected;
use crate::command::{Command, CommandOutcome, CommandRequest, PolicyOwner};
use crate::error::{CommandError, QueryError};
use crate::port::Conversations;
use crate::query::{Query, View};

/// A document with permission rules, and the API it is reached by: the user's, a project's, or a conversation's.
///
/// A version that somebody else than this program wrote counts when a person accepts its digest. Show the person what
/// [`status`](Self::status) says, and pass on the digest that was shown.
///
/// ```
/// use nervekit_conversation_core::PolicyHandle;
/// use nervekit_permissions::Standing;
/// async fn accept(policy: &PolicyHandle, ask: impl Fn(&str) -> bool) -> Result<(), Box<dyn std::error::Error>> {
///     let status = policy.status().await?;
///     let automatic: Vec<&str> = status.automatic.iter().map(|rule| &*rule.summary).collect();
///     if let (Standing::Untrusted | Standing::Changed, Some(digest)) = (status.standing, status.digest)
///         && ask(&format!("let these run without asking? {}", automatic.join("; ")))
///     {
///         policy.trust(digest).await?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct PolicyHandle {
    api: Arc<dyn Conversations>,
    ids: Arc<dyn IdSource>,
    owner: PolicyOwner,
    principal: Principal,
}

impl PolicyHandle {
    /// The document of this owner.
    #[must_use]
    pub fn new(api: Arc<dyn Conversations>, owner: PolicyOwner) -> Self {
        Self { api, ids: Arc::new(SystemIds::default()), owner, principal: Principal::local() }
    }

    /// Says who gives the commands that follow.
    #[must_use]
    pub fn by(mut self, principal: Principal) -> Self {
        self.principal = principal;
        self
    }

    /// Whether it counts, what of it runs without asking, and how it differs from the version accepted last.
    ///
    /// ```
    /// # use nervekit_conversation_core::{PolicyHandle, QueryError};
    /// async fn problem(policy: &PolicyHandle) -> Result<Option<String>, QueryError> {
    ///     Ok(policy.status().await?.problem)
    /// }
    /// ```
    pub async fn status(&self) -> Result<DocumentStatus, QueryError> {
        match self.api.query(Query::PolicyStatus { owner: self.owner }).await? {
            View::PolicyStatus(status) => Ok(*status),
            other => Err(unexpected(&other)),
        }
    }

    /// Accepts the version that was shown; if something else is there by now, nothing is accepted.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, PolicyHandle};
    /// # use nervekit_types::Digest;
    /// async fn accept(policy: &PolicyHandle, shown: Digest) -> Result<(), CommandError> {
    ///     policy.trust(shown).await
    /// }
    /// ```
    pub async fn trust(&self, digest: Digest) -> Result<(), CommandError> {
        match self.command(Command::TrustPolicy { owner: self.owner, digest }).await? {
            CommandOutcome::PolicyTrusted => Ok(()),
            other => Err(answered(&other)),
        }
    }

    /// Refuses a version from now on. What it restricts stays, if it was accepted before.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, PolicyHandle};
    /// # use nervekit_types::Digest;
    /// async fn refuse(policy: &PolicyHandle, shown: Digest) -> Result<(), CommandError> {
    ///     policy.reject(shown).await
    /// }
    /// ```
    pub async fn reject(&self, digest: Digest) -> Result<(), CommandError> {
        match self.command(Command::RejectPolicy { owner: self.owner, digest }).await? {
            CommandOutcome::PolicyRejected => Ok(()),
            other => Err(answered(&other)),
        }
    }

    /// Takes a rule out, such as one that remembers an answer; says whether it was there. Calls that were decided by
    /// it keep their evidence.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, PolicyHandle};
    /// async fn forget(policy: &PolicyHandle) -> Result<bool, CommandError> {
    ///     policy.revoke("grant-1").await
    /// }
    /// ```
    pub async fn revoke(&self, rule: impl Into<String> + Send) -> Result<bool, CommandError> {
        match self.command(Command::RevokeRule { owner: self.owner, rule: rule.into() }).await? {
            CommandOutcome::RuleRevoked { found } => Ok(found),
            other => Err(answered(&other)),
        }
    }

    async fn command(&self, command: Command) -> Result<CommandOutcome, CommandError> {
        let request =
            CommandRequest::new(CommandId::next(&self.ids), command).principal(self.principal.clone());
        Ok(self.api.command(request).await?.outcome)
    }
}

fn answered(outcome: &CommandOutcome) -> CommandError {
    CommandError::invalid(format!("the command was answered with `{}`", outcome.kind()))
}
