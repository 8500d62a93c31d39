//! Bounded views of a result: what the model and the transcript see of it.
//!
//! Everything here is pure and total: any bytes, any budget.

use serde::{Deserialize, Serialize};

/// Which end of a text a cut keeps.
///
/// ```
/// use nervekit_tools::Keep;
/// assert_eq!(serde_json::to_string(&Keep::Both)?, "\"both\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The beginning.
    Head,
    /// The end.
    Tail,
    /// Both ends, half of the budget each.
    Both,
}

/// How much of a result the model reads: by default 24,000 bytes and 200 lines, from both ends.
///
/// ```
/// use nervekit_tools::{Keep, OutputBudget};
/// let budget = OutputBudget::default();
/// assert_eq!((budget.bytes, budget.lines, budget.keep), (24_000, 200, Keep::Both));
/// assert_eq!(OutputBudget::new(1_000, 10).keep(Keep::Tail).lines, 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutputBudget {
    /// Bytes of UTF-8, marks of cuts included.
    pub bytes: usize,
    /// Lines, marks of cuts not counted.
    pub lines: usize,
    /// Which end is kept.
    pub keep: Keep,
}

impl OutputBudget {
    /// The budget of `read`: its result is what the model asked to see.
    pub const READ: Self = Self { bytes: 48_000, lines: 2_000, keep: Keep::Head };

    /// Makes a budget that keeps both ends.
    #[must_use]
    pub const fn new(bytes: usize, lines: usize) -> Self {
        Self { bytes, lines, keep: Keep::Both }
    }

    /// Chooses which end is kept.
    #[must_use]
    pub const fn keep(self, keep: Keep) -> Self {
        Self { keep, ..self }
    }

    /// The same budget with fewer bytes.
    fn less(self, bytes: usize) -> Self {
        Self { bytes: self.bytes.saturating_sub(bytes), ..self }
    }
}

impl Default for OutputBudget {
    fn default() -> Self {
        Self::new(24_000, 200)
    }
}

/// A text cut to a budget.
///
/// ```
/// use nervekit_tools::{cut, OutputBudget};
/// let short = cut("one\ntwo\nthree\n", &OutputBudget::new(1_000, 2));
/// assert!(short.is_cut() && short.missing_bytes == 4);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cut {
    /// What is left, with a mark where something is missing.
    pub text: String,
    /// Bytes that are missing.
    pub missing_bytes: u64,
}

impl Cut {
    /// Whether something is missing.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.missing_bytes > 0
    }
}

/// Room for the mark of one cut; the longest mark is shorter.
const MARK: usize = 96;

/// Cuts a text to a budget. The cut lies between lines where that loses little, never inside a character, and
/// is marked with what is missing.
///
/// ```
/// use nervekit_tools::{cut, Keep, OutputBudget};
/// let text = "one\ntwo\nthree\nfour\n";
/// let short = cut(text, &OutputBudget::new(1_000, 2));
/// assert_eq!(short.text, "one\n[… 10 bytes in 2 lines left out here …]\nfour\n");
/// assert_eq!(cut(text, &OutputBudget::default()).text, text);
/// ```
#[must_use]
pub fn cut(text: &str, budget: &OutputBudget) -> Cut {
    if text.len() <= budget.bytes && count_lines(text) <= budget.lines as u64 {
        return Cut { text: text.to_owned(), missing_bytes: 0 };
    }
    let room = budget.less(MARK);
    let (head, tail) = match budget.keep {
        Keep::Head => (head_end(text, room.bytes, room.lines), text.len()),
        Keep::Tail => (0, tail_start(text, room.bytes, room.lines)),
        Keep::Both => (
            head_end(text, room.bytes / 2, room.lines.div_ceil(2)),
            tail_start(text, room.bytes / 2, room.lines / 2),
        ),
    };
    // The ends may meet in a text of few long lines.
    let tail = tail.max(head);
    let (first, missing, last) = split_three(text, head, tail);
    joined(first, missing.len() as u64, Some(count_lines(missing)), last)
}

