//! Opening a host: everything that was not set gets its default, and all is wired.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nervekit_conversation_core::{
    Backend, BuildError, BuildProblem, ConversationCore, Conversations, CoreBuilder, MemoryBackend, Project,
    StoreError, StoredTrust,
};
use nervekit_harness::{Adapter, ModelChoice, ModelRegistry, ModelSelection, Provider, Transport};
use nervekit_permissions::{DocumentOwner, Documents, FileDocuments, Roots, RuleEngine, TargetResolver};
use nervekit_tools::{Catalog, CatalogError, FileAssetStore, MemoryAssetStore, Processes, catalog};
use tokio::runtime::Handle;

use super::{HostBuilder, Kept};
use crate::host::feature::Features;
use crate::host::folder::{self, Folders};
use crate::host::{Host, project_without_folder};

impl HostBuilder {
    /// Opens the host: finds the folders, opens the store, recovers what is unfinished ([`Host::recovery`] tells what
    /// that was). The error lists everything that is wrong with the set-up at once.
    pub async fn open(mut self) -> Result<Host, BuildError> {
        let mut problems = Vec::new();
        if self.runtime.is_none() && Handle::try_current().is_err() {
            problems.push(BuildProblem::NoRuntime);
        }
        let folders = self.folders(&mut problems);
        for (_, folder) in &mut self.roots {
            if let Some(canonical) = folder::existing(folder, &mut problems) {
                *folder = canonical;
            }
        }
        let models = self.models(&mut problems).await;
        let tools = self.catalog(&mut problems);
        if matches!(&self.kept, Kept::Backend(backend) if backend.facts().durable) && self.assets.is_none() {
            problems.push(BuildProblem::NotDurable { port: "assets" });
        }
        if !problems.is_empty() {
            return Err(BuildError::new(problems));
        }
        let backend = self.open_backend(folders.as_ref()).await?;
        let assets = self.assets.clone().unwrap_or_else(|| match &folders {
            Some(folders) if matches!(self.kept, Kept::Home) => {
                Arc::new(FileAssetStore::new(folders.data.join("assets")))
            }
            _ => Arc::new(MemoryAssetStore::default()),
        });
        let documents = self.open_documents(&backend, folders.as_ref()).await?;
        let permissions = self.permissions.clone().unwrap_or_else(|| {
            let resolver = TargetResolver::new(self.roots(folders.as_ref()));
            let resolver = self.protected.iter().fold(resolver, TargetResolver::protect);
            let engine = RuleEngine::with_resolver(resolver);
            Arc::new(match &documents {
                Some(documents) => engine.documents(documents.clone(), DocumentOwner::User(None)),
                None => engine,
            })
        });
        let project = folders.as_ref().and_then(|folders| folders.project.clone());
        let home = folders.filter(|_| matches!(self.kept, Kept::Home)).map(|folders| folders.home);
        let config = self.config.clone();
        let mut builder = ConversationCore::builder(backend, models, permissions, tools).assets(assets);
        if let Some(documents) = documents {
            builder = builder.documents(documents, DocumentOwner::User(None));
        }
        let (core, recovery) = self.wire(builder).open_with_report().await?;
        let api: Arc<dyn Conversations> = Arc::new(core.clone());
        let project = match project {
            Some(folder) => Project::at(api.clone(), folder).await,
            None => project_without_folder(api.clone()).await,
        };
        let project = project.map_err(|error| match error {
            nervekit_conversation_core::CommandError::Store(error) => BuildError::from(error),
            other => BuildError::from(StoreError::damaged(other.to_string())),
        })?;
        Ok(Host { core, api, project, config, home, recovery: Arc::new(recovery) })
    }

    fn folders(&self, problems: &mut Vec<BuildProblem>) -> Option<Folders> {
        if matches!(self.kept, Kept::Home) {
            problems.extend(Features::BUILT.home_problem());
            return match folder::prepare(self.home.clone(), self.project.as_deref()) {
                Ok(folders) => Some(folders),
                Err(mut found) => {
                    problems.append(&mut found);
                    None
                }
            };
        }
        let project = folder::existing(self.project.as_deref()?, problems)?;
        // Nothing is kept here: a home that does not exist protects nothing and is written by nobody.
        let home = self.home.clone().unwrap_or_else(|| PathBuf::from("/nonexistent/nervekit"));
        Some(Folders { data: home.join("data"), home, project: Some(project), os_home: folder::os_home() })
    }

