use super::*;
use crate::sample::{Random, numbered};

fn one(original: &[u8], old: &str, new: &str) -> Result<String, EditError> {
    apply(original, &[Edit::new(old, new)]).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn problem(original: &str, old: &str, new: &str) -> String {
    one(original.as_bytes(), old, new).unwrap_err().to_string()
}

#[test]
fn case_71_line_ends_and_everything_outside_stay_as_they_are() {
    for (file, old, new, wanted) in [
        // All CRLF, multi-line old text in LF, a line added.
        ("a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", "a\r\nx\r\nb\r\nc\r\n"),
        // Mixed: an edit in either part takes the ends of its part.
        ("a\nb\r\nc\n", "a\n", "a\nA\n", "a\nA\nb\r\nc\n"),
        ("a\nb\r\nc\n", "b", "b\nB", "a\nb\r\nB\r\nc\n"),
        ("a\nb\r\nc\n", "b\nc", "b\nC", "a\nb\r\nC\n"),
        ("a\nb\r\nc\n", "a\nb\nc\n", "A\nB\nC\n", "A\nB\r\nC\n"),
        // The last line without a line end.
        ("a\r\nb", "b", "B", "a\r\nB"),
        ("a\r\nb", "b", "B\nC", "a\r\nB\r\nC"),
        ("a", "a", "b\nc", "b\nc"),
        // A lone carriage return is a character like any other.
        ("a\rb\nc", "a\rb", "x", "x\nc"),
        ("a\rb\rc", "b", "B\nD", "a\rB\nD\rc"),
        // A model that sends CRLF itself.
        ("a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"),
        ("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"),
        // The match begins or ends with a line end.
        ("a\r\nb\r\nc", "\nb", "\nB", "a\r\nB\r\nc"),
        ("a\r\nb\r\nc", "b\n", "", "a\r\nc"),
    ] {
        assert_eq!(one(file.as_bytes(), old, new).unwrap(), wanted, "{file:?} {old:?} {new:?}");
    }
    // LF and CRLF forms at two places are ambiguous.
    assert!(problem("a\nb\na\r\nb\r\n", "a\nb", "x").contains("occurs 2 times, on lines 1, 3"));
    // A final line end is not invented to make a match.
    assert!(one(b"a\nb", "b\n", "x\n").is_err());
}

#[test]
fn a_byte_order_mark_stays_and_foreign_bytes_too() {
    assert_eq!(
        apply(b"\xef\xbb\xbfa\r\n\xff\xfe", &[Edit::new("a", "b")]).unwrap(),
        b"\xef\xbb\xbfb\r\n\xff\xfe"
    );
    assert_eq!(apply(b"x\xe9y z", &[Edit::new("y z", "Y")]).unwrap(), b"x\xe9Y");
    assert!(one(b"\xef\xbb\xbfa", "\u{feff}a", "b").is_err());
}

#[test]
fn case_73_overlapping_matches_are_ambiguous() {
    assert!(problem("k=1\nk=1\nk=1\n", "k=1\nk=1", "x").contains("occurs 2 times, on lines 1, 2;"));
    assert!(problem("aaaa", "aa", "b").contains("occurs 3 times, on lines 1, 1, 1;"));
    assert!(problem("ab\n-\nab\n", "ab", "x").contains("occurs 2 times, on lines 1, 3;"));
    let many = "k\n".repeat(30);
    assert!(problem(&many, "k", "x").contains("occurs 30 times, on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …;"));
    assert!(problem("a", "b", "c").contains("does not occur"));
    assert!(problem("a", "a", "a").contains("are the same"));
    assert!(problem("a\r\nb", "a\nb", "a\r\nb").contains("are the same"));
    // What would mean something elsewhere is a character here.
    assert_eq!(one(b"price", "price", "$1 \\1 $& ${x} \\n").unwrap(), "$1 \\1 $& ${x} \\n");
    assert_eq!(one(b"a.c abc", "a.c", "x").unwrap(), "x abc");
    // The new text may hold the old one.
    assert_eq!(one(b"a", "a", "aaa").unwrap(), "aaa");
}

#[test]
fn case_74_a_blank_text_is_refused_and_nothing_is_matched_leniently() {
    for blank in ["", " ", "\n", "\t \r\n"] {
        assert!(problem("a\n\n b", blank, "x").contains("`old_text` is blank"), "{blank:?}");
    }
    for (file, old, hint) in [
        ("fn  beta(9) {}", "fn beta(9) {}", "line 1 differs only in white space: `fn  beta(9) {}`"),
        ("x\n\tindented", "    indented", "line 2 differs only in white space"),
        ("a\nlet s = “hi”;", "let s = \"hi\";", "line 2 differs only in quotes or dashes: `let s = “hi”;`"),
        ("Hello World", "hello world", "line 1 differs only in upper and lower case"),
        ("one\nbeta(2) + gamma\n", "beta(9) + gamma", "line 2 is the most similar: `beta(2) + gamma`"),
        ("nothing like it", "0123456789", "read the file again"),
    ] {
        let problem = problem(file, old, "x");
        assert!(problem.contains(hint), "{problem}");
    }
}

#[test]
fn edits_are_found_in_the_original_and_must_not_overlap() {
    let file = b"one two three\n";
    let swapped = [Edit::new("three", "one"), Edit::new("one", "three")];
    assert_eq!(apply(file, &swapped).unwrap(), b"three two one\n");
    let touching = [Edit::new("one ", "1"), Edit::new("two ", "2")];
    assert_eq!(apply(file, &touching).unwrap(), b"12three\n");
    let overlapping = [Edit::new("two three", "x"), Edit::new("one two", "y")];
    let error = apply(file, &overlapping).unwrap_err();
    assert_eq!(error.to_string(), "edits 1 and 2 overlap on line 1; make one edit of them");
    // One edit that fails keeps all of them from being made.
    assert!(apply(file, &[Edit::new("one", "1"), Edit::new("four", "4")]).is_err());
    assert_eq!(apply(file, &[]), Err(EditError::NoEdits));
}

/// A naive matcher over the same bytes, to compare with: it tries every position of the original.
fn naive(original: &[u8], old: &str) -> Vec<Range<usize>> {
    let mark = if original.starts_with(BYTE_ORDER_MARK) { 3 } else { 0 };
    let old = old.replace("\r\n", "\n");
    let mut found = Vec::new();
    'start: for start in mark..original.len() {
        // Between the two bytes of a CRLF nothing begins.
        if start > mark && original[start] == b'\n' && original[start - 1] == b'\r' {
            continue;
        }
        let mut at = start;
        for wanted in old.bytes() {
            let crlf = original[at.min(original.len())..].starts_with(b"\r\n");
            match original.get(at) {
                _ if crlf && wanted == b'\n' => at += 2,
                _ if crlf => continue 'start,
                Some(byte) if *byte == wanted => at += 1,
                _ => continue 'start,
            }
        }
        found.push(start..at);
    }
    found
}

