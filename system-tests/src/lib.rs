//! Tests that need more than Rust and bash: root, mounts in a namespace of their own, another uid.
//!
//! `.ci/run` runs them as root on Linux: `cargo nextest run -p system-tests`. A test that does not find what it
//! needs fails and says so; none is skipped.