    async fn models(&mut self, problems: &mut Vec<BuildProblem>) -> ModelRegistry {
        let mut registry = ModelRegistry::new().credentials(self.credentials.clone());
        for provider in self.providers.clone() {
            registry = registry.provider(provider);
        }
        if let Some(transport) = self.transport.take().or_else(default_transport) {
            registry = registry.transport(transport);
        }
        #[cfg(feature = "demo")]
        {
            registry = registry.register(crate::demo::DemoModel::new());
        }
        match self.model.take() {
            Some(ModelChoice::Given(model)) => {
                self.config.model = model.info().selection();
                registry = registry.register(model);
            }
            Some(ModelChoice::Named(name)) => match registry.select(&name) {
                Ok(selection) => {
                    self.check_model(&registry, &selection, problems).await;
                    self.config.model = selection;
                }
                Err(error) => problems.push(Features::BUILT.model_problem(&name, error)),
            },
            // Nothing was chosen, or in a way that is not known here.
            None | Some(_) => problems.push(BuildProblem::NoModel),
        }
        registry
    }

    /// Whether the model of this name can be asked: its provider is known, its feature on, its credential there.
    async fn check_model(
        &self,
        registry: &ModelRegistry,
        selection: &ModelSelection,
        problems: &mut Vec<BuildProblem>,
    ) {
        use nervekit_harness::ModelResolver as _;
        if let Err(error) = registry.resolve(selection, self.config.thinking).await {
            problems.push(Features::BUILT.model_problem(&selection.to_string(), error));
            return;
        }
        let provider = self.providers.iter().find(|provider| provider.name == selection.provider);
        if let Some(variable) = provider.and_then(|provider| provider.credential.clone())
            && !matches!(self.credentials.secret(&variable).await, Ok(Some(_)))
        {
            problems.push(BuildProblem::MissingCredential { variable });
        }
    }

    fn catalog(&mut self, problems: &mut Vec<BuildProblem>) -> Catalog {
        let mut tools = if self.local_tools { default_tools() } else { catalog::core_tools() };
        for tool in std::mem::take(&mut self.tools) {
            match tools.add(tool) {
                Ok(()) => {}
                Err(CatalogError::Duplicate { name }) => problems.push(BuildProblem::DuplicateTool { name }),
                Err(error) => problems.push(BuildProblem::Tool(Box::new(error))),
            }
        }
        tools
    }

    async fn open_backend(&self, folders: Option<&Folders>) -> Result<Arc<dyn Backend>, BuildError> {
        match (&self.kept, folders) {
            (Kept::Backend(backend), _) => Ok(backend.clone()),
            (Kept::Memory, _) => Ok(Arc::new(MemoryBackend::new())),
            (Kept::Home, folders) => open_file(folders, self.lock_wait).await,
        }
    }

    /// The documents that the host's own engine looks at. An engine of the embedder's looks at what it likes.
    async fn open_documents(
        &self,
        backend: &Arc<dyn Backend>,
        folders: Option<&Folders>,
    ) -> Result<Option<Arc<dyn Documents>>, BuildError> {
        if self.documents.is_some() || self.permissions.is_some() || matches!(self.kept, Kept::Memory) {
            return Ok(self.documents.clone());
        }
        let trust = StoredTrust::open(backend.clone()).await?;
        let home = folders.filter(|_| matches!(self.kept, Kept::Home)).map(|folders| &folders.home);
        let documents = match home.or(self.home.as_ref()) {
            Some(home) => FileDocuments::new(home, trust),
            None => FileDocuments::of_projects(trust),
        };
        let documents = documents.trust_external_edits(self.external_edits);
        documents.adopt().await?;
        Ok(Some(Arc::new(documents)))
    }

    fn roots(&self, folders: Option<&Folders>) -> Roots {
        let roots = match folders {
            Some(folders) if matches!(self.kept, Kept::Home) || self.home.is_some() => folders.roots(),
            Some(folders) => folders.roots_outside_home(),
            None => folder::personal_roots(folder::os_home().as_deref()),
        };
        self.roots.iter().fold(roots, |roots, (name, folder)| roots.host(name, folder))
    }

