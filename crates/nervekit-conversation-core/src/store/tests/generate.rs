//! Random values of everything that is stored, from a seed. Each value is written out field by field, so that a
//! type that gains a field or a variant is met here too.

use std::path::PathBuf;
use std::time::Duration;

use nervekit_harness::{
    AssistantMessage, ContentBlock, ModelSelection, ProviderErrorKind, StopReason, Text, Thinking,
    ThinkingLevel, Usage,
};
use nervekit_permissions::{
    CallOrigin, Decision, Evidence, GrantScope, Mode, Precedence, Risk, Rule, RuleEvidence, RuleSource,
    SuggestedRule, SuggestionKind,
};
use nervekit_tools::{AssetCategory, AssetFacts, Attachment, ProcessRef, UserProjection};
use nervekit_types::testing::SeededEntropy;
use nervekit_types::{Digest, Principal, RawId, Timestamp};
use serde_json::{Map, Number, Value, json};

use crate::command::CommandOutcome;
use crate::conversation::{
    Attendance, CancelMark, ConversationConfig, Lease, Limits, OpenExecution, ProjectRecord, Status, Todo,
};
use crate::event::{
    AssistantMessageEvent, Awaited, CallOutcome, DeniedCall, Event, EventLink, EventPayload, ExecutionState,
    ExecutionStateEvent, FailureReason, InterventionKind, MessageCall, Notification, ToolCallResponse,
    UserIntervention, UserMessageEvent,
};
use crate::input::{DeliveryTarget, Image, InputFate, InputSource, QueuedInput};
use crate::interaction::{
    Interaction, InteractionKind, Question, Remember, Remembered, Resolution, Resolved,
};
use crate::store::record::{CHAIN_START, IndexEntry};
use crate::store::row::{CoreRow, Fate, FileRead, MailboxRow, OutcomeRow, TrustRow};
use crate::tool_call::{CallState, Claim, ToolCall, TurnSettings};

/// Texts that have tripped up writers and readers of JSON.
const TEXTS: [&str; 12] = [
    "",
    " ",
    "plain words",
    "\"quoted\" \\ and / slashed",
    "line\nbreak\ttab\r",
    "\0 \u{1} \u{1f} \u{7f}",
    "äöü € 漢字 🦀",
    "\u{2028}\u{2029}\u{feff}",
    "\u{202e}gnirts",
    "}}]]\"{[[",
    "null",
    "{\"v\":2,\"event\":{}}",
];

/// Throws values.
#[derive(Debug)]
pub(in crate::store) struct Dice(SeededEntropy);

impl Dice {
    pub(in crate::store) fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    pub(in crate::store) fn number(&mut self) -> u64 {
        match self.0.next_u64() % 4 {
            0 => self.0.next_u64() % 3,
            1 => u64::MAX - self.0.next_u64() % 2,
            _ => self.0.next_u64(),
        }
    }

    pub(in crate::store) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    pub(in crate::store) fn bool(&mut self) -> bool {
        self.below(2) == 0
    }

    pub(in crate::store) fn raw(&mut self) -> RawId {
        let high = u128::from(self.0.next_u64());
        RawId::from_u128(high << 64 | u128::from(self.0.next_u64()))
    }

