//! Messages in the order that every wire format wants: a batch of calls, directly followed by all of its
//! results, and only then what the user said meanwhile.

use crate::message::{AssistantMessage, Message, Messages, ToolCall, ToolResultMessage, UserMessage};

/// What the text of a missing result says.
pub(crate) const NO_RESULT: &str = "no result is known: the call was interrupted";

/// One step of a conversation on the wire.
pub(crate) enum Step<'a> {
    User(&'a UserMessage),
    Assistant {
        message: &'a AssistantMessage,
        /// Every call of the message, in order, with its result if there is one.
        results: Vec<(&'a ToolCall, Option<&'a ToolResultMessage>)>,
    },
}

/// Puts every result behind its call. A result without a call is left out; a call without a result gets an
/// empty place. Both are faults of the caller that must not make a conversation unusable.
pub(crate) fn steps(messages: &Messages) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    // Where the results go that come next.
    let mut batch = None;
    for message in messages {
        match message {
            Message::User(message) => steps.push(Step::User(message)),
            Message::Assistant(message) => {
                batch = Some(steps.len());
                let results = message.tool_calls().map(|call| (call, None)).collect();
                steps.push(Step::Assistant { message, results });
            }
            Message::ToolResult(result) => {
                if let Some(Step::Assistant { results, .. }) = batch.and_then(|at: usize| steps.get_mut(at)) {
                    let place = results
                        .iter_mut()
                        .find(|(call, found)| found.is_none() && call.id == result.tool_call_id);
                    if let Some((_, found)) = place {
                        *found = Some(result);
                    }
                }
            }
        }
    }
    steps
}
