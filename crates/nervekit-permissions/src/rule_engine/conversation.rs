//! The documents of conversations, which come along with calls.

use std::sync::{Arc, Mutex, Weak};

use nervekit_types::Digest;

use super::layers::locked;
use super::recent::Recent;
use crate::document::{CheckedDocument, DocumentScope, PolicyDocument};
use crate::evidence::IgnoredDocument;

/// The most documents that are kept.
const MAXIMUM_KEPT: usize = 256;

/// The document of a conversation, checked.
pub(super) struct Conversation {
    /// The SHA-256 of the document as JSON.
    pub(super) digest: Digest,
    pub(super) checked: Result<CheckedDocument, IgnoredDocument>,
}

impl Conversation {
    fn new(document: &PolicyDocument, digest: Digest) -> Self {
        let scope = DocumentScope::Conversation;
        let checked = document
            .checked(scope)
            .map_err(|error| IgnoredDocument::new(scope, "permissions", error.to_string()));
        Self { digest, checked }
    }
}

/// While the `Weak` is kept, no other document gets the address of this one, and nobody can change it there.
type Addressed = (Weak<PolicyDocument>, Arc<Conversation>);

/// The documents that came along lately.
pub(super) struct Conversations {
    /// By address: most calls bring along the very document that the call before did.
    by_address: Mutex<Recent<usize, Addressed>>,
    by_digest: Mutex<Recent<Digest, Arc<Conversation>>>,
}

impl Conversations {
    pub(super) fn new() -> Self {
        let (by_address, by_digest) = (Recent::new(MAXIMUM_KEPT), Recent::new(MAXIMUM_KEPT));
        Self { by_address: Mutex::new(by_address), by_digest: Mutex::new(by_digest) }
    }

    pub(super) fn checked(&self, document: &Arc<PolicyDocument>) -> Arc<Conversation> {
        let address = Arc::as_ptr(document).addr();
        if let Some((_, known)) = locked(&self.by_address).get(&address) {
            return known;
        }
        // Documents are plain data; turning one into text does not fail.
        let digest = Digest::of(serde_json::to_vec(document).unwrap_or_default());
        let known = locked(&self.by_digest).get(&digest);
        let conversation = known.unwrap_or_else(|| {
            let conversation = Arc::new(Conversation::new(document, digest));
            locked(&self.by_digest).insert(digest, Arc::clone(&conversation));
            conversation
        });
        let known = (Arc::downgrade(document), Arc::clone(&conversation));
        locked(&self.by_address).insert(address, known);
        conversation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decision, Overlay, Rule};

    fn document(decision: Decision) -> Arc<PolicyDocument> {
        Arc::new(PolicyDocument::new().overlay(Overlay::new("supervised").rule(Rule::new("a", decision))))
    }

    #[test]
    fn a_document_is_known_by_its_address_and_by_its_content() {
        let conversations = Conversations::new();
        let first = document(Decision::Allow);
        let checked = conversations.checked(&first);
        assert!(Arc::ptr_eq(&checked, &conversations.checked(&Arc::clone(&first))));
        assert!(Arc::ptr_eq(&checked, &conversations.checked(&document(Decision::Allow))));
        assert!(!Arc::ptr_eq(&checked, &conversations.checked(&document(Decision::Deny))));
    }

    #[test]
    fn a_document_is_never_taken_for_one_that_was_at_its_address() {
        let conversations = Conversations::new();
        for number in 0..4 * MAXIMUM_KEPT {
            let decision = [Decision::Allow, Decision::Prompt, Decision::Deny][number % 3];
            // Each is dropped before the next one is made.
            let checked = conversations.checked(&document(decision));
            let rules = checked.checked.as_ref().unwrap().overlay("supervised");
            assert_eq!(rules[0].rule.decision, decision, "document {number}");
        }
    }

    #[test]
    fn a_document_that_is_changed_where_it_lies_gets_another_address() {
        let conversations = Conversations::new();
        let mut mine = document(Decision::Allow);
        let before = conversations.checked(&mine);
        Arc::make_mut(&mut mine).overlays[0].rules[0].decision = Decision::Deny;
        assert!(!Arc::ptr_eq(&before, &conversations.checked(&mine)));
    }
}
