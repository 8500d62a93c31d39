//! Records as version 1 writes them, kept in `fixtures/v1`. A file is written once and never again: if one of these
//! tests fails, stored conversations cannot be read any more, and what has to change is the code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nervekit_harness::{
    AssistantMessage, ModelSelection, ProviderErrorKind, Text, Thinking, ThinkingLevel, Usage,
};
use nervekit_permissions::{
    CallOrigin, Decision, Evidence, GrantScope, Mode, Risk, Rule, SuggestedRule, SuggestionKind,
};
use nervekit_tools::{AssetCategory, AssetFacts, Attachment, ProcessRef, UserProjection};
use nervekit_types::{Principal, RawId, Timestamp};

use super::*;
use crate::command::CommandOutcome;
use crate::conversation::{Attendance, CancelMark, Limits, OpenExecution, Status};
use crate::event::{
    AssistantMessageEvent, Awaited, CallOutcome, DeniedCall, EventLink, EventPayload, ExecutionState,
    ExecutionStateEvent, FailureReason, InterventionKind, MessageCall, Notification, ToolCallResponse,
    UserIntervention, UserMessageEvent,
};
use crate::input::{DeliveryTarget, Image, InputFate, InputSource};
use crate::interaction::{
    Interaction, InteractionKind, Question, Remember, Remembered, Resolution, Resolved,
};
use crate::store::tests::AnyId;
use crate::tool_call::{CallState, Claim, TurnSettings};

type Check = dyn Fn(&[u8]);

/// A record as it is written, and what reads a file and compares.
struct Fixture {
    bytes: Vec<u8>,
    check: Box<Check>,
}

/// The records of the fixtures, by the name of the file.
#[derive(Default)]
struct Fixtures {
    files: BTreeMap<String, Fixture>,
    /// Which variants of which type occur.
    variants: BTreeSet<(&'static str, &'static str)>,
}

impl Fixtures {
    fn add<T: Record + PartialEq + Debug + 'static>(&mut self, name: &str, value: T) {
        let bytes = value.encode().unwrap();
        let check = move |bytes: &[u8]| assert_eq!(T::decode(bytes).unwrap(), value);
        let name = if name.is_empty() { T::KIND.to_owned() } else { format!("{}_{name}", T::KIND) };
        let before = self.files.insert(name, Fixture { bytes, check: Box::new(check) });
        assert!(before.is_none(), "two fixtures of one name");
    }
}

/// Says which variant a value is, and which there are. A new variant does not compile here until it is named, and
/// is then missed among the fixtures.
macro_rules! variants {
    ($($function:ident $type:ident { $($variant:ident $(($inner:tt))? $({ $dots:tt })?),* })*) => {
        $(fn $function(fixtures: &mut Fixtures, value: &$type) {
            let variant = match value {
                $($type::$variant $(($inner))? $({ $dots })? => stringify!($variant),)*
            };
            fixtures.variants.insert((stringify!($type), variant));
        })*

        const VARIANTS: &[(&str, &str)] = &[$($((stringify!($type), stringify!($variant)),)*)*];
    };
}

variants! {
    status Status { Idle, Running, Waiting, Paused, Failed, Interrupted }
    mode Mode { Coding, Planning }
    attendance Attendance { Attended, Unattended }
    source InputSource { User, ParentConversation, System }
    target DeliveryTarget { NextTurn, Execution { .. }, NextExecution }
    fate InputFate { Queued, Delivered { .. }, Cancelled, Expired }
    outcome CommandOutcome {
        ProjectCreated { .. }, ConversationCreated { .. }, Configured, TitleSet, InputAccepted { .. },
        InputCancelled { .. }, InputNotCancelled { .. }, Resolved { .. }, Paused, Resumed, Stopped { .. },
        NothingToStop, Continued { .. }, PolicyTrusted, PolicyRejected, RuleRevoked { .. }
    }
    remembered Remembered { Pending { .. }, Saved { .. }, Failed { .. } }
    call_state CallState { Supervising, AwaitingApproval, Ready, Running, AwaitingInput }
    interaction InteractionKind { Approval { .. }, Question(_) }
    resolution Resolution { Approve { .. }, Deny { .. }, Answer { .. }, Cancel }
    payload EventPayload {
        UserMessage(_), AssistantMessage(_), ToolCallResponse(_), UserIntervention(_), Notification(_),
        ExecutionState(_)
    }
    call_outcome CallOutcome { Completed, Failed, Denied, Cancelled, Indeterminate }
    intervention InterventionKind { Stop, Continue }
    execution ExecutionState {
        Started, Waiting { .. }, Resumed, Retrying { .. }, Completed { .. }, Failed { .. }, Cancelled, Interrupted
    }
    failure FailureReason {
        Provider { .. }, TurnLimit { .. }, TimeLimit { .. }, TokenLimit { .. }, CostLimit { .. }, Resources, Refused
    }
}

