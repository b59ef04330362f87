//! `btrfs-image` (btrfs-progs): metadata of btrfs, there and back. Versions up to 6.2 at least do not tell
//! theirs.

use std::time::Duration;

use super::{Invocation, Program};

/// The program.
pub static PROGRAM: Program = Program::new("btrfs-image", Duration::from_secs(12 * 3600));

/// Writes the metadata of `volume` to `image`, compressed.
#[must_use]
pub fn dump(volume: &str, image: &str) -> Invocation {
    PROGRAM.invoke(vec!["-c".into(), "6".into(), volume.into(), image.into()])
}

/// Makes `volume`, a sparse file, from `image`.
#[must_use]
pub fn restore(image: &str, volume: &str) -> Invocation {
    PROGRAM.invoke(vec!["-r".into(), image.into(), volume.into()])
}
