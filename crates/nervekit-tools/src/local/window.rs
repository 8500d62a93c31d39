//! A window of numbered lines over bytes that arrive in pieces. Pure, with bounded memory.

use std::fmt::Write as _;

use crate::projection::clip;

/// What is kept of one line; of a longer one `byte_offset` shows the rest.
const LINE_BYTES: usize = 2_000;

/// Takes bytes in pieces and keeps the lines of a window, numbered.
#[derive(Debug)]
pub(crate) struct LineWindow {
    /// The first line wanted, from 1.
    first: u64,
    /// How many lines are wanted at most.
    lines: u64,
    /// How many bytes the text may have.
    bytes: usize,
    text: String,
    /// The line that is being read, from 1.
    line: u64,
    /// Its beginning.
    start: Vec<u8>,
    /// Its length so far.
    length: u64,
    /// Lines in the text.
    shown: u64,
    /// The first line that did not fit.
    full_at: Option<u64>,
    clipped: bool,
}

/// What a window shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Windowed {
    /// The lines, each with its number.
    pub(crate) text: String,
    /// Lines in the text.
    pub(crate) shown: u64,
    /// Lines of everything.
    pub(crate) total: u64,
    /// The line to go on with, when there is more.
    pub(crate) next: Option<u64>,
    /// Whether a line was too long to be shown whole.
    pub(crate) clipped: bool,
}

impl LineWindow {
    pub(crate) fn new(first: u64, lines: u64, bytes: usize) -> Self {
        Self {
            first: first.max(1),
            lines,
            bytes,
            text: String::new(),
            line: 1,
            start: Vec::new(),
            length: 0,
            shown: 0,
            full_at: None,
            clipped: false,
        }
    }

    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at_checked(end + 1).unwrap_or((bytes, &[]));
            self.take(line.strip_suffix(b"\n").unwrap_or(line));
            self.end_line();
            bytes = rest;
        }
        self.take(bytes);
    }

    fn wanted(&self) -> bool {
        self.line >= self.first && self.full_at.is_none()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if self.wanted() {
            // A little more than is shown, so that a cut is seen and lies between characters.
            let room = (LINE_BYTES + 8).saturating_sub(self.start.len());
            self.start.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        }
    }

    fn end_line(&mut self) {
        if self.wanted() {
            self.show();
        }
        self.line += 1;
        self.start.clear();
        self.length = 0;
    }

    fn show(&mut self) {
        if self.shown >= self.lines {
            self.full_at = Some(self.line);
            return;
        }
        let line = String::from_utf8_lossy(&self.start);
        // A NUL is valid JSON, and yet more than one service refuses it.
        let line = line.strip_suffix('\r').unwrap_or(&line).replace('\0', "\u{2400}");
        let line = line.as_str();
        let mut shown = format!("{:>6}\t", self.line);
        if self.length > (LINE_BYTES + 8) as u64 || line.len() > LINE_BYTES {
            let kept = clip(line, LINE_BYTES);
            let kept = kept.split(" [… ").next().unwrap_or_default();
            // Writing to a `String` does not fail.
            let _ = writeln!(shown, "{kept} [… line of {} bytes]", self.length);
            self.clipped = true;
        } else {
            shown.push_str(line);
            shown.push('\n');
        }
        if self.text.len() + shown.len() > self.bytes && self.shown > 0 {
            self.full_at = Some(self.line);
            return;
        }
        self.text.push_str(&shown);
        self.shown += 1;
    }

    pub(crate) fn finish(mut self) -> Windowed {
        // A last line without a line end is a line; nothing after the last line end is none.
        let total = if self.length > 0 {
            if self.wanted() {
                self.show();
            }
            self.line
        } else {
            self.line - 1
        };
        Windowed { text: self.text, shown: self.shown, total, next: self.full_at, clipped: self.clipped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &[u8], first: u64, lines: u64, piece: usize) -> Windowed {
        let mut window = LineWindow::new(first, lines, 48_000);
        text.chunks(piece).for_each(|piece| window.feed(piece));
        window.finish()
    }

    #[test]
    fn every_cut_of_the_bytes_shows_the_same_window() {
        let text = "one\r\ntwo\n\n中é\nlast".as_bytes();
        let whole = window(text, 2, 3, text.len());
        assert_eq!(whole.text, "     2\ttwo\n     3\t\n     4\t中é\n");
        assert_eq!((whole.shown, whole.total, whole.next), (3, 5, Some(5)));
        for piece in 1..text.len() {
            assert_eq!(window(text, 2, 3, piece), whole);
        }
    }

    #[test]
    fn the_edges_of_a_file_are_counted_as_people_do() {
        for (text, total) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n", 1), ("\n\n", 2)] {
            assert_eq!(window(text.as_bytes(), 1, 100, 7).total, total, "{text:?}");
        }
        let beyond = window(b"a\nb\n", 9, 5, 7);
        assert_eq!((beyond.shown, beyond.total, beyond.next), (0, 2, None));
        let exact = window(b"a\nb\n", 1, 2, 7);
        assert_eq!((exact.shown, exact.next), (2, None));
    }

    #[test]
    fn case_68_a_long_line_is_clipped_between_characters() {
        for pad in 0..4 {
            let text = format!("{}{}\nnext\n", "x".repeat(pad), "中".repeat(3_000));
            let shown = window(text.as_bytes(), 1, 10, 1_000);
            assert!(shown.clipped && !shown.text.contains('\u{fffd}'), "{}", &shown.text[1_900..]);
            assert!(shown.text.contains(&format!("[… line of {} bytes]\n     2\tnext\n", 9_000 + pad)));
        }
    }

    #[test]
    fn the_text_is_bounded_and_says_where_to_go_on() {
        let text = format!("{}\n", "y".repeat(999)).repeat(100);
        let mut window = LineWindow::new(1, 2_000, 10_000);
        window.feed(text.as_bytes());
        let shown = window.finish();
        assert!(shown.text.len() <= 10_000);
        assert_eq!(shown.next, Some(shown.shown + 1));
        assert_eq!(shown.total, 100);
    }
}
