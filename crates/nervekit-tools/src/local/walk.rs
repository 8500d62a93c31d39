//! Walking a decided tree: in a stable order, without following links, only what may be seen.

use std::ffi::OsString;
use std::io::{self, Read as _};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use nervekit_permissions::{DecidedEntry, DecidedPath, DecidedTarget, EntryFilter, EntryKind};

use crate::context::ToolContext;
use crate::error::ToolError;
use crate::local::file::refused;

/// The largest `.gitignore` that is read.
const IGNORE_LIMIT: u64 = 1024 * 1024;

/// An entry of a walk.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its path below the tree, with `/` between names; names that are not UTF-8 are decoded lossily.
    pub(crate) relative: String,
    pub(crate) kind: EntryKind,
    folder: DecidedPath,
    name: OsString,
}

impl Found {
    /// The entry, to be opened: made on demand, because most entries of most searches are not.
    pub(crate) fn path(&self) -> io::Result<DecidedPath> {
        self.folder.child(&self.name)
    }

    /// The path as it may be shown: a name can hold line ends and escapes.
    pub(crate) fn shown(&self) -> String {
        shown(&self.relative)
    }
}

/// What stands before the paths found in a folder, so that they can be used as they are shown: the folder as it
/// was typed, nothing for the working directory.
pub(crate) fn prefix(typed: Option<&str>) -> String {
    let typed = typed.unwrap_or_default();
    let typed = typed.strip_prefix("./").unwrap_or(typed);
    match typed.trim_end_matches('/') {
        "" if typed.starts_with('/') => "/".to_owned(),
        "" | "." => String::new(),
        folder => format!("{folder}/"),
    }
}

/// A name with its control characters replaced.
pub(crate) fn shown(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

/// What a walk left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// By a permission rule.
    pub(crate) withheld: u64,
    /// Because they begin with a dot.
    pub(crate) hidden: u64,
    /// By a `.gitignore`.
    pub(crate) ignored: u64,
    /// Folders that could not be listed.
    pub(crate) unreadable: u64,
}

impl LeftOut {
    pub(crate) fn add(&mut self, other: Self) {
        self.withheld += other.withheld;
        self.hidden += other.hidden;
        self.ignored += other.ignored;
        self.unreadable += other.unreadable;
    }

    /// One line about what a person or model should know; hidden and ignored entries only for a listing.
    pub(crate) fn hint(self, listing: bool) -> Option<String> {
        let counts = [
            (self.withheld, "withheld by permission rules"),
            (self.unreadable, "could not be read"),
            (if listing { self.hidden } else { 0 }, "hidden"),
            (if listing { self.ignored } else { 0 }, "ignored by .gitignore"),
        ];
        let parts: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!parts.is_empty()).then(|| format!("[not shown: {}]", parts.join(", ")))
    }
}

/// A walk over one tree. Entries come in the order of their names, a folder before what is in it.
pub(crate) struct Walk<'a> {
    context: &'a ToolContext,
    filter: Option<&'a EntryFilter>,
    hidden: bool,
    recursive: bool,
    levels: Vec<Level>,
    pub(crate) left_out: LeftOut,
}

/// A folder that is being gone through.
struct Level {
    folder: DecidedPath,
    relative: String,
    /// The last one is next.
    entries: Vec<DecidedEntry>,
    ignore: Option<Gitignore>,
}

impl<'a> Walk<'a> {
    /// Begins at a folder. `.git` is never entered; other hidden entries only when asked for.
    pub(crate) fn new(
        context: &'a ToolContext,
        target: &'a DecidedTarget,
        hidden: bool,
        recursive: bool,
    ) -> Result<Self, ToolError> {
        let path =
            target.path.as_ref().ok_or_else(|| ToolError::new("no folder was decided for this call"))?;
        let filter = target.entries.as_ref();
        let mut walk =
            Self { context, filter, hidden, recursive, levels: Vec::new(), left_out: LeftOut::default() };
        walk.enter(path.clone(), String::new()).map_err(|error| refused(path, error))?;
        Ok(walk)
    }

    fn enter(&mut self, folder: DecidedPath, relative: String) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in folder.entries()? {
            entries.push(entry?);
        }
        entries.sort_unstable_by(|a, b| b.name.cmp(&a.name));
        let has_ignore =
            entries.iter().any(|entry| entry.name == ".gitignore" && entry.kind == EntryKind::File);
        let ignore = if has_ignore { self.read_ignore(&folder, &relative) } else { None };
        self.levels.push(Level { folder, relative, entries, ignore });
        Ok(())
    }

    /// A `.gitignore` that cannot be read, or a line of it that means nothing, ignores nothing.
    fn read_ignore(&self, folder: &DecidedPath, relative: &str) -> Option<Gitignore> {
        let below = join(relative, ".gitignore");
        if self.filter.is_some_and(|filter| !filter.allows(&below)) {
            return None;
        }
        let file = folder.child(".gitignore").and_then(|path| path.open()).ok()?;
        let mut text = Vec::new();
        file.take(IGNORE_LIMIT).read_to_end(&mut text).ok()?;
        let mut builder = GitignoreBuilder::new("");
        for line in String::from_utf8_lossy(&text).lines() {
            let _ = builder.add_line(None, line);
        }
        builder.build().ok()
    }

    /// The innermost `.gitignore` that says something about an entry decides.
    fn is_ignored(&self, relative: &str, kind: EntryKind) -> bool {
        for level in self.levels.iter().rev() {
            let Some(ignore) = &level.ignore else { continue };
            let below = relative.strip_prefix(&level.relative).unwrap_or(relative).trim_start_matches('/');
            let verdict = ignore.matched(below, kind == EntryKind::Folder);
            if !verdict.is_none() {
                return verdict.is_ignore();
            }
        }
        false
    }
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if self.context.is_cancelled() {
                return None;
            }
            let level = self.levels.last_mut()?;
            let Some(entry) = level.entries.pop() else {
                self.levels.pop();
                continue;
            };
            let folder = level.folder.clone();
            let shown = entry.name.to_string_lossy();
            let relative = join(&level.relative, &shown);
            if shown.starts_with('.') && (!self.hidden || shown == ".git") {
                self.left_out.hidden += 1;
                continue;
            }
            if self.is_ignored(&relative, entry.kind) {
                self.left_out.ignored += 1;
                continue;
            }
            if self.filter.is_some_and(|filter| !filter.allows(&relative)) {
                self.left_out.withheld += 1;
                continue;
            }
            let found = Found { relative, kind: entry.kind, folder, name: entry.name };
            if self.recursive && found.kind == EntryKind::Folder {
                let entered = found.path().and_then(|path| self.enter(path, found.relative.clone()));
                self.left_out.unreadable += u64::from(entered.is_err());
            }
            return Some(found);
        }
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_found_path_can_be_used_as_it_is_shown() {
        for (typed, wanted) in [
            (None, ""),
            (Some("."), ""),
            (Some("./"), ""),
            (Some("src"), "src/"),
            (Some("./src//"), "src/"),
            (Some("../other"), "../other/"),
            (Some("/"), "/"),
            (Some("/etc"), "/etc/"),
        ] {
            assert_eq!(prefix(typed), wanted, "{typed:?}");
        }
    }
}
