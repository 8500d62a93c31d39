//! Wire formats as pure functions and small machines: requests to JSON, bytes to events. They wait for
//! nothing and panic on nothing, for gateways that have their own transport.

pub mod openai_chat;
pub mod sse;

mod history;
