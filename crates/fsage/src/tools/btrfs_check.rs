//! `btrfs check` (btrfs-progs): here always read-only.

use std::time::Duration;

use super::{Invocation, Program, Version};

/// The program.
pub static PROGRAM: Program = Program {
    name: "btrfs",
    package: "btrfs-progs",
    purpose: "check btrfs",
    version_arguments: &["--version"],
    parse_version,
    time_limit: Duration::from_secs(4 * 3600),
};

/// A check of `device` that changes nothing.
#[must_use]
pub fn check(device: &str) -> Invocation {
    PROGRAM.invoke(vec!["check".into(), "--readonly".into(), device.into()])
}

/// The version of any program of btrfs-progs: `btrfs-progs v6.2` (newer releases add lines about what was compiled in),
/// `mkfs.btrfs, part of btrfs-progs v6.2`, and the older `Btrfs v3.12` and `Btrfs v0.20-rc1`.
#[must_use]
pub fn parse_version(output: &str) -> Option<Version> {
    Version::after(output, "btrfs-progs ").or_else(|| Version::after(output, "Btrfs "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let read = |text| parse_version(text).map(|v| v.to_string());
        let newer = "btrfs-progs v6.6.3\n+EXPERIMENTAL -INJECT -STATIC +LZO +ZSTD +UDEV +FSVERITY +ZONED CRYPTO=builtin\n";
        assert_eq!(read("btrfs-progs v6.2 \n").as_deref(), Some("6.2"), "Debian 12");
        assert_eq!(read(newer).as_deref(), Some("6.6.3"), "Ubuntu 24.04");
        assert_eq!(read("Btrfs v3.12\n").as_deref(), Some("3.12"), "Ubuntu 14.04");
        assert_eq!(read("usage: btrfs"), None);
    }
}
