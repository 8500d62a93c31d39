//! A tool: its definition, its arguments, and who carries out its calls.

use std::fmt::{self, Debug};
use std::sync::{Arc, OnceLock};

use nervekit_permissions::{EffectiveArguments, Target, TargetSubject, ToolDescriptor};
use nervekit_types::Digest;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::argument::{ArgumentError, ArgumentType, Effective, decode};
use crate::context::ToolContext;
use crate::definition::ToolDefinition;
use crate::error::ToolError;
use crate::executor::ToolExecutor;
use crate::function::FunctionTool;
use crate::outcome::ToolOutcome;

type Targets = dyn Fn(&EffectiveArguments) -> Vec<Target> + Send + Sync;

/// A tool: its definition (data), the type of its arguments, and its executor. Cheap to clone.
///
/// ```
/// use nervekit_permissions::{EffectiveArguments, Risk};
/// use nervekit_tools::{Tool, ToolContext};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, Serialize, JsonSchema)]
/// struct Sum {
///     numbers: Vec<i64>,
/// }
///
/// let sum: Tool = Tool::function("sum", "Adds numbers.", async |args: Sum, _: ToolContext| {
///     Ok(args.numbers.iter().sum::<i64>().to_string())
/// })
/// .reviewed(Risk::Read)
/// .parallel()
/// .replay_safe()
/// .into();
/// let effective = sum.effective(&EffectiveArguments::parse(r#"{"numbers": "[1, 2]"}"#)?)?;
/// assert_eq!(effective.arguments.as_value(), &serde_json::json!({"numbers": [1, 2]}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Tool {
    pub(crate) definition: Arc<ToolDefinition>,
    pub(crate) arguments: ArgumentType,
    pub(crate) executor: Option<Arc<dyn ToolExecutor>>,
    targets: Option<Arc<Targets>>,
    derived: Arc<OnceLock<Derived>>,
}

/// What every call needs of the definition, and what takes longer to make than a call.
struct Derived {
    digest: Digest,
    descriptor: Arc<ToolDescriptor>,
}

impl Tool {
    /// Makes a tool that an executor carries out.
    ///
    /// ```
    /// use nervekit_tools::{ArgumentType, Tool, ToolDefinition};
    /// # use nervekit_tools::{ToolCall, ToolContext, ToolError, ToolExecutor, ToolOutcome, ToolOutput};
    /// # #[derive(Debug)]
    /// # struct Echo;
    /// # #[async_trait::async_trait]
    /// # impl ToolExecutor for Echo {
    /// #     async fn execute(&self, call: ToolCall, _: ToolContext) -> Result<ToolOutcome, ToolError> {
    /// #         Ok(ToolOutput::text(call.arguments.as_value().to_string()).into())
    /// #     }
    /// # }
    /// #[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
    /// struct Message {
    ///     text: String,
    /// }
    /// let arguments = ArgumentType::of::<Message>();
    /// let definition = ToolDefinition::unreviewed("echo", "Repeats a text.", arguments.schema().clone());
    /// let echo = Tool::new(definition, arguments, Echo);
    /// assert!(echo.executor().is_some());
    /// ```
    #[must_use]
    pub fn new(definition: ToolDefinition, arguments: ArgumentType, executor: impl ToolExecutor) -> Self {
        Self { executor: Some(Arc::new(executor)), ..Self::handled_elsewhere(definition, arguments) }
    }

    /// Makes a tool without an executor: the conversation core carries out its calls, or whoever adds an executor with
    /// [`carried_out_by`](Self::carried_out_by). Until then it is data: rules can be tried on it, and no model is
    /// offered it.
    ///
    /// ```
    /// use nervekit_tools::{catalog, HandledBy};
    /// let ask_user = catalog::ask_user();
    /// assert_eq!(ask_user.definition().handled_by, HandledBy::Core);
    /// assert!(ask_user.executor().is_none());
    /// ```
    #[must_use]
    pub fn handled_elsewhere(definition: ToolDefinition, arguments: ArgumentType) -> Self {
        let derived = Arc::default();
        Self { definition: Arc::new(definition), arguments, executor: None, targets: None, derived }
    }

    /// Adds an executor, or puts it in the place of the one that is there.
    ///
    /// A tool of the conversation core stays the core's; a host that carries one out itself also says so, with
    /// [`redefine`](Self::redefine) and [`ToolDefinition::handled_by`].
    ///
    /// ```
    /// use nervekit_tools::catalog::{self, WebSearch};
    /// # use nervekit_tools::{ToolCall, ToolContext, ToolError, ToolExecutor, ToolOutcome, ToolOutput};
    /// #[derive(Debug)]
    /// struct Archive;
    ///
    /// #[async_trait::async_trait]
    /// impl ToolExecutor for Archive {
    ///     async fn execute(&self, call: ToolCall, _: ToolContext) -> Result<ToolOutcome, ToolError> {
    ///         let WebSearch { query, .. } = call.typed()?;
    ///         Ok(ToolOutput::text(format!("nothing about {query}")).into())
    ///     }
    /// }
    /// let search = catalog::web_search();
    /// assert!(search.executor().is_none());
    /// let search = search.carried_out_by(Archive);
    /// assert!(search.executor().is_some());
    /// ```
    #[must_use]
    pub fn carried_out_by(self, executor: impl ToolExecutor) -> Self {
        Self { executor: Some(Arc::new(executor)), ..self }
    }

