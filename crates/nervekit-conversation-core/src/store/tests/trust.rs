use nervekit_permissions::{DocumentError, DocumentId, DocumentOwner, TrustRecord, TrustStore};
use nervekit_types::Digest;

use super::*;

fn record(revision: u64, bytes: &[u8]) -> TrustRecord {
    let mut record = TrustRecord::new();
    record.revision = revision;
    record.accepted = vec![Digest::of(bytes)];
    record.rejected = vec![Digest::of("refused")];
    record.last_accepted = Some(Arc::from(bytes));
    record
}

fn owners() -> [DocumentOwner; 5] {
    [
        DocumentOwner::User(None),
        DocumentOwner::User(Some(String::new())),
        DocumentOwner::Project("/srv/site".into()),
        DocumentOwner::Project("/srv/site/a".into()),
        DocumentOwner::Conversation(ConversationId::from_key("a")),
    ]
}

#[tokio::test]
async fn what_was_decided_is_found_again_per_owner_and_name() {
    let backend = Arc::new(MemoryBackend::new());
    let trust = StoredTrust::open(backend.clone()).await.unwrap();
    let mut expected = Vec::new();
    for owner in owners() {
        for name in ["permissions", "subagents", "rule-sets/permissions"] {
            let id = DocumentId::new(owner.clone(), name);
            assert_eq!(trust.read(&id).await.unwrap(), None);
            // Bytes of any kind.
            let bytes = [&[0xff, 0x00][..], format!("{owner:?} {name}").as_bytes()].concat();
            trust.replace(&id, record(1, &bytes)).await.unwrap();
            expected.push((id, bytes));
        }
    }
    let reopened = StoredTrust::open(backend).await.unwrap();
    for (id, bytes) in &expected {
        assert_eq!(reopened.read(id).await.unwrap(), Some(record(1, bytes)), "{id:?}");
    }
    let (id, _) = &expected[0];
    let mut forgotten = record(2, b"");
    forgotten.last_accepted = None;
    reopened.replace(id, forgotten).await.unwrap();
    assert_eq!(trust.read(id).await.unwrap().unwrap().last_accepted, None);
}

#[tokio::test]
async fn of_two_who_decide_at_once_one_is_told() {
    let backend = Arc::new(MemoryBackend::new());
    let one = StoredTrust::open(backend.clone()).await.unwrap();
    let other = StoredTrust::open(backend).await.unwrap();
    let id = DocumentId::permissions(DocumentOwner::User(None));
    for revision in 1..20 {
        let both = tokio::join!(
            one.replace(&id, record(revision, b"one")),
            other.replace(&id, record(revision, b"other")),
        );
        let winners = [&both.0, &both.1].into_iter().filter(|result| result.is_ok()).count();
        assert_eq!(winners, 1, "{both:?}");
        let loser = both.0.and(both.1).unwrap_err();
        assert!(matches!(loser, DocumentError::Changed { .. }), "{loser}");
        assert_eq!(one.read(&id).await.unwrap().unwrap().revision, revision);
    }
    let skipped = one.replace(&id, record(99, b"")).await.unwrap_err();
    assert!(matches!(skipped, DocumentError::Changed { .. }), "{skipped}");
}

#[tokio::test]
async fn decisions_and_conversations_share_a_backend() {
    let world = World::new().await;
    let trust = StoredTrust::open(world.backend.clone()).await.unwrap();
    let id = DocumentId::permissions(DocumentOwner::Project("/srv/site".into()));
    trust.replace(&id, record(1, b"{}")).await.unwrap();
    let report = world.store.verify().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(world.another().await.stats().await.unwrap().conversations, 1);
}
