//! An engine for tests that have nothing to do with permissions.

use nervekit_types::Digest;

use crate::call::ProposedCall;
use crate::decision::Decision;
use crate::engine::{DecidedTarget, Evaluation, PermissionEngine, RuleQuery};
use crate::error::GrantError;
use crate::evidence::{Evidence, RuleEvidence};
use crate::grant::{DocumentChange, Grant};
use crate::path::TargetResolver;
use crate::root::Roots;

/// Allows every call whose targets can be resolved. Never use it where a model's calls are executed.
///
/// ```
/// use nervekit_permissions::testing::AllowEverything;
/// use nervekit_permissions::{CallOrigin, Decision, EffectiveArguments, PermissionEngine, ProposedCall, Risk, ToolDescriptor, ToolKind};
/// let tool = ToolDescriptor::new("anything", ToolKind::Other, Risk::Destructive);
/// let call = ProposedCall::new(tool, EffectiveArguments::parse("{}")?, CallOrigin::Model, "supervised");
/// assert_eq!(AllowEverything::default().evaluate(call).decision(), Decision::Allow);
/// # Ok::<(), nervekit_permissions::ArgumentsError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AllowEverything {
    resolver: TargetResolver,
}

impl AllowEverything {
    /// Resolves targets against these roots.
    #[must_use]
    pub fn new(roots: Roots) -> Self {
        Self { resolver: TargetResolver::new(roots) }
    }
}

impl PermissionEngine for AllowEverything {
    fn evaluate(&self, call: ProposedCall) -> Evaluation {
        let policy = Digest::of("everything is allowed");
        let evidence = |decision, reason: String| {
            let (risk, digest) = (call.descriptor.base_risk, call.arguments.digest());
            Evidence::new(decision, reason, risk, digest, &*call.rule_set, policy)
                .tool(&*call.descriptor.name)
        };
        match self.resolver.resolve(&call) {
            Ok(resolved) => {
                let means = resolved.targets.iter().zip(&resolved.means);
                let targets = means
                    .map(|(target, means)| {
                        let mut decided = DecidedTarget::new(target.clone());
                        decided.path.clone_from(&means.path);
                        decided.url.clone_from(&means.url);
                        decided.content.clone_from(&means.content);
                        decided
                    })
                    .collect();
                let evidence = evidence(Decision::Allow, "this engine allows everything".to_owned());
                Evaluation::new(evidence.targets(resolved.targets.clone())).targets(targets)
            }
            Err(error) => Evaluation::new(evidence(Decision::Deny, error.to_string())),
        }
    }

    fn plan_grant(&self, _grant: Grant) -> Result<DocumentChange, GrantError> {
        Ok(DocumentChange::Nothing)
    }

    fn rules(&self, _query: RuleQuery) -> Vec<RuleEvidence> {
        Vec::new()
    }
}
