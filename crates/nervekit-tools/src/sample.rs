//! What several tests need.

use std::fmt::Write as _;

/// A small generator (`splitmix64`; Steele, Lea, Flood 2014) whose seed is printed when a test fails.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = now.as_secs() << 30 | u64::from(now.subsec_nanos());
        println!("seed: {seed}");
        Self(seed)
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) >> 1).unwrap() % bound
    }

    /// One of some things.
    pub(crate) fn one_of<'a, T: ?Sized>(&mut self, things: &[&'a T]) -> &'a T {
        things[self.below(things.len())]
    }
}

/// Lines with their numbers: `name 1`, `name 2`, …
pub(crate) fn numbered(name: &str, count: usize) -> String {
    (1..=count).fold(String::new(), |mut text, number| {
        writeln!(text, "{name} {number}").unwrap();
        text
    })
}
