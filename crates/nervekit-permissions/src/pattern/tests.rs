use proptest::prelude::*;

use super::*;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

#[test]
fn case_14_a_star_stays_in_its_segment() {
    for (text, path, expected) in [
        ("src/*", "src/a.rs", true),
        ("src/*", "src/a/b.rs", false),
        ("src/*", "src", false),
        ("docs/*.md", "docs/private/x.md", false),
        ("docs/*.md", "docs/.md", true),
        ("src/**", "src", true),
        ("src/**", "src/a/b.rs", true),
        ("src/**", "srcs/a", false),
        ("**/a", "a", true),
        ("**/a", "b/c/a", true),
        ("**", "", true),
        ("**/.env*", ".env", true),
        ("**/.env*", "a/.env.local", true),
        ("**/.env*", "a/.env/x", false),
        ("a/**/b/**/c", "a/x/b/b/y/c", true),
        ("a/**/b/**/c", "a/c", false),
        ("a?c", "a/c", false),
        ("a?c", "añc", true),
        ("a?c", "an\u{303}c", false),
        ("[/]", "[/]", true),
        ("!x", "!x", true),
        ("!x", "y", false),
        ("{a,b}/{c,d}*", "b/dx", true),
        ("{a,b/c}/x", "b/c/x", true),
        ("x", "X", false),
    ] {
        assert_eq!(pattern(text).matches(path), expected, "{text} {path}");
    }
}

#[test]
fn case_14_a_text_star_crosses_slashes() {
    let deny = TextPattern::parse("*rm -rf*").unwrap();
    assert!(deny.matches("rm -rf /", false) && deny.matches("cd / && rm -rf tmp", false));
    assert!(!deny.matches("cd / && rm -rf tmp", true));
    assert!(TextPattern::parse("cargo {test,check} *").unwrap().matches("cargo test -p a/b", true));
}

/// With one step for each character of the pattern at each of the text this takes minutes.
#[test]
fn the_worst_pattern_meets_the_longest_value() {
    let (value, braces) = ("a".repeat(1 << 16), "{b,c}".repeat(6));
    for text in [
        format!("*{}{braces}d", "a".repeat(470)),
        format!("*{}{braces}*", "a".repeat(470)),
        format!("*{}?{}{braces}", "a".repeat(230), "a".repeat(230)),
        format!("{}{braces}", "*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".repeat(9)),
    ] {
        let pattern = TextPattern::parse(&text).unwrap();
        for guarded in [false, true] {
            assert!(!pattern.matches(&value, guarded), "{text}");
            let end = format!("{}bcbcbcd", &value[..value.len() - 7]);
            assert_eq!(pattern.matches(&end, guarded), text.contains('d') || text.ends_with('*'), "{text}");
        }
    }
}

#[test]
fn what_is_no_pattern_is_an_error() {
    use PatternError::*;
    for (text, error) in [
        ("", Empty),
        ("/a", LeadingSlash),
        ("{a,/b}", LeadingSlash),
        ("a/../b", Parent),
        ("{a,..}/b", Parent),
        ("a\\b", Backslash),
        ("a\nb", Control),
        ("a**", DoubleStar),
        ("{*,b}*", DoubleStar),
        ("{a", Braces),
        ("a}", Braces),
        ("{a}", Braces),
        ("{a,{b,c}}", Braces),
        ("a//b", EmptySegment),
        ("a/", EmptySegment),
        ("./a", EmptySegment),
    ] {
        assert_eq!(Pattern::parse(text).unwrap_err(), error, "{text}");
    }
    assert_eq!(Pattern::parse(&"a".repeat(513)).unwrap_err(), TooLong);
    assert_eq!(Pattern::parse(&"?".repeat(17)).unwrap_err(), TooComplex);
    assert_eq!(Pattern::parse(&"{a,b}".repeat(7)).unwrap_err(), TooComplex);
    assert!(Pattern::parse(&"?".repeat(16)).is_ok());
}

/// The language, written down as naively as possible.
fn naive(segments: &[&str], names: &[&str]) -> bool {
    match (segments.split_first(), names.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => {
            naive(rest, names) || names.split_first().is_some_and(|(_, names)| naive(segments, names))
        }
        (Some((segment, rest)), Some((name, names))) => {
            let segment: Vec<char> = segment.chars().collect();
            let name: Vec<char> = name.chars().collect();
            naive_segment(&segment, &name) && naive(rest, names)
        }
        _ => false,
    }
}

fn naive_segment(segment: &[char], name: &[char]) -> bool {
    match (segment.split_first(), name.split_first()) {
        (None, None) => true,
        (Some(('*', rest)), _) => {
            naive_segment(rest, name)
                || name.split_first().is_some_and(|(_, name)| naive_segment(segment, name))
        }
        (Some(('?', rest)), Some((_, name))) => naive_segment(rest, name),
        (Some((wanted, rest)), Some((found, name))) => wanted == found && naive_segment(rest, name),
        _ => false,
    }
}

proptest! {
    #[test]
    fn matching_texts_agrees_with_the_naive_reading(
        text in "[ab;?*é]{1,8}", value in "[ab;é]{0,12}",
    ) {
        let pattern = TextPattern::parse(&text).unwrap();
        let characters = |text: &str| text.chars().collect::<Vec<char>>();
        let matches = naive_segment(&characters(&text), &characters(&value));
        prop_assert_eq!(pattern.matches(&value, false), matches);
        // Guarded wildcards match less, and the same where nothing is active.
        prop_assert!(!pattern.matches(&value, true) || matches);
        if !value.contains(';') {
            prop_assert_eq!(pattern.matches(&value, true), matches);
        }
    }

    #[test]
    fn matching_agrees_with_the_naive_reading(
        segments in prop::collection::vec(prop_oneof![Just("**".to_owned()), "[ab?*]{1,4}"], 1..6),
        names in prop::collection::vec("[ab]{1,4}", 0..6),
    ) {
        let text = segments.join("/");
        prop_assume!(segments.iter().all(|segment| segment == "**" || !segment.contains("**")));
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let path = names.join("/");
        let pattern = Pattern::parse(&text).unwrap();
        prop_assert_eq!(pattern.matches(&path), naive(&segments, &names));
        // What covers a tree matches whatever lies below, and what matches below reaches it.
        for below in ["", "/a", "/b/ab"] {
            let deeper = format!("{path}{below}");
            if pattern.covers_tree(&path) {
                prop_assert!(pattern.matches(&deeper));
            }
            if pattern.matches(&deeper) {
                prop_assert!(pattern.reaches_below(&path));
            }
        }
    }

    #[test]
    fn parsing_and_matching_are_total(text in "\\PC{0,40}", path in "\\PC{0,40}") {
        if let Ok(pattern) = Pattern::parse(&text) {
            let _ = pattern.matches(&path);
        }
        if let Ok(pattern) = TextPattern::parse(&text) {
            let _ = pattern.matches(&path, true);
        }
    }
}
