//! From events to a message.

use crate::error::ProviderError;
use crate::event::ModelEvent;
use crate::message::{AssistantMessage, ContentBlock, Text, Thinking, ToolCall};

/// Puts the events of one answer together and holds them to their contract.
///
/// It is total: any events in any order give a message or a protocol error. Blocks begin in order and without
/// gaps; a block keeps its sort; nothing comes after [`ModelEvent::Finished`], whose message must begin, block
/// by block, with what was streamed before.
///
/// ```
/// use nervekit_harness::{AssistantMessage, MessageAssembler, ModelEvent};
///
/// let mut assembler = MessageAssembler::new();
/// assembler.push(&ModelEvent::TextDelta { block: 0, delta: "hel".into() })?;
/// assembler.push(&ModelEvent::TextDelta { block: 0, delta: "lo".into() })?;
/// assert_eq!(assembler.draft().plain_text(), "hello");
/// assembler.push(&ModelEvent::Finished(AssistantMessage::text("hello")))?;
/// assert_eq!(assembler.finish()?, AssistantMessage::text("hello"));
/// # Ok::<(), nervekit_harness::ProviderError>(())
/// ```
///
/// An answer without its end is no answer:
///
/// ```
/// use nervekit_harness::{MessageAssembler, ModelEvent};
/// let mut assembler = MessageAssembler::new();
/// assembler.push(&ModelEvent::TextDelta { block: 0, delta: "hel".into() }).unwrap();
/// assert!(assembler.finish().is_err());
/// ```
#[derive(Clone, Debug, Default)]
pub struct MessageAssembler {
    blocks: Vec<Draft>,
    finished: Option<AssistantMessage>,
}

#[derive(Clone, Debug)]
enum Draft {
    Text(String),
    Thinking(String),
    Call { id: String, name: String, arguments: String, finished: Option<ToolCall> },
}

impl MessageAssembler {
    /// An assembler that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event. After an error the answer is void.
    pub fn push(&mut self, event: &ModelEvent) -> Result<(), ProviderError> {
        if self.finished.is_some() {
            return Err(self.broken(format!("the event `{}` came after the end of the answer", event.kind())));
        }
        let fits = match event {
            ModelEvent::TextDelta { block, delta } => match self.block(*block, || Draft::Text(String::new()))
            {
                Some(Draft::Text(text)) => {
                    text.push_str(delta);
                    true
                }
                _ => false,
            },
            ModelEvent::ThinkingDelta { block, delta } => {
                match self.block(*block, || Draft::Thinking(String::new())) {
                    Some(Draft::Thinking(text)) => {
                        text.push_str(delta);
                        true
                    }
                    _ => false,
                }
            }
            ModelEvent::ToolCallStarted { block, id, name } => {
                let begins = *block == self.blocks.len();
                if begins {
                    self.blocks.push(Draft::Call {
                        id: id.clone(),
                        name: name.clone(),
                        arguments: String::new(),
                        finished: None,
                    });
                }
                begins
            }
            ModelEvent::ToolArgumentsDelta { block, delta } => match self.blocks.get_mut(*block) {
                Some(Draft::Call { arguments, finished: None, .. }) => {
                    arguments.push_str(delta);
                    true
                }
                _ => false,
            },
            ModelEvent::ToolCallFinished { block, call } => {
                let started = || Draft::Call {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: String::new(),
                    finished: None,
                };
                match self.block(*block, started) {
                    Some(Draft::Call { id, name, finished, .. })
                        if finished.is_none() && *id == call.id && *name == call.name =>
                    {
                        *finished = Some(call.clone());
                        true
                    }
                    _ => false,
                }
            }
            ModelEvent::Usage(_) => true,
            ModelEvent::Finished(message) => {
                let fits = self.blocks.len() <= message.content.len()
                    && self.blocks.iter().zip(&message.content).all(|(draft, block)| draft.begins(block));
                if fits {
                    self.finished = Some(message.clone());
                }
                fits
            }
        };
        if fits {
            Ok(())
        } else {
            Err(self.broken(format!("the event `{}` does not fit what came before", event.kind())))
        }
    }

    /// Whether a part of the answer has arrived.
    #[must_use]
    pub fn has_content(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// What has arrived so far, as a message: to show, never to act on.
    #[must_use]
    pub fn draft(&self) -> AssistantMessage {
        AssistantMessage::new(self.blocks.iter().map(Draft::to_block).collect::<Vec<_>>())
    }

    /// The message, once its end has arrived.
    pub fn finish(self) -> Result<AssistantMessage, ProviderError> {
        match self.finished {
            Some(message) => Ok(message),
            None => Err(self.broken("the answer ended before it was complete".to_owned())),
        }
    }

    /// The block of this index, begun now if it is the next one.
    fn block(&mut self, index: usize, begin: impl FnOnce() -> Draft) -> Option<&mut Draft> {
        if index == self.blocks.len() {
            self.blocks.push(begin());
        }
        self.blocks.get_mut(index)
    }

    fn broken(&self, message: String) -> ProviderError {
        ProviderError::protocol(message).with_after_content(self.has_content())
    }
}

impl Draft {
    fn to_block(&self) -> ContentBlock {
        match self {
            Self::Text(text) => Text::new(text).into(),
            Self::Thinking(text) => Thinking::new("", text).into(),
            Self::Call { finished: Some(call), .. } => call.clone().into(),
            Self::Call { id, name, arguments, finished: None } => ToolCall::parse(id, name, arguments).into(),
        }
    }

