#![doc = include_str!("../README.md")]

#[cfg(feature = "demo")]
pub mod demo;
#[cfg(doctest)]
mod doctest;
mod error;
mod host;
mod resource;
#[cfg(feature = "terminal")]
pub mod terminal;

pub use error::Error;
pub use host::{Host, HostBuilder};
pub use nervekit_conversation_core::{
    Attendance, BuildError, BuildProblem, ConfigChange, Conversation, ConversationConfig, Cursor, Ending,
    Interaction, InteractionKind, Limits, NewInput, Outcome, Project, RecoveryPolicy, RecoveryReport,
    Remember, Resolution, Update, Updates,
};
pub use nervekit_tools::{Tool, ToolContext, ToolError};
pub use resource::LocalResources;

/// The durable conversation runtime.
#[doc(inline)]
pub use nervekit_conversation_core as conversation;
/// Models and providers.
#[doc(inline)]
pub use nervekit_harness as harness;
/// The permission engine.
#[doc(inline)]
pub use nervekit_permissions as permissions;
/// Backends.
#[doc(inline)]
pub use nervekit_store as store;
/// Tools, processes, assets.
#[doc(inline)]
pub use nervekit_tools as tools;
/// Ids, timestamps, digests, secrets.
#[doc(inline)]
pub use nervekit_types as types;
