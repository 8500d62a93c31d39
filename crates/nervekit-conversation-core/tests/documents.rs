//! The documents of users and projects in a running core: answers that are remembered there, versions that are
//! accepted, what is wrong with them, and what a crash in between leaves.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "common/life.rs"]
mod life;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use nervekit_conversation_core::{
    CallOutcome, Command, CommandError, CommandRequest, Conversation, ConversationCore, Conversations,
    Cursor, Interaction, InteractionKind, MemoryBackend, NewConversation, NewInput, PolicyHandle,
    PolicyOwner, Project, Query, Remember, Remembered, Resolution, StoredTrust, ToolCallResponse, Update,
    View,
};
use nervekit_harness::{ModelRegistry, ScriptedReply};
use nervekit_permissions::{
    Decision, DocumentError, DocumentId, DocumentOwner, DocumentScope, DocumentState, Documents,
    FileDocuments, Filter, GrantScope, MemoryDocuments, Overlay, Policy, PolicyDocument, Roots, Rule,
    RuleEngine, RuleSet, RuleSource, Standing,
};
use nervekit_types::{CommandId, ConversationId, Digest, InputId, Principal};
use serde_json::json;
use tokio::sync::Notify;

use self::life::{DEADLINE, Life, World, outcome_of, tools};

const USER: DocumentOwner = DocumentOwner::User(None);

/// A home and a project on disk, a backend, and the world that outlives a core.
struct Place {
    home: tempfile::TempDir,
    project: tempfile::TempDir,
    backend: Arc<MemoryBackend>,
    world: Arc<World>,
}

impl Place {
    fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        let folder = || tempfile::tempdir().unwrap();
        let world = Arc::new(World::new(replies));
        Self { home: folder(), project: folder(), backend: Arc::default(), world }
    }

    fn folder(&self) -> std::path::PathBuf {
        self.project.path().canonicalize().unwrap()
    }

    fn owner(&self) -> DocumentOwner {
        DocumentOwner::Project(self.folder())
    }

    fn file(&self, scope: GrantScope) -> std::path::PathBuf {
        match scope {
            GrantScope::User => self.home.path().join("config/permissions.json"),
            _ => self.project.path().join(".nerve/config/permissions.json"),
        }
    }

    async fn files(&self) -> FileDocuments {
        let trust = StoredTrust::open(self.backend.clone()).await.unwrap();
        let files = FileDocuments::new(self.home.path(), trust);
        files.adopt().await.unwrap();
        files
    }

    /// Opens a core whose engine looks at these documents.
    async fn open_with(&self, documents: impl Documents) -> Life {
        let documents: Arc<dyn Documents> = Arc::new(documents);
        let models = ModelRegistry::new().register(self.world.model.clone());
        let engine = RuleEngine::new(Roots::new().project(self.folder())).documents(documents.clone(), USER);
        let core = ConversationCore::builder(self.backend.clone(), models, engine, tools(&self.world))
            .documents(documents, USER)
            .open()
            .await
            .unwrap();
        self.life(core).await
    }

    async fn open(&self) -> Life {
        self.open_with(self.files().await).await
    }

    async fn life(&self, core: ConversationCore) -> Life {
        let api: Arc<dyn Conversations> = Arc::new(core.clone());
        let project = Project::at(api.clone(), self.folder()).await.unwrap();
        let id = ConversationId::from_key("conversation");
        let new = NewConversation::new(project.id(), self.world.config.clone()).id(id);
        project.create_conversation(new).await.unwrap();
        Life { core, conversation: Conversation::new(api, id), world: self.world.clone() }
    }

    async fn project_of(&self, life: &Life) -> Project {
        Project::at(Arc::new(life.core.clone()), self.folder()).await.unwrap()
    }
}

fn send(key: &str) -> ScriptedReply {
    ScriptedReply::call_tool("send", json!({ "key": key }))
}

