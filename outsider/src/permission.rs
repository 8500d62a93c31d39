//! Judging calls, and the documents that would hold rules.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nervekit_permissions::{
    Decision, DocumentChange, DocumentError, DocumentId, Documents, Evaluation, Evidence, Grant, GrantError,
    PermissionEngine, ProposedCall, Risk, RuleEvidence, RuleQuery, StoredDocument,
};
use nervekit_types::Digest;

/// Allows what reads and denies the rest. It knows no targets, so a tool that works on paths gets none.
#[derive(Debug)]
pub struct ReadersOnly;

impl PermissionEngine for ReadersOnly {
    fn evaluate(&self, call: ProposedCall) -> Evaluation {
        let (decision, reason) = match call.descriptor.base_risk {
            Risk::Read => (Decision::Allow, "it only reads"),
            _ => (Decision::Deny, "only tools that read are allowed here"),
        };
        let evidence = Evidence::new(
            decision,
            reason,
            call.descriptor.base_risk,
            call.arguments.digest(),
            call.rule_set,
            Digest::of("readers only"),
        );
        Evaluation::new(evidence.tool(&*call.descriptor.name))
    }

    fn plan_grant(&self, _grant: Grant) -> Result<DocumentChange, GrantError> {
        Err(GrantError::NotRememberable)
    }

    fn rules(&self, _query: RuleQuery) -> Vec<RuleEvidence> {
        Vec::new()
    }
}

/// Keeps documents in memory. Nobody can change one but through this port, so all are accepted.
#[derive(Debug, Default)]
pub struct Cabinet(Mutex<BTreeMap<DocumentId, Arc<[u8]>>>);

impl Cabinet {
    fn current(&self, id: &DocumentId) -> Option<StoredDocument> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(id).map(|bytes| StoredDocument::new(Arc::clone(bytes)).trusted(true))
    }
}

#[async_trait]
impl Documents for Cabinet {
    async fn read(&self, id: &DocumentId) -> Result<Option<StoredDocument>, DocumentError> {
        Ok(self.current(id))
    }

    async fn replace(
        &self,
        id: &DocumentId,
        expected: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Digest, DocumentError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = kept.get(id).map(Digest::of);
        if current != expected {
            return Err(DocumentError::Changed { current: current.map(Box::new) });
        }
        kept.insert(id.clone(), bytes.into());
        Ok(Digest::of(bytes))
    }

    async fn trust(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        match self.current(id).map(|document| document.digest) {
            Some(current) if current == digest => Ok(()),
            current => Err(DocumentError::Changed { current: current.map(Box::new) }),
        }
    }

    async fn last_accepted(&self, id: &DocumentId) -> Result<Option<StoredDocument>, DocumentError> {
        Ok(self.current(id))
    }
}
