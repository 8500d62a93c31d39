//! Tests that need more than Rust and bash: root, mounts in a namespace of their own, another uid, headless Chromium.
//!
//! `.ci/run system` installs what they need and runs them as root on Linux, with
//! `cargo nextest run --workspace --all-features -E 'package(system-tests)'`, which also builds an example that some
//! of them run. A test that does not find what it needs fails and says so; none is skipped.
