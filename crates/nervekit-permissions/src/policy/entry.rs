//! Which entries of a searched tree may be opened.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::Policy;
use super::compiled::is_search;
use crate::canonical::{CanonicalSubject, CanonicalTarget, PathTarget};
use crate::decision::Decision;
use crate::path::ResolvedCall;
use crate::target::TargetScope;

/// Decides, for every entry of a searched tree and before it is opened, whether the search may see it.
///
/// A deny that reaches only a part of a tree does not refuse the search; it withholds that part. So does the
/// protection of credential stores. Who searches says how many entries were withheld, and gives no hint of them.
///
/// ```
/// use nervekit_permissions::*;
/// let folder = tempfile::tempdir()?;
/// let grep = ToolDescriptor::new("grep", ToolKind::Filesystem, Risk::Read)
///     .target(TargetSelector::path("path").tree().or_working_directory());
/// let call = ProposedCall::new(grep, EffectiveArguments::parse("{}")?, CallOrigin::Model, "supervised")
///     .working_directory(folder.path());
/// let no_env = Rule::new("no-env", Decision::Deny).when(Filter::new().any_target(Matcher::new().pattern("**/.env*")));
/// let engine = RuleEngine::new(Roots::new().project(folder.path()))
///     .user_document(PolicyDocument::new().guardrail(no_env));
/// let evaluation = engine.evaluate(call);
/// assert_eq!(evaluation.decision(), Decision::Allow);
/// let filter = evaluation.targets[0].entries.as_ref().unwrap();
/// assert!(filter.allows("src/main.rs") && !filter.allows("src/.env.local") && !filter.allows(".ssh/id"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct EntryFilter(Arc<Inner>);

struct Inner {
    call: ResolvedCall,
    tree: PathTarget,
    argument: Option<String>,
    primary: bool,
    /// Each must let an entry through.
    sieves: Vec<Sieve>,
    withholding: Vec<String>,
}

/// What one policy says about entries.
struct Sieve {
    policy: Arc<Policy>,
    /// The rules that match the call but for its targets, the strongest first.
    rules: Vec<usize>,
}

impl EntryFilter {
    /// Makes the filter of a target under all these policies; `None` when the target is no searched tree.
    pub(crate) fn new(policies: &[Arc<Policy>], call: &ResolvedCall, index: usize) -> Option<Self> {
        let target = call.targets.get(index).filter(|target| is_search(target))?;
        let mut sieves = Vec::new();
        let mut withholding: Vec<String> = Vec::new();
        for policy in policies {
            let matching: Vec<usize> = policy
                .index
                .candidates(call)
                .filter(|at| policy.rules.get(*at).is_some_and(|rule| rule.matches_call(call)))
                .collect();
            let denies = matching.iter().filter_map(|at| policy.rules.get(*at));
            let denies: Vec<&str> =
                denies.filter(|rule| rule.withholds(call, index)).map(|rule| &*rule.rule.id).collect();
            if denies.is_empty() {
                continue;
            }
            for id in denies {
                if !withholding.iter().any(|known| known == id) {
                    withholding.push(id.to_owned());
                }
            }
            sieves.push(Sieve { policy: Arc::clone(policy), rules: matching });
        }
        Some(Self(Arc::new(Inner {
            call: call.clone(),
            tree: target.path()?.clone(),
            argument: target.argument().map(str::to_owned),
            primary: index == 0,
            sieves,
            withholding,
        })))
    }

    /// Returns whether an entry may be seen, by its path below the tree.
    ///
    /// A name that is not UTF-8 cannot be compared with rules; while any rule withholds, it is withheld too.
    #[must_use]
    pub fn allows(&self, relative: impl AsRef<Path>) -> bool {
        let inner = &*self.0;
        let Some(relative) = relative.as_ref().to_str() else { return inner.sieves.is_empty() };
        let entry = PathTarget {
            scope: TargetScope::Exact,
            resolved: inner.tree.resolved.child(relative, &inner.tree.contains),
            lexical: inner.tree.lexical.child(relative, &inner.tree.contains),
            contains: Vec::new(),
            content: None,
            ..inner.tree.clone()
        };
        // A tree that itself is protected was asked about as a whole.
        let protected = inner.tree.marks.is_empty()
            && [&entry.resolved, &entry.lexical].iter().any(|form| inner.call.marks.is_protected(form));
        if protected {
            return false;
        }
        let entry = CanonicalTarget::new(inner.argument.clone(), CanonicalSubject::Path(entry));
        inner.sieves.iter().all(|sieve| {
            let rules = sieve.rules.iter().filter_map(|at| sieve.policy.rules.get(*at));
            let winner = { rules }.find(|rule| rule.matches_entry(&entry, inner.primary, false));
            winner.is_none_or(|rule| rule.rule.decision != Decision::Deny)
        })
    }

    /// Returns the ids of the rules that withhold a part of the tree.
    #[must_use]
    pub fn withholding(&self) -> &[String] {
        &self.0.withholding
    }
}

impl fmt::Debug for EntryFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryFilter")
            .field("tree", &self.0.tree.display())
            .field("withholding", &self.0.withholding)
            .finish()
    }
}
