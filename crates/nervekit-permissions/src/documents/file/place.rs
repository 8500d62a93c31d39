//! Where a document lies.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::super::{DocumentId, DocumentOwner};
use crate::error::{DocumentError, DocumentProblem};
use crate::path::{EntryKind, Folder, Stamp, refused, walk};

/// The file of a document.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The home, or the project.
    base: PathBuf,
    folder: PathBuf,
    file: OsString,
    /// Whether it is a person's: links may be followed, and folders that are made are private.
    personal: bool,
    /// Whether it is a folder, whose document is the table of the files in it.
    is_folder: bool,
}

/// The names of skills, which are folders.
const SKILLS: &str = "skills/";

impl Place {
    pub(super) fn of(home: Option<&Path>, id: &DocumentId) -> Result<Self, DocumentError> {
        let (base, top, personal) = match (&id.owner, home) {
            (DocumentOwner::User(None), Some(home)) => (home, "", true),
            (DocumentOwner::Project(folder), Some(home)) if home.starts_with(folder) => {
                let what =
                    "the home lies inside of this project, so the documents of the project do not count";
                return Err(DocumentProblem::new(what).into());
            }
            (DocumentOwner::Project(folder), _) => (folder.as_path(), ".nerve", false),
            // Several people, and conversations, need a store.
            (DocumentOwner::User(_) | DocumentOwner::Conversation(_), _) => {
                return Err(DocumentError::Unsupported);
            }
        };
        // Two names of one project would be two decisions about it.
        let is_plain =
            |folder: &Path| folder.components().all(|part| part != std::path::Component::ParentDir);
        if !base.is_absolute() || !(personal || is_plain(base)) || !id.name.split('/').all(is_name) {
            return Err(DocumentError::Unsupported);
        }
        if let Some(skill) = id.name.strip_prefix(SKILLS) {
            if skill.contains('/') {
                return Err(DocumentError::Unsupported);
            }
            let folder = Self::skills(base, personal);
            return Ok(Self { folder: folder.folder.join(folder.file), file: skill.into(), ..folder });
        }
        // The definitions of launches have a folder of their own.
        let below = if id.name.starts_with("launches/") { "" } else { "config" };
        let path = Path::new(top).join(below).join(format!("{}.json", id.name));
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let file = path.file_name().unwrap_or_default().to_owned();
        Ok(Self { base: base.to_owned(), folder, file, personal, is_folder: false })
    }

    /// The folder in which the skills of an owner lie.
    pub(super) fn of_skills(home: Option<&Path>, owner: &DocumentOwner) -> Result<Self, DocumentError> {
        // Of any skill, so that an owner is judged in one place.
        let any = Self::of(home, &DocumentId::new(owner.clone(), "skills/any"))?;
        Ok(Self::skills(&any.base, any.personal))
    }

    fn skills(base: &Path, personal: bool) -> Self {
        let folder = Path::new(if personal { "agent" } else { ".nerve" }).to_owned();
        Self { base: base.to_owned(), folder, file: "skills".into(), personal, is_folder: true }
    }

    pub(super) fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// Opens the folder that lies there, behind all links.
    pub(super) fn open_folder(&self) -> io::Result<Folder> {
        let (parent, name) = self.open()?;
        match parent.stamp(&name)?.kind {
            EntryKind::Folder => parent.below(Path::new(&name)),
            EntryKind::Link => Err(refused("it is a link, and links are not followed there")),
            EntryKind::File | EntryKind::Other => Err(refused("it is no folder")),
        }
    }

    pub(super) fn display(&self) -> String {
        crate::display(&self.base.join(&self.folder).join(&self.file).to_string_lossy())
    }

    /// Returns the stamp of the file, `None` when there is none.
    pub(super) fn stamp(&self) -> io::Result<Option<Stamp>> {
        match self.open().and_then(|(folder, file)| folder.stamp(&file)) {
            Ok(stamp) => Ok(Some(stamp)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the folder in which the file lies, behind all links, and returns the name there.
    pub(super) fn open(&self) -> io::Result<(Folder, OsString)> {
        let direct = self.base().and_then(|base| base.below(&self.folder));
        match direct {
            Ok(folder) if self.personal && is_link(&folder, &self.file) => self.behind_links(),
            Err(error) if self.personal && error.kind() != io::ErrorKind::NotFound => self.behind_links(),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.closed(&error)),
            direct => Ok((direct?, self.file.clone())),
        }
    }

    /// Why the folder of a project cannot be opened. Most often the host named the project by a path through a link.
    fn closed(&self, error: &io::Error) -> io::Error {
        match std::fs::canonicalize(&self.base) {
            Ok(folder) if folder != self.base => {
                let folder = crate::display(&folder.display().to_string());
                refused(format!(
                    "a link leads to it, and links are not followed there; the project's canonical folder is `{folder}`"
                ))
            }
            _ => refused(format!("its folder cannot be opened, and links are not followed there: {error}")),
        }
    }

    /// The same, making the folders that are missing.
    pub(super) fn open_making(&self) -> io::Result<(Folder, OsString)> {
        match self.open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        if self.personal {
            make_private(&self.base.join(&self.folder))?;
        } else {
            self.base()?.below_making(&self.folder)?;
        }
        self.open()
    }

    /// The home itself may be named through links. A project may not: what was decided about it is kept under
    /// its folder, and a link would carry that over to whatever it leads to later.
    fn base(&self) -> io::Result<Folder> {
        match Folder::open(&self.base) {
            Err(_) if self.personal => Folder::open(&std::fs::canonicalize(&self.base)?),
            opened => opened,
        }
    }

    fn behind_links(&self) -> io::Result<(Folder, OsString)> {
        let base = std::fs::canonicalize(&self.base)?;
        let walked = walk(&base.join(&self.folder).join(&self.file)).map_err(refused)?;
        for path in walked.links.iter().chain([&walked.path]) {
            if !is_own(path)? {
                let path = crate::display(&path.to_string_lossy());
                return Err(refused(format!(
                    "`{path}` belongs to someone else, so the link is not followed"
                )));
            }
        }
        let parent = walked.path.parent().unwrap_or(Path::new("/"));
        Ok((Folder::open(parent)?, walked.path.file_name().unwrap_or_default().to_owned()))
    }
}

/// Whether a text may be one component of a document's name.
pub(super) fn is_name(part: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    !part.is_empty() && part.len() <= 128 && !part.starts_with('.') && part.chars().all(good)
}

fn is_link(folder: &Folder, file: &OsStr) -> bool {
    folder.stamp(file).is_ok_and(|stamp| stamp.kind == EntryKind::Link)
}

#[cfg(unix)]
fn is_own(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    match std::fs::symlink_metadata(path) {
        Ok(facts) => Ok(facts.uid() == rustix::process::geteuid().as_raw()),
        // A link to nothing: the document is made there.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Owners are not compared here, so no link is followed.
#[cfg(not(unix))]
fn is_own(_path: &Path) -> io::Result<bool> {
    Ok(false)
}

fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
