//! A form of any text that shows what is there.

use std::fmt::Write as _;

/// The longest text that is shown whole, in characters.
const SHOWN_WHOLE: usize = 2_000;
/// How much of a longer text is shown at either end, in characters.
const SHOWN_END: usize = 900;
/// The longest run of spaces that is shown as it is.
const SPACES: usize = 8;

/// Returns a form of the text that is safe to show to whoever approves it.
///
/// Control, bidirectional, zero-width and other invisible characters appear as escapes, long runs of spaces as
/// their count, and a long text keeps its tail and says how long it is. Visible text of any language stays as
/// it is. The result is one line; it is for eyes, not for execution.
///
/// ```
/// use nervekit_permissions::display;
/// assert_eq!(display("rm -rf /tmp/\u{200b}x"), "rm -rf /tmp/\\u{200b}x");
/// assert_eq!(display("añadir 日本語"), "añadir 日本語");
/// assert_eq!(display(&format!("ls{}; id", " ".repeat(10_000))), "ls⟨10000 spaces⟩; id");
/// ```
#[must_use]
pub fn display(text: &str) -> String {
    let safe = escape(text);
    let length = safe.chars().count();
    if length <= SHOWN_WHOLE {
        return safe;
    }
    let head: String = safe.chars().take(SHOWN_END).collect();
    let tail: String = safe.chars().skip(length - SHOWN_END).collect();
    let hidden = length - 2 * SHOWN_END;
    format!("{head}⟨{hidden} more characters, {} in all⟩{tail}", text.chars().count())
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut spaces = 0;
    for character in text.chars() {
        if character == ' ' {
            spaces += 1;
            continue;
        }
        flush_spaces(&mut safe, &mut spaces);
        match character {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            _ if is_hidden(character) => {
                // Writing to a `String` does not fail.
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(character));
            }
            _ => safe.push(character),
        }
    }
    flush_spaces(&mut safe, &mut spaces);
    safe
}

fn flush_spaces(safe: &mut String, spaces: &mut usize) {
    if *spaces > SPACES {
        let _ = write!(safe, "⟨{spaces} spaces⟩");
    } else {
        safe.extend(std::iter::repeat_n(' ', *spaces));
    }
    *spaces = 0;
}

/// Whether a character changes what is seen without being seen: the general categories Cc, Cf, Zl, Zp and Co,
/// the default-ignorable code points, and spaces that are not U+0020.
/// Source: Unicode 16, `DerivedCoreProperties.txt` (`Default_Ignorable_Code_Point`) and `UnicodeData.txt`.
const fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}'
            | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{1680}'
            | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}' | '\u{3164}'
            | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
            | '\u{f0000}'..='\u{10ffff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_34_invisible_characters_are_shown() {
        for hidden in [
            '\u{200b}',
            '\u{202e}',
            '\u{1b}',
            '\u{2066}',
            '\u{2067}',
            '\u{2068}',
            '\u{2069}',
            '\u{ad}',
            '\u{feff}',
            '\u{2028}',
            '\u{2029}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{0}',
            '\u{7f}',
            '\u{9b}',
            '\u{3164}',
        ] {
            let shown = display(&format!("curl http://a/{hidden}x"));
            assert_eq!(shown, format!("curl http://a/\\u{{{:x}}}x", u32::from(hidden)));
        }
        assert_eq!(display("echo ok\u{1b}[2K\rrm"), "echo ok\\u{1b}[2K\\rrm");
    }

    #[test]
    fn case_34_the_tail_of_a_long_text_stays_visible() {
        let text = format!("echo {}; id", "a".repeat(50_000));
        let shown = display(&text);
        assert!(shown.ends_with("; id"), "{shown}");
        assert!(shown.contains(&format!("{} in all", text.chars().count())));
        assert!(shown.chars().count() < 2_000);
    }

    #[test]
    fn case_34_plain_text_of_any_language_is_untouched() {
        for plain in
            ["grep -n 'שלום' אב.txt", "日本語のファイル", "عربي", "a\\b 'c' \"d\" ${e}", "naïve — “quotes”"]
        {
            assert_eq!(display(plain), plain);
        }
    }
}
