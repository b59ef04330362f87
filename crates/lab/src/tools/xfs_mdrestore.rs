//! `xfs_mdrestore` (xfsprogs): makes a volume from what `xfs_metadump` wrote.

use std::time::Duration;

use super::{Invocation, Program};

/// The program.
pub static PROGRAM: Program = Program::new("xfs_mdrestore", Duration::from_secs(12 * 3600));

/// Makes `volume`, a sparse file, from `image`.
#[must_use]
pub fn restore(image: &str, volume: &str) -> Invocation {
    PROGRAM.invoke(vec![image.into(), volume.into()])
}
