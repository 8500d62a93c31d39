//! Comparing one target with one matcher.

use nervekit_types::Digest;
use url::Url;

use super::Reading;
use crate::canonical::{CanonicalSubject, CanonicalTarget, PathForm, PathTarget, RootedPath, below};
use crate::decision::Decision;
use crate::fold::fold;
use crate::pattern::Pattern;
use crate::root::Root;
use crate::rule::{Enforcement, Matcher, QueryMatch, Rule, TargetKind};
use crate::target::{Access, TargetScope};
use crate::url::{UrlTarget, unescaped};

/// How much of a target a matcher is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// Nothing of it.
    None,
    /// Something below a tree, not the tree itself. Only for rules that restrict.
    Part,
    /// The target; for an allow with everything below.
    Whole,
}

/// To what its text is relative, as far as `root` and `absolute` say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    Unsaid,
    Root,
    Nothing,
}

/// A matcher that is ready to be compared.
#[derive(Clone, Debug)]
pub(super) struct CompiledMatcher {
    kind: Option<TargetKind>,
    access: Option<Access>,
    scope: Option<TargetScope>,
    profile: Option<String>,
    content: Option<Digest>,
    base: Base,
    any_query: bool,
    /// Whether it names one target and no other.
    exact: bool,
    root: Option<Root>,
    select: Select,
    reading: Reading,
    decision: Decision,
    /// Whether names are compared case-folded and normalised.
    folded: bool,
}

#[derive(Clone, Debug)]
enum Select {
    Anything,
    Path(PathSelect),
    Url(Box<UrlSelect>),
}

#[derive(Clone, Debug)]
enum PathSelect {
    Exact(String),
    Subtree(String),
    Pattern(Pattern),
}

#[derive(Clone, Debug)]
enum UrlSelect {
    Exact(UrlTarget),
    Parts { scheme: Option<String>, host: HostSelect, port: PortSelect, path: UrlPath },
}

#[derive(Clone, Debug)]
enum HostSelect {
    Any,
    Exact(String),
    /// With its leading dot.
    Below(String),
}

#[derive(Clone, Copy, Debug)]
enum PortSelect {
    Any,
    /// That of the scheme.
    Default,
    Exact(u16),
}

#[derive(Clone, Debug)]
enum UrlPath {
    Root,
    Below(String),
    Pattern(Pattern),
}

impl CompiledMatcher {
    pub(super) fn compile(matcher: &Matcher, rule: &Rule) -> Result<Self, String> {
        let reading = Reading::of(rule.decision);
        let folded =
            rule.enforcement == Enforcement::Guardrail || cfg!(any(target_vendor = "apple", windows));
        let (mut root, select) = select(matcher, folded)?;
        let names_path = matcher.absolute || root.is_some() || matches!(select, Select::Path(_));
        let names_url = matches!(select, Select::Url(_));
        let fits = |kind: TargetKind| matcher.kind.is_none_or(|wanted| wanted == kind);
        if names_path && !fits(TargetKind::Path) || names_url && !fits(TargetKind::Url) {
            return Err("the matcher's `kind` contradicts what else it asks for".to_owned());
        }
        if matcher.profile.is_some() && (names_path || names_url || !fits(TargetKind::Agent)) {
            return Err("`profile` is about sub-agents only".to_owned());
        }
        if matcher.query.is_some() && (!names_url || matcher.exact.is_some()) {
            return Err("`query` goes with `subtree` or `pattern` of a URL; an exact URL includes its query"
                .to_owned());
        }
        if matcher.absolute && reading == Reading::Allow && matcher.exact.is_none() {
            return Err("an allow covers a path outside the roots by `exact` only".to_owned());
        }
        if reading == Reading::Allow && root.as_ref().is_some_and(|root| !root.is_for_allow()) {
            return Err("the roots `home` and `temp` are for deny and prompt rules only".to_owned());
        }
        let other_kind = names_url || matcher.profile.is_some() || !fits(TargetKind::Path);
        if reading == Reading::Allow && root.is_none() && !matcher.absolute && !other_kind {
            root = Some(Root::Project);
        }
        Ok(Self {
            kind: matcher.kind,
            access: matcher.access,
            scope: matcher.scope,
            profile: matcher.profile.clone(),
            content: matcher.content,
            base: match (matcher.absolute, &matcher.root) {
                (true, _) => Base::Nothing,
                (false, Some(_)) => Base::Root,
                (false, None) => Base::Unsaid,
            },
            any_query: matcher.query == Some(QueryMatch::Any),
            exact: matcher.exact.is_some(),
            root,
            select,
            reading,
            decision: rule.decision,
            folded,
        })
    }

