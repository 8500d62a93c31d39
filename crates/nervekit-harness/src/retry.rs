//! When to send a request again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use nervekit_types::{Entropy, Retry, SystemEntropy};
use serde::{Deserialize, Serialize};

use crate::error::ProviderError;
use crate::model::{Model, ModelInfo, ModelStream};
use crate::request::ModelRequest;

/// Decides, purely, whether and when a failed request is sent again.
///
/// The wait doubles from `base` with every attempt, up to `max_wait`, and a random half of it is added, so
/// that many clients do not come back at once. A time that the provider asked for is waited instead, up to
/// `max_asked`; what is longer ends the attempts at once, with the asked time in the answer.
///
/// ```
/// use nervekit_harness::{GiveUp, ProviderError, ProviderErrorKind, RetryPolicy};
/// use std::time::Duration;
///
/// let policy = RetryPolicy::new();
/// let busy = ProviderError::new(ProviderErrorKind::Overloaded, "try later");
/// assert_eq!(policy.decide(1, &busy, 0), Ok(Duration::from_secs(2)));
/// assert_eq!(policy.decide(3, &busy, 0), Ok(Duration::from_secs(8)));
/// assert_eq!(policy.decide(4, &busy, 0), Err(GiveUp::Exhausted { attempts: 4 }));
///
/// let asked = busy.with_retry_after(Duration::from_secs(7));
/// assert_eq!(policy.decide(1, &asked, 0), Ok(Duration::from_secs(7)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// How often a request is sent again; 0 never.
    pub retries: u32,
    /// The first wait.
    pub base: Duration,
    /// The longest wait, before the random part.
    pub max_wait: Duration,
    /// The longest wait that a provider may ask for.
    pub max_asked: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl RetryPolicy {
    /// Three retries from 2 s, waits of at most one minute, or at most five if the provider asks.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            retries: 3,
            base: Duration::from_secs(2),
            max_wait: Duration::from_secs(60),
            max_asked: Duration::from_secs(300),
        }
    }

    /// Sets how often a request is sent again.
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the first wait.
    #[must_use]
    pub const fn base(mut self, wait: Duration) -> Self {
        self.base = wait;
        self
    }

    /// Sets the longest wait, before the random part.
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// Sets the longest wait that a provider may ask for.
    #[must_use]
    pub const fn max_asked(mut self, wait: Duration) -> Self {
        self.max_asked = wait;
        self
    }

    /// How long to wait after this many failed attempts (1 after the first), or why not to try again.
    /// `jitter` is any random number, see [`RetryPolicy::jitter`].
    pub fn decide(&self, attempts: u32, error: &ProviderError, jitter: u32) -> Result<Duration, GiveUp> {
        match error.retry() {
            Retry::Never | Retry::Unknown => Err(GiveUp::NotRetryable),
            Retry::After(asked) if asked > self.max_asked => {
                Err(GiveUp::TooLong { asked, limit: self.max_asked })
            }
            Retry::Now | Retry::After(_) if attempts > self.retries => Err(GiveUp::Exhausted { attempts }),
            Retry::After(asked) => Ok(asked),
            Retry::Now => {
                let doublings = attempts.saturating_sub(1).min(31);
                let wait = self.base.saturating_mul(1 << doublings).min(self.max_wait);
                let random = wait.as_nanos() / 2 * u128::from(jitter) / u128::from(u32::MAX);
                Ok(wait.saturating_add(Duration::from_nanos(u64::try_from(random).unwrap_or(u64::MAX))))
            }
        }
    }

    /// A random number for [`RetryPolicy::decide`].
    ///
    /// ```
    /// use nervekit_harness::RetryPolicy;
    /// use nervekit_types::testing::SeededEntropy;
    /// let (a, b) = (SeededEntropy::new(1), SeededEntropy::new(1));
    /// assert_eq!(RetryPolicy::jitter(&a), RetryPolicy::jitter(&b));
    /// ```
    #[must_use]
    pub fn jitter(entropy: &dyn Entropy) -> u32 {
        let mut bytes = [0; 4];
        entropy.fill(&mut bytes);
        u32::from_le_bytes(bytes)
    }
}

/// Why a request is not sent again.
///
/// ```
/// use nervekit_harness::GiveUp;
/// use std::time::Duration;
/// let reason = GiveUp::TooLong { asked: Duration::from_secs(3_600), limit: Duration::from_secs(300) };
/// assert_eq!(reason.to_string(), "the provider asks to wait 3600s, longer than the limit of 300s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GiveUp {
    /// The same request fails again.
    #[error("the same request would fail again")]
    NotRetryable,
    /// It was sent often enough.
    #[error("the request failed {attempts} times")]
    Exhausted {
        /// How often it was sent.
        attempts: u32,
    },
    /// The provider asks for more patience than the policy has.
    #[error("the provider asks to wait {asked:?}, longer than the limit of {limit:?}")]
    TooLong {
        /// What the provider asks for.
        asked: Duration,
        /// What the policy allows.
        limit: Duration,
    },
}

/// A model that sends failed requests again by itself, for loops that keep nothing durable.
///
/// It tries again only while no event has been passed on, so that its stream still keeps the contract of
/// [`Model`]. The last error is passed on as it is. Waiting uses tokio's timers; dropping the stream ends it.
///
/// ```
/// use nervekit_harness::{RetryModel, RetryPolicy, ScriptedModel, ScriptedReply};
/// let model = ScriptedModel::new([ScriptedReply::text("hello")]);
/// let model = RetryModel::new(model).policy(RetryPolicy::new().retries(5));
/// # let _: &dyn nervekit_harness::Model = &model;
/// ```
#[derive(Clone, Debug)]
pub struct RetryModel<M> {
    inner: Arc<M>,
    policy: RetryPolicy,
    entropy: Arc<dyn Entropy>,
}

