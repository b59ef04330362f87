//! `btrfs-image` (btrfs-progs): metadata of btrfs, there and back. Versions up to 6.2 at least do not tell theirs.

use std::time::Duration;

use super::{Invocation, Program, Version};

/// The program.
pub static PROGRAM: Program = Program {
    name: "btrfs-image",
    package: "btrfs-progs",
    purpose: "export and import btrfs metadata images",
    version_arguments: &["--version"],
    parse_version,
    time_limit: Duration::from_secs(12 * 3600),
};

/// Writes the metadata of `volume` to `image`, compressed.
#[must_use]
pub fn dump(volume: &str, image: &str) -> Invocation {
    PROGRAM.invoke(vec!["-c".into(), "6".into(), volume.into(), image.into()])
}

/// Makes `volume`, a sparse file, from `image`.
#[must_use]
pub fn restore(image: &str, volume: &str) -> Invocation {
    PROGRAM.invoke(vec!["-r".into(), image.into(), volume.into()])
}

/// Reads `btrfs-image, part of btrfs-progs v6.7`; `None` from one that does not tell.
#[must_use]
pub fn parse_version(output: &str) -> Option<Version> {
    Version::after(output, "btrfs-progs v")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_version() {
        let read = |text| parse_version(text).map(|v| v.to_string());
        let debian_12 =
            "btrfs-image: unrecognized option '--version'\nusage: btrfs-image [options] source target\n";
        assert_eq!(read(debian_12), None, "of 6.2: it does not tell");
        assert_eq!(
            read("btrfs-image, part of btrfs-progs v6.7\n").as_deref(),
            Some("6.7"),
            "as its siblings do"
        );
    }
}
