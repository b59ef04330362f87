//! CPU time and pauses that pass on a virtual disk's clock: three numbers in a file, mapped by the disk's
//! server and by the process that works on the disk.
//!
//! That process adds up what it spent on the processor and in pauses (the third number says how much of the
//! sum was these); the server says what its clock shows without the part of that which it has taken in. Their
//! sum is the time on the disk's clock, spent time that the disk has not heard of included. Both numbers only
//! ever grow (the second by as much as the clock moves beyond what was spent), and the second is read before
//! the first, so that the sum does not go back either.
//!
//! Limit: as for [`shared_clock`](crate::shared_clock), a file that someone truncates ends its users with
//! `SIGBUS`.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::mapped_numbers::MappedNumbers;
use crate::{Error, Result};

/// Where the nanoseconds spent are.
const SPENT: usize = 0;
/// Where the clock without them is; below zero it wraps.
const REST: usize = 1;
/// Where the part of the nanoseconds spent is that was pauses.
const PAUSED: usize = 2;
/// Bytes of the file and of the mapping.
const LENGTH: usize = 3 * size_of::<u64>();

/// The disk's side.
#[derive(Debug)]
pub struct ThinkTime {
    numbers: MappedNumbers,
}

impl ThinkTime {
    /// Makes the file, which must not be there: nothing spent, and a clock at 0 ns.
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

    /// Nanoseconds spent since the file was made.
    #[must_use]
    pub fn spent_ns(&self) -> u64 {
        self.numbers.get(SPENT).map_or(0, |number| number.load(Ordering::Acquire))
    }

    /// How much of what was spent was pauses.
    #[must_use]
    pub fn paused_ns(&self) -> u64 {
        self.numbers.get(PAUSED).map_or(0, |number| number.load(Ordering::Acquire))
    }

    /// Says that the disk's clock shows `clock_ns`, of which `taken_ns` were spent.
    pub fn publish(&self, clock_ns: u64, taken_ns: u64) {
        if let Some(number) = self.numbers.get(REST) {
            number.store(clock_ns.wrapping_sub(taken_ns), Ordering::Release);
        }
    }
}

/// The side that works on the disk.
#[derive(Debug)]
pub struct ThinkTimeSpender {
    numbers: MappedNumbers,
}

impl ThinkTimeSpender {
    /// Opens what a disk's server made.
    ///
    /// # Errors
    /// There is none, others may write to it, or it is something else.
    pub fn open(path: &Path) -> Result<Self> {
        let file = crate::input::open_trusted_to_change(path).map_err(Error::path("open", path))?;
        let length = file.metadata().map_err(Error::path("fstat", path))?.len();
        if length != LENGTH as u64 {
            return Err(Error::Malformed { call: "fstat", what: "think time is a file of 24 bytes" });
        }
        Ok(Self { numbers: MappedNumbers::writable(&file, LENGTH)? })
    }

    /// Lets so many nanoseconds pass on the disk's clock.
    #[inline]
    pub fn spend(&self, ns: u64) {
        if let Some(number) = self.numbers.get(SPENT) {
            number.fetch_add(ns, Ordering::AcqRel);
        }
    }

    /// Lets so many nanoseconds pass in which nothing is done.
    pub fn pause(&self, ns: u64) {
        if let Some(number) = self.numbers.get(PAUSED) {
            number.fetch_add(ns, Ordering::AcqRel);
        }
        self.spend(ns);
    }

    /// The disk's clock, with everything that was spent.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        let read = |index| self.numbers.get(index).map_or(0, |number| number.load(Ordering::Acquire));
        let rest = read(REST);
        rest.wrapping_add(read(SPENT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_passes_at_once_and_is_taken_in_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("think");
        let disk = ThinkTime::create(&path).unwrap();
        let load = ThinkTimeSpender::open(&path).unwrap();
        assert_eq!(load.now_ns(), 0);
        load.spend(70);
        assert_eq!((load.now_ns(), disk.spent_ns()), (70, 70));
        // The disk takes the 70 in and serves a request for 30.
        disk.publish(100, 70);
        assert_eq!(load.now_ns(), 100);
        load.spend(5);
        assert_eq!((load.now_ns(), disk.spent_ns()), (105, 75));
        disk.publish(105, 75);
        assert_eq!(load.now_ns(), 105);
        load.pause(1_000);
        assert_eq!((load.now_ns(), disk.spent_ns(), disk.paused_ns()), (1105, 1075, 1000));
    }

    #[test]
    fn more_may_be_spent_than_the_clock_showed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("think");
        let disk = ThinkTime::create(&path).unwrap();
        let load = ThinkTimeSpender::open(&path).unwrap();
        load.spend(1000);
        // What a run before this one spent is no time of this clock.
        disk.publish(10, disk.spent_ns());
        assert_eq!(load.now_ns(), 10);
    }

    #[test]
    fn only_what_a_server_made_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("think");
        assert!(ThinkTimeSpender::open(&path).is_err());
        std::fs::write(&path, [0; 8]).unwrap();
        assert!(matches!(ThinkTimeSpender::open(&path), Err(Error::Malformed { .. })));
        assert!(ThinkTime::create(&path).is_err());
        std::fs::write(&path, [0; LENGTH]).unwrap();
        assert!(ThinkTimeSpender::open(&path).is_ok());
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o646)).unwrap();
        assert!(ThinkTimeSpender::open(&path).is_err());
    }
}
