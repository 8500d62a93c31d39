//! Setting a host up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nervekit_conversation_core::{
    Attendance, Backend, BuildError, BuildProblem, ConversationConfig, ConversationCore, Conversations,
    CoreBuilder, Hook, Limits, MemoryBackend, Project, RecoveryPolicy, RuntimeLimits, StoreError,
    StoredTrust, TurnResources,
};
use nervekit_harness::{
    Adapter, Credentials, EnvironmentCredentials, Harness, IntoModel, ModelChoice, ModelRegistry,
    ModelSelection, Provider, RetryPolicy, ThinkingLevel, Transport,
};
use nervekit_permissions::{
    DocumentOwner, Documents, FileDocuments, PermissionEngine, Roots, RuleEngine, TargetResolver,
};
use nervekit_tools::{
    AssetStore, Catalog, CatalogError, FileAssetStore, MemoryAssetStore, Processes, Tool, catalog,
};
use nervekit_types::{Clock, Entropy, IdSource};
use tokio::runtime::Handle;

use super::feature::Features;
use super::folder::{self, Folders};
use super::{Host, project_without_folder};
use crate::resource::LocalResources;

/// Where conversations are kept.
#[derive(Debug)]
enum Kept {
    Memory,
    Home,
    Backend(Arc<dyn Backend>),
}

/// Sets a host up. What is not set has a default; nothing but a model is needed.
///
/// ```
/// use nervekit::{Host, Limits, RecoveryPolicy};
/// let builder = Host::local()
///     .project(".")
///     .model("openrouter/anthropic/claude-sonnet-4.5")
///     .rule_set("supervised")
///     .limits(Limits::new().turns(40))
///     .recovery(RecoveryPolicy::Continue { at_most: 3 });
/// # let _ = builder;
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is opened"]
pub struct HostBuilder {
    kept: Kept,
    home: Option<PathBuf>,
    project: Option<PathBuf>,
    lock_wait: Duration,
    model: Option<ModelChoice>,
    config: ConversationConfig,
    providers: Vec<Provider>,
    credentials: Arc<dyn Credentials>,
    transport: Option<Arc<dyn Transport>>,
    local_tools: bool,
    tools: Vec<Tool>,
    permissions: Option<Arc<dyn PermissionEngine>>,
    documents: Option<Arc<dyn Documents>>,
    external_edits: bool,
    roots: Vec<(String, PathBuf)>,
    protected: Vec<PathBuf>,
    assets: Option<Arc<dyn AssetStore>>,
    assets_are_durable: bool,
    processes: Option<Arc<dyn Processes>>,
    resources: Arc<dyn TurnResources>,
    harness: Option<Arc<dyn Harness>>,
    hooks: Vec<Arc<dyn Hook>>,
    capabilities: Vec<String>,
    clock: Option<Arc<dyn Clock>>,
    ids: Option<Arc<dyn IdSource>>,
    entropy: Option<Arc<dyn Entropy>>,
    runtime_limits: RuntimeLimits,
    retries: RetryPolicy,
    recovery: RecoveryPolicy,
    runtime: Option<Handle>,
}

impl HostBuilder {
    fn new(kept: Kept) -> Self {
        Self {
            kept,
            home: None,
            project: None,
            lock_wait: Duration::ZERO,
            model: None,
            config: ConversationConfig::new(ModelSelection::new("", "")),
            providers: known_providers(),
            credentials: Arc::new(EnvironmentCredentials),
            transport: None,
            local_tools: true,
            tools: Vec::new(),
            permissions: None,
            documents: None,
            external_edits: false,
            roots: Vec::new(),
            protected: Vec::new(),
            assets: None,
            assets_are_durable: false,
            processes: None,
            resources: Arc::new(LocalResources),
            harness: None,
            hooks: Vec::new(),
            capabilities: Vec::new(),
            clock: None,
            ids: None,
            entropy: None,
            runtime_limits: RuntimeLimits::new(),
            retries: RetryPolicy::new(),
            recovery: RecoveryPolicy::default(),
            runtime: None,
        }
    }

    pub(super) fn local() -> Self {
        Self::new(Kept::Home)
    }

    pub(super) fn in_memory() -> Self {
        Self::new(Kept::Memory)
    }