fn rules(rules: impl IntoIterator<Item = Rule>) -> PolicyDocument {
    PolicyDocument::new().overlay(rules.into_iter().fold(Overlay::new("supervised"), Overlay::rule))
}

fn about(id: &str, decision: Decision, tool: &str) -> Rule {
    Rule::new(id, decision).when(Filter::new().tool(tool))
}

fn bytes(document: &PolicyDocument) -> Vec<u8> {
    serde_json::to_vec(document).unwrap()
}

fn put(file: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, bytes).unwrap();
}

/// The suggestion that a scope is offered for.
fn offered(shown: &Interaction, scope: GrantScope) -> usize {
    let InteractionKind::Approval { suggested, rememberable: true } = &shown.kind else {
        panic!("{shown:?}")
    };
    suggested.iter().position(|rule| rule.scopes.contains(&scope)).unwrap()
}

fn keep(shown: &Interaction, scope: GrantScope) -> Resolution {
    Resolution::approve(shown.digest).remember(Remember::new(scope, offered(shown, scope)))
}

async fn asked(life: &Life) -> Interaction {
    life.until("it asks", |seen| !seen.state.interactions.is_empty()).await.state.interactions.remove(0)
}

async fn done(life: &Life) {
    life.until("it is done", |seen| !seen.state.conversation.status.is_open()).await;
}

async fn last(life: &Life) -> ToolCallResponse {
    life.responses().await.pop().unwrap()
}

fn remembered(response: &ToolCallResponse) -> Option<&Remembered> {
    response.resolution.as_ref()?.remembered.as_ref()
}

#[tokio::test]
async fn an_answer_is_kept_in_the_file_of_its_scope_and_counts_from_the_next_call_on() {
    for scope in [GrantScope::Project, GrantScope::User] {
        let place = Place::new([send("a"), send("a")]);
        let life = place.open().await;
        life.submit("go").await;
        let shown = asked(&life).await;
        life.resolve(&shown, keep(&shown, scope)).await.unwrap();
        done(&life).await;
        let responses = life.responses().await;
        let Some(Remembered::Saved { rule }) = remembered(&responses[0]) else { panic!("{responses:?}") };
        let written =
            PolicyDocument::parse(scope.document().unwrap(), &std::fs::read(place.file(scope)).unwrap());
        assert!(written.unwrap().rules().any(|kept| kept.id == *rule && kept.decision == Decision::Allow));
        // The same call again: by the rule, without a person.
        let evidence = responses[1].supervision.as_ref().unwrap();
        let winner = evidence.winner.as_ref().unwrap();
        let source = if scope == GrantScope::User { RuleSource::User } else { RuleSource::Project };
        assert_eq!((&winner.rule.id, winner.source), (rule, source));
        assert_eq!(place.world.effects(), ["a", "a"]);

        // Another process opens the same store: the rule counts there, and can be listed and revoked.
        drop(life);
        let life = place.open().await;
        let in_force = life.conversation.rules().await.unwrap();
        assert!(
            in_force.iter().any(|known| known.rule.id == *rule && known.source == source),
            "{in_force:?}"
        );
        let policy = match scope {
            GrantScope::User => PolicyHandle::new(Arc::new(life.core.clone()), PolicyOwner::User),
            _ => place.project_of(&life).await.policy(),
        };
        let status = policy.status().await.unwrap();
        assert_eq!(status.standing, Standing::Active);
        assert!(status.automatic.iter().any(|bound| bound.rule.id == *rule));
        assert!(policy.revoke(rule.clone()).await.unwrap());
        assert!(!policy.revoke(rule.clone()).await.unwrap(), "it is gone already");
        let in_force = life.conversation.rules().await.unwrap();
        assert!(in_force.iter().all(|known| known.rule.id != *rule), "{in_force:?}");
    }
}