    /// How much of the target the matcher is about. `reads_back`: the tool shows what it overwrites.
    pub(super) fn reach(&self, target: &CanonicalTarget, reads_back: bool) -> Reach {
        let subject = target.subject();
        if self.kind.is_some_and(|kind| kind != subject.kind()) {
            return Reach::None;
        }
        if let Some(access) = self.access {
            // Who may not read a file is not shown it by an edit either.
            let also_read = self.decision == Decision::Deny && access == Access::Read && reads_back;
            if target.access() != Some(access) && !(also_read && target.path().is_some()) {
                return Reach::None;
            }
        }
        match subject {
            CanonicalSubject::Path(path) => self.reach_path(path),
            CanonicalSubject::Url(url) => self.reach_url(url),
            CanonicalSubject::Agent(agent) => {
                let profile = self.profile.as_ref().is_none_or(|profile| *profile == agent.profile);
                let content = self.content.is_none() || self.content == agent.digest;
                whole(profile && content && self.is_open())
            }
            CanonicalSubject::WholeTool => {
                whole(self.is_open() && self.profile.is_none() && self.content.is_none())
            }
        }
    }

    /// Whether it names one target and no other.
    pub(super) const fn is_exact(&self) -> bool {
        self.exact
    }

    /// Whether it asks for nothing that only a path or a URL has. An allow without any selection means the
    /// project's paths, and any target of another kind.
    fn is_open(&self) -> bool {
        matches!(self.select, Select::Anything) && self.base == Base::Unsaid && self.scope.is_none()
    }

    fn reach_path(&self, path: &PathTarget) -> Reach {
        if self.profile.is_some()
            || self.scope.is_some_and(|scope| scope != path.scope)
            || self.content.is_some() && self.content != path.content
        {
            return Reach::None;
        }
        let select = match &self.select {
            Select::Anything => None,
            Select::Path(select) => Some(select),
            Select::Url(_) => return Reach::None,
        };
        match self.reading {
            Reading::Allow => whole(self.covers(select, path)),
            Reading::Restrict => self.restricts(select, path),
        }
    }

    /// The reading of an allow: the resolved path, under its longest root only.
    fn covers(&self, select: Option<&PathSelect>, path: &PathTarget) -> bool {
        let longest = path.resolved.for_allow();
        if self.base == Base::Nothing {
            let Some(PathSelect::Exact(exact)) = select else { return false };
            return path.scope == TargetScope::Exact && self.absolute(&path.resolved) == exact;
        }
        let (Some(root), Some(longest)) = (&self.root, longest) else { return false };
        // What lies below in another root is not looked at under this one.
        if *root != longest.root || path.contains.iter().any(|inner| inner.root.is_for_allow()) {
            return false;
        }
        let name = self.name(longest);
        match select {
            None => true,
            Some(PathSelect::Exact(exact)) => path.scope == TargetScope::Exact && name == exact,
            Some(PathSelect::Subtree(subtree)) => is_below(name, subtree),
            Some(PathSelect::Pattern(pattern)) => match path.scope {
                TargetScope::Exact => pattern.matches(name),
                TargetScope::Tree => pattern.covers_tree(name),
            },
        }
    }

    /// The reading of a deny or prompt: both forms, under every root, and outside all roots.
    fn restricts(&self, select: Option<&PathSelect>, path: &PathTarget) -> Reach {
        let mut most = Reach::None;
        // Where no link was followed the typed form also names every root of the resolved one.
        let linked = path.resolved.absolute != path.lexical.absolute;
        for form in [Some(&path.lexical), linked.then_some(&path.resolved)].into_iter().flatten() {
            if self.base != Base::Nothing {
                for rooted in &form.rooted {
                    if self.root.as_ref().is_none_or(|root| *root == rooted.root) {
                        most = most.max(restricts_name(select, self.name(rooted), path.scope));
                    }
                }
            }
            let external = self.root.is_none() && form.for_allow().is_none();
            if self.base == Base::Nothing || external {
                most = most.max(restricts_name(select, self.absolute(form), path.scope));
            }
        }
        // A root below the tree may hold a match whatever the pattern is.
        let below = self.base != Base::Nothing
            && path.contains.iter().any(|inner| self.root.as_ref().is_none_or(|root| *root == inner.root));
        if below { most.max(Reach::Part) } else { most }
    }

