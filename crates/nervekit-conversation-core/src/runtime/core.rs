//! What all conversations of one runtime share.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use nervekit_harness::{Harness, ModelResolver, RetryPolicy};
use nervekit_permissions::{Evaluation, PermissionEngine, Policy};
use nervekit_tools::{AssetStore, MutationLocks, Processes, ToolManifest};
use nervekit_types::{Clock, ConversationId, Digest, Entropy, IdSource, IncarnationId, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::actor::{self, Message};
use super::document::OutsideDocuments;
use super::feed::Feed;
use super::follow::CLOSED;
use super::machine::RecoveryPolicy;
use super::neighbour::Neighbours;
use super::offer::Offer;
use super::plan::{Keeps, Planner};
use super::projection::{Projection, ProjectionCache};
use super::supervisor::guard;
use super::tell::Untold;
use crate::event::EventLink;
use crate::port::{Hook, HookError, HookVerdict, TurnResources};
use crate::store::Store;

/// Bounds that protect the process and hold for all conversations together or for each; all are the host's to set.
/// What one execution may use up is bounded by [`Limits`](crate::Limits).
///
/// ```
/// use nervekit_conversation_core::RuntimeLimits;
/// use std::time::Duration;
/// let limits = RuntimeLimits::new().parallel_tools(4).cancellation_grace(Duration::from_secs(2));
/// assert_eq!(limits.parallel_tools, 4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeLimits {
    /// How many tool calls run at once, over all conversations: 16 by default.
    pub parallel_tools: usize,
    /// How many model requests are in flight at once, over all conversations: 64 by default.
    pub parallel_requests: usize,
    /// How long an executor that was told to stop may take, 5 s by default; then it is dropped.
    pub cancellation_grace: Duration,
    /// How long a hook may take, 30 s by default; then it has failed, as its contract says.
    pub hook_time: Duration,
    /// How long the permission engine may take with a call that names files, 10 s by default; then the call is denied.
    pub permission_time: Duration,
    /// How long a lease holds if it is not prolonged, 60 s by default: how long another core waits before it takes
    /// over from one that died. After a third of it at the latest a core looks at what others wrote to a conversation
    /// that it holds; as often as it passes, each core looks for what nobody holds.
    pub lease: Duration,
    /// How many executions may start by themselves since the last prompt of a person, 50 by default; then what is
    /// queued waits for one.
    pub automatic_executions: u32,
    /// How many inputs may wait in one conversation, 1,000 by default; more are refused.
    pub queue: usize,
    /// How many bytes the text of one input may have, 1 MiB by default; more are refused.
    pub input_bytes: usize,
    /// How many calls of one conversation may wait for a person's approval, 64 by default; a further one that would
    /// have to wait is settled as failed.
    pub open_approvals: usize,
}

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr;)*) => {
        impl RuntimeLimits {
            /// The defaults: 16 tools, 64 requests, 5 s of grace, 30 s for a hook, 10 s for the permission engine, a
            /// lease of 60 s, 50 automatic executions, 1,000 queued inputs, 1 MiB an input, 64 open approvals.
            #[must_use]
            pub const fn new() -> Self {
                Self { $($name: $default,)* }
            }

            $(
                $(#[$doc])*
                #[must_use]
                pub const fn $name(mut self, value: $type) -> Self {
                    self.$name = value;
                    self
                }
            )*
        }
    };
}

limits! {
    /// Bounds the tool calls that run at once.
    parallel_tools: usize = 16;
    /// Bounds the model requests in flight at once.
    parallel_requests: usize = 64;
    /// Sets how long an executor that was told to stop may take.
    cancellation_grace: Duration = Duration::from_secs(5);
    /// Sets how long a hook may take.
    hook_time: Duration = Duration::from_secs(30);
    /// Sets how long the permission engine may take with a call that names files.
    permission_time: Duration = Duration::from_secs(10);
    /// Sets how long a lease holds.
    lease: Duration = Duration::from_secs(60);
    /// Bounds executions that no person asked for.
    automatic_executions: u32 = 50;
    /// Bounds the inputs that wait in one conversation.
    queue: usize = 1_000;
    /// Bounds the bytes of one input's text.
    input_bytes: usize = 1024 * 1024;
    /// Bounds the calls of one conversation that wait for an approval.
    open_approvals: usize = 64;
}

