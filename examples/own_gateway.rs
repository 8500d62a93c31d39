//! A support desk: the company's own model gateway, its own tools, and approvals that go through its chat. No folder.
//!
//! Shows: `model_fn` over a gateway; two function tools, of which one asks; a host without a project; approvals that
//! leave as a message and come back as one, with the digest of what was shown and who said so. A late answer, an answer
//! to an older version and the second of two answers are told apart.
//!
//! Standard input and output stand for the chat, a line of JSON to a message:
//! `{"interaction": …, "digest": …, "user": "alice", "approve": true}`.

use std::sync::Arc;

use nervekit::conversation::CommandError;
use nervekit::harness::{
    AssistantMessage, ContentBlock, Message, ModelInfo, ModelRequest, ProviderError, ToolCall, model_fn,
};
use nervekit::permissions::Risk;
use nervekit::tools::FunctionTool;
use nervekit::types::{Digest, InteractionId, Principal};
use nervekit::{Conversation, Error, Host, Interaction, Resolution, Tool, ToolContext, Update};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};

/// Where the company's gateway is called. Offline, the answer is worked out here: find the order, cancel it, report.
async fn gateway(request: Arc<ModelRequest>) -> Result<AssistantMessage, ProviderError> {
    let call = |tool: &str| {
        let id = format!("call_{}", request.messages.len());
        AssistantMessage::new(vec![ContentBlock::from(ToolCall::new(id, tool, json!({"number": 4711})))])
    };
    Ok(match request.messages.last() {
        Some(Message::ToolResult(result)) if result.tool_name == "find_order" => call("cancel_order"),
        Some(Message::ToolResult(result)) => {
            let done = if result.is_error { "could not be cancelled" } else { "is cancelled" };
            AssistantMessage::text(format!("Order 4711 {done}."))
        }
        _ => call("find_order"),
    })
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Order {
    /// The number on the invoice.
    number: u64,
}

/// Reads only, so it may run beside others, and again: nobody is asked.
fn find_order() -> FunctionTool<Order> {
    Tool::function("find_order", "Tells where an order is.", |order: Order, _: ToolContext| async move {
        Ok(format!("order {} has not left the warehouse", order.number))
    })
    .reviewed(Risk::Read)
    .parallel()
    .replay_safe()
}

/// Nothing is assumed in its favour: it asks, runs alone, and is never repeated.
fn cancel_order() -> FunctionTool<Order> {
    Tool::function("cancel_order", "Cancels an order.", |order: Order, context: ToolContext| async move {
        // The shop takes the key along, so that whatever happens it cancels once.
        Ok(format!("order {} is cancelled ({})", order.number, context.effect_key()))
    })
}

/// An answer from the chat. Who wrote it is what the chat says, not what the text says.
#[derive(Deserialize)]
struct Reply {
    interaction: InteractionId,
    digest: Digest,
    user: String,
    approve: bool,
}

fn post(message: &serde_json::Value) {
    println!("{message}");
}

fn post_request(request: &Interaction) {
    post(
        &json!({"post": "request", "interaction": request.id, "digest": request.digest, "text": request.display()}),
    );
}

/// Carries an answer of the chat to the conversation, and says in the chat what came of it.
async fn resolve(conversation: &Conversation, line: &str) -> Result<(), Error> {
    let Ok(reply) = serde_json::from_str::<Reply>(line) else {
        post(&json!({"post": "refused", "why": "this is no answer to a request"}));
        return Ok(());
    };
    let answer = Resolution::Approve { digest: reply.digest, remember: None };
    let answer = if reply.approve { answer } else { Resolution::deny() };
    let person = conversation.by(Principal::person(reply.user));
    match person.resolve(reply.interaction, answer).await {
        Ok(_) => post(&json!({"post": "accepted", "interaction": reply.interaction})),
        // What was approved is not what would run: the current request is shown instead.
        Err(CommandError::Stale { current }) => post_request(&current),
        Err(error @ (CommandError::Resolved { .. } | CommandError::NotFound(_))) => {
            post(&json!({"post": "refused", "why": error.to_string()}));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn serve(conversation: &Conversation, chat: &mut Lines<BufReader<Stdin>>) -> Result<(), Error> {
    let mut updates = conversation.updates().await?;
    let mut open = true;
    loop {
        tokio::select! {
            line = chat.next_line(), if open => {
                if let Some(line) = line? {
                    resolve(conversation, &line).await?;
                } else {
                    // Nobody answers any more: what waits is called off, so that the work ends.
                    open = false;
                    conversation.stop().await?;
                }
            }
            update = updates.next() => match update.transpose()? {
                Some(Update::Interaction(request)) => post_request(&request),
                Some(Update::Finished(outcome)) => {
                    post(&json!({"post": "outcome", "outcome": outcome}));
                    return Ok(());
                }
                Some(_) => {}
                None => return Ok(()),
            },
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let host = Host::in_memory()
        .model(model_fn(ModelInfo::new("gateway", "large"), gateway))
        .without_local_tools()
        .tool(find_order())
        .tool(cancel_order())
        .system_prompt("You help customers of the shop.")
        .open()
        .await?;
    let conversation = host.start("Please cancel my order 4711.").await?;
    let mut chat = BufReader::new(tokio::io::stdin()).lines();
    serve(&conversation, &mut chat).await?;
    // A thread still waits for a line that nobody needs any more.
    std::process::exit(0)
}
