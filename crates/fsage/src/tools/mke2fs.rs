//! `mke2fs` (e2fsprogs): makes ext2, ext3 and ext4.

use std::time::Duration;

use super::{Program, Version};

/// The program.
pub static PROGRAM: Program = Program {
    name: "mke2fs",
    package: "e2fsprogs",
    purpose: "make ext2, ext3 and ext4",
    version_arguments: &["-V"],
    parse_version,
    time_limit: Duration::from_secs(3600),
};

/// Reads `mke2fs 1.47.0 (5-Feb-2023)`.
#[must_use]
pub fn parse_version(output: &str) -> Option<Version> {
    Version::after(output, "mke2fs ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let debian_12 = "mke2fs 1.47.0 (5-Feb-2023)\n\tUsing EXT2FS Library version 1.47.0\n";
        let centos_7 = "mke2fs 1.42.9 (28-Dec-2013)\n\tUsing EXT2FS Library version 1.42.9\n";
        let work_in_progress = "mke2fs 1.43-WIP (18-May-2015)\n\tUsing EXT2FS Library version 1.43-WIP\n";
        assert_eq!(parse_version(debian_12).map(|v| v.to_string()).as_deref(), Some("1.47.0"));
        assert_eq!(parse_version(centos_7).map(|v| v.to_string()).as_deref(), Some("1.42.9"));
        assert_eq!(parse_version(work_in_progress).map(|v| v.to_string()).as_deref(), Some("1.43"));
        assert_eq!(parse_version("mke2fs: command not found"), None);
    }
}
