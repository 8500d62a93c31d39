//! What followers of a conversation look at: one draft of the answer under way, the last events, the latest state.
//!
//! The runtime holds one of each, a follower an offset. So a slow follower costs nothing, and what it missed comes
//! as one larger piece.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nervekit_tools::Progress;
use nervekit_types::{ToolCallId, TurnId};
use tokio::sync::watch;

use super::request::TurnSnapshot;
use crate::event::{Event, EventPayload};
use crate::update::ConversationState;

/// How many of the last events are kept at hand; older ones are read from the store.
const RECENT: usize = 256;

/// Whether a block of the draft is text or thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Text,
    Thinking,
}

/// The answer under way.
#[derive(Debug)]
pub(crate) struct AnswerDraft {
    pub(crate) turn_id: TurnId,
    pub(crate) attempt: u32,
    pub(crate) blocks: BTreeMap<u32, (BlockKind, String)>,
}

/// What followers see, behind one lock that is never held while anything waits.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The sequence after the last durable event, once it is known.
    pub(crate) end: Option<u64>,
    pub(crate) recent: VecDeque<Arc<Event>>,
    pub(crate) state: Option<Arc<ConversationState>>,
    pub(crate) state_version: u64,
    pub(crate) draft: Option<AnswerDraft>,
    pub(crate) progress: BTreeMap<ToolCallId, Progress>,
    pub(crate) closed: bool,
}

impl Seen {
    /// The event with this sequence, if it is at hand.
    pub(crate) fn recent_event(&self, sequence: u64) -> Option<Arc<Event>> {
        let first = self.recent.front()?.sequence;
        let at = usize::try_from(sequence.checked_sub(first)?).ok()?;
        self.recent.get(at).cloned()
    }
}

/// The meeting point of one conversation and its followers.
#[derive(Debug)]
pub(crate) struct Feed {
    seen: Mutex<Seen>,
    changed: watch::Sender<u64>,
}

impl Default for Feed {
    fn default() -> Self {
        Self { seen: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl Feed {
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.changed.send_modify(|version| *version = version.wrapping_add(1));
    }

    /// A receiver that tells of every change after now.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Whether anybody looks: a state that nobody reads is not made.
    pub(crate) fn is_followed(&self) -> bool {
        self.changed.receiver_count() > 0
    }

    /// Shows events that became durable, in the order of their sequence, and the state after them.
    pub(crate) fn publish(&self, events: &[Arc<Event>], state: impl FnOnce() -> ConversationState) {
        let followed = self.is_followed();
        let mut seen = self.seen();
        for event in events {
            seen.end = Some(event.sequence + 1);
            if let EventPayload::AssistantMessage(_) = event.payload {
                seen.draft = None;
            }
            if let EventPayload::ToolCallResponse(response) = &event.payload {
                seen.progress.remove(&response.call_id);
            }
            seen.recent.push_back(event.clone());
            if seen.recent.len() > RECENT {
                seen.recent.pop_front();
            }
        }
        if followed {
            seen.state = Some(Arc::new(state()));
            seen.state_version += 1;
            drop(seen);
            self.notify();
        } else {
            seen.state = None;
        }
    }

    /// Shows a state that came about without events.
    pub(crate) fn publish_state(&self, state: impl FnOnce() -> ConversationState) {
        self.publish(&[], state);
    }

    /// Events up to here became durable without having been shown: followers read them from the store.
    pub(crate) fn catch_up(&self, end: u64) {
        let mut seen = self.seen();
        if seen.end != Some(end) {
            seen.end = Some(end);
            seen.recent.clear();
            seen.draft = None;
        }
        drop(seen);
        self.notify();
    }

    /// Begins the draft of an attempt.
    pub(crate) fn begin_attempt(&self, turn_id: TurnId, attempt: u32) {
        self.seen().draft = Some(AnswerDraft { turn_id, attempt, blocks: BTreeMap::new() });
        self.notify();
    }

    /// Adds to the draft of the attempt that a request makes; what an earlier one still says is dropped.
    pub(crate) fn push(&self, turn: &TurnSnapshot, kind: BlockKind, block: usize, delta: &str) {
        let Ok(block) = u32::try_from(block) else { return };
        let mut seen = self.seen();
        let Some(draft) = &mut seen.draft else { return };
        if draft.turn_id != turn.turn_id || draft.attempt != turn.attempt {
            return;
        }
        draft.blocks.entry(block).or_insert_with(|| (kind, String::new())).1.push_str(delta);
        drop(seen);
        self.notify();
    }

    /// Drops the draft of a request that was called off.
    pub(crate) fn drop_draft(&self) {
        self.seen().draft = None;
    }

    /// Shows the live output of a call.
    pub(crate) fn show_progress(&self, call: ToolCallId, progress: Progress) {
        self.seen().progress.insert(call, progress);
        self.notify();
    }

    /// Ends the streams of all followers.
    pub(crate) fn close(&self) {
        self.seen().closed = true;
        self.notify();
    }
}
