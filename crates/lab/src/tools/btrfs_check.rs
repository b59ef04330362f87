//! `btrfs check` (btrfs-progs): here always read-only.

use std::time::Duration;

use super::{Invocation, Program};

/// The program.
pub static PROGRAM: Program = Program::new("btrfs", Duration::from_secs(4 * 3600));

/// A check of `device` that changes nothing.
#[must_use]
pub fn check(device: &str) -> Invocation {
    PROGRAM.invoke(vec!["check".into(), "--readonly".into(), device.into()])
}
