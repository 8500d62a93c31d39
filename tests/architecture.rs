//! The shape of the workspace: which crate may use which, what an embedding compiles, what every manifest says.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Who depends on whom among our own crates. `name:feature` stands for a dependency with features; a crate that
/// names itself uses its own tests with a feature on.
const EDGES: &[(&str, &str, &[&str])] = &[
    ("nervekit-types", "normal", &[]),
    ("nervekit-types", "dev", &["nervekit-types:testing"]),
    ("nervekit-permissions", "normal", &["nervekit-types"]),
    ("nervekit-permissions", "dev", &["nervekit-permissions:testing"]),
    ("nervekit-harness", "normal", &["nervekit-types"]),
    ("nervekit-harness", "dev", &["nervekit-types:testing"]),
    ("nervekit-tools", "normal", &["nervekit-permissions", "nervekit-types"]),
    ("nervekit-tools", "dev", &["nervekit-tools:local-tools,testing"]),
    (
        "nervekit-conversation-core",
        "normal",
        &["nervekit-harness", "nervekit-permissions", "nervekit-tools", "nervekit-types"],
    ),
    ("nervekit-conversation-core", "dev", &["nervekit-conversation-core:testing"]),
    ("nervekit-store", "normal", &["nervekit-conversation-core", "nervekit-types"]),
    ("nervekit-store", "dev", &["nervekit-conversation-core:testing", "nervekit-types:testing"]),
    (
        "nervekit",
        "normal",
        &[
            "nervekit-conversation-core",
            "nervekit-harness",
            "nervekit-permissions",
            "nervekit-store",
            "nervekit-tools",
            "nervekit-types",
        ],
    ),
    ("nervekit", "dev", &["nervekit:demo,terminal,openai-compatible-codec,tls-none,testing"]),
    // Not published.
    (
        "outsider",
        "normal",
        &[
            "nervekit-conversation-core",
            "nervekit-harness",
            "nervekit-permissions",
            "nervekit-tools",
            "nervekit-types",
        ],
    ),
    ("outsider", "dev", &[]),
    ("desktop-backend", "normal", &["nervekit:demo"]),
    ("desktop-backend", "dev", &["nervekit:testing"]),
    ("system-tests", "normal", &[]),
    (
        "system-tests",
        "dev",
        &["nervekit:demo", "nervekit-conversation-core", "nervekit-store:redb", "nervekit-types"],
    ),
];

/// What a crate may ask of tokio. Nothing asks for processes, signals, files or everything.
const TOKIO: &[(&str, &[&str])] = &[
    ("nervekit", &["rt"]),
    ("nervekit-conversation-core", &["macros", "rt", "sync", "time"]),
    ("nervekit-harness", &["time"]),
    ("nervekit-permissions", &["sync"]),
    ("nervekit-store", &["sync"]),
    ("nervekit-tools", &["macros", "rt", "sync", "time"]),
];