    pub(in crate::store) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        let at = self.below(of.len() as u64);
        of[usize::try_from(at).unwrap()].clone()
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.bool().then(|| value(self))
    }

    fn list<T>(&mut self, most: u64, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| value(self)).collect()
    }

    fn small(&mut self) -> u32 {
        u32::try_from(self.number() & u64::from(u32::MAX)).unwrap()
    }

    pub(in crate::store) fn text(&mut self) -> String {
        let parts = self.list(3, |dice| dice.pick(&TEXTS));
        parts.concat()
    }

    pub(in crate::store) fn digest(&mut self) -> Digest {
        Digest::of(self.raw().to_bytes())
    }

    pub(in crate::store) fn moment(&mut self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.below(253_402_207_200_001)).unwrap())
    }

    fn path(&mut self) -> PathBuf {
        PathBuf::from(format!("/{}", self.text()))
    }

    fn span(&mut self) -> Duration {
        Duration::new(self.number(), u32::try_from(self.below(1_000_000_000)).unwrap())
    }

    fn principal(&mut self) -> Principal {
        match self.below(4) {
            0 => Principal::local(),
            1 => Principal::person(self.text()),
            2 => Principal::automatic(self.text()),
            _ => Principal::runtime(),
        }
    }

    /// JSON of any kind, at most this deep.
    pub(in crate::store) fn json(&mut self, depth: u64) -> Value {
        match self.below(if depth == 0 { 6 } else { 8 }) {
            0 => Value::Null,
            1 => Value::Bool(self.bool()),
            2 => self.number().into(),
            3 => i64::from_be_bytes(self.number().to_be_bytes()).into(),
            4 => Number::from_f64(f64::from_bits(self.0.next_u64())).map_or(Value::Null, Value::Number),
            5 => self.text().into(),
            6 => self.list(3, |dice| dice.json(depth - 1)).into(),
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: u64) -> Value {
        self.list(4, |dice| (dice.text(), dice.json(depth))).into_iter().collect::<Map<_, _>>().into()
    }

    fn usage(&mut self) -> Usage {
        let usage = Usage::new(self.number(), self.number()).cache_read(self.number());
        usage.cache_write(self.number()).thinking(self.number())
    }

    pub(in crate::store) fn project(&mut self) -> ProjectRecord {
        ProjectRecord {
            id: self.id(),
            name: self.text(),
            directory: self.maybe(Self::path),
            created_at: self.moment(),
            updated_at: self.moment(),
        }
    }

    pub(in crate::store) fn core(&mut self) -> CoreRow {
        CoreRow {
            project_id: self.id(),
            owner_id: self.text(),
            parent_conversation_id: self.maybe(Self::id),
            parent_tool_call_id: self.maybe(Self::id),
            head: self.maybe(Self::link),
            open_execution: self.maybe(|dice| OpenExecution {
                id: dice.id(),
                turn_id: dice.id(),
                turns: dice.small(),
                continued: dice.small(),
                busy_millis: dice.number(),
                tokens: dice.number(),
                cost_micros: dice.number(),
                denied: dice.denied(),
            }),
            usage_own: self.usage(),
            status: self.pick(&[
                Status::Idle,
                Status::Running,
                Status::Waiting,
                Status::Paused,
                Status::Failed,
                Status::Interrupted,
            ]),
            next_event_sequence: self.number(),
            chain_hash: self.digest(),
            revision: self.number(),
            created_at: self.moment(),
            updated_at: self.moment(),
        }
    }

    pub(in crate::store) fn mailbox(&mut self) -> MailboxRow {
        MailboxRow {
            paused: self.bool(),
            cancel_mark: self.maybe(|dice| CancelMark { execution_id: dice.id() }),
            held_through: self.number(),
            last_input_sequence: self.number(),
            mailbox_sequence: self.number(),
            next_outcome: u8::try_from(self.below(256)).unwrap(),
            title: self.maybe(Self::text),
            automatic_executions: self.small(),
            last_user_message_at: self.maybe(Self::moment),
            usage_children: self.usage(),
        }
    }

    fn mode(&mut self) -> Mode {
        self.pick(&[Mode::Coding, Mode::Planning])
    }

    pub(in crate::store) fn config(&mut self) -> ConversationConfig {
        ConversationConfig {
            model: ModelSelection::new(self.text(), self.text()),
            thinking: self.pick(&ThinkingLevel::ALL),
            system_prompt: self.maybe(Self::text),
            rule_set_id: self.text(),
            planning_rule_set_id: self.text(),
            mode: self.mode(),
            working_directory: self.maybe(Self::path),
            tools: self.maybe(|dice| dice.list(3, Self::text)),
            attendance: self.pick(&[Attendance::Attended, Attendance::Unattended]),
            limits: Limits {
                turns: self.small(),
                time: self.maybe(Self::span),
                tokens: self.maybe(Self::number),
                cost_micros: self.maybe(Self::number),
            },
        }
    }

    pub(in crate::store) fn lease(&mut self) -> Lease {
        Lease {
            opening: self.maybe(Self::id),
            incarnation: self.id(),
            epoch: self.number(),
            expiry: self.moment(),
            released: self.bool(),
        }
    }

    fn image(&mut self) -> Image {
        Image { media_type: self.text(), asset_id: self.id(), digest: self.digest() }
    }

    fn source(&mut self) -> InputSource {
        self.pick(&[InputSource::User, InputSource::ParentConversation, InputSource::System])
    }

    pub(in crate::store) fn input(&mut self) -> QueuedInput {
        QueuedInput {
            id: self.id(),
            conversation_id: self.id(),
            acceptance_sequence: self.number(),
            source: self.source(),
            submitter: self.principal(),
            sender_conversation_id: self.maybe(Self::id),
            text: self.text(),
            images: self.list(2, Self::image),
            target: match self.below(3) {
                0 => DeliveryTarget::NextTurn,
                1 => DeliveryTarget::Execution { execution_id: self.id() },
                _ => DeliveryTarget::NextExecution,
            },
            wake_when_idle: self.bool(),
            accepted_at: self.moment(),
        }
    }

    fn input_fate(&mut self) -> InputFate {
        match self.below(4) {
            0 => InputFate::Queued,
            1 => InputFate::Delivered { event_id: self.id() },
            2 => InputFate::Cancelled,
            _ => InputFate::Expired,
        }
    }

    pub(in crate::store) fn fate(&mut self) -> Fate {
        Fate { fate: self.input_fate(), content: self.digest() }
    }

    pub(in crate::store) fn outcome(&mut self) -> OutcomeRow {
        let outcome = match self.below(16) {
            0 => CommandOutcome::ProjectCreated { project_id: self.id() },
            1 => CommandOutcome::ConversationCreated { conversation_id: self.id() },
            2 => CommandOutcome::Configured,
            3 => CommandOutcome::TitleSet,
            4 => CommandOutcome::InputAccepted { input_id: self.id(), fate: self.input_fate() },
            5 => CommandOutcome::InputCancelled { input_id: self.id() },
            6 => CommandOutcome::InputNotCancelled { input_id: self.id(), fate: self.input_fate() },
            7 => CommandOutcome::Resolved { call_id: self.id() },
            8 => CommandOutcome::Paused,
            9 => CommandOutcome::Resumed,
            10 => CommandOutcome::Stopped { execution_id: self.id() },
            11 => CommandOutcome::NothingToStop,
            12 => CommandOutcome::PolicyTrusted,
            13 => CommandOutcome::PolicyRejected,
            14 => CommandOutcome::RuleRevoked { found: self.bool() },
            _ => CommandOutcome::Continued { execution_id: self.id() },
        };
        OutcomeRow { command_id: self.id(), request: self.digest(), outcome }
    }

    pub(in crate::store) fn todos(&mut self) -> Vec<Todo> {
        self.list(4, |dice| Todo { todo: dice.text(), done: dice.bool() })
    }

    pub(in crate::store) fn file_read(&mut self) -> FileRead {
        FileRead { path: self.text(), digest: self.digest() }
    }

    pub(in crate::store) fn trust(&mut self) -> TrustRow {
        TrustRow {
            name: self.text(),
            revision: self.number(),
            accepted: self.list(3, Self::digest),
            rejected: self.list(3, Self::digest),
        }
    }

    pub(in crate::store) fn index(&mut self) -> IndexEntry {
        IndexEntry {
            conversation_id: self.id(),
            lead: self.maybe(Self::id),
            project_id: self.id(),
            first: self.number(),
            last: self.number(),
        }
    }

    fn origin(&mut self) -> CallOrigin {
        self.pick(&[CallOrigin::Model, CallOrigin::User])
    }

    fn scope(&mut self) -> GrantScope {
        self.pick(&[GrantScope::Once, GrantScope::Conversation, GrantScope::Project, GrantScope::User])
    }

    fn rule(&mut self) -> Rule {
        let rule = Rule::new(self.text(), self.decision()).description(self.text());
        let priority = u16::try_from(self.below(65_536)).unwrap();
        rule.priority(i16::from_be_bytes(priority.to_be_bytes())).enabled(self.bool())
    }

    fn decision(&mut self) -> Decision {
        self.pick(&[Decision::Allow, Decision::Prompt, Decision::Deny])
    }

    fn suggestion(&mut self) -> SuggestedRule {
        let kind = self.pick(&[
            SuggestionKind::Exact,
            SuggestionKind::Subtree,
            SuggestionKind::CommandPrefix,
            SuggestionKind::WholeCall,
        ]);
        let (label, rule) = (self.text(), self.rule());
        SuggestedRule::new(kind, label, rule).scopes(self.list(3, Self::scope))
    }

    fn evidence(&mut self) -> Evidence {
        let (decision, reason, risk) =
            (self.decision(), self.text(), self.pick(&[Risk::Read, Risk::Destructive]));
        let mut evidence = Evidence::new(decision, reason, risk, self.digest(), self.text(), self.digest())
            .tool(self.text())
            .suggestions(self.list(2, Self::suggestion));
        if self.bool() {
            let rule = self.rule();
            let source = self.pick(&[RuleSource::Baseline, RuleSource::User, RuleSource::Mark]);
            let precedence = Precedence::new(rule.enforcement, rule.decision, source, rule.priority);
            evidence = evidence.winner(RuleEvidence::new(rule, source, self.text(), precedence));
        }
        if self.below(8) == 0 {
            evidence.until_confirmed = Some(Box::new(self.evidence()));
        }
        evidence
    }

    fn remember(&mut self) -> Remember {
        let suggestion = usize::try_from(self.below(9)).unwrap();
        Remember { scope: self.scope(), suggestion, guardrail: self.bool() }
    }

    fn remembered(&mut self) -> Remembered {
        match self.below(3) {
            0 => Remembered::Pending { rule: Box::new(self.suggestion()) },
            1 => Remembered::Saved { rule: self.text() },
            _ => Remembered::Failed { problem: self.text() },
        }
    }

    fn resolved(&mut self) -> Resolved {
        let resolution = match self.below(4) {
            0 => Resolution::Approve { digest: self.digest(), remember: self.maybe(Self::remember) },
            1 => Resolution::Deny { message: self.maybe(Self::text), remember: self.maybe(Self::remember) },
            2 => Resolution::Answer { text: self.text() },
            _ => Resolution::Cancel,
        };
        let remembered = self.maybe(Self::remembered);
        let (by, at) = (self.principal(), self.moment());
        Resolved { interaction_id: self.id(), resolution, by, at, remembered }
    }

    fn interaction(&mut self) -> Interaction {
        Interaction {
            id: self.id(),
            conversation_id: self.id(),
            lead: self.maybe(Self::id),
            call_id: self.id(),
            digest: self.digest(),
            tool_name: self.text(),
            arguments: self.json(4),
            targets: self.list(2, Self::text),
            reason: self.text(),
            kind: if self.bool() {
                let suggested = self.list(2, Self::suggestion);
                InteractionKind::Approval { suggested, rememberable: self.bool() }
            } else {
                InteractionKind::Question(Question {
                    question: self.text(),
                    context: self.maybe(Self::text),
                    recommendation: self.maybe(Self::text),
                    options: self.list(3, Self::text),
                })
            },
            opened_at: self.moment(),
        }
    }

    pub(in crate::store) fn call(&mut self) -> ToolCall {
        ToolCall {
            id: self.id(),
            provider_call_id: self.maybe(Self::text),
            conversation_id: self.id(),
            execution_id: self.id(),
            turn_id: self.id(),
            assistant_event_id: self.id(),
            content_index: self.small(),
            origin: self.origin(),
            tool_name: self.text(),
            arguments: self.json(5),
            coercions: self.list(2, Self::text),
            turn_settings: TurnSettings {
                rule_set_id: self.text(),
                mode: self.mode(),
                working_directory: self.maybe(Self::path),
                definition_digest: self.maybe(Self::digest),
            },
            state: self.pick(&[
                CallState::Supervising,
                CallState::AwaitingApproval,
                CallState::Ready,
                CallState::Running,
                CallState::AwaitingInput,
            ]),
            supervision: self.maybe(Self::evidence).map(Into::into),
            interaction: self.maybe(Self::interaction),
            resolution: self.maybe(Self::resolved),
            claim: self.maybe(|dice| Claim {
                attempt: dice.small(),
                incarnation: dice.id(),
                process: dice.maybe(|dice| {
                    ProcessRef::new(dice.text(), dice.text(), dice.small(), dice.small(), dice.number())
                }),
            }),
            cancel_requested: self.bool(),
            updated_at: self.moment(),
        }
    }

    fn link(&mut self) -> EventLink {
        EventLink { id: self.id(), sequence: self.number() }
    }

    fn message(&mut self) -> AssistantMessage {
        let content = self.list(3, |dice| -> ContentBlock {
            match dice.below(3) {
                0 => Text::new(dice.text()).into(),
                1 => Thinking::new(dice.text(), dice.text()).signature(dice.text()).into(),
                _ => nervekit_harness::ToolCall::new(dice.text(), dice.text(), dice.object(5)).into(),
            }
        });
        let reason = self.pick(&[
            StopReason::EndTurn,
            StopReason::ToolUse,
            StopReason::MaxTokens,
            StopReason::StopSequence,
            StopReason::Refusal,
            StopReason::ContentFilter,
            StopReason::Paused,
            StopReason::Other,
        ]);
        let message = AssistantMessage::new(content).stop_reason(reason).usage(self.usage());
        message.from_model(self.text(), self.text()).reported_usage(self.object(2)).response_id(self.text())
    }

    fn projection(&mut self) -> UserProjection {
        if self.bool() { UserProjection::text(self.text()) } else { UserProjection::diff(self.text(), 1, 2) }
    }

    fn attachment(&mut self) -> Attachment {
        let facts = AssetFacts::new(self.id(), self.number(), self.moment());
        Attachment::new(facts, self.pick(&[AssetCategory::Payload, AssetCategory::Image]), self.text())
    }

    fn denied(&mut self) -> Vec<DeniedCall> {
        self.list(2, |dice| DeniedCall { call_id: dice.id(), tool_name: dice.text(), reason: dice.text() })
    }

    fn failure(&mut self) -> FailureReason {
        match self.below(7) {
            0 => FailureReason::Provider {
                kind: self.pick(&[
                    ProviderErrorKind::Authentication,
                    ProviderErrorKind::RateLimited,
                    ProviderErrorKind::Protocol,
                ]),
                status: self.maybe(|dice| u16::try_from(dice.below(600)).unwrap()),
            },
            1 => FailureReason::TurnLimit { limit: self.small() },
            2 => FailureReason::TimeLimit { limit: self.span() },
            3 => FailureReason::TokenLimit { limit: self.number() },
            4 => FailureReason::CostLimit { limit_micros: self.number() },
            5 => FailureReason::Resources,
            _ => FailureReason::Refused,
        }
    }

    fn execution_state(&mut self) -> ExecutionState {
        match self.below(8) {
            0 => ExecutionState::Started,
            1 => ExecutionState::Waiting {
                awaited: self.list(2, |dice| Awaited {
                    interaction_id: dice.id(),
                    call_id: dice.id(),
                    tool_name: dice.text(),
                    kind: dice.text(),
                }),
            },
            2 => ExecutionState::Resumed,
            3 => ExecutionState::Retrying {
                attempt: self.small(),
                limit: self.small(),
                delay: self.span(),
                error: self.text(),
            },
            4 => ExecutionState::Completed { denied: self.denied() },
            5 => {
                ExecutionState::Failed { reason: self.failure(), message: self.text(), denied: self.denied() }
            }
            6 => ExecutionState::Cancelled,
            _ => ExecutionState::Interrupted,
        }
    }

    pub(in crate::store) fn payload(&mut self) -> EventPayload {
        match self.below(6) {
            0 => EventPayload::UserMessage(UserMessageEvent {
                text: self.text(),
                submitted: self.maybe(Self::text),
                images: self.list(2, Self::image),
                source: self.source(),
                submitter: self.principal(),
            }),
            1 => EventPayload::AssistantMessage(AssistantMessageEvent {
                message: self.message().into(),
                calls: self.list(2, |dice| MessageCall { id: dice.id(), content_index: dice.small() }),
                attempt: self.small(),
            }),
            2 => EventPayload::ToolCallResponse(Box::new(ToolCallResponse {
                call_id: self.id(),
                provider_call_id: self.maybe(Self::text),
                tool_name: self.text(),
                arguments: self.json(5),
                origin: self.origin(),
                assistant_event_id: self.maybe(Self::id),
                content_index: self.maybe(Self::small),
                outcome: self.pick(&[
                    CallOutcome::Completed,
                    CallOutcome::Failed,
                    CallOutcome::Denied,
                    CallOutcome::Cancelled,
                    CallOutcome::Indeterminate,
                ]),
                agent: self.text(),
                user: self.projection(),
                supervision: self.maybe(Self::evidence).map(Into::into),
                resolution: self.maybe(Self::resolved),
                dispatch: self.maybe(Self::evidence).map(Into::into),
                complete: self.maybe(Self::id),
                attachments: self.list(2, Self::attachment),
                attempts: self.small(),
            })),
            3 => EventPayload::UserIntervention(UserIntervention {
                kind: self.pick(&[InterventionKind::Stop, InterventionKind::Continue]),
                principal: self.principal(),
                text: self.maybe(Self::text),
            }),
            4 => EventPayload::Notification(Notification { text: self.text() }),
            _ => EventPayload::ExecutionState(ExecutionStateEvent {
                execution_id: self.id(),
                state: self.execution_state(),
            }),
        }
    }

    pub(in crate::store) fn event(&mut self) -> Event {
        Event {
            id: self.id(),
            conversation_id: self.id(),
            sequence: self.number(),
            previous: self.maybe(Self::link),
            turn_id: self.maybe(Self::id),
            input_id: self.maybe(Self::id),
            payload: self.payload(),
            created_at: self.moment(),
            chain_hash: CHAIN_START,
        }
    }

    /// JSON that is nested exactly this deep.
    pub(in crate::store) fn nested(levels: usize) -> Value {
        (0..levels).fold(
            json!(1),
            |inner, level| if level % 2 == 0 { json!([inner]) } else { json!({ "a": inner }) },
        )
    }

    /// An id of any type.
    pub(in crate::store) fn id<T: AnyId>(&mut self) -> T {
        T::of(self.raw())
    }
}

/// What has the bits of an id.
pub(in crate::store) trait AnyId {
    fn of(raw: RawId) -> Self;
}

macro_rules! any_id {
    ($($id:ident),*) => {$(
        impl AnyId for nervekit_types::$id {
            fn of(raw: RawId) -> Self {
                Self::from_raw(raw)
            }
        }
    )*};
}

any_id!(
    AssetId,
    CommandId,
    ConversationId,
    EventId,
    ExecutionId,
    IncarnationId,
    InputId,
    InteractionId,
    OpeningId,
    ProjectId,
    ToolCallId,
    TurnId
);
