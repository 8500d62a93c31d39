//! From the arguments that a model sent to the value that is judged, stored and executed.

use std::fmt;
use std::sync::Arc;

use nervekit_permissions::EffectiveArguments;
use nervekit_types::Retry;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod alternative;
mod schema;

/// Arguments after validation: coerced where a slip was unambiguous, decoded, and written back with defaults.
///
/// This is the value that rules match, a person approves, the store keeps and the executor gets.
///
/// ```
/// use nervekit_permissions::EffectiveArguments;
/// use nervekit_tools::Effective;
/// let effective = Effective::new(EffectiveArguments::parse("{}")?).note("`limit` was sent as text and read as a number");
/// assert_eq!(effective.notes.len(), 1);
/// # Ok::<(), nervekit_permissions::ArgumentsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Effective {
    /// The arguments.
    pub arguments: EffectiveArguments,
    /// What was coerced, one sentence each.
    pub notes: Vec<String>,
}

impl Effective {
    /// Takes arguments as they are.
    #[must_use]
    pub const fn new(arguments: EffectiveArguments) -> Self {
        Self { arguments, notes: Vec::new() }
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// Why arguments do not fit a tool. The text is meant for the model.
///
/// ```
/// use nervekit_tools::ArgumentError;
/// let error = ArgumentError::new("edits[0].old_text", "is missing");
/// assert_eq!(error.to_string(), "argument `edits[0].old_text` is missing");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct ArgumentError {
    /// Where in the arguments, empty for the whole object.
    pub path: String,
    /// What is wrong there and what would work.
    pub problem: Box<str>,
}

impl ArgumentError {
    /// Says what is wrong and where.
    #[must_use]
    pub fn new(path: impl Into<String>, problem: impl Into<Box<str>>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }

    /// Whether trying again makes sense: not with the same arguments.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        Retry::Never
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            write!(f, "the arguments are not valid: {}", self.problem)
        } else {
            write!(f, "argument `{}` {}", self.path, self.problem)
        }
    }
}

type Validate = dyn Fn(&EffectiveArguments) -> Result<Effective, ArgumentError> + Send + Sync;

/// How the arguments of a tool are described and validated.
///
/// ```
/// use nervekit_permissions::EffectiveArguments;
/// use nervekit_tools::ArgumentType;
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, Serialize, JsonSchema)]
/// struct Window {
///     /// The first line.
///     #[serde(default)]
///     offset: u32,
///     limit: Option<u32>,
/// }
/// let window = ArgumentType::of::<Window>();
/// let sent = EffectiveArguments::parse(r#"{"limit": "20"}"#)?;
/// let effective = window.effective(&sent)?;
/// assert_eq!(effective.arguments.as_value(), &serde_json::json!({"offset": 0, "limit": 20}));
/// assert_eq!(effective.notes, ["`limit` was sent as text and read as a number"]);
///
/// let wrong = EffectiveArguments::parse(r#"{"line": 3}"#)?;
/// assert_eq!(
///     window.effective(&wrong).unwrap_err().to_string(),
///     "argument `line` is unknown; known are `limit`, `offset`"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ArgumentType {
    schema: Arc<Value>,
    validate: Arc<Validate>,
}

impl ArgumentType {
    /// Describes a Rust type. Fields that it does not have are refused, whether or not it says so itself, so
    /// the names of `serde(alias)` are not known either.
    ///
    /// Arguments that exclude each other are an enum: flattened into the type, or the type itself with a tag. A call
    /// takes exactly one variant; fields of another one are refused too.
    ///
    /// ```
    /// use nervekit_permissions::EffectiveArguments;
    /// use nervekit_tools::ArgumentType;
    ///
    /// #[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
    /// #[serde(tag = "action", rename_all = "snake_case")]
    /// enum Note {
    ///     /// Adds a note.
    ///     Add { text: String },
    ///     /// Removes a note.
    ///     Remove { number: u32 },
    /// }
    /// let note = ArgumentType::of::<Note>();
    /// let sent = EffectiveArguments::parse(r#"{"action": "remove", "text": "milk"}"#)?;
    /// assert_eq!(
    ///     note.effective(&sent).unwrap_err().to_string(),
    ///     "argument `number` is missing; the action `remove` needs it"
    /// );
    /// assert_eq!(note.schema()["properties"]["action"]["enum"], serde_json::json!(["add", "remove"]));
    /// # Ok::<(), nervekit_permissions::ArgumentsError>(())
    /// ```
    #[must_use]
    pub fn of<A: DeserializeOwned + Serialize + JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
        schema::close(&mut schema);
        let choices = alternative::hoist(&mut schema);
        let schema = Arc::new(schema);
        let known = schema.clone();
        let validate = move |arguments: &EffectiveArguments| {
            let mut value = arguments.as_value().clone();
            let mut notes = Vec::new();
            schema::coerce(&known, &mut value, &mut notes)?;
            for choice in &choices {
                choice.check(&mut value)?;
            }
            let typed: A = decode(value)?;
            let mut value =
                serde_json::to_value(&typed).map_err(|error| ArgumentError::new("", error.to_string()))?;
            schema::drop_absent(&known, &mut value);
            let arguments =
                EffectiveArguments::new(value).map_err(|error| ArgumentError::new("", error.to_string()))?;
            Ok(Effective { arguments, notes })
        };
        Self { schema, validate: Arc::new(validate) }
    }

    /// Describes arguments by a schema that is only known at run time, with the function that validates them.
    ///
    /// ```
    /// use nervekit_permissions::EffectiveArguments;
    /// use nervekit_tools::{ArgumentError, ArgumentType, Effective};
    /// let schema = serde_json::json!({"type": "object", "additionalProperties": false});
    /// let none = ArgumentType::by_schema(schema, |arguments| match arguments.as_value() {
    ///     value if value == &serde_json::json!({}) => Ok(Effective::new(arguments.clone())),
    ///     _ => Err(ArgumentError::new("", "this tool takes no arguments")),
    /// });
    /// assert!(none.effective(&EffectiveArguments::parse("{}")?).is_ok());
    /// # Ok::<(), nervekit_permissions::ArgumentsError>(())
    /// ```
    #[must_use]
    pub fn by_schema(
        schema: Value,
        validate: impl Fn(&EffectiveArguments) -> Result<Effective, ArgumentError> + Send + Sync + 'static,
    ) -> Self {
        Self { schema: Arc::new(schema), validate: Arc::new(validate) }
    }

    /// The JSON Schema (draft 2020-12) that the model reads.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Validates arguments. It is pure, and a fixed point: what it returns is accepted and stays the same.
    pub fn effective(&self, arguments: &EffectiveArguments) -> Result<Effective, ArgumentError> {
        (self.validate)(arguments)
    }
}

impl fmt::Debug for ArgumentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArgumentType").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Decodes typed arguments, with the place of a fault in the error.
pub(crate) fn decode<A: DeserializeOwned>(value: Value) -> Result<A, ArgumentError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let problem = error.into_inner().to_string();
        if path == "." {
            ArgumentError::new("", problem)
        } else {
            ArgumentError::new(path, format!("is not valid: {problem}"))
        }
    })
}

#[cfg(test)]
mod tests;
