//! Reading surfaces, and deciding about them.

use std::sync::Arc;

use nervekit_types::Digest;
use serde::de::DeserializeOwned;

use super::layer::{self, Layered};
use super::{Surface, SurfaceStatus};
use crate::documents::{DocumentOwner, Documents};
use crate::error::DocumentError;

/// What users, projects and conversations supply: what of it counts, and how a person decides about it.
///
/// A host reads `subagents.json`, `harness.json` and the definitions of launches through it, each as a type of its
/// own. The type says what a document may hold: give it `#[serde(deny_unknown_fields)]`. As with permission rules a
/// document is strict JSON (no key twice, UTF-8, at most 1 MiB), and one fault ignores the whole of it. Skills are
/// read through [`Skills`](crate::Skills).
///
/// ```
/// use nervekit_permissions::{DocumentOwner, MemoryDocuments, Surface, SurfaceDocuments, Standing};
///
/// #[derive(serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Settings {
///     auto: bool,
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let (person, project) = (DocumentOwner::User(None), DocumentOwner::Project("/work/project".into()));
/// let files = MemoryDocuments::new();
/// files.edit(&Surface::Harness.id(person.clone()), Some(br#"{"auto": true}"#));
/// files.edit(&Surface::Harness.id(project.clone()), Some(br#"{"auto": false}"#)); // it came with a clone
/// let documents = SurfaceDocuments::new(files);
///
/// let owners = [person, project.clone()];
/// let settings = documents.layers::<Settings>(&Surface::Harness, &owners).await?;
/// assert_eq!(settings.iter().map(|settings| settings.auto).collect::<Vec<_>>(), [true]);
/// assert!(settings.notices[0].reason.contains("not trusted"));
///
/// // A person is shown what is there, and accepts exactly that.
/// let status = documents.status(&Surface::Harness, &project).await?;
/// assert_eq!((status.standing, &*status.added[0]), (Standing::Untrusted, "auto"));
/// documents.trust(&Surface::Harness, &project, status.digest.unwrap()).await?;
/// let settings = documents.layers::<Settings>(&Surface::Harness, &owners).await?;
/// assert!(settings.iter().last().is_some_and(|settings| !settings.auto));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SurfaceDocuments {
    documents: Arc<dyn Documents>,
}

impl SurfaceDocuments {
    /// Works on these documents.
    #[must_use]
    pub fn new(documents: impl Documents) -> Self {
        Self { documents: Arc::new(documents) }
    }

    /// Reads what counts of a surface, and says what does not count and why. Owners of whom nothing is kept here
    /// are passed over.
    ///
    /// A project's document counts when a person trusted exactly its bytes; nothing of any other is read. Those of
    /// a user and of a conversation count as they are found, unless they were refused. Permission rules that are
    /// not accepted are left out here; what they still restrict is known to the engine.
    ///
    /// It fails when it cannot be known what was decided: then nothing at all is read.
    pub async fn layers<T: DeserializeOwned + Send>(
        &self,
        surface: &Surface,
        owners: &[DocumentOwner],
    ) -> Result<Layered<T>, DocumentError> {
        let mut owners: Vec<&DocumentOwner> = owners.iter().collect();
        owners.sort_by_key(|owner| owner.scope());
        let mut layered = Layered::default();
        for owner in owners {
            match self.documents.read(&surface.id(owner.clone())).await {
                Ok(state) => layered.add(layer::read(surface, owner, &state)),
                Err(DocumentError::Unsupported) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(layered)
    }

    /// Says whether a surface counts, and how it differs from the version that was accepted last.
    pub async fn status(
        &self,
        surface: &Surface,
        owner: &DocumentOwner,
    ) -> Result<SurfaceStatus, DocumentError> {
        let state = self.documents.read(&surface.id(owner.clone())).await?;
        Ok(SurfaceStatus::of(surface, owner, &state))
    }

    /// Accepts the version that was shown. It fails when another one is there now, and when it cannot be read.
    /// Versions of a project that were accepted before stay accepted.
    pub async fn trust(
        &self,
        surface: &Surface,
        owner: &DocumentOwner,
        digest: Digest,
    ) -> Result<(), DocumentError> {
        let id = surface.id(owner.clone());
        let state = self.documents.read(&id).await?;
        if let Some(document) = state.current.as_ref().filter(|document| document.digest == digest) {
            surface.check(owner.scope(), &document.bytes)?;
        }
        self.documents.trust(&id, digest).await
    }

    /// Refuses a version from now on.
    pub async fn reject(
        &self,
        surface: &Surface,
        owner: &DocumentOwner,
        digest: Digest,
    ) -> Result<(), DocumentError> {
        self.documents.reject(&surface.id(owner.clone()), digest).await
    }

    /// Accepts that a surface is gone, so that nobody is told of it any more. It fails with
    /// [`DocumentError::Changed`] while something is there.
    pub async fn accept_absence(
        &self,
        surface: &Surface,
        owner: &DocumentOwner,
    ) -> Result<(), DocumentError> {
        self.documents.forget(&surface.id(owner.clone())).await
    }
}
