use nervekit_types::Digest;

use super::*;
use crate::backend::{BackendError, WriteSet};
use crate::conversation::Todo;
use crate::event::Event;
use crate::input::InputFate;
use crate::testing::{Fault, FaultBackend};

#[tokio::test]
async fn sequences_are_dense_and_events_chain() {
    let world = World::new().await;
    let mut rows = world.owned().await;
    let mut hashes = vec![record::CHAIN_START];
    for length in [1, 3, 2] {
        let committed = world
            .own(&mut rows, |draft| {
                for _ in 0..length {
                    draft.append(note(world.next(), "note"));
                }
            })
            .await
            .unwrap();
        assert_eq!(committed.events.len(), length);
        hashes.extend(committed.events.iter().map(|event| event.chain_hash));
    }
    assert_eq!(rows.core.value.next_event_sequence, 6);
    assert_eq!(rows.core.value.chain_hash, hashes[6]);

    let events = world.store.events(world.id, EventRange::from(0)).await.unwrap();
    assert_eq!(events.iter().map(|event| event.sequence).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(events.iter().map(|event| event.chain_hash).collect::<Vec<_>>(), hashes[1..]);
    let links: Vec<_> =
        events.iter().map(|event| event.previous.map(|link| (link.id, link.sequence))).collect();
    let before: Vec<_> = events.iter().map(|event| Some((event.id, event.sequence))).collect();
    assert_eq!(links[0], None);
    assert_eq!(links[1..], before[..5]);
    assert_eq!(rows.core.value.head.map(|head| head.id), Some(events[5].id));

    let ids = |events: Vec<Event>| events.iter().map(|event| event.sequence).collect::<Vec<_>>();
    assert_eq!(ids(world.store.events(world.id, EventRange::from(2).limit(3)).await.unwrap()), [2, 3, 4]);
    assert_eq!(ids(world.store.events(world.id, EventRange::before(3).limit(2)).await.unwrap()), [2, 1]);
    assert!(world.unfinished().await.is_empty());
}

#[tokio::test]
async fn rows_take_over_what_was_committed() {
    let world = World::new().await;
    let mut rows = world.owned().await;
    let (call, input) = (world.call("call", CallState::Ready), world.input("input"));
    world
        .own(&mut rows, |draft| {
            start(draft, "start");
            draft.enqueue(input.clone());
            draft.put_call(call.clone());
            draft.put_todos(vec![Todo::new("it")]);
            draft.put_document("permissions", b"{}".to_vec());
            draft.put_file_read("/a", Digest::of("a"));
            draft.put_policy(Digest::of("p"), b"p".to_vec());
            draft.config_mut().rule_set_id = "autonomous".to_owned();
            draft.mailbox_mut().title = Some("title".to_owned());
            let (command_id, request) = (world.next(), Digest::of("request"));
            let outcome = crate::command::CommandOutcome::Paused;
            draft.remember_outcome(OutcomeRow { command_id, request, outcome });
        })
        .await
        .unwrap();
    let loaded = world.rows().await;
    assert_eq!(format!("{loaded:?}"), format!("{rows:?}"));
    assert_eq!(world.store.file_read(world.id, "/a").await.unwrap(), Some(Digest::of("a")));
    assert_eq!(world.store.file_read(world.id, "/b").await.unwrap(), None);
    assert_eq!(world.store.policy(Digest::of("p")).await.unwrap(), Some(b"p".to_vec()));
    let fate = world.store.fate(world.id, input.id).await.unwrap().unwrap();
    assert_eq!((fate.fate, fate.content), (InputFate::Queued, input.content_digest()));

    // And what is taken away again.
    let queued = rows.queue.values().next().unwrap().value.clone();
    world
        .own(&mut rows, |draft| {
            draft.remove_call(call.id);
            draft.dequeue(&queued, InputFate::Cancelled);
        })
        .await
        .unwrap();
    assert!(rows.calls.is_empty() && rows.queue.is_empty());
    let loaded = world.rows().await;
    assert_eq!(format!("{loaded:?}"), format!("{rows:?}"));
    assert_eq!(world.unfinished().await, [world.id]);
}

#[tokio::test]
async fn a_conflict_names_the_record_and_writes_nothing() {
    let world = World::new().await;
    let call = world.call("call", CallState::AwaitingApproval);
    let mut rows = world.owned().await;
    world
        .own(&mut rows, |draft| {
            start(draft, "start");
            draft.put_call(call.clone());
            draft.put_document("permissions", b"1".to_vec());
        })
        .await
        .unwrap();

    // Somebody else writes each row in turn; a change that was drafted before is refused for that row.
    let stale = rows.clone();
    let mut other = rows.clone();
    world.mail(&mut other, |draft| draft.mailbox_mut().paused = true).await.unwrap();
    let result = world.mail(&mut stale.clone(), |draft| draft.mailbox_mut().paused = false).await;
    assert_eq!(conflict(result), "mailbox");
    let result = world
        .own(&mut stale.clone(), |draft| {
            draft.guard_mailbox();
            say(draft, world.next(), "guarded");
        })
        .await;
    assert_eq!(conflict(result), "mailbox");

    let (mut stale, mut other) = (other.clone(), other);
    world.mail(&mut other, |draft| draft.config_mut().system_prompt = Some("x".to_owned())).await.unwrap();
    let result = world.mail(&mut stale, |draft| draft.config_mut().system_prompt = None).await;
    assert_eq!(conflict(result), "config");

    let mut stale = other.clone();
    world
        .mail(&mut other, |draft| draft.put_call(ToolCall { cancel_requested: true, ..call.clone() }))
        .await
        .unwrap();
    let result = world.own(&mut stale, |draft| draft.remove_call(call.id)).await;
    assert_eq!(conflict(result), "calls");

    let mut stale = other.clone();
    world.mail(&mut other, |draft| draft.put_document("permissions", b"2".to_vec())).await.unwrap();
    let result = world.mail(&mut stale, |draft| draft.put_document("permissions", b"3".to_vec())).await;
    assert_eq!(conflict(result), "documents");

    let mut stale = other.clone();
    world.own(&mut other, |draft| say(draft, world.next(), "first")).await.unwrap();
    let result = world.own(&mut stale, |draft| say(draft, world.next(), "second")).await;
    assert_eq!(conflict(result), "events");
    let result = world.own(&mut stale, |draft| draft.put_todos(Vec::new())).await;
    assert_eq!(conflict(result), "core");

    // Nothing of the refused ones is there.
    assert_eq!(format!("{:?}", world.rows().await), format!("{other:?}"));
    let events = world.store.events(world.id, EventRange::from(0)).await.unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(world.unfinished().await, [world.id]);
}

#[tokio::test]
async fn what_exists_is_not_created_and_what_does_not_exist_is_not_found() {
    let world = World::new().await;
    let project = ProjectId::from_key("site");
    let version = world.store.project(project).await.unwrap().unwrap().version;
    let mut batch = world.store.batch();
    batch.create(world.id, &world.core(project), &config(), &MailboxRow::default(), version);
    assert_eq!(conflict(world.store.commit(&mut batch).await), "core");

    // A conversation of a project that was changed or never there.
    let mut batch = world.store.batch();
    let id = ConversationId::from_key("b");
    batch.create(
        id,
        &world.core(project),
        &config(),
        &MailboxRow::default(),
        CommitNumber::after(Some(version)),
    );
    assert_eq!(conflict(world.store.commit(&mut batch).await), "projects");
    assert!(world.store.load(id).await.unwrap().is_none());

    // A conversation that somebody removed: both roles are told so.
    let mut rows = world.owned().await;
    let removal = [key::CORE, key::MAILBOX]
        .into_iter()
        .fold(WriteSet::new(BatchId::next(&world.ids)), |set, table| set.delete(table, key::of(world.id)));
    world.backend.write(vec![removal]).await.unwrap()[0].clone().unwrap();
    let result = world.own(&mut rows, |draft| say(draft, world.next(), "late")).await;
    assert!(matches!(result, Err(CommitError::NotFound)), "{result:?}");
    let result = world.mail(&mut rows, |draft| draft.enqueue(world.input("late"))).await;
    assert!(matches!(result, Err(CommitError::NotFound)), "{result:?}");
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_refused_before_it_is_written() {
    let world = World::new().await;
    let mut rows = world.owned().await;
    let document = |number: u8, size: usize| {
        move |draft: &mut Draft<'_>| {
            draft.put_document(format!("document {number}"), vec![number; size]);
        }
    };
    let result = world.mail(&mut rows, document(0, 16 << 20)).await;
    assert!(
        matches!(result, Err(CommitError::TooLarge { size, limit }) if size > limit && limit == 16 << 20)
    );
    assert_eq!(format!("{:?}", world.rows().await), format!("{rows:?}"));
    // Many rows count together, with their keys.
    let many =
        |size: usize| move |draft: &mut Draft<'_>| (0..16).for_each(|number| document(number, size)(draft));
    let result = world.mail(&mut rows, many(1 << 20)).await;
    assert!(matches!(result, Err(CommitError::TooLarge { .. })), "{result:?}");
    world.mail(&mut rows, many((1 << 20) - 64)).await.unwrap();
    assert_eq!(world.rows().await.documents, rows.documents);
}

#[tokio::test]
async fn a_record_that_could_not_be_read_again_refuses_the_batch() {
    let world = World::new().await;
    let mut rows = world.owned().await;
    let call = ToolCall { arguments: Dice::nested(500), ..world.call("deep", CallState::Ready) };
    let mut batch = world.batch(&rows, Role::Owner, |draft| {
        draft.append(note(world.next(), "with it"));
        draft.put_call(call);
    });
    for _ in 0..2 {
        let error = world.store.commit(&mut batch).await.unwrap_err();
        assert!(
            matches!(&error, CommitError::Record(error) if error.to_string().contains("nested too deeply"))
        );
        assert_eq!(StoreError::from(error).http_status(), 500);
    }
    assert_eq!(format!("{:?}", world.rows().await), format!("{rows:?}"));
    world.own(&mut rows, |draft| say(draft, world.next(), "without it")).await.unwrap();
}

#[tokio::test]
async fn a_mailbox_change_cannot_touch_what_belongs_to_the_owner() {
    let world = World::new().await;
    let rows = world.owned().await;
    let lease = world.lease(&rows, IncarnationId::from_key("other"));
    let drafts: [&dyn Fn(&mut Draft<'_>); 4] = [
        &|draft| draft.core_mut().status = Status::Failed,
        &|draft| say(draft, world.next(), "note"),
        &|draft| draft.hold_lease(lease),
        &|draft| draft.release_lease(),
    ];
    for change in drafts {
        let mut draft = Draft::new(&rows, Role::Mailbox, world.clock.now());
        change(&mut draft);
        let mut batch = world.store.batch();
        assert!(matches!(batch.change(&rows, draft.finish()), Err(StoreError::Damaged(_))));
    }
    assert_eq!(format!("{:?}", world.rows().await), format!("{rows:?}"));
}

#[tokio::test]
async fn a_mailbox_change_does_not_disturb_the_owner() {
    let world = World::new().await;
    let mut owner = world.owned().await;
    let mut other = world.rows().await;
    world.mail(&mut other, |draft| draft.enqueue(world.input("input"))).await.unwrap();
    assert_eq!(other.core.version, owner.core.version);
    assert_eq!(other.mailbox.value.mailbox_sequence, owner.mailbox.value.mailbox_sequence + 1);
    assert_eq!(other.core.value.revision, owner.core.value.revision);
    // The owner goes on with the rows it has, and its revision grows.
    let before = owner.core.value.revision;
    world.own(&mut owner, |draft| say(draft, world.next(), "on")).await.unwrap();
    assert_eq!(owner.core.value.revision, before + 1);
    assert_eq!(world.unfinished().await, [world.id]);
}

#[tokio::test]
async fn the_same_batch_twice_is_committed_once() {
    let world = World::new().await;
    let mut rows = world.owned().await;
    let mut batch = world.batch(&rows, Role::Owner, |draft| say(draft, world.next(), "once"));
    let mut again = batch.clone();
    let mut first = world.store.commit(&mut batch).await.unwrap();
    let second = world.store.commit(&mut again).await.unwrap();
    assert_eq!(first.number, second.number);
    assert_eq!(first.events, second.events);
    rows.apply(&mut first);
    assert_eq!(format!("{:?}", world.rows().await), format!("{rows:?}"));
    assert_eq!(world.store.events(world.id, EventRange::from(0)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn after_an_unknown_commit_the_store_asks_whether_it_was_made() {
    // The commits of `World::over` and `owned` are the format marker and three batches.
    for (fault, kept) in [(Fault::UnknownKept, true), (Fault::UnknownLost, false)] {
        let backend = Arc::new(FaultBackend::new().fault_at(5, fault));
        let world = World::over(backend.clone()).await;
        let mut rows = world.owned().await;
        let mut batch = world.batch(&rows, Role::Owner, |draft| say(draft, world.next(), "x"));
        let result = world.store.commit(&mut batch).await;
        if kept {
            assert_eq!(result.unwrap().events.len(), 1);
            rows = world.rows().await;
        } else {
            assert!(
                matches!(&result, Err(CommitError::Backend(BackendError::Unavailable { .. }))),
                "{result:?}"
            );
            let mut committed = world.store.commit(&mut batch).await.unwrap();
            rows.apply(&mut committed);
        }
        assert_eq!(world.store.events(world.id, EventRange::from(0)).await.unwrap().len(), 1);
        assert_eq!(rows.core.value.next_event_sequence, 1);
        assert!(world.unfinished().await.is_empty());
    }
}

#[tokio::test]
async fn errors_of_the_backend_leave_everything_as_it_was() {
    let backend = Arc::new(FaultBackend::new());
    let world = World::over(backend.clone()).await;
    let mut rows = world.owned().await;
    let before = format!("{rows:?}");
    for (fault, status) in [(Fault::Unavailable, 503), (Fault::Full, 507)] {
        backend.set_fault(Some(fault));
        let result = world.own(&mut rows, |draft| say(draft, world.next(), "x")).await;
        let error = StoreError::from(result.unwrap_err());
        assert_eq!(error.http_status(), status);
        backend.set_fault(None);
        assert_eq!(format!("{:?}", world.rows().await), before);
    }
    world.own(&mut rows, |draft| say(draft, world.next(), "x")).await.unwrap();
}

#[tokio::test]
async fn a_store_of_a_newer_build_is_not_opened() {
    let backend = Arc::new(MemoryBackend::new());
    let world = World::over(backend.clone()).await;
    let marker = record::format_marker(1, 2);
    let set = WriteSet::new(BatchId::next(&world.ids)).put(key::META, key::FORMAT, marker);
    backend.write(vec![set]).await.unwrap()[0].clone().unwrap();
    let result = Store::open(backend, world.ids.clone()).await;
    assert!(matches!(result, Err(StoreError::Newer { found: 2, oldest: 1, newest: 1 })));
}
