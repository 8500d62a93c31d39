//! A list of messages that shares its beginning with its clones.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Message;

/// Messages in one sealed run.
const RUN: usize = 64;

/// The messages of a request: an append-only list whose clones share everything.
///
/// A clone costs two reference counts. A push after a clone copies at most 63 pointers and no message,
/// whatever the length, so that a request per turn over ten thousand messages costs the same as over ten.
///
/// ```
/// use nervekit_harness::{Messages, UserMessage};
/// let mut messages = Messages::from_iter([UserMessage::text("one")]);
/// let before = messages.clone();
/// messages.push(UserMessage::text("two"));
/// assert_eq!((before.len(), messages.len()), (1, 2));
/// assert_eq!(messages.iter().next_back(), messages.last());
/// ```
#[derive(Clone, Default)]
pub struct Messages {
    sealed: Option<Arc<Run>>,
    sealed_len: usize,
    tail: Arc<Vec<Arc<Message>>>,
}

/// A full run and the ones before it.
struct Run {
    previous: Option<Arc<Run>>,
    messages: Arc<Vec<Arc<Message>>>,
}

impl Drop for Run {
    /// Takes the chain apart in a loop: the drop of a long list must not recurse.
    fn drop(&mut self) {
        let mut next = self.previous.take();
        while let Some(run) = next.and_then(Arc::into_inner) {
            let mut run = run;
            next = run.previous.take();
        }
    }
}

impl Messages {
    /// No messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a message of any role; an `Arc` is kept as it is.
    pub fn push(&mut self, message: impl Into<Arc<Message>>) {
        let message = message.into();
        if self.tail.len() == RUN {
            let messages = std::mem::take(&mut self.tail);
            self.sealed = Some(Arc::new(Run { previous: self.sealed.take(), messages }));
            self.sealed_len += RUN;
        }
        Arc::make_mut(&mut self.tail).push(message);
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sealed_len + self.tail.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest message.
    #[must_use]
    pub fn last(&self) -> Option<&Message> {
        self.tail.last().map(|message| &**message)
    }

    /// The messages, oldest first; from the back it gives the newest first.
    #[must_use]
    pub fn iter(&self) -> MessagesIter<'_> {
        let mut runs = Vec::with_capacity(self.sealed_len / RUN + 1);
        runs.push(self.tail.as_slice());
        let mut next = self.sealed.as_deref();
        while let Some(run) = next {
            runs.push(run.messages.as_slice());
            next = run.previous.as_deref();
        }
        runs.reverse();
        MessagesIter { inner: runs.into_iter().flatten(), remaining: self.len() }
    }

    /// The messages as they are shared, oldest first: putting them into another list copies none of them.
    ///
    /// ```
    /// use nervekit_harness::{Messages, UserMessage};
    /// let mut messages = Messages::new();
    /// messages.push(UserMessage::text("hello"));
    /// let other: Messages = messages.shared().cloned().collect();
    /// assert_eq!(other.len(), 1);
    /// ```
    pub fn shared(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.iter().inner
    }
}

/// The iterator of [`Messages::iter`].
///
/// ```
/// use nervekit_harness::{Message, Messages, UserMessage};
/// let messages = Messages::from_iter([UserMessage::text("one"), UserMessage::text("two")]);
/// let mut newest_first = messages.iter().rev();
/// assert_eq!(newest_first.next(), messages.last());
/// assert_eq!(newest_first.len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct MessagesIter<'a> {
    inner: std::iter::Flatten<std::vec::IntoIter<&'a [Arc<Message>]>>,
    remaining: usize,
}

impl<'a> Iterator for MessagesIter<'a> {
    type Item = &'a Message;

    fn next(&mut self) -> Option<Self::Item> {
        let message = self.inner.next()?;
        self.remaining -= 1;
        Some(message)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl DoubleEndedIterator for MessagesIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let message = self.inner.next_back()?;
        self.remaining -= 1;
        Some(message)
    }
}

impl ExactSizeIterator for MessagesIter<'_> {}

impl<'a> IntoIterator for &'a Messages {
    type Item = &'a Message;
    type IntoIter = MessagesIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<M: Into<Arc<Message>>> Extend<M> for Messages {
    fn extend<I: IntoIterator<Item = M>>(&mut self, messages: I) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl<M: Into<Arc<Message>>> FromIterator<M> for Messages {
    fn from_iter<I: IntoIterator<Item = M>>(messages: I) -> Self {
        let mut list = Self::new();
        list.extend(messages);
        list
    }
}

impl From<Vec<Message>> for Messages {
    fn from(messages: Vec<Message>) -> Self {
        messages.into_iter().collect()
    }
}

impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl Serialize for Messages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Message>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserMessage;

    fn list(len: usize) -> Messages {
        (0..len).map(|n| UserMessage::text(n.to_string())).collect()
    }

    #[test]
    fn a_clone_is_a_snapshot_at_every_length() {
        for len in 0..200 {
            let before = list(len);
            let (mut left, mut right) = (before.clone(), before.clone());
            left.push(UserMessage::text("left"));
            right.push(UserMessage::text("right"));
            assert_eq!(before, list(len));
            assert_eq!(left.iter().take(len).collect::<Vec<_>>(), before.iter().collect::<Vec<_>>());
            assert_eq!(left.last(), Some(&UserMessage::text("left").into()));
            assert_eq!(right.last(), Some(&UserMessage::text("right").into()));
            assert_eq!(left.iter().rev().count(), len + 1);
            assert_eq!(left.iter().len(), len + 1);
        }
    }

    #[test]
    fn a_push_after_a_clone_copies_no_message() {
        let mut messages = list(1_000);
        let before = messages.clone();
        messages.push(UserMessage::text("new"));
        for (old, new) in before.iter().zip(&messages) {
            assert!(std::ptr::eq(old, new));
        }
    }

    #[test]
    fn a_very_long_list_drops_without_recursion() {
        let message: Arc<Message> = Arc::new(UserMessage::text("same").into());
        let long: Messages = std::iter::repeat_n(message, 4_000_000).collect();
        assert_eq!(long.len(), 4_000_000);
        drop(long);
    }

    #[test]
    fn serde_writes_a_plain_list() {
        let messages = list(70);
        let json = serde_json::to_value(&messages).unwrap();
        assert_eq!(json.as_array().unwrap().len(), 70);
        assert_eq!(serde_json::from_value::<Messages>(json).unwrap(), messages);
    }
}
