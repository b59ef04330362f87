//! `xfs_repair` (xfsprogs): here always read-only (`-n`).
//!
//! Exit status with `-n`: 0 clean, 1 corruption found, 2 the log must be replayed first (not unmounted
//! cleanly).

use std::time::Duration;

use super::{Invocation, Program};

/// The program.
pub static PROGRAM: Program = Program::new("xfs_repair", Duration::from_secs(4 * 3600));

/// A check of `device` that changes nothing.
#[must_use]
pub fn check(device: &str) -> Invocation {
    PROGRAM.invoke(vec!["-n".into(), device.into()])
}
