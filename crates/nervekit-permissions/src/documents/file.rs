//! Documents in files.

mod place;
mod seen;
mod staged;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nervekit_types::Digest;

use super::{DocumentId, DocumentOwner, DocumentState, Documents, Trust, TrustRecord, TrustStore};
use crate::document::{PolicyDocument, RuleSet};
use crate::error::{DocumentError, DocumentProblem};
use place::Place;
use seen::{Content, Seen};
use staged::Staged;

/// How often a decision is written anew because another process was faster.
const MAXIMUM_ATTEMPTS: usize = 32;

/// The documents of a person and of projects, in files.
///
/// Those of the person lie below a home folder, `config/permissions.json` and `config/rule-sets/<id>.json`, those
/// of a project below its `.nerve/`. What was decided about them is kept by a [`TrustStore`].
///
/// A file is opened only when it is a regular one of at most 1 MiB. Links are followed in the home only, and only
/// when each link and the file belong to the person who runs this program. Writing takes a lock on the folder,
/// compares, writes a file of mode 0600 beside and renames it: a reader sees the old document or the new one,
/// and of two programs that save at once the slower one is told. (Where a folder cannot be locked, as on some
/// network file systems, saving fails.) Dropping the future of a `replace` before its end leaves the old document
/// or the new one, too.
///
/// ```
/// use nervekit_permissions::{DocumentId, DocumentOwner, Documents, FileDocuments, MemoryTrustStore, Trust};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let home = tempfile::tempdir()?;
/// let documents = FileDocuments::new(home.path(), MemoryTrustStore::new());
/// let id = DocumentId::permissions(DocumentOwner::User(None));
/// documents.replace(&id, None, br#"{"schemaVersion": 2}"#).await?;
///
/// // Someone edits the file: its bytes are there, but nobody accepted them.
/// std::fs::write(home.path().join("config/permissions.json"), "{}")?;
/// assert_eq!(documents.look(&id).current.as_ref().map(|document| document.trust), Some(Trust::Undecided));
/// assert!(documents.look(&id).last_accepted.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FileDocuments {
    files: Arc<Files>,
    trust: Arc<dyn TrustStore>,
}

/// The files as they were seen last.
struct Files {
    /// None where only projects have documents.
    home: Option<PathBuf>,
    known: Mutex<HashMap<DocumentId, Known>>,
}

struct Known {
    seen: Seen,
    /// `None` until it was read: then nothing counts as accepted.
    record: Option<TrustRecord>,
    state: Arc<DocumentState>,
}

impl FileDocuments {
    /// Keeps the documents of a person below this folder, and those of a project in the project.
    #[must_use]
    pub fn new(home: impl Into<PathBuf>, trust: impl TrustStore) -> Self {
        Self::over(Some(home.into()), trust)
    }

    /// Keeps the documents of projects only, where nothing is kept for a person: reading finds no document of a
    /// person, and writing one is [`Unsupported`](DocumentError::Unsupported).
    ///
    /// ```
    /// use nervekit_permissions::{DocumentId, DocumentOwner, Documents, FileDocuments, MemoryTrustStore};
    /// let documents = FileDocuments::of_projects(MemoryTrustStore::new());
    /// let state = documents.look(&DocumentId::permissions(DocumentOwner::User(None)));
    /// assert!(state.current.is_none() && state.problem.is_none());
    /// ```
    #[must_use]
    pub fn of_projects(trust: impl TrustStore) -> Self {
        Self::over(None, trust)
    }

    fn over(home: Option<PathBuf>, trust: impl TrustStore) -> Self {
        Self { files: Arc::new(Files { home, known: Mutex::default() }), trust: Arc::new(trust) }
    }

