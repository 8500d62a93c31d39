use super::*;
use crate::input::InputFate;

#[tokio::test]
async fn a_conversation_is_listed_while_anything_of_it_is_unfinished() {
    let world = World::new().await;
    assert!(world.unfinished().await.is_empty());
    let mut rows = world.owned().await;
    assert!(world.unfinished().await.is_empty(), "a lease alone is nothing unfinished");

    world.own(&mut rows, |draft| draft.enqueue(world.input("a"))).await.unwrap();
    assert_eq!(world.unfinished().await, [world.id], "an input that wakes");
    let input = rows.queue.values().next().unwrap().value.clone();
    world
        .own(&mut rows, |draft| {
            start(draft, "start");
            draft.dequeue(&input, InputFate::Delivered { event_id: EventId::from_key("delivery") });
            draft.append(note(EventId::from_key("delivery"), "a"));
        })
        .await
        .unwrap();
    assert_eq!(world.unfinished().await, [world.id], "an open execution");
    world.own(&mut rows, |draft| draft.put_call(world.call("call", CallState::Ready))).await.unwrap();
    assert_eq!(world.unfinished().await, [world.id]);
    world.own(&mut rows, |draft| end(draft, "end")).await.unwrap();
    assert_eq!(world.unfinished().await, [world.id], "a call");
    world.own(&mut rows, |draft| draft.remove_call(ToolCallId::from_key("call"))).await.unwrap();
    assert!(world.unfinished().await.is_empty());
}

#[tokio::test]
async fn an_input_that_does_not_wake_is_nothing_unfinished() {
    let world = World::new().await;
    let mut rows = world.owned().await;
    let quiet = QueuedInput { wake_when_idle: false, ..world.input("quiet") };
    world.own(&mut rows, |draft| draft.enqueue(quiet)).await.unwrap();
    assert!(world.unfinished().await.is_empty());
    world.mail(&mut rows, |draft| draft.enqueue(world.input("held"))).await.unwrap();
    assert_eq!(world.unfinished().await, [world.id]);
    world.mail(&mut rows, |draft| draft.mailbox_mut().held_through = 2).await.unwrap();
    assert!(world.unfinished().await.is_empty(), "it is held");
    world.mail(&mut rows, |draft| draft.mailbox_mut().held_through = 0).await.unwrap();
    assert_eq!(world.unfinished().await, [world.id], "it is let go");
}

#[tokio::test]
async fn an_input_that_comes_as_an_execution_ends_is_not_forgotten() {
    let world = World::new().await;
    let mut owner = world.owned().await;
    world.own(&mut owner, |draft| start(draft, "start")).await.unwrap();
    let mut sender = world.rows().await;

    // The end first: the sender knows the conversation as listed, and has to list it again.
    let mut first = owner.clone();
    world.own(&mut first, |draft| end(draft, "end")).await.unwrap();
    world.mail(&mut sender, |draft| draft.enqueue(world.input("late"))).await.unwrap();
    assert_eq!(world.unfinished().await, [world.id]);

    // The input first: the end, which would take the conversation off the list, has to be drafted again.
    let world = World::new().await;
    let mut owner = world.owned().await;
    world.own(&mut owner, |draft| start(draft, "start")).await.unwrap();
    let mut sender = world.rows().await;
    world.mail(&mut sender, |draft| draft.enqueue(world.input("early"))).await.unwrap();
    assert_eq!(conflict(world.own(&mut owner, |draft| end(draft, "end")).await), "mailbox");
    let mut owner = world.rows().await;
    world.own(&mut owner, |draft| end(draft, "end")).await.unwrap();
    assert_eq!(world.unfinished().await, [world.id]);
}

#[tokio::test]
async fn an_execution_that_starts_as_an_input_is_taken_back_is_not_forgotten() {
    let world = World::new().await;
    let mut owner = world.owned().await;
    world.own(&mut owner, |draft| draft.enqueue(world.input("a"))).await.unwrap();
    let take_back = |rows: &Rows| {
        let input = rows.queue.values().next().unwrap().value.clone();
        move |draft: &mut Draft<'_>| draft.dequeue(&input, InputFate::Cancelled)
    };

    // The start first: whoever takes the input back thought that nothing else was unfinished.
    let mut sender = world.rows().await;
    world.own(&mut owner, |draft| start(draft, "start")).await.unwrap();
    let draft = take_back(&sender);
    assert_eq!(conflict(world.mail(&mut sender, draft).await), "core");
    let mut sender = world.rows().await;
    let draft = take_back(&sender);
    world.mail(&mut sender, draft).await.unwrap();
    assert_eq!(world.unfinished().await, [world.id]);
    let mut owner = world.rows().await;
    world.own(&mut owner, |draft| end(draft, "end")).await.unwrap();
    assert!(world.unfinished().await.is_empty());

    // Taken back first: the owner knows the conversation as listed, and has to list it again.
    world.own(&mut owner, |draft| draft.enqueue(world.input("b"))).await.unwrap();
    let mut sender = world.rows().await;
    let draft = take_back(&sender);
    world.mail(&mut sender, draft).await.unwrap();
    assert!(world.unfinished().await.is_empty());
    world.own(&mut owner, |draft| start(draft, "again")).await.unwrap();
    assert_eq!(world.unfinished().await, [world.id]);
}

#[tokio::test]
async fn a_mailbox_change_on_old_rows_does_not_list_what_has_ended() {
    let world = World::new().await;
    let mut owner = world.owned().await;
    world.own(&mut owner, |draft| start(draft, "start")).await.unwrap();
    let mut other = world.rows().await;
    world.own(&mut owner, |draft| end(draft, "end")).await.unwrap();
    world.mail(&mut other, |draft| draft.mailbox_mut().title = Some("title".to_owned())).await.unwrap();
    assert!(world.unfinished().await.is_empty());
}

#[tokio::test]
async fn unfinished_conversations_come_in_the_order_of_their_ids() {
    let world = World::new().await;
    let mut expected = Vec::new();
    for number in 0..20 {
        let id = world.next();
        world.create(id, ProjectId::from_key("site")).await;
        let mut rows = world.store.load(id).await.unwrap().unwrap();
        if number % 3 == 0 {
            world.mail(&mut rows, |draft| draft.enqueue(world.input("a"))).await.unwrap();
            expected.push(id);
        }
    }
    assert_eq!(world.unfinished().await, expected);
    let stats = world.store.stats().await.unwrap();
    assert_eq!((stats.projects, stats.conversations, stats.unfinished, stats.events), (1, 21, 7, 0));
}
