//! What is timed on a virtual disk in `model` time is timed by the disk's clock, everything else by the
//! host's.
//!
//! On a disk that counts CPU time (`cpu = "serial"`) the clock also advances by what the calling thread
//! takes on the processor between [`Clock::count_cpu`] and [`Clock::hold_cpu`]: around the system calls that
//! are timed, so that making up operations and their data is not in it. What threads of the kernel do for
//! the load is not seen. A thread works for one clock at a time.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use fsage_model::disk::call::Stat;
use fsage_model::disk::{DiskCpu, DiskTime};
use fsage_sys::clock::{raw_ns, thread_cpu_ns};
use fsage_sys::shared_clock::{SharedClock, SharedClockReader};
use fsage_sys::think_time::ThinkTimeSpender;

use super::{ControlError, VirtualDisk};
use crate::host::disk::{CLOCK, THINK};

thread_local! {
    /// The CPU time of this thread up to which it is on the disk's clock, while it counts.
    static COUNTED_NS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A clock to time by. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The host's, `CLOCK_MONOTONIC_RAW`.
    #[default]
    Host,
    /// A virtual disk's own. It stands still while nothing is asked of the disk.
    Disk(Arc<SharedClockReader>),
    /// A virtual disk's own, on which CPU time passes too.
    Serial(Arc<ThinkTimeSpender>),
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
        let stat = disk.ask(Stat)?;
        let silent = |path: &Path, error: &fsage_sys::Error| ControlError::Silent {
            socket: path.to_owned(),
            source: std::io::Error::from_raw_os_error(error.errno()),
        };
        match (stat.time, stat.cpu) {
            (DiskTime::Real, _) => Ok(Self::Host),
            (DiskTime::Model, DiskCpu::Ignored) => {
                let path = disk.directory().join(CLOCK);
                let clock = SharedClock::open(&path).map_err(|error| silent(&path, &error))?;
                Ok(Self::Disk(Arc::new(clock)))
            }
            (DiskTime::Model, DiskCpu::Serial) => {
                let path = disk.directory().join(THINK);
                let clock = ThinkTimeSpender::open(&path).map_err(|error| silent(&path, &error))?;
                Ok(Self::Serial(Arc::new(clock)))
            }
        }
    }

    /// Nanoseconds since some fixed point.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Host => raw_ns(),
            Self::Disk(clock) => clock.now_ns(),
            Self::Serial(clock) => {
                COUNTED_NS.with(|counted| {
                    if let Some(before_ns) = counted.get() {
                        let now_ns = thread_cpu_ns();
                        clock.spend(now_ns.saturating_sub(before_ns));
                        counted.set(Some(now_ns));
                    }
                });
                clock.now_ns()
            }
        }
    }

    /// Lets the calling thread's CPU time pass on the clock from now on, where the clock counts it.
    #[inline]
    pub fn count_cpu(&self) {
        if self.counts_cpu() {
            COUNTED_NS.set(Some(thread_cpu_ns()));
        }
    }

    /// Ends that. What was taken since the last reading of the clock is left out.
    #[inline]
    pub fn hold_cpu(&self) {
        if self.counts_cpu() {
            COUNTED_NS.set(None);
        }
    }

    /// Lets time pass in which nothing is done. Only on a clock that CPU time passes on.
    pub fn pause(&self, ns: u64) {
        if let Self::Serial(clock) = self {
            clock.pause(ns);
        }
    }

    /// Whether CPU time passes on it.
    #[must_use]
    pub const fn counts_cpu(&self) -> bool {
        matches!(self, Self::Serial(_))
    }

    /// Whether it is a virtual disk's.
    #[must_use]
    pub const fn is_model(&self) -> bool {
        matches!(self, Self::Disk(_) | Self::Serial(_))
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::tests::scripted;
    use super::*;

    const MODEL: &str = "{\"ok\":{\"medium\":\"hdd-7200\",\"time\":\"model\",\"disk\":{\"clock_ns\":5}}}\n";
    const REAL: &str = "{\"ok\":{\"medium\":\"hdd-7200\",\"time\":\"real\",\"disk\":{\"clock_ns\":5}}}\n";

    const SERIAL: &str =
        "{\"ok\":{\"medium\":\"ram\",\"time\":\"model\",\"cpu\":\"serial\",\"disk\":{\"clock_ns\":5}}}\n";

    /// Works for at least so long on the processor.
    fn work(ns: u64) {
        let start = thread_cpu_ns();
        while thread_cpu_ns() - start < ns {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn cpu_time_passes_on_a_serial_clock_while_it_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let disk = VirtualDisk::at(folder.path().to_owned());
        let server = scripted(&folder.path().join("control"), &[SERIAL, SERIAL]);
        assert!(Clock::of(&disk).is_err(), "no think time is shared");
        let _shared = fsage_sys::think_time::ThinkTime::create(&folder.path().join(THINK)).unwrap();
        let clock = Clock::of(&disk).unwrap();
        server.join().unwrap();
        assert!(clock.is_model() && clock.counts_cpu());
        work(1_000_000);
        assert_eq!(clock.now_ns(), 0, "nothing is counted yet");
        clock.count_cpu();
        work(2_000_000);
        let counted = clock.now_ns();
        assert!(counted >= 2_000_000, "{counted}");
        clock.hold_cpu();
        work(1_000_000);
        assert_eq!(clock.now_ns(), counted);
        // Time in which the thread sleeps is none of the processor's.
        clock.count_cpu();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let slept = clock.now_ns() - counted;
        assert!(slept < 20_000_000, "{slept}");
        clock.hold_cpu();
    }

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
