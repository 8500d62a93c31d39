//! When to compact and how much to keep.

use serde::{Deserialize, Serialize};

use crate::estimate::ContextEstimate;

/// When to compact and how much to keep, in percent of the context window.
///
/// In JSON it is `{"auto": true, "profile": "balanced"}`, with `aggressive` and `conservative` besides, or
/// `{"profile": "custom", "trigger": 85, "keep": 20}`.
///
/// ```
/// use nervekit_harness::{CompactionSettings, ContextEstimate};
/// let settings = CompactionSettings::balanced();
/// assert_eq!((settings.trigger_percent(), settings.keep_percent()), (80, 15));
/// assert!(settings.is_due(&ContextEstimate::new(100_000, 80_000, 0)));
/// assert!(!settings.auto(false).is_due(&ContextEstimate::new(100_000, 80_000, 0)));
/// assert!(CompactionSettings::custom(50, 60).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Document", into = "Document")]
pub struct CompactionSettings {
    auto: bool,
    profile: Profile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    Balanced,
    Aggressive,
    Conservative,
    Custom { trigger: u8, keep: u8 },
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self::balanced()
    }
}

impl CompactionSettings {
    /// Compacts at 80 % and keeps about 15 %.
    #[must_use]
    pub const fn balanced() -> Self {
        Self { auto: true, profile: Profile::Balanced }
    }

    /// Compacts at 70 % and keeps about 10 %.
    #[must_use]
    pub const fn aggressive() -> Self {
        Self { auto: true, profile: Profile::Aggressive }
    }

    /// Compacts at 90 % and keeps about 25 %.
    #[must_use]
    pub const fn conservative() -> Self {
        Self { auto: true, profile: Profile::Conservative }
    }

    /// Compacts at `trigger` percent (20 to 95) and keeps about `keep` percent (1 to half of the trigger).
    #[must_use]
    pub const fn custom(trigger: u8, keep: u8) -> Option<Self> {
        if trigger < 20 || trigger > 95 || keep < 1 || keep > trigger / 2 {
            return None;
        }
        Some(Self { auto: true, profile: Profile::Custom { trigger, keep } })
    }

    /// Says whether to compact without being asked.
    #[must_use]
    pub const fn auto(mut self, auto: bool) -> Self {
        self.auto = auto;
        self
    }

    /// The share of the window at which to compact.
    #[must_use]
    pub const fn trigger_percent(&self) -> u8 {
        match self.profile {
            Profile::Balanced => 80,
            Profile::Aggressive => 70,
            Profile::Conservative => 90,
            Profile::Custom { trigger, .. } => trigger,
        }
    }

    /// The share of the window to keep as it is.
    #[must_use]
    pub const fn keep_percent(&self) -> u8 {
        match self.profile {
            Profile::Balanced => 15,
            Profile::Aggressive => 10,
            Profile::Conservative => 25,
            Profile::Custom { keep, .. } => keep,
        }
    }

    /// Whether a context of this size is to be compacted now.
    #[must_use]
    pub fn is_due(&self, estimate: &ContextEstimate) -> bool {
        self.auto && estimate.percent() >= u64::from(self.trigger_percent())
    }
}

/// The form in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default = "yes")]
    auto: bool,
    #[serde(default)]
    profile: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trigger: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep: Option<u8>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    #[default]
    Balanced,
    Aggressive,
    Conservative,
    Custom,
}

const fn yes() -> bool {
    true
}

impl From<CompactionSettings> for Document {
    fn from(settings: CompactionSettings) -> Self {
        let (profile, trigger, keep) = match settings.profile {
            Profile::Balanced => (Name::Balanced, None, None),
            Profile::Aggressive => (Name::Aggressive, None, None),
            Profile::Conservative => (Name::Conservative, None, None),
            Profile::Custom { trigger, keep } => (Name::Custom, Some(trigger), Some(keep)),
        };
        Self { auto: settings.auto, profile, trigger, keep }
    }
}

impl TryFrom<Document> for CompactionSettings {
    type Error = &'static str;

    fn try_from(document: Document) -> Result<Self, Self::Error> {
        let settings = match (document.profile, document.trigger, document.keep) {
            (Name::Balanced, None, None) => Some(Self::balanced()),
            (Name::Aggressive, None, None) => Some(Self::aggressive()),
            (Name::Conservative, None, None) => Some(Self::conservative()),
            (Name::Custom, Some(trigger), Some(keep)) => Self::custom(trigger, keep),
            _ => return Err("`trigger` and `keep` go together, with the profile `custom` only"),
        };
        settings
            .map(|settings| settings.auto(document.auto))
            .ok_or("`trigger` must be 20 to 95, and `keep` 1 to half of it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trips_and_is_checked() {
        let all = [
            CompactionSettings::balanced(),
            CompactionSettings::aggressive().auto(false),
            CompactionSettings::conservative(),
            CompactionSettings::custom(85, 20).unwrap(),
        ];
        for settings in all {
            let json = serde_json::to_string(&settings).unwrap();
            assert_eq!(serde_json::from_str::<CompactionSettings>(&json).unwrap(), settings);
        }
        assert_eq!(serde_json::from_str::<CompactionSettings>("{}").unwrap(), CompactionSettings::balanced());
        for bad in [
            r#"{"profile": "custom"}"#,
            r#"{"profile": "balanced", "trigger": 80}"#,
            r#"{"profile": "custom", "trigger": 96, "keep": 10}"#,
            r#"{"profile": "custom", "trigger": 80, "keep": 41}"#,
            r#"{"profile": "custom", "trigger": 80, "keep": 0}"#,
            r#"{"colour": "red"}"#,
        ] {
            assert!(serde_json::from_str::<CompactionSettings>(bad).is_err(), "{bad}");
        }
    }
}
