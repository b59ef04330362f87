//! What the kernel has of a layer between drives and a file system, as it is known by its name.

use serde::{Deserialize, Serialize};

/// Kind of a device that a layer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerDevice {
    /// One of the device mapper's (dm-stripe, dm-crypt, …), by its name.
    Mapped,
    /// An array of the driver for several devices (md), by the name in its superblock.
    Array,
    /// A volume group of LVM with its logical volume.
    VolumeGroup,
}

/// How the names of layers begin.
const PREFIX: &str = "fsage-";

/// Name of the layer of this number on the disk that is known by `disk`, 16 hexadecimal digits.
#[must_use]
pub fn name(disk: &str, number: usize) -> String {
    format!("{PREFIX}{disk}-{number}")
}

/// Whether fsage can have given a layer this name: [`name`], and after it what tells parts of one layer apart.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(disk, number)| {
        let digits = number.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
        disk.len() == 16
            && disk.bytes().all(|byte| byte.is_ascii_hexdigit())
            && (1..=4).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && number.len() <= 16
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_fsage_names_is_a_name() {
        assert!(is_name(&name("0123456789abcdef", 3)) && is_name("fsage-0123456789abcdef-12pool"));
        for wrong in [
            "",
            "fsage-",
            "root",
            "fsage-0123456789abcdef",
            "fsage-0123456789abcdef-",
            "fsage-0123456789abcdef-x",
            "fsage-0123456789abcdef-1/..",
            "fsage-0123456789abcdef-1 x",
            "fsage-0123456789abcde-1",
            "fsage-0123456789abcdeg-1",
            "--force",
        ] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }
}
