//! The pattern language: `*`, `**`, `?` and `{a,b}`, and nothing else.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The longest pattern, in bytes; source: `permissions.md`, "Limits".
const MAXIMUM_LENGTH: usize = 512;
/// The most wildcards in one pattern.
const MAXIMUM_WILDCARDS: usize = 16;
/// The most texts that the braces of one pattern may stand for.
const MAXIMUM_ALTERNATIVES: usize = 64;

/// Why a text is not a pattern.
///
/// ```
/// use nervekit_permissions::Pattern;
/// assert_eq!(Pattern::parse("src/../a").unwrap_err().to_string(), "a pattern holds no `..`; it lies below its root");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern is empty.
    #[error("a pattern is not empty")]
    Empty,
    /// The pattern is too long.
    #[error("a pattern is at most 512 bytes long")]
    TooLong,
    /// There are too many wildcards, or the braces stand for too many texts.
    #[error("a pattern holds at most 16 wildcards, and its braces stand for at most 64 texts")]
    TooComplex,
    /// There is a backslash, which escapes nothing here.
    #[error("a pattern holds no `\\`; separators are `/`, and nothing is escaped")]
    Backslash,
    /// It begins with a slash.
    #[error("a pattern does not begin with `/`; it lies below its root")]
    LeadingSlash,
    /// It leads upwards.
    #[error("a pattern holds no `..`; it lies below its root")]
    Parent,
    /// There is a control character.
    #[error("a pattern holds no control characters")]
    Control,
    /// `**` is not alone between slashes.
    #[error("`**` stands alone between slashes")]
    DoubleStar,
    /// A brace is not closed, not opened, or stands inside another one.
    #[error("braces come in pairs, `{{a,b}}`, and not inside each other")]
    Braces,
    /// There is an empty segment, or one that is `.`.
    #[error("a pattern holds no empty segment and no `.`")]
    EmptySegment,
}

/// A pattern over the segments of a path.
///
/// `*` matches within a segment, `**` any number of segments, `?` one Unicode scalar value, `{a,b}` either
/// text; every other character stands for itself. `x/**` includes `x`, and `**/x` includes `x`.
///
/// ```
/// use nervekit_permissions::Pattern;
/// let sources = Pattern::parse("src/**/*.{rs,toml}")?;
/// assert!(sources.matches("src/a/b.rs") && sources.matches("src/b.toml"));
/// assert!(!sources.matches("src/b.md") && !sources.matches("SRC/b.rs"));
/// assert!(!Pattern::parse("src/*")?.matches("src/a/b"));
/// assert!(Pattern::parse("src/[").is_ok_and(|literal| literal.matches("src/[")));
/// # Ok::<(), nervekit_permissions::PatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// How many bytes of the text every match begins with.
    literal: usize,
    alternatives: Vec<Vec<Segment>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// Any number of segments.
    Any,
    /// One segment with this name.
    Name(String),
    /// One segment whose name fits.
    Fit(Vec<Token>),
}

impl Segment {
    /// Whether it is `*`.
    fn is_any_name(&self) -> bool {
        matches!(self, Self::Fit(tokens) if *tokens == [Token::Many])
    }

    /// Whether it stands for one segment, with this name.
    fn is_one(&self, name: &str) -> bool {
        match self {
            Self::Any => false,
            Self::Name(wanted) => wanted == name,
            Self::Fit(tokens) => matches_text(tokens, name, false),
        }
    }
}

impl Pattern {
    /// Parses a pattern over paths.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        check(text)?;
        if text.contains('\\') {
            return Err(PatternError::Backslash);
        }
        let mut alternatives = Vec::new();
        for alternative in expand(text)? {
            if alternative.starts_with('/') {
                return Err(PatternError::LeadingSlash);
            }
            let segments = alternative.split('/').map(|segment| match segment {
                "**" => Ok(Segment::Any),
                ".." => Err(PatternError::Parent),
                "" | "." => Err(PatternError::EmptySegment),
                _ if segment.contains("**") => Err(PatternError::DoubleStar),
                _ if segment.contains(['*', '?']) => Ok(Segment::Fit(tokens(segment))),
                _ => Ok(Segment::Name(segment.to_owned())),
            });
            alternatives.push(segments.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Self { text: text.to_owned(), literal: literal(text).trim_end_matches('/').len(), alternatives })
    }

