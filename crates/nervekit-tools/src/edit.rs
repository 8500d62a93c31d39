//! Replacing texts in a file: pure, exact, all or nothing.
//!
//! A model sees a file with line feeds only. So a line feed in the searched text matches a line feed or a
//! carriage return with line feed, and nothing else is lenient: what differs in a letter, a digit, a space or a
//! quote is not found. Bytes outside of the matches stay as they are, whatever their encoding.

use std::fmt;
use std::ops::Range;

use nervekit_types::Retry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod nearest;

use nearest::nearest;

/// One replacement.
///
/// ```
/// use nervekit_tools::edit::Edit;
/// let edit = Edit::new("old", "new");
/// assert_eq!(edit.old_text, "old");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Edit {
    /// Text to find, exactly as in the file, without line numbers. It must occur exactly once: include enough
    /// of the lines around it.
    pub old_text: String,
    /// Text to put in its place. Empty removes it.
    pub new_text: String,
}

impl Edit {
    /// Replaces one text by another.
    #[must_use]
    pub fn new(old_text: impl Into<String>, new_text: impl Into<String>) -> Self {
        Self { old_text: old_text.into(), new_text: new_text.into() }
    }
}

/// Why edits were not made. Nothing of them was. The text is meant for the model.
///
/// `edit` counts from 1 in the messages and from 0 in the fields.
///
/// ```
/// use nervekit_tools::edit::{apply, Edit, EditError};
/// let error = apply(b"a a", &[Edit::new("a", "b")]).unwrap_err();
/// assert!(matches!(error, EditError::Ambiguous { edit: 0, count: 2, .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// There is no edit.
    #[error("no edit was given")]
    NoEdits,
    /// The searched text is empty or blank, which is found anywhere.
    #[error("edit {}: `old_text` is blank; give a text that occurs exactly once (`write` makes or replaces a file)", edit + 1)]
    Blank {
        /// Which edit.
        edit: usize,
    },
    /// Old and new text are the same.
    #[error("edit {}: `old_text` and `new_text` are the same", edit + 1)]
    Same {
        /// Which edit.
        edit: usize,
    },
    /// The searched text does not occur.
    #[error("edit {}: `old_text` does not occur in the file{}", edit + 1, Near(near))]
    NotFound {
        /// Which edit.
        edit: usize,
        /// A similar place, when there is one.
        near: Option<Box<Nearest>>,
    },
    /// The searched text occurs more than once, overlapping occurrences counted.
    #[error("edit {}: `old_text` occurs {count} times, on lines {}; include more of the lines around the one you mean", edit + 1, Lines(lines))]
    Ambiguous {
        /// Which edit.
        edit: usize,
        /// How often.
        count: usize,
        /// The lines of the first ten occurrences, from 1.
        lines: Box<[usize]>,
    },
    /// Two edits change the same place.
    #[error("edits {} and {} overlap on line {line}; make one edit of them", first + 1, second + 1)]
    Overlap {
        /// One edit.
        first: usize,
        /// The other.
        second: usize,
        /// The line where the second begins, from 1.
        line: usize,
    },
}

impl EditError {
    /// Whether trying again makes sense: not with the same edits on the same file.
    #[must_use]
    pub const fn retry(&self) -> Retry {
        Retry::Never
    }
}

/// A place that is like the searched text.
///
/// ```
/// use nervekit_tools::edit::{apply, Edit, EditError};
/// let error = apply(b"let  x = 1;", &[Edit::new("let x = 1;", "")]).unwrap_err();
/// let EditError::NotFound { near: Some(near), .. } = error else { panic!() };
/// assert_eq!((near.line, &*near.text), (1, "let  x = 1;"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nearest {
    /// Its first line, from 1.
    pub line: usize,
    /// What it reads there, shortened.
    pub text: String,
    /// How it differs.
    pub difference: Difference,
}

/// How a near place differs from the searched text.
///
/// ```
/// use nervekit_tools::edit::Difference;
/// assert_eq!(Difference::Case.to_string(), "differs only in upper and lower case");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// In spaces, tabs or line breaks only.
    Whitespace,
    /// In the form of quotes, dashes or ellipses only.
    Punctuation,
    /// In upper and lower case only.
    Case,
    /// In something else.
    Other,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whitespace => "differs only in white space",
            Self::Punctuation => "differs only in quotes or dashes",
            Self::Case => "differs only in upper and lower case",
            Self::Other => "is the most similar",
        })
    }
}

struct Near<'a>(&'a Option<Box<Nearest>>);

impl fmt::Display for Near<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(near) => write!(f, "; line {} {}: `{}`", near.line, near.difference, near.text),
            None => f.write_str("; read the file again"),
        }
    }
}

struct Lines<'a>(&'a [usize]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.iter().enumerate() {
            write!(f, "{}{line}", if index == 0 { "" } else { ", " })?;
        }
        if self.0.len() == MOST_LINES { f.write_str(", …") } else { Ok(()) }
    }
}

/// How many lines of an ambiguous text are named.
const MOST_LINES: usize = 10;

