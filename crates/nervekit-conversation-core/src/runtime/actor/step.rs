//! Carrying a step out: what the machine says is next becomes a batch, or a piece of work in the background.

use std::sync::Arc;

use nervekit_tools::Cancellation;
use nervekit_types::ToolCallId;

use super::{Actor, Done, Failure, RunningCall};
use crate::event::{CallOutcome, ExecutionState, FailureReason};
use crate::interaction::Remembered;
use crate::runtime::execute::{self, Cleared, Ran, Work};
use crate::runtime::machine::{Activity, Step};
use crate::runtime::plan::{self, Settlement};
use crate::runtime::projection::Projection;
use crate::runtime::propose::CallScope;
use crate::runtime::request::{Answer, TurnSnapshot, request};
use crate::runtime::supervisor::guard;
use crate::store::Draft;
use crate::tool_call::{CallState, ToolCall};

impl Actor {
    fn scope(&self, call: &ToolCall) -> Result<CallScope, Settlement> {
        let policy = self.policy.clone().map_err(|error| {
            let words = format!("The call did not run: {error}.");
            Settlement::new(CallOutcome::Failed, words)
        })?;
        Ok(CallScope {
            conversation_id: self.id,
            origin: call.origin,
            settings: call.turn_settings.clone(),
            project: self.project.directory.clone(),
            policy,
        })
    }

    pub(super) fn call(&self, id: ToolCallId) -> Option<Arc<ToolCall>> {
        self.rows.calls.get(&id).map(|row| Arc::clone(&row.value))
    }

    pub(super) async fn act(&mut self, step: Step) -> Result<(), Failure> {
        match step {
            Step::Start => {
                self.commit(|draft, planner| {
                    plan::start(draft, planner);
                    Ok(())
                })
                .await
            }
            Step::Deliver => {
                self.commit(|draft, planner| {
                    plan::deliver(draft, planner);
                    Ok(())
                })
                .await
            }
            Step::Request => {
                self.begin_request();
                Ok(())
            }
            Step::Continue => {
                self.live.interrupted = false;
                self.commit(|draft, planner| {
                    plan::count_continued(draft, planner);
                    Ok(())
                })
                .await
            }
            Step::Decide(call) => {
                self.decide(call);
                Ok(())
            }
            Step::Claim(call) => self.claim(call).await,
            Step::Run(call) => {
                self.run_claimed(call);
                Ok(())
            }
            Step::Effect(id) => self.with_call(id, plan::effect).await,
            Step::Remember(id) => {
                self.remember(id);
                Ok(())
            }
            Step::ActOnAnswer(id) => {
                self.with_call(id, plan::act_on_answer).await?;
                // A person carries the execution on.
                self.live.interrupted = false;
                Ok(())
            }
            Step::Stop(call) => {
                self.stop_call(call);
                Ok(())
            }
            Step::SettleCancelled(id) => {
                self.forget(id);
                self.with_call(id, |draft, planner, call| {
                    plan::settle(draft, planner, call, Settlement::cancelled());
                })
                .await
            }
            Step::SettleIndeterminate(id) => {
                self.forget(id);
                self.note_indeterminate(id);
                self.end_left_process(id).await;
                self.with_call(id, |draft, planner, call| {
                    plan::settle(draft, planner, call, Settlement::indeterminate());
                })
                .await
            }
            Step::Repeat(id) => {
                self.end_left_process(id).await;
                self.with_call(id, |draft, _, call| plan::repeat(draft, call)).await
            }
            Step::Complete => self.end(|denied| ExecutionState::Completed { denied }).await,
            Step::Cancel => {
                self.commit(|draft, planner| {
                    plan::end_cancelled(draft, planner);
                    Ok(())
                })
                .await?;
                self.answer_stops();
                Ok(())
            }
            Step::Interrupt => {
                self.live.interrupted = false;
                self.note_interrupted();
                self.end(|_| ExecutionState::Interrupted).await
            }
            Step::Fail(reason) => {
                let message = plan::limit_words(&reason);
                self.end(|denied| ExecutionState::Failed {
                    reason: reason.clone(),
                    message: message.clone(),
                    denied,
                })
                .await
            }
            Step::Wait | Step::Rest => Ok(()),
        }
    }

