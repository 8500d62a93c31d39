//! From a model's name to a model.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use nervekit_types::Retry;
use serde::{Deserialize, Serialize};

use crate::credential::{Credentials, EnvironmentCredentials};
use crate::model::{Model, ModelInfo, ModelSelection, ThinkingLevel};
use crate::transport::Transport;

/// Finds the model of a conversation.
///
/// **Contract.** The model's [`ModelInfo::selection`] is the selection that was asked for. The thinking level
/// is one that the model supports; when it is not the one that was asked for, the answer says so.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use nervekit_harness::{
///     Model, ModelResolver, ModelSelection, ResolveError, ResolvedModel, ScriptedModel, ThinkingLevel,
/// };
///
/// #[derive(Debug)]
/// struct Only(ScriptedModel);
///
/// #[async_trait]
/// impl ModelResolver for Only {
///     async fn resolve(
///         &self,
///         selection: &ModelSelection,
///         thinking: ThinkingLevel,
///     ) -> Result<ResolvedModel, ResolveError> {
///         if *selection == self.0.info().selection() {
///             return Ok(ResolvedModel::new(Arc::new(self.0.clone()), thinking));
///         }
///         Err(ResolveError::unknown_model(selection.clone(), [self.0.info().selection()]))
///     }
/// }
/// ```
#[async_trait]
pub trait ModelResolver: Debug + Send + Sync + 'static {
    /// The model of this name, with the thinking level to use.
    async fn resolve(
        &self,
        selection: &ModelSelection,
        thinking: ThinkingLevel,
    ) -> Result<ResolvedModel, ResolveError>;
}

crate::port::forward!(#[async_trait] ModelResolver {
    ; async fn resolve(&self, selection: &ModelSelection, thinking: ThinkingLevel) -> Result<ResolvedModel, ResolveError>;
});

/// A model and how hard it shall think.
///
/// ```
/// use std::sync::Arc;
/// use nervekit_harness::{ModelInfo, ResolvedModel, ScriptedModel, ThinkingLevel};
/// let plain = ScriptedModel::new([]).with_info(ModelInfo::new("demo", "plain"));
/// let resolved = ResolvedModel::new(Arc::new(plain), ThinkingLevel::High);
/// assert_eq!(resolved.thinking, ThinkingLevel::Off);
/// assert_eq!(resolved.clamped_from, Some(ThinkingLevel::High));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResolvedModel {
    /// The model.
    pub model: Arc<dyn Model>,
    /// A level that it supports.
    pub thinking: ThinkingLevel,
    /// The level that was asked for, when the model does not support it.
    pub clamped_from: Option<ThinkingLevel>,
}

impl ResolvedModel {
    /// A model with the supported level nearest to the wanted one.
    #[must_use]
    pub fn new(model: Arc<dyn Model>, wanted: ThinkingLevel) -> Self {
        let thinking = model.info().clamp(wanted);
        Self { model, thinking, clamped_from: (thinking != wanted).then_some(wanted) }
    }
}

/// A name that leads to no model.
///
/// ```
/// use nervekit_harness::ResolveError;
/// let error = ResolveError::UnknownProvider { name: "opnai".into(), known: vec!["openai".into()] };
/// assert_eq!(error.to_string(), "there is no provider `opnai`; known are `openai`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// No provider of this name is registered.
    #[error("there is no provider `{name}`; known are {}", quoted(known))]
    UnknownProvider {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The provider is known, and this model of it is not.
    #[error("there is no model `{selection}`; known are {}", quoted(known))]
    UnknownModel {
        /// What was asked for.
        selection: Box<ModelSelection>,
        /// What there is.
        known: Vec<String>,
    },
    /// The provider's adapter was not compiled in.
    #[error("the provider `{provider}` needs the cargo feature `{feature}`")]
    FeatureOff {
        /// The provider.
        provider: String,
        /// The feature to turn on.
        feature: &'static str,
    },
    /// There is nothing to send requests with.
    #[error(
        "the provider `{provider}` needs a transport; give the registry one, such as the `HttpClient` of a `tls-…` feature"
    )]
    NoTransport {
        /// The provider.
        provider: String,
    },
}

