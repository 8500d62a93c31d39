//! From events to the model's context: pure, total, and extended event by event, so that the cost of a turn does
//! not grow with history.

mod cache;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nervekit_harness::{
    AssistantMessage, Image as MessageImage, Message, Messages, Origin, Text, ToolResultMessage, UserMessage,
};
use nervekit_permissions::CallOrigin;
use nervekit_types::AssetId;

use crate::event::{Event, EventLink, EventPayload, ToolCallResponse, UserMessageEvent};
use crate::input::is_blank;

pub(crate) use cache::ProjectionCache;

/// What the selected path ends with, as far as the model is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing was said yet.
    #[default]
    Empty,
    /// Something the model has not answered.
    Unanswered,
    /// An answer without calls.
    Answered,
}

/// The context of the selected path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Projection {
    assets: Arc<BTreeSet<AssetId>>,
    images: Arc<BTreeSet<AssetId>>,
    messages: Messages,
    open: Option<OpenMessage>,
    tail: Tail,
}

/// An assistant message that not all results are known of. Results stand directly behind their message, in
/// content order, wherever their events lie; what else was said meanwhile follows them.
#[derive(Clone, Debug)]
struct OpenMessage {
    message: Arc<AssistantMessage>,
    results: BTreeMap<u32, ToolResultMessage>,
    following: Vec<Message>,
}

impl Projection {
    /// The projection of a path, from its first event to its head.
    pub(crate) fn of<'a>(path: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut projection = Self::default();
        path.into_iter().for_each(|event| projection.extend(event));
        projection
    }

    /// What the path ends with.
    pub(crate) const fn tail(&self) -> Tail {
        self.tail
    }

    /// The assets that events of the path name: what a tool of the conversation may read back.
    pub(crate) fn assets(&self) -> Arc<BTreeSet<AssetId>> {
        self.assets.clone()
    }

    /// The images among the messages: their bytes go into each request.
    pub(crate) fn images(&self) -> Arc<BTreeSet<AssetId>> {
        self.images.clone()
    }

    /// How many messages there are, roughly: those of an open message are not counted.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Takes in the events between one that was taken in last and the head. Says whether they are one path.
    pub(crate) fn continue_to(&mut self, mut last: EventLink, head: EventLink, events: &[Event]) -> bool {
        for event in events {
            if event.previous != Some(last) {
                return false;
            }
            last = EventLink::new(event.id, event.sequence);
            self.extend(event);
        }
        last == head
    }

    /// Takes in the next event of the path.
    pub(crate) fn extend(&mut self, event: &Event) {
        match &event.payload {
            EventPayload::UserMessage(message) if !message.images.is_empty() => {
                let images = message.images.iter().map(|image| image.asset_id);
                Arc::make_mut(&mut self.images).extend(images.clone());
                Arc::make_mut(&mut self.assets).extend(images);
            }
            EventPayload::ToolCallResponse(response)
                if response.complete.is_some() || !response.attachments.is_empty() =>
            {
                let attached = response.attachments.iter().map(|attachment| attachment.asset);
                Arc::make_mut(&mut self.assets).extend(response.complete.into_iter().chain(attached));
            }
            _ => {}
        }
        match &event.payload {
            EventPayload::UserMessage(message) => self.say(user_message(message)),
            EventPayload::AssistantMessage(answer) => self.answer(answer.message.clone()),
            EventPayload::ToolCallResponse(response) => self.result(response),
            EventPayload::UserIntervention(intervention) => {
                if let Some(text) = &intervention.text {
                    self.say(UserMessage::text(text.clone()).origin(Origin::Runtime));
                }
            }
            EventPayload::Notification(_) | EventPayload::ExecutionState(_) => {}
        }
    }

    /// The messages: every call has exactly one result, even one that is not settled on this path.
    pub(crate) fn messages(&self) -> Messages {
        let mut messages = self.messages.clone();
        if let Some(open) = self.open.clone() {
            open.close_into(&mut messages);
        }
        messages
    }

    fn say(&mut self, message: UserMessage) {
        self.tail = Tail::Unanswered;
        match &mut self.open {
            Some(open) => open.following.push(message.into()),
            None => self.messages.push(message),
        }
    }

    fn answer(&mut self, message: Arc<AssistantMessage>) {
        if let Some(open) = self.open.take() {
            open.close_into(&mut self.messages);
        }
        if message.tool_calls().next().is_some() {
            self.tail = Tail::Unanswered;
            self.open = Some(OpenMessage { message, results: BTreeMap::new(), following: Vec::new() });
        } else {
            self.tail = Tail::Answered;
            self.messages.push(Message::from(message));
        }
    }

    fn result(&mut self, response: &ToolCallResponse) {
        if response.origin == CallOrigin::User {
            self.say(UserMessage::text(response.agent.clone()).origin(Origin::Runtime));
            return;
        }
        let (Some(open), Some(index)) = (&mut self.open, response.content_index) else { return };
        let Some(call) = open.call_id(index) else { return };
        let said = if is_blank(&response.agent) { "(no output)" } else { &response.agent };
        let mut result = ToolResultMessage::text(call, &response.tool_name, said);
        if response.outcome != crate::event::CallOutcome::Completed {
            result = result.failed();
        }
        open.results.insert(index, result);
        self.tail = Tail::Unanswered;
        if open.is_complete()
            && let Some(open) = self.open.take()
        {
            open.close_into(&mut self.messages);
        }
    }
}

impl OpenMessage {
    fn calls(&self) -> impl Iterator<Item = (u32, &nervekit_harness::ToolCall)> {
        self.message.content.iter().enumerate().filter_map(|(at, block)| match block {
            nervekit_harness::ContentBlock::ToolCall(call) => Some((u32::try_from(at).ok()?, call)),
            _ => None,
        })
    }

    fn call_id(&self, index: u32) -> Option<String> {
        self.calls().find(|(at, _)| *at == index).map(|(_, call)| call.id.clone())
    }

    fn is_complete(&self) -> bool {
        self.calls().all(|(at, _)| self.results.contains_key(&at))
    }

    fn close_into(mut self, messages: &mut Messages) {
        let missing: Vec<(u32, ToolResultMessage)> = self
            .calls()
            .filter(|(at, _)| !self.results.contains_key(at))
            .map(|(at, call)| {
                let text = "No result of this call is recorded here.";
                (at, ToolResultMessage::text(&call.id, &call.name, text).failed())
            })
            .collect();
        self.results.extend(missing);
        messages.push(Message::from(self.message));
        self.results.into_values().for_each(|result| messages.push(result));
        self.following.into_iter().for_each(|message| messages.push(message));
    }
}

fn user_message(event: &UserMessageEvent) -> UserMessage {
    let mut message = UserMessage::new([Text::new(event.text.clone()).into()]);
    for image in &event.images {
        message = message.image(MessageImage::asset(image.media_type.clone(), image.asset_id));
    }
    message
}
