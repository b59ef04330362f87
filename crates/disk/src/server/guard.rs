//! What keeps the server from waiting for itself.

use std::fs;
use std::io;

use fsage_sys::memory_group::{Limited, limit_of_self};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::configure_io_flusher_behavior;

/// Why the server refuses to run.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// When the group is full the kernel makes its members wait until dirty pages are written back. Pages that are
    /// dirty on the server's own disk can only be written by the server: it would wait for itself, and the load with it.
    #[error(
        "this process is in the control group {}, whose {} is {} bytes: when it is full, the server would deadlock",
        .0.group.display(), .0.file, .0.bytes
    )]
    MemoryLimit(Limited),
    /// Without this a page of the server could be paged out to what it serves.
    #[error("cannot lock the server in memory")]
    Lock(#[source] io::Error),
}

impl GuardError {
    /// The next step for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::MemoryLimit(limited) => format!(
                "start it outside: echo $$ > {}/cgroup.procs, then again; the load may stay in the group",
                limited.root.display()
            ),
            Self::Lock(_) => "run it as root, or raise the limit: ulimit -l unlimited".to_owned(),
        }
    }
}

/// Puts up the guards. What only helps, and was not permitted, is returned in words.
///
/// # Errors
/// As [`GuardError`].
pub(super) fn raise() -> Result<Vec<String>, GuardError> {
    if let Some(limited) = limit_of_self() {
        return Err(GuardError::MemoryLimit(limited));
    }
    // ONFAULT: a sparse arena of terabytes is only locked where it was written.
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    mlockall(flags).map_err(|errno| GuardError::Lock(errno.into()))?;
    let mut notes = Vec::new();
    if let Err(errno) = configure_io_flusher_behavior(true) {
        notes.push(format!("not permitted to be an I/O flusher (CAP_SYS_RESOURCE): {errno}"));
    }
    if let Err(error) = fs::write("/proc/self/oom_score_adj", "-1000") {
        notes.push(format!("not safe from the out-of-memory killer: {error}"));
    }
    Ok(notes)
}
