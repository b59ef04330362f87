//! `xfs_metadump` (xfsprogs): metadata of xfs; names are obfuscated, as is its default.

use std::time::Duration;

use super::{Invocation, Program, Version};

/// The program.
pub static PROGRAM: Program = Program {
    name: "xfs_metadump",
    package: "xfsprogs",
    purpose: "export xfs metadata images",
    version_arguments: &["-V"],
    parse_version,
    time_limit: Duration::from_secs(12 * 3600),
};

/// Writes the metadata of `volume`, a file, to `image`.
#[must_use]
pub fn dump(volume: &str, image: &str) -> Invocation {
    PROGRAM.invoke(vec!["-f".into(), volume.into(), image.into()])
}

/// Reads `xfs_metadump version 6.1.0`.
#[must_use]
pub fn parse_version(output: &str) -> Option<Version> {
    Version::after(output, "xfs_metadump version ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let read = |text| parse_version(text).map(|v| v.to_string());
        assert_eq!(read("xfs_metadump version 6.1.0\n").as_deref(), Some("6.1.0"), "Debian 12");
        assert_eq!(read("xfs_metadump version 4.5.0\n").as_deref(), Some("4.5.0"), "an older one");
        assert_eq!(read("Usage: xfs_metadump"), None);
    }
}
