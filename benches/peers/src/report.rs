//! The table and the ratios.

use std::fmt;
use std::time::Duration;

use crate::sample::Sample;

/// The samples of all sides, in the order in which they were taken.
#[derive(Debug)]
pub(crate) struct Figures {
    sides: Vec<(&'static str, Vec<Sample>)>,
    syncs: Vec<Duration>,
}

impl Figures {
    pub(crate) fn new(sides: impl IntoIterator<Item = &'static str>) -> Self {
        Self { sides: sides.into_iter().map(|side| (side, Vec::new())).collect(), syncs: Vec::new() }
    }

    pub(crate) fn add(&mut self, side: &str, sample: Sample) {
        if let Some((_, samples)) = self.sides.iter_mut().find(|(name, _)| *name == side) {
            samples.push(sample);
        }
    }

    /// Adds how long the disk took for one sync.
    pub(crate) fn add_sync(&mut self, sync: Duration) {
        self.syncs.push(sync);
    }

    fn walls(&self, side: &str) -> Option<Vec<Duration>> {
        let (_, samples) = self.sides.iter().find(|(name, _)| *name == side)?;
        Some(samples.iter().map(|sample| sample.wall).collect())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "| | median | least | most | on the processor |")?;
        writeln!(out, "| --- | --- | --- | --- | --- |")?;
        for (name, samples) in &self.sides {
            let wall = Spread::of(samples.iter().map(|sample| sample.wall));
            let busy = Spread::of(samples.iter().map(|sample| sample.busy));
            let [median, least, most, busy] = [wall.median, wall.least, wall.most, busy.median].map(micros);
            writeln!(out, "| {name} | {median} | {least} | {most} | {busy} |")?;
        }
        let sync = Spread::of(self.syncs.iter().copied());
        let [median, least, most] = [sync.median, sync.least, sync.most].map(micros);
        writeln!(out, "| one page written and synced, nothing else | {median} | {least} | {most} | |")
    }
}

fn micros(time: Duration) -> String {
    format!("{} µs", time.as_micros())
}

/// How many times as long one side takes as another.
#[derive(Debug)]
pub(crate) struct Ratio {
    slow: &'static str,
    fast: &'static str,
    medians: f64,
    sums: f64,
    least: f64,
    most: f64,
}

impl Ratio {
    /// That of the medians, that of all samples together, and the least and the most of two samples of one turn.
    /// `None` if one of the sides was not measured.
    pub(crate) fn between(figures: &Figures, slow: &'static str, fast: &'static str) -> Option<Self> {
        let (slows, fasts) = (figures.walls(slow)?, figures.walls(fast)?);
        let pairs = || slows.iter().zip(&fasts).map(|(slow, fast)| slow.div_duration_f64(*fast));
        let median = |times: &[Duration]| Spread::of(times.iter().copied()).median;
        let sum = |times: &[Duration]| times.iter().sum::<Duration>();
        Some(Self {
            slow,
            fast,
            medians: median(&slows).div_duration_f64(median(&fasts)),
            sums: sum(&slows).div_duration_f64(sum(&fasts)),
            least: pairs().fold(f64::INFINITY, f64::min),
            most: pairs().fold(0.0, f64::max),
        })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slow, fast, medians, sums, least, most } = self;
        write!(
            out,
            "{slow} : {fast} = {medians:.1} by medians, {sums:.1} by sums, {least:.1} to {most:.1} turn by turn"
        )
    }
}

/// What lies in the middle, and the two ends.
struct Spread {
    median: Duration,
    least: Duration,
    most: Duration,
}

impl Spread {
    /// All are zero if there are no times.
    fn of(times: impl Iterator<Item = Duration>) -> Self {
        let mut times: Vec<_> = times.collect();
        times.sort_unstable();
        let at = |index: usize| times.get(index).copied().unwrap_or_default();
        Self { median: at(times.len() / 2), least: at(0), most: at(times.len().saturating_sub(1)) }
    }
}
