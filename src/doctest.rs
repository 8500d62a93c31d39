//! Documents of the repository whose code is run with the documentation tests.

/// The first code of the README, run with a temporary folder as its home.
///
/// In the README it is only compiled, since a block there cannot say where its home is without showing that to the
/// reader. That both are the same text is held by `tests/readme.rs`.
#[doc = concat!(
    "```\nmod quickstart {\n",
    include_str!("../examples/quickstart.rs"),
    r#"
    pub(super) fn run() -> Result<(), nervekit::Error> { main() }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    // No other thread runs yet that could read the environment.
    unsafe { std::env::set_var("NERVE_HOME", home.path()) };
    quickstart::run()?;
    assert!(home.path().join("data/conversations.redb").exists(), "it was kept elsewhere");
    Ok(())
}
```"#
)]
struct Quickstart;

/// Every recipe is a program that runs offline.
#[doc = include_str!("../COOKBOOK.md")]
struct Cookbook;
