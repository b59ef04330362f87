//! `mkfs.btrfs` (btrfs-progs).

use std::time::Duration;

use super::Program;
use super::btrfs_check::parse_version;

/// The program.
pub static PROGRAM: Program = Program {
    name: "mkfs.btrfs",
    package: "btrfs-progs",
    purpose: "make btrfs",
    version_arguments: &["--version"],
    parse_version,
    time_limit: Duration::from_secs(3600),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let read = |text| parse_version(text).map(|v| v.to_string());
        assert_eq!(read("mkfs.btrfs, part of btrfs-progs v6.2\n").as_deref(), Some("6.2"), "Debian 12");
        assert_eq!(read("mkfs.btrfs, part of btrfs-progs v4.9.1\n").as_deref(), Some("4.9.1"), "CentOS 7");
        assert_eq!(read("mkfs.btrfs, part of Btrfs v3.12\n").as_deref(), Some("3.12"), "Ubuntu 14.04");
        assert_eq!(read("usage: mkfs.btrfs [options] <dev>"), None);
    }
}
