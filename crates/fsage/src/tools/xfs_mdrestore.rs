//! `xfs_mdrestore` (xfsprogs): makes a volume from what `xfs_metadump` wrote.

use std::time::Duration;

use super::{Invocation, Program, Version};

/// The program.
pub static PROGRAM: Program = Program {
    name: "xfs_mdrestore",
    package: "xfsprogs",
    purpose: "import xfs metadata images",
    version_arguments: &["-V"],
    parse_version,
    time_limit: Duration::from_secs(12 * 3600),
};

/// Makes `volume`, a sparse file, from `image`.
#[must_use]
pub fn restore(image: &str, volume: &str) -> Invocation {
    PROGRAM.invoke(vec![image.into(), volume.into()])
}

/// Reads `xfs_mdrestore version 6.1.0`.
#[must_use]
pub fn parse_version(output: &str) -> Option<Version> {
    Version::after(output, "xfs_mdrestore version ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let read = |text| parse_version(text).map(|v| v.to_string());
        assert_eq!(read("xfs_mdrestore version 6.1.0\n").as_deref(), Some("6.1.0"), "Debian 12");
        assert_eq!(read("xfs_mdrestore version 4.5.0\n").as_deref(), Some("4.5.0"), "CentOS 7");
        assert_eq!(read("Usage: xfs_mdrestore"), None);
    }
}
