//! The environment of child processes.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// What builds need: where programs and toolchains are, who and where the user is, language and time zone.
const KEPT: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TZ",
    "LANG",
    "LANGUAGE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "JAVA_HOME",
    "ANDROID_HOME",
    "MAVEN_HOME",
    "GRADLE_USER_HOME",
    "NVM_DIR",
    "NODE_PATH",
    "VOLTA_HOME",
    "PNPM_HOME",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "UV_CACHE_DIR",
    "RBENV_ROOT",
    "GEM_HOME",
    "DOTNET_ROOT",
    "SDKROOT",
    "DEVELOPER_DIR",
    "CC",
    "CXX",
    "LD_LIBRARY_PATH",
    "PKG_CONFIG_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_PATH",
    "NIX_SSL_CERT_FILE",
];

/// Quiet and never interactive: no pager, no prompt, no colours, no editor.
const DEFAULTS: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("PIP_NO_INPUT", "1"),
];

/// Builds the environment: what is kept of `inherited`, what the host allows besides, the quiet defaults, and
/// what the command itself sets. A name that looks like a credential's is never taken from `inherited`, even
/// when it is allowed.
pub(crate) fn environment(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
    allowed: &[String],
    own: &BTreeMap<String, String>,
) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<OsString, OsString> = inherited
        .into_iter()
        .filter(|(name, _)| {
            name.to_str().is_some_and(|name| {
                let wanted =
                    KEPT.contains(&name) || name.starts_with("LC_") || allowed.iter().any(|one| one == name);
                wanted && !is_secret(name)
            })
        })
        .collect();
    environment.extend(DEFAULTS.iter().map(|(name, value)| ((*name).into(), (*value).into())));
    environment.extend(own.iter().map(|(name, value)| (name.into(), value.into())));
    environment
}

/// Whether a name is that of a credential.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS"].iter().any(|word| {
        name == *word || name.ends_with(&format!("_{word}")) || name.contains(&format!("_{word}_"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_never_reach_a_child_even_when_allowed() {
        let inherited = [
            "PATH",
            "HOME",
            "LC_ALL",
            "RANDOM_THING",
            "MY_SETTING",
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "DB_PASSWORD",
            "AWS_SECRET_ACCESS_KEY",
            "CLIENT_SECRET",
            "KEY",
        ];
        let inherited = inherited.map(|name| (OsString::from(name), OsString::from("value")));
        let allowed = ["MY_SETTING", "GITHUB_TOKEN", "ANTHROPIC_API_KEY"].map(str::to_owned);
        let own = BTreeMap::from([("EXTRA".to_owned(), "1".to_owned())]);
        let environment = environment(inherited, &allowed, &own);
        let mut names: Vec<&str> = environment.keys().filter_map(|name| name.to_str()).collect();
        names.retain(|name| !DEFAULTS.iter().any(|(default, _)| default == name));
        assert_eq!(names, ["EXTRA", "HOME", "LC_ALL", "MY_SETTING", "PATH"]);
        assert_eq!(environment[&OsString::from("TERM")], "dumb");
    }
}