impl ResolveError {
    /// An unknown model among these.
    #[must_use]
    pub fn unknown_model(wanted: ModelSelection, known: impl IntoIterator<Item = ModelSelection>) -> Self {
        let known = known.into_iter().map(|selection| selection.to_string()).collect();
        Self::UnknownModel { selection: Box::new(wanted), known }
    }

    /// Never: a name does not begin to lead somewhere by itself.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        Retry::Never
    }
}

fn quoted(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The wire format of a provider.
///
/// ```
/// use nervekit_harness::Adapter;
/// assert_eq!(Adapter::OpenAiChat.feature(), "openai-compatible");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Adapter {
    /// OpenAI's Chat Completions and everything that speaks them; written `openai-chat`.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
}

impl Adapter {
    /// The cargo feature that compiles it in.
    #[must_use]
    pub const fn feature(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai-compatible",
        }
    }
}

/// A provider: under which name, in which format, where, with which credential, and its models. Plain data,
/// so that it can come from a `models.json`.
///
/// Conversations keep the provider's name, so its meaning outlives a change of format or address. A model
/// that is not listed can be selected too, with the cautious limits of [`ModelInfo::new`].
///
/// ```
/// use nervekit_harness::{Adapter, ModelInfo, Provider};
/// let local = Provider::new("local", Adapter::OpenAiChat, "http://127.0.0.1:8080/v1")
///     .model(ModelInfo::new("local", "devstral").context_window(32_768));
/// let paid = Provider::new("openai", Adapter::OpenAiChat, "https://api.openai.com/v1").credential("OPENAI_API_KEY");
/// assert_eq!(paid.credential.as_deref(), Some("OPENAI_API_KEY"));
/// # let _ = local;
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Provider {
    /// The name by which conversations select it.
    pub name: String,
    /// The wire format.
    pub adapter: Adapter,
    /// The address that the format's paths are appended to.
    pub base_url: String,
    /// The name of the secret to send; none sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// What is known about its models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelInfo>,
}

impl Provider {
    /// A provider without a credential and without listed models.
    #[must_use]
    pub fn new(name: impl Into<String>, adapter: Adapter, base_url: impl Into<String>) -> Self {
        Self { name: name.into(), adapter, base_url: base_url.into(), credential: None, models: Vec::new() }
    }

    /// Sets the name of the secret to send.
    #[must_use]
    pub fn credential(mut self, name: impl Into<String>) -> Self {
        self.credential = Some(name.into());
        self
    }

    /// Lists a model. Its provider becomes this one.
    #[must_use]
    pub fn model(mut self, mut info: ModelInfo) -> Self {
        info.provider.clone_from(&self.name);
        self.models.push(info);
        self
    }

    /// What is known about a model of this provider.
    fn info(&self, id: &str) -> ModelInfo {
        let listed = self.models.iter().find(|info| info.id == id).cloned();
        let mut info = listed.unwrap_or_else(|| ModelInfo::new("", id));
        info.provider.clone_from(&self.name);
        info
    }
}

/// Models by name: those that were registered themselves, then those of registered providers.
///
/// ```
/// use nervekit_harness::{ModelRegistry, ModelResolver, ResolveError, ScriptedModel, ScriptedReply, ThinkingLevel};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let registry = ModelRegistry::new().register(ScriptedModel::new([ScriptedReply::text("hello")]));
/// let found = registry.resolve(&"demo/scripted".parse().unwrap(), ThinkingLevel::Low).await?;
/// assert_eq!(found.clamped_from, None);
///
/// let error = registry.resolve(&"opnai/gpt-5".parse().unwrap(), ThinkingLevel::Low).await.unwrap_err();
/// assert_eq!(error.to_string(), "there is no provider `opnai`; known are `demo`");
/// # Ok::<(), ResolveError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ModelRegistry {
    models: BTreeMap<ModelSelection, Arc<dyn Model>>,
    providers: BTreeMap<String, Provider>,
    credentials: Arc<dyn Credentials>,
    transport: Option<Arc<dyn Transport>>,
}

impl Default for ModelRegistry {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelRegistry {
    /// A registry without models, with credentials from the environment.
    #[must_use]
    pub fn new() -> Self {
        Self {
            models: BTreeMap::new(),
            providers: BTreeMap::new(),
            credentials: Arc::new(EnvironmentCredentials),
            transport: None,
        }
    }

