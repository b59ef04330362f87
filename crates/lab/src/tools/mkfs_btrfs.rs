//! `mkfs.btrfs` (btrfs-progs).

use std::time::Duration;

use super::Program;

/// The program.
pub static PROGRAM: Program = Program::new("mkfs.btrfs", Duration::from_secs(3600));
