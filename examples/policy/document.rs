//! Whether documents count, and a person's decision about that.

use std::fmt::Write as _;

use nervekit::permissions::{
    DocumentError, DocumentId, DocumentOwner, DocumentScope, DocumentState, DocumentStatus, Documents as _,
    GrantError, RuleSet, Standing, Trust, display,
};
use nervekit::types::Digest;
use serde::Serialize;

use super::Failure;
use super::call::json;
use super::given::Given;
use super::place::{Place, rule_set_id};
use super::rule::line;

/// Which document is meant, and what was decided about it.
enum Document {
    Rules(DocumentOwner),
    RuleSet(String),
}

impl Document {
    /// The one that the options name, in its opened home.
    async fn open(given: &Given) -> Result<(Place, Self), Failure> {
        let user = given.command == "accept-user";
        let scope = if user { Some(DocumentScope::User) } else { given.owner()? };
        let scope = scope.unwrap_or(DocumentScope::Project);
        let rule_set = given.text("--rule-set")?;
        if rule_set.is_some() && scope != DocumentScope::User {
            return Err(Failure::Use("rule sets are the person's; add `--scope user`".to_owned()));
        }
        let place = Place::open(given, scope == DocumentScope::Project).await?;
        let owner = place.owner(scope);
        Ok((place, rule_set.map_or(Self::Rules(owner), Self::RuleSet)))
    }

    fn id(&self) -> DocumentId {
        match self {
            Self::Rules(owner) => DocumentId::permissions(owner.clone()),
            Self::RuleSet(id) => rule_set_id(id),
        }
    }
}

/// Whether a rule set of the person counts.
#[derive(Serialize)]
struct RuleSetStatus {
    rule_set: String,
    place: String,
    standing: Standing,
    digest: Option<Digest>,
    problem: Option<String>,
    #[serde(skip)]
    known: bool,
}

impl RuleSetStatus {
    fn of(id: &str, state: &DocumentState) -> Self {
        let current = state.current.as_ref();
        let problem = match current.map(|document| RuleSet::parse(&document.bytes)) {
            Some(Err(error)) => Some(error.to_string()),
            Some(Ok(set)) if set.id != id => Some(format!("it holds the rule set `{}`", set.id)),
            _ => state.problem.as_ref().map(ToString::to_string),
        };
        let known = state.last_accepted.is_some();
        let standing = match current.map(|document| document.trust) {
            _ if problem.is_some() => Standing::Malformed,
            Some(Trust::Trusted) => Standing::Active,
            Some(Trust::Rejected) => Standing::Rejected,
            Some(Trust::Undecided) if known => Standing::Changed,
            Some(Trust::Undecided) => Standing::Untrusted,
            None if known => Standing::Gone,
            None => Standing::Absent,
        };
        let digest = current.map(|document| document.digest);
        Self { rule_set: id.to_owned(), place: state.place.clone(), standing, digest, problem, known }
    }

    async fn read(place: &Place, id: &str) -> Result<Self, Failure> {
        let state = place.documents.read(&rule_set_id(id)).await;
        let state =
            state.map_err(|error| Failure::Refused(format!("rule set `{}`: {error}", display(id))))?;
        Ok(Self::of(id, &state))
    }

    fn text(&self) -> String {
        let Self { rule_set, place, standing, .. } = self;
        let mut text = format!("{place}\nthe rule set `{rule_set}` is {}\n", words(*standing, self.known));
        let accept = format!("accept-user --rule-set {rule_set}");
        tail(&mut text, *standing, self.digest, self.problem.as_deref(), &accept);
        text
    }
}

pub(crate) async fn status(given: &Given) -> Result<String, Failure> {
    let (place, document) = Document::open(given).await?;
    let owner = match document {
        Document::RuleSet(id) => {
            let status = RuleSetStatus::read(&place, &id).await?;
            return if given.has("--json") { json(&status) } else { Ok(status.text()) };
        }
        Document::Rules(owner) => owner,
    };
    let status = place.policies.status(&owner).await.map_err(Failure::refused)?;
    if given.has("--json") {
        return json(&status);
    }
    let state = place.documents.read(&DocumentId::permissions(owner.clone())).await;
    let known = state.map_err(Failure::refused)?.last_accepted.is_some();
    let mut text = describe(&status, known);
    if owner.scope() == DocumentScope::User {
        for id in place.rule_sets() {
            let _ = write!(text, "\n{}", RuleSetStatus::read(&place, &id).await?.text());
        }
    }
    Ok(text)
}

/// Tells a status; `known` when a version was accepted before.
fn describe(status: &DocumentStatus, known: bool) -> String {
    let mut text = format!("{}\nit is {}\n", status.place, words(status.standing, known));
    let counts = status.standing == Standing::Active;
    let lists = [
        (if counts { "runs without asking" } else { "would run without asking" }, &status.automatic),
        (if known { "new since the version accepted last" } else { "all that it holds" }, &status.added),
        ("gone since the version accepted last", &status.removed),
    ];
    for (title, rules) in lists.into_iter().filter(|(_, rules)| !rules.is_empty()) {
        let _ = writeln!(text, "{title}:");
        for rule in rules {
            let _ = writeln!(text, "  {}", line(rule));
        }
    }
    let user = status.id.owner.scope() == DocumentScope::User;
    let accept = if user { "accept-user" } else { "trust accept" };
    tail(&mut text, status.standing, status.digest, status.problem.as_deref(), accept);
    text
}

