//! The folders that rules speak of by name.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The name of a folder that rules speak of, instead of its place on one machine.
///
/// ```
/// use nervekit_permissions::Root;
/// assert_eq!("nerve_home".parse::<Root>()?, Root::NerveHome);
/// assert_eq!(Root::Host("cache".into()).to_string(), "host:cache");
/// # Ok::<(), nervekit_permissions::RootParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Root {
    /// The project's folder.
    Project,
    /// Configuration, rule sets and profiles of the user.
    NerveHome,
    /// Stores and assets.
    NerveData,
    /// Where plans are written.
    Plans,
    /// The user's home, for deny and prompt rules only.
    Home,
    /// The folder for temporary files, for deny and prompt rules only.
    Temp,
    /// A folder that the host or the user registered under this name.
    Host(String),
}

impl Root {
    /// Whether an allow may look at it.
    pub(crate) const fn is_for_allow(&self) -> bool {
        !matches!(self, Self::Home | Self::Temp)
    }

    /// The order among roots that are the same folder; source: `permissions.md`, "Roots and forms".
    pub(crate) const fn rank(&self) -> u8 {
        match self {
            Self::NerveHome => 0,
            Self::NerveData => 1,
            Self::Plans => 2,
            Self::Host(_) => 3,
            Self::Project => 4,
            Self::Home => 5,
            Self::Temp => 6,
        }
    }

    /// Splits `${projectDir}/src/**` into its root and the rest.
    pub(crate) fn split_shorthand(text: &str) -> Option<(Self, &str)> {
        let (name, rest) = text.strip_prefix("${")?.split_once('}')?;
        let root = match name {
            "projectDir" => Self::Project,
            "nerveHome" => Self::NerveHome,
            "nerveData" => Self::NerveData,
            "plansDir" => Self::Plans,
            "homeDir" => Self::Home,
            "tempDir" => Self::Temp,
            _ => return None,
        };
        Some((root, rest.strip_prefix('/').or_else(|| rest.is_empty().then_some(rest))?))
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Project => f.write_str("project"),
            Self::NerveHome => f.write_str("nerve_home"),
            Self::NerveData => f.write_str("nerve_data"),
            Self::Plans => f.write_str("plans"),
            Self::Home => f.write_str("home"),
            Self::Temp => f.write_str("temp"),
            Self::Host(name) => write!(f, "host:{name}"),
        }
    }
}

/// A text that is not the name of a root.
///
/// ```
/// use nervekit_permissions::Root;
/// assert!("projects".parse::<Root>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a root is `project`, `nerve_home`, `nerve_data`, `plans`, `home`, `temp` or `host:` and a name of letters, digits, `_`, `-` and `.`"
)]
#[non_exhaustive]
pub struct RootParseError;

impl FromStr for Root {
    type Err = RootParseError;

    fn from_str(text: &str) -> Result<Self, RootParseError> {
        Ok(match text {
            "project" => Self::Project,
            "nerve_home" => Self::NerveHome,
            "nerve_data" => Self::NerveData,
            "plans" => Self::Plans,
            "home" => Self::Home,
            "temp" => Self::Temp,
            _ => {
                let name = text.strip_prefix("host:").ok_or(RootParseError)?;
                let good = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
                if name.is_empty() || !name.chars().all(good) {
                    return Err(RootParseError);
                }
                Self::Host(name.to_owned())
            }
        })
    }
}

impl Serialize for Root {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Root {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A root and the folder it stands for on this machine.
///
/// ```
/// use nervekit_permissions::{RegisteredRoot, Root};
/// let root = RegisteredRoot::new(Root::Project, "/work/project");
/// assert_eq!(root.root, Root::Project);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RegisteredRoot {
    /// The name.
    pub root: Root,
    /// The folder; links in it are resolved when a call is.
    pub folder: PathBuf,
}

impl RegisteredRoot {
    /// Names a folder.
    #[must_use]
    pub fn new(root: Root, folder: impl Into<PathBuf>) -> Self {
        Self { root, folder: folder.into() }
    }
}

/// The folders that are known on this machine, by name.
///
/// ```
/// use nervekit_permissions::Roots;
/// let roots = Roots::new().project("/work/project").nerve_home("/home/me/.nerve").host("cache", "/var/cache/me");
/// assert_eq!(roots.iter().count(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roots {
    roots: Vec<RegisteredRoot>,
}

impl Roots {
    /// Starts without any.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the folder of a root, in place of an earlier one.
    #[must_use]
    pub fn root(mut self, root: Root, folder: impl Into<PathBuf>) -> Self {
        self.roots.retain(|known| known.root != root);
        self.roots.push(RegisteredRoot::new(root, folder));
        self
    }

    /// Sets the project's folder.
    #[must_use]
    pub fn project(self, folder: impl Into<PathBuf>) -> Self {
        self.root(Root::Project, folder)
    }

    /// Sets the folder of the user's configuration. Writing below it asks whatever the rules say
    /// ([`Mark::ControlFile`](crate::Mark::ControlFile)); unregistered, it is a folder like any other.
    #[must_use]
    pub fn nerve_home(self, folder: impl Into<PathBuf>) -> Self {
        self.root(Root::NerveHome, folder)
    }

    /// Sets the folder of stores and assets. Reading and writing below it ask whatever the rules say.
    #[must_use]
    pub fn nerve_data(self, folder: impl Into<PathBuf>) -> Self {
        self.root(Root::NerveData, folder)
    }

    /// Sets the folder of plans.
    #[must_use]
    pub fn plans(self, folder: impl Into<PathBuf>) -> Self {
        self.root(Root::Plans, folder)
    }

    /// Sets the user's home.
    #[must_use]
    pub fn home(self, folder: impl Into<PathBuf>) -> Self {
        self.root(Root::Home, folder)
    }

    /// Sets the folder of temporary files.
    #[must_use]
    pub fn temp(self, folder: impl Into<PathBuf>) -> Self {
        self.root(Root::Temp, folder)
    }

    /// Registers a folder of the host or the user. Rules name it `"root": "host:<name>"`, or
    /// [`Root::Host`] in code.
    #[must_use]
    pub fn host(self, name: impl Into<String>, folder: impl Into<PathBuf>) -> Self {
        self.root(Root::Host(name.into()), folder)
    }

    /// Goes through them in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = &RegisteredRoot> {
        self.roots.iter()
    }
}
