//! What a server gets at its start.

use std::path::PathBuf;

use fsage_model::disk::{DiskCpu, DiskTime};
use fsage_model::fault::FaultSpec;
use fsage_model::medium::PartitionSpec;
use serde::{Deserialize, Serialize};

use crate::export::fuse::Choice;

/// What the disk is served as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Export {
    /// A file in a FUSE mount, for a loop device.
    #[default]
    Fuse,
    /// A block device of its own, where the kernel has the driver.
    #[cfg(feature = "ublk")]
    Ublk,
}

/// From how much memory on contents that were not used lately are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackAbove {
    /// So many bytes.
    Bytes(u64),
    /// So many percent of the memory of the host that serves the disk, 0 to 100; from the store's own mark to
    /// 2 GiB.
    Percent(u8),
}

/// What is no mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither a number of bytes nor a share from 0% to 100%")]
pub struct MarkError;

/// The most that a share of the host's memory comes to: what a server holds is locked.
const MOST_BYTES: u64 = 2 << 30;

impl PackAbove {
    /// The mark in bytes, for a host with so much memory and a store whose own mark is `usual_bytes`.
    #[must_use]
    pub fn bytes(self, memory_bytes: u64, usual_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => {
                (memory_bytes / 100 * u64::from(percent)).clamp(usual_bytes, MOST_BYTES.max(usual_bytes))
            }
        }
    }
}

impl std::str::FromStr for PackAbove {
    type Err = MarkError;

    /// Reads `1073741824` or `4%`.
    fn from_str(text: &str) -> Result<Self, MarkError> {
        match text.strip_suffix('%').map(str::parse) {
            Some(Ok(percent @ 0..=100)) => Ok(Self::Percent(percent)),
            Some(_) => Err(MarkError),
            None => text.parse().map(Self::Bytes).map_err(|_| MarkError),
        }
    }
}

/// A drive beside the others, as a cache has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FastDrive {
    /// Its part of the disk's size.
    pub size_bytes: u64,
    /// As the medium of a disk.
    pub medium: String,
}

/// Everything about a disk and its server. Goes to the server as JSON on its standard input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where the server keeps its files; absolute. Made if it is not there.
    pub directory: PathBuf,
    /// Size of the disk, a multiple of `block_bytes`; of a drive with partitions, all of them together.
    pub size_bytes: u64,
    /// The partitions of the drive, which follow one another in what is served; none: the disk is one, where
    /// `medium` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionSpec>,
    /// How many equal drives follow one another in what is served, each with its part of the size that the fast one
    /// leaves. At least 1.
    #[serde(default = "alone", skip_serializing_if = "is_alone")]
    pub drives: u32,
    /// One more drive at their end, of another medium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast: Option<FastDrive>,
    /// Smallest unit of a request.
    #[serde(default = "block_bytes")]
    pub block_bytes: u32,
    /// What the disk is made of: the name of a preset, or a medium in JSON.
    pub medium: String,
    /// Whether answers take the medium's time.
    #[serde(default)]
    pub time: DiskTime,
    /// Whether CPU time of the load passes on the disk's clock.
    #[serde(default)]
    pub cpu: DiskCpu,
    /// Whether every request is logged from the beginning.
    #[serde(default)]
    pub log: bool,
    /// What goes wrong from the beginning.
    #[serde(default)]
    pub faults: Option<FaultSpec>,
    /// What it is served as.
    #[serde(default)]
    pub export: Export,
    /// How requests shall come; of FUSE.
    #[serde(default)]
    pub transport: Choice,
    /// Whether it is a network block device too, on a Unix socket.
    #[serde(default)]
    pub nbd: bool,
    /// Most memory for contents that do not describe themselves; beyond it they go to the spill file, or
    /// writes fail.
    #[serde(default)]
    pub memory_limit_bytes: Option<u64>,
    /// How many may take as much at the same time: without a limit of its own a disk takes its part of the
    /// memory that the host has to give. At least 1.
    #[serde(default = "alone")]
    pub memory_shares: u32,
    /// Folder for that file.
    #[serde(default)]
    pub spill_folder: Option<PathBuf>,
    /// From how much memory on what was not used lately is packed; absent: the store's own mark.
    #[serde(default)]
    pub pack_above: Option<PackAbove>,
    /// Longest time in seconds that the server may be at work on one batch before the watchdog ends the
    /// connection.
    #[serde(default = "watchdog_s")]
    pub watchdog_s: u32,
}

const fn block_bytes() -> u32 {
    4096
}

const fn alone() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_alone(number: &u32) -> bool {
    *number == alone()
}

const fn watchdog_s() -> u32 {
    60
}

impl Settings {
    /// A disk of `size_bytes` on `medium`, everything else as it is by default.
    #[must_use]
    pub fn new(directory: PathBuf, size_bytes: u64, medium: &str) -> Self {
        Self {
            directory,
            size_bytes,
            partitions: Vec::new(),
            drives: alone(),
            fast: None,
            block_bytes: block_bytes(),
            medium: medium.to_owned(),
            time: DiskTime::default(),
            cpu: DiskCpu::default(),
            log: false,
            faults: None,
            export: Export::default(),
            transport: Choice::default(),
            nbd: false,
            memory_limit_bytes: None,
            memory_shares: alone(),
            spill_folder: None,
            pack_above: None,
            watchdog_s: watchdog_s(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_in_bytes_or_a_share_of_the_hosts_memory() {
        assert_eq!("4096".parse(), Ok(PackAbove::Bytes(4096)));
        assert_eq!("4%".parse(), Ok(PackAbove::Percent(4)));
        let of = |mark: PackAbove, memory_gib: u64| mark.bytes(memory_gib << 30, 48 << 20);
        assert_eq!(of(PackAbove::Percent(4), 25), (25 << 30) / 100 * 4);
        assert_eq!(of(PackAbove::Percent(4), 1), 48 << 20);
        assert_eq!(of(PackAbove::Percent(4), 1 << 10), 2 << 30);
        assert_eq!(of(PackAbove::Bytes(7), 25), 7);
        for wrong in ["", "%", "101%", "-1", "4.5%", "4 GiB"] {
            assert!(wrong.parse::<PackAbove>().is_err(), "{wrong}");
        }
    }
}
