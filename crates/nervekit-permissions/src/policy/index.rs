//! Finding the rules that may be about a call, without looking at the others.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use super::compiled::CompiledRule;
use crate::decision::CallOrigin;
use crate::descriptor::{Risk, ToolKind};
use crate::path::ResolvedCall;

/// One bit for each rule, in their order.
type Bits = Vec<u64>;

/// For each thing that rules ask of a call, the rules that accept it. The candidates are what every one of
/// them accepts, the strongest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    words: usize,
    names: Dimension<String>,
    kinds: Dimension<ToolKind>,
    groups: Dimension<String>,
    risks: Dimension<Risk>,
    origins: Dimension<CallOrigin>,
    /// The first words of `commandPrefix`.
    programs: Dimension<String>,
}

/// With more programs in one command than this, rules about commands are not told apart by the index.
const MAXIMUM_PROGRAMS: usize = 4;

#[derive(Clone, Debug)]
struct Dimension<K> {
    /// The rules that do not ask.
    open: Bits,
    /// The rules that name a key, and those that do not ask.
    by: HashMap<K, Bits>,
}

impl<K> Default for Dimension<K> {
    fn default() -> Self {
        Self { open: Bits::new(), by: HashMap::new() }
    }
}

impl<K: Hash + Eq + Clone> Dimension<K> {
    fn new<'r>(rules: impl Iterator<Item = &'r [K]> + Clone, words: usize) -> Self
    where
        K: 'r,
    {
        let mut open = vec![0; words];
        for (index, keys) in rules.clone().enumerate() {
            if keys.is_empty() {
                set(&mut open, index);
            }
        }
        let mut by: HashMap<K, Bits> = HashMap::new();
        for (index, keys) in rules.enumerate() {
            for key in keys {
                set(by.entry(key.clone()).or_insert_with(|| open.clone()), index);
            }
        }
        Self { open, by }
    }

    fn of<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> &[u64]
    where
        K: Borrow<Q>,
    {
        self.by.get(key).unwrap_or(&self.open)
    }
}

fn set(bits: &mut Bits, index: usize) {
    if let Some(word) = bits.get_mut(index / 64) {
        *word |= 1 << (index % 64);
    }
}

impl Index {
    pub(super) fn new(rules: &[CompiledRule]) -> Self {
        let words = rules.len().div_ceil(64);
        let when = rules.iter().map(|rule| &rule.rule.when);
        Self {
            words,
            names: Dimension::new(when.clone().map(|when| when.tool_names.as_slice()), words),
            kinds: Dimension::new(when.clone().map(|when| when.tool_kinds.as_slice()), words),
            groups: Dimension::new(when.clone().map(|when| when.tool_groups.as_slice()), words),
            risks: Dimension::new(when.clone().map(|when| when.base_risks.as_slice()), words),
            origins: Dimension::new(when.clone().map(|when| when.origins.as_slice()), words),
            programs: Dimension::new(
                when.map(|when| when.command_prefix.get(..1).unwrap_or_default()),
                words,
            ),
        }
    }

    /// The rules that may be about a call, the strongest first. Of a tool in several groups, and of a command
    /// with many programs in it, it is only sure that every matching rule is among them.
    pub(super) fn candidates<'i>(&'i self, call: &ResolvedCall) -> impl Iterator<Item = usize> + use<'i> {
        let groups = match call.descriptor.groups.as_slice() {
            [] => Some(self.groups.open.as_slice()),
            [only] => Some(self.groups.of(only)),
            _ => None,
        };
        let dimensions = [
            self.names.of(&call.descriptor.name),
            self.kinds.of(&call.descriptor.kind),
            self.risks.of(&call.risk),
            self.origins.of(&call.origin),
        ];
        let programs = self.programs_of(call);
        let word = move |at: usize| {
            let bits = |bits: &[u64]| bits.get(at).copied().unwrap_or_default();
            let groups = groups.map_or(u64::MAX, bits);
            let programs =
                programs.map_or(u64::MAX, |known| known.iter().fold(0, |any, some| any | bits(some)));
            dimensions.iter().fold(groups & programs, |all, some| all & bits(some))
        };
        let (mut at, mut left, words) = (0, word(0), self.words);
        std::iter::from_fn(move || {
            while left == 0 {
                at += 1;
                if at >= words {
                    return None;
                }
                left = word(at);
            }
            let bit = left.trailing_zeros();
            left &= left - 1;
            Some(at * 64 + usize::try_from(bit).unwrap_or_default())
        })
    }

    /// For each program in the command, the rules that name it and those that name none; `None` when that
    /// would not tell them apart.
    fn programs_of(&self, call: &ResolvedCall) -> Option<[&[u64]; MAXIMUM_PROGRAMS]> {
        let mut programs = [self.programs.open.as_slice(); MAXIMUM_PROGRAMS];
        let Some(command) = &call.command else { return Some(programs) };
        if command.exhausted || command.inner.len() > MAXIMUM_PROGRAMS {
            return None;
        }
        for (slot, words) in programs.iter_mut().zip(&command.inner) {
            *slot = self.programs.of(words.first().map_or("", String::as_str));
        }
        Some(programs)
    }
}
