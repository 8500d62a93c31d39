//! Every public type, trait, function and macro is shown in use by an example, which `cargo test --doc` runs.

#![expect(clippy::panic, clippy::indexing_slicing, clippy::expect_used, reason = "tests")]

#[path = "support/surface.rs"]
mod surface;

#[test]
fn every_public_name_has_an_example() {
    let mut without = Vec::new();
    for krate in surface::CRATES {
        let wanted = ["struct", "enum", "union", "trait", "type", "fn", "macro", "item"];
        for name in surface::names(krate) {
            if wanted.contains(&name.kind) && !name.example && !name.hidden {
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
