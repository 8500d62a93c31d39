//! The folders of a host.

use std::path::{Component, Path, PathBuf};

use nervekit_conversation_core::{BuildError, BuildProblem};
use nervekit_permissions::Roots;

/// Where a host on this machine keeps things, for a program that looks at the same: one that manages rules, or tests
/// them, without being a host.
///
/// ```
/// use nervekit::Folders;
/// use nervekit::permissions::RuleEngine;
///
/// # let home = tempfile::tempdir()?; let project = tempfile::tempdir()?;
/// let folders = Folders::local(Some(home.path().into()), Some(project.path()))?;
/// assert!(folders.store().ends_with("data/conversations.redb"));
/// // It judges as the engine of `Host::local().home(…).project(…)` does.
/// let engine = RuleEngine::new(folders.roots());
/// # let _ = engine;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    pub(super) home: PathBuf,
    pub(super) data: PathBuf,
    pub(super) project: Option<PathBuf>,
    pub(super) os_home: Option<PathBuf>,
}

impl Folders {
    /// Finds the folders as [`Host::local`](crate::Host::local) does, and makes those of the home that are missing. The
    /// home is the given one, else `$NERVE_HOME`, else `~/.nerve`; the project must exist.
    pub fn local(home: Option<PathBuf>, project: Option<&Path>) -> Result<Self, BuildError> {
        prepare(home, project).map_err(BuildError::new)
    }

    /// The folder that holds everything of the person's.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The folder of the project, in its canonical form.
    #[must_use]
    pub fn project(&self) -> Option<&Path> {
        self.project.as_deref()
    }

    /// The file in which conversations are kept, and what was decided about documents.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.data.join("conversations.redb")
    }

    /// The folders that rules speak of by name.
    #[must_use]
    pub fn roots(&self) -> Roots {
        self.roots_outside_home().nerve_home(&self.home).nerve_data(&self.data)
    }

    /// The same for a host that keeps nothing in a home.
    pub(super) fn roots_outside_home(&self) -> Roots {
        let roots = personal_roots(self.os_home.as_deref());
        match &self.project {
            Some(project) => roots.plans(project.join(".nerve/plans")).project(project),
            None => roots,
        }
    }
}

/// The folders of the person and the platform, which hold what is protected under every rule set.
pub(super) fn personal_roots(os_home: Option<&Path>) -> Roots {
    let roots = Roots::new().temp(std::env::temp_dir());
    match os_home {
        Some(home) => roots.home(home),
        None => roots,
    }
}

/// The home folder of the person, as the platform says.
pub(super) fn os_home() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| home.is_absolute())
}

/// Finds and makes the folders of a host that keeps conversations on disk; says everything that is wrong.
pub(super) fn prepare(home: Option<PathBuf>, project: Option<&Path>) -> Result<Folders, Vec<BuildProblem>> {
    let mut problems = Vec::new();
    let project = project.and_then(|folder| existing(folder, &mut problems));
    let home = home_folder(home);
    let home = if let Some((home, default)) = home {
        check_home(&home, default, project.as_deref(), &mut problems);
        if problems.is_empty() { made(&home, &mut problems) } else { None }
    } else {
        problems.push(BuildProblem::NoSuchFolder { folder: PathBuf::from("~/.nerve") });
        None
    };
    if let Some(home) = &home {
        check_owner(home, &mut problems);
    }
    let data = home.as_ref().filter(|_| problems.is_empty()).and_then(|home| {
        let data = made(&home.join("data"), &mut problems)?;
        private(data, &mut problems)
    });
    match (home, data) {
        (Some(home), Some(data)) if problems.is_empty() => {
            Ok(Folders { home, data, project, os_home: os_home() })
        }
        _ => Err(problems),
    }
}

/// The canonical form of a folder that must exist.
pub(super) fn existing(folder: &Path, problems: &mut Vec<BuildProblem>) -> Option<PathBuf> {
    match std::fs::canonicalize(folder) {
        Ok(canonical) if canonical.is_dir() => Some(canonical),
        Ok(_) => {
            problems.push(BuildProblem::NoSuchFolder { folder: folder.to_owned() });
            None
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            problems.push(BuildProblem::NoSuchFolder { folder: folder.to_owned() });
            None
        }
        Err(source) => {
            problems.push(BuildProblem::UnusableFolder { folder: folder.to_owned(), source });
            None
        }
    }
}

/// The home: what the host says, else `$NERVE_HOME`, else `~/.nerve`; and whether it is the platform's default.
fn home_folder(given: Option<PathBuf>) -> Option<(PathBuf, bool)> {
    if let Some(home) = given {
        return Some((home, false));
    }
    if let Some(home) = std::env::var_os("NERVE_HOME").filter(|home| !home.is_empty()) {
        return Some((PathBuf::from(home), false));
    }
    os_home().map(|home| (home.join(".nerve"), true))
}

/// A home inside the project would lie where an agent writes. Only the platform's default home may, when the
/// project is the person's home folder or one above it.
fn check_home(home: &Path, default: bool, project: Option<&Path>, problems: &mut Vec<BuildProblem>) {
    let Some(project) = project else { return };
    // The data may be kept elsewhere by a link.
    let inside = |folder: &Path| nearest_existing(folder).starts_with(project);
    if !default && (inside(home) || inside(&home.join("data"))) {
        problems.push(BuildProblem::HomeInsideProject { home: home.to_owned(), project: project.to_owned() });
    }
}

