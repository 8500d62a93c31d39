//! Verbs on cheap handles: each method is one command or query.

mod policy;
mod project;

use std::sync::Arc;

use nervekit_permissions::RuleEvidence;
use nervekit_types::{
    CommandId, ConversationId, EventId, ExecutionId, IdSource, InputId, InteractionId, Principal, SystemIds,
    ToolCallId,
};

pub use policy::PolicyHandle;
pub use project::Project;

use crate::command::{Command, CommandOutcome, CommandRequest, PolicyOwner, Receipt};
use crate::conversation::ConfigChange;
use crate::error::{CommandError, QueryError};
use crate::event::{EventPayload, ExecutionState};
use crate::input::{InputFate, NewInput};
use crate::interaction::{Interaction, Resolution};
use crate::outcome::Outcome;
use crate::port::Conversations;
use crate::query::{EventPage, Page, PageMark, Query, Snapshot, ToolCallView, View};
use crate::update::{Cursor, Scope, Update, Updates};

/// A conversation: an id and the API it is reached by. Cheap to clone; it may be made of an id alone, which is all
/// that resuming needs.
///
/// ```
/// use std::sync::Arc;
/// use nervekit_conversation_core::{CommandError, Conversation, Conversations, Update};
/// use nervekit_types::{ConversationId, Principal};
///
/// async fn resume(core: Arc<dyn Conversations>, id: ConversationId) -> Result<(), Box<dyn std::error::Error>> {
///     let conversation = Conversation::new(core, id).by(Principal::person("alice"));
///     conversation.submit("Go on, please.").await?;
///     let mut updates = conversation.updates().await?;
///     while let Some(update) = updates.next().await {
///         match update? {
///             Update::Text { delta, .. } => print!("{delta}"),
///             Update::Finished(outcome) => return Ok(drop(outcome.into_text()?)),
///             _ => {}
///         }
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Conversation {
    api: Arc<dyn Conversations>,
    ids: Arc<dyn IdSource>,
    principal: Principal,
    id: ConversationId,
}

impl Conversation {
    /// The conversation with this id.
    #[must_use]
    pub fn new(api: Arc<dyn Conversations>, id: ConversationId) -> Self {
        Self { api, ids: Arc::new(SystemIds::default()), principal: Principal::local(), id }
    }

    /// Stamps every following verb with who it is that asks.
    ///
    /// ```
    /// # use nervekit_conversation_core::Conversation;
    /// # use nervekit_types::Principal;
    /// fn for_request(conversation: &Conversation, user: &str) -> Conversation {
    ///     conversation.by(Principal::person(user))
    /// }
    /// ```
    #[must_use]
    pub fn by(&self, principal: Principal) -> Self {
        Self { principal, ..self.clone() }
    }

    /// Its id.
    ///
    /// ```
    /// # use nervekit_conversation_core::Conversation;
    /// fn link(conversation: &Conversation) -> String {
    ///     format!("/conversations/{}", conversation.id())
    /// }
    /// ```
    #[must_use]
    pub const fn id(&self) -> ConversationId {
        self.id
    }

    /// Carries a command out with an id of the caller's, so that repeating it is harmless.
    ///
    /// ```
    /// # use nervekit_conversation_core::{Command, CommandError, Conversation, Receipt};
    /// # use nervekit_types::CommandId;
    /// async fn click(conversation: &Conversation, click: &str) -> Result<Receipt, CommandError> {
    ///     let pause = Command::Pause { conversation_id: conversation.id() };
    ///     conversation.command(CommandId::from_key(click), pause).await
    /// }
    /// ```
    pub async fn command(&self, id: CommandId, command: Command) -> Result<Receipt, CommandError> {
        self.api.command(CommandRequest::new(id, command).principal(self.principal.clone())).await
    }

    async fn fresh(&self, command: Command) -> Result<Receipt, CommandError> {
        self.command(CommandId::next(&self.ids), command).await
    }

