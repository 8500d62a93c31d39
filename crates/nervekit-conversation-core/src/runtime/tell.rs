//! Telling the hooks what became durable: for each conversation one event after the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nervekit_types::ConversationId;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::core::Inner;
use crate::event::{Event, EventPayload};

/// How many events of a conversation the hooks may be behind before its next model request waits for them.
const BEHIND: usize = 256;

/// What the hooks have not been told yet. A conversation is in here while that is anything.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    queues: Mutex<HashMap<ConversationId, Queue>>,
}

#[derive(Debug)]
struct Queue {
    events: mpsc::UnboundedSender<Arc<Event>>,
    /// How many events were sent and are not told.
    behind: Arc<watch::Sender<usize>>,
    task: JoinHandle<()>,
}

impl Untold {
    fn queues(&self) -> MutexGuard<'_, HashMap<ConversationId, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a queue off the list if it is empty. Says whether its task may end.
    fn retire(&self, id: ConversationId, events: &mpsc::UnboundedReceiver<Arc<Event>>) -> bool {
        let mut queues = self.queues();
        if !events.is_empty() {
            return false;
        }
        queues.remove(&id);
        true
    }
}

impl Inner {
    /// Tells the hooks of events that became durable, without holding the conversation up.
    pub(crate) fn tell_hooks(self: &Arc<Self>, id: ConversationId, events: &[Arc<Event>]) {
        if self.hooks.is_empty() || events.is_empty() {
            return;
        }
        let mut queues = self.untold.queues();
        let queue = queues.entry(id).or_insert_with(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            let behind = Arc::new(watch::Sender::new(0));
            let task = self.runtime.spawn(tell(self.clone(), id, receiver, behind.clone()));
            Queue { events: sender, behind, task }
        });
        for event in events {
            // The task takes what is sent: it ends only once the queue is off the list.
            if queue.events.send(event.clone()).is_ok() {
                queue.behind.send_modify(|behind| *behind += 1);
            }
        }
    }

    /// Waits until the hooks have heard nearly everything of a conversation: so a slow one slows it down before it
    /// fills the memory.
    pub(crate) async fn hooks_caught_up(&self, id: ConversationId) {
        let behind = self.untold.queues().get(&id).map(|queue| queue.behind.subscribe());
        if let Some(mut behind) = behind {
            // When the task has ended, everything was told.
            drop(behind.wait_for(|behind| *behind <= BEHIND).await);
        }
    }

    /// Waits until the hooks were told everything, or until this moment; what they were not told then they are not.
    pub(crate) async fn finish_telling(&self, until: Instant) {
        let queues = std::mem::take(&mut *self.untold.queues());
        for (conversation, Queue { events, behind: _, mut task }) in queues {
            drop(events);
            if tokio::time::timeout_at(until, &mut task).await.is_err() {
                tracing::warn!(%conversation, "the hooks were not told everything before the deadline");
                task.abort();
            }
        }
    }
}

async fn tell(
    core: Arc<Inner>,
    id: ConversationId,
    mut events: mpsc::UnboundedReceiver<Arc<Event>>,
    behind: Arc<watch::Sender<usize>>,
) {
    while let Some(event) = events.recv().await {
        for hook in &core.hooks {
            core.observe("on_event", async { hook.on_event(&event).await }).await;
            if let EventPayload::ToolCallResponse(response) = &event.payload {
                let told = async { hook.after_tool_call(event.conversation_id, response).await };
                core.observe("after_tool_call", told).await;
            }
        }
        behind.send_modify(|behind| *behind = behind.saturating_sub(1));
        if core.untold.retire(id, &events) {
            return;
        }
    }
}
