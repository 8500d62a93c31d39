use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use super::forward;
use crate::command::{CommandRequest, Receipt};
use crate::error::{CommandError, QueryError};
use crate::query::{Query, View};
use crate::update::{Cursor, Scope, Updates};

/// The whole API as data: what the handles are made of. [`ConversationCore`](crate::ConversationCore) carries
/// it out; a host may put a remote, recording or checking one in between.
///
/// **Contract.**
/// - A command is either not begun or runs to its end; dropping the future drops only the answer. What a
///   receipt says is durable. The same [`CommandRequest::id`] again returns the first outcome.
/// - A query is one consistent read.
/// - [`follow`](Self::follow) begins with the events after the cursor, then goes on live. Live updates are never
///   needed for correctness.
///
/// A recorder of commands:
///
/// ```
/// use std::sync::Mutex;
/// use async_trait::async_trait;
/// use nervekit_conversation_core::{
///     CommandError, CommandRequest, Conversations, Cursor, Query, QueryError, Receipt, Scope, Updates, View,
/// };
///
/// #[derive(Debug)]
/// struct Recorder<C>(C, Mutex<Vec<CommandRequest>>);
///
/// #[async_trait]
/// impl<C: Conversations> Conversations for Recorder<C> {
///     async fn command(&self, request: CommandRequest) -> Result<Receipt, CommandError> {
///         self.1.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(request.clone());
///         self.0.command(request).await
///     }
///     async fn query(&self, query: Query) -> Result<View, QueryError> {
///         self.0.query(query).await
///     }
///     async fn follow(&self, scope: Scope, after: Cursor) -> Result<Updates, QueryError> {
///         self.0.follow(scope, after).await
///     }
/// }
/// ```
#[async_trait]
pub trait Conversations: Debug + Send + Sync + 'static {
    /// Carries out a command.
    async fn command(&self, request: CommandRequest) -> Result<Receipt, CommandError>;

    /// Answers a query.
    async fn query(&self, query: Query) -> Result<View, QueryError>;

    /// Follows conversations from a cursor.
    async fn follow(&self, scope: Scope, after: Cursor) -> Result<Updates, QueryError>;
}

forward!(Conversations {
    fn command(&self, request: CommandRequest) -> Result<Receipt, CommandError>;
    fn query(&self, query: Query) -> Result<View, QueryError>;
    fn follow(&self, scope: Scope, after: Cursor) -> Result<Updates, QueryError>;
});
