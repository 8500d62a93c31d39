//! One measured conversation.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

/// What one round took in one conversation, the prompt and the final text included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// On the clock on the wall.
    pub(crate) wall: Duration,
    /// On the processor, all threads of the process together.
    pub(crate) busy: Duration,
}

impl Sample {
    pub(crate) async fn take(rounds: u32, conversation: impl Future<Output = Result<()>>) -> Result<Self> {
        let (started, busy) = (Instant::now(), busy()?);
        conversation.await?;
        Ok(Self { wall: started.elapsed() / rounds, busy: self::busy()?.saturating_sub(busy) / rounds })
    }
}

fn busy() -> Result<Duration> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Ok(Duration::new(time.tv_sec.try_into()?, time.tv_nsec.try_into()?))
}
