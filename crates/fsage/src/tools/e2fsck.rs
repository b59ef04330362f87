//! `e2fsck` (e2fsprogs): checks ext2, ext3 and ext4, here always read-only (`-n`) and in full (`-f`).

use std::time::Duration;

use super::{Invocation, Program, Version};

/// The program.
pub static PROGRAM: Program = Program {
    name: "e2fsck",
    package: "e2fsprogs",
    purpose: "check ext2, ext3 and ext4",
    version_arguments: &["-V"],
    parse_version,
    time_limit: Duration::from_secs(4 * 3600),
};

/// A full check of `device` that changes nothing.
#[must_use]
pub fn check(device: &str) -> Invocation {
    PROGRAM.invoke(vec!["-f".into(), "-n".into(), device.into()])
}

/// Reads `e2fsck 1.47.0 (5-Feb-2023)`.
#[must_use]
pub fn parse_version(output: &str) -> Option<Version> {
    Version::after(output, "e2fsck ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let debian_12 = "e2fsck 1.47.0 (5-Feb-2023)\n\tUsing EXT2FS Library version 1.47.0, 5-Feb-2023\n";
        let centos_7 = "e2fsck 1.42.9 (28-Dec-2013)\n\tUsing EXT2FS Library version 1.42.9, 28-Dec-2013\n";
        assert_eq!(parse_version(debian_12).map(|v| v.to_string()).as_deref(), Some("1.47.0"));
        assert_eq!(parse_version(centos_7).map(|v| v.to_string()).as_deref(), Some("1.42.9"));
        assert_eq!(parse_version(""), None);
    }
}