    /// Adds a model, in place of one of the same provider and id.
    #[must_use]
    pub fn register(mut self, model: impl Model) -> Self {
        self.models.insert(model.info().selection(), Arc::new(model));
        self
    }

    /// Adds a provider, in place of one of the same name.
    #[must_use]
    pub fn provider(mut self, provider: Provider) -> Self {
        self.providers.insert(provider.name.clone(), provider);
        self
    }

    /// Sets where the secrets of providers come from.
    #[must_use]
    pub fn credentials(mut self, credentials: impl Credentials) -> Self {
        self.credentials = Arc::new(credentials);
        self
    }

    /// Sets what sends the requests of providers.
    #[must_use]
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Everything that is known about models, by provider and id.
    #[must_use]
    pub fn models(&self) -> Vec<ModelInfo> {
        let listed = self
            .providers
            .values()
            .flat_map(|provider| provider.models.iter().map(|info| provider.info(&info.id)));
        let registered = self.models.values().map(|model| model.info().clone());
        let all = listed.chain(registered).map(|info| (info.selection(), info));
        all.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// Reads `provider/id`, or the id alone of a model that is known under one provider only.
    ///
    /// ```
    /// use nervekit_harness::{ModelRegistry, ScriptedModel};
    /// let registry = ModelRegistry::new().register(ScriptedModel::new([]));
    /// assert_eq!(registry.select("scripted")?.to_string(), "demo/scripted");
    /// # Ok::<(), nervekit_harness::ResolveError>(())
    /// ```
    pub fn select(&self, name: &str) -> Result<ModelSelection, ResolveError> {
        let known: Vec<_> = self.models().iter().map(ModelInfo::selection).collect();
        let mut by_id = known.iter().filter(|selection| selection.model_id == name);
        if let (Some(only), None) = (by_id.next(), by_id.next()) {
            return Ok(only.clone());
        }
        name.parse().map_err(|_| ResolveError::unknown_model(ModelSelection::new("", name), known))
    }
}

#[cfg(feature = "openai-compatible")]
impl ModelRegistry {
    /// Makes a provider's model.
    fn connect(&self, provider: &Provider, id: &str) -> Result<Arc<dyn Model>, ResolveError> {
        let Some(transport) = &self.transport else {
            return Err(ResolveError::NoTransport { provider: provider.name.clone() });
        };
        match provider.adapter {
            Adapter::OpenAiChat => {
                let model = crate::openai_chat::OpenAiChat::new(
                    provider.info(id),
                    &provider.base_url,
                    Arc::clone(transport),
                )
                .credentials(Arc::clone(&self.credentials));
                Ok(Arc::new(match &provider.credential {
                    Some(name) => model.credential(name),
                    None => model,
                }))
            }
        }
    }
}

#[cfg(not(feature = "openai-compatible"))]
impl ModelRegistry {
    /// Says which feature would make a provider's model.
    #[expect(clippy::unused_self, reason = "as where a feature makes models")]
    fn connect(&self, provider: &Provider, _: &str) -> Result<Arc<dyn Model>, ResolveError> {
        Err(ResolveError::FeatureOff { provider: provider.name.clone(), feature: provider.adapter.feature() })
    }
}

#[async_trait]
impl ModelResolver for ModelRegistry {
    async fn resolve(
        &self,
        selection: &ModelSelection,
        thinking: ThinkingLevel,
    ) -> Result<ResolvedModel, ResolveError> {
        let model = if let Some(model) = self.models.get(selection) {
            Arc::clone(model)
        } else if let Some(provider) = self.providers.get(&selection.provider) {
            self.connect(provider, &selection.model_id)?
        } else {
            let same = self.models.keys().filter(|known| known.provider == selection.provider);
            if same.clone().next().is_some() {
                return Err(ResolveError::unknown_model(selection.clone(), same.cloned()));
            }
            let known = self.models.keys().map(|known| &known.provider).chain(self.providers.keys());
            let known = known.cloned().collect::<std::collections::BTreeSet<_>>();
            return Err(ResolveError::UnknownProvider {
                name: selection.provider.clone(),
                known: known.into_iter().collect(),
            });
        };
        Ok(ResolvedModel::new(model, thinking))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::ScriptedModel;

    #[test]
    fn an_error_is_small() {
        assert!(size_of::<ResolveError>() <= 64);
    }

    #[tokio::test]
    async fn an_unknown_model_names_its_siblings() {
        let registry = ModelRegistry::new().register(ScriptedModel::new([]));
        let error =
            registry.resolve(&ModelSelection::new("demo", "x"), ThinkingLevel::Off).await.unwrap_err();
        assert_eq!(error.to_string(), "there is no model `demo/x`; known are `demo/scripted`");
        let error = ModelRegistry::new().resolve(&ModelSelection::new("a", "b"), ThinkingLevel::Off).await;
        assert_eq!(error.unwrap_err().to_string(), "there is no provider `a`; known are none");
    }

    #[tokio::test]
    async fn a_level_that_the_model_lacks_is_clamped_and_said() {
        let info = ModelInfo::new("demo", "two").thinking([ThinkingLevel::High, ThinkingLevel::Low]);
        let registry = ModelRegistry::new().register(ScriptedModel::new([]).with_info(info));
        let selection = ModelSelection::new("demo", "two");
        for (wanted, given) in [
            (ThinkingLevel::Off, ThinkingLevel::Low),
            (ThinkingLevel::Low, ThinkingLevel::Low),
            (ThinkingLevel::Medium, ThinkingLevel::Low),
            (ThinkingLevel::Max, ThinkingLevel::High),
        ] {
            let found = registry.resolve(&selection, wanted).await.unwrap();
            assert_eq!(found.thinking, given);
            assert_eq!(found.clamped_from, (wanted != given).then_some(wanted));
        }
    }

    #[test]
    fn a_provider_is_read_from_json() {
        let provider: Provider = serde_json::from_str(
            r#"{"name": "local", "adapter": "openai-chat", "base_url": "http://127.0.0.1:8080/v1",
                "models": [{"id": "devstral", "context_window": 32768}]}"#,
        )
        .unwrap();
        let registry = ModelRegistry::new().provider(provider);
        let known = registry.models();
        assert_eq!(known, [ModelInfo::new("local", "devstral").context_window(32_768)]);
        assert_eq!(registry.select("devstral").unwrap(), ModelSelection::new("local", "devstral"));
    }

