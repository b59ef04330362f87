//! `e2fsck` (e2fsprogs): checks ext2, ext3 and ext4, here always read-only (`-n`) and in full (`-f`).

use std::time::Duration;

use super::{Invocation, Program};

/// The program.
pub static PROGRAM: Program = Program::new("e2fsck", Duration::from_secs(4 * 3600));

/// A full check of `device` that changes nothing.
#[must_use]
pub fn check(device: &str) -> Invocation {
    PROGRAM.invoke(vec!["-f".into(), "-n".into(), device.into()])
}
