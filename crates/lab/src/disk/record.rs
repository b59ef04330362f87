//! What is kept of a disk that is up: `disk.json` in its folder.

use std::path::{Path, PathBuf};

use fsage_model::disk::DiskTime;
use fsage_model::medium::PartitionSpec;
use fsage_model::protocol::{BlockFacts, DeviceIdentity};
use fsage_sys::input::{self, TEXT_LIMIT};
use fsage_sys::new_file::{self, Readers};
use serde::{Deserialize, Serialize};

use super::DiskError;
use crate::lease::disk::RECORD;
use crate::time;
use crate::volume::{Acquired, DiskVolume};

/// A disk that is up. Fields that are not known are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskRecord {
    /// Its name.
    pub name: String,
    /// The block device.
    pub device: PathBuf,
    /// What tells the device from a later one of its name.
    #[serde(default)]
    pub identity: DeviceIdentity,
    /// Size; of a drive with partitions, all of them together.
    pub size_bytes: u64,
    /// Its partitions, where it has several; `device` is the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionRecord>,
    /// Medium, as a flag says it.
    pub medium: String,
    /// How it keeps time.
    pub time: DiskTime,
    /// Logical block size.
    pub block_bytes: u32,
    /// Whether it keeps every request.
    pub log: bool,
    /// Folder that it is served from.
    pub directory: PathBuf,
    /// Unix socket of its NBD export, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd: Option<PathBuf>,
    /// When it was brought up, RFC 3339.
    pub since: String,
}

/// A partition of a drive that is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionRecord {
    /// The block device.
    pub device: PathBuf,
    /// What tells the device from a later one of its name.
    pub identity: DeviceIdentity,
    /// Size and position, as asked for.
    #[serde(flatten)]
    pub partition: PartitionSpec,
}

/// The record's file.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(RECORD)
}

impl DiskRecord {
    pub(super) fn new(name: &str, volume: &DiskVolume, directory: &Path, acquired: &Acquired) -> Self {
        let options = volume.options();
        let record = |(partition, facts): (&PartitionSpec, &BlockFacts)| PartitionRecord {
            device: facts.path.clone(),
            identity: facts.identity,
            partition: *partition,
        };
        Self {
            partitions: options.partitions.iter().zip(&acquired.devices).map(record).collect(),
            name: name.to_owned(),
            device: acquired.device.clone(),
            identity: acquired.facts.identity,
            size_bytes: options.size.0,
            medium: options.medium.clone(),
            time: options.time,
            block_bytes: options.block_bytes,
            log: options.log,
            directory: directory.to_owned(),
            nbd: options.nbd.then(|| directory.join("nbd")),
            since: time::now_rfc3339(),
        }
    }

    /// The record in `folder`; a half-written one is none.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&input::read(&path(folder), TEXT_LIMIT).ok()?).ok()
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(&self, folder: &Path) -> Result<(), DiskError> {
        let target = path(folder);
        let text = serde_json::to_vec_pretty(self)
            .map_err(|error| DiskError::file("write", &target)(error.into()))?;
        new_file::write(&target, &text, Readers::All).map_err(DiskError::file("write", &target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let record = DiskRecord {
            name: "a".to_owned(),
            device: "/dev/loop3".into(),
            identity: DeviceIdentity::default(),
            size_bytes: 1 << 30,
            partitions: vec![PartitionRecord {
                device: "/dev/loop3".into(),
                identity: DeviceIdentity::default(),
                partition: "1GiB@inner".parse().unwrap(),
            }],
            medium: "hdd-7200".to_owned(),
            time: DiskTime::Real,
            block_bytes: 4096,
            log: true,
            directory: "/run/fsage/disks/a/served".into(),
            nbd: None,
            since: "2024-01-01T00:00:00Z".to_owned(),
        };
        assert_eq!(DiskRecord::read(folder.path()), None);
        record.write(folder.path()).unwrap();
        assert_eq!(DiskRecord::read(folder.path()), Some(record));
        std::fs::write(path(folder.path()), "{").unwrap();
        assert_eq!(DiskRecord::read(folder.path()), None);
    }
}
