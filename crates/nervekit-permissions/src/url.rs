//! URLs: one parser for judging, showing and contacting.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::target::Access;

/// Why a text is not a URL that a call may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlFault {
    Unparsable,
    Scheme,
    UserInfo,
    Characters,
}

impl UrlFault {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Unparsable => "it is not a URL",
            Self::Scheme => "only http and https are contacted",
            Self::UserInfo => "it holds a user name or an `@` before the host",
            Self::Characters => "it holds a backslash, white space or a control character",
        }
    }
}

/// A URL in the form that is judged, shown and contacted.
///
/// The host is lower case and in punycode, without a trailing dot; the port is always known; user-info is
/// refused; the fragment is dropped, since it is never sent.
///
/// ```
/// use nervekit_permissions::{Access, UrlTarget};
/// let url = UrlTarget::parse("HTTPS://Docs.Example.:443/a?b#c", Access::Read).unwrap();
/// assert_eq!(url.as_str(), "https://docs.example/a?b");
/// assert_eq!(url.host(), "docs.example");
/// assert!(UrlTarget::parse("https://good.example@evil.example/", Access::Read).is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UrlTarget {
    /// Whether it is only fetched.
    pub access: Access,
    url: Url,
    /// Whether the path could be read differently by the server: no allow matches it.
    ambiguous_path: bool,
}

impl UrlTarget {
    /// Parses a URL; `None` when it is refused.
    #[must_use]
    pub fn parse(text: &str, access: Access) -> Option<Self> {
        Self::read(text, access).ok()
    }

    pub(crate) fn read(text: &str, access: Access) -> Result<Self, UrlFault> {
        // The WHATWG parser drops tabs and line breaks and turns backslashes into slashes. What a person reads
        // must be what is contacted, so such texts are refused before they reach it.
        if text.chars().any(|c| c == '\\' || c.is_control() || c.is_whitespace()) {
            return Err(UrlFault::Characters);
        }
        let mut url = Url::parse(text).map_err(|_| UrlFault::Unparsable)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlFault::Scheme);
        }
        let rest = text.split_once(':').map_or("", |(_, rest)| rest).trim_start_matches('/');
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
            return Err(UrlFault::UserInfo);
        }
        url.set_fragment(None);
        let host = match url.host() {
            Some(Host::Domain(domain)) => Some(domain.strip_suffix('.').unwrap_or(domain).to_owned()),
            Some(_) => None,
            None => return Err(UrlFault::Unparsable),
        };
        if let Some(host) = host {
            if host.is_empty() || host.ends_with('.') {
                return Err(UrlFault::Unparsable);
            }
            url.set_host(Some(&host)).map_err(|_| UrlFault::Unparsable)?;
        }
        let typed = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default();
        let typed = typed.split(['?', '#']).next().unwrap_or_default();
        Ok(Self { access, ambiguous_path: is_ambiguous(typed) || is_ambiguous(url.path()), url })
    }

    /// Returns the whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the host, lower case and in punycode; an IPv6 address in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    pub(crate) fn scheme(&self) -> &str {
        self.url.scheme()
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }

    /// The path without its leading slash.
    pub(crate) fn path(&self) -> &str {
        self.url.path().strip_prefix('/').unwrap_or_default()
    }

    pub(crate) fn has_query(&self) -> bool {
        self.url.query().is_some()
    }

    pub(crate) const fn ambiguous_path(&self) -> bool {
        self.ambiguous_path
    }

    pub(crate) fn is_ip(&self) -> bool {
        !matches!(self.url.host(), Some(Host::Domain(_)))
    }

    /// The URL of the origin's top, for suggestions.
    pub(crate) fn origin(&self) -> String {
        let mut top = self.url.clone();
        top.set_path("/");
        top.set_query(None);
        top.into()
    }
}

/// Writes out the characters that mean the same encoded and not: letters, digits, `-`, `.`, `_` and `~`. A server
/// reads both spellings alike, so what restricts one restricts the other. Source: RFC 3986, 6.2.2.2.
pub(crate) fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        written.push_str(before);
        let code = from.get(1..3).and_then(|code| u8::from_str_radix(code, 16).ok()).map(char::from);
        let length = if let Some(plain) = code.filter(|c| c.is_ascii_alphanumeric() || "-._~".contains(*c)) {
            written.push(plain);
            3
        } else {
            written.push('%');
            1
        };
        rest = from.get(length..).unwrap_or_default();
    }
    written.push_str(rest);
    Cow::Owned(written)
}

