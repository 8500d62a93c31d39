//! Trust decisions in one JSON file.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nervekit_permissions::{DocumentError, DocumentId, TrustRecord, TrustStore};

/// All records in one file, for one process. A database does the same with a row for each document.
#[derive(Debug)]
pub(crate) struct JsonTrust(Mutex<PathBuf>);

impl JsonTrust {
    pub(crate) const fn new(file: PathBuf) -> Self {
        Self(Mutex::new(file))
    }
}

fn unavailable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> DocumentError {
    DocumentError::Unavailable(error.into())
}

fn rows(file: &Path) -> Result<BTreeMap<DocumentId, TrustRecord>, DocumentError> {
    match std::fs::read(file) {
        // A list of pairs, since a key of a JSON object is a text.
        Ok(bytes) => {
            let rows: Vec<_> = serde_json::from_slice(&bytes).map_err(unavailable)?;
            Ok(rows.into_iter().collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(unavailable(error)),
    }
}

#[async_trait::async_trait]
impl TrustStore for JsonTrust {
    async fn read(&self, id: &DocumentId) -> Result<Option<TrustRecord>, DocumentError> {
        Ok(rows(&self.0.lock().unwrap_or_else(PoisonError::into_inner))?.remove(id))
    }

    async fn replace(&self, id: &DocumentId, record: TrustRecord) -> Result<(), DocumentError> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows = rows(&file)?;
        if record.revision != rows.get(id).map_or(0, |stored| stored.revision) + 1 {
            return Err(DocumentError::Changed { current: None }); // someone else was faster
        }
        rows.insert(id.clone(), record);
        let rows: Vec<_> = rows.into_iter().collect();
        // Beside and renamed, so that a crash leaves the old decisions or the new ones.
        let beside = file.with_extension("new");
        let mut new = std::fs::File::create(&beside).map_err(unavailable)?;
        new.write_all(&serde_json::to_vec(&rows).map_err(unavailable)?).map_err(unavailable)?;
        new.sync_all().and_then(|()| std::fs::rename(&beside, &*file)).map_err(unavailable)
    }
}
