//! The documents of a person and a project, and what was decided about them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nervekit::Folders;
use nervekit::conversation::{BackendError, StoredConversation, StoredTrust};
use nervekit::permissions::{
    DocumentError, DocumentId, DocumentOwner, DocumentScope, Documents as _, FileDocuments, PolicyDocuments,
    RuleEngine, display,
};
use nervekit::store::RedbBackend;
use nervekit::types::ConversationId;

use super::Failure;
use super::given::Given;

/// How long another `policy` may have the store open; it needs it for less than a second.
const WAIT: Duration = Duration::from_secs(2);

/// An open home. The store is free again when it is dropped.
pub(crate) struct Place {
    pub(crate) folders: Folders,
    pub(crate) documents: FileDocuments,
    pub(crate) policies: PolicyDocuments,
    backend: Arc<RedbBackend>,
}

impl Place {
    /// Opens a home as a host does: what a new one holds is the person's. The project is looked for only by what works
    /// on it.
    pub(crate) async fn open(given: &Given, with_project: bool) -> Result<Self, Failure> {
        let project = with_project.then(|| given.path("--project").unwrap_or_else(|| PathBuf::from(".")));
        let folders = Folders::local(given.path("--home"), project.as_deref()).map_err(Failure::refused)?;
        let backend = RedbBackend::options(folders.store()).lock_wait(WAIT).open().await;
        let backend = backend.map_err(|error| match error {
            BackendError::InUse { store } => Failure::InUse(format!(
                "the store `{}` is in use: a host, or another `policy`, has it open; close it, and try again",
                display(&store)
            )),
            other => Failure::refused(other),
        })?;
        let backend = Arc::new(backend);
        let trust = StoredTrust::open(backend.clone()).await.map_err(Failure::refused)?;
        let documents = FileDocuments::new(folders.home(), trust);
        documents.adopt().await.map_err(Failure::refused)?;
        let policies = PolicyDocuments::new(documents.clone());
        Ok(Self { folders, documents, policies, backend })
    }

    /// A conversation that is kept here. Looking at it changes nothing: what it left unfinished is for a host.
    pub(crate) async fn conversation(&self, id: ConversationId) -> Result<StoredConversation, Failure> {
        let read = StoredConversation::read(self.backend.clone(), id).await.map_err(Failure::refused)?;
        read.ok_or_else(|| Failure::Refused(format!("there is no conversation `{id}` in this home")))
    }

    /// The same home, with another project.
    pub(crate) fn in_project(mut self, project: &Path) -> Result<Self, Failure> {
        let home = self.folders.home().to_owned();
        self.folders = Folders::local(Some(home), Some(project)).map_err(Failure::refused)?;
        Ok(self)
    }

    /// To whom the documents of a scope belong.
    pub(crate) fn owner(&self, scope: DocumentScope) -> DocumentOwner {
        match self.folders.project() {
            Some(project) if scope == DocumentScope::Project => DocumentOwner::Project(project.to_owned()),
            _ => DocumentOwner::User(None),
        }
    }

    /// The engine of a host, which knows what was decided about every document that it will look at.
    pub(crate) async fn engine(&self, rule_set: &str) -> Result<RuleEngine, Failure> {
        let ids = [
            DocumentId::permissions(self.owner(DocumentScope::User)),
            DocumentId::permissions(self.owner(DocumentScope::Project)),
            rule_set_id(rule_set),
        ];
        for id in ids {
            match self.documents.read(&id).await {
                // No file is called so; the engine says that there is no such rule set.
                Ok(_) | Err(DocumentError::Unsupported) => {}
                Err(error) => return Err(Failure::refused(error)),
            }
        }
        let engine = RuleEngine::new(self.folders.roots());
        Ok(engine.documents(self.documents.clone(), self.owner(DocumentScope::User)))
    }

    /// The ids of the person's rule sets.
    pub(crate) fn rule_sets(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folders.home().join("config/rule-sets"));
        let names =
            entries.into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut ids: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect();
        ids.retain(|id| !id.starts_with('.'));
        ids.sort_unstable();
        ids
    }
}

/// The document that holds a rule set of the person.
pub(crate) fn rule_set_id(rule_set: &str) -> DocumentId {
    DocumentId::new(DocumentOwner::User(None), format!("rule-sets/{rule_set}"))
}