/// Makes all edits, each found in the original, or none.
///
/// Line ends of a new text become those of the text it replaces, line by line; where that has none, those of
/// the line it stands in. A byte order mark stays and is never part of a match. `$`, `\` and the like mean
/// nothing.
///
/// ```
/// use nervekit_tools::edit::{apply, Edit};
/// let file = b"one\r\ntwo\r\nthree"; // a file with CRLF, without a line end at its end
/// let edited = apply(file, &[Edit::new("two\nthree", "2\n3\n4")])?;
/// assert_eq!(edited, b"one\r\n2\r\n3\r\n4");
/// let error = apply(b"k=1\nk=1\n", &[Edit::new("k=1", "k=2")]).unwrap_err();
/// assert!(error.to_string().contains("occurs 2 times, on lines 1, 2"));
/// # Ok::<(), nervekit_tools::edit::EditError>(())
/// ```
pub fn apply(original: &[u8], edits: &[Edit]) -> Result<Vec<u8>, EditError> {
    if edits.is_empty() {
        return Err(EditError::NoEdits);
    }
    let text = Text::new(original);
    let mut places = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter().enumerate() {
        places.push((text.find(index, edit)?, index, edit));
    }
    places.sort_by_key(|(place, ..)| (place.start, place.end));
    for pair in places.windows(2) {
        if let [(before, first, _), (after, second, _)] = pair
            && after.start < before.end
        {
            let (first, second) = ((*first).min(*second), (*first).max(*second));
            return Err(EditError::Overlap { first, second, line: text.line(after.start) });
        }
    }
    let mut edited = Vec::with_capacity(original.len());
    let mut copied = 0;
    for (place, _, edit) in places {
        edited.extend_from_slice(original.get(copied..place.start).unwrap_or_default());
        edited.extend_from_slice(&text.with_line_ends(&place, &edit.new_text));
        copied = place.end;
    }
    edited.extend_from_slice(original.get(copied..).unwrap_or_default());
    Ok(edited)
}

/// UTF-8 of the byte order mark (Unicode 16, section 23.8).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file with its line ends made line feeds, and the way back.
struct Text<'a> {
    original: &'a [u8],
    /// The file without a byte order mark and without the carriage return of each CRLF.
    plain: Vec<u8>,
    /// Positions in `plain` of the line feeds that were CRLF, growing.
    shortened: Vec<usize>,
    /// Length of the byte order mark.
    mark: usize,
}

impl<'a> Text<'a> {
    fn new(original: &'a [u8]) -> Self {
        let mark = if original.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let body = original.get(mark..).unwrap_or_default();
        let mut plain = Vec::with_capacity(body.len());
        let mut shortened = Vec::new();
        let mut bytes = body.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            if byte == b'\r' && bytes.next_if_eq(&b'\n').is_some() {
                shortened.push(plain.len());
                plain.push(b'\n');
            } else {
                plain.push(byte);
            }
        }
        Self { original, plain, shortened, mark }
    }

    /// The place in the original of the only occurrence.
    fn find(&self, index: usize, edit: &Edit) -> Result<Range<usize>, EditError> {
        let old = edit.old_text.replace("\r\n", "\n");
        if old.trim().is_empty() {
            return Err(EditError::Blank { edit: index });
        }
        if old == edit.new_text.replace("\r\n", "\n") {
            return Err(EditError::Same { edit: index });
        }
        let mut count = 0;
        let mut first = None;
        let mut lines = Vec::new();
        for at in occurrences(&self.plain, old.as_bytes()) {
            first.get_or_insert(at);
            if count < MOST_LINES {
                lines.push(line_of(&self.plain, at));
            }
            count += 1;
        }
        match (first, count) {
            (Some(at), 1) => Ok(self.to_original(at)..self.to_original(at + old.len())),
            (Some(_), _) => Err(EditError::Ambiguous { edit: index, count, lines: lines.into() }),
            (None, _) => {
                let near = nearest(&String::from_utf8_lossy(&self.plain), &old).map(Box::new);
                Err(EditError::NotFound { edit: index, near })
            }
        }
    }

    /// The position in the original of a position in `plain`.
    fn to_original(&self, at: usize) -> usize {
        self.mark + at + self.shortened.partition_point(|short| *short < at)
    }

    /// The line of a position in the original, from 1.
    fn line(&self, at: usize) -> usize {
        line_of(self.original, at)
    }

    /// A new text with the line ends of the place it takes.
    fn with_line_ends(&self, place: &Range<usize>, new: &str) -> Vec<u8> {
        let replaced = self.original.get(place.clone()).unwrap_or_default();
        let mut ends: Vec<&[u8]> = line_ends(replaced).collect();
        if ends.is_empty() {
            // The end of the line it stands in, else of the line before: the last line may have none.
            let after = line_ends(self.original.get(place.end..).unwrap_or_default()).next();
            let before = || line_ends(self.original.get(..place.start).unwrap_or_default()).last();
            ends.extend(after.or_else(before));
        }
        let last = ends.last().copied().unwrap_or(b"\n");
        let mut ends = ends.into_iter();
        let mut out = Vec::with_capacity(new.len());
        let mut lines = new.split('\n').peekable();
        while let Some(line) = lines.next() {
            if lines.peek().is_some() {
                out.extend_from_slice(line.strip_suffix('\r').unwrap_or(line).as_bytes());
                out.extend_from_slice(ends.next().unwrap_or(last));
            } else {
                out.extend_from_slice(line.as_bytes());
            }
        }
        out
    }
}

/// Every position at which a text begins, overlapping ones included.
fn occurrences<'a>(text: &'a [u8], wanted: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let finder = memchr::memmem::Finder::new(wanted).into_owned();
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + finder.find(text.get(from..)?)?;
        from = at + 1;
        Some(at)
    })
}

/// The line ends of a text, each `\n` or `\r\n`.
fn line_ends(text: &[u8]) -> impl Iterator<Item = &'static [u8]> + '_ {
    memchr::memchr_iter(b'\n', text).map(|at| {
        let crlf = at.checked_sub(1).and_then(|before| text.get(before)) == Some(&b'\r');
        if crlf { &b"\r\n"[..] } else { &b"\n"[..] }
    })
}

fn line_of(text: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', text.get(..at).unwrap_or(text)).count() + 1
}

#[cfg(test)]
mod tests;
