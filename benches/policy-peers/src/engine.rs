//! The whole of a call: what `RuleEngine::evaluate` costs by kind of call and by where the documents lie.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nervekit_permissions::{
    Decision, DocumentId, DocumentOwner, Documents as _, FileDocuments, Filter, Matcher, MemoryTrustStore,
    PermissionEngine, Policy, PolicyDocument, ProposedCall, ResolvedCall, Roots, Rule, RuleEngine,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::policy::Call;
use crate::side::nervekit::{self, Documents};

/// A machine with a home and a project, and engines over the same thousand rules.
pub(crate) struct Bed {
    folder: TempDir,
    user: PolicyDocument,
    pub(crate) engines: Vec<(&'static str, RuleEngine)>,
    /// With the answer that every engine gives.
    pub(crate) calls: Vec<(&'static str, ProposedCall, Decision)>,
    /// How many versions of the user's document were written.
    seen: u32,
}

impl Bed {
    pub(crate) fn new(documents: &Documents, runtime: &Runtime) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in
            ["project/crates/core/src", "home/.nerve/data", "home/.nerve/plans", "home/.ssh", "edited"]
        {
            std::fs::create_dir_all(folder.path().join(name)).expect("a folder");
        }
        let source = folder.path().join("project/crates/core/src/turn.rs");
        std::fs::write(source, "fn main() {}").expect("a file");
        // A search then has something to withhold.
        let guardrail = Rule::new("no-env", Decision::Deny)
            .description("version 000000")
            .when(Filter::new().any_target(Matcher::new().pattern("**/.env*")));
        let [user, project, conversation] = documents.layers();
        let (mut user, project) = (user.clone(), project.clone());
        user.overlays[0].rules.truncate(249);
        let user = user.guardrail(guardrail);

        let mut bed = Self { folder, user, engines: Vec::new(), calls: Vec::new(), seen: 0 };
        let plain = || documents.with_rule_set(RuleEngine::new(bed.roots()));
        let accepted = runtime.block_on(bed.files(".nerve", &project));
        let edited = runtime.block_on(bed.files("edited", &project));
        bed.engines = vec![
            ("no documents", plain()),
            ("given", plain().user_document(bed.user.clone()).project_document(project.clone())),
            ("files", plain().documents(accepted, DocumentOwner::User(None))),
            ("files, edited", plain().documents(edited, DocumentOwner::User(None))),
        ];
        bed.edit_anew();
        let project = bed.folder.path().join("project");
        let calls = [
            ("read", file("read", "read", "crates/core/src/turn.rs"), Decision::Allow),
            ("write", file("write", "write", "crates/core/src/turn.rs"), Decision::Prompt),
            ("bash", bash("cargo test --workspace --all-features"), Decision::Prompt),
            ("grep", file("grep", "read", "crates"), Decision::Allow),
        ];
        bed.calls = calls
            .into_iter()
            .map(|(name, call, decision)| {
                let call = nervekit::propose(&project, &call);
                (name, call.conversation_document(conversation.clone()), decision)
            })
            .collect();
        bed
    }

    fn roots(&self) -> Roots {
        let home = self.folder.path().join("home");
        Roots::new()
            .project(self.folder.path().join("project"))
            .home(&home)
            .nerve_home(home.join(".nerve"))
            .nerve_data(home.join(".nerve/data"))
            .plans(home.join(".nerve/plans"))
            .temp("/tmp")
    }

    /// The documents in files below a home, all accepted.
    async fn files(&self, home: &str, project: &PolicyDocument) -> FileDocuments {
        let home = match home {
            ".nerve" => self.folder.path().join("home/.nerve"),
            other => self.folder.path().join(other),
        };
        let files = FileDocuments::new(home, MemoryTrustStore::new());
        let folder = std::fs::canonicalize(self.folder.path().join("project")).expect("a folder");
        let user = DocumentId::permissions(DocumentOwner::User(None));
        files.replace(&user, None, &bytes(&self.user)).await.expect("nothing is there");
        let id = DocumentId::permissions(DocumentOwner::Project(folder));
        let known = files.look(&id).current.as_ref().map(|document| document.digest);
        files.replace(&id, known, &bytes(project)).await.expect("it was just looked at");
        files
    }

    fn edited(&self) -> PathBuf {
        self.folder.path().join("edited/config/permissions.json")
    }

    /// Puts this version of the user's document in place as an editor would; version 0 is the accepted one.
    pub(crate) fn edit(&self, version: u32) {
        let text = String::from_utf8(bytes(&self.user)).expect("JSON");
        let text = text.replace("version 000000", &format!("version {version:06}"));
        std::fs::write(self.edited(), text).expect("the folder is there");
    }

    /// Puts a version there that nobody has seen.
    pub(crate) fn edit_anew(&mut self) {
        self.seen += 1;
        self.edit(self.seen);
    }

    /// Waits until the files are so old that an edit would show: until then they are read at each look.
    pub(crate) fn settle(&self) {
        std::thread::sleep(Duration::from_millis(2500));
    }

    /// The engine whose user's document is edited.
    pub(crate) fn over_edited(&self) -> &RuleEngine {
        &self.engines.last().expect("four engines").1
    }

    /// What every engine answers, so that no figure is of something else.
    pub(crate) fn check(&self) {
        for (place, engine) in &self.engines {
            for (name, call, decision) in &self.calls {
                let found = engine.evaluate(call.clone());
                assert_eq!(found.decision(), *decision, "{name}, {place}: {}", found.evidence.reason);
            }
        }
    }
}

fn bytes(document: &PolicyDocument) -> Vec<u8> {
    serde_json::to_vec_pretty(document).expect("plain data")
}

fn file(tool: &str, risk: &'static str, path: &str) -> Call {
    Call { tool: tool.into(), group: "files".into(), risk, path: path.into(), ..Call::default() }
}

fn bash(command: &str) -> Call {
    let command = command.into();
    Call { tool: "bash".into(), group: "shell".into(), risk: "unknown", command, ..Call::default() }
}

/// Three policies as they are in force while a user's document is changed and not accepted.
pub(crate) fn three(documents: &Documents) -> [Policy; 3] {
    let with = |keep: fn(&Rule) -> bool| {
        let mut user = documents.layers()[0].clone();
        user.overlays[0].rules.retain(keep);
        documents.compile_with(&user)
    };
    [with(|_| true), with(|rule| rule.priority != 0), with(|rule| rule.decision != Decision::Allow)]
}

/// The strictest decision under all of them.
pub(crate) fn decide(policies: &[Policy], call: &ResolvedCall) -> Decision {
    let decisions = policies.iter().map(|policy| policy.decide(call).decision());
    decisions.reduce(Decision::stricter).unwrap_or(Decision::Prompt)
}

/// Looks up one path, to tell what a system call costs here.
pub(crate) fn stat(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}
