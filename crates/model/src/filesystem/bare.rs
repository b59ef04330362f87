//! No file system: the bare device, the baseline of what a file system costs.

use super::{FileSystemFacts, Ink};

/// The bare device. It has neither magic nor label, is made by nothing and cannot be mounted.
pub static BARE: FileSystemFacts = FileSystemFacts {
    ink: Some(Ink::new("#555f6d", "#aab4c0", "hourglass", "longdash")),
    ..FileSystemFacts::unknown("bare")
};
