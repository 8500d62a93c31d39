//! What is decided about a call, and answers that are kept.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use nervekit::Tool;
use nervekit::conversation::{ConversationConfig, StoredConversation};
use nervekit::harness::ModelSelection;
use nervekit::permissions::{
    CallOrigin, Decision, DocumentScope, EffectiveArguments, Evaluation, Evidence, Grant, GrantScope, Mode,
    PermissionEngine as _, ProposedCall, RuleEngine, RuleEvidence, SuggestedRule, TargetResolver, display,
};
use nervekit::tools::{Effective, catalog};
use nervekit::types::ConversationId;
use serde::Serialize;
use serde_json::Value;

use super::Failure;
use super::document::{place_of, refused_in};
use super::given::Given;
use super::place::Place;

/// Everything that is known of a decision.
#[derive(Serialize)]
struct Explanation<'e> {
    #[serde(flatten)]
    evidence: &'e Evidence,
    /// The arguments that would be executed: defaults filled in, types made right.
    effective_arguments: &'e Value,
    /// What was changed in the given ones.
    notes: &'e [String],
    /// Every rule that matches, the strongest first.
    matching_rules: Vec<RuleEvidence>,
}

pub(crate) async fn explain(given: &Given) -> Result<String, Failure> {
    let mut wanted = Wanted::of(given)?;
    let conversation: Option<ConversationId> = given.parsed("--conversation")?;
    let names_project = conversation.is_none() || given.path("--project").is_some();
    let mut place = Place::open(given, names_project).await?;
    if let Some(id) = conversation {
        let stored = place.conversation(id).await?;
        if let Some(project) = stored.directory.as_deref().filter(|_| !names_project) {
            place = place.in_project(project)?;
        }
        wanted.conversation = Some((id, stored));
    }
    let call = wanted.call(&place);
    let engine = place.engine(&call.rule_set).await?;
    let evaluation = engine.evaluate(call.clone());
    let explanation = Explanation {
        evidence: &evaluation.evidence,
        effective_arguments: wanted.effective.arguments.as_value(),
        notes: &wanted.effective.notes,
        matching_rules: matching(&place, &call, &evaluation),
    };
    json(&explanation)
}

/// Every rule that matches a call in the policy that decided, the strongest first; none for a call that could not be
/// judged.
fn matching(place: &Place, call: &ProposedCall, evaluation: &Evaluation) -> Vec<RuleEvidence> {
    let resolved = TargetResolver::new(place.folders.roots()).resolve(call);
    match (&evaluation.policy, resolved) {
        (Some(policy), Ok(resolved)) => policy.decide(&resolved).explain(),
        _ => Vec::new(),
    }
}

pub(crate) async fn grant(given: &Given) -> Result<String, Failure> {
    let wanted = Wanted::of(given)?;
    let scope = given.owner()?;
    let chosen: Option<usize> = given.parsed("--suggestion")?;
    if chosen.is_some() && scope.is_none() {
        return Err(Failure::Use("`grant` needs `--scope` with `--suggestion`".to_owned()));
    }
    let decision = match (given.has("--deny"), given.has("--guardrail")) {
        (true, _) => Decision::Deny,
        (false, true) => Decision::Prompt,
        (false, false) => Decision::Allow,
    };
    let place = Place::open(given, true).await?;
    let call = wanted.call(&place);
    let engine = place.engine(&call.rule_set).await?;
    let evidence = engine.evaluate(call).evidence;
    if evidence.suggestions.is_empty() {
        let word = match evidence.decision {
            Decision::Allow => "is allowed already",
            Decision::Prompt => "asks, and no answer to it can be kept",
            Decision::Deny => "is denied, and no answer changes that",
        };
        return Err(Failure::Refused(format!("the call {word}: {}", evidence.reason)));
    }
    let (Some(number), Some(scope)) = (chosen, scope) else { return suggestions(given, &evidence) };
    let Some(suggestion) = number.checked_sub(1).and_then(|index| evidence.suggestions.get(index)) else {
        let count = evidence.suggestions.len();
        return Err(Failure::Use(format!("there is no suggestion {number}, but 1 to {count}")));
    };
    let kept = match scope {
        DocumentScope::Project => GrantScope::Project,
        _ => GrantScope::User,
    };
    let mut grant = Grant::new(evidence.clone(), suggestion.clone(), decision, kept);
    if given.has("--guardrail") {
        grant = grant.guardrail();
    }
    save(&place, &engine, scope, &grant).await
}

async fn save(
    place: &Place,
    engine: &RuleEngine,
    scope: DocumentScope,
    grant: &Grant,
) -> Result<String, Failure> {
    let owner = place.owner(scope);
    let saved = place.policies.save(engine, &owner, grant).await;
    let saved = match saved {
        Ok(saved) => saved.ok_or_else(|| Failure::refused("nothing was saved"))?,
        Err(error) => return Err(refused_in(place, &owner, &error).await),
    };
    Ok(format!(
        "saved: {} {}\nas the rule `{}` of {}\n",
        grant.decision,
        grant.suggestion.label,
        saved.rule,
        place_of(place, &owner).await?
    ))
}