    fn name<'p>(&self, rooted: &'p RootedPath) -> &'p str {
        if self.folded { &rooted.folded } else { &rooted.path }
    }

    fn absolute<'p>(&self, form: &'p PathForm) -> &'p str {
        let text = if self.folded { &form.folded } else { &form.absolute };
        text.strip_prefix('/').unwrap_or(text)
    }

    fn reach_url(&self, url: &UrlTarget) -> Reach {
        if self.base != Base::Unsaid
            || self.profile.is_some()
            || self.scope.is_some()
            || self.content.is_some()
        {
            return Reach::None;
        }
        let allow = self.reading == Reading::Allow;
        if allow && url.ambiguous_path() {
            return Reach::None;
        }
        whole(match &self.select {
            Select::Anything => true,
            Select::Path(_) => false,
            Select::Url(select) => match &**select {
                UrlSelect::Exact(exact) => {
                    exact.as_str() == url.as_str()
                        || !allow && unescaped(exact.as_str()) == unescaped(url.as_str())
                }
                UrlSelect::Parts { scheme, host, port, path } => {
                    scheme.as_ref().is_none_or(|scheme| scheme == url.scheme())
                        && host.matches(url)
                        && port.matches(url)
                        // What a server may read as another path is refused wherever the host matches.
                        && (path.matches(url.path())
                            || !allow && (url.ambiguous_path() || path.matches(&unescaped(url.path()))))
                        && (!allow || !url.has_query() || self.any_query)
                }
            },
        })
    }
}

const fn whole(matches: bool) -> Reach {
    if matches { Reach::Whole } else { Reach::None }
}

fn is_below(path: &str, folder: &str) -> bool {
    below(path, folder).is_some()
}

fn restricts_name(select: Option<&PathSelect>, name: &str, scope: TargetScope) -> Reach {
    let itself = match select {
        None => true,
        Some(PathSelect::Exact(exact)) => name == exact,
        Some(PathSelect::Subtree(subtree)) => is_below(name, subtree),
        Some(PathSelect::Pattern(pattern)) => pattern.matches(name),
    };
    if itself {
        return Reach::Whole;
    }
    let below = scope == TargetScope::Tree
        && match select {
            None => true,
            Some(PathSelect::Exact(inner) | PathSelect::Subtree(inner)) => is_below(inner, name),
            Some(PathSelect::Pattern(pattern)) => pattern.reaches_below(name),
        };
    if below { Reach::Part } else { Reach::None }
}

impl HostSelect {
    fn matches(&self, url: &UrlTarget) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(host) => host == url.host(),
            Self::Below(suffix) => {
                !url.is_ip() && url.host().len() > suffix.len() && url.host().ends_with(suffix.as_str())
            }
        }
    }
}

impl PortSelect {
    fn matches(self, url: &UrlTarget) -> bool {
        match self {
            Self::Any => true,
            Self::Default => url.port() == if url.scheme() == "https" { 443 } else { 80 },
            Self::Exact(port) => url.port() == port,
        }
    }
}

impl UrlPath {
    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Root => path.is_empty(),
            Self::Below(folder) => is_below(path, folder.trim_end_matches('/')),
            Self::Pattern(pattern) => pattern.matches(path),
        }
    }
}

