//! Every port of the crates in one list. A port lives in the crate that owns its concept; each is object-safe and
//! can be replaced from outside. The front page of the crate has a table that says what each answers, and with what it
//! is filled by default.

#[doc(no_inline)]
pub use crate::{Backend, Conversations, Hook, Profiles, TurnResources};
#[doc(no_inline)]
pub use nervekit_harness::{Credentials, Harness, Model, ModelResolver, TokenEstimator, Transport};
#[doc(no_inline)]
pub use nervekit_permissions::{Documents, PermissionEngine, TrustStore};
#[doc(no_inline)]
pub use nervekit_tools::{AssetStore, Process, Processes, SearchBackend, ToolExecutor, ToolManifest};
#[doc(no_inline)]
pub use nervekit_types::{Clock, Entropy, IdSource};
