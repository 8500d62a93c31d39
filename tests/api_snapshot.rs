//! The public names of every crate, against `tests/api/<crate>.txt`.
//!
//! The files are edited by hand: a name that appears, goes or changes its kind is then a decision that a
//! reviewer sees.

#![expect(clippy::panic, clippy::indexing_slicing, clippy::expect_used, reason = "tests")]

#[path = "support/surface.rs"]
mod surface;

use std::collections::BTreeSet;

#[test]
fn the_public_names_are_those_of_the_snapshot() {
    let mut differences = Vec::new();
    for krate in surface::CRATES {
        let actual: BTreeSet<String> = surface::names(krate).iter().map(surface::Name::line).collect();
        let file = surface::root().join("tests/api").join(format!("{krate}.txt"));
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let written: Vec<&str> = text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        let expected: BTreeSet<String> = written.iter().map(|line| (*line).to_owned()).collect();
        let mut lines: Vec<String> = Vec::new();
        lines.extend(expected.difference(&actual).map(|line| format!("- {line}")));
        lines.extend(actual.difference(&expected).map(|line| format!("+ {line}")));
        if !lines.is_empty() {
            differences.push(format!("tests/api/{krate}.txt\n{}", lines.join("\n")));
        }
    }
    assert!(
        differences.is_empty(),
        "the public names changed; if that is meant, edit the file: remove the lines with `-`, add those with \
         `+` (both without the sign), and say so in CHANGELOG.md\n\n{}",
        differences.join("\n\n")
    );
}
