//! Judging calls, and the documents that would hold rules.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nervekit_permissions::{
    Decision, DocumentChange, DocumentError, DocumentId, DocumentState, Documents, Evaluation, Evidence,
    Grant, GrantError, PermissionEngine, ProposedCall, Risk, RuleEvidence, RuleQuery, StoredDocument, Trust,
    TrustRecord, TrustStore,
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
pub struct Cabinet(Mutex<BTreeMap<DocumentId, Arc<DocumentState>>>);

impl Cabinet {
    fn state(bytes: &[u8]) -> Arc<DocumentState> {
        let document = StoredDocument::new(bytes).trust(Trust::Trusted);
        Arc::new(DocumentState::new("the cabinet").current(document.clone()).last_accepted(document))
    }

    fn expect(&self, id: &DocumentId, expected: Option<Digest>) -> Result<(), DocumentError> {
        let current = self.look(id).current.as_ref().map(|document| document.digest);
        if current == expected {
            return Ok(());
        }
        Err(DocumentError::Changed { current: current.map(Box::new) })
    }
}

#[async_trait]
impl Documents for Cabinet {
    async fn read(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
        Ok(self.look(id))
    }

    fn look(&self, id: &DocumentId) -> Arc<DocumentState> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(id).cloned().unwrap_or_else(|| Arc::new(DocumentState::new("the cabinet")))
    }

    async fn replace(
        &self,
        id: &DocumentId,
        expected: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Digest, DocumentError> {
        self.expect(id, expected)?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(id.clone(), Self::state(bytes));
        Ok(Digest::of(bytes))
    }

    async fn trust(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        self.expect(id, Some(digest))
    }

    async fn reject(&self, _id: &DocumentId, _digest: Digest) -> Result<(), DocumentError> {
        Err(DocumentError::Unsupported)
    }

    async fn forget(&self, _id: &DocumentId) -> Result<(), DocumentError> {
        Err(DocumentError::Unsupported)
    }
}

/// Decisions about documents, in memory.
#[derive(Debug, Default)]
pub struct Notary(Mutex<BTreeMap<DocumentId, TrustRecord>>);

#[async_trait]
impl TrustStore for Notary {
    async fn read(&self, id: &DocumentId) -> Result<Option<TrustRecord>, DocumentError> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned())
    }

    async fn replace(&self, id: &DocumentId, record: TrustRecord) -> Result<(), DocumentError> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if record.revision != kept.get(id).map_or(0, |known| known.revision) + 1 {
            return Err(DocumentError::Changed { current: None });
        }
        kept.insert(id.clone(), record);
        Ok(())
    }
}