/// What a person decides by, and the command that accepts it.
fn tail(text: &mut String, standing: Standing, digest: Option<Digest>, problem: Option<&str>, accept: &str) {
    if let Some(problem) = problem {
        let _ = writeln!(text, "problem: {problem}");
    }
    if let Some(digest) = digest {
        let _ = writeln!(text, "digest: {digest}");
        if matches!(standing, Standing::Untrusted | Standing::Rejected | Standing::Changed) {
            let _ = writeln!(text, "to accept it: policy {accept} --digest {digest}");
        }
    }
}

/// What a standing means; `known` when a version was accepted before.
fn words(standing: Standing, known: bool) -> String {
    let means = match standing {
        Standing::Absent => return standing.to_string(),
        Standing::Active => "it counts",
        Standing::Untrusted => "nobody accepted it, so it counts for nothing",
        Standing::Rejected => "it was refused, so it allows nothing",
        Standing::Changed => "it was edited, so it restricts, but allows nothing new",
        Standing::Gone => "it allows nothing any more",
        Standing::Malformed => "it cannot be read, so it allows nothing",
    };
    let still = known && !matches!(standing, Standing::Active);
    let still = if still { "; what the version accepted last restricts, still counts" } else { "" };
    format!("{standing}: {means}{still}")
}

pub(crate) async fn accept(given: &Given) -> Result<String, Failure> {
    let shows = if given.command == "accept-user" { "trust status --scope user" } else { "trust status" };
    let Some(digest) = given.parsed::<Digest>("--digest")? else {
        let command = given.command;
        return Err(Failure::Use(format!("`{command}` needs `--digest`, which `{shows}` shows")));
    };
    let (place, document) = Document::open(given).await?;
    let id = document.id();
    let accepted = match &document {
        Document::Rules(owner) => place.policies.trust(owner, digest).await,
        Document::RuleSet(rule_set) => {
            let state = place.documents.read(&id).await.map_err(Failure::refused)?;
            if let Some(problem) = RuleSetStatus::of(rule_set, &state).problem {
                return Err(Failure::Refused(format!("{}: {problem}", state.place)));
            }
            place.documents.trust(&id, digest).await
        }
    };
    decided(&place, &id, "accepted", accepted, digest).await
}

pub(crate) async fn reject(given: &Given) -> Result<String, Failure> {
    let digest: Option<Digest> = given.parsed("--digest")?;
    let (place, document) = Document::open(given).await?;
    let id = document.id();
    let state = place.documents.read(&id).await.map_err(Failure::refused)?;
    let Some(digest) = digest.or_else(|| state.current.as_ref().map(|document| document.digest)) else {
        return Err(Failure::Refused(format!("{}: there is nothing to reject", state.place)));
    };
    let rejected = place.documents.reject(&id, digest).await;
    decided(&place, &id, "rejected", rejected, digest).await
}

async fn decided(
    place: &Place,
    id: &DocumentId,
    word: &str,
    decided: Result<(), DocumentError>,
    digest: Digest,
) -> Result<String, Failure> {
    let state = place.documents.read(id).await.map_err(Failure::refused)?;
    match decided {
        Ok(()) => Ok(format!("{word} {digest} of {}\n", state.place)),
        Err(DocumentError::Changed { current: Some(current) }) => Err(Failure::Refused(format!(
            "{}: its digest is {current}, not {digest}; look at it again, nothing was {word}",
            state.place
        ))),
        Err(DocumentError::Changed { .. }) => Err(Failure::Refused(format!(
            "{}: it cannot be read, or is gone; nothing was {word}",
            state.place
        ))),
        Err(error) => Err(Failure::Refused(format!("{}: {error}", state.place))),
    }
}

/// Where the rules of an owner are kept.
pub(crate) async fn place_of(place: &Place, owner: &DocumentOwner) -> Result<String, Failure> {
    let state = place.documents.read(&DocumentId::permissions(owner.clone())).await;
    Ok(state.map_err(Failure::refused)?.place.clone())
}

/// Why a document was not written, with what would help.
pub(crate) async fn refused_in(place: &Place, owner: &DocumentOwner, error: &GrantError) -> Failure {
    let at = match place_of(place, owner).await {
        Ok(at) => at,
        Err(failure) => return failure,
    };
    let see = match (error, owner.scope()) {
        (GrantError::Document(_), DocumentScope::User) => "; see `trust status --scope user`",
        (GrantError::Document(_) | GrantError::ProjectDocumentUntrusted, _) => "; see `trust status`",
        _ => "",
    };
    Failure::Refused(format!("{at}: {error}{see}"))
}
