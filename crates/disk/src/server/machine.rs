//! The disk that a server serves.

use fsage_model::disk::{DiskCpu, DiskTime};
use fsage_model::fault::FaultError;
use fsage_model::medium::{MediumError, MediumSpec};
use fsage_sys::memory_limit;

use crate::disk::{Disk, DiskOptions, Medium};
use crate::export::Backend;
use crate::fault::Faults;
use crate::media::{Array, Resolve as _};
use crate::request::Transfer;
use crate::store::{StoreError, StoreOptions};

use super::Settings;

/// Why a disk cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// Blocks that nothing could address.
    #[error("blocks of {block_bytes} bytes: 512, 1024, 2048 and 4096 are what there is")]
    Block {
        /// The size asked for.
        block_bytes: u32,
    },
    /// A part of a block would be left over.
    #[error("a size of {size_bytes} bytes is not a multiple of the block size {block_bytes}")]
    Size {
        /// The size asked for.
        size_bytes: u64,
        /// The block size.
        block_bytes: u32,
    },
    /// The partitions are another disk than the size says.
    #[error("a disk of {size_bytes} bytes with partitions of {partitions_bytes} bytes together")]
    Partitions {
        /// The size asked for.
        size_bytes: u64,
        /// The sizes of the partitions.
        partitions_bytes: u64,
    },
    /// Drives that the size cannot be divided by, or drives with partitions.
    #[error("{drives} equal drives of {size_bytes} bytes together{}", if *partitions { " with partitions" } else { "" })]
    Drives {
        /// How many.
        drives: u32,
        /// The size asked for.
        size_bytes: u64,
        /// Whether partitions were asked for.
        partitions: bool,
    },
    /// CPU time passes by itself.
    #[error("CPU time can be counted in model time alone: in real time it passes anyway")]
    Cpu,
    /// A medium that there is not.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The faults are invalid.
    #[error("faults")]
    Faults(#[from] FaultError),
    /// The store cannot be made.
    #[error("no store for the disk's contents")]
    Store(#[from] StoreError),
    /// The kernel does not tell how much memory there is.
    #[error("cannot read /proc/meminfo")]
    Meminfo(#[source] std::io::Error),
}

impl MachineError {
    /// The next step for the user, where one is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(source) => source.hint(),
            Self::Medium(source) => source.hint(),
            Self::Faults(source) => Some(source.hint()),
            Self::Cpu => Some("leave `--cpu` out, or give `--time model`".to_owned()),
            Self::Partitions { .. } => Some("leave `--size` out: the partitions give it".to_owned()),
            Self::Drives { partitions: true, .. } => Some("give either drives or partitions".to_owned()),
            Self::Drives { .. } => Some(
                "give a size that is so many times a multiple of the block size, and 1 to 64 drives"
                    .to_owned(),
            ),
            Self::Block { .. } | Self::Size { .. } | Self::Meminfo(_) => None,
        }
    }
}

/// Makes the disk.
pub(super) fn make(settings: &Settings) -> Result<Disk, MachineError> {
    let Settings { size_bytes, block_bytes, .. } = *settings;
    if !matches!(block_bytes, 512 | 1024 | 2048 | 4096) {
        return Err(MachineError::Block { block_bytes });
    }
    if !size_bytes.is_multiple_of(u64::from(block_bytes)) {
        return Err(MachineError::Size { size_bytes, block_bytes });
    }
    if settings.cpu == DiskCpu::Serial && settings.time == DiskTime::Real {
        return Err(MachineError::Cpu);
    }
    let spec = settings.medium.parse::<MediumSpec>()?;
    let medium = medium(&spec, settings)?;
    let usual = StoreOptions::default();
    let spare = spare_memory_bytes(settings.memory_shares)?;
    let store = StoreOptions {
        pack_above_bytes: settings
            .pack_above
            .map_or(usual.pack_above_bytes, |mark| mark.bytes(host_memory_bytes(), usual.pack_above_bytes)),
        memory_limit_bytes: Some(settings.memory_limit_bytes.unwrap_or(spare / 4 * 3)),
        spill_folder: settings.spill_folder.clone(),
        reserve_bytes: RESERVE_BYTES,
    };
    let mut disk = Disk::new(&DiskOptions { size_bytes, block_bytes, store }, medium)?;
    if let Some(faults) = &settings.faults {
        disk.set_faults(Faults::new(faults, size_bytes)?);
    }
    // A log may be started later.
    disk.name_medium(spec.to_string());
    disk.name_partitions(&settings.partitions);
    if settings.drives > 1 || settings.fast.is_some() {
        disk.name_drives(settings.drives, settings.fast.as_ref().map(|fast| fast.medium.as_str()));
    }
    disk.limit_log(spare / 4);
    if settings.log {
        disk.start_log();
    }
    Ok(disk)
}

