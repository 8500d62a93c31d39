//! Wiring a core.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use nervekit_harness::{Harness, ModelResolver, RetryPolicy, StandardHarness};
use nervekit_permissions::{DocumentError, DocumentOwner, Documents, PermissionEngine};
use nervekit_tools::{AssetStore, MemoryAssetStore, MutationLocks, NoProcesses, Processes, ToolManifest};
use nervekit_types::{Clock, Entropy, IdSource, IncarnationId, Retry, SystemClock, SystemEntropy, SystemIds};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use super::ConversationCore;
use super::core::{Inner, RuntimeLimits};
use super::document::OutsideDocuments;
use super::machine::RecoveryPolicy;
use super::neighbour::Neighbours;
use crate::backend::Backend;
use crate::port::{FixedResources, Hook, TurnResources};
use crate::store::{Store, StoreError};

/// Why a core or a host could not be opened: everything that is wrong, at once.
///
/// ```
/// use nervekit_conversation_core::{BuildError, BuildProblem};
/// let error = BuildError::new([BuildProblem::NoRuntime]);
/// assert!(error.to_string().contains("tokio runtime"));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct BuildError {
    /// What is wrong.
    pub problems: Vec<BuildProblem>,
}

impl BuildError {
    /// Everything that is wrong.
    #[must_use]
    pub fn new(problems: impl IntoIterator<Item = BuildProblem>) -> Self {
        Self { problems: problems.into_iter().collect() }
    }

    /// Whether to try again: never, unless every problem passes by itself.
    #[must_use]
    pub fn retry(&self) -> Retry {
        let mut answer = Retry::Now;
        for problem in &self.problems {
            match problem.retry() {
                Retry::Never => return Retry::Never,
                other => answer = other,
            }
        }
        answer
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for problem in &self.problems {
            write!(f, "{separator}{problem}")?;
            separator = "; ";
        }
        Ok(())
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.problems.first().and_then(std::error::Error::source)
    }
}

impl From<DocumentError> for BuildError {
    fn from(error: DocumentError) -> Self {
        Self::new([BuildProblem::Documents(Box::new(error))])
    }
}

impl From<StoreError> for BuildError {
    fn from(error: StoreError) -> Self {
        Self::new([BuildProblem::Store(error)])
    }
}

/// One thing that is wrong with how a core or a host was set up.
///
/// ```
/// use nervekit_conversation_core::BuildProblem;
/// let problem = BuildProblem::NoSuchFolder { folder: "/nowhere".into() };
/// assert_eq!(problem.to_string(), "`/nowhere` is not a folder");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildProblem {
    /// It is neither opened in a tokio runtime nor given one.
    #[error("no tokio runtime: open it in one, or give it a handle")]
    NoRuntime,
    /// Nothing says which model to use.
    #[error("no model: give a name such as `openai/gpt-5`, or a model")]
    NoModel,
    /// No provider has this name.
    #[error("there is no provider `{name}`; known are {}", known.join(", "))]
    UnknownProvider {
        /// The name.
        name: String,
        /// The names that would do.
        known: Vec<String>,
    },
    /// What is asked for needs a cargo feature.
    #[error("`{name}` needs the cargo feature `{feature}`")]
    FeatureOff {
        /// What is asked for.
        name: String,
        /// The feature.
        feature: &'static str,
    },
    /// The provider of the model needs a secret that is not there.
    #[error("the environment variable `{variable}` is not set; it holds the key of the model's provider")]
    MissingCredential {
        /// The name of the secret.
        variable: String,
    },
    /// The model cannot be used.
    #[error("the model `{model}` cannot be used: {reason}")]
    UnusableModel {
        /// The name.
        model: String,
        /// Why.
        reason: String,
    },
    /// A folder does not exist or is something else.
    #[error("`{}` is not a folder", folder.display())]
    NoSuchFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// A folder cannot be used.
    #[error("the folder `{}` cannot be used", folder.display())]
    UnusableFolder {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The home would lie inside the project, where an agent can write.
    #[error("the home `{}` lies inside the project `{}`; choose a home outside of it", home.display(), project.display())]
    HomeInsideProject {
        /// The home.
        home: PathBuf,
        /// The project.
        project: PathBuf,
    },
    /// Others could write the rules, and what was decided about them.
    #[error("the home `{}` is not private: {reason}; use a folder of your own, such as a new one inside of it", home.display())]
    HomeNotPrivate {
        /// The home.
        home: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Two tools have one name.
    #[error("two tools are called `{name}`")]
    DuplicateTool {
        /// The name.
        name: String,
    },
    /// A tool cannot be offered.
    #[error("{0}")]
    Tool(Box<nervekit_tools::CatalogError>),
    /// The store is durable and this port is not: what is stored would name what is lost.
    #[error("the store is durable, but the {port} are not: give durable ones")]
    NotDurable {
        /// The port.
        port: &'static str,
    },
    /// A document with permission rules, or what was decided about it, cannot be had.
    #[error("the permission rules cannot be had: {0}")]
    Documents(#[source] Box<DocumentError>),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BuildProblem {
    /// Whether the same set-up may work later.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::Store(error) => error.retry(),
            Self::Documents(error) => error.retry(),
            // The set-up has to change first.
            _ => Retry::Never,
        }
    }
}