    /// Submits an input; it is durable when this returns.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, Conversation, NewInput, Receipt};
    /// # use nervekit_types::InputId;
    /// async fn deliver(conversation: &Conversation, delivery: &str) -> Result<Receipt, CommandError> {
    ///     conversation.submit(NewInput::new("Review this.").id(InputId::from_key(delivery))).await
    /// }
    /// ```
    pub async fn submit(&self, input: impl Into<NewInput>) -> Result<Receipt, CommandError> {
        self.fresh(Command::Submit { conversation_id: self.id, input: input.into() }).await
    }

    /// Takes back an input that was not delivered; the outcome says whether it was.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, CommandOutcome, Conversation};
    /// # use nervekit_types::InputId;
    /// async fn undo(conversation: &Conversation, id: InputId) -> Result<bool, CommandError> {
    ///     let receipt = conversation.cancel_input(id).await?;
    ///     Ok(matches!(receipt.outcome, CommandOutcome::InputCancelled { .. }))
    /// }
    /// ```
    pub async fn cancel_input(&self, input_id: InputId) -> Result<Receipt, CommandError> {
        self.fresh(Command::CancelInput { conversation_id: self.id, input_id }).await
    }

    /// Changes settings.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, ConfigChange, Conversation};
    /// async fn lock_down(conversation: &Conversation) -> Result<(), CommandError> {
    ///     conversation.configure(ConfigChange::new().rule_set("read_only")).await.map(drop)
    /// }
    /// ```
    pub async fn configure(&self, change: ConfigChange) -> Result<Receipt, CommandError> {
        self.fresh(Command::Configure { conversation_id: self.id, change: Box::new(change) }).await
    }

    /// Sets the title; none clears it.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, Conversation};
    /// async fn name(conversation: &Conversation) -> Result<(), CommandError> {
    ///     conversation.set_title(Some("Fix the build".to_owned())).await.map(drop)
    /// }
    /// ```
    pub async fn set_title(&self, title: Option<String>) -> Result<Receipt, CommandError> {
        self.fresh(Command::SetTitle { conversation_id: self.id, title }).await
    }

    /// Answers an [`Interaction`]: the general form of [`approve`](Self::approve), [`deny`](Self::deny) and
    /// [`answer`](Self::answer), which can also remember the answer or withdraw the request.
    ///
    /// The first of two people wins. The second is answered [`CommandError::Resolved`], with who was faster; an
    /// approval of something else than is asked now is answered [`CommandError::Stale`], with what is asked.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, Conversation, Interaction, Remember, Resolution};
    /// async fn always(conversation: &Conversation, shown: &Interaction) -> Result<(), CommandError> {
    ///     let resolution = Resolution::approve(shown.digest).remember(Remember::conversation(0));
    ///     conversation.resolve(shown.id, resolution).await.map(drop)
    /// }
    /// ```
    pub async fn resolve(
        &self,
        interaction_id: InteractionId,
        resolution: Resolution,
    ) -> Result<Receipt, CommandError> {
        self.fresh(Command::Resolve { conversation_id: self.id, interaction_id, resolution }).await
    }

    /// Approves what was shown, this once.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, Conversation, Interaction};
    /// async fn yes(conversation: &Conversation, shown: &Interaction) -> Result<(), CommandError> {
    ///     conversation.approve(shown).await.map(drop)
    /// }
    /// ```
    pub async fn approve(&self, shown: &Interaction) -> Result<Receipt, CommandError> {
        self.resolve(shown.id, Resolution::approve(shown.digest)).await
    }

    /// Denies what was shown, this once; the message is for the model.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, Conversation, Interaction};
    /// async fn no(conversation: &Conversation, shown: &Interaction) -> Result<(), CommandError> {
    ///     conversation.deny(shown, Some("use the staging server".to_owned())).await.map(drop)
    /// }
    /// ```
    pub async fn deny(&self, shown: &Interaction, message: Option<String>) -> Result<Receipt, CommandError> {
        self.resolve(shown.id, Resolution::Deny { message, remember: None }).await
    }