/// The rules that would answer a call, for a person to choose from.
fn suggestions(given: &Given, evidence: &Evidence) -> Result<String, Failure> {
    if given.has("--json") {
        return json(&evidence.suggestions);
    }
    let mut text = format!("the call asks: {}\n", evidence.reason);
    for (index, suggestion) in evidence.suggestions.iter().enumerate() {
        let _ = writeln!(text, "  {}  {} ({})", index + 1, suggestion.label, scopes(suggestion));
    }
    text.push_str("nothing was saved; choose one by `--suggestion` and `--scope`\n");
    Ok(text)
}

/// Where a rule may be kept, of the places that are known here.
fn scopes(suggestion: &SuggestedRule) -> String {
    let known = [(GrantScope::Project, "project"), (GrantScope::User, "user")];
    let possible = known.iter().filter(|(scope, _)| suggestion.scopes.contains(scope)).map(|(_, word)| *word);
    let possible: Vec<&str> = possible.collect();
    if possible.is_empty() {
        "for this conversation only".to_owned()
    } else {
        format!("for {}", possible.join(" or "))
    }
}

/// A call that is asked about. All that can be wrong with it is found before anything is opened.
struct Wanted {
    tool: Tool,
    effective: Effective,
    rule_set: Option<String>,
    mode: Option<Mode>,
    origin: CallOrigin,
    working_directory: Option<PathBuf>,
    conversation: Option<(ConversationId, StoredConversation)>,
}

impl Wanted {
    fn of(given: &Given) -> Result<Self, Failure> {
        let (name, arguments) = (given.needed("--tool")?, given.needed("--args")?);
        // All that are described; a host may carry out fewer.
        let tools = catalog::known_tools();
        let Some(tool) = tools.get(&name) else {
            let known: Vec<&str> = tools.iter().map(|tool| tool.definition().name()).collect();
            return Err(Failure::Use(format!(
                "there is no tool `{}` in the catalog; there are: {}",
                display(&name),
                known.join(", ")
            )));
        };
        let arguments = if arguments == "-" { standard_input()? } else { arguments };
        let wrong = |error: &dyn std::fmt::Display| Failure::Use(format!("`--args`: {error}"));
        let arguments = EffectiveArguments::parse(&arguments).map_err(|error| wrong(&error))?;
        let effective = tool.effective(&arguments).map_err(|error| wrong(&error))?;
        let mode = given.choice("--mode", &[("coding", Mode::Coding), ("planning", Mode::Planning)])?;
        let origin = given.choice("--origin", &[("model", CallOrigin::Model), ("user", CallOrigin::User)])?;
        let cwd = given.path("--cwd").map(|folder| {
            let shown = display(&folder.to_string_lossy());
            let folder = std::fs::canonicalize(folder).ok().filter(|folder| folder.is_dir());
            folder.ok_or_else(|| Failure::Refused(format!("`--cwd`: `{shown}` is not a folder")))
        });
        Ok(Self {
            tool: tool.clone(),
            effective,
            rule_set: given.text("--rule-set")?,
            mode,
            origin: origin.unwrap_or(CallOrigin::Model),
            working_directory: cwd.transpose()?,
            conversation: None,
        })
    }

    /// The call as the conversation would make it, or a new one in this project.
    fn call(&self, place: &Place) -> ProposedCall {
        let stored = self.conversation.as_ref().map(|(_, stored)| stored);
        let mut config = match stored {
            Some(stored) => (*stored.config).clone(),
            // Which model asks makes no difference.
            None => ConversationConfig::new(ModelSelection::new("", "")),
        };
        config.mode = self.mode.unwrap_or(config.mode);
        let rule_set = self.rule_set.as_deref().unwrap_or_else(|| config.selected_rule_set());
        let arguments = self.effective.arguments.clone();
        let targets = self.tool.targets(&arguments);
        let mut call = ProposedCall::new(self.tool.descriptor().clone(), arguments, self.origin, rule_set)
            .mode(config.mode);
        if !targets.is_empty() {
            call = call.targets(targets);
        }
        let project = place.folders.project();
        if let Some(project) = project {
            call = call.project(project);
        }
        let folder = self.working_directory.as_deref().or(config.working_directory.as_deref()).or(project);
        if let Some(folder) = folder {
            call = call.working_directory(folder);
        }
        if let Some((id, stored)) = &self.conversation {
            call = call.conversation(*id);
            if let Some(rules) = &stored.rules {
                call = call.conversation_document(rules.clone());
            }
        }
        call
    }
}

fn standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| Failure::Use(format!("`--args`: {error}")))?;
    Ok(text)
}

/// One line for a program, several for a person.
pub(crate) fn json(value: &impl Serialize) -> Result<String, Failure> {
    let text = if std::io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    Ok(format!("{}\n", text.map_err(Failure::refused)?))
}