impl Default for RuntimeLimits {
    fn default() -> Self {
        Self::new()
    }
}

/// The ports and the state that all conversations share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) models: Arc<dyn ModelResolver>,
    pub(crate) harness: Arc<dyn Harness>,
    pub(crate) permissions: Arc<dyn PermissionEngine>,
    /// The documents that the permission engine looks at, if it does.
    pub(crate) documents: Option<OutsideDocuments>,
    pub(crate) tools: Arc<dyn ToolManifest>,
    pub(crate) processes: Arc<dyn Processes>,
    pub(crate) assets: Arc<dyn AssetStore>,
    pub(crate) resources: Arc<dyn TurnResources>,
    pub(crate) hooks: Vec<Arc<dyn Hook>>,
    pub(crate) capabilities: BTreeSet<String>,
    pub(crate) limits: RuntimeLimits,
    pub(crate) retries: RetryPolicy,
    pub(crate) recovery: RecoveryPolicy,
    pub(crate) runtime: Handle,
    pub(crate) incarnation: IncarnationId,
    pub(crate) locks: MutationLocks,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) request_permits: Arc<Semaphore>,
    pub(crate) actors: Mutex<HashMap<ConversationId, mpsc::UnboundedSender<Message>>>,
    pub(crate) feeds: Mutex<HashMap<ConversationId, Weak<Feed>>>,
    pub(crate) committed: watch::Sender<u64>,
    pub(crate) projections: Mutex<ProjectionCache>,
    /// The effective policies that this core has stored.
    pub(crate) policies: Mutex<HashSet<Digest>>,
    /// What was offered last: most turns offer the same tools.
    pub(crate) offer: Mutex<Option<Arc<Offer>>>,
    /// The cores of this process over the same backend, as far as they were introduced.
    pub(crate) neighbours: Arc<Neighbours>,
    pub(crate) untold: Untold,
    pub(crate) closing: AtomicBool,
    /// Shut while recovery writes: nothing is begun outside.
    pub(crate) gate: AtomicBool,
}

