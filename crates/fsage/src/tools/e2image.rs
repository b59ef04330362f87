//! `e2image` (e2fsprogs): metadata of ext2, ext3 and ext4, as QCOW2 or as a sparse raw file.

use std::time::Duration;

use super::{Invocation, Program, Version};

/// The program.
pub static PROGRAM: Program = Program {
    name: "e2image",
    package: "e2fsprogs",
    purpose: "export and import ext metadata images",
    version_arguments: &["-V"],
    parse_version,
    time_limit: Duration::from_secs(12 * 3600),
};

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

/// Reads `e2image 1.47.0 (5-Feb-2023)`.
#[must_use]
pub fn parse_version(output: &str) -> Option<Version> {
    Version::after(output, "e2image ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let read = |text| parse_version(text).map(|v| v.to_string());
        assert_eq!(
            read("e2image 1.47.0 (5-Feb-2023)\n\tUsing EXT2FS Library").as_deref(),
            Some("1.47.0"),
            "Debian 12"
        );
        assert_eq!(read("e2image 1.42.9 (28-Dec-2013)\n").as_deref(), Some("1.42.9"), "CentOS 7");
        assert_eq!(read(""), None);
    }
}