    #[cfg(not(feature = "openai-compatible"))]
    #[tokio::test]
    async fn a_provider_without_its_adapter_names_the_feature() {
        let registry = ModelRegistry::new().provider(Provider::new("local", Adapter::OpenAiChat, "http://x"));
        let error =
            registry.resolve(&ModelSelection::new("local", "m"), ThinkingLevel::Off).await.unwrap_err();
        assert_eq!(error.to_string(), "the provider `local` needs the cargo feature `openai-compatible`");
    }

    #[cfg(feature = "openai-compatible")]
    #[tokio::test]
    async fn a_providers_model_needs_a_transport_and_keeps_the_registered_name() {
        use crate::error::ProviderError;
        use crate::transport::{HttpRequest, HttpResponse};

        #[derive(Debug)]
        struct Nowhere;
        #[async_trait]
        impl Transport for Nowhere {
            async fn send(&self, _: HttpRequest) -> Result<HttpResponse, ProviderError> {
                Err(ProviderError::protocol("nowhere"))
            }
        }
        let provider = Provider::new("local", Adapter::OpenAiChat, "http://x")
            .model(ModelInfo::new("another name", "m").context_window(7));
        let registry = ModelRegistry::new().provider(provider);
        let find = |registry: ModelRegistry, id: &'static str| async move {
            registry.resolve(&ModelSelection::new("local", id), ThinkingLevel::Off).await
        };
        let error = find(registry.clone(), "m").await.unwrap_err();
        assert_eq!(error, ResolveError::NoTransport { provider: "local".into() });
        let registry = registry.transport(Nowhere);
        let listed = find(registry.clone(), "m").await.unwrap();
        assert_eq!(*listed.model.info(), ModelInfo::new("local", "m").context_window(7));
        let other = find(registry, "org/x").await.unwrap();
        assert_eq!(*other.model.info(), ModelInfo::new("local", "org/x"));
    }
}
