//! What the tools told, read back from their results.

/// The file that the demo writes; it is no part of what it surveys.
pub(super) const REPORT: &str = "NERVE_REPORT.md";

/// What was found out about a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// Files with their sizes in bytes, in the order of their paths.
    pub(super) files: Vec<(String, u64)>,
    /// Whether there are more files than were listed.
    pub(super) more_files: bool,
    /// Every line that holds a TODO: path, line number, text.
    pub(super) todos: Vec<Todo>,
    /// Whether there are more such lines than were listed.
    pub(super) more_todos: bool,
}

/// A line that holds a TODO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Todo {
    pub(super) path: String,
    pub(super) line: u64,
    pub(super) text: String,
}

impl Survey {
    /// Reads the result of `find` with sizes.
    pub(super) fn read_files(&mut self, result: &str) {
        result.lines().for_each(|line| self.read_file(line));
        self.more_files = has_hint(result, "[stopped at the limit of ") || has_hint(result, "[… ");
    }

    /// Reads a window of the complete result of `find`: numbered lines.
    pub(super) fn read_numbered_files(&mut self, window: &str) {
        window.lines().filter_map(|line| line.split_once('\t')).for_each(|(_, line)| self.read_file(line));
    }

    /// A file is its size, a tab, its path; what has no size is a folder or none that can be read.
    fn read_file(&mut self, line: &str) {
        if let Some((size, path)) = line.split_once('\t')
            && path != REPORT
        {
            // The size of a file that vanished meanwhile is shown as `?`.
            self.files.push((path.to_owned(), size.parse().unwrap_or(0)));
        }
    }

    /// Reads the result of `grep`: for each file its path on a line of its own, its matches as `number:text`, and an
    /// empty line before the next one.
    pub(super) fn read_todos(&mut self, result: &str) {
        for group in result.split("\n\n") {
            let mut lines = group.lines();
            let Some(path) = lines.next().filter(|path| *path != REPORT) else { continue };
            for (number, text) in lines.filter_map(|line| line.split_once(':')) {
                if let Ok(line) = number.parse() {
                    self.todos.push(Todo { path: path.to_owned(), line, text: text.trim().to_owned() });
                }
            }
        }
        self.more_todos = has_hint(result, "[stopped ");
    }

    /// The largest file; of several the first by path.
    pub(super) fn largest(&self) -> Option<&(String, u64)> {
        self.files.iter().rev().max_by_key(|(_, size)| *size)
    }

    /// Up to three files that say most about a folder.
    pub(super) fn important(&self) -> Vec<&str> {
        const NAMES: [&str; 8] = [
            "README.md",
            "README",
            "Cargo.toml",
            "package.json",
            "pyproject.toml",
            "go.mod",
            "Makefile",
            "AGENTS.md",
        ];
        let rank = |path: &str| NAMES.iter().position(|name| *name == path);
        let mut known: Vec<&str> = self.files.iter().map(|(path, _)| path.as_str()).collect();
        known.retain(|path| rank(path).is_some());
        known.sort_by_key(|path| rank(path));
        known.truncate(3);
        known
    }

    /// How many files there are, in words.
    pub(super) fn count(&self) -> String {
        let more = if self.more_files { "more than " } else { "" };
        match self.files.len() {
            1 if !self.more_files => "1 file".to_owned(),
            count => format!("{more}{count} files"),
        }
    }

    /// The largest file, in words.
    pub(super) fn largest_words(&self) -> String {
        match self.largest() {
            Some((path, size)) => format!("`{path}` with {size} bytes"),
            None => "none: the folder has no files".to_owned(),
        }
    }

    /// How many TODOs there are, in words.
    pub(super) fn todo_count(&self) -> String {
        match self.todos.len() {
            0 => "no TODOs".to_owned(),
            1 if !self.more_todos => "1 TODO".to_owned(),
            count if self.more_todos => format!("more than {count} TODOs"),
            count => format!("{count} TODOs"),
        }
    }

    /// Every TODO, a line each.
    pub(super) fn todo_lines(&self) -> String {
        let mut lines: Vec<String> =
            self.todos.iter().map(|todo| format!("- {}:{}: {}", todo.path, todo.line, todo.text)).collect();
        if self.more_todos {
            lines.push("- and more that were not listed".to_owned());
        }
        lines.join("\n")
    }
}

/// Whether a result has a line of its tool's own that begins so. These come last; a line of a file has a number
/// before it, and so has a file its size.
fn has_hint(result: &str, begin: &str) -> bool {
    result.lines().rev().take(4).any(|line| line.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_back() {
        let mut survey = Survey::default();
        survey.read_files("12\ta.txt\nsrc/\n30\tsrc/b.rs\n30\tsrc/c.rs\n5\tNERVE_REPORT.md\n");
        survey.read_todos("a.txt\n3:TODO: one\n\nsrc/b.rs\n1:// TODO two: three\n\n12:00\n7:TODO\n");
        assert_eq!(survey.count(), "3 files");
        assert_eq!(survey.largest(), Some(&("src/b.rs".to_owned(), 30)));
        assert_eq!(
            survey.todo_lines(),
            "- a.txt:3: TODO: one\n- src/b.rs:1: // TODO two: three\n- 12:00:7: TODO"
        );
        assert_eq!(survey.todo_count(), "3 TODOs");
    }

    #[test]
    fn what_was_not_listed_is_said() {
        let mut survey = Survey::default();
        survey.read_files(
            "1\ta\n[… 90 bytes in 9 lines left out here …]\nComplete output: 94 bytes in asset `x`.\n",
        );
        survey.read_todos("a\n1:TODO [stopped \n[stopped at the limit of 1 matches; there are more]");
        assert_eq!(survey.count(), "more than 1 files");
        assert_eq!(survey.todo_count(), "more than 1 TODOs");
        let mut complete = Survey::default();
        complete
            .read_numbered_files("     1\ta/\n     2\t7\ta/b c\n[lines 1 to 2 of 3; go on with offset 3]");
        assert_eq!(complete.files, [("a/b c".to_owned(), 7)]);
    }

    #[test]
    fn an_empty_folder_has_facts_too() {
        let mut survey = Survey::default();
        survey.read_files("nothing found\n");
        survey.read_todos("no matches\n");
        assert_eq!(survey.count(), "0 files");
        assert_eq!((survey.todo_count().as_str(), survey.todo_lines().as_str()), ("no TODOs", ""));
    }
}