/// Cuts an output of which only both ends are at hand. `total` is its true length in bytes.
///
/// The ends are decoded as [`plain_text`]; a character that was split where an end begins or stops is left out.
///
/// ```
/// use nervekit_tools::{cut_ends, OutputBudget};
/// let short = cut_ends(b"begin\n", b"end\n", 5_000, &OutputBudget::default());
/// assert_eq!(short.text, "begin\n[… 4990 bytes left out here …]\nend\n");
/// ```
#[must_use]
pub fn cut_ends(head: &[u8], tail: &[u8], total: u64, budget: &OutputBudget) -> Cut {
    if (head.len() + tail.len()) as u64 >= total {
        return cut(&plain_text(&[head, tail].concat()), budget);
    }
    let head = plain_text(whole_characters_at_end(head));
    let tail = plain_text(whole_characters_at_start(tail));
    let room = budget.less(MARK);
    let (first, last) = match budget.keep {
        Keep::Head => (head.get(..head_end(&head, room.bytes, room.lines)), Some("")),
        Keep::Tail => (Some(""), tail.get(tail_start(&tail, room.bytes, room.lines)..)),
        Keep::Both => (
            head.get(..head_end(&head, room.bytes / 2, room.lines.div_ceil(2))),
            tail.get(tail_start(&tail, room.bytes / 2, room.lines / 2)..),
        ),
    };
    let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
    joined(first, total.saturating_sub((first.len() + last.len()) as u64), None, last)
}

/// Puts a mark between two ends.
fn joined(first: &str, missing: u64, lines: Option<u64>, last: &str) -> Cut {
    if missing == 0 {
        return Cut { text: format!("{first}{last}"), missing_bytes: 0 };
    }
    let before = if first.is_empty() || first.ends_with('\n') { "" } else { "\n" };
    let lines = match lines {
        Some(1) => " in 1 line".to_owned(),
        Some(lines) => format!(" in {lines} lines"),
        None => String::new(),
    };
    let text = format!("{first}{before}[… {missing} bytes{lines} left out here …]\n{last}");
    Cut { text, missing_bytes: missing }
}

/// Number of lines, a last one without line end included.
#[must_use]
pub(crate) fn count_lines(text: &str) -> u64 {
    let ends = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
    ends + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Where a head of at most this much ends.
fn head_end(text: &str, bytes: usize, lines: usize) -> usize {
    let by_lines = match lines {
        0 => 0,
        _ => text.match_indices('\n').nth(lines - 1).map_or(text.len(), |(at, _)| at + 1),
    };
    if by_lines <= bytes {
        return by_lines;
    }
    let end = floor_boundary(text, bytes);
    // A line end in the second half is a better place than the middle of a line.
    match text.get(..end).and_then(|head| head.rfind('\n')) {
        Some(at) if at + 1 > end / 2 => at + 1,
        _ => end,
    }
}

/// Where a tail of at most this much begins.
fn tail_start(text: &str, bytes: usize, lines: usize) -> usize {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let by_lines = match lines {
        0 => text.len(),
        _ => body.rmatch_indices('\n').nth(lines - 1).map_or(0, |(at, _)| at + 1),
    };
    if text.len() - by_lines <= bytes {
        return by_lines;
    }
    let start = ceil_boundary(text, text.len().saturating_sub(bytes));
    match text.get(start..).and_then(|tail| tail.find('\n')) {
        Some(at) if at + 1 < (text.len() - start) / 2 => start + at + 1,
        _ => start,
    }
}

fn split_three(text: &str, head: usize, tail: usize) -> (&str, &str, &str) {
    (
        text.get(..head).unwrap_or_default(),
        text.get(head..tail).unwrap_or_default(),
        text.get(tail..).unwrap_or_default(),
    )
}

/// The greatest character boundary at or below an index.
pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The least character boundary at or above an index.
fn ceil_boundary(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Clips one line to a number of bytes, never inside a character, and marks it.
///
/// ```
/// use nervekit_tools::clip;
/// assert_eq!(clip("中中中", 4), "中 [… 6 bytes]");
/// assert_eq!(clip("short", 10), "short");
/// ```
#[must_use]
pub fn clip(line: &str, bytes: usize) -> std::borrow::Cow<'_, str> {
    if line.len() <= bytes {
        return line.into();
    }
    let end = floor_boundary(line, bytes);
    let kept = line.get(..end).unwrap_or_default();
    format!("{kept} [… {} bytes]", line.len() - end).into()
}

/// Leaves out a character that is incomplete at the end.
fn whole_characters_at_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let Some((rest, last)) = bytes.split_at_checked(bytes.len() - back) else { break };
        let Some(first) = last.first() else { break };
        let wanted = match first {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            0x80..=0xbf => continue,
            _ => 1,
        };
        return if wanted > back { rest } else { bytes };
    }
    bytes
}