fn id<T: AnyId>(number: u128) -> T {
    T::of(RawId::from_u128(number))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(1_789_000_000_123 + second * 1_000)
}

fn denied() -> Vec<DeniedCall> {
    let reason = "rule `ask-before-write` asks".to_owned();
    vec![DeniedCall { call_id: id(21), tool_name: "write".to_owned(), reason }]
}

fn image() -> Image {
    Image { media_type: "image/png".to_owned(), asset_id: id(31), digest: Digest::of("png") }
}

fn suggestion() -> SuggestedRule {
    let rule = Rule::new("grant-1", Decision::Allow).description("remembered").priority(-7);
    SuggestedRule::new(SuggestionKind::Subtree, "files below `src`", rule)
        .scopes([GrantScope::Conversation, GrantScope::Project])
}

fn evidence() -> Evidence {
    let (arguments, policy) = (Digest::of("arguments"), Digest::of("policy"));
    Evidence::new(Decision::Prompt, "writing needs a person", Risk::Write, arguments, "supervised", policy)
        .tool("write")
        .suggestions(vec![suggestion()])
}

fn resolved(fixtures: &mut Fixtures, resolution: Resolution) -> Resolved {
    self::resolution(fixtures, &resolution);
    let by = Principal::person("alice");
    Resolved { interaction_id: id(41), resolution, by, at: at(5), remembered: None }
}

fn interaction_of(fixtures: &mut Fixtures, kind: InteractionKind) -> Interaction {
    interaction(fixtures, &kind);
    Interaction {
        id: id(41),
        conversation_id: id(1),
        lead: Some(id(2)),
        call_id: id(21),
        digest: Digest::of("shown"),
        tool_name: "write".to_owned(),
        arguments: json!({ "content": "//!\n", "path": "src/lib.rs" }),
        targets: vec!["write /srv/site/src/lib.rs".to_owned()],
        reason: "writing needs a person".to_owned(),
        kind,
        opened_at: at(4),
    }
}

fn question() -> InteractionKind {
    InteractionKind::Question(Question {
        question: "Which port?".to_owned(),
        context: Some("80 is taken".to_owned()),
        recommendation: Some("8080".to_owned()),
        options: vec!["80".to_owned(), "8080".to_owned()],
    })
}

fn call(state: CallState) -> ToolCall {
    ToolCall {
        id: id(21),
        provider_call_id: Some("toolu_01".to_owned()),
        conversation_id: id(1),
        execution_id: id(11),
        turn_id: id(12),
        assistant_event_id: id(13),
        content_index: 1,
        origin: CallOrigin::Model,
        tool_name: "write".to_owned(),
        arguments: json!({ "big": u64::MAX, "content": "//!\n", "mode": 0.1, "none": null, "path": "src/lib.rs" }),
        coercions: vec!["`mode` was a text".to_owned()],
        turn_settings: TurnSettings {
            rule_set_id: "supervised".to_owned(),
            mode: Mode::Coding,
            working_directory: Some("/srv/site".into()),
            definition_digest: Some(Digest::of("definition")),
        },
        state,
        supervision: Some(evidence().into()),
        interaction: None,
        resolution: None,
        claim: None,
        cancel_requested: false,
        updated_at: at(3),
    }
}

