//! Whether files hold what this program reads.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use nervekit::permissions::{
    DocumentError, DocumentProblem, DocumentScope, PolicyDocument, RuleSet, builtin_rule_sets, display,
};
use serde_json::Value;

use super::given::Given;
use super::{Answer, Failure};

/// More than any document may hold.
const MAXIMUM: u64 = (1 << 20) + 1;

pub(crate) fn validate(given: &Given) -> Result<Answer, Failure> {
    let scopes = [
        ("user", DocumentScope::User),
        ("project", DocumentScope::Project),
        ("conversation", DocumentScope::Conversation),
    ];
    let scope = given.choice("--scope", &scopes)?;
    let (mut lines, mut bad) = (String::new(), false);
    for word in &given.words {
        let (file, shown) = (Path::new(word), display(&word.to_string_lossy()));
        let line = match check(file, scope.unwrap_or_else(|| scope_of(file))) {
            Ok(()) => format!("{shown}: ok\n"),
            Err(problem) => {
                bad = true;
                format!("{shown}{}\n", words(&problem))
            }
        };
        lines.push_str(&line);
    }
    Ok(if bad { Answer::Bad(lines) } else { Answer::Good(lines) })
}

/// The place in the file, the rule if it is one's fault, and the problem.
fn words(problem: &DocumentProblem) -> String {
    let place = problem.position().map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
    let rule = problem.rule_id().map(|rule| format!("rule `{rule}`: ")).unwrap_or_default();
    format!("{place}: {rule}{}", problem.message())
}

fn check(file: &Path, scope: DocumentScope) -> Result<(), DocumentProblem> {
    let bytes = read(file).map_err(|error| DocumentProblem::new(error.to_string()))?;
    let checked = if is_rule_set(&bytes) {
        RuleSet::parse(&bytes).map(Some)
    } else {
        PolicyDocument::parse(scope, &bytes).map(|_| None)
    };
    match checked {
        Ok(Some(set)) => check_name(file, &set),
        Ok(None) => Ok(()),
        Err(DocumentError::Malformed(problem)) => Err(*problem),
        Err(error) => Err(DocumentProblem::new(error.to_string())),
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file.as_os_str() == "-" {
        io::stdin().lock().take(MAXIMUM).read_to_end(&mut bytes)?;
    } else {
        File::open(file)?.take(MAXIMUM).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Only a rule set has an id and rules of its own.
fn is_rule_set(bytes: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    value.get("rules").or_else(|| value.get("id")).is_some() && value.get("overlays").is_none()
}

/// A rule set is found by the name of its file, and never instead of a built-in one.
fn check_name(file: &Path, set: &RuleSet) -> Result<(), DocumentProblem> {
    if builtin_rule_sets().iter().any(|built_in| built_in.id == set.id) {
        return Err(DocumentProblem::new(format!("`{}` is the id of a built-in rule set", set.id)).at(1, 1));
    }
    let folder = file.parent().and_then(Path::file_name);
    if folder == Some(OsStr::new("rule-sets")) && file.file_stem() != Some(OsStr::new(&set.id)) {
        let problem = format!("the rule set `{0}` is looked for in `{0}.json`", set.id);
        return Err(DocumentProblem::new(problem).at(1, 1));
    }
    Ok(())
}

/// Whose document a file is, by its place: a project's lies in `.nerve/config`, unless that `.nerve` is the home.
fn scope_of(file: &Path) -> DocumentScope {
    let Ok(path) = std::path::absolute(file) else { return DocumentScope::User };
    let Some(folder) = path.ancestors().nth(2).filter(|_| path.ends_with(".nerve/config/permissions.json"))
    else {
        return DocumentScope::User;
    };
    let home = std::env::var_os("NERVE_HOME").filter(|home| !home.is_empty()).map(Into::into);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".nerve")));
    if home.is_some_and(|home| home == folder) { DocumentScope::User } else { DocumentScope::Project }
}