    /// Returns the text it was parsed from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether it matches a path: segments joined by `/`, without a leading one; empty for the root.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        path.starts_with(self.text.get(..self.literal).unwrap_or_default())
            && self.alternatives.iter().any(|segments| matches_path(segments, path))
    }

    /// Whether it matches the path and everything that can lie below.
    pub(crate) fn covers_tree(&self, path: &str) -> bool {
        // What follows the last `**` must accept any name, as in `a/**/*`.
        let open = |segments: &[Segment]| {
            let last = segments.iter().rev().find(|segment| !segment.is_any_name());
            last == Some(&Segment::Any)
        };
        self.alternatives.iter().any(|segments| open(segments) && matches_path(segments, path))
    }

    /// Whether it can match the path or something below.
    pub(crate) fn reaches_below(&self, path: &str) -> bool {
        self.alternatives.iter().any(|segments| {
            let mut segments = segments.iter();
            for name in names(path) {
                match segments.next() {
                    Some(Segment::Any) => return true,
                    Some(segment) if segment.is_one(name) => {}
                    _ => return false,
                }
            }
            true
        })
    }
}

/// What stands before the first wildcard.
fn literal(text: &str) -> &str {
    text.split(['*', '?', '{']).next().unwrap_or_default()
}

fn names(path: &str) -> impl Iterator<Item = &str> + Clone {
    path.split('/').filter(|name| !name.is_empty())
}

