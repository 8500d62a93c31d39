//! Cores of one process over the same backend, which wake each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nervekit_types::{ConversationId, IncarnationId};

use super::actor::Message;
use super::core::Inner;

/// The cores that know of each other.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    cores: Mutex<BTreeMap<IncarnationId, Weak<Inner>>>,
}

impl Neighbours {
    /// Adds a core; those that are gone are forgotten.
    pub(super) fn join(&self, core: &Arc<Inner>) {
        let mut cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        cores.retain(|_, core| core.strong_count() > 0);
        cores.insert(core.incarnation, Arc::downgrade(core));
    }

    /// Lets this core, if it is known here, look at a conversation.
    pub(super) fn wake(&self, incarnation: IncarnationId, conversation: ConversationId) {
        let known = self.cores.lock().unwrap_or_else(PoisonError::into_inner).get(&incarnation).cloned();
        if let Some(core) = known.and_then(|core| core.upgrade()).filter(|core| !core.is_closing()) {
            core.send(conversation, Message::Wake);
        }
    }
}
