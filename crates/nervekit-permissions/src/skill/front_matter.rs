//! What stands before the text of a skill.
//!
//! Front matter is YAML; of it two keys count, each a text on one line. Reading just these, and refusing every
//! form of them that could be read in two ways, needs no YAML library. Other keys are passed over, with the
//! lines that are indented below them.

use super::MAIN;
use crate::error::DocumentProblem;

/// The most bytes of a front matter.
const MAXIMUM: usize = 8 << 10;
/// The longest description, in characters; source: the format of Agent Skills, <https://agentskills.io>.
const MAXIMUM_DESCRIPTION: usize = 1024;
const FENCE: &str = "---";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FrontMatter {
    pub(super) name: String,
    pub(super) description: String,
}

/// Splits a text into its front matter and the rest.
pub(super) fn parse(bytes: &[u8]) -> Result<(FrontMatter, &str), DocumentProblem> {
    let problem = |what: &str| DocumentProblem::new(format!("`{MAIN}`: {what}"));
    let text = std::str::from_utf8(bytes).map_err(|_| problem("it is not UTF-8"))?;
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut line = || {
        if rest.is_empty() {
            return None;
        }
        let (line, below) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = below;
        Some(line.strip_suffix('\r').unwrap_or(line))
    };
    if line() != Some(FENCE) {
        return Err(
            problem("it does not begin with a front matter: a line `---`, the keys, a line `---`").at(1, 1)
        );
    }
    let (mut name, mut description) = (None, None);
    let (mut size, mut number) = (0, 1);
    // Whether the key above may go on in indented lines.
    let mut passed_over = true;
    loop {
        number += 1;
        let at = |what: &str| problem(what).at(number, 1);
        let Some(line) = line() else {
            return Err(at("its front matter does not end with a line `---`"));
        };
        size += line.len();
        if size > MAXIMUM {
            return Err(at(&format!("its front matter is longer than {MAXIMUM} bytes")));
        }
        if line == FENCE {
            break;
        }
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if content.len() < line.len() || content.starts_with("- ") || content == "-" {
            if passed_over {
                continue;
            }
            return Err(at("a name and a description are written on one line"));
        }
        let Some((key, value)) = line.split_once(':') else {
            return Err(at("a line of a front matter is `key: value`"));
        };
        let wanted = match key.trim_end() {
            "name" | "\"name\"" | "'name'" => &mut name,
            "description" | "\"description\"" | "'description'" => &mut description,
            _ => {
                passed_over = true;
                continue;
            }
        };
        passed_over = false;
        if wanted.is_some() {
            return Err(at(&format!("the key `{}` appears twice", crate::display(key.trim_end()))));
        }
        *wanted = Some(scalar(value).map_err(|what| at(&what))?);
    }
    let missing = |key: &str| problem(&format!("its front matter has no `{key}`")).at(1, 1);
    let name = name.ok_or_else(|| missing("name"))?;
    let description = description.ok_or_else(|| missing("description"))?;
    if description.chars().count() > MAXIMUM_DESCRIPTION {
        let what = format!("its description is longer than {MAXIMUM_DESCRIPTION} characters");
        return Err(problem(&what));
    }
    Ok((FrontMatter { name, description }, rest))
}

/// Reads a text that YAML reads in the same way.
fn scalar(value: &str) -> Result<String, String> {
    if !value.is_empty() && !value.starts_with([' ', '\t']) {
        return Err("a space stands between the key with its `:` and the value".to_owned());
    }
    let value = value.trim();
    let text = if let Some(quoted) = value.strip_prefix('\'') {
        let inner = quoted.strip_suffix('\'').filter(|inner| !inner.replace("''", "").contains('\''));
        let inner = inner.ok_or("a text in single quotes ends on its line, and holds `''` for a quote")?;
        inner.replace("''", "'")
    } else if value.starts_with('"') {
        serde_json::from_str(value)
            .map_err(|_| "a text in double quotes ends on its line, with the escapes of JSON".to_owned())?
    } else {
        let special = "[]{}&*!|>%@`#,?\\";
        if value.starts_with(|c| special.contains(c)) || value.starts_with("- ") {
            return Err("a text that begins with a special character is put in double quotes".to_owned());
        }
        if value.contains(": ") || value.ends_with(':') || value.contains(" #") {
            return Err("a text with `: ` or ` #` in it is put in double quotes".to_owned());
        }
        value.to_owned()
    };
    if text.trim().is_empty() {
        return Err("a name and a description are not empty".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("a name and a description hold no control characters".to_owned());
    }
    Ok(text)
}
