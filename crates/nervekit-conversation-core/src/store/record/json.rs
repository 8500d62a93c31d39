//! The envelope of a record, and JSON that is sure to be read as it was written.

use std::io;

use serde_json::de::SliceRead;
use serde_json::error::Category;
use serde_json::ser::Formatter;
use serde_json::{Deserializer, Serializer};

use super::{NEWEST, RecordError};

/// How deep JSON may be nested. `serde_json` reads up to 128 levels of what a model or a host sends, and a record
/// adds its own around that. Reading uses the stack for each level, so there must be a bound.
const MAX_DEPTH: usize = 160;

/// The writer that records are written with.
pub(super) type Writer<'a> = Serializer<&'a mut Vec<u8>, Bounded>;

/// The reader that records are read with.
pub(super) type Reader<'de> = Deserializer<SliceRead<'de>>;

/// Appends a record of the newest version to the bytes.
pub(super) fn write(
    record: &'static str,
    bytes: &mut Vec<u8>,
    body: impl FnOnce(&mut Writer<'_>) -> Result<(), serde_json::Error>,
) -> Result<(), RecordError> {
    bytes.extend_from_slice(br#"{"v":1,""#);
    bytes.extend_from_slice(record.as_bytes());
    bytes.extend_from_slice(br#"":"#);
    body(&mut Serializer::with_formatter(&mut *bytes, Bounded(1)))
        .map_err(|error| RecordError::Unwritable { record, problem: error.to_string().into() })?;
    bytes.push(b'}');
    Ok(())
}

/// Reads a record: its version and kind, then the rest.
pub(super) fn read<'de, T>(
    record: &'static str,
    bytes: &'de [u8],
    body: impl FnOnce(&mut Reader<'de>) -> Result<T, serde_json::Error>,
) -> Result<T, RecordError> {
    let json = open(record, bytes)?;
    let offset = |column: usize| bytes.len() - json.len() - 1 + column;
    if depth(json) >= MAX_DEPTH {
        return Err(RecordError::Damaged { record, offset: offset(0), problem: "nested too deeply" });
    }
    let mut reader = Deserializer::from_slice(json);
    reader.disable_recursion_limit();
    body(&mut reader).and_then(|value| reader.end().map(|()| value)).map_err(|error| RecordError::Damaged {
        record,
        // A record is one line, so the column tells the place.
        offset: offset(error.column()),
        problem: match error.classify() {
            Category::Syntax => "not JSON",
            Category::Data => "a field is missing, unknown or of another type",
            Category::Eof | Category::Io => "it ends too early",
        },
    })
}

/// The body of a record of this kind, if its version can be read.
fn open<'a>(record: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], RecordError> {
    let foreign = RecordError::Foreign { record };
    let Some(rest) = bytes.strip_prefix(br#"{"v":"#) else { return Err(foreign) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let Some((version, rest)) = rest.split_at_checked(digits) else { return Err(foreign) };
    let Some(version) = str::from_utf8(version).ok().and_then(|digits| digits.parse().ok()) else {
        return Err(foreign);
    };
    if version > NEWEST {
        return Err(RecordError::Newer { record, found: version, newest: NEWEST });
    }
    let body = rest
        .strip_prefix(br#",""#)
        .and_then(|rest| rest.strip_prefix(record.as_bytes()))
        .and_then(|rest| rest.strip_prefix(br#"":"#))
        .filter(|_| version == NEWEST)
        .ok_or(foreign)?;
    body.strip_suffix(b"}").ok_or(RecordError::Damaged {
        record,
        offset: bytes.len(),
        problem: "it ends too early",
    })
}

/// How deep the arrays and objects of a text are nested, whether it is JSON or not.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest): (usize, usize) = (0, 0);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            // To the end of the string: brackets in it are text.
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => {
                            bytes.next();
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

/// Writes compact JSON, and refuses what is nested deeper than it may be.
pub(super) struct Bounded(usize);

impl Bounded {
    fn enter<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.0 += 1;
        if self.0 > MAX_DEPTH {
            return Err(io::Error::other("its JSON is nested too deeply"));
        }
        writer.write_all(bracket)
    }

    fn leave<W: ?Sized + io::Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.0 -= 1;
        writer.write_all(bracket)
    }
}

impl Formatter for Bounded {
    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter(writer, b"[")
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.leave(writer, b"]")
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.enter(writer, b"{")
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.leave(writer, b"}")
    }
}
