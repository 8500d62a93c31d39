//! Setting a host up.

mod opening;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nervekit_conversation_core::{
    Attendance, Backend, ConversationConfig, Hook, Limits, RecoveryPolicy, RuntimeLimits, TurnResources,
};
use nervekit_harness::{
    Credentials, EnvironmentCredentials, Harness, IntoModel, ModelChoice, ModelSelection, Provider,
    RetryPolicy, ThinkingLevel, Transport,
};
use nervekit_permissions::{Documents, PermissionEngine};
use nervekit_tools::{AssetStore, Processes, Tool};
use nervekit_types::{Clock, Entropy, IdSource};
use tokio::runtime::Handle;

use opening::known_providers;

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
}