    /// Answers a question.
    ///
    /// ```
    /// # use nervekit_conversation_core::{CommandError, Conversation, Interaction};
    /// async fn port(conversation: &Conversation, shown: &Interaction) -> Result<(), CommandError> {
    ///     conversation.answer(shown, "8080").await.map(drop)
    /// }
    /// ```
    pub async fn answer(
        &self,
        shown: &Interaction,
        text: impl Into<String>,
    ) -> Result<Receipt, CommandError> {
        self.resolve(shown.id, Resolution::answer(text)).await
    }

    /// Holds still at the next opportunity: no execution starts by itself and no further model request is made, while
    /// the answer and the calls that are under way come to their end.
    ///
    /// The next prompt of a person clears the pause, and so do [`resume`](Self::resume) and
    /// [`continue_processing`](Self::continue_processing).
    ///
    /// ```
    /// # async fn f(conversation: nervekit_conversation_core::Conversation) -> Result<(), nervekit_conversation_core::CommandError> {
    /// conversation.pause().await?;
    /// # Ok(()) }
    /// ```
    pub async fn pause(&self) -> Result<Receipt, CommandError> {
        self.fresh(Command::Pause { conversation_id: self.id }).await
    }

    /// Clears a pause: what was paused goes on, and what is queued is delivered. If there is nothing to do, nothing
    /// happens; to make the model go on by itself there is [`continue_processing`](Self::continue_processing).
    ///
    /// ```
    /// # async fn f(conversation: nervekit_conversation_core::Conversation) -> Result<(), nervekit_conversation_core::CommandError> {
    /// conversation.resume().await?;
    /// # Ok(()) }
    /// ```
    pub async fn resume(&self) -> Result<Receipt, CommandError> {
        self.fresh(Command::Resume { conversation_id: self.id }).await
    }

    /// Stops the work and pauses; returns when every call is settled and the execution has ended as cancelled.
    ///
    /// From the moment the command is stored nothing of the execution begins any more, not even after a crash. A call
    /// that had not begun settles as cancelled, one that runs is told to end and settles with what became of it.
    /// Inputs stay queued, and start nothing until a new prompt, [`resume`](Self::resume) or
    /// [`continue_processing`](Self::continue_processing).
    ///
    /// ```
    /// # async fn f(conversation: nervekit_conversation_core::Conversation) -> Result<(), nervekit_conversation_core::CommandError> {
    /// conversation.stop().await?;
    /// # Ok(()) }
    /// ```
    pub async fn stop(&self) -> Result<Receipt, CommandError> {
        self.fresh(Command::Stop { conversation_id: self.id, execution_id: None }).await
    }

    /// Stops this execution as [`stop`](Self::stop) does, if it is the open one; otherwise nothing changes. For a button
    /// that a person may press a moment too late.
    ///
    /// ```
    /// # use nervekit_types::ExecutionId;
    /// # async fn f(conversation: nervekit_conversation_core::Conversation, shown: ExecutionId) -> Result<(), nervekit_conversation_core::CommandError> {
    /// conversation.stop_execution(shown).await?;
    /// # Ok(()) }
    /// ```
    pub async fn stop_execution(&self, execution: ExecutionId) -> Result<Receipt, CommandError> {
        self.fresh(Command::Stop { conversation_id: self.id, execution_id: Some(execution) }).await
    }

