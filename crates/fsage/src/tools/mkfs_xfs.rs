//! `mkfs.xfs` (xfsprogs).

use std::time::Duration;

use super::{Program, Version};

/// The program.
pub static PROGRAM: Program = Program {
    name: "mkfs.xfs",
    package: "xfsprogs",
    purpose: "make xfs",
    version_arguments: &["-V"],
    parse_version,
    time_limit: Duration::from_secs(3600),
};

/// Reads `mkfs.xfs version 6.1.0`.
#[must_use]
pub fn parse_version(output: &str) -> Option<Version> {
    Version::after(output, "mkfs.xfs version ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let read = |text| parse_version(text).map(|v| v.to_string());
        assert_eq!(read("mkfs.xfs version 6.1.0\n").as_deref(), Some("6.1.0"), "Debian 12");
        assert_eq!(read("mkfs.xfs version 4.5.0\n").as_deref(), Some("4.5.0"), "CentOS 7");
        assert_eq!(read("mkfs.xfs version 5.13.0-rc1\n").as_deref(), Some("5.13.0"));
        assert_eq!(read("Usage: mkfs.xfs\n/* blocksize */ [-b size=num]"), None);
    }
}
