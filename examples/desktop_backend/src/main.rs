//! A desktop app: conversations in the app's own SQLite database, polled by the event loop of its window.
//!
//! Shows: a `Backend` of one's own ([`SqliteBackend`]); a tokio runtime that only the core knows, while the window's
//! thread polls every future itself and never blocks; the recovery report as badges; closing the window, or losing it,
//! at any moment. A terminal stands for the window: lines of input are clicks, the end of input closes it.
//!
//! `cargo run -p desktop-backend -- PROJECT DATA`: close it, or kill it, while a dialog is open, and start it again.

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use desktop_backend::{Event, EventLoop, SqliteBackend};
use nervekit::conversation::{Page, StoreError};
use nervekit::permissions::display;
use nervekit::tools::FileAssetStore;
use nervekit::types::{ConversationId, SystemClock};
use nervekit::{Conversation, Error, Host, Interaction, InteractionKind, Update};
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const PROMPT: &str = "Survey this folder and write a short report about it.";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(project), Some(data)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: desktop-backend PROJECT DATA");
        return ExitCode::from(2);
    };
    if let Err(error) = std::fs::create_dir_all(&data) {
        eprintln!("`{}`: {error}", data.display());
        return ExitCode::FAILURE;
    }
    // All work runs here. The thread of the window never enters it.
    let Ok(runtime) = Builder::new_multi_thread().worker_threads(1).enable_all().build() else {
        eprintln!("no thread can be started");
        return ExitCode::FAILURE;
    };
    let window = EventLoop::default();
    let events = window.sender();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = events.send(Event::Click(line));
        }
        let _ = events.send(Event::Close);
    });
    let (clicked, clicks) = unbounded_channel();
    let app = app(&project, &data, runtime.handle().clone(), clicks);
    let ended = window.run(app, |click| drop(clicked.send(click)));
    match ended {
        Some(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        // Done, or closed. What was under way is on disk; nothing has to be ended in an orderly way.
        Some(Ok(())) | None => ExitCode::SUCCESS,
    }
}

/// The host: the app's database and files, and the defaults for everything else.
async fn open(project: &Path, data: &Path, runtime: Handle) -> Result<Host, Error> {
    let database = SqliteBackend::open(data.join("app.sqlite"), Arc::new(SystemClock));
    let host = Host::local()
        .project(project)
        .backend(database.await.map_err(StoreError::from)?)
        .assets(FileAssetStore::new(data.join("assets")))
        .model("demo")
        .runtime(runtime);
    Ok(host.open().await?)
}

async fn app(
    project: &Path,
    data: &Path,
    runtime: Handle,
    mut clicks: UnboundedReceiver<String>,
) -> Result<(), Error> {
    let host = open(project, data, runtime).await?;
    let mut unfinished = None;
    for record in host.conversations(Page::new(20)).await? {
        let badge = badge(&host, record.id).await?;
        show(&format!("{}  {}\n", record.id, badge.map_or("done", Badge::words)));
        unfinished = unfinished.or(badge.map(|badge| (record.id, badge)));
    }
    let conversation = match unfinished {
        Some((id, _)) => host.conversation(id),
        None => host.start(PROMPT).await?,
    };
    if let Some((_, Badge::Interrupted)) = unfinished {
        conversation.continue_processing().await?;
    }
    follow(&conversation, &mut clicks).await
}

/// What the list shows beside a conversation that the last run of the app left unfinished.
#[derive(Clone, Copy, Debug)]
enum Badge {
    WaitsForYou,
    Interrupted,
    GoesOn,
}

impl Badge {
    const fn words(self) -> &'static str {
        match self {
            Self::WaitsForYou => "waits for you",
            Self::Interrupted => "interrupted",
            Self::GoesOn => "goes on",
        }
    }
}

/// The badge of a conversation, from what recovery reported.
async fn badge(host: &Host, id: ConversationId) -> Result<Option<Badge>, Error> {
    let report = host.recovery();
    if host.interactions().await?.iter().any(|request| request.conversation_id == id) {
        return Ok(Some(Badge::WaitsForYou));
    }
    if report.interrupted.contains(&id) {
        return Ok(Some(Badge::Interrupted));
    }
    let goes_on = report.resumed.contains(&id) || report.delivered.contains(&id);
    Ok(goes_on.then_some(Badge::GoesOn))
}

/// Shows one conversation until its work ends.
async fn follow(conversation: &Conversation, clicks: &mut UnboundedReceiver<String>) -> Result<(), Error> {
    let snapshot = conversation.snapshot().await?;
    let mut updates = conversation.follow(snapshot.cursor).await?;
    while let Some(update) = updates.next().await {
        match update? {
            Update::Text { delta, .. } => show_text(&delta),
            Update::Interaction(request) => dialog(conversation, &request, clicks).await?,
            Update::Finished(outcome) => {
                outcome.into_text()?;
                show("\n[done]\n");
                break;
            }
            _ => {}
        }
    }
    Ok(())
}

/// A dialog with two buttons, or with a field.
async fn dialog(
    conversation: &Conversation,
    request: &Interaction,
    clicks: &mut UnboundedReceiver<String>,
) -> Result<(), Error> {
    let asked = matches!(request.kind, InteractionKind::Question(_));
    show(&format!("\n{}\n{}\n", request.display(), if asked { "[answer]" } else { "[allow] [deny]" }));
    // The window stays alive while nobody clicks.
    let Some(click) = clicks.recv().await else { return Ok(()) };
    match click.trim() {
        answer if asked => conversation.answer(request, answer).await?,
        "allow" => conversation.approve(request).await?,
        _ => conversation.deny(request, None).await?,
    };
    Ok(())
}

/// Draws text of the model; control characters are shown, not obeyed.
fn show_text(text: &str) {
    let lines: Vec<String> = text.split('\n').map(display).collect();
    show(&lines.join("\n"));
}

/// Draws. A window that cannot be drawn is no reason to stop the work.
fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
