//! Bringing a volume to rest before something is timed: what was written before must not be written back meanwhile.
//!
//! `syncfs` writes back the file system. `fsync` of the device writes back what went through the device's own page
//! cache (metadata of ext4, for example) and has the device empty its volatile cache, behind a loop device that of its
//! file as well. Then the device is watched until nothing is under way and nothing was asked for some time, at most for
//! 5 s ([`Device::settle_for`]). What a drive does by itself, such as garbage collection, cannot be seen and is not waited
//! for.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use fsage_model::fio::Settled;

use crate::device::Device;
use crate::host::{HostError, cache};

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
    let flush_ns = since().saturating_sub(sync_ns);
    let quiet = Device::of_node(device).is_none_or(|device| device.settle_for(quiet));
    Ok(Settled { sync_ns, flush_ns, elapsed_ns: since(), quiet })
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
