//! The tools that come with the crate. Each is a function that makes it, and a type that holds its arguments.
//!
//! A host takes them all ([`core_tools`] and, with the feature `local-tools`, `local_tools`) or one by one, and may word
//! one otherwise with [`Tool::redefine`](crate::Tool::redefine).

mod ask_user;
#[cfg(feature = "local-tools")]
mod bash;
#[cfg(feature = "local-tools")]
mod edit;
#[cfg(feature = "local-tools")]
mod find;
#[cfg(feature = "local-tools")]
mod grep;
#[cfg(feature = "local-tools")]
mod ls;
#[cfg(feature = "local-tools")]
mod read;
mod todos;
#[cfg(feature = "local-tools")]
mod write;

pub use ask_user::{AskUser, ask_user};
#[cfg(feature = "local-tools")]
pub use bash::{Bash, bash};
#[cfg(feature = "local-tools")]
pub use edit::{EditFile, edit};
#[cfg(feature = "local-tools")]
pub use find::{Find, find};
#[cfg(feature = "local-tools")]
pub use grep::{Grep, grep};
#[cfg(feature = "local-tools")]
pub use ls::{Ls, ls};
#[cfg(feature = "local-tools")]
pub use read::{Read, read};
pub use todos::{Todo, TodosGet, TodosSet, todos_get, todos_set};
#[cfg(feature = "local-tools")]
pub use write::{Write, write};

use crate::manifest::Catalog;

/// The tools that the conversation core carries out.
///
/// ```
/// assert!(nervekit_tools::catalog::core_tools().get("ask_user").is_some());
/// ```
#[must_use]
pub fn core_tools() -> Catalog {
    Catalog::new().with(ask_user()).with(todos_set()).with(todos_get())
}

/// The tools that work on this machine.
///
/// ```
/// let tools = nervekit_tools::catalog::local_tools();
/// let names: Vec<&str> = tools.iter().map(|tool| tool.definition().name()).collect();
/// assert_eq!(names, ["bash", "edit", "find", "grep", "ls", "read", "write"]);
/// ```
#[cfg(feature = "local-tools")]
#[must_use]
pub fn local_tools() -> Catalog {
    Catalog::new().with(read()).with(ls()).with(find()).with(grep()).with(edit()).with(write()).with(bash())
}

#[cfg(test)]
mod tests;
