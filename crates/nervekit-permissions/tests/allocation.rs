//! Proof that deciding allocates nothing.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use nervekit_permissions::Decision;

#[path = "support/large.rs"]
mod large;

#[test]
fn deciding_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let policy = large::policy();
    for (name, call) in large::calls(folder.path()) {
        let mut decision = None;
        let counted = allocation_counter::measure(|| decision = Some(policy.decide(&call).decision()));
        assert_eq!(counted.count_total, 0, "{name} allocated");
        let expected = if name == "read" { Decision::Allow } else { Decision::Prompt };
        assert_eq!(decision, Some(expected), "{name}");
        // The counter does count.
        let counted = allocation_counter::measure(|| drop(policy.decide(&call).evidence()));
        assert!(counted.count_total > 0, "{name}");
    }
}