    /// Makes the model go on without a new prompt: after a limit, a stop, a failure or a crash. Clears a pause, carries
    /// an open execution on or starts one, and delivers what is queued.
    ///
    /// Calls that are not settled stand in the way ([`CommandError::Busy`]); a conversation without any event has
    /// nothing to continue from ([`CommandError::Invalid`]).
    ///
    /// ```
    /// # async fn f(conversation: nervekit_conversation_core::Conversation) -> Result<(), nervekit_conversation_core::CommandError> {
    /// conversation.continue_processing().await?;
    /// # Ok(()) }
    /// ```
    pub async fn continue_processing(&self) -> Result<Receipt, CommandError> {
        self.fresh(Command::ContinueProcessing { conversation_id: self.id, head: None }).await
    }

    /// The state of the conversation in one consistent read, with the cursor that continues it. What was said is not in
    /// it: that is [`history`](Self::history), or [`updates`](Self::updates) from the start.
    ///
    /// ```
    /// # use nervekit_conversation_core::{Conversation, QueryError};
    /// async fn title(conversation: &Conversation) -> Result<Option<String>, QueryError> {
    ///     Ok(conversation.snapshot().await?.state.conversation.title)
    /// }
    /// ```
    pub async fn snapshot(&self) -> Result<Snapshot, QueryError> {
        match self.api.query(Query::Snapshot { conversation_id: self.id }).await? {
            View::Snapshot(snapshot) => Ok(*snapshot),
            other => Err(unexpected(&other)),
        }
    }

    /// A page of what happened, the newest page first, in order within a page: the events that lead to the head.
    /// Without `before` the page ends with the head; for the page before it, ask with the id that its
    /// [`EventPage`] gives.
    ///
    /// ```
    /// # use nervekit_conversation_core::{Conversation, Page, QueryError};
    /// async fn last(conversation: &Conversation) -> Result<usize, QueryError> {
    ///     Ok(conversation.history(Page::new(20), None).await?.events.len())
    /// }
    /// ```
    pub async fn history(&self, page: Page, before: Option<EventId>) -> Result<EventPage, QueryError> {
        match self.api.query(Query::History { conversation_id: self.id, page, before }).await? {
            View::Events(events) => Ok(events),
            other => Err(unexpected(&other)),
        }
    }

    /// A page of all events, in order of their sequence, those of branches that were left included: for a copy or an
    /// export.
    ///
    /// ```
    /// # use nervekit_conversation_core::{Conversation, Cursor, Page, QueryError};
    /// async fn all(conversation: &Conversation) -> Result<usize, QueryError> {
    ///     Ok(conversation.events_since(Cursor::START, Page::default()).await?.events.len())
    /// }
    /// ```
    pub async fn events_since(&self, after: Cursor, page: Page) -> Result<EventPage, QueryError> {
        match self.api.query(Query::EventsSince { conversation_id: self.id, after, page }).await? {
            View::Events(events) => Ok(events),
            other => Err(unexpected(&other)),
        }
    }

    /// A tool call, unfinished or settled.
    ///
    /// ```
    /// # use nervekit_conversation_core::{Conversation, QueryError, ToolCallView};
    /// # use nervekit_types::ToolCallId;
    /// async fn details(conversation: &Conversation, id: ToolCallId) -> Result<ToolCallView, QueryError> {
    ///     conversation.tool_call(id).await
    /// }
    /// ```
    pub async fn tool_call(&self, call_id: ToolCallId) -> Result<ToolCallView, QueryError> {
        match self.api.query(Query::ToolCall { conversation_id: self.id, call_id }).await? {
            View::ToolCall(call) => Ok(*call),
            other => Err(unexpected(&other)),
        }
    }

    /// The conversation's own document with permission rules: the answers that are remembered for it.
    ///
    /// ```
    /// # use nervekit_conversation_core::Conversation;
    /// async fn forget(conversation: &Conversation, rule: &str) -> Result<bool, Box<dyn std::error::Error>> {
    ///     Ok(conversation.policy().revoke(rule).await?)
    /// }
    /// ```
    #[must_use]
    pub fn policy(&self) -> PolicyHandle {
        PolicyHandle::new(self.api.clone(), PolicyOwner::Conversation(self.id)).by(self.principal.clone())
    }

