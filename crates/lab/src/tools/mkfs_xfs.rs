//! `mkfs.xfs` (xfsprogs).

use std::time::Duration;

use super::Program;

/// The program.
pub static PROGRAM: Program = Program::new("mkfs.xfs", Duration::from_secs(3600));
