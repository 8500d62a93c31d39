//! Who may take a lease, as a pure rule.

use std::time::Duration;

use nervekit_types::{IncarnationId, OpeningId, Timestamp};

use crate::conversation::Lease;

impl Lease {
    /// Whether another core holds it, so that only its mailbox may be written.
    ///
    /// A lease may be taken when it is absent, released, expired, or was taken under another opening of an
    /// exclusive backend than the present one: that owner is dead.
    #[must_use]
    pub(crate) fn is_foreign(&self, me: IncarnationId, opening: Option<OpeningId>, now: Timestamp) -> bool {
        !self.released && self.incarnation != me && self.expiry > now && self.opening == opening
    }

    /// The lease as this core takes it after `previous`, or prolongs it if it is its own.
    #[must_use]
    pub(crate) fn taken(
        previous: Option<&Self>,
        me: IncarnationId,
        opening: Option<OpeningId>,
        now: Timestamp,
        duration: Duration,
    ) -> Self {
        let epoch = match previous {
            Some(lease) if lease.incarnation == me && !lease.released => lease.epoch,
            Some(lease) => lease.epoch + 1,
            None => 1,
        };
        Self { opening, incarnation: me, epoch, expiry: now.saturating_add(duration), released: false }
    }

    /// The lease as it is given back.
    #[must_use]
    pub(crate) const fn given_back(mut self) -> Self {
        self.released = true;
        self
    }
}
