//! What a host may say when it is asked for a model.

use std::sync::Arc;

use crate::model::{Model, ModelSelection};

/// A model by name, or a model.
///
/// ```
/// use nervekit_harness::{IntoModel, ModelChoice};
/// assert!(matches!("openai/gpt-5".into_model(), ModelChoice::Named(_)));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ModelChoice {
    /// `provider/id`, or the id of a registered model.
    Named(String),
    /// This one.
    Given(Arc<dyn Model>),
}

/// What can be said when a model is asked for: a name, a selection, or a model.
///
/// ```
/// use nervekit_harness::{IntoModel, ModelChoice, ScriptedModel};
/// fn choose(model: impl IntoModel) -> ModelChoice {
///     model.into_model()
/// }
/// assert!(matches!(choose(ScriptedModel::new([])), ModelChoice::Given(_)));
/// ```
pub trait IntoModel {
    /// The choice.
    fn into_model(self) -> ModelChoice;
}

impl IntoModel for &str {
    fn into_model(self) -> ModelChoice {
        ModelChoice::Named(self.to_owned())
    }
}

impl IntoModel for String {
    fn into_model(self) -> ModelChoice {
        ModelChoice::Named(self)
    }
}

impl IntoModel for ModelSelection {
    fn into_model(self) -> ModelChoice {
        ModelChoice::Named(self.to_string())
    }
}

impl<M: Model> IntoModel for M {
    fn into_model(self) -> ModelChoice {
        ModelChoice::Given(Arc::new(self))
    }
}