/// Matches segment by segment; on a mismatch the last `**` takes one segment more.
fn matches_path(segments: &[Segment], path: &str) -> bool {
    let mut rest = segments;
    let mut left = names(path);
    let mut retry = None;
    loop {
        let mut ahead = left.clone();
        match (rest.split_first(), ahead.next()) {
            (Some((Segment::Any, after)), _) => {
                retry = Some((after, left.clone()));
                rest = after;
                continue;
            }
            (Some((segment, after)), Some(name)) if segment.is_one(name) => {
                rest = after;
                left = ahead;
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((after, from)) = &mut retry else { return false };
        if from.next().is_none() {
            return false;
        }
        rest = after;
        left = from.clone();
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// A pattern over a whole text, such as a command: `*` and `**` match any characters, `/` among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextPattern {
    /// What every match begins with.
    literal: String,
    alternatives: Vec<Vec<Token>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Never empty, and never next to another one.
    Text(String),
    One,
    Many,
}

impl TextPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, PatternError> {
        check(text)?;
        if text.contains('\\') {
            return Err(PatternError::Backslash);
        }
        Ok(Self {
            literal: literal(text).to_owned(),
            alternatives: expand(text)?.iter().map(|text| tokens(text)).collect(),
        })
    }

    /// What every match begins with.
    pub(crate) fn literal(&self) -> &str {
        &self.literal
    }

    /// Whether it matches the whole text. `guarded`: no wildcard matches what a shell or an interpreter gives a
    /// meaning to.
    pub(crate) fn matches(&self, text: &str, guarded: bool) -> bool {
        text.starts_with(&self.literal)
            && self.alternatives.iter().any(|tokens| matches_text(tokens, text, guarded))
    }
}

/// What a wildcard of an allow never matches in a command or in code.
/// Source: `permissions.md`, "Filters".
const fn is_active(character: char) -> bool {
    matches!(
        character,
        ';' | '&'
            | '|'
            | '<'
            | '>'
            | '('
            | ')'
            | '{'
            | '}'
            | '$'
            | '`'
            | '\n'
            | '\r'
            | '\0'
            | '\u{85}'
            | '\u{2028}'
            | '\u{2029}'
    )
}

/// Matches token by token; on a mismatch the last `*` takes more. Later stars make earlier ones irrelevant, also
/// with guarded wildcards: what the last star may not skip, no earlier could.
fn matches_text(tokens: &[Token], text: &str, guarded: bool) -> bool {
    let (mut rest, mut left) = (tokens, text);
    // What follows the last star, and the text of which it has taken nothing yet.
    let mut retry = None;
    loop {
        match rest.split_first() {
            Some((Token::Many, after)) => {
                retry = Some((after, left));
                rest = after;
                continue;
            }
            Some((Token::One, after)) => {
                let mut ahead = left.chars();
                if ahead.next().is_some_and(|found| !(guarded && is_active(found))) {
                    (rest, left) = (after, ahead.as_str());
                    continue;
                }
            }
            Some((Token::Text(wanted), after)) => {
                if let Some(ahead) = left.strip_prefix(&**wanted) {
                    (rest, left) = (after, ahead);
                    continue;
                }
            }
            None if left.is_empty() => return true,
            None => {}
        }
        let Some((after, from)) = retry else { return false };
        let Some(taken) = taken(after, from) else { return false };
        let (skipped, ahead) = from.split_at(taken);
        if guarded && skipped.contains(is_active) {
            return false;
        }
        retry = Some((after, ahead));
        (rest, left) = (after, ahead);
    }
}

/// How many bytes a star takes, at least one character, before what follows it can match; `None` when it never can.
/// Texts are searched for as a whole, so that no text takes longer than its length and that of the pattern.
fn taken(after: &[Token], from: &str) -> Option<usize> {
    let first = from.chars().next()?.len_utf8();
    match after {
        [] => Some(from.len()),
        // It ends the text, so only the end matters.
        [Token::Text(last)] => {
            let at = from.len().checked_sub(last.len())?;
            (at >= first && from.ends_with(&**last)).then_some(at)
        }
        [Token::Text(wanted), Token::Many, ..] => Some(first + from.get(first..)?.find(&**wanted)?),
        _ => Some(first),
    }
}

fn check(text: &str) -> Result<(), PatternError> {
    if text.is_empty() {
        return Err(PatternError::Empty);
    }
    if text.len() > MAXIMUM_LENGTH {
        return Err(PatternError::TooLong);
    }
    if text.chars().any(char::is_control) {
        return Err(PatternError::Control);
    }
    let mut wildcards = 0;
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        wildcards += usize::from(matches!(byte, b'*' | b'?' | b'{'));
        // `**` is one.
        if byte == b'*' {
            bytes.next_if_eq(&b'*');
        }
    }
    if wildcards > MAXIMUM_WILDCARDS {
        return Err(PatternError::TooComplex);
    }
    Ok(())
}

/// Writes out the texts that the braces stand for.
fn expand(text: &str) -> Result<Vec<String>, PatternError> {
    let mut done = vec![String::new()];
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        let inside = from.strip_prefix('{').ok_or(PatternError::Braces)?;
        let (inside, after) = inside.split_once('}').ok_or(PatternError::Braces)?;
        if inside.contains('{') || !inside.contains(',') {
            return Err(PatternError::Braces);
        }
        let choices: Vec<&str> = inside.split(',').collect();
        if done.len() * choices.len() > MAXIMUM_ALTERNATIVES {
            return Err(PatternError::TooComplex);
        }
        let mut longer = Vec::with_capacity(done.len() * choices.len());
        for text in &done {
            for choice in &choices {
                longer.push(join(&join(text, before)?, choice)?);
            }
        }
        done = longer;
        rest = after;
    }
    for text in &mut done {
        *text = join(text, rest)?;
    }
    Ok(done)
}

/// Joins two parts; stars on both sides of a brace would look like `**` and not be it.
fn join(left: &str, right: &str) -> Result<String, PatternError> {
    if left.ends_with('*') && right.starts_with('*') {
        return Err(PatternError::DoubleStar);
    }
    Ok(format!("{left}{right}"))
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for character in text.chars() {
        match (character, tokens.last_mut()) {
            ('*', Some(Token::Many)) => {}
            ('*', _) => tokens.push(Token::Many),
            ('?', _) => tokens.push(Token::One),
            (literal, Some(Token::Text(text))) => text.push(literal),
            (literal, _) => tokens.push(Token::Text(literal.into())),
        }
    }
    tokens
}

#[cfg(test)]
mod tests;
