//! `mke2fs` (e2fsprogs): makes ext2, ext3 and ext4.

use std::time::Duration;

use super::Program;

/// The program.
pub static PROGRAM: Program = Program::new("mke2fs", Duration::from_secs(3600));
