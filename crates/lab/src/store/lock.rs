//! One run at a time writes to a store: `flock` on `lock`, which also says who holds it.
//!
//! The kernel releases the lock when its holder dies, so a lock file that is left behind locks nothing.

use std::fs::{File, Permissions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::file::{failed, folder};
use crate::time::now_rfc3339;

/// Most bytes that are read to tell who holds it.
const HOLDER_BYTES: u64 = 4096;

/// Who holds a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    pid: u32,
    host: String,
    since: String,
}

/// A held lock; released when dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing would not do while a child that was just forked still has the file open.
        let _ = self.file.unlock();
    }
}

impl Lock {
    /// Takes the lock of a store.
    ///
    /// # Errors
    /// [`StoreError::Locked`] with the holder.
    pub fn take(root: &Path) -> Result<Self, StoreError> {
        let path = root.join("lock");
        let folder = folder(root, &[])?;
        // For its owner alone: anyone who may open it may hold it locked for ever.
        let mut file =
            folder.open_own("lock".as_ref(), false, 0o600).map_err(|e| failed("open", &path, e))?;
        restrict(&file).map_err(|e| failed("use", &path, e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { path: root.to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(e)) => return Err(failed("lock", &path, e)),
        }
        let holder = Holder { pid: std::process::id(), host: host_name(), since: now_rfc3339() };
        let text = serde_json::to_string(&holder).unwrap_or_default();
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()))
            .map_err(|e| failed("write", &path, e))?;
        Ok(Self { file })
    }
}

/// Closes a lock file of ours to others, such as one from before that was needed.
fn restrict(file: &File) -> io::Result<()> {
    let facts = file.metadata()?;
    if facts.mode() & 0o077 != 0 && facts.uid() == rustix::process::geteuid().as_raw() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(HOLDER_BYTES).read_to_string(&mut text);
    match read.ok().and_then(|_| serde_json::from_str::<Holder>(&text).ok()) {
        Some(Holder { pid, host, since }) => format!("pid {pid} on {host} since {since}"),
        None => "another process".to_owned(),
    }
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|h| h.trim().to_owned())
        .unwrap_or_else(|_| "this host".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_told_who_holds_it() {
        let directory = tempfile::tempdir().unwrap();
        let first = Lock::take(directory.path()).unwrap();
        let error = Lock::take(directory.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("locked by pid {} on ", std::process::id())), "{error}");
        assert!(error.contains(" since 20"), "{error}");
        drop(first);
        drop(Lock::take(directory.path()).unwrap());
    }

    #[test]
    fn a_lock_is_for_its_owner_alone_and_an_old_one_becomes_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        drop(Lock::take(directory.path()).unwrap());
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        drop(Lock::take(directory.path()).unwrap());
        assert_eq!(mode(), 0o600);
    }
}
