//! What the pieces of work in the background came to.

use nervekit_harness::{ProviderError, RetryPolicy};
use nervekit_tools::ProcessRef;
use nervekit_types::{ToolCallId, TurnId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Actor, Done, Failure, plan};
use crate::error::CommandError;
use crate::event::{CallOutcome, ExecutionState, FailureReason};
use crate::runtime::execute::Ran;
use crate::runtime::machine::{Activity, Step};
use crate::runtime::plan::{Settlement, Took};
use crate::runtime::propose::Prepared;
use crate::runtime::request::Answer;
use crate::store::StoreError;
use crate::tool_call::{CallState, ToolCall};

impl Actor {
    pub(super) async fn finish(&mut self, done: Done) -> Result<(), Failure> {
        match done {
            Done::Answer { turn_id, attempt, answer } => self.finish_request(turn_id, attempt, *answer).await,
            Done::Remembered { call, remembered } => {
                self.live.calls.remove(&call);
                self.with_call(call, |draft, planner, call| {
                    plan::remembered(draft, planner, call, &remembered);
                })
                .await?;
                // A person carries the execution on.
                self.live.interrupted = false;
                Ok(())
            }
            Done::Judged { call, result } => self.finish_judged(call, *result).await,
            Done::Cleared { call, result } => match *result {
                Ok(cleared) => {
                    self.show_problems(&cleared.evaluation.evidence);
                    if self.live.calls.get(&call) == Some(&Activity::Deciding) {
                        self.live.calls.insert(call, Activity::Cleared);
                        self.cleared.insert(call, cleared);
                    }
                    Ok(())
                }
                Err(settlement) => self.settle_decided(call, settlement).await,
            },
            Done::Ran { call, attempt, ran } => self.finish_run(call, attempt, *ran).await,
            Done::Overdue { call, attempt } => self.finish_overdue(call, attempt).await,
        }
    }

    async fn finish_request(&mut self, turn_id: TurnId, attempt: u32, answer: Answer) -> Result<(), Failure> {
        let current = self.rows.core.value.open_execution.as_ref().map(|open| open.turn_id) == Some(turn_id);
        if !current || attempt != self.attempt || !self.live.requesting {
            return Ok(());
        }
        self.request = None;
        self.live.requesting = false;
        match answer {
            Answer::Proposed(prepared) => {
                self.attempt = 1;
                self.take_message(*prepared).await
            }
            Answer::Provider(error) => self.provider_failed(error).await,
            Answer::Failed { reason, message } => {
                self.attempt = 1;
                self.feed.drop_draft();
                self.fail(reason, message).await
            }
        }
    }

    async fn take_message(&mut self, prepared: Prepared) -> Result<(), Failure> {
        let Prepared { proposal, evaluations } = prepared;
        if let Some((_, evaluation)) = evaluations.last_key_value() {
            self.show_problems(&evaluation.evidence);
        }
        let policies = self.core.unstored_policies(evaluations.values());
        let took = self
            .commit_with(super::commit::Patience::Wait, |draft, planner| {
                let took = plan::message(draft, planner, &proposal);
                if took == Took::Taken {
                    plan::keep_policies(draft, &policies);
                }
                Ok(took)
            })
            .await;
        let took = match took {
            Err(Failure::Store(error)) if is_unstorable(&error) => {
                self.feed.drop_draft();
                let message = format!("the answer cannot be stored: {error}");
                return self.fail(FailureReason::Resources, message).await;
            }
            took => took?,
        };
        if took == Took::Taken {
            self.core.policies_stored(&policies);
            let running = |id: &ToolCallId| {
                self.rows.calls.get(id).is_some_and(|call| call.value.state == CallState::Running)
            };
            let kept: Vec<_> = evaluations.into_iter().filter(|(id, _)| running(id)).collect();
            self.live.claimed.extend(kept.iter().map(|(id, _)| *id));
            self.evaluations.extend(kept);
        } else {
            self.feed.drop_draft();
        }
        Ok(())
    }

    async fn fail(&mut self, reason: FailureReason, message: String) -> Result<(), Failure> {
        self.end(|denied| ExecutionState::Failed { reason: reason.clone(), message: message.clone(), denied })
            .await
    }

    async fn provider_failed(&mut self, error: ProviderError) -> Result<(), Failure> {
        let policy = &self.core.retries;
        let decision = policy.decide(self.attempt, &error, RetryPolicy::jitter(&*self.core.entropy));
        let reason = FailureReason::Provider { kind: error.kind(), status: error.status() };
        match decision {
            Ok(delay) => {
                let (attempt, limit) = (self.attempt, policy.retries + 1);
                let words = error.to_string();
                self.commit(|draft, planner| {
                    plan::retrying(draft, planner, attempt, limit, delay, &words);
                    Ok(())
                })
                .await?;
                self.attempt += 1;
                self.live.requesting = true;
                self.retry_at = Some(Instant::now() + delay);
                Ok(())
            }
            Err(give_up) => {
                self.attempt = 1;
                self.feed.drop_draft();
                let message = match give_up {
                    nervekit_harness::GiveUp::NotRetryable => error.to_string(),
                    give_up => format!("{error} ({give_up})"),
                };
                self.fail(reason, message).await
            }
        }
    }