fn calls(fixtures: &mut Fixtures) {
    let supervising = ToolCall {
        provider_call_id: None,
        origin: CallOrigin::User,
        coercions: Vec::new(),
        turn_settings: TurnSettings {
            rule_set_id: "planning".to_owned(),
            mode: Mode::Planning,
            working_directory: None,
            definition_digest: None,
        },
        supervision: None,
        ..call(CallState::Supervising)
    };
    let approval = InteractionKind::Approval { suggested: vec![suggestion()], rememberable: true };
    let awaiting_approval = ToolCall {
        interaction: Some(interaction_of(fixtures, approval)),
        ..call(CallState::AwaitingApproval)
    };
    let remember = Some(Remember::conversation(0));
    let approved = Resolution::Approve { digest: Digest::of("shown"), remember };
    let ready = ToolCall { resolution: Some(resolved(fixtures, approved)), ..call(CallState::Ready) };
    let process = ProcessRef::new("build-7", "3f0c", 4711, 4711, 123_456);
    let running = ToolCall {
        claim: Some(Claim { attempt: 2, incarnation: id(51), process: Some(process) }),
        cancel_requested: true,
        ..call(CallState::Running)
    };
    let asked = interaction_of(fixtures, question());
    let answer = resolved(fixtures, Resolution::Answer { text: "8080".to_owned() });
    let awaiting_input =
        ToolCall { interaction: Some(asked), resolution: Some(answer), ..call(CallState::AwaitingInput) };
    for value in [
        Remembered::Pending { rule: Box::new(suggestion()) },
        Remembered::Saved { rule: "grant-1".to_owned() },
        Remembered::Failed { problem: "the document is malformed".to_owned() },
    ] {
        self::remembered(fixtures, &value);
        let name = match value {
            Remembered::Pending { .. } => "remember_pending",
            Remembered::Saved { .. } => "remember_saved",
            Remembered::Failed { .. } => "remember_failed",
        };
        let how = Remember::new(GrantScope::User, 1).guardrail();
        let resolution = Resolution::Deny { message: None, remember: Some(how) };
        let resolved = Resolved { remembered: Some(value), ..resolved(fixtures, resolution) };
        fixtures.add(name, ToolCall { resolution: Some(resolved), ..call(CallState::AwaitingApproval) });
    }
    let named = [
        ("supervising", supervising),
        ("awaiting_approval", awaiting_approval),
        ("ready", ready),
        ("running", running),
        ("awaiting_input", awaiting_input),
    ];
    for (name, value) in named {
        call_state(fixtures, &value.state);
        mode(fixtures, &value.turn_settings.mode);
        fixtures.add(name, value);
    }
}

fn projects(fixtures: &mut Fixtures) {
    let project = ProjectRecord {
        id: id(3),
        name: "site \"é\"".to_owned(),
        directory: Some("/srv/site".into()),
        created_at: at(0),
        updated_at: at(1),
    };
    fixtures.add("", ProjectRecord { directory: None, ..project.clone() });
    fixtures.add("with_directory", project);
}

fn cores(fixtures: &mut Fixtures) {
    let idle = CoreRow {
        project_id: id(3),
        owner_id: "local".to_owned(),
        parent_conversation_id: None,
        parent_tool_call_id: None,
        head: None,
        open_execution: None,
        usage_own: Usage::new(0, 0),
        status: Status::Idle,
        next_event_sequence: 0,
        chain_hash: CHAIN_START,
        revision: 0,
        created_at: at(0),
        updated_at: at(0),
    };
    for (name, value) in [
        ("idle", Status::Idle),
        ("running", Status::Running),
        ("waiting", Status::Waiting),
        ("paused", Status::Paused),
        ("failed", Status::Failed),
        ("interrupted", Status::Interrupted),
    ] {
        status(fixtures, &value);
        let open = value.is_open();
        let core = if open {
            CoreRow {
                parent_conversation_id: Some(id(2)),
                parent_tool_call_id: Some(id(22)),
                head: Some(EventLink { id: id(13), sequence: 6 }),
                open_execution: Some(OpenExecution {
                    id: id(11),
                    turn_id: id(12),
                    turns: 2,
                    continued: 1,
                    busy_millis: 1_500,
                    tokens: 700,
                    cost_micros: 90,
                    denied: denied(),
                }),
                usage_own: Usage::new(1, 2).cache_read(3).cache_write(4).thinking(5),
                status: value,
                next_event_sequence: 7,
                chain_hash: Digest::of("chain"),
                revision: 9,
                updated_at: at(3),
                ..idle.clone()
            }
        } else {
            CoreRow { status: value, ..idle.clone() }
        };
        fixtures.add(name, core);
    }
}

fn mailboxes(fixtures: &mut Fixtures) {
    fixtures.add("", MailboxRow::default());
    fixtures.add(
        "full",
        MailboxRow {
            paused: true,
            cancel_mark: Some(CancelMark { execution_id: id(11) }),
            held_through: 3,
            last_input_sequence: 4,
            mailbox_sequence: 17,
            next_outcome: 63,
            title: Some("Fix the build".to_owned()),
            automatic_executions: 2,
            last_user_message_at: Some(at(2)),
            usage_children: Usage::new(10, 20),
        },
    );
}