    fn wire(self, mut builder: CoreBuilder) -> CoreBuilder {
        builder = builder
            .resources(self.resources)
            .limits(self.runtime_limits)
            .retries(self.retries)
            .recovery(self.recovery);
        if let Some(processes) = self.processes.or_else(|| self.local_tools.then(default_processes).flatten())
        {
            builder = builder.processes(processes);
        }
        if let Some(harness) = self.harness {
            builder = builder.harness(harness);
        }
        for hook in self.hooks {
            builder = builder.hook(hook);
        }
        for capability in self.capabilities {
            builder = builder.capability(capability);
        }
        if let Some(clock) = self.clock {
            builder = builder.clock(clock);
        }
        if let Some(ids) = self.ids {
            builder = builder.ids(ids);
        }
        if let Some(entropy) = self.entropy {
            builder = builder.entropy(entropy);
        }
        match self.runtime {
            Some(runtime) => builder.runtime(runtime),
            None => builder,
        }
    }
}

/// Providers that need no more than a key, or nothing: names, base addresses and variables as they document them.
pub(super) fn known_providers() -> Vec<Provider> {
    let chat = |name: &str, base: &str| Provider::new(name, Adapter::OpenAiChat, base);
    vec![
        chat("openai", "https://api.openai.com/v1").credential("OPENAI_API_KEY"),
        chat("openrouter", "https://openrouter.ai/api/v1").credential("OPENROUTER_API_KEY"),
        chat("ollama", "http://localhost:11434/v1"),
        chat("llama.cpp", "http://localhost:8080/v1"),
        chat("lmstudio", "http://localhost:1234/v1"),
    ]
}

#[cfg(any(feature = "tls-aws-lc", feature = "tls-ring", feature = "tls-none"))]
fn default_transport() -> Option<Arc<dyn Transport>> {
    let client = nervekit_harness::HttpClient::new().ok()?;
    Some(Arc::new(client))
}

#[cfg(not(any(feature = "tls-aws-lc", feature = "tls-ring", feature = "tls-none")))]
const fn default_transport() -> Option<Arc<dyn Transport>> {
    None
}

#[cfg(feature = "local-tools")]
fn default_tools() -> Catalog {
    let mut tools = catalog::local_tools();
    for tool in catalog::core_tools().iter() {
        // The names of the two groups differ; a replaced one would be a tool lost, which a test looks for.
        tools.replace(tool.clone());
    }
    tools
}

#[cfg(not(feature = "local-tools"))]
fn default_tools() -> Catalog {
    catalog::core_tools()
}

#[cfg(all(feature = "local-tools", unix))]
#[expect(clippy::unnecessary_wraps, reason = "as where there are none")]
fn default_processes() -> Option<Arc<dyn Processes>> {
    Some(Arc::new(nervekit_tools::LocalProcesses::new()))
}

#[cfg(not(all(feature = "local-tools", unix)))]
const fn default_processes() -> Option<Arc<dyn Processes>> {
    None
}

#[cfg(feature = "redb")]
async fn open_file(folders: Option<&Folders>, wait: Duration) -> Result<Arc<dyn Backend>, BuildError> {
    let Some(folders) = folders else { return Err(BuildError::new([])) };
    let options = nervekit_store::RedbBackend::options(folders.store()).lock_wait(wait);
    let backend = options.open().await.map_err(StoreError::from)?;
    Ok(Arc::new(backend))
}

#[cfg(not(feature = "redb"))]
#[expect(clippy::unused_async, reason = "as where a file is opened")]
async fn open_file(_folders: Option<&Folders>, _wait: Duration) -> Result<Arc<dyn Backend>, BuildError> {
    Err(BuildError::new(Features::BUILT.home_problem()))
}

#[cfg(test)]
mod tests {
    use nervekit_permissions::Root;

    use super::*;

    #[test]
    fn what_the_person_keeps_is_protected_also_without_a_project() {
        let roots = HostBuilder::in_memory().roots(None);
        assert_eq!(roots.iter().any(|root| root.root == Root::Home), folder::os_home().is_some());
        assert!(roots.iter().any(|root| root.root == Root::Temp));
    }
}