    /// Accepts the person's documents as they are found, unless something was decided about them before. A host
    /// calls it once, when it opens; a file that appears later is an edit like any other, and so is one that could
    /// not be read then.
    pub async fn adopt(&self) -> Result<(), DocumentError> {
        if self.files.home.is_none() {
            return Ok(());
        }
        let user = DocumentOwner::User(None);
        let permissions = DocumentId::permissions(user.clone());
        if self.trust.read(&permissions).await?.is_some() {
            return Ok(());
        }
        let files = Arc::clone(&self.files);
        let sets = blocking(move || Ok(files.rule_sets())).await?;
        let sets = sets.into_iter().map(|set| DocumentId::new(user.clone(), format!("rule-sets/{set}")));
        // The person's rules come last: they say that all is done.
        for id in sets.chain([permissions.clone()]) {
            let state = self.read(&id).await?;
            self.decide(&id, |record| {
                if let Some(document) =
                    state.current.as_ref().filter(|document| is_valid(&id, &document.bytes))
                {
                    record.accept(id.owner.scope(), &document.bytes);
                }
            })
            .await?;
        }
        Ok(())
    }

    /// Reads a record, changes it and writes it, until nobody was faster.
    async fn decide(
        &self,
        id: &DocumentId,
        change: impl Fn(&mut TrustRecord) + Send + Sync,
    ) -> Result<(), DocumentError> {
        for _ in 0..MAXIMUM_ATTEMPTS {
            let mut record = self.trust.read(id).await?.unwrap_or_default();
            change(&mut record);
            record.revision += 1;
            match self.trust.replace(id, record.clone()).await {
                Ok(()) => {
                    self.files.learn(id, record);
                    return Ok(());
                }
                Err(DocumentError::Changed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(unavailable("other programs keep deciding about this document"))
    }

    /// Reads the record and the file; `change` sees what is there before anything is decided.
    async fn current(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
        if self.files.home.is_none() && id.owner == DocumentOwner::User(None) {
            return Err(DocumentError::Unsupported);
        }
        if let Some(record) = self.trust.read(id).await? {
            self.files.learn(id, record);
        }
        let (files, wanted) = (Arc::clone(&self.files), id.clone());
        blocking(move || files.look(&wanted)).await
    }
}

#[async_trait]
impl Documents for FileDocuments {
    async fn read(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
        let state = self.current(id).await?;
        let Some(document) = state.current.as_ref().filter(|document| document.trust == Trust::Trusted)
        else {
            return Ok(state);
        };
        // A known version came back, or a program died between the rename and the record of it.
        if state.last_accepted.as_ref().is_some_and(|last| last.digest == document.digest) {
            return Ok(state);
        }
        self.decide(id, |record| {
            // Unless it was refused in the meantime.
            if record.trust(&document.digest) == Trust::Trusted {
                record.accept(id.owner.scope(), &document.bytes);
            }
        })
        .await?;
        Ok(self.look(id))
    }

    fn look(&self, id: &DocumentId) -> Arc<DocumentState> {
        self.files.look(id).unwrap_or_else(|error| {
            let place = crate::display(&id.name);
            Arc::new(DocumentState::new(place).problem(DocumentProblem::new(error.to_string())))
        })
    }

    async fn replace(
        &self,
        id: &DocumentId,
        expected: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Digest, DocumentError> {
        let place = self.files.place(id)?;
        let bytes: Arc<[u8]> = bytes.into();
        let digest = Digest::of(&bytes);
        let staged = {
            let bytes = Arc::clone(&bytes);
            blocking(move || Staged::write(&place, expected, &bytes)).await?
        };
        // Whenever this ends, the record knows both the bytes that are there and those that may be.
        self.decide(id, |record| record.announce(digest)).await?;
        blocking(move || staged.commit()).await?;
        self.decide(id, |record| record.accept(id.owner.scope(), &bytes)).await?;
        Ok(digest)
    }

    async fn trust(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        let state = self.current(id).await?;
        match &state.current {
            Some(document) if document.digest == digest => {
                self.decide(id, |record| record.accept(id.owner.scope(), &document.bytes)).await
            }
            other => {
                let current = other.as_ref().map(|document| Box::new(document.digest));
                Err(DocumentError::Changed { current })
            }
        }
    }

    async fn reject(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        self.files.place(id)?;
        self.decide(id, |record| record.reject(digest)).await
    }
}

impl Files {
    fn place(&self, id: &DocumentId) -> Result<Place, DocumentError> {
        Place::of(self.home.as_deref(), id)
    }

    fn look(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
        if self.home.is_none() && id.owner == DocumentOwner::User(None) {
            return Ok(Arc::new(DocumentState::new("nowhere")));
        }
        let place = match self.place(id) {
            Err(DocumentError::Malformed(problem)) => {
                return Ok(Arc::new(DocumentState::new(crate::display(&id.name)).problem(*problem)));
            }
            place => place?,
        };
        let stamp = place.stamp();
        if let Some(known) = self.known().get(id)
            && known.seen.still_holds(&stamp)
        {
            return Ok(Arc::clone(&known.state));
        }
        let mut seen = Seen::read(&place);
        if let (DocumentOwner::Project(_), Some(stamp)) = (&id.owner, seen.stamp()) {
            let user = DocumentId::new(DocumentOwner::User(None), &*id.name);
            let user = self.place(&user).ok().and_then(|user| user.stamp().ok()).flatten();
            if user.is_some_and(|user| user.identity == stamp.identity) {
                seen.content = Content::Refused("it is the file of the user, too; use two files".to_owned());
            }
        }
        let mut known = self.known();
        let known = known.entry(id.clone()).or_insert_with(|| Known::new(&place));
        known.seen = seen;
        known.describe();
        Ok(Arc::clone(&known.state))
    }

    fn learn(&self, id: &DocumentId, record: TrustRecord) {
        let Ok(place) = self.place(id) else { return };
        let mut known = self.known();
        let known = known.entry(id.clone()).or_insert_with(|| Known::new(&place));
        // Of two answers under way the older one may come last.
        if known.record.as_ref().is_none_or(|older| older.revision <= record.revision) {
            known.record = Some(record);
            known.describe();
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<DocumentId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of the rule sets that lie in the home.
    fn rule_sets(&self) -> Vec<String> {
        let folder = self.home.as_ref().map(|home| home.join("config/rule-sets"));
        let Some(Ok(entries)) = folder.map(std::fs::read_dir) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut ids: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect();
        ids.retain(|id| place::is_name(id));
        ids.sort_unstable();
        ids
    }
}

impl Known {
    fn new(place: &Place) -> Self {
        let state = Arc::new(DocumentState::new(place.display()));
        Self { seen: Seen::nothing(), record: None, state }
    }

    fn describe(&mut self) {
        let state = DocumentState::new(&*self.state.place);
        let nothing = TrustRecord::new();
        let record = self.record.as_ref().unwrap_or(&nothing);
        let state = match &self.seen.content {
            Content::Missing => record.describe(state, None),
            Content::Bytes(bytes) => record.describe(state, Some(bytes)),
            Content::Refused(problem) => {
                record.describe(state.problem(DocumentProblem::new(&**problem)), None)
            }
        };
        if state != *self.state {
            self.state = Arc::new(state);
        }
    }
}

impl fmt::Debug for FileDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileDocuments").field("home", &self.files.home).finish_non_exhaustive()
    }
}

/// Whether a person's document can be read as what its name says.
fn is_valid(id: &DocumentId, bytes: &[u8]) -> bool {
    if id.name.starts_with("rule-sets/") {
        return RuleSet::parse(bytes).is_ok();
    }
    PolicyDocument::parse(id.owner.scope(), bytes).is_ok()
}

/// Runs what waits for a disk or a lock on a thread of its own: the caller's executor may have no other.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DocumentError> + Send + 'static,
) -> Result<T, DocumentError> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("nervekit-documents".to_owned())
        // Nobody waits any more when the future was dropped.
        .spawn(move || drop(answer.send(work())))
        .map_err(unavailable)?;
    answered.await.unwrap_or_else(|_| Err(unavailable("the thread that works on it ended")))
}

fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> DocumentError {
    DocumentError::Unavailable(error.into())
}
