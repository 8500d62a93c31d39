//! `read`: a window of a file or of an asset.

use std::fmt::Write as _;
use std::io::{Read as _, Seek, SeekFrom};

use async_trait::async_trait;
use bytes::Bytes;
use nervekit_permissions::{DecidedPath, Risk, TargetSelector, ToolDescriptor, ToolKind};
use nervekit_types::{AssetId, Digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::argument::ArgumentType;
use crate::assets::AssetCategory;
use crate::context::ToolContext;
use crate::definition::ToolDefinition;
use crate::error::ToolError;
use crate::executor::{ToolCall, ToolExecutor};
use crate::local::file::{self, Cancellable, PIECE, is_binary, open};
use crate::local::window::{LineWindow, Windowed};
use crate::outcome::ToolOutcome;
use crate::output::{FileAccess, FileFact, ToolOutput, UserProjection};
use crate::projection::OutputBudget;
use crate::tool::Tool;

/// The arguments of `read`.
///
/// ```
/// use nervekit_tools::catalog::{Read, ReadSource};
/// let args: Read = serde_json::from_str(r#"{"path": "a", "offset": 200}"#)?;
/// assert_eq!(args.source, ReadSource::Path("a".to_owned()));
/// assert_eq!((args.offset, args.limit), (Some(200), None));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Read {
    /// What is read.
    #[serde(flatten)]
    pub source: ReadSource,
    /// The first line, from 1. Default: 1.
    #[schemars(range(min = 1))]
    pub offset: Option<u64>,
    /// How many lines. Default and most: 2000.
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
    /// Reads bytes instead of lines, from this offset: for files with very long lines.
    pub byte_offset: Option<u64>,
    /// How many bytes. Default and most: 40000.
    #[schemars(range(min = 1))]
    pub byte_limit: Option<u64>,
}

/// What `read` reads: exactly one of these.
///
/// ```
/// use nervekit_tools::catalog::ReadSource;
/// let source: ReadSource = serde_json::from_str(r#"{"path": "src/lib.rs"}"#)?;
/// assert_eq!(source, ReadSource::Path("src/lib.rs".to_owned()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReadSource {
    /// The file.
    Path(String),
    /// Instead of `path`: the id of an asset of this conversation, such as a complete output.
    Asset(String),
}

/// Most lines of one window.
const LINES: u64 = 2_000;
/// Most bytes of one window: below the budget, which has status and hint to hold too.
const BYTES: usize = 46_000;
/// Most bytes of a window of bytes; each may become a replacement character of three bytes.
const WINDOW: u64 = 40_000;
/// The largest picture that becomes an asset.
const IMAGE: u64 = 20 * 1024 * 1024;

/// The tool `read`: the lines of a text file, an image, or the complete result of an earlier call.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nervekit_tools::{catalog, testing::TestBed};
/// let bed = TestBed::temporary();
/// std::fs::write(bed.folder().join("a.txt"), "one\ntwo\nthree\n")?;
/// let run = bed.run(catalog::read(), serde_json::json!({"path": "a.txt", "offset": 2, "limit": 1})).await;
/// let text = &run.settled().unwrap().agent;
/// assert_eq!(text, "     2\ttwo\n[lines 2 to 2 of 3; go on with offset 3]");
/// # Ok::<(), std::io::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn read() -> Tool {
    let arguments = ArgumentType::of::<Read>();
    let descriptor = ToolDescriptor::new("read", ToolKind::Filesystem, Risk::Read)
        .group("file_inspection")
        .primary_argument("path")
        .target(TargetSelector::path("path").optional());
    let definition = ToolDefinition::new(
        descriptor,
        "Reads a text file as numbered lines, or an image. Give `path` or `asset`, not both. Long files come in \
         windows: go on with `offset`. The line numbers are not part of the file.",
        arguments.schema().clone(),
    )
    .label("Read")
    .parallel()
    .replay_safe()
    .budget(OutputBudget::READ);
    Tool::new(definition, arguments, ReadExecutor)
}

#[derive(Debug)]
struct ReadExecutor;

#[async_trait]
impl ToolExecutor for ReadExecutor {
    async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<ToolOutcome, ToolError> {
        let args: Read = call.typed()?;
        let by_lines = args.offset.is_some() || args.limit.is_some();
        let by_bytes = args.byte_offset.is_some() || args.byte_limit.is_some();
        if by_lines && by_bytes {
            return Err(ToolError::new(
                "give `offset` and `limit`, or `byte_offset` and `byte_limit`, not both",
            ));
        }
        let range = Range::of(&args, by_bytes);
        let output = match &args.source {
            ReadSource::Path(_) => read_file(&context, range).await,
            ReadSource::Asset(asset) => read_asset(&context, asset, range).await,
        };
        if context.is_cancelled() { Ok(ToolOutcome::Cancelled) } else { Ok(output?.into()) }
    }
}

