//! Reading a shell command: strictly for allowing it, generously for refusing it.

use crate::arguments::EffectiveArguments;
use crate::descriptor::{ToolDescriptor, ToolKind};

/// The most inner commands that are kept.
const MAXIMUM_FORMS: usize = 512;
/// The most words in all of them together.
const MAXIMUM_WORDS: usize = 1 << 16;
/// The most texts inside a command that are read.
const MAXIMUM_TEXTS: usize = 4096;
/// How deep commands inside commands are read.
const MAXIMUM_DEPTH: usize = 8;

/// What a command is made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandReading {
    /// The words of the command, when it is exactly one simple command: nothing in it is an operator, an
    /// expansion, a redirection or an assignment.
    pub(crate) simple: Option<Vec<String>>,
    /// Every command that can be read in it: parts of a list, what wrappers run, what a shell is given.
    pub(crate) inner: Vec<Vec<String>>,
    /// The same, each as one text with single spaces.
    pub(crate) texts: Vec<String>,
    /// Whether there is more in it than was read. A deny or prompt about commands then matches.
    pub(crate) exhausted: bool,
}

impl CommandReading {
    /// Reads the first primary argument that is present, of a tool that runs commands.
    pub(crate) fn of(descriptor: &ToolDescriptor, arguments: &EffectiveArguments) -> Option<Self> {
        if descriptor.kind != ToolKind::Command {
            return None;
        }
        let text = descriptor.primary_arguments.iter().find_map(|name| arguments.get(name))?.as_str()?;
        Some(Self::read(text))
    }

    pub(crate) fn read(text: &str) -> Self {
        let mut reader = Reader::default();
        reader.read(text, 0);
        let Reader { found: inner, exhausted, .. } = reader;
        let texts = inner.iter().map(|words| words.join(" ")).collect();
        Self { simple: simple(text), texts, inner, exhausted }
    }
}

/// Words that begin something else than a simple command. Source: POSIX.1-2024, Shell Command Language, 2.4,
/// and the further ones of bash.
const RESERVED: [&str; 22] = [
    "!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while",
];

/// Commands that run what follows them.
const WRAPPERS: [&str; 31] = [
    "builtin",
    "busybox",
    "chroot",
    "command",
    "doas",
    "env",
    "exec",
    "find",
    "flock",
    "ionice",
    "nice",
    "nohup",
    "nsenter",
    "parallel",
    "pkexec",
    "proxychains",
    "script",
    "setsid",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "taskset",
    "time",
    "timeout",
    "unbuffer",
    "unshare",
    "watch",
    "xargs",
    "xvfb-run",
];

/// Commands that run a text which they are given.
const SHELLS: [&str; 16] = [
    "ash", "bash", "dash", "env", "eval", "fish", "ksh", "parallel", "pwsh", "script", "sh", "ssh", "su",
    "watch", "xargs", "zsh",
];

/// Interpreters, by their names without a version.
const INTERPRETERS: [&str; 8] = ["awk", "gawk", "lua", "node", "perl", "php", "python", "ruby"];

/// Whether a program runs a command or code that stands among its arguments, so that its name says nothing of what
/// it does.
pub(crate) fn runs_what_it_is_given(program: &str) -> bool {
    let name = short_name(program).trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    [&WRAPPERS[..], &SHELLS, &INTERPRETERS].iter().any(|names| names.contains(&name))
}

/// The words of a text that is one simple command and nothing more.
fn simple(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        c if c.is_control() => return None,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '$' | '`' | '\\' | '!' => return None,
                        c if c.is_control() => return None,
                        c => word.push(c),
                    }
                }
            }
            ';' | '&' | '|' | '<' | '>' | '(' | ')' | '{' | '}' | '$' | '`' | '\\' | '*' | '?' | '['
            | ']' | '!' => {
                return None;
            }
            '~' | '#' | '=' if word.is_none() => return None,
            c if c.is_control() || (c.is_whitespace() && c != ' ') => return None,
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let first = words.first()?;
    let plain = !first.is_empty() && !first.contains('=') && !RESERVED.contains(&first.as_str());
    plain.then_some(words)
}

/// Collects every command that can be read in a text.
#[derive(Default)]
struct Reader {
    found: Vec<Vec<String>>,
    words_kept: usize,
    texts_read: usize,
    exhausted: bool,
}

