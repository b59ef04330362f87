//! `blkdiscard` (util-linux): writes zeros to a device.

use std::path::Path;

use super::{Invocation, MAKING_LAYER, Program};

/// The program.
pub static PROGRAM: Program = Program::new("blkdiscard", MAKING_LAYER);

/// Writes zeros to the first so many bytes, or to all of it.
#[must_use]
pub fn zero(device: &Path, length_bytes: Option<u64>) -> Invocation {
    let mut words = vec!["--force".to_owned(), "--zeroout".to_owned()];
    if let Some(bytes) = length_bytes {
        words.extend(["--length".to_owned(), bytes.to_string()]);
    }
    words.push(device.display().to_string());
    PROGRAM.invoke(words)
}
