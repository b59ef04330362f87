//! A clock that one process sets and others read: eight bytes of a file, mapped.
//!
//! The virtual disk's own time has to be read beside every operation that is timed by it: through memory that
//! costs a nanosecond, through a socket tens of microseconds. The number is in the machine's byte order and
//! always whole: it is read and written atomically. It never goes back as long as one process sets it.
//!
//! Limit: a file that someone truncates while it is mapped ends its readers with `SIGBUS`. So one is opened
//! only where nobody but a trusted user may write to it.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::mapped_numbers::MappedNumbers;
use crate::{Error, Result};

/// Bytes of the file and of the mapping.
const LENGTH: usize = size_of::<u64>();

/// A shared clock, open.
#[derive(Debug)]
pub struct SharedClock {
    numbers: MappedNumbers,
}

impl SharedClock {
    /// Makes the file, which must not be there, at 0 ns, to be set by this process.
    ///
    /// # Errors
    /// The file cannot be made or mapped.
    pub fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(Error::path("open", path))?;
        file.set_len(LENGTH as u64).map_err(Error::path("ftruncate", path))?;
        Ok(Self { numbers: MappedNumbers::writable(&file, LENGTH)? })
    }

    /// Opens a clock that another process sets.
    ///
    /// # Errors
    /// There is none, or the file is not one.
    pub fn open(path: &Path) -> Result<SharedClockReader> {
        let file = crate::input::open_trusted(path).map_err(Error::path("open", path))?;
        let length = file.metadata().map_err(Error::path("fstat", path))?.len();
        if length != LENGTH as u64 {
            return Err(Error::Malformed { call: "fstat", what: "a clock is a file of eight bytes" });
        }
        Ok(SharedClockReader(Self { numbers: MappedNumbers::readable(&file, LENGTH)? }))
    }

    /// Sets it. Anyone who reads this value also sees everything that was done before.
    #[inline]
    pub fn set_ns(&self, now_ns: u64) {
        if let Some(number) = self.numbers.get(0) {
            number.store(now_ns, Ordering::Release);
        }
    }

    /// What it was set to last.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.numbers.get(0).map_or(0, |number| number.load(Ordering::Acquire))
    }
}

/// A shared clock that can only be read.
#[derive(Debug)]
pub struct SharedClockReader(SharedClock);

impl SharedClockReader {
    /// What it was set to last.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_others_may_write_to_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        // Nobody waits for who opens its other end.
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(SharedClock::open(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, [0; LENGTH]).unwrap();
        assert!(SharedClock::open(&path).is_ok());
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o646)).unwrap();
        assert!(SharedClock::open(&path).is_err());
    }

    #[test]
    fn what_is_set_is_read_also_after_the_file_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        let clock = SharedClock::create(&path).unwrap();
        let reader = SharedClock::open(&path).unwrap();
        assert_eq!(reader.now_ns(), 0);
        clock.set_ns(u64::MAX - 1);
        assert_eq!((clock.now_ns(), reader.now_ns()), (u64::MAX - 1, u64::MAX - 1));
        assert_eq!(std::fs::read(&path).unwrap(), (u64::MAX - 1).to_ne_bytes());
        std::fs::remove_file(&path).unwrap();
        drop(clock);
        assert_eq!(reader.now_ns(), u64::MAX - 1);
    }

    #[test]
    fn only_a_clock_is_opened_and_none_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        assert!(matches!(SharedClock::open(&path), Err(Error::Path { call: "open", .. })));
        std::fs::write(&path, "four").unwrap();
        assert!(matches!(SharedClock::open(&path), Err(Error::Malformed { .. })));
        assert!(SharedClock::create(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"four");
    }

    #[test]
    fn threads_see_it_go_forward_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        let clock = SharedClock::create(&path).unwrap();
        let reader = SharedClock::open(&path).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..100_000_u64).for_each(|n| clock.set_ns(n << 32 | n)));
            let mut last = 0;
            while last >> 32 != 99_999 {
                let now = reader.now_ns();
                assert!(now >= last && now >> 32 == now & 0xffff_ffff, "{last:x} {now:x}");
                last = now;
            }
        });
    }
}
