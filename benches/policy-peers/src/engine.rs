//! The whole of a call: what `RuleEngine::evaluate` costs by kind of call and by where the documents lie.

use std::path::PathBuf;
use std::time::Duration;

use nervekit_permissions::{
    Decision, DocumentId, DocumentOwner, Documents as _, FileDocuments, Filter, Matcher, MemoryTrustStore,
    PermissionEngine as _, Policy, PolicyDocument, ProposedCall, ResolvedCall, Roots, Rule, RuleEngine,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::policy::Call;
use crate::side::nervekit::{self, Documents};

/// A machine with a home and a project, and engines over the same thousand rules.
pub(crate) struct Bed {
    folder: TempDir,
    user: PolicyDocument,
    pub(crate) settings: Vec<Setting>,
    /// How many versions of the user's document were written.
    seen: u32,
}

/// An engine, and calls of every kind.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) engine: RuleEngine,
    /// With the answer that every engine gives.
    pub(crate) calls: Vec<(&'static str, ProposedCall, Decision)>,
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
        // A search then has something to withhold. The user's document stays within its 256 rules.
        let guardrail = Rule::new("no-env", Decision::Deny)
            .description("version 000000")
            .when(Filter::new().any_target(Matcher::new().pattern("**/.env*")));
        let [user, project, conversation] = documents.layers();
        let mut bed = Self { folder, user: user.clone().guardrail(guardrail), settings: Vec::new(), seen: 0 };

        let engine = || documents.with_rule_set(RuleEngine::new(bed.roots()));
        let given = engine().user_document(bed.user.clone()).project_document(project.clone());
        let files = |home| {
            let files = runtime.block_on(bed.files(home, project));
            engine().documents(files, DocumentOwner::User(None))
        };
        let (accepted, edited) = (files("home/.nerve"), files("edited"));
        let calls = bed.calls();
        let with_rules: Vec<_> = calls
            .iter()
            .map(|(name, call, decision)| {
                (*name, call.clone().conversation_document(conversation.clone()), *decision)
            })
            .collect();
        let setting = |name, engine| Setting { name, engine, calls: with_rules.clone() };
        bed.settings = vec![
            Setting { name: "no documents", engine: engine(), calls },
            setting("in memory", given),
            setting("in files", accepted),
            setting("in files, one changed", edited),
        ];
        bed.edit_anew();
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

    fn calls(&self) -> Vec<(&'static str, ProposedCall, Decision)> {
        let project = self.folder.path().join("project");
        let file = |tool: &str, risk, path: &str| Call {
            tool: tool.into(),
            group: "files".into(),
            risk,
            path: path.into(),
            ..Call::default()
        };
        let bash = Call {
            tool: "bash".into(),
            group: "shell".into(),
            risk: "unknown",
            command: "cargo test --workspace --all-features".into(),
            ..Call::default()
        };
        let calls = [
            ("`read` of a file, allowed", file("read", "read", "crates/core/src/turn.rs"), Decision::Allow),
            ("`write` of a file, asks", file("write", "write", "crates/core/src/turn.rs"), Decision::Prompt),
            ("`bash`, asks", bash, Decision::Prompt),
            ("`grep` of a tree, allowed", file("grep", "read", "crates"), Decision::Allow),
        ];
        calls.map(|(name, call, decision)| (name, nervekit::propose(&project, &call), decision)).into()
    }

    /// The documents in files below a home, all accepted.
    async fn files(&self, home: &str, project: &PolicyDocument) -> FileDocuments {
        let files = FileDocuments::new(self.folder.path().join(home), MemoryTrustStore::new());
        let user = DocumentId::permissions(DocumentOwner::User(None));
        files.replace(&user, None, &bytes(&self.user)).await.expect("nothing is there");
        let folder = self.folder.path().join("project");
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
    pub(crate) fn settle() {
        std::thread::sleep(Duration::from_millis(2500));
    }

    /// The one whose user's document is edited.
    pub(crate) fn changed(&self) -> &Setting {
        self.settings.last().expect("four settings")
    }

    /// Panics when an engine gives another answer, or counts a document that nobody accepted: then no figure would be
    /// of what it says.
    pub(crate) fn check(&self) {
        for (index, Setting { name, engine, calls }) in self.settings.iter().enumerate() {
            for (kind, call, decision) in calls {
                let found = engine.evaluate(call.clone());
                assert_eq!(found.decision(), *decision, "{kind}, {name}: {}", found.evidence.reason);
                let ignored = usize::from(index == 3);
                assert_eq!(found.evidence.ignored_documents.len(), ignored, "{kind}, {name}");
            }
        }
    }
}

fn bytes(document: &PolicyDocument) -> Vec<u8> {
    serde_json::to_vec_pretty(document).expect("plain data")
}

/// Three policies, as they are in force while a user's document is changed and not accepted.
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
