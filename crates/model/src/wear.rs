//! What a real device says of its own wear: NVMe's health log, SMART attributes and device statistics of ATA and
//! SCSI, the life time of an eMMC or a UFS device.
//!
//! Every value is the device's own word. Each counter has a resolution ([`WearCounter::step`]): a share of the rated
//! life moves in steps of 1 % (NVMe Base Specification 2.0, 5.16.1.3, *Percentage Used*; ACS-4, 9.5.8) or 10 %
//! (JESD84-B51, `DEVICE_LIFE_TIME_EST_TYP_A` and `_B`), so that a difference of 0 means less than one step, and not
//! that nothing was worn.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WearKind {
    /// Bytes that hosts wrote to the device.
    HostWritten,
    /// Bytes that the device wrote to its flash, its own copies among them; few devices tell.
    FlashWritten,
    /// Percent of its rated life that is used up; it may exceed 100.
    Used,
    /// Percent of its spare blocks that are left.
    SpareLeft,
    /// State of its spare blocks: 1 normal, 2 most are used up (eMMC: 80 %), 3 nearly all are (eMMC: 90 %).
    SpareState,
    /// Accesses whose data could not be read or written in spite of error correction.
    MediaErrors,
}

impl WearKind {
    /// As tables have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostWritten => "written by hosts",
            Self::FlashWritten => "written to flash",
            Self::Used => "rated life used",
            Self::SpareLeft => "spare blocks left",
            Self::SpareState => "state of spare blocks",
            Self::MediaErrors => "media errors",
        }
    }

    /// Unit of its values: `bytes`, `%`, or nothing for counts and states.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::HostWritten | Self::FlashWritten => "bytes",
            Self::Used | Self::SpareLeft => "%",
            Self::SpareState | Self::MediaErrors => "",
        }
    }
}

/// One counter of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WearCounter {
    /// What it counts.
    pub kind: WearKind,
    /// Name that its source has for it (`data_units_written`, `241 Total_LBAs_Written`, `life_time A`).
    pub name: String,
    /// Its value, in the unit of its kind. Of a range (`life_time`) the lower end.
    pub value: u64,
    /// Its resolution in the same unit, at least 1.
    pub step: u64,
}

/// What a device said of its wear at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WearReading {
    /// The whole disk (`/dev/nvme0n1`), also of a partition: counters are the disk's, and what others write to its
    /// other partitions is in them.
    pub device: PathBuf,
    /// The disk's serial number; empty when unknown, and in records from before it was kept.
    pub serial: String,
    /// Where it was read: the command line, or the folder in sysfs; empty where nothing was found.
    pub source: String,
    /// Counters in the order of their source.
    pub counters: Vec<WearCounter>,
    /// Why there is no counter; empty where there is one.
    pub missing: String,
}

impl WearReading {
    /// Whether both are of one disk: by their serial numbers, and by name where one of them has none.
    #[must_use]
    pub fn is_of_same(&self, other: &Self) -> bool {
        if self.serial.is_empty() || other.serial.is_empty() {
            return self.device == other.device;
        }
        self.serial == other.serial
    }
}

/// What a device said before and after a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageWear {
    /// The stage's name.
    pub stage: String,
    /// Before the stage.
    pub before: WearReading,
    /// After it, when what it had written was on the device.
    pub after: WearReading,
}

/// One counter before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WearChange {
    /// What it counts.
    pub kind: WearKind,
    /// Name that its source has for it.
    pub name: String,
    /// Its resolution.
    pub step: u64,
    /// Value before; nothing where it was not read.
    pub before: Option<u64>,
    /// Value after; nothing where it was not read.
    pub after: Option<u64>,
}

/// How much a counter moved in the direction of wear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WearDifference {
    /// By so much, give or take less than one step.
    By(u64),
    /// Not at all, which means less than one step, given here.
    BelowStep(u64),
    /// The other way: it wrapped around, was reset, or is of another device.
    Backwards,
    /// It was read at one of the two times only.
    Unpaired,
}