fn configs(fixtures: &mut Fixtures) {
    let config = ConversationConfig::new(ModelSelection::new("demo", "demo"));
    fixtures.add("", config.clone());
    let full = ConversationConfig {
        thinking: ThinkingLevel::Xhigh,
        system_prompt: Some("Be brief.".to_owned()),
        rule_set_id: "autonomous".to_owned(),
        planning_rule_set_id: "planning".to_owned(),
        mode: Mode::Planning,
        working_directory: Some("/srv/site/docs".into()),
        tools: Some(vec!["read".to_owned(), "grep".to_owned()]),
        attendance: Attendance::Unattended,
        limits: Limits {
            turns: 40,
            time: Some(Duration::new(600, 5)),
            tokens: Some(200_000),
            cost_micros: Some(1_000_000),
        },
        ..config.clone()
    };
    for value in [&config, &full] {
        mode(fixtures, &value.mode);
        attendance(fixtures, &value.attendance);
    }
    fixtures.add("full", full);
}

fn small(fixtures: &mut Fixtures) {
    let lease = Lease { opening: None, incarnation: id(51), epoch: 1, expiry: at(30), released: false };
    fixtures.add("", lease);
    fixtures.add("released", Lease { opening: Some(id(52)), epoch: 2, released: true, ..lease });
    fixtures.add("", vec![Todo::new("write the report"), Todo::new("send it").done(true)]);
    fixtures.add(
        "",
        TrustRow {
            name: "permissions".to_owned(),
            revision: 3,
            accepted: vec![Digest::of("{}"), Digest::of("[]")],
            rejected: vec![Digest::of("")],
        },
    );
    fixtures.add("", FileRead { path: "/srv/site/src/lib.rs".to_owned(), digest: Digest::of("content") });
    let entry = IndexEntry { conversation_id: id(1), lead: None, project_id: id(3), first: 5, last: 6 };
    fixtures.add("", entry);
    fixtures.add("of_child", IndexEntry { lead: Some(id(2)), ..entry });
}

fn inputs(fixtures: &mut Fixtures) {
    let prompt = QueuedInput {
        id: id(61),
        conversation_id: id(1),
        acceptance_sequence: 4,
        source: InputSource::User,
        submitter: Principal::local(),
        sender_conversation_id: None,
        text: "What is this?".to_owned(),
        images: vec![image()],
        target: DeliveryTarget::NextTurn,
        wake_when_idle: true,
        accepted_at: at(2),
    };
    let of_lead = QueuedInput {
        source: InputSource::ParentConversation,
        sender_conversation_id: Some(id(2)),
        images: Vec::new(),
        target: DeliveryTarget::Execution { execution_id: id(11) },
        wake_when_idle: false,
        ..prompt.clone()
    };
    let notice = QueuedInput {
        source: InputSource::System,
        submitter: Principal::runtime(),
        target: DeliveryTarget::NextExecution,
        ..of_lead.clone()
    };
    for (name, value) in [("prompt", prompt), ("of_lead", of_lead), ("notice", notice)] {
        source(fixtures, &value.source);
        target(fixtures, &value.target);
        fixtures.add(name, value);
    }
    for value in [
        InputFate::Queued,
        InputFate::Delivered { event_id: id(13) },
        InputFate::Cancelled,
        InputFate::Expired,
    ] {
        fate(fixtures, &value);
        fixtures.add(value.kind(), Fate { fate: value, content: Digest::of("content") });
    }
    for value in [
        CommandOutcome::ProjectCreated { project_id: id(3) },
        CommandOutcome::ConversationCreated { conversation_id: id(1) },
        CommandOutcome::Configured,
        CommandOutcome::TitleSet,
        CommandOutcome::InputAccepted { input_id: id(61), fate: InputFate::Queued },
        CommandOutcome::InputCancelled { input_id: id(61) },
        CommandOutcome::InputNotCancelled {
            input_id: id(61),
            fate: InputFate::Delivered { event_id: id(13) },
        },
        CommandOutcome::Resolved { call_id: id(21) },
        CommandOutcome::Paused,
        CommandOutcome::Resumed,
        CommandOutcome::Stopped { execution_id: id(11) },
        CommandOutcome::NothingToStop,
        CommandOutcome::Continued { execution_id: id(11) },
        CommandOutcome::PolicyTrusted,
        CommandOutcome::PolicyRejected,
        CommandOutcome::RuleRevoked { found: true },
    ] {
        outcome(fixtures, &value);
        let name = value.kind();
        fixtures.add(name, OutcomeRow { command_id: id(71), request: Digest::of("request"), outcome: value });
    }
}