    /// The permission rules in force for it, of all documents and the selected rule set, the strongest first.
    ///
    /// ```
    /// # use nervekit_conversation_core::{Conversation, QueryError};
    /// async fn count(conversation: &Conversation) -> Result<usize, QueryError> {
    ///     Ok(conversation.rules().await?.len())
    /// }
    /// ```
    pub async fn rules(&self) -> Result<Vec<RuleEvidence>, QueryError> {
        match self.api.query(Query::Rules { conversation_id: self.id }).await? {
            View::Rules(rules) => Ok(rules),
            other => Err(unexpected(&other)),
        }
    }

    /// Follows the conversation from its first event: [`follow`](Self::follow) from [`Cursor::START`]. A host that has
    /// shown the history already follows from the cursor of a [`Snapshot`] instead.
    ///
    /// ```
    /// # async fn f(conversation: nervekit_conversation_core::Conversation) -> Result<(), nervekit_conversation_core::QueryError> {
    /// let mut updates = conversation.updates().await?;
    /// # let _ = updates.next().await; Ok(()) }
    /// ```
    pub async fn updates(&self) -> Result<Updates, QueryError> {
        self.follow(Cursor::START).await
    }

    /// Follows the conversation from a cursor: the events after it, then, live, whatever comes. Open interactions and
    /// the text of an answer under way are told to a late follower too.
    ///
    /// ```
    /// # async fn f(conversation: nervekit_conversation_core::Conversation, last_event_id: &str) -> Result<(), nervekit_conversation_core::QueryError> {
    /// let mut updates = conversation.follow(last_event_id.parse()?).await?;
    /// # let _ = updates.next().await; Ok(()) }
    /// ```
    pub async fn follow(&self, after: Cursor) -> Result<Updates, QueryError> {
        self.api.follow(Scope::Conversation(self.id), after).await
    }

    /// Waits until the work under way has ended, and says how. If nothing is under way it says how the last execution
    /// ended; if there never was one it waits for the first. If a person is asked, it waits as long as the person does.
    ///
    /// ```
    /// # use nervekit_conversation_core::{Conversation, Outcome, QueryError};
    /// async fn wait(conversation: &Conversation) -> Result<Outcome, QueryError> {
    ///     conversation.finished().await
    /// }
    /// ```
    pub async fn finished(&self) -> Result<Outcome, QueryError> {
        let snapshot = self.snapshot().await?;
        let conversation = &snapshot.state.conversation;
        let busy =
            conversation.status.is_open() || (!conversation.paused && !snapshot.state.queue.is_empty());
        if !busy && let Some(outcome) = self.last_outcome().await? {
            return Ok(outcome);
        }
        let mut updates = self.follow(snapshot.cursor).await?;
        while let Some(update) = updates.next().await {
            if let Update::Finished(outcome) = update? {
                return Ok(outcome);
            }
        }
        Err(QueryError::ShuttingDown)
    }

    /// How the last execution of the selected branch ended, if one did.
    async fn last_outcome(&self) -> Result<Option<Outcome>, QueryError> {
        let (mut before, mut ended) = (None, None);
        loop {
            let page = self.history(Page::new(50), before).await?;
            for event in page.events.iter().rev() {
                match (&event.payload, &ended) {
                    (EventPayload::ExecutionState(state), None) if state.state.is_terminal() => {
                        ended = Some(event.clone());
                    }
                    (EventPayload::ExecutionState(state), Some(ended)) if !state.state.is_terminal() => {
                        if matches!(state.state, ExecutionState::Started) {
                            return Ok(Outcome::of(ended, String::new()));
                        }
                    }
                    (EventPayload::AssistantMessage(answer), Some(ended)) => {
                        return Ok(Outcome::of(ended, answer.message.plain_text()));
                    }
                    _ => {}
                }
            }
            match page.next {
                Some(PageMark::Before(event)) => before = Some(event),
                _ => return Ok(ended.and_then(|ended| Outcome::of(&ended, String::new()))),
            }
        }
    }

