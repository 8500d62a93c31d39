//! Asking a running call to end.

use std::sync::Arc;

use tokio::sync::watch;

/// A request to end, shared by the one who asks and the one who is asked. Clones are the same request.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use nervekit_tools::Cancellation;
/// let cancellation = Cancellation::default();
/// let seen = cancellation.clone();
/// assert!(!seen.is_cancelled());
/// cancellation.cancel();
/// seen.cancelled().await; // at once, and for every later caller too
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cancellation(Arc<watch::Sender<bool>>);

impl Default for Cancellation {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }
}

impl Cancellation {
    /// Asks to end. Asking again changes nothing.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether it was asked.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is asked.
    pub async fn cancelled(&self) {
        // The sender lives as long as `self`, so that waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|cancelled| *cancelled).await;
    }
}
