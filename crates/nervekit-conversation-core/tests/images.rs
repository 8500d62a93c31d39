//! The images of an input are kept once, and only for an input that is accepted.

#[path = "common/life.rs"]
mod life;

use std::sync::Arc;

use nervekit_conversation_core::{Command, CommandError, EventPayload, MemoryBackend, NewImage, NewInput};
use nervekit_tools::{AssetStore as _, MemoryAssetStore};
use nervekit_types::InputId;

use self::life::{Life, World};

#[tokio::test(start_paused = true)]
async fn a_repeated_input_stores_nothing_new() {
    let (world, assets) = (Arc::new(World::new([])), Arc::new(MemoryAssetStore::default()));
    let builder = Life::builder(MemoryBackend::new(), &world).assets(assets.clone());
    let life = Life::over(builder.open().await.unwrap(), &world).await;
    let submit = |pixel: &'static str| {
        let input = NewInput::new("look").id(InputId::from_key("look"));
        let input = input.image(NewImage::new("image/png", pixel));
        Command::Submit { conversation_id: life.id(), input }
    };
    let first = life.send("1", submit("red")).await.unwrap();
    life.quiet().await;
    let kept = assets.list(None).await.unwrap();
    assert_eq!(kept.len(), 1);

    // The same command, then the same input by another command, then something else under its id.
    let again = life.send("1", submit("red")).await.unwrap();
    assert_eq!(again.outcome, first.outcome);
    life.send("2", submit("red")).await.unwrap();
    let other = life.send("3", submit("blue")).await.unwrap_err();
    assert!(matches!(other, CommandError::OtherContent { .. }), "{other}");
    let misused = life.send("1", submit("blue")).await.unwrap_err();
    assert!(matches!(misused, CommandError::AlreadyExists(_)), "{misused}");
    assert_eq!(assets.list(None).await.unwrap(), kept);

    let events = life.events().await;
    let mut messages = events.iter().filter_map(|event| match &event.payload {
        EventPayload::UserMessage(message) => Some(message),
        _ => None,
    });
    let named: Vec<_> = messages.next().unwrap().images.iter().map(|image| image.asset_id).collect();
    assert_eq!(named, kept.iter().map(|asset| asset.id).collect::<Vec<_>>());
    assert!(messages.next().is_none());
}
