//! What a tool round costs in nervekit and in two other agent crates: see README.md beside this crate.

mod disk;
mod report;
mod sample;
mod side;

use std::time::Duration;

use anyhow::Result;
use disk::Folder;
use report::{Figures, Ratio};
use sample::Sample;
use side::Side;

/// How many rounds a conversation has, and how many conversations each side holds.
const COURSES: [(u32, usize); 2] = [(20, 31), (200, 5)];

/// Between two samples. Stores tidy up when they are idle: nervekit's does after a quarter of a second, with a few
/// syncs, which must not fall into another side's sample.
const PAUSE: Duration = Duration::from_millis(500);

fn main() -> Result<()> {
    // One thread for what runs on tokio, for all; the stores have threads of their own.
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(run())
}

async fn run() -> Result<()> {
    // Names of sides, to measure these only: `strace` is clearer then.
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let folder = Folder::create()?;
    println!("{folder}");
    let mut sides = side::all(folder.path()).await?;
    if !chosen.is_empty() {
        sides.retain(|side| chosen.iter().any(|name| name == side.name()));
        anyhow::ensure!(!sides.is_empty(), "no side is named {chosen:?}");
    }
    for (rounds, turns) in COURSES {
        let figures = course(&sides, &folder, rounds, turns).await?;
        println!("\n{rounds} rounds, {turns} conversations a side, for one round:\n\n{figures}");
        for [slow, fast] in side::COMPARED {
            if let Some(ratio) = Ratio::between(&figures, slow, fast) {
                println!("{ratio}");
            }
        }
    }
    Ok(())
}

/// Every side holds one conversation after the other, so that what else the machine does falls upon all.
async fn course(sides: &[Box<dyn Side>], folder: &Folder, rounds: u32, turns: usize) -> Result<Figures> {
    let mut figures = Figures::new(sides.iter().map(|side| side.name()));
    for side in sides {
        // What is not measured: files are grown, caches filled.
        side.converse(rounds.min(20)).await?;
        tokio::time::sleep(PAUSE).await;
    }
    for _ in 0..turns {
        for side in sides {
            let sample = Sample::take(rounds, side.converse(rounds)).await?;
            figures.add(side.name(), sample);
            tokio::time::sleep(PAUSE).await;
        }
        figures.add_sync(folder.sync()?);
    }
    Ok(figures)
}
