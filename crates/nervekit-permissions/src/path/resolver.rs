//! From what a call says to what it affects.

use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nervekit_types::{Digest, Retry};

use super::decided::{DecidedPath, Location};
use super::folder::Identity;
use super::mark::{MarkRules, reads_back};
use super::selection::derive_targets;
use super::walk::{MAXIMUM_PATH, Snapshot, without_dots};
use crate::arguments::EffectiveArguments;
use crate::call::ProposedCall;
use crate::canonical::{CanonicalSubject, CanonicalTarget, PathForm, PathTarget, RootedPath};
use crate::command::CommandReading;
use crate::decision::CallOrigin;
use crate::descriptor::{Risk, ToolDescriptor};
use crate::fold::fold;
use crate::root::{Root, Roots};
use crate::target::{Target, TargetScope, TargetSubject};
use crate::url::{DecidedUrl, UrlTarget};

/// The longest component, in bytes; source: `NAME_MAX`.
const MAXIMUM_NAME: usize = 255;
/// The most targets of one call: each is looked up on disk.
const MAXIMUM_TARGETS: usize = 256;
/// The largest file whose content an approval binds, in bytes.
const MAXIMUM_CONTENT: u64 = 64 << 20;

/// Why it cannot be said what a call affects. Such a call is denied.
///
/// ```
/// use nervekit_permissions::{derive_targets, EffectiveArguments, Risk, TargetSelector, ToolDescriptor, ToolKind};
/// let read = ToolDescriptor::new("read", ToolKind::Filesystem, Risk::Read).target(TargetSelector::path("path"));
/// let error = derive_targets(&read, &EffectiveArguments::parse("{}")?).unwrap_err();
/// assert_eq!(error.to_string(), "the argument `path` is missing, so it cannot be said what the call affects");
/// # Ok::<(), nervekit_permissions::ArgumentsError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// An argument that names a target is missing.
    #[error("the argument `{0}` is missing, so it cannot be said what the call affects")]
    MissingArgument(String),
    /// An argument that names a target is not a text.
    #[error("the argument `{0}` is not a text, so it cannot be said what the call affects")]
    NotAText(String),
    /// More targets than one call may have.
    #[error("the call names {0} targets; at most 256 are resolved, so make several calls")]
    TooManyTargets(usize),
    /// A relative path without a working directory.
    #[error("the path `{0}` is relative, and the conversation has no working directory")]
    NoWorkingDirectory(String),
    /// A path that cannot be resolved.
    #[error("the path `{path}` cannot be resolved: {problem}")]
    Path {
        /// The path, safe to show.
        path: Box<str>,
        /// What is wrong with it.
        problem: Box<str>,
    },
    /// A URL that is refused.
    #[error("the URL `{url}` is refused: {problem}")]
    Url {
        /// The URL, safe to show.
        url: Box<str>,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl ResolveError {
    /// Returns the name of the case, for logs and interfaces.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::MissingArgument(_) => "missing_argument",
            Self::NotAText(_) => "not_a_text",
            Self::TooManyTargets(_) => "too_many_targets",
            Self::NoWorkingDirectory(_) => "no_working_directory",
            Self::Path { .. } => "path",
            Self::Url { .. } => "url",
        }
    }

    /// Says whether to try again: not with the same call.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        Retry::Never
    }

    fn path(path: &str, problem: impl Into<Box<str>>) -> Self {
        Self::Path { path: crate::display(path).into(), problem: problem.into() }
    }
}

/// A call with canonical targets: the only thing that [`Policy::decide`](crate::Policy::decide) accepts.
///
/// Only [`TargetResolver::resolve`] makes one; raw targets do not get this far:
///
/// ```compile_fail,E0308
/// use nervekit_permissions::{Policy, ProposedCall};
/// fn judge(policy: &Policy, call: &ProposedCall) {
///     let _ = policy.decide(call);
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ResolvedCall {
    pub(crate) descriptor: Arc<ToolDescriptor>,
    pub(crate) arguments: EffectiveArguments,
    pub(crate) origin: CallOrigin,
    pub(crate) risk: Risk,
    pub(crate) targets: Vec<CanonicalTarget>,
    pub(crate) means: Vec<Means>,
    pub(crate) command: Option<CommandReading>,
    pub(crate) marks: Arc<MarkRules>,
}

