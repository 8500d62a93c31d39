//! `grep`: lines of files that match a regular expression.

use std::fmt::Write as _;
use std::fs::File;
use std::io;

use async_trait::async_trait;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use nervekit_permissions::{
    DecidedPath, DecidedTarget, EffectiveArguments, EntryKind, Risk, TargetSelector, ToolDescriptor, ToolKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::find::NameGlob;
use crate::argument::ArgumentType;
use crate::context::ToolContext;
use crate::definition::ToolDefinition;
use crate::error::ToolError;
use crate::executor::{ToolCall, ToolExecutor};
use crate::local::file::{Cancellable, open};
use crate::local::walk::{self, LeftOut, Walk};
use crate::outcome::ToolOutcome;
use crate::output::{ToolOutput, UserProjection};
use crate::projection::{Keep, OutputBudget, clip, plain_text};
use crate::tool::Tool;

/// The arguments of `grep`.
///
/// ```
/// use nervekit_tools::catalog::Grep;
/// let args: Grep = serde_json::from_str(r#"{"pattern": "fn main", "literal": true}"#)?;
/// assert!(args.literal && args.context == 0);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Grep {
    /// A regular expression in the syntax of Rust's `regex` crate, compared line by line.
    pub pattern: String,
    /// The file or folder to search. Default: the working directory.
    pub path: Option<String>,
    /// Instead of `path`: several files or folders.
    pub paths: Option<Vec<String>>,
    /// Only files whose name, or with a `/` whose path below the folder, matches this glob: `*.rs`, `src/**/*.ts`.
    pub glob: Option<String>,
    /// Upper and lower case are the same.
    #[serde(default)]
    pub ignore_case: bool,
    /// The pattern is a plain text, not a regular expression.
    #[serde(default)]
    pub literal: bool,
    /// Lines shown before and after each match. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 20))]
    pub context: usize,
    /// Also hidden files.
    #[serde(default)]
    pub hidden: bool,
    /// How many matching lines at most. Default: 100.
    #[schemars(range(min = 1, max = 1_000))]
    pub limit: Option<usize>,
}

/// Most bytes of a shown line.
const LINE_BYTES: usize = 400;
/// Most bytes of a result: below the budget, so that what stopped the search is told, not cut.
const BYTES: usize = 22_000;
/// A line that needs more memory than this ends the search of its file.
const HEAP: usize = 64 * 1024 * 1024;

/// The tool `grep`: the lines of files that fit a pattern.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nervekit_tools::{catalog, testing::TestBed};
/// let bed = TestBed::temporary();
/// std::fs::write(bed.folder().join("a.txt"), "one\ntwo\nthree\n")?;
/// let run = bed.run(catalog::grep(), serde_json::json!({"pattern": "^t", "context": 1})).await;
/// assert_eq!(run.settled().unwrap().agent, "a.txt\n1-one\n2:two\n3:three\n");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn grep() -> Tool {
    let arguments = ArgumentType::of::<Grep>();
    let descriptor = ToolDescriptor::new("grep", ToolKind::Filesystem, Risk::Read)
        .group("file_inspection")
        .primary_argument("paths")
        .primary_argument("path")
        .target(TargetSelector::path("paths").or("path").tree().or_working_directory())
        .cosmetic("limit")
        .cosmetic("context");
    let definition = ToolDefinition::new(
        descriptor,
        "Searches files for lines that match a regular expression. Shows each file's path, then `12:` for a \
         matching line and `11-` for one around it. Leaves out binary files and what .gitignore ignores.",
        arguments.schema().clone(),
    )
    .label("Search in files")
    .parallel()
    .replay_safe()
    .budget(OutputBudget::new(24_000, 4_000).keep(Keep::Head));
    Tool::new(definition, arguments, GrepExecutor)
}

#[derive(Debug)]
struct GrepExecutor;

#[async_trait]
impl ToolExecutor for GrepExecutor {
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError> {
        let args: Grep = call.typed()?;
        if args.path.is_some() && args.paths.as_ref().is_some_and(|paths| !paths.is_empty()) {
            return Err(ToolError::new("give `path` or `paths`, not both"));
        }
        let matcher = matcher(&args)?;
        let glob = args.glob.as_deref().map(|glob| NameGlob::new(glob, "glob")).transpose()?;
        let output = context
            .blocking(move |context| search(context, &args, &call.arguments, &matcher, glob.as_ref()))
            .await??;
        Ok(if context.is_cancelled() { ToolOutcome::Cancelled } else { output.into() })
    }
}

fn matcher(args: &Grep) -> Result<RegexMatcher, ToolError> {
    let built = RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.literal)
        .line_terminator(Some(b'\n'))
        .build(&args.pattern);
    built.map_err(|error| {
        // The message of the regex crate shows the pattern and the place in it.
        ToolError::new(format!(
            "`pattern` is not a regular expression: {error}\nSet `literal` to search for the text itself."
        ))
    })
}