/// Reads what a matcher selects, and the root that its shorthand names.
fn select(matcher: &Matcher, folded: bool) -> Result<(Option<Root>, Select), String> {
    let given = [&matcher.exact, &matcher.subtree, &matcher.pattern];
    let mut given = given.into_iter().flatten();
    let Some(text) = given.next() else {
        if matcher.absolute {
            return Err("`absolute` goes with `exact`, `subtree` or `pattern`".to_owned());
        }
        return Ok((matcher.root.clone(), Select::Anything));
    };
    if given.next().is_some() {
        return Err("only one of `exact`, `subtree` and `pattern` is given".to_owned());
    }
    if text.contains("://") || matcher.kind == Some(TargetKind::Url) {
        return Ok((None, Select::Url(Box::new(url_select(matcher, text)?))));
    }
    let (root, text) = match Root::split_shorthand(text) {
        Some(_) if matcher.root.is_some() || matcher.absolute => {
            return Err("a path with `${…}` names its root; leave out `root` and `absolute`".to_owned());
        }
        Some((root, rest)) => (Some(root), rest),
        // Taken for a name it would never match.
        None if text.starts_with("${") && matcher.root.is_none() && !matcher.absolute => {
            let shown = crate::display(text);
            return Err(format!(
                "`{shown}` names no root; say `${{projectDir}}/…`, or `nerveHome`, `nerveData`, `plansDir`, \
                 `homeDir`, `tempDir`"
            ));
        }
        None => (matcher.root.clone(), text.as_str()),
    };
    if matcher.absolute && root.is_some() {
        return Err("an absolute path has no root".to_owned());
    }
    let text = match (matcher.absolute, matcher.pattern.is_some()) {
        (true, false) => text.strip_prefix('/').ok_or("an absolute path begins with `/`")?,
        _ => text,
    };
    let text = if folded { fold(text) } else { text.to_owned() };
    let select = if matcher.pattern.is_some() {
        if text.is_empty() {
            return Ok((root, Select::Path(PathSelect::Subtree(text))));
        }
        PathSelect::Pattern(Pattern::parse(&text).map_err(|error| error.to_string())?)
    } else {
        let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if text.chars().any(char::is_control) || !text.is_empty() && !text.split('/').all(plain) {
            return Err(format!("`{}` is no plain path below a root", crate::display(&text)));
        }
        if matcher.exact.is_some() { PathSelect::Exact(text) } else { PathSelect::Subtree(text) }
    };
    Ok((root, Select::Path(select)))
}

fn url_select(matcher: &Matcher, text: &str) -> Result<UrlSelect, String> {
    if matcher.root.is_some() || matcher.absolute {
        return Err("a URL has no root and is never relative".to_owned());
    }
    if matcher.pattern.is_none() {
        let url = UrlTarget::read(text, Access::Read).map_err(|fault| fault.words().to_owned())?;
        if matcher.exact.is_some() {
            return Ok(UrlSelect::Exact(url));
        }
        if url.has_query() || url.ambiguous_path() {
            return Err("the URL of a `subtree` has no query and a plain path".to_owned());
        }
        return Ok(UrlSelect::Parts {
            scheme: Some(url.scheme().to_owned()),
            host: HostSelect::Exact(url.host().to_owned()),
            port: PortSelect::Exact(url.port()),
            path: UrlPath::Below(url.path().to_owned()),
        });
    }
    let (scheme, rest) =
        text.split_once("://").ok_or("a URL pattern begins with `https://`, `http://` or `*://`")?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "*" => None,
        known @ ("http" | "https") => Some(known.to_owned()),
        _ => return Err("a URL pattern begins with `https://`, `http://` or `*://`".to_owned()),
    };
    if rest.contains(['?', '#', '@', '\\']) {
        return Err(
            "a URL pattern holds no query, fragment, user name or `?`; say `\"query\": \"any\"`".to_owned()
        );
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, "*")) => (host, PortSelect::Any),
        Some((host, port)) if !port.ends_with(']') => {
            (host, PortSelect::Exact(port.parse().map_err(|_| "a port is a number or `*`")?))
        }
        _ => (authority, PortSelect::Default),
    };
    let path = match path {
        "" => UrlPath::Root,
        path => UrlPath::Pattern(Pattern::parse(path).map_err(|error| error.to_string())?),
    };
    Ok(UrlSelect::Parts { scheme, host: host_select(host)?, port, path })
}

fn host_select(host: &str) -> Result<HostSelect, String> {
    if host == "*" {
        return Ok(HostSelect::Any);
    }
    let (below, name) = host.strip_prefix("*.").map_or((false, host), |name| (true, name));
    if name.contains(['*', '?', '{', '}']) {
        return Err("a host is exact, `*`, or `*.` and a domain".to_owned());
    }
    let url = Url::parse(&format!("http://{name}/")).map_err(|error| error.to_string())?;
    let name = url.host_str().unwrap_or_default();
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        return Err("a URL pattern names a host".to_owned());
    }
    Ok(if below { HostSelect::Below(format!(".{name}")) } else { HostSelect::Exact(name.to_owned()) })
}
