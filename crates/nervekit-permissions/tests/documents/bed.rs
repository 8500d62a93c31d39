//! A home, a project, their documents, and an engine that looks at them.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use nervekit_permissions::*;
use serde_json::json;

pub(crate) struct Bed {
    _folder: tempfile::TempDir,
    /// Canonical, as the folder of a project is.
    base: PathBuf,
    pub(crate) trust: Arc<MemoryTrustStore>,
    pub(crate) documents: FileDocuments,
    pub(crate) engine: RuleEngine,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("home/config")).unwrap();
        fs::create_dir_all(base.join("project/.nerve/config")).unwrap();
        let trust = Arc::new(MemoryTrustStore::new());
        let documents = FileDocuments::new(base.join("home"), Arc::clone(&trust));
        let roots = Roots::new().project(base.join("project")).nerve_home(base.join("home"));
        let engine = RuleEngine::new(roots).documents(documents.clone(), DocumentOwner::User(None));
        Self { _folder: folder, base, trust, documents, engine }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// The file of the user's rules.
    pub(crate) fn user(&self) -> PathBuf {
        self.path("home/config/permissions.json")
    }

    /// The file of the project's rules.
    pub(crate) fn project(&self) -> PathBuf {
        self.path("project/.nerve/config/permissions.json")
    }

    pub(crate) fn project_id(&self) -> DocumentId {
        DocumentId::permissions(DocumentOwner::Project(self.path("project")))
    }

    /// The problem of a document, in words.
    pub(crate) fn problem(&self, id: &DocumentId) -> String {
        let state = self.documents.look(id);
        assert!(state.current.is_none(), "{state:?}");
        state.problem.as_ref().unwrap().to_string()
    }

    pub(crate) fn call(&self, rule_set: &str, command: &str) -> ProposedCall {
        let bash = ToolDescriptor::new("bash", ToolKind::Command, Risk::Unknown)
            .group("shell")
            .primary_argument("command")
            .whole_tool();
        let arguments = EffectiveArguments::new(json!({ "command": command })).unwrap();
        ProposedCall::new(bash, arguments, CallOrigin::Model, rule_set)
            .working_directory(self.path("project"))
    }

    pub(crate) fn evidence(&self, rule_set: &str, command: &str) -> Arc<Evidence> {
        self.engine.evaluate(self.call(rule_set, command)).evidence
    }

    pub(crate) fn bash(&self, rule_set: &str, command: &str) -> Decision {
        self.evidence(rule_set, command).decision
    }

    /// What every call now says about documents that do not count.
    pub(crate) fn notices(&self) -> Vec<IgnoredDocument> {
        self.evidence("supervised", "true").ignored_documents.clone()
    }

    /// Accepts what lies there, as a person does who saw it.
    pub(crate) async fn trust(&self, id: &DocumentId) {
        let digest = self.documents.read(id).await.unwrap().current.as_ref().unwrap().digest;
        self.documents.trust(id, digest).await.unwrap();
    }
}

pub(crate) fn user_id() -> DocumentId {
    DocumentId::permissions(DocumentOwner::User(None))
}

/// A rule about commands that begin with these words.
pub(crate) fn rule(id: &str, decision: Decision, prefix: &[&str], priority: i16) -> Rule {
    Rule::new(id, decision)
        .priority(priority)
        .when(Filter::new().tool("bash").command_prefix(prefix.iter().copied()))
}

/// The bytes of a document with these rules for two rule sets.
pub(crate) fn document(rules: &[Rule]) -> Vec<u8> {
    let mut document = PolicyDocument::new();
    for (set, prefix) in [("supervised", "s-"), ("autonomous", "a-")] {
        let overlay = rules.iter().fold(Overlay::new(set), |overlay, rule| {
            let mut rule = rule.clone();
            rule.id = format!("{prefix}{}", rule.id);
            overlay.rule(rule)
        });
        document = document.overlay(overlay);
    }
    serde_json::to_vec_pretty(&document).unwrap()
}

/// Puts a pipe there, on which a careless reader waits for ever.
pub(crate) fn pipe(file: &std::path::Path) {
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, file, kind, mode, 0).unwrap();
}