impl Reader {
    fn read(&mut self, text: &str, depth: usize) {
        self.texts_read += 1;
        if depth > MAXIMUM_DEPTH || self.texts_read > MAXIMUM_TEXTS {
            self.exhausted = true;
            return;
        }
        for words in split(text, depth, self) {
            self.unwrap_words(&words, depth);
        }
    }

    /// Adds a command, then whatever it runs.
    fn unwrap_words(&mut self, words: &[String], depth: usize) {
        let begins = words.iter().position(|word| !is_assignment(word) && !RESERVED.contains(&word.as_str()));
        let Some(words) = begins.and_then(|at| words.get(at..)) else { return };
        let wrapper = words.first().is_some_and(|first| WRAPPERS.contains(&short_name(first)));
        // Which words are options of a wrapper is not known here: any of the rest may be the command.
        let last = if wrapper { words.len() } else { 1 };
        for at in 0..last {
            let Some((first, rest)) = words.get(at..).and_then(<[String]>::split_first) else { return };
            if is_assignment(first) {
                continue;
            }
            let name = short_name(first);
            self.add(first, rest);
            if name != first {
                self.add(name, rest);
            }
            if SHELLS.contains(&name) {
                for word in rest {
                    self.read(word, depth + 1);
                }
                if matches!(name, "eval" | "ssh") {
                    self.read(&rest.join(" "), depth + 1);
                }
            }
            if self.exhausted {
                return;
            }
        }
    }

    fn add(&mut self, first: &str, rest: &[String]) {
        let words: Vec<String> = std::iter::once(first.to_owned()).chain(rest.iter().cloned()).collect();
        if self.found.contains(&words) {
            return;
        }
        self.words_kept += words.len();
        if self.found.len() < MAXIMUM_FORMS && self.words_kept < MAXIMUM_WORDS {
            self.found.push(words);
        } else {
            self.exhausted = true;
        }
    }
}

/// The name of a program without its folder.
fn short_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = name.split('[').next().unwrap_or_default();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Splits a text into commands at operators; commands in substitutions are read as well.
fn split(text: &str, depth: usize, reader: &mut Reader) -> Vec<Vec<String>> {
    let characters: Vec<char> = text.chars().collect();
    let mut lists = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut redirected = false;
    let mut at = 0;
    while let Some(&character) = characters.get(at) {
        at += 1;
        let next = characters.get(at).copied();
        let opens = matches!((character, next), ('$' | '<' | '>' | '=', Some('(')));
        if quote != Some('\'') && (character == '`' || opens && (quote.is_none() || character == '$')) {
            let (content, end) = substitution(&characters, at, character);
            reader.read(&content, depth + 1);
            at = end;
            word.get_or_insert_default().push('\u{fffd}');
            continue;
        }
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some('"'), '\\') if next.is_some_and(|c| matches!(c, '"' | '\\' | '$' | '`' | '\n')) => {
                at += 1;
                word.get_or_insert_default().extend(next.filter(|c| *c != '\n'));
            }
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '\\') => {
                at += 1;
                if next != Some('\n') {
                    word.get_or_insert_default().extend(next);
                }
            }
            (None, '#') if word.is_none() => {
                while characters.get(at).is_some_and(|c| *c != '\n') {
                    at += 1;
                }
            }
            (None, ';' | '&' | '|' | '(' | ')' | '\n') => {
                end_word(&mut lists, &mut word, &mut redirected);
                lists.push(Vec::new());
            }
            (None, '<' | '>') => {
                // A number before it belongs to the redirection.
                if word.as_ref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
                    word = None;
                }
                end_word(&mut lists, &mut word, &mut redirected);
                while characters.get(at).is_some_and(|c| matches!(c, '<' | '>' | '&' | '|')) {
                    at += 1;
                }
                redirected = true;
            }
            (None, c) if c.is_whitespace() => end_word(&mut lists, &mut word, &mut redirected),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    end_word(&mut lists, &mut word, &mut redirected);
    lists.retain(|words| !words.is_empty());
    lists
}

fn end_word(lists: &mut [Vec<String>], word: &mut Option<String>, redirected: &mut bool) {
    let Some(word) = word.take() else { return };
    // The file of a redirection is no word of the command.
    if !std::mem::take(redirected)
        && let Some(list) = lists.last_mut()
    {
        list.push(word);
    }
}

