//! The form in which guardrails and marks compare names.

use unicode_normalization::{UnicodeNormalization, is_nfc};

/// Case-folds and normalises (NFC), so that two names that any common file system takes for one compare equal.
///
/// Upper-casing before lower-casing joins what a full case folding joins (`ſ`, `ß`, final sigma). Characters
/// that HFS+ ignores are dropped. Source: Apple TN1150, "Unicode subtleties".
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let kept = text.nfd().filter(|c| !is_ignored(*c));
    let lower: String = kept.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
    if is_nfc(&lower) { lower } else { lower.nfc().collect() }
}

const fn is_ignored(character: char) -> bool {
    matches!(character, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn case_13_spellings_of_one_name_fold_together() {
        for (a, b) in [
            (".ENV", ".env"),
            ("café.key", "cafe\u{301}.key"),
            ("CAFÉ", "cafe\u{301}"),
            (".\u{200c}git", ".git"),
            ("\u{212a}ey", "key"),
            ("straße", "STRASSE"),
            ("\u{17f}sh", "ssh"),
        ] {
            assert_eq!(fold(a), fold(b), "{a} {b}");
        }
        assert_ne!(fold(".gitignore"), fold(".git"));
    }
}
