//! The ports that the core owns, besides [`Backend`](crate::Backend).

mod conversations;
mod hook;
mod profile;
mod resource;

pub use conversations::Conversations;
pub use hook::{Hook, HookCall, HookError, HookVerdict};
pub use profile::{NoProfiles, Profile, Profiles};
pub use resource::{FixedResources, ResourceError, Resources, TurnRequest, TurnResources};

/// Every port stands behind `Arc` and `Box`, so that a host can share or erase its own.
macro_rules! forward {
    ($port:ident { $($(#[$kind:ident])? fn $method:ident(&self $(, $name:ident: $type:ty)*) $(-> $result:ty)?;)* }) => {
        forward!(@pointer Arc, $port { $($(#[$kind])? fn $method(&self $(, $name: $type)*) $(-> $result)?;)* });
        forward!(@pointer Box, $port { $($(#[$kind])? fn $method(&self $(, $name: $type)*) $(-> $result)?;)* });
        const _: fn(&dyn $port) = |_| ();
    };
    (@pointer $pointer:ident, $port:ident { $($(#[$kind:ident])? fn $method:ident(&self $(, $name:ident: $type:ty)*) $(-> $result:ty)?;)* }) => {
        #[async_trait::async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<P: $port + ?Sized> $port for $pointer<P> {
            $(
                async fn $method(&self $(, $name: $type)*) $(-> $result)? {
                    (**self).$method($($name),*).await
                }
            )*
        }
    };
}

use forward;
