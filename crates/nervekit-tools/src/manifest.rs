//! Which tools exist.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use nervekit_types::Retry;

use crate::tool::Tool;

/// Says which tools exist now.
///
/// **Contract.** Plain and quick: it is asked at the start of every turn and again before a call runs. A tool
/// that is gone by then, or whose definition has another digest, does not run.
///
/// ```
/// use nervekit_tools::{catalog, Catalog, ToolManifest};
///
/// /// Offers to-dos only.
/// #[derive(Debug)]
/// struct Todos;
///
/// impl ToolManifest for Todos {
///     fn tools(&self) -> Catalog {
///         Catalog::new().with(catalog::todos_set()).with(catalog::todos_get())
///     }
/// }
/// assert!(Todos.tools().get("todos_set").is_some());
/// ```
pub trait ToolManifest: Debug + Send + Sync + 'static {
    /// The tools, as a snapshot.
    fn tools(&self) -> Catalog;
}

macro_rules! forward_manifest {
    ($pointer:ident) => {
        #[deny(clippy::missing_trait_methods)]
        impl<P: ToolManifest + ?Sized> ToolManifest for $pointer<P> {
            fn tools(&self) -> Catalog {
                (**self).tools()
            }
        }
    };
}
forward_manifest!(Arc);
forward_manifest!(Box);
const _: fn(&dyn ToolManifest) = |_| ();

/// A set of tools with unique names, in the order of their names. Cheap to clone.
///
/// ```
/// use nervekit_tools::{catalog, Catalog};
/// let mut tools = Catalog::new();
/// tools.add(catalog::todos_get())?;
/// assert!(tools.add(catalog::todos_get()).is_err());
/// tools.replace(catalog::todos_get().redefine(|definition| definition.label("List to-dos")));
/// assert_eq!(tools.remove("todos_get").unwrap().definition().label, "List to-dos");
/// assert!(tools.is_empty());
/// # Ok::<(), nervekit_tools::CatalogError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    tools: Arc<BTreeMap<String, Tool>>,
}

/// Why a tool cannot be added.
///
/// ```
/// use nervekit_tools::{catalog, Catalog, CatalogError};
/// let error = Catalog::new().with(catalog::ask_user()).add(catalog::ask_user()).unwrap_err();
/// assert!(matches!(error, CatalogError::Duplicate { name } if name == "ask_user"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// There is a tool of this name.
    #[error("there is a tool `{name}` already; use another name, or replace it")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// Providers accept 1 to 64 ASCII letters, digits, `_` and `-` as a tool's name.
    #[error("`{name}` is not a tool name; use 1 to 64 of a-z A-Z 0-9 _ -")]
    Name {
        /// The name.
        name: String,
    },
}

impl CatalogError {
    /// Whether trying again makes sense: not with the same tool.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        Retry::Never
    }
}

impl Catalog {
    /// Makes a catalog without tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether both are one and the same set, told without looking at the tools: a set that was changed, or made
    /// anew, is another one even if it is equal.
    ///
    /// ```
    /// use nervekit_tools::Catalog;
    /// let tools = Catalog::new();
    /// assert!(tools.is_same(&tools.clone()) && !tools.is_same(&Catalog::new()));
    /// ```
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tools, &other.tools)
    }

    /// Adds a tool under a new name.
    pub fn add(&mut self, tool: impl Into<Tool>) -> Result<(), CatalogError> {
        let tool = tool.into();
        let name = tool.definition().name().to_owned();
        if !is_name(&name) {
            return Err(CatalogError::Name { name: nervekit_permissions::display(&name) });
        }
        if self.tools.contains_key(&name) {
            return Err(CatalogError::Duplicate { name });
        }
        Arc::make_mut(&mut self.tools).insert(name, tool);
        Ok(())
    }

    /// Adds a tool, or puts it in the place of the one with its name, which is returned.
    pub fn replace(&mut self, tool: impl Into<Tool>) -> Option<Tool> {
        let tool = tool.into();
        let name = tool.definition().name().to_owned();
        Arc::make_mut(&mut self.tools).insert(name, tool)
    }

    /// [`replace`](Self::replace) in a chain.
    #[must_use]
    pub fn with(mut self, tool: impl Into<Tool>) -> Self {
        self.replace(tool);
        self
    }

    /// Removes a tool.
    pub fn remove(&mut self, name: &str) -> Option<Tool> {
        Arc::make_mut(&mut self.tools).remove(name)
    }

    /// Finds a tool.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// The tools in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.tools.values()
    }

    /// How many tools there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

impl ToolManifest for Catalog {
    fn tools(&self) -> Catalog {
        self.clone()
    }
}

/// The names that every provider accepts.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    static_assertions::assert_obj_safe!(ToolManifest);

    #[test]
    fn names_are_unique_and_sorted() {
        let mut tools = Catalog::new();
        for tool in [catalog::todos_set(), catalog::ask_user(), catalog::todos_get()] {
            tools.add(tool).unwrap();
        }
        let names: Vec<&str> = tools.iter().map(|tool| tool.definition().name()).collect();
        assert_eq!(names, ["ask_user", "todos_get", "todos_set"]);
        assert_eq!(tools.len(), 3);
    }

    #[test]
    fn a_snapshot_does_not_change() {
        let mut tools = Catalog::new().with(catalog::ask_user());
        let snapshot = tools.tools();
        tools.remove("ask_user");
        assert!(snapshot.get("ask_user").is_some() && tools.is_empty());
    }

    #[test]
    fn a_name_that_a_provider_refuses_is_refused() {
        for name in ["", "a b", "ü", &"x".repeat(65), "a.b"] {
            let tool = catalog::ask_user().redefine(|definition| {
                definition.descriptor(|mut descriptor| {
                    descriptor.name = name.to_owned();
                    descriptor
                })
            });
            assert!(matches!(Catalog::new().add(tool), Err(CatalogError::Name { .. })), "{name}");
        }
    }

    #[test]
    fn errors_are_small() {
        assert!(size_of::<CatalogError>() <= 64);
    }
}
