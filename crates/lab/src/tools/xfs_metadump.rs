//! `xfs_metadump` (xfsprogs): metadata of xfs; names are obfuscated, as is its default.

use std::time::Duration;

use super::{Invocation, Program};

/// The program.
pub static PROGRAM: Program = Program::new("xfs_metadump", Duration::from_secs(12 * 3600));

/// Writes the metadata of `volume`, a file, to `image`.
#[must_use]
pub fn dump(volume: &str, image: &str) -> Invocation {
    PROGRAM.invoke(vec!["-f".into(), volume.into(), image.into()])
}