    /// Commits a change to a call, if it is still there.
    pub(super) async fn with_call(
        &mut self,
        id: ToolCallId,
        change: impl Fn(&mut Draft<'_>, &plan::Planner<'_>, &ToolCall),
    ) -> Result<(), Failure> {
        self.commit(|draft, planner| {
            if let Some(call) = draft.call(id).cloned() {
                change(draft, planner, &call);
            }
            Ok(())
        })
        .await
    }

    /// Ends the open execution. What began a new one in the same moment goes on with the next step.
    pub(super) async fn end(
        &mut self,
        state: impl Fn(Vec<crate::event::DeniedCall>) -> ExecutionState,
    ) -> Result<(), Failure> {
        self.commit(|draft, planner| {
            let denied = plan::denied(draft);
            plan::end(draft, planner, state(denied));
            Ok(())
        })
        .await
    }

    fn begin_request(&mut self) {
        let (Some(open), Some(projection)) = (&self.rows.core.value.open_execution, &self.projection) else {
            return;
        };
        let (turn_id, attempt) = (open.turn_id, self.attempt);
        let turn = self.policy.clone().map(|policy| TurnSnapshot {
            conversation_id: self.id,
            turn_id,
            attempt,
            config: self.rows.config.value.clone(),
            project: self.project.clone(),
            messages: projection.messages(),
            images: projection.images(),
            policy,
            delegated: self.rows.core.value.parent_conversation_id.is_some(),
        });
        let (core, feed) = (self.core.clone(), self.feed.clone());
        let work = async move {
            let turn = match turn {
                Ok(turn) => turn,
                Err(error) => {
                    let answer = Box::new(Answer::failed(FailureReason::Resources, error));
                    return Done::Answer { turn_id, attempt, answer };
                }
            };
            core.hooks_caught_up(turn.conversation_id).await;
            let answer = match core.request_permits.clone().acquire_owned().await {
                Ok(_permit) => crate::runtime::supervisor::guard(request(core, feed, turn)).await,
                Err(_) => {
                    return Done::Answer { turn_id, attempt, answer: Box::new(Answer::shutting_down()) };
                }
            };
            let answer = answer.unwrap_or_else(|panic| Answer::panicked(&panic));
            Done::Answer { turn_id, attempt, answer: Box::new(answer) }
        };
        self.live.requesting = true;
        self.request = Some(self.tasks.spawn_on(work, &self.core.runtime));
    }

    /// Drops a request in flight: the connection is closed, what was streamed is discarded.
    pub(super) fn abort_request(&mut self) {
        if let Some(request) = self.request.take() {
            request.abort();
        }
        self.retry_at = None;
        self.live.requesting = false;
        self.attempt = 1;
        self.feed.drop_draft();
    }

    fn decide(&mut self, id: ToolCallId) {
        let Some(call) = self.call(id) else { return };
        self.live.calls.insert(id, Activity::Deciding);
        let (core, scope) = (self.core.clone(), self.scope(&call));
        if call.state == CallState::Supervising {
            self.tasks.spawn_on(
                async move {
                    let result = match scope {
                        Ok(scope) => execute::judge(&core, &call, scope).await,
                        Err(settlement) => Err(settlement),
                    };
                    Done::Judged { call: id, result: Box::new(result) }
                },
                &self.core.runtime,
            );
        } else {
            self.tasks.spawn_on(
                async move {
                    let result = match scope {
                        Ok(scope) => execute::clear(core, call, scope).await,
                        Err(settlement) => Err(settlement),
                    };
                    Done::Cleared { call: id, result: Box::new(result) }
                },
                &self.core.runtime,
            );
        }
    }

