//! Who did something.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What sort of actor a [`Principal`] is.
///
/// ```
/// use nervekit_types::{Principal, PrincipalKind};
/// assert_eq!(Principal::local().kind(), PrincipalKind::Person);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PrincipalKind {
    /// A person.
    Person,
    /// A program that answers in a person's stead, by a rule that the host names.
    Automatic,
    /// The runtime itself.
    Runtime,
}

/// Who gave a command or resolved an interaction. It is stored with the event it caused.
///
/// The name is opaque: whatever the host authenticates by.
///
/// ```
/// use nervekit_types::Principal;
/// assert_eq!(Principal::person("alice@example.org").to_string(), "alice@example.org");
/// assert_eq!(Principal::automatic("--yes").to_string(), "automatic:--yes");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    kind: PrincipalKind,
    name: String,
}

impl Principal {
    /// The one person of a program that runs on their own machine.
    #[must_use]
    pub fn local() -> Self {
        Self::person("local")
    }

    /// A person the host knows by this name.
    #[must_use]
    pub fn person(name: impl Into<String>) -> Self {
        Self { kind: PrincipalKind::Person, name: name.into() }
    }

    /// A program that answers by a rule, such as a flag on the command line.
    #[must_use]
    pub fn automatic(rule: impl Into<String>) -> Self {
        Self { kind: PrincipalKind::Automatic, name: rule.into() }
    }

    /// The runtime itself, for what it decides on its own.
    #[must_use]
    pub fn runtime() -> Self {
        Self { kind: PrincipalKind::Runtime, name: "nervekit".to_owned() }
    }

    /// What sort of actor this is.
    #[must_use]
    pub const fn kind(&self) -> PrincipalKind {
        self.kind
    }

    /// The name, without its kind.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Default for Principal {
    fn default() -> Self {
        Self::local()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            PrincipalKind::Person => f.write_str(&self.name),
            PrincipalKind::Automatic => write!(f, "automatic:{}", self.name),
            PrincipalKind::Runtime => write!(f, "runtime:{}", self.name),
        }
    }
}