/// Whoever could write into the home could write the rules, and what was decided about them.
#[cfg(unix)]
fn check_owner(home: &Path, problems: &mut Vec<BuildProblem>) {
    use std::os::unix::fs::MetadataExt as _;
    let reason = match std::fs::metadata(home) {
        Ok(facts) if facts.uid() != rustix::process::geteuid().as_raw() => {
            format!("it belongs to the user {}", facts.uid())
        }
        Ok(facts) if facts.mode() & 0o022 != 0 => {
            format!("others can write into it (its mode is {:03o})", facts.mode() & 0o777)
        }
        Ok(_) => return,
        Err(source) => {
            return problems.push(BuildProblem::UnusableFolder { folder: home.to_owned(), source });
        }
    };
    problems.push(BuildProblem::HomeNotPrivate { home: home.to_owned(), reason });
}

/// Owners are not compared here.
#[cfg(not(unix))]
fn check_owner(_home: &Path, _problems: &mut Vec<BuildProblem>) {}

/// Closes a folder that was there before to everybody else.
#[cfg(unix)]
fn private(folder: PathBuf, problems: &mut Vec<BuildProblem>) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    match std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)) {
        Ok(()) => Some(folder),
        Err(source) => {
            problems.push(BuildProblem::UnusableFolder { folder, source });
            None
        }
    }
}

#[cfg(not(unix))]
fn private(folder: PathBuf, _problems: &mut Vec<BuildProblem>) -> Option<PathBuf> {
    Some(folder)
}

/// The canonical form of a path of which the end may not exist yet.
fn nearest_existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut found = PathBuf::new();
    for part in absolute.components() {
        match part {
            // Behind a folder that is yet to be made nothing is a link.
            Component::ParentDir => drop(found.pop()),
            part => found.push(part),
        }
        if let Ok(canonical) = std::fs::canonicalize(&found) {
            found = canonical;
        }
    }
    found
}

/// Makes a folder that belongs to the person alone.
fn made(folder: &Path, problems: &mut Vec<BuildProblem>) -> Option<PathBuf> {
    let mut maker = std::fs::DirBuilder::new();
    maker.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut maker, 0o700);
    match maker.create(folder).and_then(|()| std::fs::canonicalize(folder)) {
        Ok(canonical) => Some(canonical),
        Err(source) => {
            problems.push(BuildProblem::UnusableFolder { folder: folder.to_owned(), source });
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_inside_the_project_is_refused_also_when_it_does_not_exist_yet() {
        let project = tempfile::tempdir().unwrap();
        let home = project.path().join("deep/home");
        let problems = prepare(Some(home.clone()), Some(project.path())).unwrap_err();
        assert!(matches!(&problems[..], [BuildProblem::HomeInsideProject { .. }]), "{problems:?}");
        assert!(!home.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_home_that_leads_into_the_project_by_a_detour_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let project = base.join("project");
        for folder in ["project/inside", "elsewhere"] {
            std::fs::create_dir_all(base.join(folder)).unwrap();
        }
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(base.join(to), base.join(name)).unwrap();
        link("project", "link");
        link("project/inside", "elsewhere/data");
        link("project/later", "dangling");
        for detour in ["missing/../project/home", "link/home", "elsewhere", "link/inside/.."] {
            let problems = prepare(Some(base.join(detour)), Some(&project)).unwrap_err();
            assert!(
                matches!(&problems[..], [BuildProblem::HomeInsideProject { .. }]),
                "{detour}: {problems:?}"
            );
        }
        // A link to what is yet to be made is not made.
        prepare(Some(base.join("dangling")), Some(&project)).unwrap_err();
        assert!(!base.join("missing").exists() && !project.join("later").exists());
        assert_eq!(std::fs::read_dir(&project).unwrap().count(), 1, "nothing is made in the project");
        // What only looks like it leads elsewhere.
        prepare(Some(base.join("missing/../project-2/home")), Some(&project)).unwrap();
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        std::fs::write(&file, "").unwrap();
        let mut problems = Vec::new();
        assert_eq!(existing(&base.path().join("missing"), &mut problems), None);
        assert_eq!(existing(&file, &mut problems), None);
        assert_eq!(problems.len(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn a_home_that_others_can_write_into_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let home = base.path().join("home");
        std::fs::create_dir(&home).unwrap();
        std::fs::set_permissions(&home, PermissionsExt::from_mode(0o777)).unwrap();
        let problems = prepare(Some(home.clone()), None).unwrap_err();
        let [BuildProblem::HomeNotPrivate { reason, .. }] = &problems[..] else { panic!("{problems:?}") };
        assert!(reason.contains("777"), "{reason}");
        assert!(!home.join("data").exists(), "nothing is made in it");
        // Others may look at what a person keeps there, but not at the data.
        std::fs::set_permissions(&home, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::create_dir(home.join("data")).unwrap();
        std::fs::set_permissions(home.join("data"), PermissionsExt::from_mode(0o755)).unwrap();
        let folders = prepare(Some(home), None).unwrap();
        assert_eq!(std::fs::metadata(&folders.data).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[cfg(unix)]
    #[test]
    fn the_home_belongs_to_the_person_alone() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let folders = prepare(Some(base.path().join("home")), None).unwrap();
        for folder in [&folders.home, &folders.data] {
            assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}