/// What is asked for.
#[derive(Clone, Copy)]
enum Range {
    Lines { first: u64, count: u64 },
    Bytes { first: u64, count: u64 },
}

impl Range {
    fn of(args: &Read, by_bytes: bool) -> Self {
        if by_bytes {
            let count = args.byte_limit.unwrap_or(WINDOW).clamp(1, WINDOW);
            Self::Bytes { first: args.byte_offset.unwrap_or(0), count }
        } else {
            let count = args.limit.unwrap_or(LINES).clamp(1, LINES);
            Self::Lines { first: args.offset.unwrap_or(1).max(1), count }
        }
    }
}

async fn read_file(context: &ToolContext, range: Range) -> Result<ToolOutput, ToolError> {
    let found = context.blocking(move |context| scan(context, context.path("path")?, range)).await??;
    let path = context.path("path")?;
    let name = path.display();
    match found {
        Found::Lines(windowed, digest) => {
            let fact = FileFact::new(ToolContext::file_key(path), FileAccess::Read, digest);
            Ok(lines(&name, &windowed, range)?.file(fact))
        }
        Found::Bytes { bytes, total } => Ok(window_of_bytes(&name, &bytes, total, range)),
        Found::Image { bytes, kind } => picture(context, &name, bytes, kind).await,
        Found::Binary { total } => {
            let text =
                format!("`{name}` is a binary file of {total} bytes; `byte_offset` shows its bytes as text");
            Ok(ToolOutput::text(text))
        }
    }
}

/// What a file turned out to be.
enum Found {
    Lines(Windowed, Digest),
    Bytes { bytes: Vec<u8>, total: u64 },
    Image { bytes: Bytes, kind: Picture },
    Binary { total: u64 },
}

fn scan(context: &ToolContext, path: &DecidedPath, range: Range) -> Result<Found, ToolError> {
    let mut file = open(path)?;
    let refused = |error| file::refused(path, error);
    if let Range::Bytes { first, count } = range {
        let total = file.metadata().map_err(refused)?.len();
        file.seek(SeekFrom::Start(first)).map_err(refused)?;
        let mut bytes = Vec::new();
        file.take(count).read_to_end(&mut bytes).map_err(refused)?;
        return Ok(Found::Bytes { bytes, total });
    }
    let mut start = Vec::new();
    (&mut file).take(8 * 1024).read_to_end(&mut start).map_err(refused)?;
    let picture = Picture::of(&start);
    if picture.is_some() || is_binary(&start) {
        let total = file.metadata().map_err(refused)?.len();
        let Some(kind) = picture.filter(|_| total <= IMAGE) else { return Ok(Found::Binary { total }) };
        let mut bytes = start;
        file.take(IMAGE).read_to_end(&mut bytes).map_err(refused)?;
        return Ok(Found::Image { bytes: bytes.into(), kind });
    }
    let Range::Lines { first, count } = range else { return Err(ToolError::new("no lines were asked for")) };
    let mut window = LineWindow::new(first, count, BYTES);
    let mut hash = Sha256::new();
    let mut reader = Cancellable { reader: start.as_slice().chain(file), context };
    let mut piece = vec![0; PIECE];
    loop {
        let length = reader.read(&mut piece).map_err(refused)?;
        let Some(bytes) = piece.get(..length).filter(|bytes| !bytes.is_empty()) else { break };
        hash.update(bytes);
        window.feed(bytes);
    }
    Ok(Found::Lines(window.finish(), Digest::from_bytes(hash.finalize().into())))
}

