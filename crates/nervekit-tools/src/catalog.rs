//! The tools of the default catalog, each in a file of its own: definition, behaviour and tests.

mod ask_user;
#[cfg(feature = "local-tools")]
mod bash;
mod todos;

pub use ask_user::{AskUser, ask_user};
#[cfg(feature = "local-tools")]
pub use bash::{Bash, bash};
pub use todos::{Todo, TodosGet, TodosSet, todos_get, todos_set};