impl Inner {
    pub(crate) fn planner(&self, keeps: Keeps) -> Planner<'_> {
        let automatic_limit = self.limits.automatic_executions;
        let approval_limit = self.limits.open_approvals;
        Planner { ids: &*self.ids, me: self.incarnation, automatic_limit, approval_limit, keeps }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The async runtime's clock, by which durations are measured and waited for.
    #[expect(clippy::unused_self, reason = "time is read in one place")]
    pub(crate) fn instant(&self) -> Instant {
        Instant::now()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub(crate) fn gate_is_open(&self) -> bool {
        self.gate.load(Ordering::SeqCst)
    }

    /// The conversations that have a task, in the order of their ids.
    pub(crate) fn running_ids(&self) -> Vec<ConversationId> {
        let mut ids: Vec<ConversationId> =
            self.actors.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Ends the streams of all followers.
    pub(crate) fn close_feeds(&self) {
        let feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.values().filter_map(Weak::upgrade).for_each(|feed| feed.close());
        self.committed.send_replace(CLOSED);
    }

    /// Keeps the context of a conversation that came to rest.
    pub(crate) fn keep_projection(
        &self,
        id: ConversationId,
        head: Option<EventLink>,
        projection: Option<Projection>,
    ) {
        if let (Some(head), Some(projection)) = (head, projection) {
            self.projections.lock().unwrap_or_else(PoisonError::into_inner).put(id, head, projection);
        }
    }

    /// The context that was kept of a conversation, and the event up to which it reaches.
    pub(crate) fn kept_projection(&self, id: ConversationId) -> Option<(EventLink, Projection)> {
        self.projections.lock().unwrap_or_else(PoisonError::into_inner).take(id)
    }

    /// The effective policies by which calls were judged and that are not known to be stored.
    pub(crate) fn unstored_policies<'e>(
        &self,
        evaluations: impl IntoIterator<Item = &'e Evaluation>,
    ) -> Vec<Arc<Policy>> {
        let stored = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unstored: Vec<Arc<Policy>> = Vec::new();
        for evaluation in evaluations {
            for policy in evaluation.policy.iter().chain(&evaluation.policy_until_confirmed) {
                let known = |digest| unstored.iter().any(|other| other.digest() == digest);
                if !stored.contains(&policy.digest()) && !known(policy.digest()) {
                    unstored.push(Arc::clone(policy));
                }
            }
        }
        unstored
    }

    pub(crate) fn policies_stored(&self, policies: &[Arc<Policy>]) {
        let mut stored = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        stored.extend(policies.iter().map(|policy| policy.digest()));
    }

    /// Tells wide followers that events became durable.
    pub(crate) fn tell_committed(&self) {
        // Who begins to follow looks before it waits.
        if self.committed.receiver_count() == 0 {
            return;
        }
        self.committed.send_if_modified(|count| {
            let open = *count != CLOSED;
            *count = if open { (*count + 1) % CLOSED } else { CLOSED };
            open
        });
    }

    /// The feed of a conversation; one is made if nobody has it.
    pub(crate) fn feed(&self, id: ConversationId) -> Arc<Feed> {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = feeds.get(&id).and_then(Weak::upgrade) {
            return feed;
        }
        if feeds.len().is_power_of_two() {
            feeds.retain(|_, feed| feed.strong_count() > 0);
        }
        let feed = Arc::new(Feed::default());
        feeds.insert(id, Arc::downgrade(&feed));
        feed
    }

    /// Sends a message to the task of a conversation; one is spawned if none runs.
    pub(crate) fn send(self: &Arc<Self>, id: ConversationId, message: Message) {
        let mut actors = self.actors.lock().unwrap_or_else(PoisonError::into_inner);
        let message = match actors.get(&id) {
            Some(actor) => match actor.send(message) {
                Ok(()) => return,
                Err(unsent) => unsent.0,
            },
            None => message,
        };
        let (sender, inbox) = mpsc::unbounded_channel();
        if sender.send(message).is_ok() {
            actors.insert(id, sender.clone());
        }
        drop(actors);
        self.runtime.spawn(actor::run(self.clone(), id, sender, inbox));
    }

    /// Takes a task off the list if nothing was sent to it meanwhile. Says whether it may end.
    pub(crate) fn retire(&self, id: ConversationId, inbox: &mpsc::UnboundedReceiver<Message>) -> bool {
        let mut actors = self.actors.lock().unwrap_or_else(PoisonError::into_inner);
        if !inbox.is_empty() {
            return false;
        }
        actors.remove(&id);
        true
    }

    /// Asks a hook: an error, a panic or an overrun refuses.
    pub(crate) async fn ask(
        &self,
        name: &'static str,
        hook: impl Future<Output = Result<HookVerdict, HookError>>,
    ) -> HookVerdict {
        match tokio::time::timeout(self.limits.hook_time, guard(hook)).await {
            Ok(Ok(Ok(verdict))) => verdict,
            Ok(Ok(Err(error))) => {
                tracing::warn!(hook = name, ?error, "a hook failed; what it was asked about is refused");
                HookVerdict::Deny("a hook of the host failed".to_owned())
            }
            Ok(Err(panic)) => {
                tracing::error!(hook = name, %panic, "a hook panicked; what it was asked about is refused");
                HookVerdict::Deny("a hook of the host failed".to_owned())
            }
            Err(_) => {
                tracing::warn!(hook = name, "a hook took too long; what it was asked about is refused");
                HookVerdict::Deny("a hook of the host took too long".to_owned())
            }
        }
    }

    /// Tells a hook: an error, a panic or an overrun is logged.
    pub(crate) async fn observe(
        &self,
        name: &'static str,
        hook: impl Future<Output = Result<(), HookError>>,
    ) {
        match tokio::time::timeout(self.limits.hook_time, guard(hook)).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::warn!(hook = name, ?error, "a hook failed"),
            Ok(Err(panic)) => tracing::error!(hook = name, %panic, "a hook panicked"),
            Err(_) => tracing::warn!(hook = name, "a hook took too long"),
        }
    }
}
