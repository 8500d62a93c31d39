//! A conversation as it is stored.

use std::path::PathBuf;
use std::sync::Arc;

use nervekit_permissions::{DocumentId, DocumentOwner, DocumentScope, PolicyDocument};
use nervekit_types::{ConversationId, IdSource, SystemIds};

use super::{Store, StoreError};
use crate::backend::Backend;
use crate::conversation::ConversationConfig;

/// What the calls of a conversation are judged by, as it is stored: for a program that looks at a store without a core.
/// Nothing is recovered, and nothing goes on.
///
/// ```
/// use nervekit_conversation_core::{MemoryBackend, StoredConversation};
/// use nervekit_types::ConversationId;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let unknown = StoredConversation::read(MemoryBackend::new(), ConversationId::from_key("a")).await?;
/// assert!(unknown.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredConversation {
    /// Its settings.
    pub config: Arc<ConversationConfig>,
    /// The folder of its project.
    pub directory: Option<PathBuf>,
    /// Its own permission rules.
    pub rules: Option<Arc<PolicyDocument>>,
}

impl StoredConversation {
    /// Reads a conversation; `None` when there is none of this id.
    pub async fn read(backend: impl Backend, id: ConversationId) -> Result<Option<Self>, StoreError> {
        let ids: Arc<dyn IdSource> = Arc::new(SystemIds::default());
        let store = Store::open(Arc::new(backend), ids).await?;
        let Some(rows) = store.load(id).await? else { return Ok(None) };
        let project = store.project(rows.core.value.project_id).await?;
        let name = DocumentId::permissions(DocumentOwner::Conversation(id)).name;
        let rules = rows.documents.get(&name).map(|document| {
            PolicyDocument::parse(DocumentScope::Conversation, &document.value)
                .map(Arc::new)
                .map_err(|error| StoreError::damaged(format!("the rules of `{id}`: {error}")))
        });
        Ok(Some(Self {
            config: rows.config.value,
            directory: project.and_then(|project| project.value.directory),
            rules: rules.transpose()?,
        }))
    }
}