/// Leaves out the rest of a character at the start.
fn whole_characters_at_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| (0x80..=0xbf).contains(*byte)).count();
    bytes.get(rest..).unwrap_or_default()
}

/// Decodes output for a reader: invalid UTF-8 becomes U+FFFD, terminal escapes are stripped, a line that was
/// overwritten with carriage returns shows its last state, and what is left of control characters is shown
/// as a picture (`␀`).
///
/// ```
/// use nervekit_tools::plain_text;
/// assert_eq!(plain_text(b"\x1b[31mred\x1b[0m\r\n"), "red\n");
/// assert_eq!(plain_text(b" 10%\r100%\ndone\0"), "100%\ndone␀");
/// ```
#[must_use]
pub fn plain_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::with_capacity(text.len());
    // Where the line that is being written begins.
    let mut line = 0;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_escape(&mut characters),
            '\u{9b}' => skip_control_sequence(&mut characters),
            '\n' => {
                plain.push('\n');
                line = plain.len();
            }
            '\r' => match characters.peek() {
                Some('\n') | None => {}
                Some(_) => plain.truncate(line),
            },
            '\t' => plain.push('\t'),
            other => plain.push(shown(other)),
        }
    }
    plain
}

/// A control character as its picture (Unicode block "Control Pictures"), any other as it is.
fn shown(character: char) -> char {
    match u32::from(character) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or(char::REPLACEMENT_CHARACTER),
        0x7f => '\u{2421}',
        0x80..=0x9f => char::REPLACEMENT_CHARACTER,
        _ => character,
    }
}

/// Skips what follows an escape character (ECMA-48, 5th edition, sections 5.3 to 5.6).
fn skip_escape(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.peek().copied() {
        Some('[') => {
            characters.next();
            skip_control_sequence(characters);
        }
        // Operating system command, device control, start of string, privacy message, application command.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            characters.next();
            let mut bound = 4_096;
            while let Some(character) = characters.peek().copied() {
                // A string that never ends must not swallow the output.
                if character == '\n' || bound == 0 {
                    return;
                }
                bound -= 1;
                characters.next();
                if character == '\u{7}' || character == '\u{9c}' {
                    return;
                }
                if character == '\u{1b}' {
                    characters.next_if_eq(&'\\');
                    return;
                }
            }
        }
        _ => {
            while characters.next_if(|c| (' '..='/').contains(c)).is_some() {}
            characters.next_if(|c| ('0'..='~').contains(c));
        }
    }
}

/// Skips parameters, intermediates and the final byte of a control sequence.
fn skip_control_sequence(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while characters.next_if(|c| (' '..='?').contains(c)).is_some() {}
    characters.next_if(|c| ('@'..='~').contains(c));
}

#[cfg(test)]
mod tests;
