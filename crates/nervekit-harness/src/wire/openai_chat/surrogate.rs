//! JSON with half a character in it.

use std::borrow::Cow;

/// Replaces every `\u` escape of a surrogate without its other half by that of U+FFFD. Models cut such pairs
/// in two, and a strict JSON parser refuses the whole text for it.
pub(super) fn mend(json: &str) -> Cow<'_, str> {
    let mut mended = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = json.get(at..).and_then(|rest| rest.find('\\')) {
        let start = at + found;
        let rest = json.get(start..).unwrap_or_default();
        let (length, lone) = match (escape(rest), rest.get(6..).and_then(escape)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (12, false),
            (Some(0xD800..=0xDFFF), _) => (6, true),
            // Any other escape: the backslash and what it escapes.
            _ => (1 + rest.chars().nth(1).map_or(0, char::len_utf8), false),
        };
        if lone {
            mended.push_str(json.get(copied..start).unwrap_or_default());
            mended.push_str("\\ufffd");
            copied = start + length;
        }
        at = start + length;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    mended.push_str(json.get(copied..).unwrap_or_default());
    Cow::Owned(mended)
}

/// The value of the `\uXXXX` that a text begins with.
fn escape(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_58_lone_surrogates_are_replaced_and_pairs_are_kept() {
        for (json, text) in [
            (r#""\ud99c""#, "\u{FFFD}"),
            (r#""a\uD99C\ud99cb""#, "a\u{FFFD}\u{FFFD}b"),
            (r#""\udc00\ud800""#, "\u{FFFD}\u{FFFD}"),
            (r#""\ud83d\ude00""#, "\u{1F600}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{FFFD}\u{1F600}"),
            (r#""\\ud99c""#, "\\ud99c"),
            (r#""\\\ud99cé""#, "\\\u{FFFD}é"),
            (r#""plain""#, "plain"),
        ] {
            assert_eq!(serde_json::from_str::<String>(&mend(json)).unwrap(), text, "{json}");
        }
        for odd in ["\\", "\\u", "\\ud8", "\\ud800\\", "\\é", "\\ud800é"] {
            let _ = mend(odd);
        }
    }
}
