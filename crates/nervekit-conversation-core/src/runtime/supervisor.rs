//! Foreign code runs here: a panic of a port, a hook or a tool becomes a value.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

/// The message of a panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panicked(String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it panicked: {}", self.0)
    }
}

fn panicked(payload: &(dyn Any + Send)) -> Panicked {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    Panicked(
        text.or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "without a message".into()),
    )
}

/// Runs a future of somebody else's to its end.
///
/// Unwind safety is asserted: whatever the future shared with us is behind a port, and is not used again for this
/// piece of work.
pub(crate) async fn guard<T>(future: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| panicked(&*payload))
}

/// Calls a function of somebody else's.
pub(crate) fn guard_call<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    std::panic::catch_unwind(AssertUnwindSafe(call)).map_err(|payload| panicked(&*payload))
}
