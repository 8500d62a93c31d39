use proptest::prelude::*;

use super::front_matter::parse;

fn read(front_matter: &str) -> Result<(String, String), String> {
    let text = format!("---\n{front_matter}\n---\nbody\n");
    let (read, body) = parse(text.as_bytes()).map_err(|problem| problem.to_string())?;
    assert_eq!(body, "body\n");
    Ok((read.name, read.description))
}

#[test]
fn the_two_keys_are_read_in_every_plain_and_quoted_form() {
    for (text, name, description) in [
        ("name: a\ndescription: Some words.", "a", "Some words."),
        ("description: 'it''s: so'\nname: \"a\"", "a", "it's: so"),
        ("name:   a  \ndescription: \"a \\\"b\\\" \\u00e9 # c\"", "a", "a \"b\" é # c"),
        ("# words\n\nname: a\ndescription: http://x#y", "a", "http://x#y"),
        (
            "license: MIT\nname: a\nmetadata:\n  name: b\n  - x\nallowed-tools:\n- bash\ndescription: d",
            "a",
            "d",
        ),
        ("long: |\n  name: b\n  words\nname: a\ndescription: d", "a", "d"),
    ] {
        assert_eq!(read(text), Ok((name.to_owned(), description.to_owned())), "{text}");
    }
    let windows = "\u{feff}---\r\nname: a\r\ndescription: d\r\n---\r\nx";
    assert_eq!(parse(windows.as_bytes()).unwrap().1, "x");
    assert_eq!(parse(b"---\nname: a\ndescription: d\n---").unwrap().1, "");
}

#[test]
fn what_could_be_read_in_two_ways_is_refused_with_the_line() {
    for (text, words) in [
        ("name: a", "has no `description` at line 1"),
        ("description: d", "has no `name`"),
        ("name: a\nname: b\ndescription: d", "the key `name` appears twice at line 3"),
        ("name: a\n\"name\": b\ndescription: d", "appears twice"),
        ("name: a\ndescription: >\n  words", "double quotes at line 3"),
        ("name: a\ndescription: words\n  more", "on one line at line 4"),
        ("name: a\ndescription:\n  words", "not empty at line 3"),
        ("name: a\ndescription: a: b", "put in double quotes at line 3"),
        ("name: a\ndescription: a # b", "put in double quotes"),
        ("name: a\ndescription: [a]", "put in double quotes"),
        ("name: a\ndescription: *a", "put in double quotes"),
        ("name: a\ndescription: \"a", "ends on its line"),
        ("name: a\ndescription: \"a\" b", "ends on its line"),
        ("name: a\ndescription: 'a'b'", "single quotes"),
        ("name: a\ndescription: '", "single quotes"),
        ("name: a\ndescription: ''", "not empty"),
        ("name: a\ndescription: \"a\\u001b[2J\"", "control characters"),
        ("name:a\ndescription: d", "a space stands between"),
        ("name: a\nwords\ndescription: d", "`key: value` at line 3"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
    let long = format!("name: a\ndescription: {}", "x".repeat(1025));
    assert!(read(&long).unwrap_err().contains("longer than 1024"));
    let longer = format!("name: a\nx: {}\ndescription: d", "x".repeat(9000));
    assert!(read(&longer).unwrap_err().contains("longer than 8192"));
    for text in [&b""[..], b"name: a", b"----\n", b"---\nname: a", b"---\n\xff\n---\n"] {
        assert!(parse(text).is_err(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_fail_otherwise(bytes in prop::collection::vec(any::<u8>(), 0..200), words in "(-{3}|name|description|:| |\\n|\\r|\"|'|#|[a-z])*") {
        let _ = parse(&bytes);
        if let Ok((read, body)) = parse(words.as_bytes()) {
            prop_assert!(words.starts_with("---") && words.ends_with(body) && !read.name.is_empty());
        }
    }

    #[test]
    fn what_is_quoted_is_read_back(text in "[^\\p{Cc}]{1,60}") {
        prop_assume!(!text.trim().is_empty());
        let double = serde_json::to_string(&text).unwrap();
        let single = format!("'{}'", text.replace('\'', "''"));
        for quoted in [double, single] {
            let read = read(&format!("name: a\ndescription: {quoted}"));
            prop_assert_eq!(read, Ok(("a".to_owned(), text.clone())));
        }
    }
}
