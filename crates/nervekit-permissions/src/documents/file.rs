//! Documents in files.

mod place;
mod seen;
mod staged;
mod tree;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use nervekit_types::Digest;

use super::{DocumentId, DocumentOwner, DocumentState, Documents, Trust, TrustRecord, TrustStore};
use crate::document::{PolicyDocument, RuleSet};
use crate::error::{DocumentError, DocumentProblem};
use crate::path::Stamp;
use crate::surface::Surface;
use place::Place;
use seen::{Content, Seen};
use staged::Staged;
use tree::Tree;

/// How often a decision is written anew because another process was faster.
const MAXIMUM_ATTEMPTS: usize = 32;

/// The documents of a person and of projects, in files.
///
/// Those of the person lie below a home folder, `config/permissions.json` and `config/rule-sets/<id>.json`, those
/// of a project below its `.nerve/`. Skills are folders, `agent/skills/<name>` in the home and `skills/<name>` in
/// `.nerve/`; the document of a skill is the table of its files with their digests, made anew each time it is
/// read or looked at. A project is named by its
/// canonical folder: that is what decisions about it are kept under. What was decided about them is kept by a [`TrustStore`].
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
    external_edits: bool,
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
        let files = Arc::new(Files { home, known: Mutex::default() });
        Self { files, trust: Arc::new(trust), external_edits: false }
    }

    /// Sets whether edits of the person's rules and rule sets are accepted that were made by something else than
    /// this program: off at first.
    ///
    /// It is for hosts whose home no agent can write. Then such a document is accepted when it is next read with
    /// [`Documents::read`], if it can be parsed and nobody refused it. Looking at it accepts nothing, so a host
    /// reads it when edits are to count, as at the start of a turn. A document that is gone is not accepted as
    /// gone, and those of projects are asked about as before.
    ///
    /// ```
    /// use nervekit_permissions::{DocumentId, DocumentOwner, Documents, FileDocuments, MemoryTrustStore, Trust};
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let home = tempfile::tempdir()?;
    /// let documents = FileDocuments::new(home.path(), MemoryTrustStore::new()).trust_external_edits(true);
    /// std::fs::create_dir(home.path().join("config"))?;
    /// std::fs::write(home.path().join("config/permissions.json"), r#"{"schemaVersion": 2}"#)?;
    /// let state = documents.read(&DocumentId::permissions(DocumentOwner::User(None))).await?;
    /// assert_eq!(state.current.as_ref().map(|document| document.trust), Some(Trust::Trusted));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn trust_external_edits(mut self, accepted: bool) -> Self {
        self.external_edits = accepted;
        self
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

    /// Lists what lies in the folder of the skills of an owner, by name: skills, and what is none and why.
    pub(crate) async fn skill_folders(
        &self,
        owner: &DocumentOwner,
    ) -> Result<Vec<(String, Result<(), DocumentProblem>)>, DocumentError> {
        let place = Place::of_skills(self.files.home.as_deref(), owner)?;
        blocking(move || tree::skills(&place).map_err(|error| refusal(&error))).await
    }

    /// Reads a skill once: the files, the digest over all, and what was decided about exactly these bytes.
    pub(crate) async fn skill_files(
        &self,
        id: &DocumentId,
    ) -> Result<(BTreeMap<String, Arc<[u8]>>, Digest, Trust), DocumentError> {
        let place = self.files.place(id)?;
        let tree = blocking(move || seen::steady(|| Tree::read(&place)).map_err(|error| refusal(&error)));
        let tree = tree.await?;
        let digest = Digest::of(tree.table());
        let trust = self.trust.read(id).await?.map_or(Trust::Undecided, |record| record.trust(&digest));
        Ok((tree.files, digest, trust))
    }

    /// Reads a record, changes it and writes it, until nobody was faster.
    async fn decide<T: Send>(
        &self,
        id: &DocumentId,
        change: impl Fn(&mut TrustRecord) -> T + Send + Sync,
    ) -> Result<T, DocumentError> {
        for _ in 0..MAXIMUM_ATTEMPTS {
            let mut record = self.trust.read(id).await?.unwrap_or_default();
            let changed = change(&mut record);
            record.revision += 1;
            match self.trust.replace(id, record.clone()).await {
                Ok(()) => {
                    self.files.learn(id, record);
                    return Ok(changed);
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
        let Some(document) = &state.current else { return Ok(state) };
        let accepted = match document.trust {
            Trust::Trusted => true,
            Trust::Undecided => self.external_edits && is_of_rules(id) && is_valid(id, &document.bytes),
            Trust::Rejected => false,
        };
        if !accepted {
            return Ok(state);
        }
        // A known version came back, or a program died between the rename and the record of it.
        let last = state.last_accepted.as_ref();
        if document.trust == Trust::Trusted && last.is_some_and(|last| last.digest == document.digest) {
            return Ok(state);
        }
        self.decide(id, |record| {
            // Unless something else was decided in the meantime.
            if record.trust(&document.digest) == document.trust {
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
        if place.is_folder() {
            return Err(DocumentError::Unsupported);
        }
        let bytes: Arc<[u8]> = bytes.into();
        let digest = Digest::of(&bytes);
        let staged = {
            let bytes = Arc::clone(&bytes);
            blocking(move || Staged::write(&place, expected, &bytes)).await?
        };
        // Whenever this ends, the record knows both the bytes that are there and those that may be.
        let before = self.decide(id, |record| record.announce(digest)).await?;
        if let Err(error) = blocking(move || staged.commit()).await {
            // Why it failed is what the caller has to know, also when this cannot be written either.
            let _ = self.decide(id, |record| record.withdraw(digest, before)).await;
            return Err(error);
        }
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

    async fn forget(&self, id: &DocumentId) -> Result<(), DocumentError> {
        let state = self.current(id).await?;
        if let Some(problem) = &state.problem {
            return Err(problem.clone().into());
        }
        if let Some(document) = &state.current {
            return Err(DocumentError::Changed { current: Some(Box::new(document.digest)) });
        }
        self.decide(id, |record| record.forget(id.owner.scope())).await
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
        if let (DocumentOwner::Project(_), Some(stamp)) = (&id.owner, seen.stamp())
            && self.is_users(&id.name, stamp)
        {
            seen.content = Content::Refused("it is the file of the user, too; use two files".to_owned());
        }
        let mut known = self.known();
        let known = known.entry(id.clone()).or_insert_with(|| Known::new(&place));
        known.seen = seen;
        known.describe();
        Ok(Arc::clone(&known.state))
    }

    /// Whether this is one of the user's files, the one of this name or another.
    fn is_users(&self, name: &str, stamp: Stamp) -> bool {
        let names = Surface::DOCUMENTS.iter().map(Surface::name).chain([name.to_owned().into()]);
        names.map(|name| DocumentId::new(DocumentOwner::User(None), name)).any(|id| {
            let user = self.place(&id).map(|place| place.stamp());
            matches!(user, Ok(Ok(Some(user))) if user.identity == stamp.identity)
        })
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

/// Whether this is a document of a person that holds rules.
fn is_of_rules(id: &DocumentId) -> bool {
    matches!(id.owner, DocumentOwner::User(_))
        && (id.name == "permissions" || id.name.starts_with("rule-sets/"))
}

/// Why a folder is not read: nothing is there, or something that a person has to correct.
fn refusal(error: &std::io::Error) -> DocumentError {
    match error.kind() {
        std::io::ErrorKind::NotFound => DocumentError::Changed { current: None },
        _ => DocumentProblem::new(error.to_string()).into(),
    }
}

fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> DocumentError {
    DocumentError::Unavailable(error.into())
}