#[test]
fn random_edits_agree_with_a_naive_matcher() {
    let mut random = Random::new();
    let pieces = ["a", "b", "\n", "\r\n", "\r", " ", "é", "\u{feff}"];
    let mut made = 0;
    for _ in 0..30_000 {
        let mut file: String = (0..random.below(14)).map(|_| random.one_of(&pieces)).collect();
        if random.below(8) == 0 {
            file.insert(0, '\u{feff}');
        }
        let old: String = (0..=random.below(4)).map(|_| random.one_of(&pieces[..7])).collect();
        // A lone carriage return before a line feed would read as one line end.
        let new: String =
            (0..random.below(4)).map(|_| random.one_of(&["a", "b", "\n", "\r\n", " ", "é"])).collect();
        let places = naive(file.as_bytes(), &old);
        let result = apply(file.as_bytes(), &[Edit::new(&*old, &*new)]);
        match result {
            Ok(edited) => {
                made += 1;
                assert_eq!(places.len(), 1, "{file:?} {old:?}");
                let (before, after) =
                    (&file.as_bytes()[..places[0].start], &file.as_bytes()[places[0].end..]);
                assert!(edited.starts_with(before) && edited.ends_with(after), "{file:?} {old:?} {new:?}");
                let middle = &edited[before.len()..edited.len() - after.len()];
                let flat = |text: &[u8]| String::from_utf8_lossy(text).replace("\r\n", "\n");
                assert_eq!(flat(middle), flat(new.as_bytes()), "{file:?} {old:?} {new:?}");
            }
            Err(EditError::Ambiguous { count, .. }) => assert_eq!(count, places.len(), "{file:?} {old:?}"),
            Err(EditError::NotFound { .. }) => assert!(places.is_empty(), "{file:?} {old:?}"),
            Err(EditError::Blank { .. }) => assert!(old.trim().is_empty()),
            Err(EditError::Same { .. }) => assert_eq!(old.replace("\r\n", "\n"), new.replace("\r\n", "\n")),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(made > 1_000, "{made}");
}

#[test]
fn a_hint_in_a_large_file_is_quick_and_errors_are_small() {
    let file = numbered("line number", 20_000);
    let started = std::time::Instant::now();
    assert!(problem(&file, "line numbr 19999", "x").contains("most similar"));
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
    assert!(size_of::<EditError>() <= 64);
}
