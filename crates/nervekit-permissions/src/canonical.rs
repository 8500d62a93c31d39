//! What a call affects, resolved: the only form that rules are compared with.

use nervekit_types::Digest;
use serde::{Deserialize, Serialize};

use crate::root::Root;
use crate::rule::TargetKind;
use crate::target::{Access, AgentTarget, TargetScope};
use crate::url::UrlTarget;

/// A built-in reason to ask, whatever the rules say.
///
/// ```
/// use nervekit_permissions::Mark;
/// assert_eq!(Mark::ControlFile.to_string(), "control_file");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mark {
    /// A write to something that steers agents, repositories or this program: everything below `nerve_home` and
    /// `nerve_data`, and at any depth `.nerve`, `.git`, `AGENTS.md` and `SYSTEM.md`; not plans.
    ControlFile,
    /// A read of something that holds credentials or other conversations, also by an edit that shows it.
    ///
    /// Everything below `nerve_data`. At any depth: `.ssh`, `.aws`, `.gnupg`, `.netrc`, `.git-credentials`. Below
    /// the user's home: the credentials of package managers (`.npmrc`, `.pypirc`, `.cargo`, `.gem`, `.m2`,
    /// `.gradle`, `.nuget`, Composer, Bundler), of clouds and clusters (`.azure`, `.config/gcloud`, `.kube`,
    /// `.docker/config.json`, Terraform), of git hosts (`.config/gh`, `.config/hub`, `.config/git`), of databases
    /// and vaults (`.pgpass`, `.vault-token`, `.password-store`), key rings, and the profiles of browsers
    /// (Firefox, Chrome, Chromium, Edge; on macOS all of `Library/Application Support` and `Library/Keychains`).
    /// [`TargetResolver::protect`](crate::TargetResolver::protect) adds to it.
    ProtectedRead,
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ControlFile => "control_file",
            Self::ProtectedRead => "protected_read",
        })
    }
}

/// A path below a root, without a leading slash; empty for the root itself.
///
/// ```
/// use nervekit_permissions::{Root, RootedPath};
/// let path: RootedPath = serde_json::from_str(r#"{"root": "project", "path": "src/a"}"#)?;
/// assert_eq!((path.root, path.path.as_str()), (Root::Project, "src/a"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RootedPath {
    /// The root.
    pub root: Root,
    /// The rest of the path.
    pub path: String,
    /// The rest, case-folded and normalised.
    #[serde(skip)]
    pub(crate) folded: String,
}

impl RootedPath {
    /// Whether an allow of a project's document may cover it.
    pub(crate) const fn is_for_project(&self) -> bool {
        matches!(self.root, Root::Project | Root::Plans)
    }
}

/// One way to write a path: absolute, and below every root that contains it.
///
/// ```
/// use nervekit_permissions::PathForm;
/// let form: PathForm = serde_json::from_str(r#"{"absolute": "/etc/passwd", "rooted": []}"#)?;
/// assert!(form.rooted.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PathForm {
    /// The absolute path.
    pub absolute: String,
    /// The roots that contain it, the longest first.
    pub rooted: Vec<RootedPath>,
    /// The absolute path, case-folded and normalised.
    #[serde(skip)]
    pub(crate) folded: String,
}

impl PathForm {
    /// The longest root that an allow may look at.
    pub(crate) fn for_allow(&self) -> Option<&RootedPath> {
        self.rooted.iter().find(|rooted| rooted.root.is_for_allow())
    }

    /// The form of an entry below, for entry filters. `contains`: the roots that lie below.
    pub(crate) fn child(&self, relative: &str, contains: &[RootedPath]) -> Self {
        let folded = crate::fold::fold(relative);
        let inner = contains.iter().filter_map(|inner| {
            Some(RootedPath {
                root: inner.root.clone(),
                path: below(relative, &inner.path)?.to_owned(),
                folded: below(&folded, &inner.folded).unwrap_or(&folded).to_owned(),
            })
        });
        let outer = self.rooted.iter().map(|rooted| RootedPath {
            root: rooted.root.clone(),
            path: join(&rooted.path, relative),
            folded: join(&rooted.folded, &folded),
        });
        Self {
            absolute: join(&self.absolute, relative),
            rooted: inner.chain(outer).collect(),
            folded: join(&self.folded, &folded),
        }
    }
}

fn join(base: &str, rest: &str) -> String {
    let slash = if base.is_empty() || base.ends_with('/') || rest.is_empty() { "" } else { "/" };
    format!("{base}{slash}{rest}")
}

