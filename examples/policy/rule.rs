//! The rules of a person and a project.

use std::fmt::Write as _;

use nervekit::permissions::{BoundRule, DocumentScope, DocumentStatus, Enforcement, Standing, display};
use serde::Serialize;

use super::Failure;
use super::call::json;
use super::document::refused_in;
use super::given::Given;
use super::place::Place;

/// The rules of one document.
#[derive(Serialize)]
struct Listed {
    scope: DocumentScope,
    place: String,
    standing: Standing,
    problem: Option<String>,
    rules: Vec<BoundRule>,
}

pub(crate) async fn list(given: &Given) -> Result<String, Failure> {
    let scope = given.owner()?;
    let place = Place::open(given, scope != Some(DocumentScope::User)).await?;
    let scopes = scope.map_or(vec![DocumentScope::User, DocumentScope::Project], |scope| vec![scope]);
    let mut documents = Vec::new();
    for scope in scopes {
        let owner = place.owner(scope);
        let DocumentStatus { place: at, standing, problem, .. } =
            place.policies.status(&owner).await.map_err(Failure::refused)?;
        let rules = match standing {
            // The problem says why there are none.
            Standing::Malformed => Vec::new(),
            _ => place.policies.rules(&owner).await.map_err(Failure::refused)?,
        };
        documents.push(Listed { scope, place: at, standing, problem, rules });
    }
    if given.has("--json") {
        return json(&documents);
    }
    let mut text = String::new();
    for document in documents {
        let _ = writeln!(text, "{}: {} ({})", document.scope, document.place, document.standing);
        if let Some(problem) = document.problem {
            let _ = writeln!(text, "  problem: {problem}");
        }
        for rule in &document.rules {
            let _ = writeln!(text, "  {}", line(rule));
        }
    }
    Ok(text)
}

pub(crate) async fn revoke(given: &Given) -> Result<String, Failure> {
    let [rule] = given.words.as_slice() else {
        return Err(Failure::Use("`revoke` takes one RULE".to_owned()));
    };
    let rule = rule.to_string_lossy();
    let Some(scope) = given.owner()? else {
        return Err(Failure::Use("`revoke` needs `--scope`: user or project".to_owned()));
    };
    let place = Place::open(given, scope == DocumentScope::Project).await?;
    let owner = place.owner(scope);
    match place.policies.revoke(&owner, &rule).await {
        Ok(Some(revoked)) => Ok(format!("revoked: {}\n", line(&revoked))),
        Ok(None) => Err(Failure::Refused(format!(
            "there is no rule `{}` in the document of the {scope}; `policy list` shows those that are",
            display(&rule)
        ))),
        Err(error) => Err(refused_in(&place, &owner, &error).await),
    }
}

/// A rule on one line.
pub(crate) fn line(bound: &BoundRule) -> String {
    let rule = &bound.rule;
    let mut under = match &bound.rule_set_id {
        Some(rule_set) => format!("under {rule_set}"),
        None => "under every rule set".to_owned(),
    };
    if rule.enforcement == Enforcement::Guardrail {
        under.push_str(", guardrail");
    }
    if !rule.enabled {
        under.push_str(", disabled");
    }
    format!("{}: {} {} ({under})", rule.id, rule.decision, bound.summary)
}