fn metadata() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn published(packages: &[Value]) -> impl Iterator<Item = &Value> {
    // `publish` is null when a package may be published anywhere, and an empty list when nowhere.
    packages.iter().filter(|package| package["publish"].is_null())
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

#[test]
fn crates_depend_on_each_other_as_drawn() {
    let packages = metadata();
    let ours: BTreeSet<&str> = packages.iter().map(|package| text(package, "name")).collect();
    let mut actual: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for package in &packages {
        let name = text(package, "name");
        for kind in ["normal", "dev"] {
            actual.entry((name, kind)).or_default();
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let to = text(dependency, "name");
            if !ours.contains(to) {
                continue;
            }
            let features = strings(&dependency["features"]).join(",");
            let edge = if features.is_empty() { to.to_owned() } else { format!("{to}:{features}") };
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            actual.entry((name, kind)).or_default().insert(edge);
        }
    }
    let expected: BTreeMap<(&str, &str), BTreeSet<String>> = EDGES
        .iter()
        .map(|(from, kind, to)| ((*from, *kind), to.iter().map(|to| (*to).to_owned()).collect()))
        .collect();
    let mut problems = Vec::new();
    for edge in expected.keys().chain(actual.keys()).collect::<BTreeSet<_>>() {
        let (expected, actual) = (expected.get(edge), actual.get(edge));
        if expected != actual {
            problems.push(format!("{} ({}): drawn {expected:?}, declared {actual:?}", edge.0, edge.1));
        }
    }
    assert!(problems.is_empty(), "the edges changed; see `EDGES`\n{}", problems.join("\n"));
}

/// What `cargo` compiles for this target when somebody depends on a package, that package included.
fn tree(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--offline", "--locked"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let names = lines.lines().filter(|line| !line.is_empty());
    names.map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn an_embedding_is_small_and_has_no_http_client() {
    let root: &Path = env!("CARGO_MANIFEST_DIR").as_ref();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let (_, promised) = readme.split_once("no HTTP client and no TLS, in fewer than ").unwrap();
    let promised: usize = promised.split(' ').next().unwrap().parse().unwrap();
    for arguments in [
        &["--package", "nervekit-store"][..],
        &["--package", "nervekit", "--no-default-features", "--features", "redb"],
    ] {
        let crates = tree(arguments);
        println!("{arguments:?}: {} crates", crates.len());
        assert!(crates.iter().any(|name| name.starts_with("redb ")), "{crates:?}");
        assert!(crates.len() < promised, "{} crates, not fewer than {promised}: {crates:#?}", crates.len());
        let web = ["reqwest", "hyper", "rustls", "aws-lc", "native-tls", "openssl"];
        let found: Vec<_> =
            crates.iter().filter(|name| web.iter().any(|prefix| name.starts_with(prefix))).collect();
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn tokio_is_asked_for_no_more_than_is_used() {
    let packages = metadata();
    let mut actual = BTreeMap::new();
    for package in published(&packages) {
        for dependency in package["dependencies"].as_array().unwrap() {
            if text(dependency, "name") == "tokio" && dependency["kind"].is_null() {
                assert_eq!(dependency["uses_default_features"], false, "{}", text(package, "name"));
                actual.insert(text(package, "name"), strings(&dependency["features"]));
            }
        }
        let values = package["features"].as_object().unwrap();
        for (feature, enables) in values {
            let tokio: Vec<&str> =
                strings(enables).into_iter().filter(|name| name.starts_with("tokio/")).collect();
            let expected: &[&str] = match (text(package, "name"), &**feature) {
                ("nervekit", "demo") => &["tokio/time"],
                ("nervekit-tools", "local-tools") => &["tokio/net"],
                ("nervekit-conversation-core", "testing") => &["tokio/rt-multi-thread"],
                _ => &[],
            };
            assert_eq!(tokio, expected, "feature `{feature}` of {}", text(package, "name"));
        }
    }
    let expected: BTreeMap<&str, Vec<&str>> =
        TOKIO.iter().map(|(name, features)| (*name, features.to_vec())).collect();
    assert_eq!(actual, expected);
}

#[test]
fn manifests_agree_and_are_complete() {
    let packages = metadata();
    let root: &Path = env!("CARGO_MANIFEST_DIR").as_ref();
    let workspace = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(workspace.contains("\nunsafe_code = \"forbid\"\n"));
    for package in &packages {
        let name = text(package, "name");
        assert_eq!(text(package, "rust_version"), "1.90", "{name}");
        assert_eq!(text(package, "edition"), "2024", "{name}");
        let manifest = std::fs::read_to_string(text(package, "manifest_path")).unwrap();
        assert!(manifest.contains("\n[lints]\nworkspace = true\n"), "{name} has lints of its own");
    }
    let versions: BTreeSet<&str> = published(&packages).map(|package| text(package, "version")).collect();
    assert_eq!(versions.len(), 1, "{versions:?}");
    let ours: BTreeSet<&str> = published(&packages).map(|package| text(package, "name")).collect();
    assert_eq!(ours.len(), 7, "{ours:?}");
    for package in published(&packages) {
        let name = text(package, "name");
        assert!(text(package, "description").ends_with('.'), "{name} has no description");
        assert_eq!(text(package, "license"), "MIT OR Apache-2.0", "{name}");
        let folder = Path::new(text(package, "manifest_path")).parent().unwrap();
        assert!(folder.join(text(package, "readme")).is_file(), "{name} has no README");
        assert!(!strings(&package["categories"]).is_empty(), "{name} has no category");
        assert!(!strings(&package["keywords"]).is_empty(), "{name} has no keyword");
        let documented = &package["metadata"]["docs"]["rs"]["all-features"];
        assert_eq!(documented, true, "{name}: docs.rs would leave out what is behind a feature");
        for dependency in package["dependencies"].as_array().unwrap() {
            let to = text(dependency, "name");
            // One version for all of ours, and a version on whatever is needed by those who build it.
            if ours.contains(to) && dependency["kind"].is_null() {
                assert_eq!(
                    text(dependency, "req"),
                    format!("={}", text(package, "version")),
                    "{name} → {to}"
                );
            }
            assert!(dependency["kind"] == "dev" || text(dependency, "req") != "*", "{name} → {to}");
        }
    }
}

/// The lists of `deny.toml`, so that they hold where `cargo deny` is not installed.
#[test]
fn dependencies_come_from_the_registry_under_known_licences() {
    let root: &Path = env!("CARGO_MANIFEST_DIR").as_ref();
    let deny = std::fs::read_to_string(root.join("deny.toml")).unwrap();
    let list = |begin: &str| -> BTreeSet<String> {
        let list = deny.split(begin).nth(1).unwrap().split("\n]").next().unwrap();
        let entries = list.lines().filter(|line| !line.trim_start().starts_with('#'));
        entries.filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect()
    };
    let (licences, banned) = (list("\nallow = ["), list("\ndeny = ["));
    assert!(licences.contains("MIT") && banned.contains("native-tls"), "{licences:?} {banned:?}");

    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--all-features",
            "--filter-platform",
            &host(),
        ])
        .current_dir(root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let used: BTreeSet<&str> =
        metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|node| text(node, "id")).collect();
    let mut problems = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        if !used.contains(text(package, "id")) {
            continue;
        }
        if banned.contains(name) {
            problems.push(format!("{name} is banned"));
        }
        if !allowed(licence, &licences) {
            problems.push(format!("{name} has the licence `{licence}`"));
        }
        let source = package["source"].as_str();
        if source.is_some_and(|from| !from.starts_with("registry+") || !from.ends_with("/crates.io-index")) {
            problems.push(format!("{name} comes from {source:?}"));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// Whether a licence expression can be met with these licences: `AND` of `OR`s, with parentheses around the
/// latter, as crates write them (`/` is an old `OR`).
fn allowed(expression: &str, licences: &BTreeSet<String>) -> bool {
    let any = |part: &str| {
        part.trim_matches(['(', ')', ' '])
            .replace('/', " OR ")
            .split(" OR ")
            .any(|one| licences.contains(one.trim()))
    };
    expression.split(" AND ").all(any)
}

#[test]
fn licence_expressions_are_read() {
    let licences: BTreeSet<String> = ["MIT", "ISC"].map(str::to_owned).into();
    for good in ["MIT", "Unlicense/MIT", "GPL-3.0 OR MIT", "ISC AND (GPL-3.0 OR MIT)", "(MIT OR X) AND ISC"] {
        assert!(allowed(good, &licences), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "ISC AND (GPL-3.0 OR X)", "GPL-2.0 WITH MIT"] {
        assert!(!allowed(bad, &licences), "{bad}");
    }
}

/// One version of each crate in an embedding, so that it compiles nothing twice.
#[test]
fn an_embedding_has_no_duplicates_that_reach_it() {
    let crates = tree(&["--package", "nervekit-store"]);
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &crates {
        *versions.entry(name.split(' ').next().unwrap()).or_default() += 1;
    }
    let twice: Vec<_> = versions.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect();
    // Two generations of derive macros; both run at build time only.
    assert_eq!(twice, ["syn"]);
}

/// A promise without a test is a wish.
#[test]
fn the_tests_that_the_contract_names_exist() {
    let root: &Path = env!("CARGO_MANIFEST_DIR").as_ref();
    let contract = std::fs::read_to_string(root.join("CONTRACT.md")).unwrap();
    let mut sources = String::new();
    for folder in ["crates", "examples", "tests", "system-tests", "src"] {
        collect_sources(&root.join(folder), &mut sources);
    }
    let name = |word: &&str| {
        word.contains('_') && word.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
    };
    let named: BTreeSet<&str> = contract.split('`').skip(1).step_by(2).filter(name).collect();
    assert!(named.len() > 30, "{named:?}");
    // A test is a function, or an entry of a list that a macro makes tests of.
    let exists =
        |name: &str| sources.contains(&format!("fn {name}(")) || sources.contains(&format!("\n    {name}: "));
    let missing: Vec<_> = named.iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "CONTRACT.md names tests that do not exist: {missing:?}");
    // Every promise has one. What is not promised has none.
    let (promised, _) = contract.split_once("\n## Not promised\n").unwrap();
    for promise in promised.split("\n- ").skip(1) {
        let promise = promise.split("\n\n").next().unwrap();
        let held = promise.split('`').skip(1).step_by(2).any(|word| name(&word) && exists(word));
        assert!(held, "no test is named for: {promise}");
    }
}

fn collect_sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn files_are_named_for_what_they_hold() {
    // `foo.rs` beside `foo/`, never `foo/mod.rs`.
    fn visit(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, found);
            } else if path.file_name().is_some_and(|name| name == "mod.rs") {
                found.push(path.display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    for package in metadata() {
        visit(&Path::new(text(&package, "manifest_path")).with_file_name("src"), &mut found);
    }
    assert!(found.is_empty(), "{found:?}");
}