#[tokio::test]
async fn what_a_conversation_remembers_is_listed_and_revoked_there() {
    let place = Place::new([send("a"), send("a"), ScriptedReply::text("Done."), send("a")]);
    let life = place.open().await;
    life.submit("go").await;
    let shown = asked(&life).await;
    life.resolve(&shown, keep(&shown, GrantScope::Conversation)).await.unwrap();
    done(&life).await;
    let responses = life.responses().await;
    let Some(Remembered::Saved { rule }) = remembered(&responses[0]).cloned() else {
        panic!("{responses:?}")
    };
    let policy = life.conversation.policy();
    let status = policy.status().await.unwrap();
    assert_eq!((status.standing, status.automatic.len()), (Standing::Active, 1));
    // There is nothing to accept: it came through this program.
    let refused = policy.trust(status.digest.unwrap()).await.unwrap_err();
    assert_eq!(refused.http_status(), 422);
    let revoke = Command::RevokeRule { owner: PolicyOwner::Conversation(life.id()), rule: rule.clone() };
    let request = CommandRequest::new(CommandId::from_key("revoke"), revoke);
    let receipt = life.core.command(request.clone()).await.unwrap();
    assert_eq!(
        life.core.command(request).await.unwrap(),
        receipt,
        "a repeated command is answered as before"
    );
    assert!(!policy.revoke(rule).await.unwrap());
    life.submit("again").await;
    asked(&life).await;
}

#[tokio::test]
async fn a_document_that_nobody_accepted_stays_as_it_is_and_the_answer_counts_once() {
    for cloned in [bytes(&rules([about("theirs", Decision::Allow, "write")])), b"{ not json".to_vec()] {
        let place = Place::new([send("a"), send("a")]);
        put(&place.file(GrantScope::Project), &cloned);
        let life = place.open().await;
        life.submit("go").await;
        let shown = asked(&life).await;
        life.resolve(&shown, keep(&shown, GrantScope::Project)).await.unwrap();
        life.until("the first call is settled", |seen| !seen.state.interactions.is_empty()).await;
        let first = life.responses().await.remove(0);
        assert_eq!(first.outcome, CallOutcome::Completed);
        let Some(Remembered::Failed { problem }) = remembered(&first) else { panic!("{first:?}") };
        assert!(problem.contains("not trusted"), "{problem}");
        assert_eq!(std::fs::read(place.file(GrantScope::Project)).unwrap(), cloned);
        assert_eq!(place.world.effects(), ["a"], "the second call asks");
    }
}

