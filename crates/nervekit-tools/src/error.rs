//! Why a tool call failed, as the model and the host see it.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// Why a tool call failed.
///
/// It is deliberately not a [`std::error::Error`]: so `?` turns any error into it. The model reads
/// [`for_model`](Self::for_model): the text that the author chose with [`new`](Self::new), else only the kind of
/// fault, because the text of a foreign error may hold paths, addresses or secrets. The host keeps the source.
///
/// ```
/// use nervekit_tools::ToolError;
///
/// fn port(text: &str) -> Result<u16, ToolError> {
///     let port = text.parse()?; // any error
///     if port == 0 {
///         return Err(ToolError::new("port 0 cannot be contacted; give 1 to 65535"));
///     }
///     Ok(port)
/// }
/// assert_eq!(port("0").unwrap_err().for_model(), "port 0 cannot be contacted; give 1 to 65535");
/// let error = port("x").unwrap_err();
/// assert_eq!(error.for_model(), "the tool failed for an internal reason");
/// assert_eq!(error.source().unwrap().to_string(), "invalid digit found in string");
/// ```
pub struct ToolError {
    text: Cow<'static, str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ToolError {
    /// Makes an error with a text meant for the model: what was wrong and what would work.
    #[must_use]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into(), source: None }
    }

    /// Keeps a cause for the host; the model does not read it.
    ///
    /// ```
    /// use nervekit_tools::ToolError;
    /// let cause = std::io::Error::other("10.0.0.7 refused");
    /// let error = ToolError::new("the build server cannot be reached").because(cause);
    /// assert!(!error.for_model().contains("10.0.0.7"));
    /// assert!(error.source().is_some());
    /// ```
    #[must_use]
    pub fn because(self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    /// What the model reads.
    #[must_use]
    pub fn for_model(&self) -> &str {
        &self.text
    }

    /// What the host may log: the cause, when there is one.
    #[must_use]
    pub fn source(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        let text = io_kind(&error).unwrap_or("the tool failed for an internal reason");
        Self { text: Cow::Borrowed(text), source: Some(Box::new(error)) }
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolError").field("text", &self.text).field("source", &self.source).finish()
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The words for the kinds of [`io::Error`] that a model can act on.
fn io_kind(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    let kind = error.downcast_ref::<io::Error>()?.kind();
    Some(match kind {
        io::ErrorKind::NotFound => "not found",
        io::ErrorKind::PermissionDenied => "the operating system refused access",
        io::ErrorKind::AlreadyExists => "it exists already",
        io::ErrorKind::IsADirectory => "it is a folder, not a file",
        io::ErrorKind::NotADirectory => "a part of the path is not a folder",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "no space is left",
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only",
        io::ErrorKind::TimedOut => "it took too long",
        io::ErrorKind::ConnectionRefused => "the connection was refused",
        io::ErrorKind::InvalidFilename => "the file name is not valid here",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    static_assertions::assert_not_impl_any!(ToolError: std::error::Error);

    #[test]
    fn the_model_reads_a_kind_and_never_the_text_of_a_foreign_error() {
        let error = ToolError::from(io::Error::new(io::ErrorKind::NotFound, "/home/ann/.secret"));
        assert_eq!(error.for_model(), "not found");
        assert_eq!(error.source().unwrap().to_string(), "/home/ann/.secret");
    }
}
