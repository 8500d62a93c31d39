//! A bounded cache.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// Keeps so many values; in place of one more goes the one that was not asked for the longest.
pub(super) struct Recent<K, V> {
    most: usize,
    /// How often it was asked.
    now: u64,
    /// With the time at which each was asked for last.
    kept: HashMap<K, (u64, V)>,
}

impl<K: Hash + Eq + Clone, V: Clone> Recent<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, now: 0, kept: HashMap::new() }
    }

    pub(super) fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.now += 1;
        let (asked, value) = self.kept.get_mut(key)?;
        *asked = self.now;
        Some(value.clone())
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.kept.len() >= self.most && !self.kept.contains_key(&key) {
            let oldest = self.kept.iter().min_by_key(|(_, (asked, _))| *asked);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.kept.remove(&oldest);
            }
        }
        self.now += 1;
        self.kept.insert(key, (self.now, value));
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn what_was_not_asked_for_the_longest_goes() {
        let mut recent = Recent::new(2);
        recent.insert("a", 1);
        recent.insert("b", 2);
        assert_eq!(recent.get("a"), Some(1));
        recent.insert("c", 3);
        assert_eq!((recent.get("a"), recent.get("b"), recent.get("c")), (Some(1), None, Some(3)));
        // One that is known takes no other's place.
        recent.insert("a", 4);
        assert_eq!((recent.get("a"), recent.get("c")), (Some(4), Some(3)));
    }
}
