//! What a desktop app brings along: its database as a [`Backend`](nervekit::conversation::Backend), and the event loop
//! of its window. The app itself is `main.rs`.

mod event_loop;
mod sqlite;

pub use event_loop::{Event, EventLoop};
pub use sqlite::SqliteBackend;
