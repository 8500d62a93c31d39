//! The skills of a person and of projects.

use std::collections::BTreeMap;
use std::sync::Arc;

use nervekit_types::Digest;

use super::Skill;
use crate::documents::{DocumentOwner, FileDocuments};
use crate::error::DocumentError;
use crate::evidence::IgnoredDocument;
use crate::policy_documents::Standing;
use crate::surface::{Layer, Layered, Surface, SurfaceDocuments, SurfaceStatus, reason};

/// The skills that lie in files: `agent/skills/<name>/SKILL.md` in the home of a person, and
/// `.nerve/skills/<name>/SKILL.md` in a project.
///
/// A skill is trusted as a whole, over the paths and bytes of all files in its folder, with
/// [`SurfaceDocuments`] as every other surface. One of a project that nobody trusted gives nothing to a model, not
/// even its name or description. The files are opened like those of a tool: regular ones, none behind a link, at
/// most 256 in 64 folders, 8 deep, and 4 MiB in all. One thing in the folder that is otherwise refuses the skill.
///
/// ```
/// # #[cfg(unix)] {
/// use nervekit_permissions::{
///     DocumentOwner, FileDocuments, MemoryTrustStore, Skills, Standing, SurfaceDocuments,
/// };
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path().canonicalize()?;
/// let home = folder.join("home");
/// let project = folder.join("project");
/// std::fs::create_dir_all(project.join(".nerve/skills/release"))?;
/// std::fs::write(
///     project.join(".nerve/skills/release/SKILL.md"),
///     "---\nname: release\ndescription: How to release\n---\nTag it.\n",
/// )?;
/// let documents = FileDocuments::new(home, MemoryTrustStore::new());
/// let (skills, decisions) = (Skills::new(documents.clone()), SurfaceDocuments::new(documents));
/// let owners = [DocumentOwner::User(None), DocumentOwner::Project(project)];
/// assert!(skills.layers(&owners).await?.layers.is_empty());
///
/// // A person sees what came with the project, and accepts exactly that.
/// let status = skills.list(&owners[1]).await?.remove(0);
/// assert_eq!((status.standing, &*status.added[0]), (Standing::Untrusted, "SKILL.md"));
/// decisions.trust(&status.surface, &status.owner, status.digest.unwrap()).await?;
/// assert_eq!(skills.layers(&owners).await?.layers[0].content.body, "Tag it.\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Skills {
    documents: FileDocuments,
}

impl Skills {
    /// Reads the skills that lie beside these documents.
    #[must_use]
    pub fn new(documents: FileDocuments) -> Self {
        Self { documents }
    }

    /// Lists all skills of an owner for a person, by name, whether they count or not.
    pub async fn list(&self, owner: &DocumentOwner) -> Result<Vec<SurfaceStatus>, DocumentError> {
        let surfaces = SurfaceDocuments::new(self.documents.clone());
        let mut skills = Vec::new();
        for (name, found) in self.documents.skill_folders(owner).await? {
            let surface = Surface::Skill { name: name.clone() };
            if let Err(problem) = found {
                skills.push(SurfaceStatus::refused(&surface, owner, problem.to_string()));
                continue;
            }
            let mut status = surfaces.status(&surface, owner).await?;
            // What it says is looked at only once it counts.
            if status.standing == Standing::Active
                && let Err(error @ DocumentError::Malformed(_)) = self.read(owner, &name).await
            {
                status = status.malformed(error.to_string());
            }
            skills.push(status);
        }
        Ok(skills)
    }

    /// Reads a skill in one reading: what is returned is what was hashed and accepted. It fails with
    /// [`DocumentError::Untrusted`] when this is not so, and with [`DocumentError::Changed`] when it is not there.
    pub async fn read(&self, owner: &DocumentOwner, name: &str) -> Result<Skill, DocumentError> {
        let found = self.find(owner, name).await?;
        match found.standing {
            Standing::Active => Skill::parse(name, found.files, found.digest),
            _ => Err(DocumentError::Untrusted { current: Box::new(found.digest) }),
        }
    }

    /// Reads all skills that count, from those of the user to those of the project, and says which do not count
    /// and why. A skill of a project stands beside one of the user with the same name: which of them a model is
    /// offered is the reader's to say.
    pub async fn layers(&self, owners: &[DocumentOwner]) -> Result<Layered<Skill>, DocumentError> {
        let mut owners: Vec<&DocumentOwner> = owners.iter().collect();
        owners.sort_by_key(|owner| owner.scope());
        let mut layered = Layered::default();
        for owner in owners {
            let notice = |name: String, reason: String| IgnoredDocument::new(owner.scope(), name, reason);
            let found = match self.documents.skill_folders(owner).await {
                Ok(found) => found,
                Err(DocumentError::Unsupported) => continue,
                Err(error @ DocumentError::Malformed(_)) => {
                    layered.add(Err(notice("skills".to_owned(), error.to_string())));
                    continue;
                }
                Err(error) => return Err(error),
            };
            for (name, found) in found {
                let shown = Surface::Skill { name: name.clone() }.to_string();
                let found = match found {
                    Ok(()) => self.find(owner, &name).await,
                    Err(problem) => Err(problem.into()),
                };
                let read = found.and_then(|found| match reason(found.standing) {
                    Some(reason) => Ok(Err(notice(shown.clone(), reason.to_owned()))),
                    None => Skill::parse(&name, found.files, found.digest).map(Ok),
                });
                layered.add(match read {
                    Ok(read) => read.map(|skill| Some(Layer::new(owner, skill.digest, skill))),
                    // It was there a moment ago; the next reading does not list it.
                    Err(DocumentError::Changed { .. }) => Ok(None),
                    Err(error @ DocumentError::Malformed(_)) => Err(notice(shown, error.to_string())),
                    Err(error) => return Err(error),
                });
            }
        }
        Ok(layered)
    }

    async fn find(&self, owner: &DocumentOwner, name: &str) -> Result<Found, DocumentError> {
        let surface = Surface::Skill { name: name.to_owned() };
        let (files, digest, trust) = self.documents.skill_files(&surface.id(owner.clone())).await?;
        Ok(Found { standing: surface.standing(owner.scope(), trust), files, digest })
    }
}

/// A skill that was read and not yet looked at.
struct Found {
    standing: Standing,
    files: BTreeMap<String, Arc<[u8]>>,
    digest: Digest,
}