/// Sets a core up. What is not set has a default that needs no network and no files.
///
/// ```
/// use nervekit_conversation_core::{ConversationCore, MemoryBackend, RecoveryPolicy};
/// use nervekit_harness::ModelRegistry;
/// use nervekit_permissions::{Roots, RuleEngine};
/// use nervekit_tools::Catalog;
///
/// # async fn f() -> Result<(), nervekit_conversation_core::BuildError> {
/// let core = ConversationCore::builder(MemoryBackend::new(), ModelRegistry::new(), RuleEngine::new(Roots::new()), Catalog::new())
///     .recovery(RecoveryPolicy::Continue { at_most: 3 })
///     .open()
///     .await?;
/// # let _ = core; Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is opened"]
pub struct CoreBuilder {
    backend: Arc<dyn Backend>,
    models: Arc<dyn ModelResolver>,
    permissions: Arc<dyn PermissionEngine>,
    documents: Option<OutsideDocuments>,
    tools: Arc<dyn ToolManifest>,
    harness: Arc<dyn Harness>,
    processes: Arc<dyn Processes>,
    assets: Arc<dyn AssetStore>,
    resources: Arc<dyn TurnResources>,
    hooks: Vec<Arc<dyn Hook>>,
    capabilities: BTreeSet<String>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    entropy: Arc<dyn Entropy>,
    limits: RuntimeLimits,
    retries: RetryPolicy,
    recovery: RecoveryPolicy,
    deferred: bool,
    neighbours: Arc<Neighbours>,
    runtime: Option<Handle>,
}

macro_rules! ports {
    ($($(#[$doc:meta])* $name:ident: $port:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, port: impl $port) -> Self {
            self.$name = Arc::new(port);
            self
        }
    )*};
}

impl ConversationCore {
    /// Sets a core up over a backend, with the models, the permission engine and the tools it shall use.
    pub fn builder(
        backend: impl Backend,
        models: impl ModelResolver,
        permissions: impl PermissionEngine,
        tools: impl ToolManifest,
    ) -> CoreBuilder {
        CoreBuilder {
            backend: Arc::new(backend),
            models: Arc::new(models),
            permissions: Arc::new(permissions),
            documents: None,
            tools: Arc::new(tools),
            harness: Arc::new(StandardHarness::new()),
            processes: Arc::new(NoProcesses),
            assets: Arc::new(MemoryAssetStore::default()),
            resources: Arc::new(FixedResources::default()),
            hooks: Vec::new(),
            capabilities: BTreeSet::new(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds::default()),
            entropy: Arc::new(SystemEntropy),
            limits: RuntimeLimits::new(),
            retries: RetryPolicy::new(),
            recovery: RecoveryPolicy::default(),
            deferred: false,
            neighbours: Arc::default(),
            runtime: None,
        }
    }
}

impl CoreBuilder {
    ports! {
        /// Replaces how a model turn is made.
        harness: Harness;
        /// Lets tools run commands; without it they cannot.
        processes: Processes;
        /// Keeps large results and images; in memory by default.
        assets: AssetStore;
        /// Gives turns their system prompt, context and choice of tools.
        resources: TurnResources;
        /// Tells the time.
        clock: Clock;
        /// Hands out ids.
        ids: IdSource;
        /// Gives random bytes.
        entropy: Entropy;
    }

    /// Takes in the documents that the permission engine looks at: those of this user, and of projects. Then answers
    /// can be remembered there, versions can be accepted, and rules listed and revoked, all through the API. Give the
    /// engine the same ones: a [`RuleEngine`](nervekit_permissions::RuleEngine) that has none is not steered by them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use nervekit_conversation_core::{ConversationCore, MemoryBackend, StoredTrust};
    /// use nervekit_harness::ModelRegistry;
    /// use nervekit_permissions::{DocumentOwner, FileDocuments, Roots, RuleEngine};
    /// use nervekit_tools::Catalog;
    ///
    /// # async fn f(home: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    /// let backend = Arc::new(MemoryBackend::new());
    /// let documents = FileDocuments::new(home, StoredTrust::open(backend.clone()).await?);
    /// documents.adopt().await?;
    /// let user = DocumentOwner::User(None);
    /// let rules = RuleEngine::new(Roots::new().nerve_home(home)).documents(documents.clone(), user.clone());
    /// let core = ConversationCore::builder(backend, ModelRegistry::new(), rules, Catalog::new())
    ///     .documents(documents, user)
    ///     .open()
    ///     .await?;
    /// # let _ = core; Ok(()) }
    /// ```
    pub fn documents(mut self, documents: impl Documents, user: DocumentOwner) -> Self {
        self.documents = Some(OutsideDocuments::new(Arc::new(documents), user));
        self
    }

