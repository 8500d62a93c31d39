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
pub use host::{Folders, Host, HostBuilder};
pub use nervekit_conversation_core::{
    Attendance, BuildError, BuildProblem, ConfigChange, Conversation, ConversationConfig, Cursor, Ending,
    Interaction, InteractionKind, Limits, NewInput, Outcome, Project, RecoveryPolicy, RecoveryReport,
    Remember, Resolution, Update, Updates,
};
pub use nervekit_tools::{Tool, ToolContext, ToolError};
pub use resource::LocalResources;

/// The durable conversation runtime: the words, the life of a prompt, all ports.
#[doc(inline)]
pub use nervekit_conversation_core as conversation;
/// Talking to models: messages, providers, one request and its streamed answer.
#[doc(inline)]
pub use nervekit_harness as harness;
/// Deciding which tool calls may run: rule sets, rules, targets, evidence.
#[doc(inline)]
pub use nervekit_permissions as permissions;
/// Keeping conversations in a file.
#[doc(inline)]
pub use nervekit_store as store;
/// Writing tools, and the tools for this machine's files and commands.
#[doc(inline)]
pub use nervekit_tools as tools;
/// Ids, timestamps, digests, secrets.
#[doc(inline)]
pub use nervekit_types as types;
