//! Documents of several owners, one over the other.

use nervekit_types::Digest;
use serde::de::DeserializeOwned;

use super::Surface;
use crate::document;
use crate::documents::{DocumentOwner, DocumentState};
use crate::evidence::IgnoredDocument;
use crate::policy_documents::Standing;

/// What one owner supplies, and where it came from.
///
/// ```
/// use nervekit_permissions::Layer;
/// assert_eq!(Layer::built_in(42).owner, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layer<T> {
    /// Who supplied it; `None` when it is built in.
    pub owner: Option<DocumentOwner>,
    /// The digest of the bytes from which it was read.
    pub digest: Option<Digest>,
    /// What they say.
    pub content: T,
}

impl<T> Layer<T> {
    /// Puts below all others what the program itself supplies.
    #[must_use]
    pub const fn built_in(content: T) -> Self {
        Self { owner: None, digest: None, content }
    }

    pub(crate) fn new(owner: &DocumentOwner, digest: Digest, content: T) -> Self {
        Self { owner: Some(owner.clone()), digest: Some(digest), content }
    }
}

/// What counts of a surface, and what does not and why.
///
/// How the layers are joined is the reader's to say: profiles are replaced one by one, settings as a whole.
///
/// ```
/// use nervekit_permissions::Layered;
/// let layered = Layered::default().built_in("built in");
/// assert_eq!(layered.iter().last(), Some(&"built in")); // the most specific one
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layered<T> {
    /// The layers that count, from the least to the most specific: built-in, user, project, conversation.
    pub layers: Vec<Layer<T>>,
    /// The documents that do not count, with what a person can do about it.
    pub notices: Vec<IgnoredDocument>,
}

impl<T> Default for Layered<T> {
    fn default() -> Self {
        Self { layers: Vec::new(), notices: Vec::new() }
    }
}

impl<T> Layered<T> {
    /// Puts below all others what the program itself supplies.
    #[must_use]
    pub fn built_in(mut self, content: T) -> Self {
        self.layers.insert(0, Layer::built_in(content));
        self
    }

    /// Goes through the contents, from the least to the most specific.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.layers.iter().map(|layer| &layer.content)
    }

    pub(crate) fn add(&mut self, layer: Result<Option<Layer<T>>, IgnoredDocument>) {
        match layer {
            Ok(layer) => self.layers.extend(layer),
            Err(notice) => self.notices.push(notice),
        }
    }
}

/// Reads what is there if it counts; of what does not count nothing is parsed as what it pretends to be.
pub(super) fn read<T: DeserializeOwned>(
    surface: &Surface,
    owner: &DocumentOwner,
    state: &DocumentState,
) -> Result<Option<Layer<T>>, IgnoredDocument> {
    let notice = |reason: String| IgnoredDocument::new(owner.scope(), &*state.place, reason);
    let Some(document) = &state.current else {
        return match (&state.problem, &state.last_accepted) {
            (Some(problem), _) => Err(notice(format!("the document cannot be used: {problem}"))),
            (None, Some(_)) => Err(notice("it is gone".to_owned())),
            (None, None) => Ok(None),
        };
    };
    if let Some(reason) = reason(surface.standing(owner.scope(), document.trust)) {
        return Err(notice(reason.to_owned()));
    }
    let content =
        surface.check(owner.scope(), &document.bytes).and_then(|()| document::read(&document.bytes));
    match content {
        Ok((content, _)) => Ok(Some(Layer::new(owner, document.digest, content))),
        Err(error) => Err(notice(error.to_string())),
    }
}

/// Why what can be read does not count.
pub(crate) const fn reason(standing: Standing) -> Option<&'static str> {
    match standing {
        Standing::Rejected => Some("it was rejected"),
        Standing::Untrusted => Some("it is not trusted; nothing of it counts until somebody trusts it"),
        Standing::Changed => Some("it was changed by something else than this program and is not accepted"),
        Standing::Active | Standing::Absent | Standing::Gone | Standing::Malformed => None,
    }
}