async fn read_asset(context: &ToolContext, asset: &str, range: Range) -> Result<ToolOutput, ToolError> {
    let id: AssetId = asset.parse().map_err(|error| ToolError::new(format!("{error}")))?;
    let read = async |range| {
        let bytes = context.assets().read(id, range).await;
        bytes.map_err(|error| ToolError::new(error.to_string()).because(error))
    };
    match range {
        Range::Bytes { first, count } => {
            // The length is not known without the end; one byte more says whether there is one.
            let bytes = read(first..first.saturating_add(count + 1)).await?;
            let more = bytes.len() as u64 > count;
            let kept = bytes.slice(..bytes.len().min(usize::try_from(count).unwrap_or(usize::MAX)));
            let total = first + bytes.len() as u64;
            Ok(window_of_bytes(asset, &kept, if more { total.max(first + count + 1) } else { total }, range))
        }
        Range::Lines { first, count } => {
            let mut window = LineWindow::new(first, count, BYTES);
            let mut at = 0;
            loop {
                let bytes = read(at..at + 1024 * 1024).await?;
                if bytes.is_empty() {
                    break;
                }
                if at == 0 && is_binary(bytes.get(..8 * 1024).unwrap_or(&bytes)) {
                    let text = format!("`{asset}` is not text; `byte_offset` shows its bytes as text");
                    return Ok(ToolOutput::text(text));
                }
                at += bytes.len() as u64;
                window.feed(&bytes);
                if context.is_cancelled() {
                    return Err(ToolError::new("cancelled"));
                }
            }
            lines(asset, &window.finish(), range)
        }
    }
}

fn lines(name: &str, windowed: &Windowed, range: Range) -> Result<ToolOutput, ToolError> {
    let Range::Lines { first, .. } = range else { return Err(ToolError::new("no lines were asked for")) };
    let Windowed { text, shown, total, next, clipped } = windowed;
    if *total == 0 {
        return Ok(ToolOutput::text(format!("`{name}` is empty")));
    }
    if *shown == 0 {
        return Err(ToolError::new(format!(
            "`{name}` has {total} lines; `offset` {first} is beyond its end"
        )));
    }
    let mut hints = Vec::new();
    if let Some(next) = next {
        hints.push(format!("[lines {first} to {} of {total}; go on with offset {next}]", next - 1));
    } else if first > 1 {
        hints.push(format!("[lines {first} to {total} of {total}]"));
    }
    if *clipped {
        hints.push("[long lines are clipped; `byte_offset` shows them whole]".to_owned());
    }
    let output = ToolOutput::verbatim(&**text)
        .summary(UserProjection::text(format!("{shown} of {total} lines of {name}")));
    Ok(if hints.is_empty() { output } else { output.hint(hints.join("\n")) })
}

fn window_of_bytes(name: &str, bytes: &[u8], total: u64, range: Range) -> ToolOutput {
    let Range::Bytes { first, .. } = range else { return ToolOutput::text("") };
    if bytes.is_empty() {
        return ToolOutput::text(format!("`{name}` has {total} bytes; there are none from {first} on"));
    }
    let end = first + bytes.len() as u64;
    // Sixteen bytes of text at the least stay of any window that fits the budget as it is.
    let text = String::from_utf8_lossy(bytes);
    let text = crate::projection::cut(&text, &OutputBudget::new(BYTES, usize::MAX)).text;
    let more = if end < total { format!("; go on with byte_offset {end}") } else { String::new() };
    ToolOutput::verbatim(text)
        .hint(format!("[bytes {first} to {end} of {total}{more}]"))
        .summary(UserProjection::text(format!("bytes {first} to {end} of {name}")))
}

/// A kind of picture that models see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Picture {
    Jpeg,
    Png,
    Gif,
    Webp,
}

impl Picture {
    /// By its first bytes (PNG: ISO/IEC 15948; GIF: version 89a; JPEG: ISO/IEC 10918-1; WebP: RFC 9649).
    fn of(start: &[u8]) -> Option<Self> {
        match start {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            _ => None,
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }
}

async fn picture(
    context: &ToolContext,
    name: &str,
    bytes: Bytes,
    kind: Picture,
) -> Result<ToolOutput, ToolError> {
    let size = imagesize::blob_size(&bytes).ok();
    let dimensions =
        size.and_then(|size| Some((u32::try_from(size.width).ok()?, u32::try_from(size.height).ok()?)));
    let length = bytes.len();
    let written = context.assets().write(AssetCategory::Image, name, bytes).await;
    let mut attachment = written.map_err(|error| ToolError::new(error.to_string()).because(error))?;
    attachment = attachment.media_type(kind.media_type());
    let mut text = format!("`{name}` is an image ({}, {length} bytes", kind.media_type());
    if let Some((width, height)) = dimensions {
        attachment = attachment.dimensions(width, height);
        // Writing to a `String` does not fail.
        let _ = write!(text, ", {width} × {height} pixels");
    }
    let _ = write!(text, "), asset `{}`", attachment.asset);
    Ok(ToolOutput::text(text).attach(attachment))
}

#[cfg(test)]
mod tests;
