//! Finding the rules that may be about a call, without looking at the others.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use super::active::ActiveRule;
use super::compiled::{MAXIMUM_VALUE, visit};
use crate::decision::CallOrigin;
use crate::descriptor::{Risk, ToolKind};
use crate::path::ResolvedCall;

/// One bit for each rule, in their order.
type Bits = Vec<u64>;

/// For each thing that rules ask of a call, the rules that accept it. The candidates are what every one of
/// them accepts, the strongest first.
#[derive(Clone, Debug)]
pub(super) struct Index {
    words: usize,
    names: Dimension<String>,
    kinds: Dimension<ToolKind>,
    groups: Dimension<String>,
    risks: Dimension<Risk>,
    origins: Dimension<CallOrigin>,
    /// The first words of `commandPrefix`.
    programs: Dimension<String>,
    /// What a primary argument must begin with.
    beginnings: Beginnings,
}

/// The rules by what some primary argument must begin with; without it they do not match.
#[derive(Clone, Debug, Default)]
struct Beginnings {
    by: Dimension<String>,
    /// The lengths of the beginnings, each once.
    lengths: Vec<usize>,
}

/// Beginnings are told apart by this many bytes.
const MAXIMUM_BEGINNING: usize = 32;
/// With more texts or more beginnings that fit, rules are not told apart by them.
const MAXIMUM_FITTING: usize = 8;

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
                match by.get_mut(key) {
                    Some(bits) => set(bits, index),
                    None => set(by.entry(key.clone()).or_insert(open.clone()), index),
                }
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
    pub(super) fn new(rules: &[ActiveRule]) -> Self {
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
            beginnings: Beginnings::new(rules, words),
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
        let beginnings = self.beginnings.of(call);
        let word = move |at: usize| {
            let bits = |bits: &[u64]| bits.get(at).copied().unwrap_or_default();
            let groups = groups.map_or(u64::MAX, bits);
            let programs =
                programs.map_or(u64::MAX, |known| known.iter().fold(0, |any, some| any | bits(some)));
            let beginnings =
                beginnings.map_or(u64::MAX, |known| known.iter().fold(0, |any, some| any | bits(some)));
            dimensions.iter().fold(groups & programs & beginnings, |all, some| all & bits(some))
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

impl Beginnings {
    fn new(rules: &[ActiveRule], words: usize) -> Self {
        let known: Vec<Vec<String>> = rules.iter().map(|rule| rule.beginnings(MAXIMUM_BEGINNING)).collect();
        let mut lengths: Vec<usize> = known.iter().flatten().map(String::len).collect();
        lengths.sort_unstable();
        lengths.dedup();
        Self { by: Dimension::new(known.iter().map(Vec::as_slice), words), lengths }
    }

    /// For each beginning of a text that a condition may look at, the rules that ask for it and those that ask
    /// for none; `None` when that would not tell them apart.
    fn of(&self, call: &ResolvedCall) -> Option<[&[u64]; MAXIMUM_FITTING]> {
        let mut fitting = [self.by.open.as_slice(); MAXIMUM_FITTING];
        if call.command.as_ref().is_some_and(|command| command.exhausted) {
            return None;
        }
        if self.lengths.is_empty() {
            return Some(fitting);
        }
        let mut slots = fitting.iter_mut();
        let mut told_apart = true;
        looked_at(call, &mut |text| {
            // Each rule that restricts matches what is too long to be read.
            told_apart &= text.len() <= MAXIMUM_VALUE;
            for beginning in self.lengths.iter().filter_map(|length| text.get(..*length)) {
                if let Some(bits) = self.by.by.get(beginning) {
                    match slots.next() {
                        Some(slot) => *slot = bits,
                        None => told_apart = false,
                    }
                }
            }
        });
        told_apart.then_some(fitting)
    }
}

/// Calls back with every text that a condition on primary arguments may look at.
fn looked_at(call: &ResolvedCall, found: &mut dyn FnMut(&str)) {
    for name in &call.descriptor.primary_arguments {
        visit(call.arguments.as_value(), name.split('.'), &mut |value| {
            if let Some(text) = value.as_str() {
                found(text);
            }
        });
    }
    if let Some(command) = &call.command {
        command.texts.iter().for_each(|text| found(text));
    }
}
