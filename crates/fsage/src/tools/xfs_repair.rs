//! `xfs_repair` (xfsprogs): here always read-only (`-n`).
//!
//! Exit status with `-n`: 0 clean, 1 corruption found, 2 the log must be replayed first (not unmounted cleanly).

use std::time::Duration;

use super::{Invocation, Program, Version};

/// The program.
pub static PROGRAM: Program = Program {
    name: "xfs_repair",
    package: "xfsprogs",
    purpose: "check xfs",
    version_arguments: &["-V"],
    parse_version,
    time_limit: Duration::from_secs(4 * 3600),
};

/// A check of `device` that changes nothing.
#[must_use]
pub fn check(device: &str) -> Invocation {
    PROGRAM.invoke(vec!["-n".into(), device.into()])
}

/// Reads `xfs_repair version 6.1.0`.
#[must_use]
pub fn parse_version(output: &str) -> Option<Version> {
    Version::after(output, "xfs_repair version ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let read = |text| parse_version(text).map(|v| v.to_string());
        assert_eq!(read("xfs_repair version 6.1.0\n").as_deref(), Some("6.1.0"), "Debian 12");
        assert_eq!(read("xfs_repair version 4.5.0\n").as_deref(), Some("4.5.0"), "CentOS 7");
        assert_eq!(read("xfs_repair: not found"), None);
    }
}
