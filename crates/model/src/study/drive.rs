//! Drives that several volumes of a study share.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DiskOptions, DiskSpec, QueueSpec, sector};
use crate::disk::{DiskCpu, DiskTime};
use crate::extent::Extent;
use crate::fault::FaultSpec;
use crate::medium::{At, MediumSpec, PartitionSpec};
use crate::size::Bytes;

/// A virtual disk whose partitions are volumes of the study: they share its head, cache, flash, queue and
/// clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// Device model: name of a preset (`fsage disk media` lists them), path of a medium file (`mine.toml`,
    /// docs/media.md), or a table with `preset` (name or path) and the parameters to change.
    pub medium: MediumSpec,
    /// `model`: requests complete at once, and their modelled time is only added to the drive's clock;
    /// `real`: each completion is delayed by the modelled time.
    #[serde(default)]
    pub time: DiskTime,
    /// CPU time in model time: `ignored` (default), or `serial`: it passes on the drive's clock
    /// (docs/disk.md).
    #[serde(default, skip_serializing_if = "DiskCpu::is_ignored")]
    pub cpu: DiskCpu,
    /// Logical block size in bytes, 512 or 4096.
    #[serde(default = "sector")]
    pub block_bytes: u32,
    /// Log every request and keep the log with the trial; the log takes memory.
    #[serde(default)]
    pub log: bool,
    /// Memory limit for data that is not self-describing (docs/disk.md); absent: derived from the host's
    /// available memory when the drive is created.
    #[serde(default)]
    pub memory: Option<Bytes>,
    /// Folder of a temporary file for data beyond `memory`; absent: writes beyond it fail.
    #[serde(default)]
    pub spill: Option<PathBuf>,
    /// Faults to inject (docs/disk.md). Offsets are those of the concatenated partitions, in the order of the
    /// study.
    #[serde(default)]
    pub faults: Option<FaultSpec>,
    /// I/O scheduler of every partition; absent: not changed.
    #[serde(default)]
    pub scheduler: Option<String>,
    /// Other settings of the request queue of every partition, scheduler parameters included.
    #[serde(default, skip_serializing_if = "QueueSpec::is_empty")]
    pub queue: QueueSpec,
}

impl DriveSpec {
    /// The volume that is this partition of the drive.
    #[must_use]
    pub fn volume(&self, share: DriveShare) -> DiskSpec {
        let Extent { start_bytes, size_bytes } = share.extent();
        DiskSpec {
            size: Bytes(size_bytes),
            medium: self.medium.clone(),
            at: Some(At::Offset(Bytes(start_bytes))),
            time: self.time,
            cpu: self.cpu,
            block_bytes: self.block_bytes,
            log: self.log,
            memory: self.memory,
            spill: self.spill.clone(),
            faults: self.faults.clone(),
            scheduler: self.scheduler.clone(),
            queue: self.queue.clone(),
            drives: 1,
            fast: None,
            stack: Vec::new(),
            share: Some(Box::new(share)),
        }
    }
}

/// Which partition of which drive a volume is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveShare {
    /// Name of the drive in the study.
    pub drive: String,
    /// Where all partitions of the drive lie, in the study's order.
    pub partitions: Vec<Extent>,
    /// Which of them the volume is, from 0.
    pub number: usize,
}

impl DriveShare {
    /// Where the volume lies on the drive.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.partitions.get(self.number).copied().unwrap_or(Extent { start_bytes: 0, size_bytes: 0 })
    }

    /// Where the volume lies in what the drive's server serves: the partitions one after the other.
    #[must_use]
    pub fn served(&self) -> Extent {
        let before = self.partitions.iter().take(self.number).map(|extent| extent.size_bytes);
        Extent { start_bytes: before.sum(), size_bytes: self.extent().size_bytes }
    }

    /// Sizes of all partitions together.
    #[must_use]
    pub fn all_bytes(&self) -> u64 {
        self.partitions.iter().map(|extent| extent.size_bytes).sum()
    }

    /// The options of the whole drive, from those of a volume.
    pub(super) fn options(&self, own: DiskOptions, medium: &MediumSpec) -> DiskOptions {
        let partition = |extent: &Extent| PartitionSpec {
            size: Bytes(extent.size_bytes),
            at: Some(At::Offset(Bytes(extent.start_bytes))),
        };
        DiskOptions {
            size: Bytes(self.all_bytes()),
            partitions: self.partitions.iter().map(partition).collect(),
            medium: medium.to_string(),
            ..own
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_its_place_on_the_drive_and_in_what_is_served() {
        let extent = |start_bytes, size_bytes| Extent { start_bytes, size_bytes };
        let partitions = vec![extent(0, 5 << 30), extent(90 << 30, 1 << 30), extent(5 << 30, 2 << 30)];
        let share = DriveShare { drive: "d".to_owned(), partitions, number: 2 };
        assert_eq!((share.extent(), share.served()), (extent(5 << 30, 2 << 30), extent(6 << 30, 2 << 30)));
        let drive: DriveSpec = serde_json::from_str(r#"{"medium": "hdd-7200", "log": true}"#).unwrap();
        let volume = drive.volume(share);
        assert_eq!((volume.size, volume.served_bytes()), (Bytes(2 << 30), 8 << 30));
        assert_eq!(volume.drive().to_string(), format!("hdd-7200,at={}", 5_u64 << 30));
        let options = volume.options();
        assert!(options.log && options.medium == "hdd-7200" && options.size == Bytes(8 << 30));
        assert_eq!(options.partitions[1].to_string(), format!("{}@{}", 1_u64 << 30, 90_u64 << 30));
        // What a store keeps of a trial is read again.
        let text = serde_json::to_string(&volume).unwrap();
        assert_eq!(serde_json::from_str::<DiskSpec>(&text).unwrap(), volume);
    }
}
