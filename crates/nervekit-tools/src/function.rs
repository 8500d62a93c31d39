//! Tools made of one async function.

use std::fmt::{self, Debug};
use std::marker::PhantomData;

use async_trait::async_trait;
use nervekit_permissions::{Risk, Target, ToolKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::argument::ArgumentType;
use crate::context::ToolContext;
use crate::definition::ToolDefinition;
use crate::error::ToolError;
use crate::executor::{ToolCall, ToolExecutor};
use crate::outcome::ToolOutcome;
use crate::projection::OutputBudget;
use crate::tool::Tool;

/// A [`Tool`] made by [`Tool::function`] while its arguments' type is still known; it becomes a `Tool` with
/// `into()`, or by being added to a [`Catalog`](crate::Catalog).
///
/// ```
/// use nervekit_permissions::{Risk, Target};
/// use nervekit_tools::{Execution, Tool, ToolContext};
///
/// #[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
/// struct Line { path: String }
///
/// let tool = Tool::function("first_line", "Reads the first line of a file.", async |_: Line, context: ToolContext| {
///         let text = std::io::read_to_string(context.path("path")?.open()?)?;
///         Ok(text.lines().next().unwrap_or_default().to_owned())
///     })
///     .reviewed(Risk::Read)
///     .targets(|args| vec![Target::path(&args.path)])
///     .parallel()
///     .replay_safe();
/// assert_eq!(tool.as_ref().definition().execution, Execution::Parallel);
/// ```
#[derive(Clone)]
pub struct FunctionTool<A> {
    tool: Tool,
    arguments: PhantomData<fn(A)>,
}

impl<A: DeserializeOwned + Serialize + JsonSchema + Send + 'static> FunctionTool<A> {
    pub(crate) fn new<F, Fut, O>(name: String, description: String, function: F) -> Self
    where
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send,
        O: Into<ToolOutcome>,
    {
        let arguments = ArgumentType::of::<A>();
        let definition = ToolDefinition::unreviewed(name, description, arguments.schema().clone());
        let executor = Function { function, arguments: PhantomData };
        Self { tool: Tool::new(definition, arguments, executor), arguments: PhantomData }
    }

    /// States what a call can do at worst. Without this anything is possible, and every rule set that asks or
    /// denies by risk does so.
    #[must_use]
    pub fn reviewed(self, risk: Risk) -> Self {
        self.redefine(|definition| {
            definition.descriptor(|mut descriptor| {
                descriptor.base_risk = risk;
                descriptor
            })
        })
    }

    /// States the kind of work.
    #[must_use]
    pub fn kind(self, kind: ToolKind) -> Self {
        self.redefine(|definition| {
            definition.descriptor(|mut descriptor| {
                descriptor.kind = kind;
                descriptor
            })
        })
    }

    /// Computes the targets of a call from its arguments. Each becomes a decided path or URL of the context,
    /// under the argument whose text it is. The tool as a whole is then no target any more; a call for which
    /// none is computed still has it.
    #[must_use]
    pub fn targets(mut self, targets: impl Fn(&A) -> Vec<Target> + Send + Sync + 'static) -> Self {
        self = self.redefine(|definition| {
            definition.descriptor(|mut descriptor| {
                descriptor.whole_tool = false;
                descriptor
            })
        });
        self.tool = self.tool.with_targets(targets);
        self
    }

    /// Lets calls run beside each other.
    #[must_use]
    pub fn parallel(self) -> Self {
        self.redefine(ToolDefinition::parallel)
    }

    /// Says that a call that may have happened can be made again without harm.
    #[must_use]
    pub fn replay_safe(self) -> Self {
        self.redefine(ToolDefinition::replay_safe)
    }

    /// Sets the name that a person reads.
    #[must_use]
    pub fn label(self, label: impl Into<String>) -> Self {
        self.redefine(|definition| definition.label(label))
    }

    /// Sets how much of a result the model reads.
    #[must_use]
    pub fn budget(self, budget: OutputBudget) -> Self {
        self.redefine(|definition| definition.budget(budget))
    }

    /// Changes anything else of the definition.
    #[must_use]
    pub fn redefine(self, change: impl FnOnce(ToolDefinition) -> ToolDefinition) -> Self {
        Self { tool: self.tool.redefine(change), ..self }
    }
}

impl<A> AsRef<Tool> for FunctionTool<A> {
    fn as_ref(&self) -> &Tool {
        &self.tool
    }
}

impl<A> From<FunctionTool<A>> for Tool {
    fn from(function: FunctionTool<A>) -> Self {
        function.tool
    }
}

impl<A> Debug for FunctionTool<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tool.fmt(f)
    }
}

struct Function<A, F> {
    function: F,
    arguments: PhantomData<fn(A)>,
}

impl<A, F> Debug for Function<A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Function")
    }
}

#[async_trait]
impl<A, F, Fut, O> ToolExecutor for Function<A, F>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send,
    O: Into<ToolOutcome>,
{
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError> {
        let future = (self.function)(call.typed()?, context);
        future.await.map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use nervekit_permissions::EffectiveArguments;
    use serde::Deserialize;

    use super::*;
    use crate::definition::Execution;

    #[derive(Deserialize, Serialize, JsonSchema)]
    struct Note {
        path: String,
        text: String,
    }

    fn note() -> FunctionTool<Note> {
        Tool::function("note", "Notes.", |args: Note, _: ToolContext| async move { Ok(args.text) })
    }

    #[test]
    fn the_defaults_fail_closed() {
        let tool: Tool = note().into();
        let definition = tool.definition();
        assert_eq!(definition.descriptor.base_risk, Risk::Unknown);
        assert_eq!(definition.descriptor.kind, ToolKind::Other);
        assert!(definition.descriptor.groups.is_empty());
        assert!(definition.descriptor.whole_tool);
        assert_eq!(definition.execution, Execution::Sequential);
        assert!(!definition.replay_safe);
        assert_eq!(definition.parameters["additionalProperties"], false);
    }

    #[test]
    fn computed_targets_name_the_argument_whose_text_they_are() {
        let tool: Tool = note().targets(|args| vec![Target::path(&args.path).write()]).into();
        let arguments = EffectiveArguments::parse(r#"{"path": "a", "text": "b"}"#).unwrap();
        let targets = tool.targets(&arguments);
        assert_eq!(targets, [Target::path("a").write().argument("path")]);
        assert!(!tool.definition().descriptor.whole_tool);
    }
}
