//! The kernel's switch for FUSE over io_uring, off by default: on while a mount is made, then as it was.
//!
//! Servers that start side by side take turns by a lock, or the second would take the first one's setting for
//! the administrator's. It lies where only root can open it: anybody may lock a file that he can read. Before it is changed, its old value is written to a record
//! beside the server's other files; anyone who cleans up after a server that was killed in this moment puts
//! it back ([`restore`]).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsage_sys::folder::Folder;
use fsage_sys::input;
use fsage_sys::new_file::{self, Readers};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// Where the lock is; only root can change the switch, and only root writes here.
const LOCK_FOLDER: &str = "/run";
const LOCK: &str = "fsage-fuse-uring.lock";
/// Longest wait for the lock. A server holds it for the time of one mount.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// The switch while it is on because of us.
#[derive(Debug)]
pub(super) struct UringSwitch {
    /// What to write back, and where that is noted; nothing when it was on.
    before: Option<(String, PathBuf)>,
    _lock: Option<File>,
}

impl UringSwitch {
    /// Switches it on, if there is one and we may. Otherwise the kernel does not offer io_uring, and that is
    /// all.
    pub fn on(record: &Path) -> Self {
        Self::try_on(record).unwrap_or(Self { before: None, _lock: None })
    }

    fn try_on(record: &Path) -> io::Result<Self> {
        // Without one there is nothing to lock for.
        File::open(SWITCH)?;
        let lock = lock()?;
        let value = fs::read_to_string(SWITCH)?.trim().to_owned();
        let mut switch = Self { before: None, _lock: Some(lock) };
        if value != "Y" {
            new_file::write(record, value.as_bytes(), Readers::Owner)?;
            switch.before = Some((value, record.to_owned()));
            fs::write(SWITCH, "Y")?;
        }
        Ok(switch)
    }
}

fn lock() -> io::Result<File> {
    let file = Folder::open(Path::new(LOCK_FOLDER))?.open_own(LOCK.as_ref(), false, 0o600)?;
    let begun = Instant::now();
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_WAIT => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

impl Drop for UringSwitch {
    fn drop(&mut self) {
        if let Some((value, record)) = self.before.take()
            && fs::write(SWITCH, value).is_ok()
        {
            let _ = fs::remove_file(record);
        }
    }
}

/// Puts the switch back as a record says, and removes the record. None is fine.
///
/// # Errors
/// When it cannot be done.
pub fn restore(record: &Path) -> io::Result<()> {
    let value = match input::read_trusted(record, 16) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    // Killed before it was written: nothing had been changed then.
    if matches!(value.as_slice(), b"N" | b"Y") {
        fs::write(SWITCH, value)?;
    }
    fs::remove_file(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_locks_the_switch_itself_stops_nobody() {
        let Ok(other) = File::open(SWITCH) else { return };
        flock(&other, FlockOperation::LockExclusive).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        drop(UringSwitch::on(&directory.path().join("record")));
        assert!(begun.elapsed() < LOCK_WAIT);
    }

    #[test]
    fn the_switch_is_put_back() {
        let directory = tempfile::tempdir().unwrap();
        let record = directory.path().join("record");
        let Ok(before) = fs::read_to_string(SWITCH) else { return };
        let switch = UringSwitch::on(&record);
        drop(switch);
        assert_eq!(fs::read_to_string(SWITCH).unwrap(), before);
        assert!(!record.exists());
        restore(&record).unwrap();
        // A record that is empty says that nothing was done.
        fs::write(&record, "").unwrap();
        restore(&record).unwrap();
        assert!(!record.exists());
        assert_eq!(fs::read_to_string(SWITCH).unwrap(), before);
    }
}