    /// Keeps everything below this folder instead of `$NERVE_HOME` or `~/.nerve`. It never lies inside the project.
    pub fn home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.home = Some(folder.into());
        self
    }

    /// Works in this folder, which must exist. Without one there are no files to work on.
    pub fn project(mut self, folder: impl Into<PathBuf>) -> Self {
        self.project = Some(folder.into());
        self
    }

    /// Waits this long for another process to give the store up; by default not at all.
    pub const fn lock_wait(mut self, wait: Duration) -> Self {
        self.lock_wait = wait;
        self
    }

    /// Keeps conversations in a backend of the host's.
    pub fn backend(mut self, backend: impl Backend) -> Self {
        self.kept = Kept::Backend(Arc::new(backend));
        self
    }

    /// Answers with this model: `provider/id`, the id of a registered model such as `demo`, or a model.
    pub fn model(mut self, model: impl IntoModel) -> Self {
        self.model = Some(model.into_model());
        self
    }

    /// Sets how much the model thinks first; not at all by default.
    pub const fn thinking(mut self, level: ThinkingLevel) -> Self {
        self.config.thinking = level;
        self
    }

    /// Replaces the system prompt of new conversations, which by default is that of [`LocalResources`].
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.config.system_prompt = Some(prompt.into());
        self
    }

    /// Judges new conversations by this rule set: `read_only`, `supervised` (the default: reading is automatic,
    /// everything else asks) or `autonomous`; see [`permissions`](crate::permissions).
    pub fn rule_set(mut self, id: impl Into<String>) -> Self {
        self.config.rule_set_id = id.into();
        self
    }

    /// Says that no person can be asked: what would wait for one is denied, in words that say what would allow it.
    pub const fn unattended(mut self) -> Self {
        self.config.attendance = Attendance::Unattended;
        self
    }

    /// Bounds each execution of new conversations; by default 200 turns and nothing else.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }

    /// Adds a provider, or replaces the one of the same name.
    pub fn provider(mut self, provider: Provider) -> Self {
        self.providers.retain(|known| known.name != provider.name);
        self.providers.push(provider);
        self
    }

    /// Takes secrets from here instead of the environment.
    pub fn credentials(mut self, credentials: impl Credentials) -> Self {
        self.credentials = Arc::new(credentials);
        self
    }

    /// Sends the requests of providers through this, instead of the HTTP client of the features.
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Adds a tool, such as one made by [`Tool::function`].
    pub fn tool(mut self, tool: impl Into<Tool>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Offers no tool that works on this machine's files and processes.
    pub const fn without_local_tools(mut self) -> Self {
        self.local_tools = false;
        self
    }

    /// Judges calls by a permission engine of the host's.
    pub fn permissions(mut self, engine: impl PermissionEngine) -> Self {
        self.permissions = Some(Arc::new(engine));
        self
    }

    /// Keeps the permission rules of the user and of projects here, instead of in files: `config/permissions.json` and
    /// `config/rule-sets/` of the home, and `.nerve/config/permissions.json` of each project. A host in memory has
    /// none unless it is given some.
    pub fn documents(mut self, documents: impl Documents) -> Self {
        self.documents = Some(Arc::new(documents));
        self
    }

    /// Sets whether edits of the user's own rules, made by something else than this program, allow more without being
    /// accepted: off by default, because whatever can write the home could then lift every restriction. What projects
    /// bring is accepted by a person in any case.
    pub const fn trust_external_edits(mut self, trusted: bool) -> Self {
        self.external_edits = trusted;
        self
    }

    /// Registers a folder besides those of the project and the home, which must exist. Rules speak of it as
    /// `"root": "host:<name>"` and of what lies in it as `${host:<name>}/…`; by itself it allows nothing.
    pub fn root(mut self, name: impl Into<String>, folder: impl Into<PathBuf>) -> Self {
        self.roots.push((name.into(), folder.into()));
        self
    }

    /// Protects a file or folder besides the known stores of credentials: reading it asks under every rule set, and
    /// searches skip it.
    pub fn protect(mut self, path: impl Into<PathBuf>) -> Self {
        self.protected.push(path.into());
        self
    }

    /// Keeps large results and images here; it says of itself that it outlives the process.
    pub fn assets(mut self, assets: impl AssetStore) -> Self {
        self.assets = Some(Arc::new(assets));
        self.assets_are_durable = true;
        self
    }

    /// Runs commands by this.
    pub fn processes(mut self, processes: impl Processes) -> Self {
        self.processes = Some(Arc::new(processes));
        self
    }

    /// Gives turns their system prompt, context and choice of tools.
    pub fn resources(mut self, resources: impl TurnResources) -> Self {
        self.resources = Arc::new(resources);
        self
    }

    /// Replaces how a model is asked for one answer, measured and summarised.
    pub fn harness(mut self, harness: impl Harness) -> Self {
        self.harness = Some(Arc::new(harness));
        self
    }

    /// Adds a hook.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Enables a capability: tools that need it are offered.
    pub fn capability(mut self, name: impl Into<String>) -> Self {
        self.capabilities.push(name.into());
        self
    }

    /// Tells the time by this.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Takes ids from here.
    pub fn ids(mut self, ids: impl IdSource) -> Self {
        self.ids = Some(Arc::new(ids));
        self
    }

    /// Takes random bytes from here.
    pub fn entropy(mut self, entropy: impl Entropy) -> Self {
        self.entropy = Some(Arc::new(entropy));
        self
    }

    /// Sets the bounds that protect the process: how much runs at once, how long hooks may take, how much may queue.
    pub fn runtime_limits(mut self, limits: RuntimeLimits) -> Self {
        self.runtime_limits = limits;
        self
    }

    /// Sets how provider errors are tried again.
    pub const fn retries(mut self, retries: RetryPolicy) -> Self {
        self.retries = retries;
        self
    }

    /// Sets what happens to an execution that a crash interrupted; by default it ends as interrupted, and
    /// [`Conversation::continue_processing`](crate::Conversation::continue_processing) carries it on.
    pub const fn recovery(mut self, policy: RecoveryPolicy) -> Self {
        self.recovery = policy;
        self
    }

    /// Runs all work here instead of in the runtime that `open` is called in.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

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
fn known_providers() -> Vec<Provider> {
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
