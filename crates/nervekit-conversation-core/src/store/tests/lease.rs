use super::*;

fn other() -> IncarnationId {
    IncarnationId::from_key("other")
}

fn foreign(world: &World, rows: &Rows, me: IncarnationId) -> bool {
    let opening = world.store.facts().opening;
    rows.lease.as_ref().is_some_and(|lease| lease.value.is_foreign(me, opening, world.clock.now()))
}

#[tokio::test]
async fn a_lease_is_taken_when_absent_released_or_expired() {
    let world = World::new().await;
    let mut rows = world.rows().await;
    assert!(!foreign(&world, &rows, world.me), "absent");
    let lease = world.lease(&rows, world.me);
    assert_eq!(lease.epoch, 1);
    world.own(&mut rows, |draft| draft.hold_lease(lease)).await.unwrap();
    assert!(!foreign(&world, &rows, world.me), "its own");
    assert!(foreign(&world, &rows, other()), "held");

    world
        .own(&mut rows, |draft| {
            draft.release_lease();
        })
        .await
        .unwrap();
    assert!(!foreign(&world, &rows, other()), "released");
    assert!(rows.lease.as_ref().unwrap().value.released);
    let mut theirs = world.rows().await;
    let lease = world.lease(&theirs, other());
    assert_eq!(lease.epoch, 2);
    world.own(&mut theirs, |draft| draft.hold_lease(lease)).await.unwrap();
    assert!(foreign(&world, &theirs, world.me));

    world.clock.set(theirs.lease.as_ref().unwrap().value.expiry);
    assert!(!foreign(&world, &theirs, world.me), "expired");
    let mut rows = world.rows().await;
    let lease = world.lease(&rows, world.me);
    assert_eq!(lease.epoch, 3);
    world.own(&mut rows, |draft| draft.hold_lease(lease)).await.unwrap();
}

#[tokio::test]
async fn a_lease_of_another_opening_is_of_a_dead_owner() {
    let backend = MemoryBackend::new();
    let reopened = backend.snapshot();
    let world = World::over(Arc::new(backend)).await;
    let rows = world.owned().await;
    let lease = rows.lease.as_ref().unwrap().value;
    let (now, here) = (world.clock.now(), world.store.facts().opening);
    assert!(lease.is_foreign(other(), here, now), "within one opening only its end frees it");
    let there = reopened.facts().opening;
    assert_ne!(here, there);
    assert!(!lease.is_foreign(other(), there, now));
    assert_eq!(Lease::taken(Some(&lease), other(), there, now, Duration::from_secs(1)).epoch, 2);
    // A shared backend has no openings: only the clock frees it.
    let shared = Lease { opening: None, ..lease };
    assert!(shared.is_foreign(other(), None, now));
    assert!(!shared.is_foreign(other(), None, lease.expiry));
}

#[tokio::test]
async fn prolonging_keeps_the_epoch_and_taking_again_raises_it() {
    let world = World::new().await;
    let mut rows = world.owned().await;
    world.clock.advance(Duration::from_secs(10));
    let longer = world.lease(&rows, world.me);
    assert_eq!(longer.epoch, 1);
    assert!(longer.expiry > rows.lease.as_ref().unwrap().value.expiry);
    world.own(&mut rows, |draft| draft.hold_lease(longer)).await.unwrap();
    world
        .own(&mut rows, |draft| {
            draft.release_lease();
        })
        .await
        .unwrap();
    assert_eq!(world.lease(&rows, world.me).epoch, 2);
}

#[tokio::test]
async fn of_two_that_take_a_lease_one_is_fenced() {
    let world = World::new().await;
    let (mut mine, mut theirs) = (world.rows().await, world.rows().await);
    let (my, their) = (world.lease(&mine, world.me), world.lease(&theirs, other()));
    world.own(&mut mine, |draft| draft.hold_lease(my)).await.unwrap();
    let result = world.own(&mut theirs, |draft| draft.hold_lease(their)).await;
    assert!(matches!(result, Err(CommitError::Fenced)), "{result:?}");
    assert_eq!(world.rows().await.lease.unwrap().value.incarnation, world.me);
}

#[tokio::test]
async fn whoever_lost_the_lease_is_fenced_whatever_it_writes() {
    let world = World::new().await;
    let mut mine = world.owned().await;
    world.clock.advance(Duration::from_secs(31));
    let mut theirs = world.rows().await;
    let lease = world.lease(&theirs, other());
    world.own(&mut theirs, |draft| draft.hold_lease(lease)).await.unwrap();
    let drafts: [&dyn Fn(&mut Draft<'_>); 4] = [
        &|draft| say(draft, world.next(), "late"),
        &|draft| draft.release_lease(),
        &|draft| draft.put_todos(Vec::new()),
        &|draft| draft.enqueue(world.input("late")),
    ];
    for change in drafts {
        let result = world.own(&mut mine, change).await;
        assert!(matches!(result, Err(CommitError::Fenced)), "{result:?}");
    }
    // Its mailbox changes still count: they need no lease.
    let mut rows = world.rows().await;
    world.mail(&mut rows, |draft| draft.enqueue(world.input("mail"))).await.unwrap();
    assert_eq!(format!("{:?}", world.rows().await), format!("{rows:?}"));
}