fn event(fixtures: &mut Fixtures, name: &str, payload: EventPayload) {
    self::payload(fixtures, &payload);
    let event = Event {
        id: id(13),
        conversation_id: id(1),
        sequence: 6,
        previous: Some(EventLink { id: id(14), sequence: 4 }),
        turn_id: Some(id(12)),
        input_id: None,
        payload,
        created_at: at(3),
        chain_hash: CHAIN_START,
    };
    fixtures.add(name, event);
}

fn messages(fixtures: &mut Fixtures) {
    let prompt = UserMessageEvent {
        text: "What is this?".to_owned(),
        submitted: Some("!!!what is this?".to_owned()),
        images: vec![image()],
        source: InputSource::User,
        submitter: Principal::local(),
    };
    let first = Event {
        id: id(13),
        conversation_id: id(1),
        sequence: 0,
        previous: None,
        turn_id: None,
        input_id: Some(id(61)),
        payload: EventPayload::UserMessage(prompt.clone()),
        created_at: at(3),
        chain_hash: CHAIN_START,
    };
    fixtures.add("first", first);
    event(fixtures, "user_message", EventPayload::UserMessage(prompt));
    let message = AssistantMessage::new([
        Thinking::new("demo", "Look first.").signature("c2ln").into(),
        Text::new("I look at it.").into(),
        nervekit_harness::ToolCall::new("toolu_01", "read", json!({ "path": "a.png", "scale": 0.5 })).into(),
    ]);
    let message =
        message.usage(Usage::new(1, 2).thinking(3)).from_model("demo", "demo-1").response_id("msg_01");
    event(
        fixtures,
        "assistant_message",
        EventPayload::AssistantMessage(AssistantMessageEvent {
            message: message.into(),
            calls: vec![MessageCall { id: id(21), content_index: 2 }],
            attempt: 1,
        }),
    );
    let response = ToolCallResponse {
        call_id: id(21),
        provider_call_id: Some("toolu_01".to_owned()),
        tool_name: "read".to_owned(),
        arguments: json!({ "path": "a.png" }),
        origin: CallOrigin::Model,
        assistant_event_id: Some(id(13)),
        content_index: Some(2),
        outcome: CallOutcome::Completed,
        agent: "an image".to_owned(),
        user: UserProjection::text("read a.png"),
        supervision: Some(evidence().into()),
        resolution: None,
        dispatch: None,
        complete: Some(id(31)),
        attachments: vec![Attachment::new(AssetFacts::new(id(32), 17, at(0)), AssetCategory::Image, "a.png")],
        attempts: 1,
    };
    let denial = Resolution::Deny { message: Some("not this one".to_owned()), remember: None };
    let denied = Some(resolved(fixtures, denial));
    let cancelled = Some(resolved(fixtures, Resolution::Cancel));
    for (value, resolution) in [
        (CallOutcome::Completed, None),
        (CallOutcome::Failed, None),
        (CallOutcome::Denied, denied),
        (CallOutcome::Cancelled, cancelled),
        (CallOutcome::Indeterminate, None),
    ] {
        call_outcome(fixtures, &value);
        let response = ToolCallResponse { outcome: value, resolution, ..response.clone() };
        let name = format!("tool_call_response_{value}");
        event(fixtures, &name, EventPayload::ToolCallResponse(Box::new(response)));
    }
    let refused = ToolCallResponse {
        outcome: CallOutcome::Denied,
        dispatch: Some(evidence().into()),
        ..response.clone()
    };
    event(fixtures, "tool_call_response_refused", EventPayload::ToolCallResponse(Box::new(refused)));
    let direct = ToolCallResponse {
        provider_call_id: None,
        origin: CallOrigin::User,
        assistant_event_id: None,
        content_index: None,
        supervision: None,
        complete: None,
        attachments: Vec::new(),
        ..response
    };
    event(fixtures, "tool_call_response_direct", EventPayload::ToolCallResponse(Box::new(direct)));
    for (name, kind) in [("stop", InterventionKind::Stop), ("continue", InterventionKind::Continue)] {
        intervention(fixtures, &kind);
        let text = Some("The work was stopped.".to_owned());
        let value = UserIntervention { kind, principal: Principal::automatic("--yes"), text };
        event(fixtures, &format!("user_intervention_{name}"), EventPayload::UserIntervention(value));
    }
    let notification = Notification { text: "The notices wait.".to_owned() };
    event(fixtures, "notification", EventPayload::Notification(notification));
}

