//! Controls of a study: trials whose result is known in advance.
//!
//! An A/A pair measures one state twice, as if it were two, and must show no difference. A known slowdown is
//! caused by the virtual disk itself while it is measured, and must be found with its size. So must a small
//! one, caused by additional requests, of which neither the file system nor the disk knows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{StageSpec, StudySpec, VolumeSpec};
use crate::fault::{FaultSpec, SlowSpec};

/// The factor that tells trials of controls from the others, which do not have it.
pub const CONTROL: &str = "control";

/// Margin of equality where a study gives none.
const MARGIN: f64 = 0.05;

/// Control trials, whose result is known in advance. Each cell with controls gets one additional trial per
/// repeat for the A/A pair, one for the added requests and, on a virtual disk, one for the known slowdown; if
/// the cell has an image, they start from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ControlsSpec {
    /// Cells with controls: dotted path of a factor → value or list of values, all of which must match;
    /// absent: every cell.
    pub of: BTreeMap<String, Value>,
    /// Measure the same state twice (A/A pair).
    pub same: bool,
    /// Equivalence margin of the A/A pair (above 0, at most 1): a measure counts as equal if the whole
    /// confidence interval of the ratio is between 1 ÷ (1 + `margin`) and 1 + `margin`.
    pub margin: f64,
    /// Factor of the known slowdown: the virtual disk takes this many times as long per request (above 1, at
    /// most 100); 0: none. Only for virtual disks.
    pub slow: f64,
    /// Size of a small known slowdown: fsage adds requests to a measure until it takes about 1 + `extra`
    /// times as long (above 0, at most 1); 0: none. The requests are direct reads at random offsets of the
    /// block device, for any kind of volume.
    pub extra: f64,
}

impl Default for ControlsSpec {
    fn default() -> Self {
        Self { of: BTreeMap::new(), same: true, margin: MARGIN, slow: 1.25, extra: 0.0 }
    }
}

/// What a trial of a control is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Control {
    /// The second half of an A/A pair.
    Same,
    /// The known slowdown.
    Slow {
        /// How many times as long each request of a measure takes.
        factor: f64,
    },
    /// Requests beside those of the measure.
    Extra {
        /// Share of the measure's time that they add.
        share: f64,
    },
}

impl Control {
    /// Its value of the factor [`CONTROL`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Slow { .. } => "slow",
            Self::Extra { .. } => "extra",
        }
    }

    /// Faults of the virtual disk while it is measured; `None` if there are none.
    #[must_use]
    pub fn faults(self) -> Option<FaultSpec> {
        match self {
            Self::Same | Self::Extra { .. } => None,
            Self::Slow { factor } => {
                let slow = SlowSpec { rate: Some(1.0), factor: Some(factor), ..SlowSpec::default() };
                Some(FaultSpec { slow_region: vec![slow], ..FaultSpec::default() })
            }
        }
    }
}

impl Control {
    /// Share of a measure's time that requests add to it; `None` where none are added.
    #[must_use]
    pub const fn extra(self) -> Option<f64> {
        if let Self::Extra { share } = self { Some(share) } else { None }
    }
}

impl ControlsSpec {
    /// The controls of a cell with these factors.
    #[must_use]
    pub fn of_cell(&self, factors: &BTreeMap<String, Value>, cell: &StudySpec) -> Vec<Control> {
        let has = |(path, wanted): (&String, &Value)| {
            factors.get(path).is_some_and(|value| match wanted {
                Value::Array(any) => any.contains(value),
                one => one == value,
            })
        };
        if !self.of.iter().all(has) {
            return Vec::new();
        }
        // A disk that has faults of its own keeps them, and those of a shared drive are every partition's.
        let is_sound = |volume: &VolumeSpec| matches!(volume, VolumeSpec::Disk(disk) if disk.faults.is_none() && disk.share.is_none());
        let others = cell.stage.iter().filter_map(|stage| match stage {
            StageSpec::Lockstep(lockstep) => Some(lockstep),
            _ => None,
        });
        let mut others = others.flat_map(|lockstep| lockstep.others());
        let all_are = is_sound(&cell.volume)
            && others.all(|(_, other)| other.resolve(&cell.volume).is_none_or(|volume| is_sound(&volume)));
        let slows = self.slow > 0.0 && all_are;
        let same = self.same.then_some(Control::Same);
        let slow = slows.then_some(Control::Slow { factor: self.slow });
        let extra = (self.extra > 0.0).then_some(Control::Extra { share: self.extra });
        same.into_iter().chain(slow).chain(extra).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cell(volume: &Value) -> StudySpec {
        let study = json!({
            "name": "s", "title": "t", "question": "q", "volume": volume,
            "file_system": {"kind": "ext4"}, "stage": [],
        });
        serde_json::from_value(study).unwrap()
    }

    #[test]
    fn cells_that_are_named_have_controls_and_only_virtual_disks_are_slowed() {
        let disk = cell(&json!({"kind": "disk", "medium": "ssd", "size": "1GiB"}));
        let faulty = json!({"kind": "disk", "medium": "ssd", "size": "1GiB", "faults": {"seed": 1}});
        let file = cell(&json!({"kind": "loop", "size": "1GiB"}));
        let factors = |state: &str| BTreeMap::from([("state".to_owned(), json!(state))]);
        let slow = Control::Slow { factor: 1.25 };
        let all = ControlsSpec::default();
        assert_eq!(all.of_cell(&factors("aged"), &disk), [Control::Same, slow]);
        assert_eq!(all.of_cell(&factors("aged"), &file), [Control::Same]);
        assert_eq!(all.of_cell(&factors("aged"), &cell(&faulty)), [Control::Same]);
        let of = |wanted: Value| BTreeMap::from([("state".to_owned(), wanted)]);
        let some = ControlsSpec { of: of(json!(["aged", "old"])), same: false, ..all.clone() };
        assert_eq!(some.of_cell(&factors("aged"), &disk), [slow]);
        assert_eq!(some.of_cell(&factors("fresh"), &disk), []);
        let none = ControlsSpec { slow: 0.0, of: of(json!("fresh")), ..all };
        assert_eq!(none.of_cell(&factors("fresh"), &disk), [Control::Same]);
        assert_eq!(none.of_cell(&BTreeMap::new(), &disk), []);
        // Requests can be added anywhere.
        let extra = ControlsSpec { slow: 0.0, same: false, extra: 0.08, ..ControlsSpec::default() };
        let wanted = Control::Extra { share: 0.08 };
        for cell in [&disk, &file] {
            assert_eq!(extra.of_cell(&factors("aged"), cell), [wanted]);
        }
        assert_eq!((wanted.extra(), wanted.faults(), slow.extra()), (Some(0.08), None, None));
    }

    #[test]
    fn only_the_known_slowdown_has_faults() {
        assert_eq!(Control::Same.faults(), None);
        let faults = Control::Slow { factor: 2.0 }.faults().unwrap();
        assert_eq!((faults.slow_region[0].factor, faults.slow_region[0].rate), (Some(2.0), Some(1.0)));
        assert_eq!(serde_json::to_value(Control::Same).unwrap(), json!({"kind": "same"}));
    }
}
