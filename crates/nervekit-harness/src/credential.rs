//! Secrets by name.

use std::fmt::Debug;

use async_trait::async_trait;
use nervekit_types::Secret;

use crate::error::ProviderError;

/// Gives a secret by its name.
///
/// **Contract.** `None` means that there is no such secret; an error, that it could not be found out. Neither
/// errors nor `Debug` hold a secret. It is asked before each request, so that a rotated key takes effect.
///
/// ```
/// use async_trait::async_trait;
/// use nervekit_harness::{Credentials, ProviderError};
/// use nervekit_types::Secret;
///
/// #[derive(Debug)]
/// struct OneKey(Secret);
///
/// #[async_trait]
/// impl Credentials for OneKey {
///     async fn secret(&self, name: &str) -> Result<Option<Secret>, ProviderError> {
///         Ok((name == "OPENAI_API_KEY").then(|| self.0.clone()))
///     }
/// }
/// let _: Box<dyn Credentials> = Box::new(OneKey(Secret::new("sk-1")));
/// ```
#[async_trait]
pub trait Credentials: Debug + Send + Sync + 'static {
    /// The secret of this name.
    async fn secret(&self, name: &str) -> Result<Option<Secret>, ProviderError>;
}

crate::port::forward!(#[async_trait] Credentials { ; async fn secret(&self, name: &str) -> Result<Option<Secret>, ProviderError>; });

/// Secrets from the environment variables of this process. An empty variable is none.
///
/// ```
/// use nervekit_harness::{Credentials, EnvironmentCredentials};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert_eq!(EnvironmentCredentials.secret("NERVEKIT_NO_SUCH_KEY").await?, None);
/// # Ok::<(), nervekit_harness::ProviderError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvironmentCredentials;

#[async_trait]
impl Credentials for EnvironmentCredentials {
    async fn secret(&self, name: &str) -> Result<Option<Secret>, ProviderError> {
        Ok(std::env::var(name).ok().filter(|value| !value.is_empty()).map(Secret::new))
    }
}