fn executions(fixtures: &mut Fixtures) {
    let awaited = Awaited {
        interaction_id: id(41),
        call_id: id(21),
        tool_name: "write".to_owned(),
        kind: "approval".to_owned(),
    };
    let mut states = vec![
        ExecutionState::Started,
        ExecutionState::Waiting { awaited: vec![awaited] },
        ExecutionState::Resumed,
        ExecutionState::Retrying {
            attempt: 1,
            limit: 5,
            delay: Duration::from_millis(1_500),
            error: "overloaded".to_owned(),
        },
        ExecutionState::Completed { denied: denied() },
        ExecutionState::Cancelled,
        ExecutionState::Interrupted,
    ];
    for reason in [
        FailureReason::Provider { kind: ProviderErrorKind::Overloaded, status: Some(529) },
        FailureReason::TurnLimit { limit: 200 },
        FailureReason::TimeLimit { limit: Duration::from_secs(600) },
        FailureReason::TokenLimit { limit: 200_000 },
        FailureReason::CostLimit { limit_micros: 1_000_000 },
        FailureReason::Resources,
        FailureReason::Refused,
    ] {
        failure(fixtures, &reason);
        let message = "it did not work out".to_owned();
        states.push(ExecutionState::Failed { reason, message, denied: denied() });
    }
    for state in states {
        execution(fixtures, &state);
        let name = match &state {
            ExecutionState::Failed { reason, .. } => format!("execution_state_failed_{}", reason.kind()),
            state => format!("execution_state_{}", state.kind()),
        };
        let payload = EventPayload::ExecutionState(ExecutionStateEvent { execution_id: id(11), state });
        event(fixtures, &name, payload);
    }
}

fn fixtures() -> Fixtures {
    let mut fixtures = Fixtures::default();
    projects(&mut fixtures);
    cores(&mut fixtures);
    mailboxes(&mut fixtures);
    configs(&mut fixtures);
    small(&mut fixtures);
    calls(&mut fixtures);
    inputs(&mut fixtures);
    messages(&mut fixtures);
    executions(&mut fixtures);
    fixtures
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/v1")
}

#[test]
fn fixtures_are_read_as_what_was_written() {
    for (name, Fixture { bytes, check }) in fixtures().files {
        let path = directory().join(format!("{name}.json"));
        let Ok(stored) = std::fs::read(&path) else {
            panic!("{} is missing; it would hold {}", path.display(), String::from_utf8(bytes).unwrap());
        };
        check(&stored);
        // The newest version is the one that is written: until there is another, not a byte may differ.
        assert_eq!(bytes, stored, "`{name}` is written in another way than before");
    }
}

#[test]
fn every_kind_and_every_variant_has_a_fixture() {
    let fixtures = fixtures();
    let expected: BTreeSet<String> = fixtures.files.keys().map(|name| format!("{name}.json")).collect();
    let found: BTreeSet<String> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, expected);
    for kind in KINDS {
        assert!(expected.iter().any(|name| name.starts_with(kind)), "`{kind}` has no fixture");
    }
    let variants: BTreeSet<_> = VARIANTS.iter().copied().collect();
    assert_eq!(fixtures.variants, variants);
}

#[test]
fn the_hash_of_a_stored_event_stays_the_same() {
    let record = std::fs::read(directory().join("event_first.json")).unwrap();
    let mut event = Event::decode(&record).unwrap();
    encode_event(&mut event, CHAIN_START).unwrap();
    assert_eq!(event.chain_hash.to_string(), FIRST_HASH);
}

/// The chain hash of `event_first.json` as the first event of a conversation.
const FIRST_HASH: &str = "sha256:076cca64eb0a23f85379b101f61b967b73bd6720c40e4422b9dac3ebd0e6ba3a";