    async fn claim(&mut self, id: ToolCallId) -> Result<(), Failure> {
        self.with_call(id, plan::claim).await?;
        match (self.cleared.remove(&id), self.call(id)) {
            (Some(cleared), Some(call)) if call.state == CallState::Running => {
                self.spawn_run(call, async move { Ok(cleared) });
            }
            _ => drop(self.live.calls.remove(&id)),
        }
        Ok(())
    }

    /// Runs a call that was claimed with its message.
    fn run_claimed(&mut self, id: ToolCallId) {
        let Some(call) = self.call(id) else { return };
        self.live.claimed.remove(&id);
        let evaluation = self.evaluations.remove(&id);
        let scope = self.scope(&call);
        let judged = call.clone();
        let core = self.core.clone();
        self.spawn_run(call, async move {
            let evaluation = match evaluation {
                Some(evaluation) => evaluation,
                None => execute::judge(&core, &judged, scope?).await?,
            };
            execute::admit_claimed(&core, evaluation).await
        });
    }

    fn spawn_run(
        &mut self,
        call: Arc<ToolCall>,
        admitted: impl Future<Output = Result<Cleared, Settlement>> + Send + 'static,
    ) {
        let (id, attempt) = (call.id, call.claim.as_ref().map_or(0, |claim| claim.attempt));
        let (cancellation, progress) = (Cancellation::default(), self.feed.output(id));
        let work = Work {
            call,
            cancellation: cancellation.clone(),
            progress,
            assets: self.projection.as_ref().map(Projection::assets).unwrap_or_default(),
            inbox: self.sender.clone(),
        };
        let core = self.core.clone();
        let task = async move {
            let ran = match admitted.await {
                Ok(cleared) => execute::run(core.clone(), work, cleared).await,
                Err(settlement) => Ran::Settled(settlement),
            };
            Done::Ran { call: id, attempt, ran: Box::new(ran) }
        };
        let task = self.tasks.spawn_on(task, &self.core.runtime);
        self.live.calls.insert(id, Activity::Running);
        self.running.insert(id, RunningCall { attempt, cancellation, task });
    }

    /// Saves the rule that a person wants kept of an answer.
    fn remember(&mut self, id: ToolCallId) {
        let Some(call) = self.call(id) else { return };
        self.live.calls.insert(id, Activity::Remembering);
        let (core, project) = (self.core.clone(), self.project.clone());
        let save = async move {
            let saved = guard(core.remember(&call, project.directory.as_deref())).await;
            let remembered = saved.unwrap_or_else(|panic| {
                tracing::error!(%panic, "saving a rule panicked");
                Remembered::Failed { problem: "saving the rule failed".to_owned() }
            });
            Done::Remembered { call: id, remembered: Box::new(remembered) }
        };
        self.tasks.spawn_on(save, &self.core.runtime);
    }

    /// Tells an executor to stop; after the grace period it is dropped.
    fn stop_call(&mut self, id: ToolCallId) {
        self.live.calls.insert(id, Activity::Stopping);
        let Some(running) = self.running.get(&id) else { return };
        running.cancellation.cancel();
        let (attempt, grace) = (running.attempt, self.core.limits.cancellation_grace);
        self.tasks.spawn_on(
            async move {
                tokio::time::sleep(grace).await;
                Done::Overdue { call: id, attempt }
            },
            &self.core.runtime,
        );
    }

    /// Drops what was decided about a call that is not to run.
    pub(super) fn forget(&mut self, id: ToolCallId) {
        self.live.calls.remove(&id);
        self.live.claimed.remove(&id);
        self.cleared.remove(&id);
        self.evaluations.remove(&id);
    }

    /// Ends the process that another core left running for a call, if it verifiably is that one.
    async fn end_left_process(&self, id: ToolCallId) {
        let Some(process) = self.call(id).and_then(|call| call.claim.clone()).and_then(|claim| claim.process)
        else {
            return;
        };
        let (output, _receiver) = nervekit_tools::OutputSender::channel();
        match self.core.processes.reattach(&process, output).await {
            Ok(nervekit_tools::Reattached::Followed(left) | nervekit_tools::Reattached::Lost(left)) => {
                left.stop().await;
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a process that was left running could not be found"),
        }
    }
}
