//! Upkeep of a store, and what is known of it.

use nervekit_types::OpeningId;
use serde::{Deserialize, Serialize};

/// What is fixed for as long as a backend is open.
///
/// ```
/// use nervekit_conversation_core::BackendFacts;
/// use nervekit_types::OpeningId;
/// let facts = BackendFacts::new(true).opening(OpeningId::from_key("this one"));
/// assert!(facts.durable);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackendFacts {
    /// Whether what is written survives the end of the process.
    pub durable: bool,
    /// This opening of an exclusive backend; none of a shared one.
    pub opening: Option<OpeningId>,
}

impl BackendFacts {
    /// The facts of a shared backend.
    #[must_use]
    pub const fn new(durable: bool) -> Self {
        Self { durable, opening: None }
    }

    /// The facts of an exclusive backend, opened under this id.
    #[must_use]
    pub const fn opening(mut self, opening: OpeningId) -> Self {
        self.opening = Some(opening);
        self
    }
}

/// A job of upkeep.
///
/// ```
/// use nervekit_conversation_core::Maintenance;
/// assert_eq!(Maintenance::Verify.kind(), "verify");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Maintenance {
    /// Reads everything and reports what is damaged.
    Verify,
    /// Gives space that is no longer used back to the system.
    Compact,
    /// Counts rows and bytes.
    Stats,
}

impl Maintenance {
    /// A stable word for the job.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Compact => "compact",
            Self::Stats => "stats",
        }
    }
}

/// What a job of upkeep found. What a job does not tell is none.
///
/// ```
/// use nervekit_conversation_core::MaintenanceReport;
/// let report = MaintenanceReport::new().rows(3).fault("a page was rebuilt");
/// assert_eq!((report.rows, report.bytes), (Some(3), None));
/// assert!(!report.is_clean());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MaintenanceReport {
    /// How many rows there are, in all tables.
    pub rows: Option<u64>,
    /// How many bytes the store takes up.
    pub bytes: Option<u64>,
    /// How many bytes were given back.
    pub reclaimed: Option<u64>,
    /// What was damaged, one line for each fault. Damage that could not be repaired is an error instead.
    pub faults: Vec<String>,
}

impl MaintenanceReport {
    /// Nothing to tell, no fault.
    #[must_use]
    pub const fn new() -> Self {
        Self { rows: None, bytes: None, reclaimed: None, faults: Vec::new() }
    }

    /// Tells the number of rows.
    #[must_use]
    pub const fn rows(mut self, rows: u64) -> Self {
        self.rows = Some(rows);
        self
    }

    /// Tells the size in bytes.
    #[must_use]
    pub const fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Tells how many bytes were given back.
    #[must_use]
    pub const fn reclaimed(mut self, bytes: u64) -> Self {
        self.reclaimed = Some(bytes);
        self
    }

    /// Adds a fault.
    #[must_use]
    pub fn fault(mut self, fault: impl Into<String>) -> Self {
        self.faults.push(fault.into());
        self
    }

    /// Tells whether no fault was found.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }
}