    /// Where to continue after an event of the selected branch.
    async fn cursor_after(&self, event_id: EventId) -> Result<Option<Cursor>, QueryError> {
        let mut before = None;
        loop {
            let page = self.history(Page::new(50), before).await?;
            if let Some(event) = page.events.iter().find(|event| event.id == event_id) {
                return Ok(Some(Cursor::after(event.sequence + 1)));
            }
            match page.next {
                Some(PageMark::Before(event)) => before = Some(event),
                _ => return Ok(None),
            }
        }
    }

    /// Submits an input and waits until the execution that it was delivered to has ended. If a person is asked
    /// meanwhile, somebody else must answer: see [`updates`](Self::updates) or [`interactions`].
    ///
    /// Asked again under the same input id, it waits for the same outcome, or has it at once.
    ///
    /// ```
    /// # use nervekit_conversation_core::{AskError, Conversation};
    /// async fn answer(conversation: &Conversation) -> Result<String, AskError> {
    ///     Ok(conversation.ask("Which TODOs are left?").await?.into_text()?)
    /// }
    /// ```
    pub async fn ask(&self, input: impl Into<NewInput> + Send) -> Result<Outcome, AskError> {
        let input = input.into();
        let may_be_known = input.id.is_some();
        let receipt = self.submit(input).await?;
        let CommandOutcome::InputAccepted { input_id, fate } = receipt.outcome else {
            let words = format!("the command was answered with `{}`", receipt.outcome.kind());
            return Err(AskError::Command(CommandError::invalid(words)));
        };
        // What ends before the input was delivered is the outcome of something else.
        let mut delivered = false;
        let mut after = receipt.cursor;
        match fate {
            InputFate::Delivered { event_id } => {
                delivered = true;
                // It may have been delivered long ago: its outcome is the first that came after it.
                if may_be_known && let Some(cursor) = self.cursor_after(event_id).await? {
                    after = cursor;
                }
            }
            InputFate::Queued => {}
            InputFate::Cancelled | InputFate::Expired => {
                let words = format!("input `{input_id}` is {}; ask under another id", fate.kind());
                return Err(AskError::Command(CommandError::invalid(words)));
            }
        }
        let mut updates = self.follow(after).await?;
        while let Some(update) = updates.next().await {
            match update? {
                Update::Event { event, .. } => delivered |= event.input_id == Some(input_id),
                Update::Finished(outcome) if delivered => return Ok(outcome),
                _ => {}
            }
        }
        Err(AskError::Query(QueryError::ShuttingDown))
    }
}

/// Why [`Conversation::ask`] has no answer.
///
/// ```
/// use nervekit_conversation_core::{AskError, NotCompleted};
/// assert!(AskError::from(NotCompleted::Cancelled).to_string().contains("stopped"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The input was not accepted.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The outcome could not be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// There is no final answer.
    #[error(transparent)]
    NotCompleted(#[from] crate::outcome::NotCompleted),
}

fn unexpected(view: &View) -> QueryError {
    QueryError::OtherView { kind: view.kind() }
}

/// What a person is asked, in every conversation of an API: the inbox, with those of conversations that work was
/// delegated to.
///
/// ```
/// use nervekit_conversation_core::{Conversations, Interaction, QueryError, interactions};
/// async fn count(core: &dyn Conversations) -> Result<usize, QueryError> {
///     Ok(interactions(core).await?.len())
/// }
/// ```
pub async fn interactions(api: &dyn Conversations) -> Result<Vec<Interaction>, QueryError> {
    match api.query(Query::Interactions { conversation_id: None }).await? {
        View::Interactions(interactions) => Ok(interactions),
        other => Err(unexpected(&other)),
    }
}
