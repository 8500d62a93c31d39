//! The first screen of the README: ask something about this folder, show the answer as it comes, answer what is asked.
//!
//! `cargo run --example quickstart --features demo,terminal` needs no network and changes nothing in the folder.

use nervekit::{Host, Update};

#[tokio::main]
async fn main() -> Result<(), nervekit::Error> {
    let host = Host::local().project(".").model("demo").open().await?; // home: $NERVE_HOME or ~/.nerve
    let conversation = host.start("Which TODOs are left in this folder?").await?;
    let mut updates = conversation.updates().await?;
    while let Some(update) = updates.next().await {
        match update? {
            Update::Text { delta, .. } => print!("{delta}"),
            Update::Interaction(request) => nervekit::terminal::answer(&conversation, &request).await?,
            Update::Finished(outcome) => {
                outcome.into_text()?;
                break;
            }
            _ => {}
        }
    }
    Ok(())
}
