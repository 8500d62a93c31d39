//! The event loop of a window, which polls futures between the events of its user.

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Wake, Waker};

/// What the loop is woken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A future that pends can go on.
    Wake,
    /// The user clicked on something.
    Click(String),
    /// The user closed the window.
    Close,
}

/// The loop of one thread. It waits for events and for nothing else: no future ever blocks the window.
#[derive(Debug)]
pub struct EventLoop {
    sender: Sender<Event>,
    events: Receiver<Event>,
}

impl Default for EventLoop {
    fn default() -> Self {
        let (sender, events) = channel();
        Self { sender, events }
    }
}

/// Puts a turn of the loop among its events, from whatever thread.
struct Waking(Sender<Event>);

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        // A loop that has ended polls nothing any more.
        let _ = self.0.send(Event::Wake);
    }
}

impl EventLoop {
    /// Where the window's events are put.
    #[must_use]
    pub fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// Runs until the future has an answer, or the window is closed.
    pub fn run<T>(self, future: impl Future<Output = T>, mut on_click: impl FnMut(String)) -> Option<T> {
        let waker = Waker::from(Arc::new(Waking(self.sender)));
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(answer);
            }
            match self.events.recv() {
                Ok(Event::Wake) => {}
                Ok(Event::Click(what)) => on_click(what),
                Ok(Event::Close) | Err(_) => return None,
            }
        }
    }
}