/// The rest of a path below a folder, without its leading slash.
pub(crate) fn below<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    if folder.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(folder)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// A resolved path.
///
/// ```
/// use nervekit_permissions::{CanonicalSubject, ProposedCall, Roots, TargetResolver};
/// # use nervekit_permissions::*;
/// # use std::sync::Arc;
/// let folder = tempfile::tempdir()?;
/// let read = ToolDescriptor::new("read", ToolKind::Filesystem, Risk::Read).target(TargetSelector::path("path"));
/// let call = ProposedCall::new(read, EffectiveArguments::parse(r#"{"path": "./a/../b"}"#)?, CallOrigin::Model, "supervised")
///     .working_directory(folder.path());
/// let resolved = TargetResolver::new(Roots::new().project(folder.path())).resolve(&call)?;
/// let CanonicalSubject::Path(path) = resolved.targets()[0].subject() else { panic!() };
/// assert_eq!(path.resolved.rooted[0].path, "b");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PathTarget {
    /// Whether it is only read.
    pub access: Access,
    /// Whether everything below is meant too.
    pub scope: TargetScope,
    /// The path after resolving links: what is opened.
    pub resolved: PathForm,
    /// The path as typed, without `.` and `..`.
    pub lexical: PathForm,
    /// The roots that lie below, when it is a tree, with their paths below it.
    pub contains: Vec<RootedPath>,
    /// The built-in reasons to ask.
    pub marks: Vec<Mark>,
    /// The SHA-256 of the file's content, when an approval binds it.
    pub content: Option<Digest>,
}

/// What a canonical target is.
///
/// ```
/// use nervekit_permissions::{CanonicalSubject, TargetKind};
/// assert_eq!(CanonicalSubject::WholeTool.kind(), TargetKind::WholeTool);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CanonicalSubject {
    /// A file or folder.
    Path(PathTarget),
    /// A URL.
    Url(UrlTarget),
    /// A sub-agent.
    Agent(AgentTarget),
    /// The tool as a whole.
    WholeTool,
}

impl CanonicalSubject {
    /// Returns its kind.
    #[must_use]
    pub const fn kind(&self) -> TargetKind {
        match self {
            Self::Path(_) => TargetKind::Path,
            Self::Url(_) => TargetKind::Url,
            Self::Agent(_) => TargetKind::Agent,
            Self::WholeTool => TargetKind::WholeTool,
        }
    }
}

/// A target after resolution. Only [`TargetResolver`](crate::TargetResolver) makes those that are judged.
///
/// ```
/// use nervekit_permissions::{CanonicalSubject, CanonicalTarget};
/// let shown: CanonicalTarget = serde_json::from_str(r#"{"argument": null, "subject": "whole_tool"}"#)?;
/// assert_eq!(shown.subject(), &CanonicalSubject::WholeTool);
/// assert_eq!(shown.display(), "the whole tool");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanonicalTarget {
    argument: Option<String>,
    subject: CanonicalSubject,
}

impl CanonicalTarget {
    pub(crate) const fn new(argument: Option<String>, subject: CanonicalSubject) -> Self {
        Self { argument, subject }
    }

    /// Returns the argument it came from.
    #[must_use]
    pub fn argument(&self) -> Option<&str> {
        self.argument.as_deref()
    }

    /// Returns what it is.
    #[must_use]
    pub const fn subject(&self) -> &CanonicalSubject {
        &self.subject
    }

    /// Returns whether it is written.
    pub(crate) const fn access(&self) -> Option<Access> {
        match &self.subject {
            CanonicalSubject::Path(path) => Some(path.access),
            CanonicalSubject::Url(url) => Some(url.access),
            CanonicalSubject::Agent(_) | CanonicalSubject::WholeTool => None,
        }
    }

    pub(crate) const fn path(&self) -> Option<&PathTarget> {
        match &self.subject {
            CanonicalSubject::Path(path) => Some(path),
            _ => None,
        }
    }

    /// Returns a form that is safe to show to whoever approves the call.
    #[must_use]
    pub fn display(&self) -> String {
        match &self.subject {
            CanonicalSubject::Path(path) => path.display(),
            CanonicalSubject::Url(url) => crate::display(url.as_str()),
            CanonicalSubject::Agent(agent) => format!("the sub-agent `{}`", crate::display(&agent.profile)),
            CanonicalSubject::WholeTool => "the whole tool".to_owned(),
        }
    }
}

impl PathTarget {
    /// Returns a form that is safe to show: below the project when it is there, else absolute; of a link also
    /// where it leads.
    #[must_use]
    pub fn display(&self) -> String {
        let (resolved, lexical) = (short(&self.resolved), short(&self.lexical));
        // The root itself may be reached by a link; that alone is not worth a word.
        let same =
            self.resolved.for_allow().is_some() && self.resolved.for_allow() == self.lexical.for_allow();
        let tree = if self.scope == TargetScope::Tree { " and everything below" } else { "" };
        if resolved == lexical || same {
            format!("{resolved}{tree}")
        } else {
            format!("{lexical} → {resolved}{tree}")
        }
    }

    /// Where it lies, without a word about the link or the tree.
    pub(crate) fn display_place(&self) -> String {
        short(&self.resolved)
    }
}

fn short(form: &PathForm) -> String {
    crate::display(match form.for_allow().filter(|rooted| rooted.root == Root::Project) {
        Some(rooted) if rooted.path.is_empty() => ".",
        Some(rooted) => &rooted.path,
        None => &form.absolute,
    })
}