fn search(
    context: &ToolContext,
    args: &Grep,
    arguments: &EffectiveArguments,
    matcher: &RegexMatcher,
    glob: Option<&NameGlob>,
) -> Result<ToolOutput, ToolError> {
    let around = args.context.min(20);
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .before_context(around)
        .after_context(around)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(HEAP))
        .build();
    let limit = args.limit.unwrap_or(100).clamp(1, 1_000);
    let mut results = Results { limit, ..Results::default() };
    let mut left_out = LeftOut::default();
    let targets: Vec<&DecidedTarget> =
        context.targets().iter().filter(|target| target.path.is_some()).collect();
    for target in &targets {
        let Some(path) = &target.path else { continue };
        let typed = target.target.argument().and_then(|argument| arguments.get(argument)?.as_str());
        if is_file(path) {
            results.search(context, &mut searcher, matcher, Ok(open(path)?), typed.unwrap_or_default());
        } else {
            let prefix = walk::prefix(typed);
            let mut walk = Walk::new(context, target, args.hidden, true)?;
            for entry in &mut walk {
                if entry.kind != EntryKind::File || glob.is_some_and(|glob| !glob.matches(&entry.relative)) {
                    continue;
                }
                let name = format!("{prefix}{}", entry.relative);
                let opened = entry.path().and_then(|path| path.open());
                results.search(context, &mut searcher, matcher, opened, &name);
                if results.full.is_some() {
                    break;
                }
            }
            left_out.add(walk.left_out);
        }
        if results.full.is_some() {
            break;
        }
    }
    Ok(results.output(left_out))
}

fn is_file(path: &DecidedPath) -> bool {
    // A link or device is opened as a file too, to be refused by what it is.
    path.metadata().is_ok_and(|metadata| metadata.kind != EntryKind::Folder)
}

/// What stopped a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    Matches,
    Bytes,
}

#[derive(Debug, Default)]
struct Results {
    text: String,
    limit: usize,
    matches: usize,
    files: usize,
    binary: u64,
    unreadable: u64,
    clipped: u64,
    full: Option<Full>,
}

impl Results {
    fn search(
        &mut self,
        context: &ToolContext,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        opened: io::Result<File>,
        name: &str,
    ) {
        // Entries that vanish or may not be read do not end the search.
        let Ok(file) = opened else {
            self.unreadable += 1;
            return;
        };
        let reader = Cancellable { reader: file, context };
        let mut found = FileMatches { results: self, name, begun: false, binary: false };
        let ended = searcher.search_reader(matcher, reader, &mut found);
        let FileMatches { begun, binary, .. } = found;
        self.files += usize::from(begun);
        self.binary += u64::from(binary);
        if ended.is_err() && !context.is_cancelled() {
            self.unreadable += 1;
        }
    }

    fn output(self, left_out: LeftOut) -> ToolOutput {
        let mut hints = Vec::new();
        match self.full {
            Some(Full::Matches) => hints.push(format!(
                "[stopped at the limit of {} matches; there are more: narrow `pattern`, `path` or `glob`]",
                self.limit
            )),
            Some(Full::Bytes) => hints.push(format!(
                "[stopped after {} matches because the result is full; there are more: narrow the search]",
                self.matches
            )),
            None => {}
        }
        if self.clipped > 0 {
            hints.push(format!("[{} long lines are clipped]", self.clipped));
        }
        if self.binary > 0 {
            hints.push(format!("[{} binary files hold a match or were left out]", self.binary));
        }
        if self.unreadable > 0 {
            hints.push(format!("[{} files could not be read to their end]", self.unreadable));
        }
        hints.extend(left_out.hint(false));
        let summary = format!("{} matches in {} files", self.matches, self.files);
        let text = if self.matches == 0 { "no matches\n".to_owned() } else { self.text };
        let output = ToolOutput::text(text).summary(UserProjection::text(summary));
        if hints.is_empty() { output } else { output.hint(hints.join("\n")) }
    }
}

/// The matches of one file on their way into the results.
struct FileMatches<'a> {
    results: &'a mut Results,
    name: &'a str,
    begun: bool,
    binary: bool,
}

impl FileMatches<'_> {
    fn line(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) -> bool {
        let line = plain_text(bytes.get(..bytes.len().min(16 * LINE_BYTES)).unwrap_or(bytes));
        let line = line.trim_end_matches('\n');
        let mut shown = String::new();
        if !self.begun {
            if !self.results.text.is_empty() {
                shown.push('\n');
            }
            shown.push_str(&walk::shown(self.name));
            shown.push('\n');
        }
        let number = number.map(|number| number.to_string()).unwrap_or_default();
        // Writing to a `String` does not fail.
        let _ = writeln!(shown, "{number}{mark}{}", clip(line, LINE_BYTES));
        if self.results.text.len() + shown.len() > BYTES {
            self.results.full = Some(Full::Bytes);
            return false;
        }
        self.results.clipped += u64::from(line.len() > LINE_BYTES);
        self.begun = true;
        self.results.text.push_str(&shown);
        true
    }
}

impl Sink for FileMatches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.results.matches >= self.results.limit {
            self.results.full = Some(Full::Matches);
            return Ok(false);
        }
        if !self.line(found.line_number(), ':', found.bytes()) {
            return Ok(false);
        }
        self.results.matches += 1;
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        // What leads to a match beyond the limit is not shown.
        if *context.kind() == SinkContextKind::Before && self.results.matches >= self.results.limit {
            return Ok(true);
        }
        Ok(self.line(context.line_number(), '-', context.bytes()))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.begun {
            self.results.text.push_str("--\n");
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
