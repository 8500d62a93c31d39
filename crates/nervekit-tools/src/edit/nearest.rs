//! Where a text that was not found nearly occurs.

use std::collections::HashMap;

use super::{Difference, Nearest};
use crate::projection::clip;

/// Beyond this a hint is not worth its time.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// What a character is compared as; `None`: it does not count.
type Reduce = fn(char) -> Option<char>;

/// Finds the place in `text` that is most like `old`.
pub(super) fn nearest(text: &str, old: &str) -> Option<Nearest> {
    if text.len() > MOST_BYTES || old.len() > MOST_BYTES {
        return None;
    }
    let kinds: [(Difference, Reduce); 3] = [
        (Difference::Whitespace, |c| (!c.is_whitespace()).then_some(c)),
        (Difference::Punctuation, |c| Some(plain_punctuation(c))),
        (Difference::Case, |c| Some(c.to_lowercase().next().unwrap_or(c))),
    ];
    let at = kinds.into_iter().find_map(|(difference, reduce)| {
        let wanted: String = old.chars().filter_map(reduce).collect();
        if wanted.trim().is_empty() {
            return None;
        }
        let mut reduced = String::with_capacity(text.len());
        let mut origins = Vec::with_capacity(text.len());
        for (at, character) in text.char_indices() {
            if let Some(character) = reduce(character) {
                origins.resize(origins.len() + character.len_utf8(), at);
                reduced.push(character);
            }
        }
        let found = reduced.find(&wanted)?;
        Some((difference, *origins.get(found)?))
    });
    match at {
        Some((difference, at)) => {
            let line = text.get(..at)?.matches('\n').count() + 1;
            Some(Nearest { line, text: shown(text.lines().nth(line - 1)?), difference })
        }
        None => similar_line(text, old),
    }
}

/// The line that shares most of its letter pairs with the longest searched line (Dice's coefficient), when that
/// is more than half of them.
fn similar_line(text: &str, old: &str) -> Option<Nearest> {
    let (index, wanted) = old.lines().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let wanted = pairs(wanted);
    let total: usize = wanted.values().sum();
    let mut best: Option<(f64, usize, &str)> = None;
    for (at, line) in text.lines().enumerate() {
        // Lines of very different length share little; skipping them keeps long files quick.
        if line.len() > 8 * (total + 4) {
            continue;
        }
        let found = pairs(line);
        let shared: usize =
            found.iter().map(|(pair, count)| (*count).min(wanted.get(pair).copied().unwrap_or(0))).sum();
        #[expect(clippy::cast_precision_loss, reason = "a score; lines are far below 2^52 characters")]
        let score = 2.0 * shared as f64 / (total + found.values().sum::<usize>()).max(1) as f64;
        if score > best.map_or(0.5, |(score, ..)| score) {
            best = Some((score, at, line));
        }
    }
    let (_, at, _) = best?;
    // The hint names the line where the searched text would begin.
    let first = at.saturating_sub(index);
    Some(Nearest { line: first + 1, text: shown(text.lines().nth(first)?), difference: Difference::Other })
}

fn pairs(line: &str) -> HashMap<(char, char), usize> {
    let mut pairs = HashMap::new();
    let characters = line.trim().chars();
    for pair in characters.clone().zip(characters.skip(1)) {
        *pairs.entry(pair).or_insert(0) += 1;
    }
    pairs
}

/// The ASCII form of typographic punctuation (Unicode 16, block "General Punctuation").
fn plain_punctuation(character: char) -> char {
    match character {
        '\u{2018}'..='\u{201b}' | '\u{2032}' | '`' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' | '«' | '»' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        other => other,
    }
}

fn shown(line: &str) -> String {
    clip(&nervekit_permissions::display(line.trim_end()), 200).into_owned()
}
