//! Every public type, trait, function and macro is shown in use by an example, which `cargo test --doc` runs.

#![expect(clippy::panic, clippy::indexing_slicing, clippy::expect_used, reason = "tests")]

#[path = "support/surface.rs"]
mod surface;

/// What the feature `testing` shows of the inside, for those who test it: the store, and the cases that
/// `backend_conformance!` calls, whose example stands at the macro.
const INSIDE: [&str; 2] = ["store::", "testing::backend_conformance::"];

#[test]
fn every_public_name_has_an_example() {
    let mut without = Vec::new();
    for krate in surface::CRATES {
        let wanted = ["struct", "enum", "union", "trait", "type", "fn", "macro", "item"];
        for name in surface::names(krate) {
            let inside = krate == "nervekit-conversation-core"
                && INSIDE.iter().any(|path| name.path.starts_with(path));
            if wanted.contains(&name.kind) && !name.example && !name.hidden && !inside {
                let file = name.file.strip_prefix(surface::root()).unwrap_or(&name.file).display();
                without.push(format!("{krate}: {} {} ({file})", name.kind, name.path));
            }
        }
    }
    assert!(
        without.is_empty(),
        "{} public names have no example in their documentation:\n{}",
        without.len(),
        without.join("\n")
    );
}
