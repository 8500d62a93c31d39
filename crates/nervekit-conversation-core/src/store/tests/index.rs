use super::*;
use crate::backend::{BackendError, Maintenance, MaintenanceReport, Refused, Row, Table, WriteSet};
use crate::testing::{Fault, FaultBackend};

async fn places(store: &Store, from: u64) -> Vec<(u64, u64, u64)> {
    let (entries, _) = store.index_from(from, usize::MAX).await.unwrap();
    entries.into_iter().map(|(place, entry)| (place, entry.first, entry.last)).collect()
}

async fn end_of(store: &Store) -> u64 {
    store.index_from(0, usize::MAX).await.unwrap().1
}

#[tokio::test]
async fn each_batch_with_events_has_a_place() {
    let world = World::new().await;
    let mut rows = world.owned().await;
    assert_eq!(places(&world.store, 0).await, []);
    for length in [2, 0, 1] {
        let append = |draft: &mut Draft<'_>| {
            draft.put_todos(Vec::new());
            (0..length).for_each(|_| say(draft, world.next(), "note"));
        };
        world.own(&mut rows, append).await.unwrap();
    }
    assert_eq!(places(&world.store, 0).await, [(0, 0, 1), (1, 2, 2)]);
    assert_eq!(places(&world.store, 1).await, [(1, 2, 2)]);
    assert_eq!(end_of(&world.store).await, 2);
    let (entries, next) = world.store.index_from(0, 1).await.unwrap();
    assert_eq!((entries.len(), next), (1, 1));
    let entry = entries[0].1;
    assert_eq!(
        (entry.conversation_id, entry.lead, entry.project_id),
        (world.id, None, ProjectId::from_key("site"))
    );
    // It goes on after a reopening.
    let store = world.another().await;
    assert_eq!(end_of(&store).await, 2);
    assert_eq!(places(&store, 0).await, [(0, 0, 1), (1, 2, 2)]);
}