    /// Computes the targets of a call from its typed arguments.
    pub(crate) fn with_targets<A: DeserializeOwned>(
        self,
        targets: impl Fn(&A) -> Vec<Target> + Send + Sync + 'static,
    ) -> Self {
        let targets = move |arguments: &EffectiveArguments| {
            // Effective arguments decode; others have no targets and fail closed as the tool as a whole.
            decode(arguments.as_value().clone()).map_or_else(|_| Vec::new(), |typed| targets(&typed))
        };
        Self { targets: Some(Arc::new(targets)), ..self }
    }

    /// Makes a tool of an async function over typed arguments.
    ///
    /// The function returns anything that becomes a [`ToolOutcome`] (a text, [`Json`](crate::Json), a
    /// [`ToolOutput`](crate::ToolOutput), …) or an error. The defaults fail closed: unknown risk, the whole tool as
    /// target, sequential, not replay-safe; the methods of [`FunctionTool`] say otherwise.
    ///
    /// ```
    /// use nervekit_permissions::{Risk, Target};
    /// use nervekit_tools::{Tool, ToolContext};
    ///
    /// #[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
    /// struct Note {
    ///     path: String,
    ///     text: String,
    /// }
    ///
    /// let note = Tool::function("append_note", "Appends a line to a note.", |args: Note, context: ToolContext| async move {
    ///     let file = context.path("path")?; // the decided path of that argument
    ///     let old = std::io::read_to_string(file.open()?)?;
    ///     file.replace(format!("{old}{}\n", args.text).as_bytes())?;
    ///     Ok(format!("appended to {}", file.display()))
    /// })
    /// .reviewed(Risk::Write)
    /// .targets(|args| vec![Target::path(&args.path).write()]);
    /// assert_eq!(note.as_ref().definition().name(), "append_note");
    /// ```
    #[must_use]
    pub fn function<A, F, Fut, O>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> FunctionTool<A>
    where
        A: DeserializeOwned + Serialize + JsonSchema + Send + 'static,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, ToolError>> + Send,
        O: Into<ToolOutcome>,
    {
        FunctionTool::new(name.into(), description.into(), function)
    }

    /// The tool as data.
    #[must_use]
    pub const fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    /// The digest of the definition, made once.
    ///
    /// ```
    /// let tool = nervekit_tools::catalog::ask_user();
    /// assert_eq!(tool.digest(), tool.definition().digest());
    /// ```
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.derived().digest
    }

    /// What the permission engine judges calls by, shared.
    ///
    /// ```
    /// let tool = nervekit_tools::catalog::ask_user();
    /// assert_eq!(**tool.descriptor(), tool.definition().descriptor);
    /// ```
    #[must_use]
    pub fn descriptor(&self) -> &Arc<ToolDescriptor> {
        &self.derived().descriptor
    }

    fn derived(&self) -> &Derived {
        self.derived.get_or_init(|| Derived {
            digest: self.definition.digest(),
            descriptor: Arc::new(self.definition.descriptor.clone()),
        })
    }

    /// Who carries out calls; `None` where the core or the host does.
    #[must_use]
    pub const fn executor(&self) -> Option<&Arc<dyn ToolExecutor>> {
        self.executor.as_ref()
    }

    /// Validates arguments: the value that is judged, stored and executed. Pure.
    pub fn effective(&self, arguments: &EffectiveArguments) -> Result<Effective, ArgumentError> {
        self.arguments.effective(arguments)
    }

    /// The targets of a call that the author computes; where there are any, they count in the place of those that the
    /// descriptor's selectors find.
    /// `arguments` are effective ones. A target names the argument whose text it is, so that
    /// [`ToolContext::path`] finds it.
    #[must_use]
    pub fn targets(&self, arguments: &EffectiveArguments) -> Vec<Target> {
        let Some(targets) = &self.targets else { return Vec::new() };
        let named = |target: Target| match (&target.argument, &target.subject) {
            (None, TargetSubject::Path(text) | TargetSubject::Url(text)) => {
                match argument_of(arguments.as_value(), text) {
                    Some(argument) => target.argument(argument),
                    None => target,
                }
            }
            _ => target,
        };
        targets(arguments).into_iter().map(named).collect()
    }

    /// Changes the definition: a host may word, group or bound a catalog tool otherwise.
    ///
    /// ```
    /// use nervekit_tools::{catalog, OutputBudget};
    /// let tool = catalog::todos_get().redefine(|definition| definition.budget(OutputBudget::new(1_000, 20)));
    /// assert_eq!(tool.definition().budget.lines, 20);
    /// ```
    #[must_use]
    pub fn redefine(self, change: impl FnOnce(ToolDefinition) -> ToolDefinition) -> Self {
        let definition = Arc::new(change(Arc::unwrap_or_clone(self.definition)));
        Self { definition, derived: Arc::default(), ..self }
    }
}

/// The dotted path of the first text that is equal.
fn argument_of(value: &Value, wanted: &str) -> Option<String> {
    fn below(value: &Value, wanted: &str, path: &str) -> Option<String> {
        let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        match value {
            Value::String(text) => (text == wanted).then(|| path.to_owned()),
            Value::Object(members) => {
                members.iter().find_map(|(name, value)| below(value, wanted, &join(name)))
            }
            Value::Array(items) => {
                items.iter().enumerate().find_map(|(at, value)| below(value, wanted, &join(&at.to_string())))
            }
            _ => None,
        }
    }
    below(value, wanted, "")
}

impl AsRef<Self> for Tool {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("definition", &self.definition)
            .field("executor", &self.executor)
            .finish_non_exhaustive()
    }
}
