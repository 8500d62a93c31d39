#![doc = include_str!("../README.md")]

mod arguments;
mod builtin;
mod call;
mod canonical;
mod command;
mod decision;
mod descriptor;
mod display;
mod document;
mod documents;
mod engine;
mod error;
mod evidence;
mod fold;
mod grant;
mod path;
mod pattern;
mod policy;
mod policy_documents;
mod root;
mod rule;
mod rule_engine;
mod skill;
mod surface;
mod target;
mod url;

#[cfg(feature = "testing")]
pub mod testing;

// What a call is.
pub use arguments::{ArgumentsError, EffectiveArguments};
pub use call::ProposedCall;
pub use decision::{CallOrigin, Decision, Mode};
pub use descriptor::{ActionRisks, Risk, SelectorKind, TargetSelector, ToolDescriptor, ToolKind};
pub use root::{RegisteredRoot, Root, RootParseError, Roots};
pub use target::{Access, AgentTarget, Target, TargetScope, TargetSubject};

// What it affects.
pub use canonical::{CanonicalSubject, CanonicalTarget, Mark, PathForm, PathTarget, RootedPath};
pub use path::{
    DecidedEntry, DecidedPath, EntryKind, LockKey, PathMetadata, ResolveError, ResolvedCall, TargetResolver,
    derive_targets,
};
pub use url::{DecidedUrl, UrlTarget};

// Rules and the documents that hold them.
pub use builtin::builtin_rule_sets;
pub use document::{DocumentScope, Overlay, PolicyDocument, RuleSet, SCHEMA_VERSION};
pub use documents::{
    DocumentId, DocumentOwner, DocumentState, Documents, FileDocuments, MemoryDocuments, MemoryTrustStore,
    StoredDocument, Trust, TrustRecord, TrustStore,
};
pub use pattern::{Pattern, PatternError};
pub use policy_documents::{BoundRule, DocumentStatus, PolicyDocuments, SavedRule, Standing};
pub use rule::{
    ArgumentFilter, Enforcement, Example, Examples, Filter, Matcher, Operator, PrimaryFilter, Quantifier,
    QueryMatch, Rule, TargetKind, TargetsFilter,
};

// What else repositories supply.
pub use skill::{Skill, Skills};
pub use surface::{Layer, Layered, Surface, SurfaceDocuments, SurfaceStatus, TrustUnit};

// Judging and explaining.
pub use engine::{DecidedTarget, Evaluation, PermissionEngine, RuleQuery};
pub use evidence::{
    Evidence, Fallback, IgnoredDocument, MarkEvidence, Precedence, RuleEvidence, RuleSource, Uncovered,
};
pub use policy::{EntryFilter, Policy, PolicyBuilder, Verdict};
pub use rule_engine::RuleEngine;

// Remembering an answer.
pub use grant::{DocumentChange, Grant, GrantScope, SuggestedRule, SuggestionKind};

pub use display::display;
pub use error::{DocumentError, DocumentProblem, GrantError};