    /// A call found in `supervising` was judged under its own settings.
    async fn finish_judged(
        &mut self,
        id: ToolCallId,
        result: Result<nervekit_permissions::Evaluation, Settlement>,
    ) -> Result<(), Failure> {
        let evaluation = match result {
            Ok(evaluation) => evaluation,
            Err(settlement) => return self.settle_decided(id, settlement).await,
        };
        self.live.calls.remove(&id);
        self.show_problems(&evaluation.evidence);
        let policies = self.core.unstored_policies([&evaluation]);
        self.with_call(id, |draft, planner, call| {
            if call.state == CallState::Supervising {
                plan::judged(draft, planner, call, &evaluation.evidence);
                plan::keep_policies(draft, &policies);
            }
        })
        .await
    }

    async fn settle_decided(&mut self, id: ToolCallId, settlement: Settlement) -> Result<(), Failure> {
        self.forget(id);
        self.with_call(id, |draft, planner, call| {
            if matches!(call.state, CallState::Supervising | CallState::Ready) {
                plan::settle(draft, planner, call, settlement.clone());
            }
        })
        .await
    }

    async fn finish_run(&mut self, id: ToolCallId, attempt: u32, ran: Ran) -> Result<(), Failure> {
        if self.running.get(&id).is_none_or(|running| running.attempt != attempt) {
            tracing::info!(call = %id, attempt, "the result of a void attempt is dropped");
            return Ok(());
        }
        self.running.remove(&id);
        self.live.calls.remove(&id);
        match self.commit_run(id, attempt, &ran).await {
            Err(Failure::Store(error)) if is_unstorable(&error) => {
                let words = format!("The call ran, but its result cannot be stored: {error}.");
                let settlement = Settlement::new(CallOutcome::Failed, words);
                self.commit_run(id, attempt, &Ran::Settled(settlement)).await
            }
            committed => committed,
        }
    }

    async fn commit_run(&mut self, id: ToolCallId, attempt: u32, ran: &Ran) -> Result<(), Failure> {
        self.with_call(id, |draft, planner, call| {
            let current = call.claim.as_ref().is_some_and(|claim| claim.attempt == attempt);
            if !current || call.state != CallState::Running {
                return;
            }
            match ran {
                Ran::Settled(settlement) => plan::settle(draft, planner, call, settlement.clone()),
                Ran::NeedsInput(request, busy) => plan::ask(draft, planner, call, request.clone(), *busy),
            }
        })
        .await
    }

    /// An executor that was told to stop did not: it is dropped, and what it did is not known.
    async fn finish_overdue(&mut self, id: ToolCallId, attempt: u32) -> Result<(), Failure> {
        match self.running.get(&id) {
            Some(running) if running.attempt == attempt => running.task.abort(),
            _ => return Ok(()),
        }
        let lost = Settlement::new(
            CallOutcome::Indeterminate,
            "The call was told to stop and did not; it was dropped. It may or may not have had its effect.",
        );
        self.finish_run(id, attempt, Ran::Settled(lost)).await
    }

    /// Puts a process on record before it may run.
    pub(super) async fn record_process(
        &mut self,
        id: ToolCallId,
        attempt: u32,
        process: ProcessRef,
        recorded: oneshot::Sender<()>,
    ) {
        let committed = self
            .commit_with(super::commit::Patience::Wait, |draft, _| {
                draft.guard_mailbox();
                let call = draft.call(id).ok_or_else(|| CommandError::NotFound(id.into()))?;
                let mut call = ToolCall::clone(call);
                let marked = call.cancel_requested || draft.rows().is_marked();
                match &mut call.claim {
                    Some(claim) if claim.attempt == attempt && !marked => {
                        claim.process = Some(process.clone());
                    }
                    _ => return Err(CommandError::Resolved { by: None }),
                }
                draft.put_call(call);
                Ok(())
            })
            .await;
        match committed {
            Ok(()) => drop(recorded.send(())),
            // Dropping the sender keeps the gate shut.
            Err(Failure::Refused(_)) => {}
            Err(failure) => drop(self.give_up(&failure)),
        }
    }

    pub(super) fn note_interrupted(&mut self) {
        self.recovered.interrupted.push(self.id);
    }

    pub(super) fn note_indeterminate(&mut self, call: ToolCallId) {
        self.recovered.indeterminate.push(call);
    }

    /// What would be begun waits until recovery has written everything.
    pub(super) fn note_resumed(&mut self, step: &Step) {
        if self.recovering.is_empty() {
            return;
        }
        match step {
            Step::Start | Step::Deliver => self.recovered.delivered.push(self.id),
            _ => self.recovered.resumed.push(self.id),
        }
    }

    /// Tells recovery what was found.
    pub(super) fn report_recovered(&mut self) {
        if self.recovering.is_empty() {
            return;
        }
        let mut recovered = std::mem::take(&mut self.recovered);
        let open = self.rows.calls.values().filter_map(|call| call.value.interaction.as_ref());
        recovered.waiting = open.map(|interaction| interaction.id).collect();
        for done in std::mem::take(&mut self.recovering) {
            drop(done.send(std::mem::take(&mut recovered)));
        }
    }
}

/// Whether what was to be stored is at fault, and not the store.
const fn is_unstorable(error: &StoreError) -> bool {
    matches!(error, StoreError::TooLarge { .. } | StoreError::Record(_))
}
