//! The built-in lists of what is asked about under every rule set.

use std::path::{Path, PathBuf};

use super::folder::Identity;
use crate::canonical::{Mark, PathForm, below};
use crate::descriptor::ToolKind;
use crate::fold::fold;
use crate::root::Root;
use crate::target::{Access, Target, TargetScope};

/// Folders that hold control files at any depth.
const CONTROL_FOLDERS: [&str; 2] = [".nerve", ".git"];
/// Files that steer agents, at any depth.
const CONTROL_FILES: [&str; 2] = ["agents.md", "system.md"];

/// Documents that steer agents: by identity, too, since a file may have a second name anywhere. Below the home, and
/// in a project below `.nerve`.
const CONTROL_DOCUMENTS: [&str; 4] =
    ["config/permissions.json", "config/subagents.json", "config/harness.json", "launches/definitions.json"];
/// What of a project is found by identity, besides its documents.
const CONTROL_IN_PROJECT: [&str; 5] = [".nerve", ".git", ".git/config", "AGENTS.md", "SYSTEM.md"];

/// Credential stores at any depth.
const PROTECTED_NAMES: [&str; 5] = [".ssh", ".aws", ".gnupg", ".netrc", ".git-credentials"];
/// Credential stores and browser profiles below the user's home.
const PROTECTED_IN_HOME: [&str; 29] = [
    ".azure",
    ".bundle/config",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".composer/auth.json",
    ".config/chromium",
    ".config/composer/auth.json",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/google-chrome",
    ".config/hub",
    ".config/microsoft-edge",
    ".docker/config.json",
    ".gem/credentials",
    ".gradle/gradle.properties",
    ".kube",
    ".local/share/keyrings",
    ".m2/settings.xml",
    ".mozilla",
    ".npmrc",
    ".nuget/nuget/nuget.config",
    ".password-store",
    ".pgpass",
    ".pypirc",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    "library/application support",
    "library/keychains",
];

/// The lists, with the identities of what exists now, so that another name of it is found as well.
#[derive(Clone, Debug, Default)]
pub(crate) struct MarkRules {
    control: Vec<Identity>,
    protected: Vec<Identity>,
    /// Further folders and files of the host, folded.
    protected_paths: Vec<String>,
}

impl MarkRules {
    /// Looks up what exists now, as far as these targets may bear its marks; the folders are canonical.
    pub(super) fn of(
        roots: &[(Root, PathBuf)],
        protected: &[PathBuf],
        kind: ToolKind,
        targets: &[Target],
    ) -> Self {
        let writes = targets.iter().any(|target| is_controlled(target.access));
        let reads = targets
            .iter()
            .any(|target| is_protected(target.access, reads_back(kind, target.access, target.scope)));
        let mut rules = Self::default();
        for (root, folder) in roots {
            match root {
                Root::NerveHome if writes => {
                    rules.control.extend(identify(folder));
                    rules.control.extend(documents(folder));
                }
                Root::NerveData => {
                    let identity = identify(folder);
                    rules.control.extend(identity);
                    rules.protected.extend(identity);
                }
                Root::Project if writes => {
                    let names = CONTROL_IN_PROJECT.iter();
                    rules.control.extend(names.filter_map(|name| identify(&folder.join(name))));
                    rules.control.extend(documents(&folder.join(".nerve")));
                }
                Root::Home if reads => {
                    for name in PROTECTED_NAMES.iter().chain(&PROTECTED_IN_HOME) {
                        rules.protected.extend(identify(&folder.join(name)));
                    }
                }
                _ => {}
            }
        }
        for path in protected {
            if reads {
                rules.protected.extend(identify(path));
            }
            rules.protected_paths.push(fold(&path.to_string_lossy()));
        }
        rules
    }

    /// The marks of a path. `identities` are those of the path and of every folder above it that exists; of a
    /// path below `plans` only those below.
    ///
    /// A tree bears a mark when it lies in what is marked, not when it merely holds such a thing: a working
    /// directory almost always does, and a search skips them entry by entry.
    pub(super) fn marks(
        &self,
        access: Access,
        reads_back: bool,
        forms: [&PathForm; 2],
        identities: &[Identity],
    ) -> Vec<Mark> {
        let known = |list: &[Identity]| identities.iter().any(|identity| list.contains(identity));
        let mut marks = Vec::new();
        if is_controlled(access) && (forms.iter().any(|form| is_control(form)) || known(&self.control)) {
            marks.push(Mark::ControlFile);
        }
        if is_protected(access, reads_back)
            && (forms.iter().any(|form| self.is_protected(form)) || known(&self.protected))
        {
            marks.push(Mark::ProtectedRead);
        }
        marks
    }

    /// Whether reading this entry of a tree is protected, by its name.
    pub(crate) fn is_protected(&self, form: &PathForm) -> bool {
        let in_plans = form.for_allow().is_some_and(|rooted| rooted.root == Root::Plans);
        form.folded.split('/').any(|part| PROTECTED_NAMES.contains(&part))
            || form.rooted.iter().any(|rooted| match rooted.root {
                Root::NerveData => !in_plans,
                Root::Home => PROTECTED_IN_HOME.iter().any(|base| below(&rooted.folded, base).is_some()),
                _ => false,
            })
            || self.protected_paths.iter().any(|base| below(&form.folded, base).is_some())
    }
}

/// Whether a target of this access can bear [`Mark::ControlFile`].
fn is_controlled(access: Access) -> bool {
    access == Access::Write
}

/// Whether a target of this access can bear [`Mark::ProtectedRead`].
fn is_protected(access: Access, reads_back: bool) -> bool {
    access == Access::Read || reads_back
}

fn is_control(form: &PathForm) -> bool {
    let longest = form.for_allow();
    let plans = longest.filter(|rooted| rooted.root == Root::Plans);
    let path = plans.map_or(form.folded.as_str(), |rooted| rooted.folded.as_str());
    let name = path.rsplit('/').next().unwrap_or_default();
    path.split('/').any(|part| CONTROL_FOLDERS.contains(&part))
        || CONTROL_FILES.contains(&name)
        || plans.is_none()
            && form.rooted.iter().any(|rooted| matches!(rooted.root, Root::NerveHome | Root::NerveData))
}

fn documents(folder: &Path) -> impl Iterator<Item = Identity> {
    CONTROL_DOCUMENTS.iter().filter_map(move |name| identify(&folder.join(name)))
}

/// What tells the file or folder that a path leads to from every other, if it exists.
#[cfg(unix)]
fn identify(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    let facts = std::fs::metadata(path).ok()?;
    Some(Identity { device: facts.dev(), inode: facts.ino() })
}

#[cfg(not(unix))]
pub(super) fn identify(path: &Path) -> Option<Identity> {
    use super::folder::Folder;
    let path = std::fs::canonicalize(path).ok()?;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Some(Folder::open(parent).ok()?.look(name).ok()?.1),
        _ => Folder::open(&path).ok()?.identity().ok(),
    }
}

/// Whether a target of a tool that writes also shows what was there.
pub(super) fn reads_back(kind: ToolKind, access: Access, scope: TargetScope) -> bool {
    kind == ToolKind::Filesystem && access == Access::Write && scope == TargetScope::Exact
}
