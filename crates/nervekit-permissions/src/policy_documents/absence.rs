//! Accepting that a document is gone.

use super::PolicyDocuments;
use crate::documents::{DocumentId, DocumentOwner};
use crate::error::DocumentError;

impl PolicyDocuments {
    /// Accepts that a document is gone: nothing of the version accepted last restricts any more. It fails with
    /// [`DocumentError::Changed`] while there is one, and when what is there cannot be read.
    ///
    /// A version of the user that is put back later is an edit like any other; one of a project that was trusted
    /// counts again, until it is [rejected](Self::reject).
    ///
    /// ```
    /// use nervekit_permissions::{DocumentId, DocumentOwner, Documents, MemoryDocuments, PolicyDocuments, Standing};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let files = std::sync::Arc::new(MemoryDocuments::new());
    /// let (person, documents) = (DocumentOwner::User(None), PolicyDocuments::new(files.clone()));
    /// let id = DocumentId::permissions(person.clone());
    /// files.replace(&id, None, br#"{"schemaVersion": 2}"#).await?;
    /// assert!(documents.accept_absence(&person).await.is_err()); // it is there
    ///
    /// files.edit(&id, None); // somebody removes it
    /// assert_eq!(documents.status(&person).await?.standing, Standing::Gone);
    /// documents.accept_absence(&person).await?;
    /// assert_eq!(documents.status(&person).await?.standing, Standing::Absent);
    /// # Ok::<(), nervekit_permissions::DocumentError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn accept_absence(&self, owner: &DocumentOwner) -> Result<(), DocumentError> {
        self.documents.forget(&DocumentId::permissions(owner.clone())).await
    }
}
