//! `find`: files and folders by name.

use async_trait::async_trait;
use globset::{GlobBuilder, GlobMatcher};
use nervekit_permissions::{EntryKind, Risk, TargetSelector, ToolDescriptor, ToolKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::argument::ArgumentType;
use crate::context::ToolContext;
use crate::definition::ToolDefinition;
use crate::error::ToolError;
use crate::executor::{ToolCall, ToolExecutor};
use crate::local::walk::{self, Walk};
use crate::outcome::ToolOutcome;
use crate::output::{ToolOutput, UserProjection};
use crate::projection::{Keep, OutputBudget};
use crate::tool::Tool;

/// The arguments of `find`.
///
/// ```
/// use nervekit_tools::catalog::Find;
/// let args: Find = serde_json::from_str(r#"{"pattern": "*.rs"}"#)?;
/// assert_eq!(args.path, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Find {
    /// A glob: `*` within a name, `**` across folders, `?`, `{a,b}`, `[a-z]`. Without `/` it is compared with names
    /// at any depth (`*.rs`), with `/` with the path below `path` (`src/**/*.rs`).
    pub pattern: String,
    /// The folder to search. Default: the working directory.
    pub path: Option<String>,
    /// Also entries that begin with a dot.
    #[serde(default)]
    pub hidden: bool,
    /// Before each file, its size in bytes and a tab.
    #[serde(default)]
    pub sizes: bool,
    /// How many results at most. Default: 200.
    #[schemars(range(min = 1, max = 2_000))]
    pub limit: Option<usize>,
}

/// The tool `find`: files whose names fit a pattern.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nervekit_tools::{catalog, testing::TestBed};
/// let bed = TestBed::temporary();
/// std::fs::create_dir_all(bed.folder().join("src/deep"))?;
/// std::fs::write(bed.folder().join("src/deep/main.rs"), "")?;
/// let run = bed.run(catalog::find(), serde_json::json!({"pattern": "*.rs"})).await;
/// assert_eq!(run.settled().unwrap().agent, "src/deep/main.rs\n");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn find() -> Tool {
    let arguments = ArgumentType::of::<Find>();
    let descriptor = ToolDescriptor::new("find", ToolKind::Filesystem, Risk::Read)
        .group("file_inspection")
        .primary_argument("path")
        .target(TargetSelector::path("path").tree().or_working_directory())
        .cosmetic("limit");
    let definition = ToolDefinition::new(
        descriptor,
        "Finds files and folders by a glob, in the order of their paths; folders end with `/`. Leaves out what \
         .gitignore ignores. Use `grep` to search in files.",
        arguments.schema().clone(),
    )
    .label("Find files")
    .parallel()
    .replay_safe()
    .budget(OutputBudget::new(24_000, 2_000).keep(Keep::Head));
    Tool::new(definition, arguments, FindExecutor)
}

#[derive(Debug)]
struct FindExecutor;

#[async_trait]
impl ToolExecutor for FindExecutor {
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError> {
        let args: Find = call.typed()?;
        let glob = NameGlob::new(&args.pattern, "pattern")?;
        let output = context.blocking(move |context| search(context, &args, &glob)).await??;
        Ok(if context.is_cancelled() { ToolOutcome::Cancelled } else { output.into() })
    }
}

fn search(context: &ToolContext, args: &Find, glob: &NameGlob) -> Result<ToolOutput, ToolError> {
    let path = context.path("path")?;
    let target =
        context.target("path").ok_or_else(|| ToolError::new("no folder was decided for this call"))?;
    let limit = args.limit.unwrap_or(200).clamp(1, 2_000);
    let prefix = walk::prefix(args.path.as_deref());
    let mut walk = Walk::new(context, target, args.hidden, true)?;
    let mut text = String::new();
    let (mut shown, mut more) = (0, false);
    for entry in &mut walk {
        if !glob.matches(&entry.relative) {
            continue;
        }
        if shown == limit {
            more = true;
            break;
        }
        shown += 1;
        if args.sizes && entry.kind == EntryKind::File {
            let size =
                entry.path().and_then(|path| path.metadata()).map(|metadata| metadata.length.to_string());
            text.push_str(size.as_deref().unwrap_or("?"));
            text.push('\t');
        }
        text.push_str(&prefix);
        text.push_str(&entry.shown());
        text.push_str(if entry.kind == EntryKind::Folder { "/\n" } else { "\n" });
    }
    if shown == 0 {
        text.push_str("nothing found\n");
    }
    let mut hints = Vec::new();
    if more {
        hints.push(format!("[stopped at the limit of {limit}; there are more: narrow `pattern` or `path`]"));
    }
    hints.extend(walk.left_out.hint(false));
    let summary =
        UserProjection::text(format!("{shown}{} found in {}", if more { "+" } else { "" }, path.display()));
    let output = ToolOutput::text(text).summary(summary);
    Ok(if hints.is_empty() { output } else { output.hint(hints.join("\n")) })
}

/// A glob over paths below a tree: it filters names there and leads nowhere else.
#[derive(Debug)]
pub(super) struct NameGlob {
    matcher: GlobMatcher,
    /// Whether it is compared with the name alone.
    name_only: bool,
}

impl NameGlob {
    pub(super) fn new(pattern: &str, argument: &str) -> Result<Self, ToolError> {
        if pattern.is_empty() || pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
            let text = format!(
                "`{argument}` filters names below `path`: it may not be empty, begin with `/` or hold `..`"
            );
            return Err(ToolError::new(text));
        }
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        let glob =
            glob.map_err(|error| ToolError::new(format!("`{argument}` is not a glob: {}", error.kind())))?;
        Ok(Self { matcher: glob.compile_matcher(), name_only: !pattern.contains('/') })
    }

    pub(super) fn matches(&self, relative: &str) -> bool {
        let compared =
            if self.name_only { relative.rsplit('/').next().unwrap_or(relative) } else { relative };
        self.matcher.is_match(compared)
    }
}