/// Most drives of one disk.
const MOST_DRIVES: u32 = 64;

/// The drive, with the one volume or with its partitions, or several drives.
fn medium(spec: &MediumSpec, settings: &Settings) -> Result<Medium, MachineError> {
    let Settings { size_bytes, partitions, .. } = settings;
    if settings.drives != 1 || settings.fast.is_some() {
        return drives(spec, settings);
    }
    if partitions.is_empty() {
        return Ok(Box::new(spec.resolve(*size_bytes)?));
    }
    let medium = spec.partitioned(partitions)?;
    let partitions_bytes = partitions.iter().map(|partition| partition.size.0).sum();
    if partitions_bytes == *size_bytes {
        Ok(Box::new(medium))
    } else {
        Err(MachineError::Partitions { size_bytes: *size_bytes, partitions_bytes })
    }
}

/// Several equal drives, and the fast one.
fn drives(spec: &MediumSpec, settings: &Settings) -> Result<Medium, MachineError> {
    let Settings { size_bytes, block_bytes, drives, ref fast, .. } = *settings;
    let partitions = !settings.partitions.is_empty();
    let fast_bytes = fast.as_ref().map_or(0, |fast| fast.size_bytes);
    let equal_bytes = size_bytes.saturating_sub(fast_bytes);
    let whole = u64::from(drives) * u64::from(block_bytes);
    let fits = equal_bytes > 0
        && equal_bytes.is_multiple_of(whole)
        && fast_bytes.is_multiple_of(u64::from(block_bytes));
    if !(1..=MOST_DRIVES).contains(&drives) || !fits || partitions {
        return Err(MachineError::Drives { drives, size_bytes: equal_bytes, partitions });
    }
    let drive_bytes = equal_bytes / u64::from(drives);
    let equal = (0..drives)
        .map(|_| spec.resolve(drive_bytes).map(|drive| (drive, drive_bytes)))
        .collect::<Result<Vec<_>, _>>()?;
    let fast = match fast {
        Some(fast) => Some((fast.medium.parse::<MediumSpec>()?.resolve(fast_bytes)?, fast_bytes)),
        None => None,
    };
    Ok(Box::new(Array::new(equal, fast)))
}

/// Memory of this host, as `sysinfo(2)` says it.
fn host_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}

/// What each of so many disks may take where nothing is said: its part of the memory that the host has to give
/// now, but for a tenth of all, at least 1 GiB. The server is locked in memory and safe from the kernel's out-of-memory killer, so
/// that everyone else would pay for a disk without a limit.
fn spare_memory_bytes(shares: u32) -> Result<u64, MachineError> {
    let available = memory_limit::available_bytes().map_err(MachineError::Meminfo)?;
    Ok(share_bytes(available, host_memory_bytes(), shares))
}

/// One of so many equal parts of what a host has to give that has so much memory available, of so much.
fn share_bytes(available: u64, total: u64, shares: u32) -> u64 {
    (available.saturating_sub((total / 10).max(1 << 30)) / u64::from(shares.max(1))).max(LEAST_BYTES)
}

/// No disk is limited to less than this.
const LEAST_BYTES: u64 = 64 << 20;

/// Memory that is touched when the disk is made, so that the first writes do not wait for any.
const RESERVE_BYTES: u64 = 16 << 20;

impl Backend for Disk {
    fn size_bytes(&self) -> u64 {
        Self::size_bytes(self)
    }

    fn block_bytes(&self) -> u32 {
        Self::block_bytes(self)
    }

    fn submit(&mut self, transfers: &mut [Transfer<'_>]) {
        Self::submit(self, transfers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_side_by_side_share_what_the_host_has_to_give() {
        const GIB: u64 = 1 << 30;
        assert_eq!(share_bytes(32 * GIB, 40 * GIB, 1), 28 * GIB);
        assert_eq!(share_bytes(32 * GIB, 40 * GIB, 4), 7 * GIB);
        assert_eq!(share_bytes(3 * GIB, 4 * GIB, 0), 2 * GIB);
        assert_eq!(share_bytes(GIB / 2, 4 * GIB, 2), LEAST_BYTES);
    }
}