/// Whether a path holds an encoded separator, a dot segment, an empty one, a NUL or double encoding.
fn is_ambiguous(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let encoded = ["%2f", "%5c", "%00"].iter().any(|code| lower.contains(code));
    let double = lower.match_indices("%25").any(|(at, code)| {
        let next = lower.as_bytes().get(at + code.len()..at + code.len() + 2);
        next.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    });
    let dots = lower.split('/').any(|segment| matches!(segment.replace("%2e", ".").as_str(), "." | ".."));
    encoded || double || dots || path.contains("//")
}

/// A URL that was decided: what a tool contacts.
///
/// ```
/// use nervekit_permissions::{Access, DecidedUrl, UrlTarget};
/// let url = DecidedUrl::new(&UrlTarget::parse("http://docs.example/a", Access::Read).unwrap());
/// // The same origin, or the step from http to https of it, goes on; anything else is a new call.
/// assert!(url.follows("/b").is_some());
/// assert!(url.follows("https://docs.example/a").is_some());
/// assert!(url.follows("https://evil.example/a").is_none());
/// assert!(url.follows("http://docs.example:8080/a").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedUrl {
    url: Url,
}

impl DecidedUrl {
    /// Takes the URL of a canonical target.
    #[must_use]
    pub fn new(target: &UrlTarget) -> Self {
        Self { url: target.url.clone() }
    }

    /// Returns the URL to contact.
    #[must_use]
    pub const fn as_url(&self) -> &Url {
        &self.url
    }

    /// Resolves a redirect; `None` when it leads elsewhere and has to be decided as a call of its own.
    #[must_use]
    pub fn follows(&self, location: &str) -> Option<Self> {
        let joined = self.url.join(location).ok()?;
        let next = UrlTarget::read(joined.as_str(), Access::Read).ok()?.url;
        let same = next.origin() == self.url.origin();
        let upgrade = self.url.scheme() == "http"
            && next.scheme() == "https"
            && next.host() == self.url.host()
            && self.url.port_or_known_default() == Some(80)
            && next.port_or_known_default() == Some(443);
        (same || upgrade).then_some(Self { url: next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_17_one_parser_decides_the_host() {
        for refused in [
            "http://good.test@evil.example/",
            "http://good.test:80@127.0.0.1/",
            "https://evil.example\\@good.test/x",
            "http://good.test%2f@evil.example/",
            "https://good.test/\t",
            "https://go\nod.test/",
            "https://good.test\r/",
            " https://good.test/",
            "HTTP:/good.test@evil.example",
            "http://@evil.example/",
            "ftp://good.test/",
            "file:///etc/passwd",
            "good.test",
            "https://",
            "http://good.test../",
        ] {
            assert!(UrlTarget::parse(refused, Access::Read).is_none(), "{refused}");
        }
        // The fragment is never sent: this contacts good.test.
        let url = UrlTarget::parse("http://good.test#@evil.example/", Access::Read).unwrap();
        assert_eq!(url.as_str(), "http://good.test/");
        assert_eq!(UrlTarget::parse("http://0x7f.1/", Access::Read).unwrap().host(), "127.0.0.1");
        assert_eq!(
            UrlTarget::parse("http://bücher.test/", Access::Read).unwrap().host(),
            "xn--bcher-kva.test"
        );
    }

    #[test]
    fn paths_that_a_server_may_read_differently_are_ambiguous() {
        for ambiguous in
            ["/a%2fb", "/a%5Cb", "/a/../b", "/a/%2e%2e/b", "/a/.%2E/b", "/a%00", "/a%252fb", "/./a", "/a//b"]
        {
            let url = UrlTarget::parse(&format!("https://a.test{ambiguous}"), Access::Read).unwrap();
            assert!(url.ambiguous_path(), "{ambiguous}");
        }
        for plain in ["", "/", "/a/b", "/a..b", "/100%25", "/a%20b", "/x?p=..%2f"] {
            let url = UrlTarget::parse(&format!("https://a.test{plain}"), Access::Read).unwrap();
            assert!(!url.ambiguous_path(), "{plain}");
        }
    }
}