    /// Whether the block of the final message begins with this draft.
    fn begins(&self, block: &ContentBlock) -> bool {
        match (self, block) {
            (Self::Text(draft), ContentBlock::Text(text)) => text.text.starts_with(draft.as_str()),
            (Self::Thinking(draft), ContentBlock::Thinking(thinking)) => {
                thinking.text.starts_with(draft.as_str())
            }
            (Self::Call { finished: Some(draft), .. }, ContentBlock::ToolCall(call)) => draft == call,
            (Self::Call { id, name, .. }, ContentBlock::ToolCall(call)) => {
                *id == call.id && *name == call.name
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use nervekit_types::testing::SeededEntropy;
    use serde_json::json;

    use super::*;
    use crate::message::Usage;

    fn text(block: usize, delta: &str) -> ModelEvent {
        ModelEvent::TextDelta { block, delta: delta.into() }
    }

    fn run(events: &[ModelEvent]) -> Result<AssistantMessage, ProviderError> {
        let mut assembler = MessageAssembler::new();
        events.iter().try_for_each(|event| assembler.push(event))?;
        assembler.finish()
    }

    #[test]
    fn a_message_that_contradicts_its_deltas_is_refused() {
        let finished = |message: &str| ModelEvent::Finished(AssistantMessage::text(message));
        assert!(run(&[text(0, "he"), finished("hello")]).is_ok());
        assert!(run(&[text(0, "he"), finished("Hello")]).is_err());
        assert!(run(&[text(0, "he"), text(1, "x"), finished("hello")]).is_err());
        assert!(run(&[text(1, "he"), finished("hello")]).is_err());
        assert!(run(&[finished("hello"), text(0, "he")]).is_err());
        assert!(run(&[]).is_err());
    }

    #[test]
    fn a_call_keeps_its_identity() {
        let call = ToolCall::new("1", "read", json!({"path": "a"}));
        let started = ModelEvent::ToolCallStarted { block: 0, id: "1".into(), name: "read".into() };
        let finished = ModelEvent::ToolCallFinished { block: 0, call: call.clone() };
        let end = ModelEvent::Finished(AssistantMessage::new([call.into()]));
        assert!(run(&[started.clone(), finished.clone(), end.clone()]).is_ok());
        assert!(run(&[finished.clone(), end.clone()]).is_ok());
        assert!(run(&[started.clone(), started, end.clone()]).is_err());
        let other = ToolCall::new("2", "read", json!({}));
        assert!(run(&[finished, ModelEvent::ToolCallFinished { block: 0, call: other }, end]).is_err());
    }

    /// Any events in any order give a message that was in a `Finished`, or an error, and never a panic.
    #[test]
    fn the_assembler_is_total() {
        let seed = 20_260_114;
        let random = SeededEntropy::new(seed);
        let pick = |below: u64| usize::try_from(random.next_u64() % below).unwrap();
        let mut good = 0;
        for _ in 0..20_000 {
            let events: Vec<_> = (0..pick(8))
                .map(|_| {
                    let block = pick(3);
                    let call = ToolCall::new(pick(2).to_string(), "t", json!({}));
                    match pick(7) {
                        0 => text(block, ["", "a", "ab"][pick(3)]),
                        1 => ModelEvent::ThinkingDelta { block, delta: "a".into() },
                        2 => ModelEvent::ToolCallStarted { block, id: call.id, name: call.name },
                        3 => ModelEvent::ToolArgumentsDelta { block, delta: "{".into() },
                        4 => ModelEvent::ToolCallFinished { block, call },
                        5 => ModelEvent::Usage(Usage::new(1, 1)),
                        _ => ModelEvent::Finished(AssistantMessage::new(
                            (0..pick(3))
                                .map(|_| match pick(2) {
                                    0 => ContentBlock::from(Text::new("ab")),
                                    _ => call.clone().into(),
                                })
                                .collect::<Vec<_>>(),
                        )),
                    }
                })
                .collect();
            if let Ok(message) = run(&events) {
                good += 1;
                assert_eq!(events.last(), Some(&ModelEvent::Finished(message)), "seed {seed}");
            }
        }
        assert!(good > 100, "seed {seed}: only {good} sequences were good");
    }
}