/// With what a target is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Means {
    pub(crate) path: Option<DecidedPath>,
    pub(crate) url: Option<DecidedUrl>,
    pub(crate) content: Option<Arc<[u8]>>,
    /// Whether the content is to be bound, and there is none yet: a file may come to be there.
    pub(crate) unbound: bool,
}

impl ResolvedCall {
    /// Returns the targets, in the order in which they were derived; the first one is the primary target.
    #[must_use]
    pub fn targets(&self) -> &[CanonicalTarget] {
        &self.targets
    }

    /// Returns the file or folder of a path target, by its index.
    #[must_use]
    pub fn path(&self, target: usize) -> Option<&DecidedPath> {
        self.means.get(target)?.path.as_ref()
    }
}

/// Resolves the targets of calls against the file system.
///
/// A path starts at the working directory; `.` and `..` are removed, then links are resolved in every folder
/// that exists. Nothing is expanded: `~`, `$X` and `file:` are names like others. What cannot be resolved for
/// sure is an error: a loop of links, a name that is not UTF-8, NUL, a path that is too long.
///
/// ```
/// use nervekit_permissions::*;
/// let folder = tempfile::tempdir()?;
/// let resolver = TargetResolver::new(Roots::new().project(folder.path()));
/// let read = ToolDescriptor::new("read", ToolKind::Filesystem, Risk::Read).target(TargetSelector::path("path"));
/// let call = ProposedCall::new(read, EffectiveArguments::parse(r#"{"path": "src/../a"}"#)?, CallOrigin::Model, "supervised")
///     .working_directory(folder.path());
/// let resolved = resolver.resolve(&call)?;
/// assert_eq!(resolved.targets()[0].display(), "a");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TargetResolver {
    roots: Roots,
    protected: Vec<PathBuf>,
}

/// The roots of one call, as they are on disk now.
#[derive(Default)]
struct Map {
    /// Canonical folders, the longest first.
    canonical: Vec<(Root, PathBuf)>,
    /// Folders as typed.
    typed: Vec<(Root, PathBuf)>,
    marks: Arc<MarkRules>,
    disk: Snapshot,
}

impl TargetResolver {
    /// Resolves against these roots.
    #[must_use]
    pub fn new(roots: Roots) -> Self {
        Self { roots, protected: Vec::new() }
    }

    /// Adds a file or folder that is protected from reading besides the built-in credential stores.
    #[must_use]
    pub fn protect(mut self, path: impl Into<PathBuf>) -> Self {
        self.protected.push(path.into());
        self
    }

    /// The project of calls that name none.
    pub(crate) fn project(&self) -> Option<&Path> {
        let project = self.roots.iter().find(|root| root.root == Root::Project);
        project.map(|root| root.folder.as_path())
    }

    /// Resolves what a call affects.
    pub fn resolve(&self, call: &ProposedCall) -> Result<ResolvedCall, ResolveError> {
        let derived;
        let raw = match &call.targets {
            Some(targets) if !targets.is_empty() => targets,
            _ => {
                derived = derive_targets(&call.descriptor, &call.arguments)?;
                &derived
            }
        };
        if raw.len() > MAXIMUM_TARGETS {
            return Err(ResolveError::TooManyTargets(raw.len()));
        }
        // A call without a path must not wait for a file system.
        let touches_files = raw.iter().any(|target| matches!(target.subject, TargetSubject::Path(_)));
        let mut map = if touches_files { self.map(call, raw) } else { Map::default() };
        let mut targets = Vec::with_capacity(raw.len());
        let mut means = Vec::with_capacity(raw.len());
        for target in raw {
            let (subject, used) = match &target.subject {
                TargetSubject::Path(text) => map.path(call, target, text)?,
                TargetSubject::Url(text) => {
                    let url = UrlTarget::read(text, target.access).map_err(|fault| ResolveError::Url {
                        url: crate::display(text).into(),
                        problem: fault.words(),
                    })?;
                    let used = Means { url: Some(DecidedUrl::new(&url)), ..Means::default() };
                    (CanonicalSubject::Url(url), used)
                }
                TargetSubject::Agent(agent) => (CanonicalSubject::Agent(agent.clone()), Means::default()),
                TargetSubject::WholeTool => (CanonicalSubject::WholeTool, Means::default()),
            };
            targets.push(CanonicalTarget::new(target.argument.clone(), subject));
            means.push(used);
        }
        Ok(ResolvedCall {
            descriptor: Arc::clone(&call.descriptor),
            arguments: call.arguments.clone(),
            origin: call.origin,
            risk: call.descriptor.risk_of(&call.arguments),
            targets,
            means,
            command: CommandReading::of(&call.descriptor, &call.arguments),
            marks: map.marks,
        })
    }