impl WearChange {
    /// How much it moved.
    #[must_use]
    pub const fn difference(&self) -> WearDifference {
        let (Some(before), Some(after)) = (self.before, self.after) else { return WearDifference::Unpaired };
        let (less, more) = match self.kind {
            WearKind::SpareLeft => (after, before),
            _ => (before, after),
        };
        match more.checked_sub(less) {
            None => WearDifference::Backwards,
            // A count of errors is exact.
            Some(0) if !matches!(self.kind, WearKind::MediaErrors) => WearDifference::BelowStep(self.step),
            Some(moved) => WearDifference::By(moved),
        }
    }
}

/// Every counter of two readings of one device, those of `before` first. A counter is known by what it counts and its
/// name.
#[must_use]
pub fn changes(before: &WearReading, after: &WearReading) -> Vec<WearChange> {
    let same = |one: &WearCounter, other: &WearCounter| one.kind == other.kind && one.name == other.name;
    let mut found: Vec<WearChange> = Vec::new();
    for counter in &before.counters {
        let later = after.counters.iter().find(|other| same(counter, other));
        found.push(WearChange {
            kind: counter.kind,
            name: counter.name.clone(),
            step: counter.step,
            before: Some(counter.value),
            after: later.map(|later| later.value),
        });
    }
    for counter in &after.counters {
        if !before.counters.iter().any(|other| same(counter, other)) {
            let (kind, name, step) = (counter.kind, counter.name.clone(), counter.step);
            found.push(WearChange { kind, name, step, before: None, after: Some(counter.value) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(counters: &[(WearKind, &str, u64, u64)]) -> WearReading {
        let counters = counters.iter().map(|&(kind, name, value, step)| WearCounter {
            kind,
            name: name.to_owned(),
            value,
            step,
        });
        WearReading { counters: counters.collect(), ..WearReading::default() }
    }

    #[test]
    fn a_counter_that_stood_still_moved_less_than_its_step() {
        let before = reading(&[
            (WearKind::HostWritten, "data_units_written", 512_000_000, 512_000),
            (WearKind::Used, "percentage_used", 3, 1),
            (WearKind::SpareLeft, "available_spare", 100, 1),
            (WearKind::MediaErrors, "media_errors", 2, 1),
        ]);
        let mut after = before.clone();
        after.counters[0].value += 1_024_000;
        after.counters[2].value = 98;
        let moved: Vec<_> = changes(&before, &after).iter().map(WearChange::difference).collect();
        let wanted = [
            WearDifference::By(1_024_000),
            WearDifference::BelowStep(1),
            WearDifference::By(2),
            WearDifference::By(0),
        ];
        assert_eq!(moved, wanted);
    }

    #[test]
    fn a_disk_is_known_by_its_serial_number_whatever_its_name() {
        let of = |device: &str, serial: &str| WearReading {
            device: device.into(),
            serial: serial.to_owned(),
            ..WearReading::default()
        };
        assert!(of("/dev/sda", "a").is_of_same(&of("/dev/sdb", "a")));
        assert!(!of("/dev/sda", "a").is_of_same(&of("/dev/sda", "b")));
        assert!(of("/dev/sda", "").is_of_same(&of("/dev/sda", "b")), "one from before it was kept");
        assert!(!of("/dev/sda", "").is_of_same(&of("/dev/sdb", "")));
    }

    #[test]
    fn what_went_back_or_was_read_once_has_no_difference() {
        let before = reading(&[
            (WearKind::HostWritten, "a", u64::MAX, 1),
            (WearKind::Used, "b", 5, 1),
            (WearKind::Used, "life_time A", 10, 10),
        ]);
        let after = reading(&[
            (WearKind::HostWritten, "a", 0, 1),
            (WearKind::Used, "life_time B", 10, 10),
            (WearKind::SpareLeft, "b", 5, 1),
        ]);
        let found = changes(&before, &after);
        let moved: Vec<_> = found.iter().map(WearChange::difference).collect();
        assert_eq!(moved[0], WearDifference::Backwards);
        assert_eq!(moved[1..], [WearDifference::Unpaired; 4], "another name or kind is another counter");
        assert_eq!((found[3].before, found[3].after), (None, Some(10)));
        let grown = reading(&[(WearKind::SpareLeft, "b", 6, 1)]);
        let moved = changes(&reading(&[(WearKind::SpareLeft, "b", 5, 1)]), &grown);
        assert_eq!(moved[0].difference(), WearDifference::Backwards, "spare does not grow");
    }
}
