//! A text that is never printed.

use std::fmt;

/// A credential. It has no `Display`, its `Debug` hides it, and it cannot be serialised.
///
/// ```
/// use nervekit_types::Secret;
/// let key = Secret::new("sk-live-1");
/// assert_eq!(format!("{key:?}"), "Secret(…)");
/// assert_eq!(key.expose(), "sk-live-1");
/// ```
///
/// ```compile_fail,E0277
/// println!("{}", nervekit_types::Secret::new("sk-live-1"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Takes a text out of sight.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
