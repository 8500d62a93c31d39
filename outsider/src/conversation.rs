//! The smaller ports of the conversation core.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use nervekit_conversation_core::{
    Event, Hook, HookCall, HookError, HookVerdict, Profile, Profiles, ResourceError, Resources,
    ToolCallResponse, TurnRequest, TurnResources,
};
use nervekit_harness::{AssistantMessage, ModelRequest};
use nervekit_permissions::DocumentError;
use nervekit_types::ConversationId;

/// The same system prompt in every turn, with the project's name.
#[derive(Debug)]
pub struct House;

#[async_trait]
impl TurnResources for House {
    async fn resolve(&self, request: &TurnRequest) -> Result<Resources, ResourceError> {
        Ok(Resources::new(format!("You work on {}.", request.project.name)))
    }
}

/// One profile, which reads.
#[derive(Debug)]
pub struct OneReviewer;

#[async_trait]
impl Profiles for OneReviewer {
    async fn profiles(&self, _lead: ConversationId) -> Result<Vec<Profile>, DocumentError> {
        Ok(vec![Profile::new("review", "Reviewer", "Reads a change and comments.", "read_only")])
    }
}

/// Counts what happens and changes nothing.
#[derive(Debug, Default)]
pub struct Census {
    /// Model requests about to be sent.
    pub requests: AtomicU64,
    /// Answers that arrived.
    pub answers: AtomicU64,
    /// Tool calls about to be judged.
    pub calls: AtomicU64,
    /// Tool calls settled.
    pub settled: AtomicU64,
    /// Events that became durable.
    pub events: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[async_trait]
impl Hook for Census {
    async fn before_model_request(
        &self,
        _conversation_id: ConversationId,
        _request: &ModelRequest,
    ) -> Result<HookVerdict, HookError> {
        count(&self.requests);
        Ok(HookVerdict::Continue)
    }

    async fn after_model_response(
        &self,
        _conversation_id: ConversationId,
        _message: &AssistantMessage,
    ) -> Result<(), HookError> {
        count(&self.answers);
        Ok(())
    }

    async fn before_tool_call(&self, _call: &HookCall) -> Result<HookVerdict, HookError> {
        count(&self.calls);
        Ok(HookVerdict::Continue)
    }

    async fn after_tool_call(
        &self,
        _conversation_id: ConversationId,
        _response: &ToolCallResponse,
    ) -> Result<(), HookError> {
        count(&self.settled);
        Ok(())
    }

    async fn on_event(&self, _event: &Event) -> Result<(), HookError> {
        count(&self.events);
        Ok(())
    }
}
