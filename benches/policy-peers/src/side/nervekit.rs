//! nervekit-permissions: documents, a policy, verdicts.

use std::path::Path;
use std::sync::Arc;

use nervekit_permissions::{
    CallOrigin, Decision, EffectiveArguments, Filter, Matcher, Operator, Overlay, PermissionEngine, Policy,
    PolicyBuilder, PolicyDocument, ProposedCall, ResolvedCall, Risk, Roots, Rule, RuleEngine, RuleSet,
    TargetResolver, TargetSelector, ToolDescriptor, ToolKind,
};
use serde_json::json;

use crate::policy::{Call, Effect, Shape, Source};

pub(crate) struct Documents {
    set: RuleSet,
    documents: Vec<PolicyDocument>,
}

pub(crate) fn documents(sources: &[Source]) -> Documents {
    let mut set = RuleSet::new("large");
    set.rules = sources[0].rules.iter().map(rule).collect();
    let documents = sources[1..].iter().map(|source| {
        let mut overlay = Overlay::new("large");
        overlay.rules = source.rules.iter().map(rule).collect();
        PolicyDocument::new().overlay(overlay)
    });
    Documents { set, documents: documents.collect() }
}

impl Documents {
    /// As they lie on the disk.
    pub(crate) fn bytes(&self) -> Vec<Vec<u8>> {
        let documents =
            self.documents.iter().map(|document| serde_json::to_vec(document).expect("plain data"));
        std::iter::once(serde_json::to_vec(&self.set).expect("plain data")).chain(documents).collect()
    }

    pub(crate) fn parse(bytes: &[Vec<u8>]) -> Self {
        use nervekit_permissions::DocumentScope::{Conversation, Project, User};
        let set = RuleSet::parse(&bytes[0]).expect("it was written by us");
        let documents = [User, Project, Conversation].into_iter().zip(&bytes[1..]);
        let documents = documents
            .map(|(scope, bytes)| PolicyDocument::parse(scope, bytes).expect("it was written by us"));
        Self { set, documents: documents.collect() }
    }

    /// The documents of the user, the project and the conversation.
    pub(crate) fn layers(&self) -> [&PolicyDocument; 3] {
        let [user, project, conversation] = &*self.documents else { panic!("three documents") };
        [user, project, conversation]
    }

    pub(crate) fn compile(&self) -> Policy {
        self.compile_with(self.layers()[0])
    }

    /// With another document of the user.
    pub(crate) fn compile_with(&self, user: &PolicyDocument) -> Policy {
        let [_, project, conversation] = self.layers();
        let builder = PolicyBuilder::new(&self.set).user(user).project(project).conversation(conversation);
        builder.build().expect("the documents are valid")
    }

    pub(crate) fn engine(&self, project: &Path) -> RuleEngine {
        self.with_rule_set(RuleEngine::new(Roots::new().project(project)))
            .user_document(self.documents[0].clone())
            .project_document(self.documents[1].clone())
    }

    pub(crate) fn with_rule_set(&self, engine: RuleEngine) -> RuleEngine {
        engine.rule_set(self.set.clone())
    }

    /// The calls with the conversation's document, which every call brings along.
    pub(crate) fn proposed(&self, project: &Path, calls: &[Call]) -> Vec<ProposedCall> {
        let conversation = Arc::new(self.documents[2].clone());
        let calls = calls.iter().map(|call| propose(project, call));
        calls.map(|call| call.conversation_document(Arc::clone(&conversation))).collect()
    }
}

fn rule(rule: &crate::policy::Rule) -> Rule {
    let effect = match rule.effect {
        Effect::Allow => Decision::Allow,
        Effect::Prompt => Decision::Prompt,
        Effect::Deny => Decision::Deny,
    };
    let targets = |filter: Filter, matcher: Matcher| match rule.effect {
        Effect::Allow => filter.every_target(matcher),
        _ => filter.any_target(matcher),
    };
    let when = match &rule.shape {
        Shape::Reads => Filter::new().base_risk(Risk::Read),
        Shape::Files { tool, folder, extensions: [a, b] } => {
            targets(Filter::new().tool(*tool), Matcher::new().pattern(format!("{folder}/**/*.{{{a},{b}}}")))
        }
        Shape::Folder { tool, folder } => targets(Filter::new().tool(*tool), Matcher::new().subtree(folder)),
        Shape::File { tool, file } => targets(Filter::new().tool(tool), Matcher::new().exact(file)),
        Shape::Prefix(words) => Filter::new().tool("bash").command_prefix(words.clone()),
        Shape::Command(begin) => {
            Filter::new().tool("bash").primary_argument(Operator::Glob, format!("{begin}*"))
        }
        Shape::Domain(domain) => {
            targets(Filter::new().tool("fetch"), Matcher::new().pattern(format!("https://*.{domain}/**")))
        }
        Shape::Group(group) => Filter::new().tool_group(group),
        Shape::Tool(tool) => Filter::new().tool(tool),
        Shape::Key { tool, value } => Filter::new().tool(tool).argument("args.key", Operator::Equals, *value),
    };
    Rule::new(&rule.id, effect).priority(rule.priority).when(when)
}

pub(crate) fn propose(project: &Path, call: &Call) -> ProposedCall {
    let (kind, risk) = match call.risk {
        "read" => (ToolKind::Filesystem, Risk::Read),
        "write" => (ToolKind::Filesystem, Risk::Write),
        "network" => (ToolKind::Network, Risk::Network),
        _ if call.tool == "bash" => (ToolKind::Command, Risk::Unknown),
        _ => (ToolKind::Other, Risk::Unknown),
    };
    let mut tool = ToolDescriptor::new(&call.tool, kind, risk).group(&call.group);
    let mut arguments = json!({});
    if !call.path.is_empty() {
        let selector = TargetSelector::path("path");
        tool = tool.target(if risk == Risk::Write { selector.write() } else { selector });
        arguments["path"] = json!(call.path);
    }
    if !call.command.is_empty() {
        tool = tool.primary_argument("command").whole_tool();
        arguments["command"] = json!(call.command);
    }
    if !call.host.is_empty() {
        tool = tool.target(TargetSelector::url("url"));
        arguments["url"] = json!(format!("https://{}/guide", call.host));
    }
    if let Some(key) = call.key {
        arguments["key"] = json!(key);
    }
    let arguments = EffectiveArguments::new(arguments).expect("an object");
    ProposedCall::new(tool, arguments, CallOrigin::Model, "large").working_directory(project)
}

pub(crate) fn resolve(project: &Path, call: &Call) -> ResolvedCall {
    let resolver = TargetResolver::new(Roots::new().project(project));
    resolver.resolve(&propose(project, call)).expect("the call can be resolved")
}

pub(crate) fn decide(policy: &Policy, call: &ResolvedCall) -> bool {
    policy.decide(call).decision() == Decision::Allow
}

pub(crate) fn evaluate(engine: &RuleEngine, call: &ProposedCall) -> bool {
    engine.evaluate(call.clone()).decision() == Decision::Allow
}
