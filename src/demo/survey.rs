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
        for line in result.lines() {
            if let Some((size, path)) = line.split_once('\t')
                && let Ok(size) = size.parse()
                && path != REPORT
            {
                self.files.push((path.to_owned(), size));
            }
        }
        self.more_files = result.contains("[stopped at the limit of");
    }

    /// Reads the result of `grep`: a path on a line of its own, then its matches as `number:text`.
    pub(super) fn read_todos(&mut self, result: &str) {
        let mut path = String::new();
        for line in result.lines() {
            match line.split_once(':') {
                Some((number, text))
                    if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) =>
                {
                    let line = number.parse().unwrap_or(0);
                    self.todos.push(Todo { path: path.clone(), line, text: text.trim().to_owned() });
                }
                _ => line.clone_into(&mut path),
            }
        }
        self.todos.retain(|todo| todo.path != REPORT);
        self.more_todos = result.contains("[stopped") || result.contains("more matches");
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

    /// Every TODO, a line each.
    pub(super) fn todo_lines(&self) -> String {
        if self.todos.is_empty() {
            return "There are no TODOs.".to_owned();
        }
        let mut lines: Vec<String> =
            self.todos.iter().map(|todo| format!("- {}:{}: {}", todo.path, todo.line, todo.text)).collect();
        if self.more_todos {
            lines.push("- and more that were not listed".to_owned());
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_back() {
        let mut survey = Survey::default();
        survey.read_files("12\ta.txt\nsrc/\n30\tsrc/b.rs\n30\tsrc/c.rs\n5\tNERVE_REPORT.md\n");
        survey.read_todos("a.txt\n3:TODO: one\nsrc/b.rs\n1:// TODO two: three\n");
        assert_eq!(survey.count(), "3 files");
        assert_eq!(survey.largest(), Some(&("src/b.rs".to_owned(), 30)));
        assert_eq!(survey.todo_lines(), "- a.txt:3: TODO: one\n- src/b.rs:1: // TODO two: three");
    }

    #[test]
    fn an_empty_folder_has_facts_too() {
        let mut survey = Survey::default();
        survey.read_files("nothing found\n");
        survey.read_todos("no matches\n");
        assert_eq!(survey.count(), "0 files");
        assert_eq!(survey.todo_lines(), "There are no TODOs.");
    }
}