/// The text inside a substitution that begins at `at`, and where it ends.
fn substitution(characters: &[char], at: usize, opener: char) -> (String, usize) {
    let mut content = String::new();
    let mut end = at;
    if opener == '`' {
        while let Some(&character) = characters.get(end) {
            end += 1;
            if character == '`' {
                break;
            }
            content.push(character);
        }
        return (content, end);
    }
    let mut open = 0_usize;
    while let Some(&character) = characters.get(end) {
        end += 1;
        match character {
            '(' => open += 1,
            ')' => open = open.saturating_sub(1),
            _ => {}
        }
        if open == 0 {
            break;
        }
        if !(character == '(' && open == 1) {
            content.push(character);
        }
    }
    (content, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(text: &str, command: &str) -> bool {
        CommandReading::read(text).texts.iter().any(|inner| inner == command)
    }

    #[test]
    fn only_one_plain_command_is_simple() {
        let words = |text: &str| simple(text);
        assert_eq!(words("cargo test  -p 'a b' \"c d\"").unwrap(), ["cargo", "test", "-p", "a b", "c d"]);
        assert_eq!(words("git commit -m 'a; $(b)'").unwrap(), ["git", "commit", "-m", "a; $(b)"]);
        assert_eq!(words("a --b=c").unwrap(), ["a", "--b=c"]);
        for not_simple in [
            "",
            " ",
            "a; b",
            "a && b",
            "a | b",
            "a & b",
            "a\nb",
            "a\r\nb",
            "(a)",
            "{ a; }",
            "a > b",
            "a < b",
            "a $b",
            "a `b`",
            "a $(b)",
            "a \"$(b)\"",
            "a \"`b`\"",
            "A=1 b",
            "A=1",
            "a *",
            "a b?",
            "a [b]",
            "a ~/b",
            "a # b",
            "a \\b",
            "a 'b",
            "a \"b",
            "if a",
            "! a",
            "time a",
            "a {b,c}",
            "a =(b)",
            "a\tb",
            "a\u{a0}b",
            "a \u{0}",
        ] {
            assert_eq!(words(not_simple), None, "{not_simple:?}");
        }
    }

    #[test]
    fn case_07_inner_commands_are_read() {
        for text in [
            "rm -rf d",
            "nohup rm -rf d",
            "timeout 5 rm -rf d",
            "env -S 'rm -rf d'",
            "env X=1 rm -rf d",
            "bash -c 'rm -rf d'",
            "eval 'rm -rf d'",
            "eval rm -rf d",
            "/bin/rm -rf d",
            "\\rm -rf d",
            "r\"\"m -rf d",
            "command rm -rf d",
            "A=1 B=2 rm -rf d",
            "echo a; rm -rf d",
            "echo a && rm -rf d",
            "echo a\nrm -rf d",
            "(rm -rf d)",
            "{ rm -rf d; }",
            "if true; then rm -rf d; fi",
            "echo $(rm -rf d)",
            "echo \"$(rm -rf d)\"",
            "echo `rm -rf d`",
            "cat <(rm -rf d)",
            "echo ok > >(rm -rf d)",
            "rm -rf d > /dev/null 2>&1",
            "sudo nohup bash -c \"timeout 5 rm -rf d\"",
            "2>/dev/null rm -rf d",
            "find . -exec rm -rf d",
            "nohup /usr/bin/env A=b /bin/rm -rf d",
            "ssh host 'rm -rf d'",
            "true & rm -rf d",
            "while rm -rf d; do :; done",
        ] {
            assert!(reads(text, "rm -rf d"), "{text:?}: {:?}", CommandReading::read(text).texts);
        }
        assert!(reads("echo d | xargs rm -rf", "rm -rf"));
        assert!(!reads("echo 'rm -rf d'", "rm -rf d"));
        assert!(!reads("echo '$(rm -rf d)'", "rm -rf d"));
    }

    #[test]
    fn reading_is_total_and_bounded() {
        for text in
            ["$(".repeat(10_000), "sudo ".repeat(5_000), "env ".repeat(5_000), "bash -c 'a' ".repeat(3_000)]
        {
            let reading = CommandReading::read(&text);
            assert!(reading.inner.len() <= MAXIMUM_FORMS);
            assert!(reading.exhausted, "{text:.20}");
        }
        for text in ["(".repeat(10_000), "'".into(), "`".into(), "\\".into(), "$(".into(), ">".into()] {
            assert!(!CommandReading::read(&text).exhausted);
        }
    }
}
