//! Skills: folders of instructions that a model reads when it needs them.

mod front_matter;
mod skills;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use nervekit_types::Digest;

pub use skills::Skills;

use crate::error::{DocumentError, DocumentProblem};
use front_matter::FrontMatter;

/// The file that makes a folder a skill.
const MAIN: &str = "SKILL.md";

/// A skill that counts: the bytes that were trusted, and no others.
///
/// Its `SKILL.md` begins with a front matter of a `name`, which is that of the folder, and a `description`.
/// Whatever is shown to a model of a skill, its other files too, is taken from here and not read again.
///
/// ```
/// use std::collections::BTreeMap;
/// use nervekit_permissions::Skill;
/// use nervekit_types::Digest;
/// let text = "---\nname: release\ndescription: \"How to release: step by step\"\n---\nTag it.\n";
/// let files = BTreeMap::from([("SKILL.md".to_owned(), text.as_bytes().into())]);
/// let skill = Skill::parse("release", files, Digest::of("the table of its files"))?;
/// assert_eq!(skill.description, "How to release: step by step");
/// assert_eq!(skill.body, "Tag it.\n");
/// # Ok::<(), nervekit_permissions::DocumentError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skill {
    /// Its name, that of its folder.
    pub name: String,
    /// When a model should read it.
    pub description: String,
    /// What `SKILL.md` says below the front matter.
    pub body: String,
    /// All its files by path, components joined by `/`.
    pub files: BTreeMap<String, Arc<[u8]>>,
    /// The digest over all files.
    pub digest: Digest,
}

impl Skill {
    /// Reads the files of a skill that lie in a folder of this name.
    pub fn parse(
        folder: &str,
        files: BTreeMap<String, Arc<[u8]>>,
        digest: Digest,
    ) -> Result<Self, DocumentError> {
        let main =
            files.get(MAIN).ok_or_else(|| DocumentProblem::new(format!("it holds no file `{MAIN}`")))?;
        let (FrontMatter { name, description }, body) = front_matter::parse(main)?;
        if name != folder {
            let (name, folder) = (crate::display(&name), crate::display(folder));
            let what = format!("`{MAIN}`: `name` is `{name}`; it is that of the folder, `{folder}`");
            return Err(DocumentProblem::new(what).into());
        }
        let body = body.to_owned();
        Ok(Self { name, description, body, files, digest })
    }
}

/// Shows the names of the files only.
impl fmt::Debug for Skill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Skill")
            .field("name", &self.name)
            .field("files", &self.files.keys())
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}
