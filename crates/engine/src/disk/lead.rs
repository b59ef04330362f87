//! How long the way from a block device to the server of its virtual disk takes, so that delayed replies come in time.
//!
//! A reply that is sent when the medium would have given it is late for its reader by the way there and back: through the
//! loop device, FUSE and the scheduler, some 20 µs where processors wake up fast and more than 100 µs in a guest. The way
//! is measured as reads see it: direct reads of one block, one after the other, each from its issue to its end by the
//! host's clock, less what passed on the disk's clock. The median of the means of some series is robust against what else
//! the host does. The reads take place on the disk before it is used; they move a hard disk's head and fill its read
//! buffer with the first blocks.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use fsage_model::disk::call::{MOST_LEAD_NS, SetLead};
use fsage_model::disk::{DiskStat, DiskTime};
use fsage_model::protocol::Failure;
use fsage_sys::aligned::AlignedBuffer;
use fsage_sys::clock;
use rustix::fs::{Mode, OFlags, open};

use super::VirtualDisk;
use crate::host::HostError;

/// Length of a read, in bytes: a block of any device.
const READ_BYTES: usize = 4096;
/// Reads of a series: the disk is asked for its clock before and behind it.
const READS: u32 = 16;
/// Series that are measured, unless the disk is so slow that [`LIMIT`] ends it sooner.
const SERIES: usize = 25;
/// The first of them wakes everyone up and counts for nothing.
const LEAST: usize = 4;
/// Longest measurement, in series that are complete.
const LIMIT: Duration = Duration::from_millis(500);

/// Measures the way to the virtual disk below `device` and has the disk answer by so much earlier, in nanoseconds.
/// `None`: there is none, or it keeps model time.
///
/// # Errors
/// The disk does not answer, or the device cannot be read.
pub fn compensate(device: &Path) -> Result<Option<u64>, Failure> {
    let Some(disk) = VirtualDisk::of_device(device) else { return Ok(None) };
    if disk.stat()?.time != DiskTime::Real {
        return Ok(None);
    }
    disk.ask(SetLead { lead_ns: 0 })?;
    let lead_ns = way_ns(&disk, device)?.min(MOST_LEAD_NS);
    disk.ask(SetLead { lead_ns })?;
    Ok(Some(lead_ns))
}

/// The way there and back, in nanoseconds.
fn way_ns(disk: &VirtualDisk, device: &Path) -> Result<u64, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let opened =
        open(device, flags, Mode::empty()).map_err(|error| HostError::file("open", device)(error.into()))?;
    let file = File::from(opened);
    let mut block = AlignedBuffer::new(READ_BYTES);
    let started = Instant::now();
    let mut means = Vec::with_capacity(SERIES);
    while means.len() < SERIES && (means.len() < LEAST || started.elapsed() < LIMIT) {
        let before: DiskStat = disk.stat()?;
        let start_ns = clock::raw_ns();
        for _ in 0..READS {
            file.read_exact_at(&mut block, 0).map_err(HostError::file("read", device))?;
        }
        let wall_ns = clock::raw_ns().saturating_sub(start_ns);
        let disk_ns = disk.stat()?.now_ns.saturating_sub(before.now_ns);
        means.push(wall_ns.saturating_sub(disk_ns) / u64::from(READS));
    }
    Ok(median(means.get_mut(1..).unwrap_or_default()))
}

/// The middle one, or 0 of none.
fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_series_is_taken() {
        assert_eq!(median(&mut [30, 10, 9000, 20, 25]), 25);
        assert_eq!(median(&mut []), 0);
    }

    #[test]
    fn what_is_no_virtual_disk_has_no_lead() {
        assert_eq!(compensate(Path::new("/dev/null")).unwrap(), None);
    }
}
