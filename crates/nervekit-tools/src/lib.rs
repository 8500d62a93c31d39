#![doc = include_str!("../README.md")]

mod argument;
mod asset;
mod assets;
mod cancellation;
mod capture;
mod context;
mod definition;
mod error;
mod executor;
mod function;
#[cfg(feature = "local-tools")]
mod local;
mod lock;
mod manifest;
mod outcome;
mod output;
mod process;
mod progress;
mod projection;
#[cfg(test)]
mod sample;
mod search;
mod tool;

pub mod catalog;
#[cfg(feature = "local-tools")]
pub mod edit;
#[cfg(feature = "testing")]
pub mod testing;

// Tools: what they are and which exist.
pub use argument::{ArgumentError, ArgumentType, Effective};
pub use definition::{Availability, Execution, HandledBy, ToolDefinition};
pub use function::FunctionTool;
pub use manifest::{Catalog, CatalogError, ToolManifest};
pub use tool::Tool;

// Calls: how they are carried out and what comes of them.
pub use cancellation::Cancellation;
pub use context::ToolContext;
pub use error::ToolError;
pub use executor::{ToolCall, ToolExecutor};
pub use lock::{MutationGuard, MutationLocks};
pub use outcome::{Backgrounded, InputRequest, ToolOutcome};
pub use output::{FileAccess, FileFact, Json, OutputBody, SettledOutput, ToolOutput, UserProjection};

// Views of an output.
pub use progress::{Progress, ProgressFrame};
pub use projection::{Cut, Keep, OutputBudget, clip, cut, cut_ends, plain_text};

// Ports to the machine, and their small implementations.
pub use asset::{AssetError, AssetFacts, AssetStore, ByteStream, FileAssetStore, MemoryAssetStore};
pub use assets::{AssetCategory, Attachment, CallAssets};
pub use capture::{Capture, CapturedOutput};
#[cfg(all(feature = "local-tools", unix))]
pub use local::LocalProcesses;
pub use process::{
    EndCause, NoProcesses, OutputReceiver, OutputSender, Process, ProcessCommand, ProcessEnd, ProcessError,
    ProcessExit, ProcessRef, Processes, Program, Reattached,
};
pub use search::{SearchBackend, SearchError, SearchHit};
