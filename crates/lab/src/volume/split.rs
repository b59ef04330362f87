//! A real disk split into partitions, each of which a study can name as a device of its own: full, empty and
//! unaged volumes lie on one disk.
//!
//! Behind the same rules as a study's device ([`safety`](super::safety)): the whole disk is given up, so nothing
//! of it may be in use, and what it carries has to be zeros, fsage's own or named by its identifier. A disk that
//! has partitions is refused whatever they hold. Partitions lie in the order of their sizes from the beginning of
//! the disk, which on a hard disk is its outer edge.

use std::path::{Path, PathBuf};

use fsage_engine::host::gpt::{self, Extent, GptError};
use fsage_engine::host::{HostError, block, split};
use fsage_model::problem::{EXIT_USAGE, Explain, exit_code_of};
use fsage_model::protocol::{BlockFacts, SplitDisk, call};
use fsage_model::size::Bytes;
use fsage_model::study::QueueSpec;
use serde::Serialize;

use super::{DeviceVolume, EraseConsent, Refusal, VolumeError};
use crate::target::Session;

/// Why a disk is not split.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// There are no such partitions on it.
    #[error("{} cannot have these partitions", .path.display())]
    Sizes {
        /// The disk.
        path: PathBuf,
        /// Why not.
        source: GptError,
    },
    /// It is a partition.
    #[error("{} is not split: it is a partition of the disk {disk}", .path.display())]
    Partition {
        /// Path that was given.
        path: PathBuf,
        /// Name of its disk.
        disk: String,
    },
    /// The kernel has no partitions on such a device.
    #[error("{} is not split", .path.display())]
    Host {
        /// Path that was given.
        path: PathBuf,
        /// Why not.
        source: HostError,
    },
    /// The safety rules refuse it, or the agent could not do it.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl Explain for SplitError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Sizes { .. } | Self::Partition { .. } => EXIT_USAGE,
            Self::Host { source, .. } => exit_code_of(source.kind()),
            Self::Volume(error) => error.exit_code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Sizes { source, .. } => Some(match source {
                GptError::None | GptError::Empty { .. } => {
                    "give each partition a size: `--sizes 5GiB,50GiB`".to_owned()
                }
                GptError::TooMany { .. } => "ask for fewer".to_owned(),
                GptError::Unaligned { bytes, .. } => {
                    format!("the next size is {}MiB", bytes.div_ceil(gpt::ALIGNMENT))
                }
                GptError::TooLarge { .. } => {
                    "ask for less with `--sizes`, or name a larger disk; 1 MiB at each end is the partition table's"
                        .to_owned()
                }
            }),
            Self::Partition { .. } => {
                Some("name the whole disk, or use this partition in a study as it is".to_owned())
            }
            Self::Host { source, .. } => Some(source.hint()).filter(|hint| !hint.is_empty()),
            Self::Volume(VolumeError::Refused { path, refusal: Refusal::Partitioned { .. } }) => Some(format!(
                "if what they hold can be lost, remove the partition table first: `wipefs -a {}`",
                path.display()
            )),
            Self::Volume(error) => error.hint(),
        }
    }
}

/// A disk that is to be split, and that the command line allows to be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    device: DeviceVolume,
    sizes: Vec<u64>,
}

impl Split {
    /// Checks what can be checked without the disk; touches nothing.
    ///
    /// # Errors
    /// Sizes that no disk can have; a path that is no device, or that the command line does not repeat.
    pub fn new(path: &Path, sizes: &[Bytes], consent: &EraseConsent) -> Result<Self, SplitError> {
        let sizes: Vec<u64> = sizes.iter().map(|size| size.0).collect();
        gpt::check(&sizes).map_err(|source| SplitError::Sizes { path: path.to_owned(), source })?;
        // No store is in question: what is mounted anywhere is refused.
        Ok(Self {
            device: DeviceVolume::new(path, consent, Path::new("/"), None, QueueSpec::default())?,
            sizes,
        })
    }

    /// Where the partitions would be, if the disk would be split now. Reads, and asks no agent.
    ///
    /// # Errors
    /// The rule that refuses it, or why it cannot be inspected.
    pub fn look(&self) -> Result<Vec<Extent>, SplitError> {
        let facts = block::facts(self.device.path()).map_err(VolumeError::Look)?;
        self.decide(&facts)
    }

    /// Splits it. The partitions stay; nothing is leased.
    ///
    /// # Errors
    /// What refuses it: then nothing was written. A disk that cannot be written to, or whose partitions the
    /// kernel does not show.
    pub fn split(&self, session: &mut Session) -> Result<SplitDisk, SplitError> {
        let facts = session
            .call(call::BlockFacts { device: self.device.path().to_owned() })
            .map_err(VolumeError::from)?;
        self.decide(&facts)?;
        let device = facts.path;
        let hold = call::HoldDevice { device: device.clone(), identity: facts.identity };
        session.call(hold).map_err(VolumeError::from)?;
        let split = call::SplitDevice { device: device.clone(), sizes: self.sizes.clone() };
        let outcome = session.call(split).map_err(VolumeError::from);
        let released = session.call(call::LetDeviceGo { device }).map_err(VolumeError::from);
        let disk = outcome?;
        released?;
        Ok(disk)
    }

    fn decide(&self, facts: &BlockFacts) -> Result<Vec<Extent>, SplitError> {
        let path = || self.device.path().to_owned();
        if facts.is_partition() {
            return Err(SplitError::Partition { path: path(), disk: facts.disk.clone() });
        }
        self.device.decide(facts)?;
        let placed = gpt::place(&self.sizes, facts.size_bytes, facts.sector_bytes);
        placed.map_err(|source| SplitError::Sizes { path: path(), source })?;
        split::plan(facts, &self.sizes).map_err(|source| SplitError::Host { path: path(), source })
    }
}

