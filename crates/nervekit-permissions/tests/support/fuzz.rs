//! What must hold whatever the bytes are. The fuzz targets and the tests drive these functions.

use std::path::{Component, Path};
use std::sync::LazyLock;

use nervekit_permissions::{
    Access, CallOrigin, CanonicalSubject, DecidedUrl, DocumentScope, EffectiveArguments, Pattern,
    PolicyBuilder, PolicyDocument, ProposedCall, Risk, Root, Roots, RuleSet, TargetResolver, TargetSelector,
    ToolDescriptor, ToolKind, UrlTarget,
};
use serde_json::json;

/// A document is refused with words, or it is valid, says the same when written out, and can be in force.
pub(crate) fn document(bytes: &[u8]) {
    for scope in [DocumentScope::User, DocumentScope::Project, DocumentScope::Conversation] {
        match PolicyDocument::parse(scope, bytes) {
            Err(error) => assert!(!error.to_string().is_empty()),
            Ok(document) => {
                let written = serde_json::to_vec(&document).unwrap();
                assert_eq!(PolicyDocument::parse(scope, &written).unwrap(), document);
                let set = RuleSet::new("fuzzed");
                let builder = PolicyBuilder::new(&set);
                let builder = match scope {
                    DocumentScope::User => builder.user(&document),
                    DocumentScope::Project => builder.project(&document),
                    DocumentScope::Conversation => builder.conversation(&document),
                };
                let rules = builder.build().unwrap().rules();
                // What is neither the user's nor the baseline's guards nothing.
                assert!(
                    scope == DocumentScope::User || rules.iter().all(|rule| rule.precedence.enforcement == 0)
                );
            }
        }
    }
    if let Ok(set) = RuleSet::parse(bytes) {
        let written = serde_json::to_vec(&set).unwrap();
        assert_eq!(RuleSet::parse(&written).unwrap(), set);
        PolicyBuilder::new(&set).build().unwrap();
    }
}

/// The first line is a pattern, the second a path.
pub(crate) fn pattern(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (text, path) = text.split_once('\n').unwrap_or((&text, "a/b"));
    let Ok(pattern) = Pattern::parse(text) else { return };
    assert_eq!(pattern.as_str(), text);
    let matches = pattern.matches(path);
    assert_eq!(Pattern::parse(pattern.as_str()).unwrap().matches(path), matches);
    if !text.contains(['*', '?', '{', '}']) {
        // Without wildcards a pattern matches itself and nothing else.
        assert!(pattern.matches(text));
        let plain = !path.split('/').any(str::is_empty);
        assert!(!plain || matches == (path == text), "{text:?} {path:?}");
    }
    if let Some(folder) = text.strip_suffix("/**")
        && matches
        && !path.is_empty()
    {
        // What matches with everything below matches below, and `x/**` includes what `x` matches.
        assert!(pattern.matches(&format!("{path}/below")));
        assert!(Pattern::parse(folder).map_or(true, |folder| !folder.matches(path) || matches));
    }
}

/// The first line is a URL, the second where it redirects to.
pub(crate) fn url(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (text, location) = text.split_once('\n').unwrap_or((&text, "/next"));
    let Some(url) = UrlTarget::parse(text, Access::Read) else { return };
    let shown = url.as_str();
    let again = UrlTarget::parse(shown, Access::Read).unwrap();
    assert_eq!(again.as_str(), shown, "{text:?}");
    assert_eq!(again.host(), url.host(), "{text:?}");
    assert!(shown.is_ascii() && !shown.contains(|c: char| c.is_control() || c.is_whitespace()), "{text:?}");
    assert!(shown.starts_with("https://") || shown.starts_with("http://"), "{text:?}");
    assert!(!url.host().is_empty() && !url.host().contains('@') && !url.host().ends_with('.'), "{text:?}");
    assert_eq!(url.host(), url.host().to_lowercase(), "{text:?}");
    // Judged, shown and contacted are one value.
    let decided = DecidedUrl::new(&url);
    assert_eq!((decided.as_url().as_str(), decided.as_url().host_str()), (shown, Some(url.host())));
    assert!(decided.as_url().username().is_empty() && decided.as_url().password().is_none());
    if let Some(next) = decided.follows(location) {
        assert_eq!(next.as_url().host_str(), Some(url.host()), "{text:?} {location:?}");
        assert!(next.as_url().scheme() == decided.as_url().scheme() || next.as_url().scheme() == "https");
    }
}

struct Folder {
    held: tempfile::TempDir,
    resolver: TargetResolver,
}

static FOLDER: LazyLock<Folder> = LazyLock::new(|| {
    let held = tempfile::tempdir().unwrap();
    for folder in ["project/a/b", "project/c", "outside"] {
        std::fs::create_dir_all(held.path().join(folder)).unwrap();
    }
    std::fs::write(held.path().join("project/a/file"), "x").unwrap();
    #[cfg(unix)]
    for (content, link) in
        [("../outside", "out"), ("a", "in"), ("loop", "loop"), ("../outside/new", "dangling")]
    {
        std::os::unix::fs::symlink(content, held.path().join("project").join(link)).unwrap();
    }
    let resolver = TargetResolver::new(Roots::new().project(held.path().join("project")));
    Folder { held, resolver }
});

/// A path that a tool was called with.
pub(crate) fn path(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let project = FOLDER.held.path().join("project");
    let tool =
        ToolDescriptor::new("read", ToolKind::Filesystem, Risk::Read).target(TargetSelector::path("path"));
    let Ok(arguments) = EffectiveArguments::new(json!({ "path": text })) else { return };
    let call =
        ProposedCall::new(tool, arguments, CallOrigin::Model, "supervised").working_directory(&project);
    let resolved = match FOLDER.resolver.resolve(&call) {
        Ok(resolved) => resolved,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let CanonicalSubject::Path(target) = resolved.targets()[0].subject() else {
        panic!("{text:?} is no path")
    };
    for form in [&target.resolved, &target.lexical] {
        let absolute = Path::new(&form.absolute);
        let dots = |component| matches!(component, Component::CurDir | Component::ParentDir);
        assert!(absolute.is_absolute() && !absolute.components().any(dots), "{text:?}: {form:?}");
        for rooted in &form.rooted {
            assert!(!rooted.path.starts_with('/') && absolute.ends_with(&rooted.path), "{text:?}: {form:?}");
        }
    }
    // No link is left in what exists, and containment is by component.
    let absolute = Path::new(&target.resolved.absolute);
    let existing = absolute.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap();
    assert_eq!(existing, existing.canonicalize().unwrap(), "{text:?}");
    let inside = absolute.starts_with(project.canonicalize().unwrap());
    assert_eq!(target.resolved.rooted.iter().any(|rooted| rooted.root == Root::Project), inside, "{text:?}");
    // What a person is shown hides nothing.
    assert!(!resolved.targets()[0].display().contains(char::is_control), "{text:?}");
    if let Some(path) = resolved.path(0) {
        drop(path.open());
    }
}
