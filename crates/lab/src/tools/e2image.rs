//! `e2image` (e2fsprogs): metadata of ext2, ext3 and ext4, as QCOW2 or as a sparse raw file.

use std::time::Duration;

use super::{Invocation, Program};

/// The program.
pub static PROGRAM: Program = Program::new("e2image", Duration::from_secs(12 * 3600));

/// Writes the metadata of `volume` to `image` as QCOW2.
#[must_use]
pub fn dump(volume: &str, image: &str) -> Invocation {
    PROGRAM.invoke(vec!["-Q".into(), volume.into(), image.into()])
}

/// Makes `volume`, a sparse file, from `image`, QCOW2 or raw: metadata in its place, holes for data.
#[must_use]
pub fn restore(image: &str, volume: &str) -> Invocation {
    PROGRAM.invoke(vec!["-r".into(), image.into(), volume.into()])
}
