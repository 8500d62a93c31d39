use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use nervekit_harness::{ModelSelection, ThinkingLevel};
use nervekit_permissions::DocumentError;
use nervekit_types::ConversationId;
use serde::{Deserialize, Serialize};

use super::forward;

/// A template for conversations that work is delegated to: what such a one is for, and what it may do.
///
/// ```
/// use nervekit_conversation_core::Profile;
/// let profile = Profile::new("explore", "Explore", "Reads and searches; changes nothing.", "read_only");
/// assert!(profile.enabled);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Profile {
    /// The id that an assignment names.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// What it is for; the model reads it.
    pub description: String,
    /// The model; the lead's if absent.
    #[serde(default)]
    pub model: Option<ModelSelection>,
    /// How much the model thinks first; the lead's if absent.
    #[serde(default)]
    pub thinking: Option<ThinkingLevel>,
    /// A system prompt of its own.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// `read_only` or `autonomous`.
    pub rule_set: String,
    /// If present, only these tools are offered.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// Whether it can be assigned.
    #[serde(default = "enabled")]
    pub enabled: bool,
}

const fn enabled() -> bool {
    true
}

impl Profile {
    /// An enabled profile that inherits what it does not say.
    #[must_use]
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        description: impl Into<String>,
        rule_set: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            description: description.into(),
            model: None,
            thinking: None,
            system_prompt: None,
            rule_set: rule_set.into(),
            tools: None,
            enabled: true,
        }
    }

    /// Gives it a system prompt of its own.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = Some(prompt.into());
        self
    }
}

/// The profiles that a conversation can assign: what a host that delegates work to other conversations offers.
///
/// **Contract.** Ids are unique within an answer. A change affects conversations created later only.
///
/// ```
/// use async_trait::async_trait;
/// use nervekit_conversation_core::{Profile, Profiles};
/// use nervekit_permissions::DocumentError;
/// use nervekit_types::ConversationId;
///
/// #[derive(Debug)]
/// struct OneReviewer;
///
/// #[async_trait]
/// impl Profiles for OneReviewer {
///     async fn profiles(&self, _lead: ConversationId) -> Result<Vec<Profile>, DocumentError> {
///         Ok(vec![Profile::new("review", "Reviewer", "Reads a change and comments.", "read_only")])
///     }
/// }
/// ```
#[async_trait]
pub trait Profiles: Debug + Send + Sync + 'static {
    /// The profiles that this conversation can assign.
    async fn profiles(&self, lead: ConversationId) -> Result<Vec<Profile>, DocumentError>;
}

forward!(Profiles {
    fn profiles(&self, lead: ConversationId) -> Result<Vec<Profile>, DocumentError>;
});

/// Nothing can be assigned.
///
/// ```
/// use nervekit_conversation_core::{NoProfiles, Profiles};
/// use nervekit_types::ConversationId;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// assert!(NoProfiles.profiles(ConversationId::from_key("a")).await?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProfiles;

#[async_trait]
impl Profiles for NoProfiles {
    async fn profiles(&self, _lead: ConversationId) -> Result<Vec<Profile>, DocumentError> {
        Ok(Vec::new())
    }
}