#[tokio::test]
async fn a_refused_batch_leaves_no_place_and_holds_nobody_up() {
    let world = World::new().await;
    let (mut rows, mut stale) = (world.owned().await, world.rows().await);
    world.own(&mut rows, |draft| say(draft, world.next(), "a")).await.unwrap();
    assert_eq!(conflict(world.own(&mut stale, |draft| say(draft, world.next(), "b")).await), "events");
    world.own(&mut rows, |draft| say(draft, world.next(), "c")).await.unwrap();
    let (entries, next) = world.store.index_from(0, 10).await.unwrap();
    assert_eq!(entries.iter().map(|(_, entry)| entry.first).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(next, end_of(&world.store).await);
}

#[tokio::test]
async fn two_stores_over_one_backend_do_not_take_the_same_place() {
    let world = World::new().await;
    let second = world.another().await;
    let other = ConversationId::from_key("b");
    world.create(other, ProjectId::from_key("site")).await;
    let mut rows = [world.rows().await, second.load(other).await.unwrap().unwrap()];
    for round in 0..20 {
        // Turns of one, then of the other, in runs of different lengths.
        let at = usize::from(round % 5 < 2);
        let store = [&world.store, &second][at];
        let mut draft = Draft::new(&rows[at], Role::Owner, world.clock.now());
        draft.append(note(world.next(), "note"));
        let mut batch = store.batch();
        batch.change(&rows[at], draft.finish()).unwrap();
        let mut committed = store.commit(&mut batch).await.unwrap();
        rows[at].apply(&mut committed);
    }
    let (entries, _) = world.another().await.index_from(0, usize::MAX).await.unwrap();
    assert_eq!(entries.len(), 20);
    for (id, count) in [(world.id, 12), (other, 8)] {
        let firsts: Vec<u64> = entries
            .iter()
            .filter(|(_, entry)| entry.conversation_id == id)
            .map(|(_, entry)| entry.first)
            .collect();
        assert_eq!(firsts, (0..count).collect::<Vec<u64>>(), "in the order in which they were committed");
    }
}

#[tokio::test]
async fn readers_stop_below_what_is_in_flight() {
    let backend = Arc::new(FaultBackend::new().fault_at(6, Fault::Slow(Duration::from_secs(60))));
    tokio::time::pause();
    let world = World::over(backend).await;
    world.create(ConversationId::from_key("b"), ProjectId::from_key("site")).await;
    let (rows, mut other) =
        (world.owned().await, world.store.load(ConversationId::from_key("b")).await.unwrap().unwrap());
    let mut slow = world.batch(&rows, Role::Owner, |draft| say(draft, world.next(), "slow"));
    let store = world.store.clone();
    let task = tokio::spawn(async move { store.commit(&mut slow).await.unwrap() });
    tokio::task::yield_now().await;
    let mut draft = Draft::new(&other, Role::Owner, world.clock.now());
    draft.append(note(world.next(), "fast"));
    let mut batch = world.store.batch();
    batch.change(&other, draft.finish()).unwrap();
    let mut committed = world.store.commit(&mut batch).await.unwrap();
    other.apply(&mut committed);
    // The later place is durable, the earlier one not yet: a reader that went on would never see it.
    if !task.is_finished() {
        assert_eq!(world.store.index_from(0, 10).await.unwrap(), (Vec::new(), 0));
    }
    task.await.unwrap();
    assert_eq!(places(&world.store, 0).await.len(), 2);
    assert_eq!(end_of(&world.store).await, 2);
}

#[tokio::test]
async fn a_commit_of_unknown_fate_holds_readers_up_only_until_the_store_answers() {
    for (fault, expected) in [(Fault::UnknownKept, 2), (Fault::UnknownLost, 1)] {
        let backend = Arc::new(FaultBackend::new().fault_at(5, fault));
        let world = World::over(backend.clone()).await;
        let rows = world.owned().await;
        let mut batch = world.batch(&rows, Role::Owner, |draft| say(draft, world.next(), "?"));
        // `applied` fails too: nobody knows.
        let silent = Store { backend: Arc::new(Silent(backend.clone())), ..world.store.clone() };
        let result = silent.commit(&mut batch).await;
        assert!(matches!(result, Err(CommitError::Unknown(_))), "{result:?}");
        assert_eq!(silent.index_from(0, 10).await.unwrap(), (Vec::new(), 0));
        // The batch is given up. Another one is committed, and readers get on as soon as the store answers.
        let mut rows = world.rows().await;
        world.own(&mut rows, |draft| say(draft, world.next(), "next")).await.unwrap();
        assert_eq!(silent.index_from(0, 10).await.unwrap(), (Vec::new(), 0));
        let (entries, next) = world.store.index_from(0, 10).await.unwrap();
        assert_eq!((entries.len(), next), (expected, 2));
        assert!(world.unfinished().await.is_empty());
    }
}

/// A backend that does not tell what was applied.
#[derive(Debug)]
struct Silent(Arc<FaultBackend>);

#[async_trait::async_trait]
impl Backend for Silent {
    async fn write(&self, sets: Vec<WriteSet>) -> Result<Vec<Result<CommitNumber, Refused>>, BackendError> {
        self.0.write(sets).await
    }

    async fn applied(&self, _: BatchId) -> Result<Option<CommitNumber>, BackendError> {
        Err(BackendError::unavailable("silent", "no answer"))
    }

    async fn get(&self, table: Table, key: &[u8]) -> Result<Option<Row>, BackendError> {
        self.0.get(table, key).await
    }

    async fn range(&self, ranges: Vec<Range>) -> Result<Vec<Vec<Row>>, BackendError> {
        self.0.range(ranges).await
    }

    async fn now(&self) -> Result<Timestamp, BackendError> {
        self.0.now().await
    }

    async fn maintain(&self, job: Maintenance) -> Result<MaintenanceReport, BackendError> {
        self.0.maintain(job).await
    }

    fn facts(&self) -> BackendFacts {
        self.0.facts()
    }
}
