//! What is timed on a virtual disk in `model` time is timed by the disk's clock, everything else by the
//! host's.

use std::path::Path;
use std::sync::Arc;

use fsage_model::disk::DiskTime;
use fsage_sys::clock::raw_ns;
use fsage_sys::shared_clock::{SharedClock, SharedClockReader};

use super::{ControlError, VirtualDisk};
use crate::host::disk::CLOCK;

/// A clock to time by. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The host's, `CLOCK_MONOTONIC_RAW`.
    #[default]
    Host,
    /// A virtual disk's own. It stands still while nothing is asked of the disk.
    Disk(Arc<SharedClockReader>),
}

impl Clock {
    /// The clock for what is done below `directory`.
    ///
    /// # Errors
    /// There is a virtual disk, and it does not answer or has no clock.
    pub fn under(directory: &Path) -> Result<Self, ControlError> {
        match VirtualDisk::under(directory) {
            Some(disk) => Self::of(&disk),
            None => Ok(Self::Host),
        }
    }

    /// The clock for what is done on `disk`.
    ///
    /// # Errors
    /// It does not answer or has no clock.
    pub fn of(disk: &VirtualDisk) -> Result<Self, ControlError> {
        if disk.stat()?.time == DiskTime::Real {
            return Ok(Self::Host);
        }
        let path = disk.directory().join(CLOCK);
        let clock = SharedClock::open(&path).map_err(|error| ControlError::Silent {
            socket: path,
            source: std::io::Error::from_raw_os_error(error.errno()),
        })?;
        Ok(Self::Disk(Arc::new(clock)))
    }

    /// Nanoseconds since some fixed point.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Host => raw_ns(),
            Self::Disk(clock) => clock.now_ns(),
        }
    }

    /// Whether it is a virtual disk's.
    #[must_use]
    pub const fn is_model(&self) -> bool {
        matches!(self, Self::Disk(_))
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::tests::scripted;
    use super::*;

    const MODEL: &str = "{\"ok\":{\"medium\":\"hdd-7200\",\"time\":\"model\",\"disk\":{\"clock_ns\":5}}}\n";
    const REAL: &str = "{\"ok\":{\"medium\":\"hdd-7200\",\"time\":\"real\",\"disk\":{\"clock_ns\":5}}}\n";

    #[test]
    fn model_time_is_the_disks_and_real_time_the_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let disk = VirtualDisk::at(folder.path().to_owned());
        let server = scripted(&folder.path().join("control"), &[MODEL, MODEL, REAL]);
        let error = Clock::of(&disk).unwrap_err();
        assert!(error.to_string().contains("clock"), "{error}");
        let set = SharedClock::create(&folder.path().join("clock")).unwrap();
        let clock = Clock::of(&disk).unwrap();
        set.set_ns(77);
        assert!(clock.is_model());
        assert_eq!(clock.now_ns(), 77);
        let host = Clock::of(&disk).unwrap();
        assert!(!host.is_model());
        assert!(host.now_ns() > 77);
        server.join().unwrap();
        assert!(matches!(Clock::under(Path::new("/proc")), Ok(Clock::Host)));
    }
}