    fn map(&self, call: &ProposedCall, targets: &[Target]) -> Map {
        let mut disk = Snapshot::default();
        let roots = match &call.project {
            Some(project) => self.roots.clone().project(project),
            None => self.roots.clone(),
        };
        let mut canonical = Vec::new();
        let mut typed = Vec::new();
        for known in roots.iter() {
            let lexical = without_dots(&known.folder);
            // A root that cannot be resolved contains nothing, so nothing below it is allowed by name.
            if let Ok(walked) = disk.walk(&lexical) {
                canonical.push((known.root.clone(), walked.path));
                typed.push((known.root.clone(), lexical));
            }
        }
        let order =
            |(root, folder): &(Root, PathBuf)| (std::cmp::Reverse(folder.components().count()), root.rank());
        canonical.sort_by_cached_key(order);
        typed.sort_by_cached_key(order);
        let marks = MarkRules::of(&canonical, &self.protected, call.descriptor.kind, targets);
        Map { canonical, typed, marks: Arc::new(marks), disk }
    }
}

impl Map {
    fn path(
        &mut self,
        call: &ProposedCall,
        target: &Target,
        text: &str,
    ) -> Result<(CanonicalSubject, Means), ResolveError> {
        let lexical = lexical(call.working_directory.as_deref(), text)?;
        let path = self.disk.walk(&lexical).map_err(|problem| ResolveError::path(text, problem))?.path;
        let seen = self.disk.identities(&path);
        let unreadable = || ResolveError::path(text, "a name in it is not UTF-8");
        let forms = (|| {
            let typed = self.typed.iter().chain(&self.canonical);
            Some((form(&path, self.canonical.iter())?, form(&lexical, typed)?))
        })();
        let (resolved, lexical) = forms.ok_or_else(unreadable)?;
        let contains = match target.scope {
            TargetScope::Tree => self.below(&path).ok_or_else(unreadable)?,
            TargetScope::Exact => Vec::new(),
        };
        let plans = self.canonical.iter().find(|(root, _)| *root == Root::Plans).map(|(_, folder)| folder);
        let in_plans = resolved.for_allow().is_some_and(|rooted| rooted.root == Root::Plans);
        let identities: Vec<Identity> = seen
            .iter()
            .filter(|(path, _)| {
                !in_plans || plans.is_some_and(|plans| path.starts_with(plans) && path != plans)
            })
            .map(|(_, identity)| *identity)
            .collect();
        let reads_back = reads_back(call.descriptor.kind, target.access, target.scope);
        let marks = self.marks.marks(target.access, reads_back, [&resolved, &lexical], &identities);
        let mut subject = PathTarget {
            access: target.access,
            scope: target.scope,
            contains,
            resolved,
            lexical,
            marks,
            content: None,
        };
        let decided = self.decide(&path, &seen, &subject);
        let mut content = None;
        if target.binds_content {
            content = bound_content(&decided).map_err(|error| ResolveError::path(text, error.to_string()))?;
            subject.content = content.as_ref().map(Digest::of);
        }
        let unbound = target.binds_content && content.is_none();
        let means = Means { path: Some(decided), content, unbound, ..Means::default() };
        Ok((CanonicalSubject::Path(subject), means))
    }