#[tokio::test]
async fn never_and_always_ask_are_guardrails_of_the_user() {
    for (deny, expected) in [(true, Decision::Deny), (false, Decision::Prompt)] {
        let place = Place::new([send("a"), send("a")]);
        let life = place.open().await;
        life.submit("go").await;
        let shown = asked(&life).await;
        let how = Remember::new(GrantScope::User, offered(&shown, GrantScope::User)).guardrail();
        let answer = if deny { Resolution::deny() } else { Resolution::approve(shown.digest) };
        life.resolve(&shown, answer.remember(how)).await.unwrap();
        let second = |responses: &[ToolCallResponse]| outcome_of(responses, "a");
        if deny {
            done(&life).await;
            let responses = life.responses().await;
            assert_eq!(
                responses.iter().map(|call| call.outcome).collect::<Vec<_>>(),
                [CallOutcome::Denied; 2]
            );
            assert!(responses[1].resolution.is_none(), "nobody was asked the second time");
            assert_eq!(second(&responses), Some(CallOutcome::Denied));
        } else {
            let again = asked(&life).await;
            assert_ne!(again.id, shown.id);
        }
        let in_force = life.conversation.rules().await.unwrap();
        let strongest = &in_force[0];
        assert_eq!((strongest.rule.decision, strongest.source), (expected, RuleSource::User));
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_kept_like_that_is_refused_and_nothing_is_recorded() {
    let place = Place::new([send("a")]);
    let life = place.open().await;
    life.submit("go").await;
    let shown = asked(&life).await;
    for (how, words) in [
        (Remember::new(GrantScope::Project, 99), "no suggestion 99"),
        (Remember::new(GrantScope::Project, 0).guardrail(), "guardrail"),
        (Remember::new(GrantScope::Once, 0).guardrail(), "guardrail"),
    ] {
        let error = life.conversation.resolve(shown.id, Resolution::deny().remember(how)).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.http_status(), 422);
    }
    assert_eq!(life.interactions().await, [shown]);
}

#[tokio::test]
async fn without_documents_nothing_outside_of_the_conversation_is_offered() {
    let world = Arc::new(World::new([send("a")]));
    let life = Life::open(MemoryBackend::new(), &world).await;
    life.submit("go").await;
    let shown = asked(&life).await;
    let InteractionKind::Approval { suggested, .. } = &shown.kind else { panic!("{shown:?}") };
    let outside = |scope: &GrantScope| matches!(scope, GrantScope::Project | GrantScope::User);
    assert!(!suggested.is_empty() && !suggested.iter().any(|rule| rule.scopes.iter().any(outside)));
    let user = PolicyHandle::new(Arc::new(life.core.clone()), PolicyOwner::User);
    assert!(user.status().await.unwrap_err().to_string().contains("keeps no documents"));
    assert_eq!(user.trust(Digest::of("{}")).await.unwrap_err().http_status(), 422);
}

/// Documents of which writing waits, or which cannot be reached.
#[derive(Debug)]
struct Trouble {
    inner: FileDocuments,
    writing: Notify,
    released: Notify,
    waits: AtomicBool,
    gone: AtomicBool,
}

impl Trouble {
    fn new(inner: FileDocuments) -> Arc<Self> {
        Arc::new(Self {
            inner,
            writing: Notify::new(),
            released: Notify::new(),
            waits: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        })
    }
}

#[async_trait]
impl Documents for Trouble {
    async fn read(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
        if self.gone.load(Ordering::SeqCst) {
            return Err(DocumentError::Unavailable("the disk is gone".into()));
        }
        self.inner.read(id).await
    }

    fn look(&self, id: &DocumentId) -> Arc<DocumentState> {
        self.inner.look(id)
    }

    async fn replace(
        &self,
        id: &DocumentId,
        expected: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Digest, DocumentError> {
        if self.waits.load(Ordering::SeqCst) {
            self.writing.notify_one();
            self.released.notified().await;
        }
        self.inner.replace(id, expected, bytes).await
    }

    async fn trust(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        self.inner.trust(id, digest).await
    }

    async fn reject(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        self.inner.reject(id, digest).await
    }

    async fn forget(&self, id: &DocumentId) -> Result<(), DocumentError> {
        self.inner.forget(id).await
    }
}

#[tokio::test]
async fn a_rule_that_was_acknowledged_is_saved_after_a_crash() {
    let place = Place::new([send("a"), send("a")]);
    let trouble = Trouble::new(place.files().await);
    trouble.waits.store(true, Ordering::SeqCst);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (handle, documents) = (runtime.handle().clone(), trouble.clone());
    let models = ModelRegistry::new().register(place.world.model.clone());
    let engine = RuleEngine::new(Roots::new().project(place.folder())).documents(documents.clone(), USER);
    let builder = ConversationCore::builder(place.backend.clone(), models, engine, tools(&place.world));
    let core = builder.documents(documents, USER).runtime(handle).open().await.unwrap();
    let life = place.life(core).await;
    life.submit("go").await;
    let shown = asked(&life).await;
    life.resolve(&shown, keep(&shown, GrantScope::Project)).await.unwrap();
    trouble.writing.notified().await;
    // The process dies while the rule is being written: the answer is durable, the rule is not.
    runtime.shutdown_background();
    drop(life);
    assert!(!place.file(GrantScope::Project).exists());
    assert_eq!(place.world.effects(), [""; 0]);

    let life = place.open().await;
    done(&life).await;
    let responses = life.responses().await;
    assert!(matches!(remembered(&responses[0]), Some(Remembered::Saved { .. })), "{responses:?}");
    assert_eq!(responses[0].resolution.as_ref().unwrap().by, Principal::local());
    assert_eq!(place.world.effects(), ["a", "a"], "the second call runs by the rule");
    let written = std::fs::read(place.file(GrantScope::Project)).unwrap();
    let written = PolicyDocument::parse(DocumentScope::Project, &written).unwrap();
    assert_eq!(written.rules().count(), 1, "saving is idempotent");
}

#[tokio::test]
async fn a_stop_does_not_lose_the_rule_that_is_being_saved() {
    let place = Place::new([send("a")]);
    let trouble = Trouble::new(place.files().await);
    trouble.waits.store(true, Ordering::SeqCst);
    let life = place.open_with(trouble.clone()).await;
    life.submit("go").await;
    let shown = asked(&life).await;
    life.resolve(&shown, keep(&shown, GrantScope::User)).await.unwrap();
    trouble.writing.notified().await;
    let stopping = tokio::spawn({
        let life = life.clone();
        async move { life.stop("stop").await }
    });
    life.until("it is marked", |seen| seen.state.conversation.paused).await;
    trouble.released.notify_one();
    tokio::time::timeout(DEADLINE, stopping).await.unwrap().unwrap();
    let response = last(&life).await;
    assert_eq!(response.outcome, CallOutcome::Cancelled);
    assert!(matches!(remembered(&response), Some(Remembered::Saved { .. })), "{response:?}");
    assert!(place.file(GrantScope::User).exists());
    assert_eq!(place.world.effects(), [""; 0]);
}

#[tokio::test]
async fn rules_that_cannot_be_had_allow_nothing() {
    let place = Place::new([ScriptedReply::call_tool("peek", json!({ "key": "a" }))]);
    let trouble = Trouble::new(place.files().await);
    let life = place.open_with(trouble.clone()).await;
    trouble.gone.store(true, Ordering::SeqCst);
    life.submit("go").await;
    done(&life).await;
    let response = last(&life).await;
    assert_eq!(response.outcome, CallOutcome::Denied);
    assert!(response.agent.contains("the disk is gone"), "{}", response.agent);
    assert_eq!(place.world.effects(), [""; 0]);
}

#[tokio::test]
async fn a_project_is_trusted_as_shown_and_its_denies_outlive_the_file_and_the_process() {
    let place = Place::new([
        send("a"),
        ScriptedReply::call_tool("peek", json!({ "key": "b" })),
        ScriptedReply::text("Done."),
        send("c"),
        ScriptedReply::call_tool("peek", json!({ "key": "d" })),
    ]);
    let file = place.file(GrantScope::Project);
    let cloned =
        rules([about("yes", Decision::Allow, "send"), about("no", Decision::Deny, "peek").priority(1)]);
    put(&file, &bytes(&cloned));
    let life = place.open().await;
    let policy = place.project_of(&life).await.policy();
    let status = policy.status().await.unwrap();
    assert_eq!((status.standing, status.automatic.len()), (Standing::Untrusted, 1));
    let error = policy.trust(Digest::of("another version")).await.unwrap_err();
    assert!(matches!(&error, CommandError::Policy(_)), "{error}");
    assert_eq!(error.http_status(), 409);
    policy.trust(status.digest.unwrap()).await.unwrap();
    life.submit("go").await;
    done(&life).await;
    let outcomes: Vec<_> = life.responses().await.iter().map(|call| call.outcome).collect();
    assert_eq!(outcomes, [CallOutcome::Completed, CallOutcome::Denied]);

    // The file goes while nothing runs: what it allowed ends, what it denied stays.
    drop(life);
    std::fs::remove_file(&file).unwrap();
    let life = place.open().await;
    life.submit("again").await;
    let shown = asked(&life).await;
    life.resolve(&shown, Resolution::approve(shown.digest)).await.unwrap();
    done(&life).await;
    let response = last(&life).await;
    assert_eq!((response.tool_name.as_str(), response.outcome), ("peek", CallOutcome::Denied));
    assert_eq!(response.supervision.unwrap().winner.as_ref().unwrap().rule.id, "no");
    // Until a person accepts that it is gone.
    let policy = place.project_of(&life).await.policy();
    assert_eq!(policy.status().await.unwrap().standing, Standing::Gone);
    policy.accept_absence().await.unwrap();
    assert_eq!(policy.status().await.unwrap().standing, Standing::Absent);
    let in_force = life.conversation.rules().await.unwrap();
    assert!(in_force.iter().all(|known| known.rule.id != "no"), "{in_force:?}");
    assert_eq!(place.world.effects(), ["a", "c"]);
}

#[tokio::test]
async fn what_is_wrong_with_a_document_is_shown_as_the_latest_state() {
    let place = Place::new([send("a"), ScriptedReply::text("Done."), send("b")]);
    let life = place.open().await;
    assert!(life.snapshot().await.state.policy_problems.is_empty());
    put(&place.file(GrantScope::User), b"{\n  \"schemaVersion\": 2,,\n}");
    let mut updates = life.conversation.follow(Cursor::START).await.unwrap();
    life.submit("go").await;
    let problems = tokio::time::timeout(DEADLINE, async {
        loop {
            if let Update::State(state) = updates.next().await.unwrap().unwrap()
                && !state.policy_problems.is_empty()
            {
                return state.policy_problems;
            }
        }
    });
    let problems = problems.await.unwrap();
    assert!(problems[0].name.ends_with("config/permissions.json"), "{problems:?}");
    assert!(problems[0].reason.contains("line 2, column 22"), "{problems:?}");
    assert_eq!(life.snapshot().await.state.policy_problems, problems);
    // Put right, by whoever: it is told again, since nobody accepted it yet.
    put(&place.file(GrantScope::User), &bytes(&rules([about("no", Decision::Deny, "send")])));
    assert!(life.snapshot().await.state.policy_problems[0].reason.contains("changed by something else"));
}

#[tokio::test]
async fn a_document_that_changed_since_refuses_the_call_at_dispatch_and_both_decisions_are_kept() {
    let place =
        Place::new([ScriptedReply::call_tool("hold", json!({ "key": "first" }))
            .call("stamp", json!({ "key": "second" }))]);
    place.world.brief.store(true, Ordering::SeqCst);
    let documents = Arc::new(MemoryDocuments::new());
    let id = DocumentId::permissions(USER);
    documents.replace(&id, None, &bytes(&PolicyDocument::new())).await.unwrap();
    // The second call waits for the first one, which changes the rules.
    let life = place.open_with(Editing(documents.clone(), place.world.clone())).await;
    life.submit("go").await;
    done(&life).await;
    let responses = life.responses().await;
    let second = responses.iter().find(|call| call.tool_name == "stamp").unwrap();
    assert_eq!(second.outcome, CallOutcome::Denied);
    assert_eq!(second.supervision.as_ref().unwrap().decision, Decision::Allow);
    let dispatch = second.dispatch.as_ref().unwrap();
    // Each decision can be explained by the very policy that made it.
    for evidence in [second.supervision.as_ref().unwrap(), dispatch] {
        let view = life.core.query(Query::Policy { digest: evidence.policy }).await.unwrap();
        let View::Policy(Some(text)) = view else { panic!("{view:?}") };
        let policy = Policy::from_bytes(text.as_bytes()).unwrap();
        assert_eq!(policy.digest(), evidence.policy);
        assert!(policy.rules().contains(evidence.winner.as_ref().unwrap()));
    }
    assert_eq!(
        (dispatch.decision, dispatch.winner.as_ref().unwrap().rule.id.as_str()),
        (Decision::Deny, "no")
    );
    assert_eq!(place.world.effects(), ["first"]);
}

/// Documents into which somebody writes a deny as soon as a tool had an effect.
#[derive(Debug)]
struct Editing(Arc<MemoryDocuments>, Arc<World>);

#[async_trait]
impl Documents for Editing {
    async fn read(&self, id: &DocumentId) -> Result<Arc<DocumentState>, DocumentError> {
        Ok(self.look(id))
    }

    fn look(&self, id: &DocumentId) -> Arc<DocumentState> {
        if id.owner == USER && !self.1.effects().is_empty() {
            self.0.edit(id, Some(&bytes(&rules([about("no", Decision::Deny, "stamp")]))));
        }
        self.0.look(id)
    }

    async fn replace(
        &self,
        id: &DocumentId,
        expected: Option<Digest>,
        bytes: &[u8],
    ) -> Result<Digest, DocumentError> {
        self.0.replace(id, expected, bytes).await
    }

    async fn trust(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        self.0.trust(id, digest).await
    }

    async fn reject(&self, id: &DocumentId, digest: Digest) -> Result<(), DocumentError> {
        self.0.reject(id, digest).await
    }

    async fn forget(&self, id: &DocumentId) -> Result<(), DocumentError> {
        self.0.forget(id).await
    }
}

#[tokio::test]
async fn a_grant_for_a_rule_set_that_is_gone_is_refused_and_the_answer_stands_once() {
    for scope in [GrantScope::Conversation, GrantScope::User] {
        let mut place = Place::new([send("a")]);
        let world = World::new([send("a")]).configured(|config| config.rule_set_id = "mine".to_owned());
        place.world = Arc::new(world);
        let documents = Arc::new(MemoryDocuments::new());
        let set = RuleSet::new("mine").rule(Rule::new("ask", Decision::Prompt));
        let id = DocumentId::new(USER, "rule-sets/mine");
        documents.replace(&id, None, &serde_json::to_vec(&set).unwrap()).await.unwrap();
        let life = place.open_with(documents.clone()).await;
        life.submit("go").await;
        let shown = asked(&life).await;
        documents.edit(&id, None);
        life.resolve(&shown, keep(&shown, scope)).await.unwrap();
        done(&life).await;
        let response = last(&life).await;
        let Some(Remembered::Failed { problem }) = remembered(&response) else { panic!("{response:?}") };
        assert!(problem.contains("no rule set has the id `mine`"), "{problem}");
        assert_eq!(response.outcome, CallOutcome::Completed);
        assert_eq!(place.world.effects(), ["a"]);
        assert!(documents.look(&DocumentId::permissions(USER)).current.is_none());
    }
}

#[tokio::test]
async fn two_conversations_that_keep_answers_at_once_lose_none() {
    let place = Place::new([send("a")]);
    let life = place.open().await;
    let project = place.project_of(&life).await;
    let mut all = Vec::new();
    for number in 0..8 {
        let id = ConversationId::from_key(&format!("conversation {number}"));
        let mut config = place.world.config.clone();
        config.system_prompt = Some(number.to_string());
        let conversation =
            project.create_conversation(NewConversation::new(project.id(), config).id(id)).await.unwrap();
        let key = format!("go {number}");
        conversation.submit(NewInput::new(key.clone()).id(InputId::from_key(&key))).await.unwrap();
        all.push(Life { conversation, ..life.clone() });
    }
    let mut answers = tokio::task::JoinSet::new();
    for life in all.clone() {
        answers.spawn(async move {
            let shown = asked(&life).await;
            life.conversation.resolve(shown.id, keep(&shown, GrantScope::Project)).await.unwrap();
            done(&life).await;
            last(&life).await
        });
    }
    let responses = answers.join_all().await;
    assert!(
        responses.iter().all(|response| matches!(remembered(response), Some(Remembered::Saved { .. }))),
        "{responses:?}"
    );
    let written = std::fs::read(place.file(GrantScope::Project)).unwrap();
    let written = PolicyDocument::parse(DocumentScope::Project, &written).unwrap();
    assert_eq!(written.rules().count(), 1, "equal matchers are one rule");
    assert_eq!(place.owner().scope(), DocumentScope::Project);
}
