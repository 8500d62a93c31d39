//! Contexts of conversations that came to rest lately: one that goes on does not read its history again.

use std::collections::VecDeque;

use nervekit_types::ConversationId;

use super::Projection;
use crate::event::EventLink;

/// How many conversations are remembered.
const CONVERSATIONS: usize = 64;

/// How many messages they may have together.
const MESSAGES: usize = 32_768;

/// The contexts of the conversations that came to rest last, with the event up to which each reaches.
#[derive(Debug, Default)]
pub(crate) struct ProjectionCache {
    entries: VecDeque<(ConversationId, EventLink, Projection)>,
    messages: usize,
}

impl ProjectionCache {
    /// Remembers the context of a conversation; the oldest ones make room for it.
    pub(crate) fn put(&mut self, id: ConversationId, head: EventLink, projection: Projection) {
        self.take(id);
        self.messages += projection.len();
        self.entries.push_back((id, head, projection));
        while self.entries.len() > CONVERSATIONS || self.messages > MESSAGES {
            let Some((_, _, oldest)) = self.entries.pop_front() else { return };
            self.messages -= oldest.len();
        }
    }

    /// Takes the context of a conversation out.
    pub(crate) fn take(&mut self, id: ConversationId) -> Option<(EventLink, Projection)> {
        let at = self.entries.iter().position(|(of, _, _)| *of == id)?;
        let (_, head, projection) = self.entries.remove(at)?;
        self.messages -= projection.len();
        Some((head, projection))
    }
}

#[cfg(test)]
mod tests {
    use nervekit_types::EventId;

    use super::*;

    #[test]
    fn the_oldest_make_room() {
        let link = EventLink::new(EventId::from_key("e"), 1);
        let id = |n: usize| ConversationId::from_key(&n.to_string());
        let mut cache = ProjectionCache::default();
        for n in 0..CONVERSATIONS + 2 {
            cache.put(id(n), link, Projection::default());
        }
        assert!(cache.take(id(0)).is_none() && cache.take(id(1)).is_none());
        assert!(cache.take(id(2)).is_some() && cache.take(id(2)).is_none());
        assert_eq!(cache.entries.len(), CONVERSATIONS - 1);
    }
}