    /// The roots that lie in a tree, the longest first; `None` when a name is not UTF-8.
    fn below(&self, tree: &Path) -> Option<Vec<RootedPath>> {
        let inside = self.canonical.iter().filter(|(_, folder)| folder.starts_with(tree) && folder != tree);
        inside
            .map(|(root, folder)| {
                let path = text(folder.strip_prefix(tree).ok()?)?;
                Some(RootedPath { root: root.clone(), folded: fold(&path), path })
            })
            .collect()
    }

    /// `path` is without links, `seen` what of it exists.
    fn decide(&self, path: &Path, seen: &[(PathBuf, Identity)], target: &PathTarget) -> DecidedPath {
        let identity =
            |path: &Path| seen.iter().find(|(seen, _)| seen == path).map(|(_, identity)| *identity);
        // The longest root that exists; a root that does not exist yet is made from what exists above it.
        let root = self.canonical.iter().find(|(root, folder)| {
            root.is_for_allow() && path.starts_with(folder) && identity(folder).is_some()
        });
        let base = match root {
            Some((_, folder)) => folder.clone(),
            None => path.ancestors().last().map(Path::to_owned).unwrap_or_default(),
        };
        let relative = path.strip_prefix(&base).map(Path::to_owned).unwrap_or_default();
        let parent = path.parent().filter(|_| !relative.as_os_str().is_empty());
        DecidedPath::new(Location {
            base_identity: identity(&base),
            parent_identity: parent.and_then(identity),
            label: target.display_place(),
            access: target.access,
            base,
            relative,
        })
    }
}

/// Reads the content that an approval binds; `None` when there is no file.
fn bound_content(path: &DecidedPath) -> io::Result<Option<Arc<[u8]>>> {
    let file = match path.open() {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(MAXIMUM_CONTENT + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= MAXIMUM_CONTENT) {
        return Ok(Some(bytes.into()));
    }
    Err(io::Error::other("it is larger than the 64 MiB that an approval can bind"))
}

/// The absolute path as typed, without `.` and `..`.
fn lexical(working_directory: Option<&Path>, text: &str) -> Result<PathBuf, ResolveError> {
    if text.is_empty() {
        return Err(ResolveError::path(text, "it is empty"));
    }
    if text.contains('\0') {
        return Err(ResolveError::path(text, "it holds a NUL character"));
    }
    let typed = Path::new(text);
    let joined = match working_directory {
        _ if typed.is_absolute() => typed.to_owned(),
        Some(folder) if folder.is_absolute() => folder.join(typed),
        _ => return Err(ResolveError::NoWorkingDirectory(crate::display(text))),
    };
    if text.len() > MAXIMUM_PATH || joined.as_os_str().len() > MAXIMUM_PATH {
        return Err(ResolveError::path(text, "it is too long"));
    }
    let path = without_dots(&joined);
    for component in path.components() {
        let name = component.as_os_str();
        if name.len() > MAXIMUM_NAME {
            return Err(ResolveError::path(text, "a name in it is too long"));
        }
        // Windows drops what follows and opens another file than the one that was named.
        let shown = name.to_string_lossy();
        if cfg!(windows)
            && matches!(component, Component::Normal(_))
            && (shown.ends_with(['.', ' ']) || shown.contains(':'))
        {
            return Err(ResolveError::path(
                text,
                "a name in it ends with a dot or a space, or holds a colon",
            ));
        }
    }
    Ok(path)
}

/// Writes a path in the form that rules are compared with; `None` when a name is not UTF-8.
fn form<'r>(path: &Path, roots: impl Iterator<Item = &'r (Root, PathBuf)>) -> Option<PathForm> {
    let mut rooted: Vec<RootedPath> = Vec::new();
    for (root, folder) in roots {
        if let Ok(rest) = path.strip_prefix(folder) {
            let path = text(rest)?;
            if rooted.iter().all(|known| known.root != *root || known.path != path) {
                rooted.push(RootedPath { root: root.clone(), folded: fold(&path), path });
            }
        }
    }
    let absolute = path.to_str()?.to_owned();
    Some(PathForm { folded: fold(&absolute), absolute, rooted })
}

/// A relative path with slashes.
fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    for component in path.components() {
        if !text.is_empty() {
            text.push('/');
        }
        text.push_str(component.as_os_str().to_str()?);
    }
    Some(text)
}
