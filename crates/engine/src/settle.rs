//! Bringing a volume to rest before something is timed: what was written before must not be written back meanwhile.
//!
//! `syncfs` writes back the file system. `fsync` of the device writes back what went through the device's own page
//! cache (metadata of ext4, for example) and has the device empty its volatile cache, behind a loop device that of its
//! file as well. The server of a virtual disk in real time answers that at once, because a loop device does everything in the
//! thread that waits for it, and lets the next read wait instead: so one block is read. Then the device is watched until nothing is under way and nothing was asked for some time, at most for
//! 5 s ([`Device::settle_for`]). What a drive does by itself, such as garbage collection, cannot be seen and is not waited
//! for.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use fsage_model::fio::Settled;
use fsage_sys::aligned::AlignedBuffer;
use rustix::fs::{Mode, OFlags, open};

use crate::device::Device;
use crate::disk::{Clock, VirtualDisk};
use crate::host::{HostError, cache};

/// A block of any device, in bytes.
const BLOCK_BYTES: usize = 4096;

/// Brings `device` to rest; `directory`: where its file system is mounted, if it is. `quiet`: how long nothing is asked
/// of it before it counts as at rest.
///
/// # Errors
/// Something could not be written back, or the device cannot be opened.
pub fn settle(device: &Path, directory: Option<&Path>, quiet: Duration) -> Result<Settled, HostError> {
    let started = Instant::now();
    let since = || u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    if let Some(directory) = directory {
        cache::sync(directory)?;
    }
    let sync_ns = since();
    let opened = File::open(device).map_err(HostError::file("open", device))?;
    // Also for a descriptor that is for reading only.
    opened.sync_all().map_err(HostError::file("flush", device))?;
    wait_for_drive(device)?;
    let flush_ns = since().saturating_sub(sync_ns);
    let quiet = Device::of_node(device).is_none_or(|device| device.settle_for(quiet));
    Ok(Settled { sync_ns, flush_ns, elapsed_ns: since(), quiet })
}

/// Waits until a modelled drive with delayed replies has done what it was asked to flush.
fn wait_for_drive(device: &Path) -> Result<(), HostError> {
    let Some(disk) = VirtualDisk::of_device(device) else { return Ok(()) };
    if Clock::of(&disk).is_ok_and(|clock| clock.is_model()) {
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let opened =
        open(device, flags, Mode::empty()).map_err(|error| HostError::file("open", device)(error.into()))?;
    let mut block = AlignedBuffer::new(BLOCK_BYTES);
    File::from(opened).read_at(&mut block, 0).map(drop).map_err(HostError::file("read", device))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_millis(50);

    #[test]
    fn a_file_that_is_no_device_is_flushed_and_quiet_and_one_that_is_gone_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let settled = settle(&file, Some(folder.path()), QUIET).unwrap();
        assert!(settled.quiet && settled.sync_ns + settled.flush_ns <= settled.elapsed_ns, "{settled:?}");
        let gone = settle(&folder.path().join("none"), None, QUIET).unwrap_err();
        assert!(gone.to_string().contains("none"), "{gone}");
        assert!(settle(&file, Some(&folder.path().join("none")), QUIET).is_err());
    }
}
