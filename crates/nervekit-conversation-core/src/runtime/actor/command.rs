//! Commands, carried out in the task of their conversation.

use nervekit_types::{AssetId, Digest, InputId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::commit::{Failure, Patience};
use super::{Actor, Live, Message, PendingStop, Projection, plan};
use crate::command::{Command, CommandOutcome, CommandRequest, Receipt};
use crate::error::{CommandError, Subject};
use crate::event::EventPayload;
use crate::input::{DeliveryTarget, Image, InputFate, InputSource, NewInput, QueuedInput, is_blank};
use crate::runtime::projection::Tail;
use crate::store::{Draft, EventRange, FATES, OutcomeRow, StoreError};
use crate::update::Cursor;

type Answer = oneshot::Sender<Result<Receipt, CommandError>>;

impl Actor {
    pub(super) async fn command(&mut self, request: CommandRequest, answer: Answer) {
        if (self.stale || self.behind)
            && let Err(failure) = self.reload().await
        {
            drop(answer.send(Err(self.error_of(failure))));
            return;
        }
        if let Some(known) = self.known(&request) {
            drop(answer.send(known));
            return;
        }
        let result = self.carry_out(&request).await;
        match result {
            Ok(outcome) => {
                let receipt = Receipt::new(request.id, outcome, self.cursor());
                self.after_command(&request, receipt, answer);
            }
            // Another core was faster and has the conversation now: the command is carried out as a write to its
            // mailbox, by the next life of this task.
            Err(Failure::Fenced) => {
                self.give_up(&Failure::Fenced);
                // The task's own inbox takes it until the task ends.
                drop(self.sender.send(Message::Command { request: Box::new(request), answer }));
            }
            Err(failure) => {
                if matches!(failure, Failure::Gone) {
                    self.give_up(&failure);
                }
                let error = self.error_of(failure);
                drop(answer.send(Err(error)));
            }
        }
        self.behind |= !self.holds_lease();
    }

    fn cursor(&self) -> Cursor {
        Cursor::after(self.rows.core.value.next_event_sequence)
    }

    /// The answer to a command that was carried out before.
    fn known(&self, request: &CommandRequest) -> Option<Result<Receipt, CommandError>> {
        let known = match self.rows.outcome(request.id) {
            Ok(known) => known?,
            Err(error) => return Some(Err(CommandError::Store(error))),
        };
        if known.request != request_digest(request) {
            return Some(Err(CommandError::AlreadyExists(Subject::Command(request.id))));
        }
        Some(Ok(Receipt::new(request.id, known.outcome.clone(), self.cursor())))
    }

    fn error_of(&self, failure: Failure) -> CommandError {
        match failure {
            Failure::Refused(error) => error,
            Failure::Gone => CommandError::NotFound(Subject::Conversation(self.id)),
            Failure::Fenced => CommandError::Store(crate::store::StoreError::Conflict { record: "lease" }),
            Failure::Store(error) => CommandError::Store(error),
        }
    }

    /// What a command sets off besides its batch.
    fn after_command(&mut self, request: &CommandRequest, receipt: Receipt, answer: Answer) {
        match (&request.command, &receipt.outcome) {
            (Command::Stop { .. }, CommandOutcome::Stopped { execution_id }) => {
                self.abort_request();
                let execution = *execution_id;
                self.stops.push(PendingStop { execution, receipt, answer });
                return;
            }
            (Command::Resume { .. } | Command::ContinueProcessing { .. } | Command::Resolve { .. }, _) => {
                self.live.interrupted = false;
            }
            _ => {}
        }
        drop(answer.send(Ok(receipt)));
    }

    /// Answers the stops whose execution has ended.
    pub(super) fn answer_stops(&mut self) {
        let open = self.rows.open_execution();
        let cursor = self.cursor();
        for mut stop in std::mem::take(&mut self.stops) {
            if open == Some(stop.execution) {
                self.stops.push(stop);
            } else {
                stop.receipt.cursor = cursor;
                drop(stop.answer.send(Ok(stop.receipt)));
            }
        }
    }

    /// Another core ends what was stopped: the marks are durable, and that is what the answer says.
    pub(super) fn answer_stops_elsewhere(&mut self) {
        for stop in std::mem::take(&mut self.stops) {
            drop(stop.answer.send(Ok(stop.receipt)));
        }
    }

    async fn carry_out(&mut self, request: &CommandRequest) -> Result<CommandOutcome, Failure> {
        let principal = request.principal.clone();
        match &request.command {
            Command::Submit { input, .. } => self.submit(request, input).await,
            Command::CancelInput { input_id, .. } => self.cancel_input(request, *input_id).await,
            Command::Configure { change, .. } => {
                self.commit_command(request, |draft, _| {
                    check_config(draft, change)?;
                    (**change).clone().apply_to(draft.config_mut());
                    Ok(CommandOutcome::Configured)
                })
                .await
            }
            Command::SetTitle { title, .. } => {
                self.commit_command(request, |draft, _| {
                    draft.mailbox_mut().title.clone_from(title);
                    Ok(CommandOutcome::TitleSet)
                })
                .await
            }
            Command::Resolve { interaction_id, resolution, .. } => {
                let engine = self.core.permissions.clone();
                let resolved = self
                    .commit_command(request, |draft, planner| {
                        let call_id =
                            plan::resolve(draft, planner, &*engine, *interaction_id, resolution, &principal)?;
                        Ok(CommandOutcome::Resolved { call_id })
                    })
                    .await;
                match resolved {
                    Err(Failure::Refused(CommandError::NotFound(Subject::Interaction(_)))) => {
                        Err(Failure::Refused(self.settled_interaction(*interaction_id).await))
                    }
                    resolved => resolved,
                }
            }
            Command::Pause { .. } => self.commit_command(request, |draft, _| Ok(plan::pause(draft))).await,
            Command::Resume { .. } => {
                self.commit_command(request, |draft, planner| {
                    let outcome = plan::resume(draft);
                    plan::start(draft, planner);
                    Ok(outcome)
                })
                .await
            }
            Command::Stop { execution_id, .. } => {
                self.commit_command(request, |draft, _| Ok(plan::stop(draft, *execution_id))).await
            }
            Command::ContinueProcessing { head, .. } => {
                if self.projection.is_none() {
                    self.load_projection().await?;
                }
                let tail = self.projection.as_ref().map_or(Tail::Empty, Projection::tail);
                self.commit_command(request, |draft, planner| {
                    plan::continue_processing(draft, planner, tail, *head, &principal)
                })
                .await
            }
            Command::RevokeRule { rule, .. } => {
                self.commit_command(request, |draft, _| {
                    let found = plan::revoke(draft, rule)?;
                    Ok(CommandOutcome::RuleRevoked { found })
                })
                .await
            }
            Command::TrustPolicy { .. } | Command::RejectPolicy { .. } => {
                let words = "the rules of a conversation are in force as they are: revoke single ones";
                Err(Failure::Refused(CommandError::invalid(words)))
            }
            Command::CreateProject(_) | Command::CreateConversation(_) => {
                Err(Failure::Refused(CommandError::invalid("this command belongs to no conversation")))
            }
        }
    }

    /// Commits a command with the outcome it will be remembered by.
    async fn commit_command(
        &mut self,
        request: &CommandRequest,
        plan: impl Fn(&mut Draft<'_>, &plan::Planner<'_>) -> Result<CommandOutcome, CommandError>,
    ) -> Result<CommandOutcome, Failure> {
        let (command_id, digest) = (request.id, request_digest(request));
        self.commit_with(Patience::Answer, |draft, planner| {
            // Drafted anew after a conflict: the other one may have carried out this very command.
            if let Some(known) = draft.rows().outcome(command_id).map_err(CommandError::Store)? {
                return if known.request == digest {
                    Ok(known.outcome.clone())
                } else {
                    Err(CommandError::AlreadyExists(Subject::Command(command_id)))
                };
            }
            let outcome = plan(draft, planner)?;
            draft.remember_outcome(OutcomeRow { command_id, request: digest, outcome: outcome.clone() });
            Ok(outcome)
        })
        .await
    }

    async fn submit(
        &mut self,
        request: &CommandRequest,
        input: &NewInput,
    ) -> Result<CommandOutcome, Failure> {
        let limits = &self.core.limits;
        if input.text.len() > limits.input_bytes {
            let words =
                format!("the text has {} bytes; at most {} are taken", input.text.len(), limits.input_bytes);
            return Err(Failure::Refused(CommandError::invalid(words)));
        }
        if is_blank(&input.text) && input.images.is_empty() {
            let words = "the text is blank; submit at least one visible character or an image";
            return Err(Failure::Refused(CommandError::invalid(words)));
        }
        let queued = QueuedInput {
            id: input.id.unwrap_or_else(|| InputId::next(&*self.core.ids)),
            conversation_id: self.id,
            acceptance_sequence: 0,
            source: InputSource::User,
            submitter: request.principal.clone(),
            sender_conversation_id: None,
            text: input.text.clone(),
            images: self.named_images(input),
            target: input.target,
            wake_when_idle: true,
            accepted_at: self.core.now(),
        };
        if input.id.is_some()
            && let Some(known) = self.known_input(&queued).await?
        {
            return Ok(known);
        }
        self.store_images(&queued, input).await?;
        let accepted = self.accept(request, &queued).await;
        match accepted {
            // Another core accepted an input with this id in between.
            Err(Failure::Store(StoreError::Conflict { record: FATES })) => {
                self.known_input(&queued).await?.ok_or(Failure::Store(StoreError::Conflict { record: FATES }))
            }
            accepted => accepted,
        }
    }

    /// What to answer if the input's id is known; with other content it is refused.
    async fn known_input(&self, input: &QueuedInput) -> Result<Option<CommandOutcome>, Failure> {
        let known = self.core.store.fate(self.id, input.id).await.map_err(Failure::Store)?;
        let Some(known) = known else { return Ok(None) };
        if known.content != input.content_digest() {
            return Err(Failure::Refused(CommandError::OtherContent { id: input.id, fate: known.fate }));
        }
        Ok(Some(CommandOutcome::InputAccepted { input_id: input.id, fate: known.fate }))
    }

    async fn accept(
        &mut self,
        request: &CommandRequest,
        queued: &QueuedInput,
    ) -> Result<CommandOutcome, Failure> {
        let queue_limit = self.core.limits.queue;
        let input_id = queued.id;
        self.commit_command(request, |draft, planner| {
            if let DeliveryTarget::Execution { execution_id } = queued.target {
                if draft.core().open_execution.as_ref().is_none_or(|open| open.id != execution_id) {
                    return Err(CommandError::NotOpen(Subject::Execution(execution_id)));
                }
                // It may end meanwhile, elsewhere.
                draft.guard_core();
            }
            if draft.queue().len() >= queue_limit {
                return Err(CommandError::invalid(format!("{queue_limit} inputs are waiting already")));
            }
            plan::accept(draft, queued.clone());
            plan::start(draft, planner);
            let fate = draft.fate(input_id).unwrap_or(InputFate::Queued);
            Ok(CommandOutcome::InputAccepted { input_id, fate })
        })
        .await
    }

    /// The images as the batch will name them.
    fn named_images(&self, input: &NewInput) -> Vec<Image> {
        let named = |image: &crate::input::NewImage| Image {
            media_type: image.media_type.clone(),
            asset_id: AssetId::next(&*self.core.ids),
            digest: Digest::of(&image.bytes),
        };
        input.images.iter().map(named).collect()
    }

    /// Keeps the bytes of images before the batch that names them, and after it is known that there will be one.
    async fn store_images(&self, queued: &QueuedInput, input: &NewInput) -> Result<(), Failure> {
        for (named, image) in queued.images.iter().zip(&input.images) {
            let stored = self.core.assets.write(named.asset_id, image.bytes.clone().into()).await;
            stored.map_err(|error| {
                Failure::Refused(CommandError::invalid(format!("an image could not be kept: {error}")))
            })?;
        }
        Ok(())
    }

    async fn cancel_input(
        &mut self,
        request: &CommandRequest,
        input_id: InputId,
    ) -> Result<CommandOutcome, Failure> {
        let fate = self.core.store.fate(self.id, input_id).await.map_err(Failure::Store)?;
        let Some(fate) = fate else {
            return Err(Failure::Refused(CommandError::NotFound(Subject::Input(input_id))));
        };
        self.commit_command(request, |draft, _| {
            let queued = draft.rows().queued(input_id).cloned();
            match queued {
                Some(input) => {
                    draft.dequeue(&input, InputFate::Cancelled);
                    Ok(CommandOutcome::InputCancelled { input_id })
                }
                None => Ok(CommandOutcome::InputNotCancelled { input_id, fate: fate.fate }),
            }
        })
        .await
    }

    /// What to say of an interaction that no open call has: who resolved it, or that there never was one.
    async fn settled_interaction(&self, id: nervekit_types::InteractionId) -> CommandError {
        let mut before = self.rows.core.value.next_event_sequence;
        while before > 0 {
            let range = EventRange::before(before).limit(64);
            let Ok(page) = self.core.store.events(self.id, range).await else { break };
            for event in &page {
                if let EventPayload::ToolCallResponse(response) = &event.payload
                    && let Some(resolved) = response.resolution.as_ref().filter(|by| by.interaction_id == id)
                {
                    return CommandError::Resolved { by: Some(Box::new(resolved.clone())) };
                }
                if let EventPayload::ExecutionState(state) = &event.payload
                    && let crate::event::ExecutionState::Waiting { awaited } = &state.state
                    && awaited.iter().any(|entry| entry.interaction_id == id)
                {
                    // It was asked, and its call ended without an answer.
                    return CommandError::Resolved { by: None };
                }
            }
            match page.last() {
                Some(last) => before = last.sequence,
                None => break,
            }
        }
        CommandError::NotFound(Subject::Interaction(id))
    }

    /// Ends what is under way, so that another core can go on: requests are dropped, tools are told to stop, what
    /// they come to in time is recorded, the lease is given back. Says whether everything that ran is recorded.
    pub(super) async fn close(&mut self, until: Instant) -> bool {
        self.abort_request();
        for running in self.running.values() {
            running.cancellation.cancel();
        }
        while !self.running.is_empty() {
            match tokio::time::timeout_at(until, self.tasks.join_next()).await {
                Ok(Some(Ok(done))) => {
                    if let Err(failure) = self.finish(done).await {
                        self.give_up(&failure);
                        return false;
                    }
                }
                Ok(Some(Err(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        let recorded = self.running.is_empty();
        // What is dropped here does not act, nor hold the store, when the shutdown is over.
        drop(tokio::time::timeout_at(until, self.tasks.shutdown()).await);
        self.live = Live::default();
        if self.holds_lease()
            && let Err(failure) = self.commit_release().await
        {
            tracing::warn!(conversation = %self.id, %failure, "the lease could not be given back");
        }
        self.feed.close();
        recorded
    }
}

/// SHA-256 of what a command asks for, by which a repetition is told from the same id for something else.
fn request_digest(request: &CommandRequest) -> Digest {
    Digest::of(serde_json::to_vec(&request.command).unwrap_or_default())
}

fn check_config(draft: &Draft<'_>, change: &crate::conversation::ConfigChange) -> Result<(), CommandError> {
    let delegated = draft.core().parent_conversation_id.is_some();
    let narrow = |id: &str| id == "read_only" || id == "autonomous";
    if delegated && change.rule_set.as_deref().is_some_and(|id| !narrow(id)) {
        return Err(CommandError::invalid(
            "a delegated conversation takes the rule set `read_only` or `autonomous`",
        ));
    }
    if delegated && change.mode.is_some_and(|mode| mode != nervekit_permissions::Mode::Coding) {
        return Err(CommandError::invalid("a delegated conversation is always coding"));
    }
    Ok(())
}
