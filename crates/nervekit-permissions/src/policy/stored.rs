//! A policy as bytes: what its digest is of, and what explains a call when the documents are gone.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Policy;
use super::active::ActiveRule;
use super::compiled::CompiledRule;
use crate::document::SCHEMA_VERSION;
use crate::error::{DocumentError, DocumentProblem};
use crate::evidence::RuleEvidence;

/// The fields stand in this order, and maps in the rules are sorted: a policy has one text.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'p> {
    schema_version: u32,
    rule_set: &'p str,
    rules: &'p [ActiveRule],
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    rule_set: String,
    rules: Vec<RuleEvidence>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    schema_version: u32,
}

/// Writes the rules of a policy, the strongest first.
pub(super) fn written(rule_set: &str, rules: &[ActiveRule]) -> Vec<u8> {
    // Rules are plain data; turning them into text does not fail.
    serde_json::to_vec(&Written { schema_version: SCHEMA_VERSION, rule_set, rules }).unwrap_or_default()
}

impl Policy {
    /// Returns the bytes whose SHA-256 is the [`digest`](Self::digest): the rules in force as JSON, with their
    /// origin and the strongest first. They are written when they are asked for; a host stores them once for
    /// each digest.
    ///
    /// ```
    /// use nervekit_permissions::{Decision, Policy, PolicyBuilder, Rule, RuleSet};
    /// use nervekit_types::Digest;
    /// let set = RuleSet::new("careful").rule(Rule::new("rest", Decision::Deny));
    /// let policy = PolicyBuilder::new(&set).build()?;
    /// let bytes = policy.to_bytes();
    /// assert_eq!(Digest::of(&bytes), policy.digest());
    /// assert_eq!(Policy::from_bytes(&bytes)?.rules(), policy.rules());
    /// # Ok::<(), nervekit_permissions::DocumentError>(())
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        written(&self.rule_set, &self.rules)
    }

    /// Puts a policy together from its [bytes](Self::to_bytes). It explains a call with the evidence that it gave
    /// then, byte for byte.
    ///
    /// The bytes are compared with what the policy writes, so that its digest is theirs: what another version of
    /// the format wrote, or anybody else, is refused. Whether they are the bytes of some evidence is for the
    /// caller to see, by the digest.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DocumentError> {
        let version: Version = serde_json::from_slice(bytes).map_err(DocumentProblem::from)?;
        if version.schema_version != SCHEMA_VERSION {
            let what = format!(
                "the policy is of schema version {}; this program reads {SCHEMA_VERSION}",
                version.schema_version
            );
            return Err(DocumentProblem::new(what).into());
        }
        let read: Read = serde_json::from_slice(bytes).map_err(DocumentProblem::from)?;
        let mut rules = Vec::with_capacity(read.rules.len());
        for RuleEvidence { rule, source, rule_set_id, .. } in &read.rules {
            let compiled =
                CompiledRule::compile(rule).map_err(|what| DocumentProblem::new(what).rule(&rule.id))?;
            rules.push(ActiveRule::new(Arc::new(compiled), *source, rule_set_id.as_str().into()));
        }
        let policy = Self::new(&read.rule_set, rules);
        if policy.to_bytes() != bytes {
            let what = "these are not the bytes of a policy: written again they differ";
            return Err(DocumentProblem::new(what).into());
        }
        Ok(policy)
    }
}
