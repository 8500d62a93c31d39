//! What followers of a conversation look at: one draft of the answer under way, the last events, the latest state.
//!
//! The runtime holds one of each, a follower an offset. So a slow follower costs nothing, and what it missed comes
//! as one larger piece.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nervekit_permissions::IgnoredDocument;
use nervekit_tools::Progress;
use nervekit_types::{ToolCallId, TurnId};
use tokio::sync::watch;

use super::request::TurnSnapshot;
use crate::event::{Event, EventPayload};
use crate::update::ConversationState;

/// How many of the last events are kept at hand for followers; older ones are read from the store.
const RECENT: usize = 64;

/// How many calls that have ended keep their live output for followers that are late.
const ENDED: usize = 16;

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

/// The live output of a call.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) progress: Progress,
    /// Set when the call's response is durable: nothing more comes, and only who has not shown the response yet
    /// has use for it.
    pub(crate) ended: bool,
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
    pub(crate) output: BTreeMap<ToolCallId, Output>,
    pub(crate) closed: bool,
    /// The calls of which the output is kept although they have ended, oldest first.
    ended: VecDeque<ToolCallId>,
    /// The last attempt that was begun.
    attempt: Option<(TurnId, u32)>,
    /// What was wrong with the documents outside when a call was judged last.
    pub(crate) problems: Vec<IgnoredDocument>,
}

impl Seen {
    /// The event with this sequence, if it is at hand.
    pub(crate) fn recent_event(&self, sequence: u64) -> Option<Arc<Event>> {
        let first = self.recent.front()?.sequence;
        let at = usize::try_from(sequence.checked_sub(first)?).ok()?;
        self.recent.get(at).cloned()
    }

    /// Keeps an event at hand, if anybody follows. What is at hand has no gap.
    fn keep(&mut self, event: &Arc<Event>, followed: bool) {
        if !followed || self.end != Some(event.sequence) {
            self.recent.clear();
        }
        self.end = Some(event.sequence + 1);
        if followed {
            self.recent.push_back(event.clone());
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
        }
    }

    /// The output of a call is complete. Followers that are late show the rest of it before the response.
    fn end_output(&mut self, call: ToolCallId, followed: bool) {
        if !followed {
            self.output.remove(&call);
        } else if let Some(output) = self.output.get_mut(&call) {
            output.ended = true;
            self.ended.push_back(call);
            if self.ended.len() > ENDED
                && let Some(oldest) = self.ended.pop_front()
            {
                self.output.remove(&oldest);
            }
        }
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
        // Who begins to follow looks before it waits.
        if self.is_followed() {
            self.changed.send_modify(|version| *version = version.wrapping_add(1));
        }
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
            match &event.payload {
                EventPayload::AssistantMessage(_) => seen.draft = None,
                EventPayload::ToolCallResponse(response) => seen.end_output(response.call_id, followed),
                _ => {}
            }
            seen.keep(event, followed);
        }
        if followed {
            let policy_problems = seen.problems.clone();
            seen.state = Some(Arc::new(ConversationState { policy_problems, ..state() }));
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

    /// Takes in what is wrong with the documents by which a call was judged. Says whether it is something else than
    /// before.
    pub(crate) fn problems_changed(&self, problems: &[IgnoredDocument]) -> bool {
        let mut seen = self.seen();
        let changed = seen.problems != problems;
        if changed {
            seen.problems = problems.to_vec();
        }
        changed
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
        let mut seen = self.seen();
        seen.attempt = Some((turn_id, attempt));
        seen.draft = Some(AnswerDraft { turn_id, attempt, blocks: BTreeMap::new() });
        drop(seen);
        self.notify();
    }

    /// The first attempt of a turn that followers have seen nothing of.
    pub(crate) fn next_attempt(&self, turn_id: TurnId) -> u32 {
        self.seen().attempt.filter(|(begun, _)| *begun == turn_id).map_or(1, |(_, attempt)| attempt + 1)
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

    /// Where a call writes its live output. A call that goes on after a question goes on with the same output.
    pub(crate) fn output(&self, call: ToolCallId) -> Progress {
        let mut seen = self.seen();
        let output = seen.output.entry(call);
        let progress =
            output.or_insert_with(|| Output { progress: Progress::default(), ended: false }).progress.clone();
        drop(seen);
        self.notify();
        progress
    }

    /// Ends the streams of all followers.
    pub(crate) fn close(&self) {
        self.seen().closed = true;
        self.notify();
    }
}