impl<M: Model> RetryModel<M> {
    /// Wraps a model under the standard policy.
    #[must_use]
    pub fn new(inner: M) -> Self {
        Self { inner: Arc::new(inner), policy: RetryPolicy::new(), entropy: Arc::new(SystemEntropy) }
    }

    /// Sets the policy.
    #[must_use]
    pub fn policy(mut self, policy: RetryPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets where the random part of a wait comes from.
    #[must_use]
    pub fn entropy(mut self, entropy: impl Entropy) -> Self {
        self.entropy = Arc::new(entropy);
        self
    }
}

impl<M: Model> Model for RetryModel<M> {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn stream(&self, request: Arc<ModelRequest>) -> ModelStream {
        let Self { inner, policy, entropy } = self;
        let (inner, policy, entropy) = (Arc::clone(inner), *policy, Arc::clone(entropy));
        let answer = async move {
            let mut attempts = 0;
            loop {
                attempts += 1;
                let mut events = inner.stream(Arc::clone(&request));
                let first = events.next().await;
                if let Some(Err(error)) = &first
                    && let Ok(wait) = policy.decide(attempts, error, RetryPolicy::jitter(&*entropy))
                {
                    drop(events);
                    tokio::time::sleep(wait).await;
                    continue;
                }
                return stream::iter(first).chain(events);
            }
        };
        stream::once(answer).flatten().boxed()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::TryStreamExt as _;
    use nervekit_types::testing::SeededEntropy;

    use super::*;
    use crate::error::ProviderErrorKind;
    use crate::event::ModelEvent;
    use crate::scripted::{ScriptedModel, ScriptedReply};

    fn error(kind: ProviderErrorKind) -> ProviderError {
        ProviderError::new(kind, "no")
    }

    #[test]
    fn waits_double_up_to_the_limit_and_jitter_adds_at_most_half() {
        let policy = RetryPolicy::new().retries(100);
        let busy = error(ProviderErrorKind::Server);
        let seconds = |attempt, jitter| policy.decide(attempt, &busy, jitter).unwrap().as_secs();
        assert_eq!((1..8).map(|attempt| seconds(attempt, 0)).collect::<Vec<_>>(), [2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(
            (1..8).map(|attempt| seconds(attempt, u32::MAX)).collect::<Vec<_>>(),
            [3, 6, 12, 24, 48, 90, 90]
        );
        assert_eq!(policy.retries(u32::MAX).decide(u32::MAX, &busy, 0), Ok(Duration::from_secs(60)));
    }

    #[test]
    fn case_62_an_asked_wait_is_kept_up_to_the_limit() {
        let policy = RetryPolicy::new();
        let asked = |wait| error(ProviderErrorKind::RateLimited).with_retry_after(wait);
        for wait in [Duration::ZERO, Duration::from_millis(1_500), Duration::from_secs(300)] {
            assert_eq!(policy.decide(1, &asked(wait), u32::MAX), Ok(wait));
        }
        let long = Duration::from_secs(999_999);
        let reason = policy.decide(1, &asked(long), 0).unwrap_err();
        assert_eq!(reason, GiveUp::TooLong { asked: long, limit: Duration::from_secs(300) });
        assert!(reason.to_string().contains("999999s"));
        assert_eq!(policy.decide(4, &asked(Duration::ZERO), 0), Err(GiveUp::Exhausted { attempts: 4 }));
    }

    #[test]
    fn case_61_a_deterministic_refusal_is_never_sent_again() {
        for kind in [ProviderErrorKind::InvalidRequest, ProviderErrorKind::ContextOverflow] {
            assert_eq!(RetryPolicy::new().decide(1, &error(kind), 0), Err(GiveUp::NotRetryable));
        }
    }

    async fn answer(model: &impl Model) -> Result<Vec<ModelEvent>, ProviderError> {
        model.stream(Arc::new(ModelRequest::default())).try_collect().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_model_tries_until_it_works() {
        let busy = || ScriptedReply::fails(error(ProviderErrorKind::Overloaded));
        let script = ScriptedModel::new([busy(), busy(), ScriptedReply::text("hello")]);
        let model = RetryModel::new(script.clone()).entropy(SeededEntropy::new(1));
        let start = tokio::time::Instant::now();
        let events = answer(&model).await.unwrap();
        assert!(
            matches!(events.last(), Some(ModelEvent::Finished(message)) if message.plain_text() == "hello")
        );
        assert_eq!(script.requests().len(), 3);
        assert!((6..=9).contains(&start.elapsed().as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_model_gives_up_with_the_last_error() {
        let model = ScriptedModel::from_fn(|_| ScriptedReply::fails(error(ProviderErrorKind::RateLimited)));
        let model = RetryModel::new(model);
        assert_eq!(answer(&model).await.unwrap_err(), error(ProviderErrorKind::RateLimited));
    }

    #[tokio::test(start_paused = true)]
    async fn a_retry_model_never_repeats_what_it_passed_on() {
        let broken = ScriptedReply::text("half").then_fails(error(ProviderErrorKind::Network));
        let script = ScriptedModel::new([broken, ScriptedReply::text("whole")]);
        assert!(answer(&RetryModel::new(script.clone())).await.is_err());
        assert_eq!(script.requests().len(), 1);
    }
}