/// A partition of a disk, and what it carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedPartition {
    /// The block device (`/dev/sda1`).
    pub device: PathBuf,
    /// The path that names it after a reboot too, where udev makes one.
    pub link: Option<PathBuf>,
    /// Its `PARTUUID`; empty when unknown.
    pub part_uuid: String,
    /// Where it begins on the disk.
    pub start_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
    /// What it carries (`ext4`, …), as the safety rules see it; empty: nothing.
    pub signature: String,
    /// Label of the file system; `fsage`: it is fsage's own.
    pub label: String,
    /// Where it is mounted.
    pub mounted_at: Vec<PathBuf>,
}

/// The partitions of a disk that the kernel has, in the order of their places. Changes nothing.
///
/// # Errors
/// The disk or a partition cannot be inspected.
pub fn list(disk: &Path, session: &mut Session) -> Result<Vec<ListedPartition>, SplitError> {
    let mut ask = |device| session.call(call::BlockFacts { device }).map_err(VolumeError::from);
    let mut listed = Vec::new();
    for name in ask(disk.to_owned())?.partitions {
        let facts = ask(Path::new("/dev").join(name))?;
        listed.push(ListedPartition {
            link: Some(&facts.part_uuid)
                .filter(|uuid| !uuid.is_empty())
                .and_then(|uuid| split::link(uuid, &facts.path)),
            device: facts.path,
            part_uuid: facts.part_uuid,
            start_bytes: facts.start_bytes,
            size_bytes: facts.size_bytes,
            signature: facts.signature,
            label: facts.label,
            mounted_at: facts.mounted_at,
        });
    }
    listed.sort_by_key(|partition| partition.start_bytes);
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: &str = "/dev/disk/by-id/ata-DISK_S1";
    const MIB: u64 = 1 << 20;

    fn split(sizes: &[u64]) -> Result<Split, SplitError> {
        let sizes: Vec<Bytes> = sizes.iter().copied().map(Bytes).collect();
        Split::new(Path::new(DISK), &sizes, &EraseConsent::parse(&[DISK.to_owned()]))
    }

    fn facts() -> BlockFacts {
        BlockFacts {
            path: "/dev/sdz".into(),
            disk: "sdz".into(),
            size_bytes: 64 * MIB,
            sector_bytes: 512,
            serial: "S1".into(),
            exclusive: true,
            ..BlockFacts::default()
        }
    }

    fn said(error: &SplitError) -> String {
        let text = fsage_model::cause::in_one_line(error);
        format!("{} {text} ({})", error.exit_code(), error.hint().unwrap_or_default())
    }

    #[test]
    fn sizes_are_checked_before_the_disk_is() {
        for (sizes, expected) in [
            (&[][..], "no partition is asked for"),
            (&[MIB, 0], "partition 2 would have no bytes"),
            (
                &[5000],
                "partition 1 would have 5000 bytes, which is not a multiple of 1 MiB (the next size is 1MiB)",
            ),
            (&[MIB; 129], "129 partitions are too many: a partition table has 128 (ask for fewer)"),
        ] {
            let error = split(sizes).unwrap_err();
            assert!(said(&error).starts_with("2 ") && said(&error).contains(expected), "{}", said(&error));
        }
    }

    #[test]
    fn the_command_line_has_to_repeat_the_disk() {
        let other = EraseConsent::parse(&["/dev/sda".to_owned()]);
        let error = Split::new(Path::new(DISK), &[Bytes(MIB)], &other).unwrap_err();
        assert!(said(&error).contains(&format!("add `--erase {DISK}`")), "{}", said(&error));
    }

    #[test]
    fn partitions_and_disks_with_partitions_are_not_split() {
        let wanted = split(&[MIB, 2 * MIB]).unwrap();
        let extent = |start_bytes, size_bytes| Extent { start_bytes, size_bytes };
        assert_eq!(wanted.decide(&facts()).unwrap(), [extent(MIB, MIB), extent(2 * MIB, 2 * MIB)]);
        let error = wanted.decide(&BlockFacts { path: "/dev/sdz1".into(), ..facts() }).unwrap_err();
        assert!(said(&error).contains("it is a partition of the disk sdz"), "{}", said(&error));
        let error = wanted.decide(&BlockFacts { partitions: vec!["sdz1".into()], ..facts() }).unwrap_err();
        assert!(said(&error).contains(&format!("`wipefs -a {DISK}`")), "{}", said(&error));
        let error = split(&[64 * MIB]).unwrap().decide(&facts()).unwrap_err();
        assert!(said(&error).contains("64MiB together, and the disk has room for 62MiB"), "{}", said(&error));
    }

    #[test]
    fn the_safety_rules_hold() {
        let wanted = split(&[MIB]).unwrap();
        let mounted = BlockFacts { mounted_at: vec!["/mnt".into()], ..facts() };
        let theirs = BlockFacts { signature: "xfs".into(), label: "data".into(), ..facts() };
        for facts in [mounted, theirs, BlockFacts { swap: true, ..facts() }] {
            let error = wanted.decide(&facts).unwrap_err();
            assert!(matches!(error, SplitError::Volume(VolumeError::Refused { .. })), "{error}");
            assert_eq!(error.exit_code(), EXIT_USAGE);
        }
    }
}
