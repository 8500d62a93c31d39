#![doc = include_str!("../README.md")]

mod digest;
mod id;
mod port;
mod principal;
mod retry;
mod secret;
mod timestamp;

#[cfg(feature = "testing")]
pub mod testing;

pub use digest::{Digest, DigestParseError};
pub use id::{
    AssetId, BashRunId, BatchId, CommandId, ConversationId, EventId, ExecutionId, GrantId, IdParseError,
    IncarnationId, InputId, InteractionId, OpeningId, ProjectId, RawId, ToolCallId, TurnId,
};
pub use port::{Clock, Entropy, IdSource, SystemClock, SystemEntropy, SystemIds};
pub use principal::{Principal, PrincipalKind};
pub use retry::Retry;
pub use secret::Secret;
pub use timestamp::{Timestamp, TimestampParseError};