    /// Adds a hook; they are asked in the order in which they were added.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Enables a capability: tools that need it are offered. One that nobody enabled keeps them from models.
    pub fn capability(mut self, name: impl Into<String>) -> Self {
        self.capabilities.insert(name.into());
        self
    }

    /// Sets the bounds that protect the process.
    pub fn limits(mut self, limits: RuntimeLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how provider errors are tried again.
    pub const fn retries(mut self, retries: RetryPolicy) -> Self {
        self.retries = retries;
        self
    }

    /// Sets what happens to an execution that a crash interrupted.
    pub const fn recovery(mut self, policy: RecoveryPolicy) -> Self {
        self.recovery = policy;
        self
    }

    /// Leaves recovery to a later call of [`ConversationCore::recover`]; until then nothing wakes.
    pub const fn defer_recovery(mut self) -> Self {
        self.deferred = true;
        self
    }

    /// Introduces a core of this process over the same backend. What one of the two accepts for a conversation that
    /// the other one holds (a stop, an answer, an input) then reaches that one at once. Cores that do not know each
    /// other lose nothing: each looks at what it holds after a third of [`RuntimeLimits::lease`] at the latest.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use nervekit_conversation_core::{ConversationCore, MemoryBackend};
    /// use nervekit_harness::ModelRegistry;
    /// use nervekit_permissions::{Roots, RuleEngine};
    /// use nervekit_tools::Catalog;
    ///
    /// # async fn f() -> Result<(), nervekit_conversation_core::BuildError> {
    /// let backend = Arc::new(MemoryBackend::new());
    /// let builder = || {
    ///     let rules = RuleEngine::new(Roots::new());
    ///     ConversationCore::builder(backend.clone(), ModelRegistry::new(), rules, Catalog::new())
    /// };
    /// let first = builder().open().await?;
    /// let second = builder().beside(&first).open().await?;
    /// # let _ = second; Ok(()) }
    /// ```
    pub fn beside(mut self, core: &ConversationCore) -> Self {
        self.neighbours = core.inner.neighbours.clone();
        self
    }

    /// Runs all work here instead of in the runtime that `open` is called in.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Opens the store and recovers what is unfinished; says what it found.
    pub async fn open_with_report(self) -> Result<(ConversationCore, super::RecoveryReport), BuildError> {
        let Some(runtime) = self.runtime.or_else(|| Handle::try_current().ok()) else {
            return Err(BuildError::new([BuildProblem::NoRuntime]));
        };
        let store = Store::open(self.backend, self.ids.clone()).await?;
        let incarnation = IncarnationId::next(&*self.ids);
        let inner = Arc::new(Inner {
            store,
            permits: Arc::new(Semaphore::new(self.limits.parallel_tools.max(1))),
            request_permits: Arc::new(Semaphore::new(self.limits.parallel_requests.max(1))),
            clock: self.clock,
            ids: self.ids,
            entropy: self.entropy,
            models: self.models,
            harness: self.harness,
            permissions: self.permissions,
            documents: self.documents,
            tools: self.tools,
            processes: self.processes,
            assets: self.assets,
            resources: self.resources,
            hooks: self.hooks,
            capabilities: self.capabilities,
            limits: self.limits,
            retries: self.retries,
            recovery: self.recovery,
            runtime,
            incarnation,
            locks: MutationLocks::process(),
            actors: std::sync::Mutex::default(),
            feeds: std::sync::Mutex::default(),
            committed: watch::Sender::new(0),
            projections: std::sync::Mutex::default(),
            policies: std::sync::Mutex::default(),
            offer: std::sync::Mutex::default(),
            neighbours: self.neighbours,
            untold: super::tell::Untold::default(),
            closing: std::sync::atomic::AtomicBool::new(false),
            gate: std::sync::atomic::AtomicBool::new(false),
        });
        inner.neighbours.join(&inner);
        let core = ConversationCore { inner };
        super::recovery::sweep(&core.inner);
        let report = if self.deferred { super::RecoveryReport::default() } else { core.recover().await? };
        Ok((core, report))
    }

    /// Opens the store and recovers what is unfinished.
    pub async fn open(self) -> Result<ConversationCore, BuildError> {
        Ok(self.open_with_report().await?.0)
    }
}
